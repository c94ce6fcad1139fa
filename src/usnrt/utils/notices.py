"""Warnings about the validity of a result, as opposed to the way a function was called.

The command line and the report catch these and reword them; in Python they are ordinary ``UserWarning``.
"""

import sys
from pathlib import Path
from types import FrameType


class ResultWarning(UserWarning):
    """Base class: a caveat that belongs to a result."""


class InfiniteIntervalWarning(ResultWarning):
    """Intervals are infinite, because regions have too few calibration rows for the requested coverage."""


class TrainingRowsWarning(ResultWarning):
    """A model is evaluated on rows that it was trained on."""


class AmbiguousDateWarning(ResultWarning):
    """Dates written as text could have day and month the other way round."""


class IgnoredColumnWarning(ResultWarning):
    """A column cannot help to predict new rows and is ignored."""


class RoundedIntegersWarning(ResultWarning):
    """Integers are rounded, because they are beyond those that float64 holds exactly."""


def users_level() -> int:
    """The ``stacklevel`` with which a warning of the calling function points at the user's line, outside of usnrt."""
    package = str(Path(__file__).parent.parent)
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    return level
