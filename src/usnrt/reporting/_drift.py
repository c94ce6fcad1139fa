"""Coverage and error in windows of time, with their sampling errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from usnrt.reporting._numbers import number, percent, plus_minus, wilson
from usnrt.tables.time import dates_of_texts
from usnrt.utils.types import Floats

MIN_WINDOW, MAX_WINDOWS = 60, 8
# Deviations of the coverage that are negligible, even if significant.
TOLERANCE = 0.02
N_PERMUTATIONS, SIGNIFICANT = 399, 0.025


@dataclass(frozen=True)
class Window:
    """Consecutive rows in the order of time.

    Attributes
    ----------
    label : str
        First and last time.
    coverage, low, high : float
        Share of targets inside their intervals, and its 95 % confidence interval.
    rmse, rmse_error : float
        Root mean squared error, and its standard error.
    bias, bias_error : float
        Mean of target minus prediction, and its standard error.
    """

    label: str
    n: int
    coverage: float
    low: float
    high: float
    rmse: float
    rmse_error: float
    bias: float
    bias_error: float


@dataclass(frozen=True)
class Drift:
    """Windows of time, the earliest first, and whether they differ by more than chance.

    Attributes
    ----------
    windows : list of Window
        Empty if there are too few rows for two.
    rmse_p, bias_p : float
        Probability that the windows of rows without drift differ as much: a permutation test of the window whose mean
        squared error, or mean error, differs most.
    """

    windows: list[Window]
    rmse_p: float = 1.0
    bias_p: float = 1.0


def time_order(time: Any) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """The rows with a known time, in its order, and their times.

    Parameters
    ----------
    time : array-like of shape (n,)
        Dates, also as text in one format, or numbers.

    Examples
    --------
    >>> from usnrt.reporting._drift import time_order
    >>> time_order(["2024-02-01", "2023-01-01", None])[0]
    array([1, 0])
    """
    values = np.asarray(time)
    if values.dtype.kind in "OUST":
        try:
            values = dates_of_texts(values)
        except ValueError as error:
            raise ValueError(f"time must hold dates or numbers, got {str(values[0])!r} ({error})") from None
    if values.dtype.kind not in "Miuf":
        raise ValueError(f"time must hold dates or numbers, got {values.dtype}")
    present = np.flatnonzero(~(np.isnat(values) if values.dtype.kind == "M" else np.isnan(values.astype(float))))
    order = present[np.argsort(values[present], kind="stable")]
    return order, values[order]


def time_windows(time: Any, y: Floats, mean: Floats, inside: NDArray[np.bool_]) -> Drift:
    """Divide the rows into windows of equal numbers of rows, and test whether they differ.

    Parameters
    ----------
    time : array-like of shape (n,)
    y, mean : ndarray of shape (n,)
    inside : ndarray of bool of shape (n,)
    """
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

    Parameters
    ----------
    values : ndarray of shape (n,)
    sizes : sequence of int
        Of the windows, in order; their sum is n.

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


def drift_sentence(drift: Drift, coverage: float) -> str:
    """What changes with time beyond sampling error, corrected for the number of windows."""
    windows = drift.windows
    z = float(ndtri(1 - 0.025 / len(windows)))
    sentences = []
    off = [
        w
        for w in windows
        if abs(w.coverage - coverage) > TOLERANCE and not _contains(wilson(round(w.coverage * w.n), w.n, z), coverage)
    ]
    if off:
        worst = max(off, key=lambda w: abs(w.coverage - coverage))
        sentences.append(
            f"The coverage leaves {percent(coverage)} by more than sampling error in {len(off)} of {len(windows)} "
            f"windows, most from {worst.label}: {percent(worst.coverage)}."
        )
    names = {"RMSE": ("rmse", drift.rmse_p), "mean error": ("bias", drift.bias_p)}
    sentences += [_change(windows, name, value) for name, (value, p) in names.items() if p <= SIGNIFICANT]
    if sentences:
        return " ".join(sentences)
    widest = max(w.high - w.low for w in windows) / 2
    return (
        f"No drift beyond sampling error: coverage, RMSE and mean error of the {len(windows)} windows are consistent "
        f"with constant ones. With windows of this size, coverage is known to ± {percent(widest)}."
    )


def _change(windows: Sequence[Window], name: str, value: str) -> str:
    """A sentence on the window that differs most from the others."""
    values, sizes = np.array([getattr(w, value) for w in windows]), np.array([w.n for w in windows], dtype=float)
    worst = int(np.argmax(np.abs(values - np.average(values, weights=sizes))))
    others = np.arange(len(windows)) != worst
    usual = float(np.average(values[others], weights=sizes[others]))
    error = getattr(windows[worst], f"{value}_error")
    return (
        f"The {name} changes by more than sampling error; it differs most from {windows[worst].label}: "
        f"{plus_minus(values[worst], error)}, otherwise {number(usual)} on average."
    )


def _contains(bounds: tuple[float, float], value: float) -> bool:
    return bounds[0] <= value <= bounds[1]


def _time_text(value: Any) -> str:
    if isinstance(value, np.datetime64):
        text = str(value.astype("datetime64[m]")).replace("T", " ")
        return text.removesuffix(" 00:00")
    return number(float(value), 6)
