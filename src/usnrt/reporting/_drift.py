"""Coverage and error in windows of time, with their sampling errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.reporting._numbers import number, wilson
from usnrt.tables.columns import numbers_or_dates
from usnrt.utils.types import Floats

MIN_WINDOW, MAX_WINDOWS = 60, 8
N_PERMUTATIONS = 399


@dataclass(frozen=True)
class Window:
    """Consecutive rows in the order of time; errors are standard errors."""

    label: str  # first and last time
    n: int
    coverage: float  # share of targets inside their intervals
    low: float  # 95 % confidence interval of that share
    high: float
    rmse: float
    rmse_error: float
    bias: float  # mean of target minus prediction
    bias_error: float


@dataclass(frozen=True)
class Drift:
    """Windows of time, the earliest first, and whether they differ by more than chance.

    A p value is the probability that the windows of rows without drift differ as much, by a permutation test of the
    window whose mean squared error, or mean error, differs most.
    """

    windows: list[Window]  # empty if there are too few rows for two
    rmse_p: float = 1.0
    bias_p: float = 1.0


def time_order(time: Any) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """The rows with a known time, in its order, and their times: numbers, or dates, also as text in one format.

    Examples
    --------
    >>> from usnrt.reporting._drift import time_order
    >>> time_order(["2024-02-01", "2023-01-01", None])[0]
    array([1, 0])
    """
    values = numbers_or_dates(time, "time")
    present = np.flatnonzero(values == values)
    order = present[np.argsort(values[present], kind="stable")]
    return order, values[order]


def time_windows(time: Any, y: Floats, mean: Floats, inside: NDArray[np.bool_]) -> Drift:
    """Divide the rows into windows of equal numbers of rows, and test whether they differ."""
    order, times = time_order(time)
    n_windows = min(len(order) // MIN_WINDOW, MAX_WINDOWS)
    if n_windows < 2:
        return Drift([])
    windows, places = [], np.array_split(np.arange(len(order)), n_windows)
    for place in places:
        rows, error = order[place], (y - mean)[order[place]]
        n, mse = len(rows), float(np.mean(error**2))
        rmse = float(np.sqrt(mse))
        windows.append(
            Window(
                f"{_time_text(times[place[0]])} to {_time_text(times[place[-1]])}",
                n,
                float(inside[rows].mean()),
                *wilson(int(inside[rows].sum()), n),
                rmse=rmse,
                rmse_error=float(np.std(error**2) / np.sqrt(n) / (2 * rmse)) if rmse > 0 else 0.0,
                bias=float(error.mean()),
                bias_error=float(error.std() / np.sqrt(n)),
            )
        )
    errors, sizes = (y - mean)[order], [len(place) for place in places]
    return Drift(windows, permutation_p(errors**2, sizes), permutation_p(errors, sizes))


def permutation_p(values: Floats, sizes: Sequence[int], seed: int = 0) -> float:
    """Probability that consecutive windows of permuted values differ from the overall mean as much as these do.

    Not the standard errors of the windows: a window that by chance has few of the largest errors has a small mean
    squared error and a small standard error, too.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.reporting._drift import permutation_p
    >>> values = np.random.default_rng(0).normal(size=400)
    >>> permutation_p(values, [200, 200]) > 0.05, permutation_p(values + np.repeat([0, 1], 200), [200, 200]) < 0.01
    (True, True)
    """
    starts, size = np.cumsum([0, *sizes[:-1]]), np.asarray(sizes, dtype=float)
    centred = values - values.mean()

    def largest(some: Floats) -> float:
        return float(np.abs(np.add.reduceat(some, starts) / np.sqrt(size)).max())

    rng, observed = np.random.default_rng(seed), largest(centred)
    hits = sum(largest(rng.permutation(centred)) >= observed * (1 - 1e-12) for _ in range(N_PERMUTATIONS))
    return (1 + hits) / (1 + N_PERMUTATIONS)


def _time_text(value: Any) -> str:
    if isinstance(value, np.datetime64):
        text = str(value.astype("datetime64[m]")).replace("T", " ")
        return text.removesuffix(" 00:00")
    return number(float(value), 6)
