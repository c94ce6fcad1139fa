"""Metrics of point forecasts and distributions."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from usnrt.distributions.base import check_levels
from usnrt.metrics.forecast import Given, pinball_rows
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

DECILES = np.arange(1, 10) / 10.0


def _r2(rows: EvaluatedRows) -> OfWeights:
    y, error = rows.y, rows.error

    def of_weights(weights: Floats | None) -> float:
        total = mean((y - mean(y, weights)) ** 2, weights)
        return float(1.0 - mean(error**2, weights) / total) if total > 0 else float("nan")

    return of_weights


def _pinball(rows: EvaluatedRows, at: ArrayLike | None = None) -> Floats:
    """Pinball loss of each row, averaged over the levels; one level at a time to save memory."""
    if at is not None:
        levels = np.atleast_1d(check_levels(at, "at"))
    else:
        levels = DECILES if rows.forecast.own_levels is None else rows.forecast.own_levels
    losses = np.zeros(rows.y.size)
    for k in range(levels.size):
        level = levels[k : k + 1]
        losses += pinball_rows(rows.y, rows.forecast.quantile(level), level)[:, 0]
    return losses / levels.size


RMSE = register_metric(
    Metric("rmse", "RMSE", "root mean squared error of the predicted mean", "lower", lambda r: r.error**2, root=True)
)
MAE = register_metric(
    Metric(
        "mae", "MAE", "mean absolute error of the predicted mean", "lower", lambda r: np.abs(r.error), pages=("report",)
    )
)
R2 = register_metric(
    Metric(
        "r2", "R²", "share of the target's variance that is explained", "higher",
        per_table=_r2, text="decimals", pages=("report",),
    )
)  # fmt: skip
NLL = register_metric(
    Metric(
        "nll", "NLL", "negative log of the predicted density at the targets", "lower",
        lambda r: -r.forecast.logpdf(r.y), pages=("report",),
    )
)  # fmt: skip
CRPS = register_metric(
    Metric(
        "crps", "CRPS", "distance of the predicted distributions from the targets", "lower",
        lambda r: r.forecast.crps(r.y),
    )
)  # fmt: skip
PINBALL = register_metric(
    Metric("pinball", "pinball loss", "mean loss of the predicted deciles", "lower", _pinball, pages=())
)


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
    return RMSE.value(evaluated_rows(y_true, forecast, **given))


def mae(y_true: ArrayLike, forecast: AnyForecast = None, **given: Unpack[Given]) -> float:
    r"""Mean absolute error of the mean: :math:`\tfrac1n \sum_i |y_i - \mu_i|`. Arguments as in :func:`rmse`.

    Examples
    --------
    >>> from usnrt.metrics import mae
    >>> mae([0.0, 0.0], mean=[3.0, 4.0])
    3.5
    """
    return MAE.value(evaluated_rows(y_true, forecast, **given))


def r2(y_true: ArrayLike, forecast: AnyForecast = None, **given: Unpack[Given]) -> float:
    r"""Coefficient of determination: :math:`1 - \sum_i (y_i - \mu_i)^2 / \sum_i (y_i - \bar y)^2`.

    Arguments as in :func:`rmse`. NaN if all targets are equal.

    Examples
    --------
    >>> from usnrt.metrics import r2
    >>> r2([0.0, 1.0, 2.0], mean=[0.0, 1.0, 1.0])
    0.5
    """
    return R2.value(evaluated_rows(y_true, forecast, **given))


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
    return NLL.value(evaluated_rows(y_true, forecast, **given))


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
    return CRPS.value(evaluated_rows(y_true, forecast, **given))


def pinball(
    y_true: ArrayLike, forecast: AnyForecast = None, *, at: ArrayLike | None = None, **given: Unpack[Given]
) -> float:
    r"""Pinball (quantile) loss, the mean over rows and levels of :math:`\max(\tau e, (\tau - 1) e)`, e = y - q.

    Parameters
    ----------
    y_true, forecast
        As in :func:`usnrt.metrics.crps`.
    at : float or array-like of shape (k,), default=None
        Levels in (0, 1); by default 0.1, 0.2, ..., 0.9, or the given levels for a forecast by quantiles.

    Examples
    --------
    >>> from usnrt.metrics import pinball
    >>> pinball([1.0, 3.0], quantiles=[[2.0], [2.0]], levels=[0.9])
    0.5
    """
    return float(np.mean(_pinball(evaluated_rows(y_true, forecast, **given), at)))
