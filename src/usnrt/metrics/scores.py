"""Metrics of point forecasts, distributions and intervals; smaller is better except for R²."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from usnrt.distributions import Distribution
from usnrt.distributions.base import check_levels
from usnrt.metrics.forecast import Forecast, Given, as_forecast, check_truth, pinball_rows, tail_levels
from usnrt.utils.types import Floats

DECILES = np.arange(1, 10) / 10.0

AnyForecast = Distribution | Forecast | ArrayLike | None


def rmse(y_true: ArrayLike, forecast: AnyForecast = None, **given: Unpack[Given]) -> float:
    r"""Root mean squared error of the mean.

    .. math:: \sqrt{\tfrac1n \sum_i (y_i - \mu_i)^2}

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Observed targets.
    forecast : Distribution, array-like of shape (n,), or None
        A distribution or point forecasts; else one of the keywords of :func:`usnrt.metrics.as_forecast`. Not
        defined for quantiles.

    Examples
    --------
    >>> from usnrt.metrics import rmse
    >>> rmse([0.0, 0.0], mean=[3.0, 4.0])
    3.5355339059327378
    """
    f = as_forecast(forecast, **given)
    return float(np.sqrt(np.mean((check_truth(y_true, f) - f.mean()) ** 2)))


def mae(y_true: ArrayLike, forecast: AnyForecast = None, **given: Unpack[Given]) -> float:
    r"""Mean absolute error of the mean: :math:`\tfrac1n \sum_i |y_i - \mu_i|`. Arguments as in :func:`rmse`.

    Examples
    --------
    >>> from usnrt.metrics import mae
    >>> mae([0.0, 0.0], mean=[3.0, 4.0])
    3.5
    """
    f = as_forecast(forecast, **given)
    return float(np.mean(np.abs(check_truth(y_true, f) - f.mean())))


def r2(y_true: ArrayLike, forecast: AnyForecast = None, **given: Unpack[Given]) -> float:
    r"""Coefficient of determination: :math:`1 - \sum_i (y_i - \mu_i)^2 / \sum_i (y_i - \bar y)^2`.

    Arguments as in :func:`rmse`. NaN if all targets are equal.

    Examples
    --------
    >>> from usnrt.metrics import r2
    >>> r2([0.0, 1.0, 2.0], mean=[0.0, 1.0, 1.0])
    0.5
    """
    f = as_forecast(forecast, **given)
    y = check_truth(y_true, f)
    total = np.sum((y - y.mean()) ** 2)
    return float(1.0 - np.sum((y - f.mean()) ** 2) / total) if total > 0 else float("nan")


def nll(y_true: ArrayLike, forecast: AnyForecast = None, **given: Unpack[Given]) -> float:
    r"""Negative log-likelihood per row: :math:`-\tfrac1n \sum_i \log f_i(y_i)`, :math:`f_i` the density itself.

    The density is that of the distribution itself (mixture, Student-t), not of a normal with the same moments. The
    paper's tables show it times 100. Not defined for quantiles and samples.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    forecast : Distribution or None
        Or ``mean=`` and ``std=``.

    Examples
    --------
    >>> from usnrt.metrics import nll
    >>> round(nll([0.0, 1.0], mean=[0.0, 0.0], std=[1.0, 1.0]), 4)
    1.1689
    """
    f = as_forecast(forecast, **given)
    return float(-np.mean(f.logpdf(check_truth(y_true, f))))


def crps(y_true: ArrayLike, forecast: AnyForecast = None, **given: Unpack[Given]) -> float:
    r"""Continuous ranked probability score, the mean over rows of :math:`\int (F_i(x) - 1\{x \ge y_i\})^2 dx`.

    In units of the target; equal to the mean absolute error for a forecast without spread. Closed form for normal,
    Student-t and normal mixtures; for samples that of their empirical distribution; for quantiles twice the
    pinball loss, integrated over the levels by the midpoint rule.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    forecast : Distribution or None
        Or the keywords of :func:`usnrt.metrics.as_forecast`, but not a mean alone.

    Examples
    --------
    >>> from usnrt.metrics import crps
    >>> round(crps([0.0, 1.0], mean=[0.0, 0.0], std=[1.0, 1.0]), 4)
    0.4181
    """
    f = as_forecast(forecast, **given)
    return float(np.mean(f.crps(check_truth(y_true, f))))


def pinball(
    y_true: ArrayLike, forecast: AnyForecast = None, *, at: ArrayLike | None = None, **given: Unpack[Given]
) -> float:
    r"""Pinball (quantile) loss, the mean over rows and levels of :math:`\max(\tau e, (\tau - 1) e)`, e = y - q.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    forecast : Distribution or None
        Or the keywords of :func:`usnrt.metrics.as_forecast`, but not a mean alone.
    at : float or array-like of shape (k,), default=None
        Levels in (0, 1); by default 0.1, 0.2, ..., 0.9, or the given levels for a forecast by quantiles.

    Examples
    --------
    >>> from usnrt.metrics import pinball
    >>> pinball([1.0, 3.0], quantiles=[[2.0], [2.0]], levels=[0.9])
    0.5
    """
    f = as_forecast(forecast, **given)
    y = check_truth(y_true, f)
    return float(np.mean(pinball_of_rows(y, f, at)))


def pinball_of_rows(y: Floats, forecast: Forecast, at: ArrayLike | None = None) -> Floats:
    """Pinball loss of each row, averaged over the levels; one level at a time to save memory."""
    if at is None:
        levels = DECILES if forecast.own_levels is None else forecast.own_levels
    else:
        levels = np.atleast_1d(check_levels(at, "at"))
    losses = np.zeros(y.size)
    for k in range(levels.size):
        level = levels[k : k + 1]
        losses += pinball_rows(y, forecast.quantile(level), level)[:, 0]
    return losses / levels.size


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
    y_true : array-like of shape (n,)
    forecast : Distribution or None
        Or the keywords of :func:`usnrt.metrics.as_forecast`, but not a mean alone.
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
    y, ends = truth_and_interval(y_true, forecast, coverage, interval, given)
    return float(np.mean(interval_score_of_rows(y, ends, coverage)))


def interval_score_of_rows(y: Floats, ends: Floats, coverage: float) -> Floats:
    """Interval score of each row."""
    low, high = ends[:, 0], ends[:, 1]
    misses = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return (high - low) + 2.0 / (1.0 - coverage) * misses


def truth_and_interval(
    y_true: ArrayLike, forecast: AnyForecast, coverage: float, interval: ArrayLike | None, given: Given
) -> tuple[Floats, Floats]:
    """Observed targets and intervals, the latter given or those of a forecast."""
    level = check_levels(coverage, "coverage")
    if level.ndim:
        raise ValueError(f"coverage must be one number, got {coverage}")
    if interval is None:
        f = as_forecast(forecast, **given)
        return check_truth(y_true, f), central_interval(f, float(level))
    if forecast is not None or given:
        raise ValueError("either a forecast or interval= must be given, got both")
    y = np.asarray(y_true, dtype=np.float64)
    return y, check_interval(interval, y)


def check_interval(interval: ArrayLike, y: Floats) -> Floats:
    """Intervals for targets of shape (n,), as an array of shape (n, 2); ends may be infinite."""
    ends = np.asarray(interval, dtype=np.float64)
    if y.ndim != 1 or ends.shape != (y.size, 2):
        raise ValueError(f"interval must have shape (n, 2) for y_true of shape (n,), got {ends.shape} and {y.shape}")
    if np.isnan(ends).any() or (ends[:, 0] > ends[:, 1]).any():
        raise ValueError("interval must have lower ends below upper ends, got others or NaN")
    return ends


def central_interval(forecast: Forecast, coverage: float) -> Floats:
    """Interval between the two quantiles with equal tail probabilities, shape ``(n, 2)``."""
    return forecast.quantile(np.concatenate(tail_levels(np.array([coverage]))))
