"""Metrics of intervals."""

from dataclasses import replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.distributions.base import check_levels
from usnrt.metrics.forecast import Forecast, Given, UndefinedMetricError, as_forecast
from usnrt.metrics.registry import AnyForecast, EvaluatedRows, Metric, evaluated_rows, register_metric
from usnrt.utils.types import Floats


def contains(ends: Floats, y: Floats) -> NDArray[np.bool_]:
    """Whether each interval of shape (n, 2) contains its target, ends included."""
    return np.asarray((ends[:, 0] <= y) & (y <= ends[:, 1]))


def interval_score_of_rows(y: Floats, ends: Floats, coverage: float) -> Floats:
    """Interval score of each row."""
    low, high = ends[:, 0], ends[:, 1]
    misses = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return (high - low) + 2.0 / (1.0 - coverage) * misses


def is_infinite(ends: Floats) -> NDArray[np.bool_]:
    """Whether intervals have an infinite end, shape (n,) or (n, k), for ends of shape (n, 2) or (n, 2, k)."""
    return np.asarray(np.isinf(ends).any(axis=1))


def _infinite(rows: EvaluatedRows) -> Floats:
    infinite = is_infinite(rows.interval)
    if not infinite.any():
        raise UndefinedMetricError("this metric needs infinite intervals, but all are finite")
    return infinite.astype(float)


COVERAGE = register_metric(
    Metric(
        "coverage", "coverage", "share of targets inside the {coverage} interval; should be {coverage}", "nominal",
        lambda r: contains(r.interval, r.y).astype(float), of_interval=True, text="percent",
    )
)  # fmt: skip
WIDTH = register_metric(
    Metric(
        "width", "width", "mean width of the {coverage} intervals; smaller is better at equal coverage", "none",
        lambda r: r.interval[:, 1] - r.interval[:, 0], of_interval=True,
    )
)  # fmt: skip
INTERVAL_SCORE = register_metric(
    Metric(
        "interval_score", "interval score", "width of the {coverage} intervals with a penalty for misses", "lower",
        lambda r: interval_score_of_rows(r.y, r.interval, r.coverage), of_interval=True, pages=("compare",),
    )
)  # fmt: skip
INFINITE = register_metric(
    Metric("infinite", "infinite", "share of infinite intervals", "none", _infinite, of_interval=True, pages=())
)


def coverage(
    y_true: ArrayLike,
    forecast: AnyForecast = None,
    *,
    coverage: float = 0.9,
    interval: ArrayLike | None = None,
    **given: Unpack[Given],
) -> float:
    r"""Share of outcomes inside their central interval, ends included: :math:`\tfrac1n\sum_i 1\{l_i \le y_i \le u_i\}`.

    Arguments as in :func:`usnrt.metrics.interval_score`.

    Examples
    --------
    >>> from usnrt.metrics import coverage
    >>> coverage([-1.0, 0.0, 3.0, 1.0], mean=[0.0] * 4, std=[1.0] * 4, coverage=0.9)
    0.75
    """
    return COVERAGE.value(_with_interval(y_true, forecast, coverage, interval, given))


def mean_width(
    forecast: AnyForecast = None,
    *,
    coverage: float = 0.9,
    interval: ArrayLike | None = None,
    **given: Unpack[Given],
) -> float:
    r"""Mean width of the central intervals, :math:`\tfrac1n \sum_i (u_i - l_i)`.

    Arguments as in :func:`usnrt.metrics.interval_score`, but for ``y_true``.

    Examples
    --------
    >>> from usnrt.metrics import mean_width
    >>> round(mean_width(mean=[0.0, 0.0], std=[1.0, 2.0], coverage=0.9), 4)
    4.9346
    """
    n = len(np.asarray(interval)) if interval is not None else len(as_forecast(forecast, **given))
    return WIDTH.value(_with_interval(np.zeros(n), forecast, coverage, interval, given))


def interval_score(
    y_true: ArrayLike,
    forecast: AnyForecast = None,
    *,
    coverage: float = 0.9,
    interval: ArrayLike | None = None,
    **given: Unpack[Given],
) -> float:
    r"""Winkler's interval score, the mean over rows of

    .. math:: (u - l) + \tfrac2\alpha (l - y) 1\{y < l\} + \tfrac2\alpha (y - u) 1\{y > u\}, \quad \alpha = 1 - c

    for the central interval [l, u] of coverage c.

    Parameters
    ----------
    y_true, forecast
        As in :func:`usnrt.metrics.crps`.
    coverage : float, default=0.9
        In (0, 1).
    interval : array-like of shape (n, 2) or None
        Intervals, e.g. conformal ones, instead of a forecast.

    Examples
    --------
    >>> from usnrt.metrics import interval_score
    >>> interval_score([1.0, 4.0], interval=[[0.0, 2.0], [0.0, 2.0]], coverage=0.5)
    6.0
    """
    return INTERVAL_SCORE.value(_with_interval(y_true, forecast, coverage, interval, given))


def _with_interval(
    y_true: ArrayLike, forecast: AnyForecast, coverage: float, interval: ArrayLike | None, given: Given
) -> EvaluatedRows:
    """Observed targets and intervals, the latter given or those of a forecast."""
    level = check_levels(coverage, "coverage")
    if level.ndim:
        raise ValueError(f"coverage must be one number, got {coverage}")
    if interval is None:
        return replace(evaluated_rows(y_true, forecast, **given), coverage=float(level))
    if forecast is not None or given:
        raise ValueError("either a forecast or interval= must be given, got both")
    return rows_of_intervals(y_true, interval, float(level))


def rows_of_intervals(y_true: ArrayLike, interval: ArrayLike, coverage: float) -> EvaluatedRows:
    """Observed targets and intervals without a forecast."""
    y = np.asarray(y_true, dtype=np.float64)
    return EvaluatedRows(y, Forecast(), coverage, check_interval(interval, y))


def check_interval(interval: ArrayLike, y: Floats) -> Floats:
    """Intervals for targets of shape (n,), as an array of shape (n, 2); ends may be infinite."""
    ends = np.asarray(interval, dtype=np.float64)
    if y.ndim != 1 or ends.shape != (y.size, 2):
        raise ValueError(f"interval must have shape (n, 2) for y_true of shape (n,), got {ends.shape} and {y.shape}")
    if np.isnan(ends).any() or (ends[:, 0] > ends[:, 1]).any():
        raise ValueError("interval must have lower ends below upper ends, got others or NaN")
    return ends
