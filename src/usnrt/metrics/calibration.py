"""Calibration metrics: observed against nominal probabilities, and the spread of the forecast."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.distributions.base import as_generator, check_levels
from usnrt.metrics.forecast import Forecast, Given, as_forecast, check_truth
from usnrt.metrics.registry import (
    AnyForecast,
    EvaluatedRows,
    Metric,
    OfWeights,
    evaluated_rows,
    mean,
    register_metric,
)
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
    y_true, forecast
        As in :func:`usnrt.metrics.crps`.
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
    y_true, forecast
        As in :func:`usnrt.metrics.crps`.
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
    y_true, forecast
        As in :func:`usnrt.metrics.crps`.
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
