"""Warnings about results: not about how something was called, but about what an answer is worth.

The command and the report catch these and say them in their own words; in Python they are ordinary ``UserWarning``.
"""


class ResultWarning(UserWarning):
    """Something that a reader of a result should know."""


class InfiniteIntervalWarning(ResultWarning):
    """Intervals are infinite, because regions have too few calibration rows for the coverage asked for."""


class TrainingRowsWarning(ResultWarning):
    """A model is judged on rows that it was trained on."""
