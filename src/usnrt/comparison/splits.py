"""Which rows train and which rows test: at random, by groups, or by time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.columns import numbers_or_dates
from usnrt.tables.rows import row_hashes
from usnrt.utils.names import escaped
from usnrt.utils.types import Floats, Rows, TableLike


@dataclass(frozen=True)
class Splits:
    """Training and test rows of each fold; a row is a test row at most once."""

    folds: tuple[tuple[Rows, Rows], ...]  # training and test rows
    cluster: NDArray[np.intp]  # rows of one are not independent: copies of a row, a group, or neighbours in time
    how: str  # rows were chosen, in words

    @property
    def test_rows(self) -> Rows:
        """All test rows, fold by fold."""
        return np.concatenate([test for _, test in self.folds])

    @property
    def fold_of(self) -> Rows:
        """The fold of each of the test rows."""
        return np.repeat(np.arange(len(self.folds)), [len(test) for _, test in self.folds])


def random_splits(groups: NDArray[np.intp], folds: int, test_size: float, seed: int, what: str) -> Splits:
    """Splits at random that keep groups together: rows of one group are on one side of every split.

    ``what`` the groups are is said in words; it is empty if every row is its own group. Of a single split (``folds`` of
    1), ``test_size`` is the fraction of the test rows.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.comparison.splits import random_splits
    >>> splits = random_splits(np.array([0, 0, 1, 2, 2, 3]), 2, 0.25, 0, "groups")
    >>> [test.tolist() for _, test in splits.folds]
    [[0, 1, 3, 4], [2, 5]]
    """
    index = np.unique(groups, return_inverse=True)[1]
    n, sizes = len(groups), np.bincount(index)
    order = np.random.default_rng(seed).permutation(len(sizes))
    before = np.empty(len(sizes))
    before[order] = np.cumsum(sizes[order]) - sizes[order]
    if folds == 1:
        fold = np.where(before < test_size * n, 0, 1)[index]
    else:
        fold = (before * folds // n).astype(np.intp)[index]
    pairs = tuple((np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(folds))
    if any(len(train) < 2 or len(test) < 2 for train, test in pairs):
        raise ValueError(f"folds must leave at least 2 rows on each side, got folds={folds} for {len(sizes)} {what}")
    together = f"; {what} stay together" if what else ""
    how = "one random split" if folds == 1 else f"{folds}-fold cross-validation"
    return Splits(pairs, groups, how + together)


def time_splits(time: NDArray[Any], folds: int, test_size: float) -> Splits:
    """Splits by time: test rows are later than all training rows; rows of the same time are on one side.

    Of one fold, the latest rows are test rows. Of more, as many consecutive blocks at the end are test rows in turn,
    each of ``n / (folds + 1)`` rows, and the rows before the block are its training rows.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.comparison.splits import time_splits
    >>> train, test = time_splits(np.array([5, 1, 2, 4, 3, 5, 0, 7]), 1, 0.25).folds[0]
    >>> train.tolist(), test.tolist()
    ([1, 2, 3, 4, 6], [0, 5, 7])
    """
    n = len(time)
    order = np.argsort(time, kind="stable")
    if folds == 1:
        starts = [n - max(round(test_size * n), 1)]
    else:
        starts = [n - (folds - k) * (n // (folds + 1)) for k in range(folds)]
    bounds = [time[order[start]] for start in starts]
    pairs = []
    for k, bound in enumerate(bounds):
        is_test = time >= bound if k + 1 == len(bounds) else (time >= bound) & (time < bounds[k + 1])
        pairs.append((np.flatnonzero(time < bound), np.flatnonzero(is_test)))
    if any(len(train) < 2 or len(test) < 2 for train, test in pairs):
        raise ValueError(
            "time must leave at least 2 rows on each side of every split, "
            f"got {len(np.unique(time))} different times for folds={folds}"
        )
    rank = np.empty(n, dtype=np.intp)
    rank[order] = np.arange(n)
    # Errors of neighbours in time are alike: blocks of about the square root of the number of test rows are clusters.
    block = max(1, round(np.sqrt(sum(len(test) for _, test in pairs))))
    what = (
        "the latest rows are test rows" if folds == 1 else f"{folds} test blocks in time, each after its training rows"
    )
    return Splits(tuple(pairs), rank // block, what)


def copies(raw: Floats, y: Floats) -> NDArray[np.intp]:
    """The number of the distinct row that each row is a copy of, target included."""
    return np.unique(row_hashes(raw, y), return_inverse=True)[1]


def read_time(time: Any, X: TableLike) -> NDArray[Any]:
    """Times as numbers or datetimes, from an array or the name of a column of X."""
    import narwhals as nw

    name = "time"
    if isinstance(time, str):
        frame = nw.from_native(X, pass_through=True, eager_only=True)
        if not isinstance(frame, nw.DataFrame):
            raise ValueError(f"time must be an array if X has no column names, got {time!r}")
        if time not in frame.columns:
            raise ValueError(
                f"time must be a column of X, got {time!r}; columns: {escaped(', '.join(frame.columns[:12]))}"
            )
        name, time = f"the time column {time!r}", frame[time].to_numpy()
    values = numbers_or_dates(time, name)
    if values.ndim != 1 or len(values) != np.shape(X)[0]:
        raise ValueError(f"{name} must have one value per row ({np.shape(X)[0]}), got {values.shape}")
    missing = values != values
    if missing.any():
        raise ValueError(f"{name} must have no missing values, got one in row {int(np.argmax(missing))}")
    return values
