"""Targets that are probably not what was meant: a row of totals, two values, a column that gives the target away.

Nothing is changed; each finding is one warning. All three are decided without the order of the rows.
"""

import warnings
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from usnrt.tables.columns import Column
from usnrt.utils.notices import MissingTargetWarning, SuspiciousTargetWarning, users_level
from usnrt.utils.types import Floats, Rows

MIN_ROWS = 20
# How often the largest target is the second largest: beyond 1,000 in one of a million samples of Student's t with two
# degrees of freedom, more rarely in lognormal ones.
OUTLYING = 1000.0
# Relative error within which the largest target is the sum of the others; totals are often rounded.
ROUNDED = 1e-4
# A column in the order of the target is a finding if less than one in a million random orders would be.
CHANCE = 1e-6
# Most columns are not in the order of the target in this many rows, so that the others are not looked at.
FIRST_ROWS = 64


def warn_of_target(target: Floats, raw: Floats, columns: Sequence[Column], rows: Rows) -> None:
    """Warn of a target that is probably not what was meant; ``rows`` are positions in the table that was given."""
    for sentence in (_total(target, rows), _two_values(target), _determined(target, raw, columns)):
        if sentence:
            warnings.warn(sentence, SuspiciousTargetWarning, stacklevel=users_level())


def _total(target: Floats, rows: Rows) -> str:
    """State that one target is the sum of the others, or a thousand times any of them."""
    if len(target) < MIN_ROWS:
        return ""
    size = np.abs(target)
    at = int(np.argmax(size))
    others = np.delete(target, at)
    second = float(np.abs(others).max())
    head = f"the target of row {rows[at]:,}, {target[at]:g}, is "
    if size[at] > 2 * second and np.isclose(target[at], others.sum(), rtol=ROUNDED, atol=0) and _are_several(others):
        return head + "the sum of all others: leave the row out if it holds totals"
    if second > 0 and size[at] >= OUTLYING * second:
        return head + f"{size[at] / second:,.0f} times the next largest: leave the row out if it is an error or a total"
    return ""


def _are_several(values: Floats) -> bool:
    return bool(np.count_nonzero(values) >= MIN_ROWS / 2)


def _two_values(target: Floats) -> str:
    """State that the target is a label of two classes."""
    low, high = float(target.min()), float(target.max())
    if len(target) < MIN_ROWS or low == high or not ((target == low) | (target == high)).all():
        return ""
    return f"the target has two values only, {low:g} and {high:g}: a classifier predicts their probabilities"


def _determined(target: Floats, raw: Floats, columns: Sequence[Column]) -> str:
    """State which columns of numbers have the order of the target, in every row and too exactly for chance."""
    if len(target) < MIN_ROWS:
        return ""
    found = [
        column.name
        for column, values in zip(columns, raw.T)
        if not column.is_categorical and _has_order(values[:FIRST_ROWS], target[:FIRST_ROWS]) and _gives(values, target)
    ]
    if not found:
        return ""
    names = ", ".join(map(repr, found[:3])) + (", ..." if len(found) > 3 else "")
    verb = "column {} determines" if len(found) == 1 else "columns {} determine"
    return verb.format(names) + " the target exactly: leave out what is not known before the target"


def _gives(values: Floats, target: Floats) -> bool:
    """Whether a column is known for most rows and has the order of the target there, beyond chance."""
    known = ~np.isnan(values)
    counts = np.unique(target[known], return_counts=True)[1]
    # of all orders of the targets, those that are sorted ones: upwards and downwards, equal targets in any order
    log_chance = np.log(2.0) + gammaln(counts + 1.0).sum() - gammaln(counts.sum() + 1.0)
    return bool(2 * counts.sum() > len(target) and log_chance < np.log(CHANCE) and _has_order(values, target))


def _has_order(values: Floats, target: Floats) -> bool:
    """Whether the target is a function of the values that never falls, or never rises; missing values are left out."""
    known = ~np.isnan(values)
    values, target = values[known], target[known]
    order = np.argsort(values)
    step, change = np.diff(values[order]), np.diff(target[order])
    if (change[step == 0] != 0).any():
        return False
    return bool((change >= 0).all() or (change <= 0).all())


def warn_of_left_out(count: int) -> None:
    """Warn of rows that were left out for lack of a target, if there are any."""
    if count:
        warnings.warn(left_out_sentence(count), MissingTargetWarning, stacklevel=users_level())


def left_out_sentence(count: int) -> str:
    """What is said of rows that have no target.

    Examples
    --------
    >>> left_out_sentence(1), left_out_sentence(1200)
    ('1 row without a target was left out', '1,200 rows without a target were left out')
    """
    rows = "1 row without a target was" if count == 1 else f"{count:,} rows without a target were"
    return f"{rows} left out"
