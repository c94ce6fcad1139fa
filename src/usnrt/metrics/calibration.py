"""Calibration: metrics of quantiles and intervals, PIT, and calibration within groups of rows."""

from contextlib import suppress
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.distributions.base import as_generator, check_levels
from usnrt.metrics.forecast import Forecast, Given, UndefinedMetricError, as_forecast, check_truth
from usnrt.metrics.intervals import COVERAGE, WIDTH, check_interval
from usnrt.metrics.registry import (
    AnyForecast,
    EvaluatedRows,
    Metric,
    OfWeights,
    evaluated_rows,
    mean,
    register_metric,
)
from usnrt.utils.constraints import check_whole
from usnrt.utils.result_table import Table
from usnrt.utils.types import Floats

ECE_LEVELS = np.arange(1, 100) / 100.0
TCE_COVERAGES = (0.9, 0.8, 0.7, 0.6)


def _ece(rows: EvaluatedRows) -> OfWeights:
    levels = comparison_levels(rows.forecast)
    counts = rows.forecast.count_levels_below(rows.y, levels)
    return lambda weights: float(mean_gap(share_below(counts, levels.size, weights), levels))


def _tce(rows: EvaluatedRows, coverages: ArrayLike = TCE_COVERAGES) -> OfWeights:
    nominal = np.atleast_1d(check_levels(coverages, "coverages"))
    inside = rows.forecast.inside(rows.y, nominal).astype(float)
    return lambda weights: float(mean_gap(mean(inside, weights), nominal))


ECE = register_metric(
    Metric(
        "ece", "ECE", "mean difference of nominal and observed probabilities", "lower",
        per_table=_ece, text="percent", pages=("report",),
    )
)  # fmt: skip
TCE = register_metric(
    Metric("tce", "TCE", "mean error of the coverage of four intervals", "lower", per_table=_tce, pages=())
)
SHARPNESS = register_metric(
    Metric("sharpness", "sharpness", "mean predicted standard deviation", "none", lambda r: r.forecast.std(), pages=())
)


def ece(
    y_true: ArrayLike, forecast: AnyForecast = None, *, at: ArrayLike | None = None, **given: Unpack[Given]
) -> float:
    r"""Expected calibration error of the paper.

    .. math:: \tfrac1K \sum_k |\hat P_k - \tau_k|, \quad \hat P_k = \tfrac1n \sum_i 1\{y_i < q_{i,k}\}

    over the K = 99 levels 0.01, 0.02, ..., 0.99. A fraction; the paper's tables show it times 100.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    forecast : Distribution or None
        Or the keywords of :func:`usnrt.metrics.as_forecast`, but not a mean alone.
    at : array-like of shape (K,), default=None
        Other levels in (0, 1). For a forecast by quantiles the default is the given levels.

    Examples
    --------
    >>> from usnrt.metrics import ece
    >>> round(ece([-1.0, 0.5, 1.0, 3.0], mean=[0.0] * 4, std=[1.0] * 4), 4)
    0.1833
    """
    levels, observed = reliability(y_true, forecast, at=at, **given)
    return float(mean_gap(observed, levels))


def mean_gap(observed: Floats, nominal: ArrayLike) -> Floats:
    """Mean absolute difference of observed and nominal probabilities over the last axis."""
    return np.asarray(np.abs(observed - np.asarray(nominal)).mean(axis=-1))


def reliability(
    y_true: ArrayLike, forecast: AnyForecast = None, *, at: ArrayLike | None = None, **given: Unpack[Given]
) -> tuple[Floats, Floats]:
    """Levels and the share of rows strictly below the quantile of each level; arguments as in :func:`ece`.

    Returns
    -------
    levels, observed : ndarray of shape (K,)

    Examples
    --------
    >>> from usnrt.metrics import reliability
    >>> reliability([-1.0, 1.0], mean=[0.0, 0.0], std=[1.0, 1.0], at=[0.25, 0.5, 0.9])
    (array([0.25, 0.5 , 0.9 ]), array([0.5, 0.5, 1. ]))
    """
    f = as_forecast(forecast, **given)
    y = check_truth(y_true, f)
    levels = comparison_levels(f, at)
    return levels, share_below(f.count_levels_below(y, levels), levels.size)


def comparison_levels(forecast: Forecast, at: ArrayLike | None = None) -> Floats:
    """Levels at which to compare: the given ones, those of a forecast by quantiles, or the paper's 99."""
    if at is not None:
        return np.sort(np.atleast_1d(check_levels(at, "at")))
    return ECE_LEVELS if forecast.own_levels is None else forecast.own_levels


def share_below(counts: NDArray[np.intp], n_levels: int, weights: Floats | None = None) -> Floats:
    """Share of rows with y < quantile at each level, from the number of levels whose quantile is at or below y."""
    rows_at_count = np.bincount(counts, weights, minlength=n_levels + 1)
    return np.asarray(np.cumsum(rows_at_count)[:n_levels] / rows_at_count.sum())


def tce(
    y_true: ArrayLike,
    forecast: AnyForecast = None,
    *,
    coverages: ArrayLike = TCE_COVERAGES,
    **given: Unpack[Given],
) -> float:
    r"""Tail-interval calibration error of the paper.

    .. math:: \tfrac14 \sum_c |\hat P_c - c|, \quad \hat P_c = \tfrac1n \sum_i 1\{q_{i,(1-c)/2} < y_i < q_{i,(1+c)/2}\}

    over the 90, 80, 70 and 60 % intervals. A fraction; the paper's tables show it times 100.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    forecast : Distribution or None
        Or the keywords of :func:`usnrt.metrics.as_forecast`, but not a mean alone.
    coverages : array-like of shape (k,)
        Probabilities of the intervals, in (0, 1).

    Examples
    --------
    >>> from usnrt.metrics import tce
    >>> round(tce([-1.0, 0.5, 1.0, 3.0], mean=[0.0] * 4, std=[1.0] * 4), 4)
    0.15
    """
    return _tce(evaluated_rows(y_true, forecast, **given), coverages)(None)


def sharpness(forecast: AnyForecast = None, **given: Unpack[Given]) -> float:
    r"""Mean predicted standard deviation, :math:`\tfrac1n \sum_i \sigma_i`; the paper's tables show it times 100.

    Parameters
    ----------
    forecast : Distribution or None
        Or ``mean=`` and ``std=``, or ``samples=``. Not defined for quantiles.

    Examples
    --------
    >>> from usnrt.metrics import sharpness
    >>> sharpness(mean=[0.0, 0.0], std=[1.0, 2.0])
    1.5
    """
    return float(np.mean(as_forecast(forecast, **given).std()))


def pit(
    y_true: ArrayLike,
    forecast: AnyForecast = None,
    *,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
    **given: Unpack[Given],
) -> Floats:
    r"""Probability integral transform :math:`F_i(y_i)`: uniform on (0, 1) for a calibrated forecast.

    At a point mass (samples, a std of 0) the midpoint of the jump, or a random point in it if ``random_state`` is
    given. Interpolated for quantiles, and half way to 0 or 1 outside of them.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    forecast : Distribution or None
        Or the keywords of :func:`usnrt.metrics.as_forecast`, but not a mean alone.
    random_state : int, Generator, RandomState or None

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> from usnrt.metrics import pit
    >>> pit([0.0, 1.0], mean=[0.0, 0.0], std=[1.0, 1.0]).round(3)
    array([0.5  , 0.841])
    """
    f = as_forecast(forecast, **given)
    left, right = f.cdf(check_truth(y_true, f))
    fraction: float | Floats = 0.5 if random_state is None else as_generator(random_state).random(len(f))
    return left + fraction * (right - left)


def calibration_by_group(
    y_true: ArrayLike,
    forecast: AnyForecast = None,
    groups: ArrayLike = (),
    *,
    interval: ArrayLike | None = None,
    **given: Unpack[Given],
) -> Table:
    """Calibration of each group of rows, the worst group first.

    The ECE of few rows is not 0 even without miscalibration: ``ece_by_chance`` is its expectation for a perfectly
    calibrated forecast with as many rows.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    forecast : Distribution or None
        Or the keywords of :func:`usnrt.metrics.as_forecast`, but not a mean alone.
    groups : array-like of shape (n,)
        A label for each row: the region (``model.apply(X)``), a category, or the bin of a feature
        (:func:`quantile_bins`).
    interval : array-like of shape (n, 2), default=None
        The 90 % intervals behind coverage_90 and width_90, e.g. ``model.predict_interval(X, 0.9)``, which differ from
        those of its distribution if the model is calibrated; by default those of the forecast.

    Returns
    -------
    Table
        Columns group, rows, ece, ece_by_chance, tce, coverage_90, width_90, sorted by ece, largest first. Columns
        that the forecast does not define (quantiles at too few levels) are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.distributions import Normal
    >>> from usnrt.metrics import calibration_by_group
    >>> rng = np.random.default_rng(0)
    >>> noisy = np.repeat([False, True], 500)
    >>> y = rng.normal(scale=np.where(noisy, 3.0, 1.0))
    >>> calibration_by_group(y, Normal(np.zeros(1000), 1.0), np.where(noisy, "noisy", "calm"))
       group  rows      ece  ece_by_chance    tce  coverage_90  width_90
    0  noisy   500   0.1421        0.01414  0.414        0.458      3.29
    1   calm   500  0.01079        0.01414  0.012        0.918      3.29
    """
    rows = evaluated_rows(y_true, forecast, **given)
    if interval is not None:
        rows = replace(rows, given_interval=check_interval(interval, rows.y))
    names, group = check_groups(groups, rows.y.size)
    size = np.bincount(group)
    columns: dict[str, NDArray[Any]] = {
        "group": names,
        "rows": size,
        "ece": by_group(ECE.of_weights(rows), group),
        "ece_by_chance": ece_by_chance(size, comparison_levels(rows.forecast)),
    }
    for name, metric in {"tce": TCE, "coverage_90": COVERAGE, "width_90": WIDTH}.items():
        with suppress(UndefinedMetricError):
            columns[name] = by_group(metric.of_weights(rows), group)
    order = np.argsort(-columns["ece"], kind="stable")
    return Table({name: values[order] for name, values in columns.items()})


def by_group(metric: OfWeights, group: NDArray[np.intp]) -> Floats:
    """A metric of the rows of each group, numbered from 0 on."""
    return np.array([metric((group == g).astype(float)) for g in range(group.max() + 1)])


def ece_by_chance(n_rows: ArrayLike, levels: Floats = ECE_LEVELS) -> Floats:
    r"""Expected ECE of a perfectly calibrated forecast with n rows.

    .. math:: \tfrac1K \sum_k \sqrt{2 \tau_k (1 - \tau_k) / (\pi n)}

    Parameters
    ----------
    n_rows : int or array-like of int
    levels : ndarray of shape (K,)

    Examples
    --------
    >>> from usnrt.metrics import ece_by_chance
    >>> float(ece_by_chance(10_000).round(4))
    0.0032
    """
    spread = np.sqrt(2.0 * levels * (1.0 - levels) / np.pi).mean()
    return np.asarray(spread / np.sqrt(np.asarray(n_rows, dtype=np.float64)))


def quantile_bins(x: ArrayLike, n: int = 10) -> NDArray[np.intp]:
    """Index of the quantile bin of each value, 0 for the lowest: groups of about equal size along a feature.

    Equal values share a bin, so there may be fewer than ``n`` bins.

    Parameters
    ----------
    x : array-like of shape (n_rows,)
        Numbers without NaN.
    n : int, default=10
        Number of bins.

    Examples
    --------
    >>> from usnrt.metrics import quantile_bins
    >>> quantile_bins([5.0, 1.0, 2.0, 9.0], n=2)
    array([1, 0, 0, 1])
    """
    values = np.asarray(x, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"x must have shape (n_rows,) with at least one row, got {values.shape}")
    if np.isnan(values).any():
        raise ValueError("x must not contain NaN")
    check_whole("n", n, 1)
    edges = np.unique(np.quantile(values, np.arange(1, n) / n, method="inverted_cdf"))
    return np.unique(np.searchsorted(edges, values, side="left"), return_inverse=True)[1]


def check_groups(groups: ArrayLike, n: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The distinct labels and the index of each row's label among them."""
    labels = np.asarray(groups)
    if labels.ndim != 1 or labels.size != n:
        raise ValueError(f"groups must have one label per row ({n}), got {labels.shape}")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError("groups must not contain NaN")
    names, group = np.unique(labels, return_inverse=True)
    return names, group
