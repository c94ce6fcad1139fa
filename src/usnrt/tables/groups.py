"""Groups of rows that belong together: rows of one subject, and rows with equal features.

A model that has learnt one row of a patient, a shop or a design point knows more about the others than about a new one.
So all rows of a group are on one side of every split into training, validation and calibration rows, and a row is not
predicted by the memory of its own group: errors are then those of new groups.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.group_labels import GroupLabels, LabelSurvey, codes_of, read_labels
from usnrt.tables.rows import row_hashes
from usnrt.utils.names import need_column
from usnrt.utils.notices import GroupedRowsWarning, users_level
from usnrt.utils.types import Floats, Rows, TableLike

# With fewer different feature rows nearly every new row has the features of a training row, and a fifth of them would
# be too few to validate by: rows are then drawn one by one.
MIN_DISTINCT = 50
# Blocks that look like subjects: at least this many, of at least this many rows on average.
MIN_BLOCKS, MIN_BLOCK_ROWS = 10, 3


def read_groups(groups: Any, n_rows: int) -> Rows:
    """The group of each row as an integer, which depends on its label only; all of one type, none missing."""
    labels = groups if isinstance(groups, GroupLabels) else None
    if labels is None:
        given = np.asarray(groups)
        if given.shape != (n_rows,):
            raise ValueError(f"groups must have one label per row, shape ({n_rows},), got shape {given.shape}")
        labels = read_labels(given)
    survey = LabelSurvey()
    survey.add(labels)
    survey.check()
    return labels.codes


def groups_and_table(X: TableLike, groups: Any) -> tuple[Any, Any]:
    """The table without the column that ``groups`` names, and the groups; both unchanged if they are an array.

    Examples
    --------
    >>> import pandas as pd
    >>> X, groups = groups_and_table(pd.DataFrame({"shop": [1, 2], "size": [3.0, 4.0]}), "shop")
    >>> list(X.columns), groups.tolist()
    (['size'], [1, 2])
    """
    if not isinstance(groups, str):
        return X, groups
    names = getattr(X, "column_names", getattr(X, "columns", None))  # of a pyarrow table, of a data frame
    if names is None:
        raise ValueError(f"groups must be an array if X has no column names, got {groups!r}")
    need_column([str(name) for name in names], groups, "X")
    return X.drop(columns=[groups]) if hasattr(X, "iloc") else X.drop(groups), X[groups].to_numpy()


def feature_groups(raw: Floats) -> Rows | None:
    """Groups of rows with equal features; None if all differ, or if there are too few different ones."""
    codes = feature_codes(raw)
    return codes if MIN_DISTINCT <= len(np.unique(codes)) < len(raw) else None


def stored_groups(raw: Floats) -> Rows | None:
    """`feature_codes` of all rows of a store, even if all differ; None if there are too few different ones."""
    codes = feature_codes(raw)
    return codes if len(np.unique(codes)) >= MIN_DISTINCT else None


def feature_codes(raw: Floats) -> Rows:
    """Codes of groups (`usnrt.tables.group_labels`) of rows with equal features, shape (n,)."""
    return codes_of(row_hashes(raw, np.zeros(len(raw))))


def draw_groups(group: Rows | None, n_drawn: int, n_rows: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mark whole groups, drawn at random, of about ``n_drawn`` rows together; single rows without groups."""
    is_drawn = np.zeros(n_rows, dtype=bool)
    if group is None:
        is_drawn[rng.permutation(n_rows)[:n_drawn]] = True
        return is_drawn
    if n_drawn == 0:
        return is_drawn
    index = np.unique(group, return_inverse=True)[1]
    sizes = np.bincount(index)
    order = rng.permutation(len(sizes))
    return np.isin(index, order[: leading_groups(sizes[order], n_drawn)])


def leading_groups(sizes: NDArray[np.integer[Any]], n_drawn: float) -> int:
    """How many of the first groups have about ``n_drawn`` rows together: at least one, unless none would be left.

    Examples
    --------
    >>> leading_groups(np.array([3, 3, 3]), 5), leading_groups(np.array([9, 1]), 2), leading_groups(np.array([5]), 2)
    (2, 1, 0)
    """
    if n_drawn == 0:
        return 0
    middles = np.cumsum(sizes) - sizes / 2.0
    return min(max(int((middles <= n_drawn).sum()), 1), len(sizes) - 1)


def design_effect(values: Floats, group: Rows) -> float:
    """By how much the variance of a mean is larger than that of independent rows (Kish), at least 1.

    It is 1 + (m - 1) r, where m is the mean size of a row's group and r the `group_correlation`.
    """
    size = np.unique(group, return_counts=True)[1]
    if len(size) < 2 or len(size) == len(values):
        return 1.0
    return 1.0 + (float(size @ size) / len(values) - 1.0) * group_correlation(values, group)


def group_correlation(values: Floats, group: Rows) -> float:
    """Correlation of values within groups by an analysis of variance, at least 0; 1 if nothing can be compared."""
    index = np.unique(group, return_inverse=True)[1]
    size = np.bincount(index)
    n, n_groups = len(values), len(size)
    if n_groups < 2 or n_groups == n:
        return 1.0
    mean = np.bincount(index, weights=values) / size
    between = float(size @ (mean - values.mean()) ** 2) / (n_groups - 1)
    within = float(((values - mean[index]) ** 2).sum()) / (n - n_groups)
    row_size = float(size @ size) / n
    typical_size = (n - row_size) / (n_groups - 1)
    total = between + (typical_size - 1.0) * within
    return max((between - within) / total, 0.0) if total > 0.0 else 0.0


def warn_of_blocks(raw: Floats, names: list[str]) -> None:
    """Warn if most columns are constant within blocks of rows, as those of repeated subjects are.

    Columns that repeat their values are put together: the attributes of subjects have as many combinations as there are
    subjects, independent columns have more. Rows are in random order.
    """
    n, d = raw.shape
    distinct = np.array([len(np.unique(raw[:, j])) for j in range(d)])
    shared = np.flatnonzero((distinct > 1) & (distinct * MIN_BLOCK_ROWS <= n))
    if len(shared) < 2 or 2 * len(shared) <= d or len(shared) == d:
        return
    n_blocks = len(np.unique(row_hashes(raw[:, shared], np.zeros(n))))
    if n_blocks < MIN_BLOCKS or n_blocks * MIN_BLOCK_ROWS > n:
        return
    # Of a hierarchy, such as city, region and country, one column determines the others; of subjects several could.
    if np.log(distinct[shared]).sum() < 1.75 * np.log(n_blocks):
        return
    # Rows are in the order of hashes, so columns that are shifted against each other are independent.
    shifted = np.column_stack([np.roll(raw[:, j], k) for k, j in enumerate(shared)])
    if 2 * n_blocks > len(np.unique(row_hashes(shifted, np.zeros(n)))):
        return
    listed = ", ".join(repr(names[j]) for j in shared[:5]) + (", ..." if len(shared) > 5 else "")
    warnings.warn(
        f"the columns {listed} have only {n_blocks:,} combinations in {n:,} rows, as attributes of repeated subjects "
        "have: if the rows of a subject belong together, pass groups= to fit, or intervals are too narrow for new ones",
        GroupedRowsWarning,
        stacklevel=users_level(),
    )
