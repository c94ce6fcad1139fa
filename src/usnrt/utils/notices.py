"""Warnings about the validity of a result, as opposed to the way a function was called.

The command line and the report catch these and reword them; in Python they are ordinary ``UserWarning``.
"""

import sys
from pathlib import Path
from types import FrameType


class ResultWarning(UserWarning):
    """Base class: a caveat that belongs to a result."""


class UnguaranteedIntervalWarning(ResultWarning):
    """Intervals are taken from the predicted distribution, because regions have too few calibration rows."""


class InfiniteIntervalWarning(ResultWarning):
    """Intervals are infinite, because regions have too few calibration rows for the requested coverage."""


class TrainingRowsWarning(ResultWarning):
    """A model is evaluated or calibrated on rows that it was trained on."""


class AmbiguousDateWarning(ResultWarning):
    """Dates written as text could have day and month the other way round."""


class UnreadCellsWarning(ResultWarning):
    """Cells of a file are no values of their columns, and are missing values."""


class IgnoredColumnWarning(ResultWarning):
    """A column cannot help to predict new rows and is ignored."""


class GroupedRowsWarning(ResultWarning):
    """Rows look like repeated subjects, and no groups were given."""


class SuspiciousTargetWarning(ResultWarning):
    """The target is probably not what was meant: a row of totals, two values, or determined by a column."""


class MissingTargetWarning(ResultWarning):
    """Rows without a target are left out."""


class RoundedIntegersWarning(ResultWarning):
    """Integers are rounded, because they are beyond those that float64 holds exactly."""


class UnverifiedFileWarning(ResultWarning):
    """A file of a data set has no known checksum."""


def users_level() -> int:
    """The ``stacklevel`` with which a warning of the calling function points at the user's line, outside of usnrt."""
    package = str(Path(__file__).parent.parent)
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    return level


def share_text(share: float) -> str:
    """A share in whole percent; rounded neither to 0 nor to 100.

    Examples
    --------
    >>> share_text(0.345), share_text(0.0001), share_text(0.9999), share_text(1.0)
    ('34 %', '1 %', '99 %', '100 %')
    """
    if 0 < share < 1:
        share = min(max(share, 0.01), 0.99)
    return f"{100 * share:.0f} %"
