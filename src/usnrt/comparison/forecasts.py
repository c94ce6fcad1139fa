"""Forecasts of any regressor: a distribution, intervals and a point forecast per row."""

import inspect
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from usnrt.comparison.quantiles import InterpolatedQuantiles, conformal_quantile, separated
from usnrt.distributions import Distribution, Normal
from usnrt.metrics.models import distribution_and_interval
from usnrt.tables.groups import draw_groups
from usnrt.utils.types import Floats, Rows, TableLike

# Levels at which the quantiles of other models are asked for.
LEVELS = np.array([0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99])


@dataclass(frozen=True)
class Forecasts:
    """Forecasts of n rows; intervals have shape (n, 2)."""

    distribution: Distribution
    interval: Floats
    point: Floats


def forecasts_of(model: Any, X: TableLike, coverage: float) -> Forecasts:
    """Forecasts of a fitted model, also at the end of a pipeline or inside a search.

    It has one of ``predict_dist``, ``predict_quantiles(X, levels)``, ``predict(X, quantiles=)`` or ``predict(X,
    return_std=True)``.
    """
    kind = kind_of(model)
    if kind == "dist":
        dist, bounds = distribution_and_interval(model, X, [coverage])
        point = model.predict(X) if isinstance(model, SplitConformal) else dist.mean()
        return Forecasts(dist, bounds[:, :, 0], point)
    if kind == "std":
        mean, std = model.predict(X, return_std=True)
        normal = Normal(np.asarray(mean, dtype=np.float64), np.asarray(std, dtype=np.float64))
        return Forecasts(normal, normal.interval(coverage), normal.mean())
    if kind == "point":
        raise TypeError(f"a {type(model).__name__} predicts neither a distribution nor quantiles")
    tails = np.round([(1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0], 12)
    levels = np.unique(np.concatenate([LEVELS, tails]))
    values = _quantiles(model, kind, X, levels)
    gap = 1e-9 * max(float(np.ptp(values)), 1e-12) + 4.0 * np.spacing(np.abs(values).max(axis=1, keepdims=True))
    dist = InterpolatedQuantiles(levels, separated(values, gap))
    interval = values[:, np.searchsorted(levels, tails)]
    point = np.asarray(model.predict(X), dtype=np.float64).ravel() if hasattr(model, "predict") else dist.mean()
    return Forecasts(dist, interval, point)


def _quantiles(model: Any, kind: str, X: TableLike, levels: Floats) -> Floats:
    """Quantiles at increasing levels, sorted in each row."""
    if kind == "quantiles":
        values = model.predict_quantiles(X, list(levels))
    else:
        values = model.predict(X, quantiles=list(levels))
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(levels):
        raise ValueError(f"quantiles must have shape (n, {len(levels)}), got {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("quantiles must be finite, got NaN or infinity")
    return np.sort(values, axis=1)


def kind_of(model: Any) -> str:
    """How a model predicts: "dist", "quantiles", "quantiles=", "std" or "point".

    Examples
    --------
    >>> from sklearn.linear_model import BayesianRidge, LinearRegression
    >>> from usnrt import USNRTRegressor
    >>> from usnrt.comparison.forecasts import kind_of
    >>> kind_of(USNRTRegressor()), kind_of(BayesianRidge()), kind_of(LinearRegression())
    ('dist', 'std', 'point')
    """
    last = _last_step(model)
    if hasattr(last, "predict_dist"):
        return "dist"
    if hasattr(model, "predict_quantiles"):
        return "quantiles"
    if not hasattr(last, "predict"):
        raise TypeError(
            f"a model must have fit and predict, predict_dist or predict_quantiles, got a {type(model).__name__}"
        )
    parameters = inspect.signature(last.predict).parameters
    if "quantiles" in parameters:
        return "quantiles="
    return "std" if "return_std" in parameters else "point"


def _last_step(model: Any) -> Any:
    """The estimator at the end of a pipeline or inside a search, fitted or not."""
    if hasattr(model, "refit") and hasattr(model, "estimator"):
        return _last_step(model.estimator)
    steps = getattr(model, "steps", None)
    return _last_step(steps[-1][1]) if steps else model


class SplitConformal(RegressorMixin, BaseEstimator):  # scikit-learn is untyped
    """Distributions around the predictions of any regressor, from its errors on calibration rows.

    Every row has the same distribution of errors (split conformal prediction), so that intervals have their coverage on
    average over all rows. The regressor is not refitted with the calibration rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from usnrt.comparison.forecasts import SplitConformal
    >>> X = np.arange(100.0)[:, None]
    >>> y = X[:, 0] + np.random.default_rng(0).normal(size=100)
    >>> low, high = SplitConformal(LinearRegression()).fit(X, y).predict_interval(X[:1], 0.8)[0]
    >>> bool(-2 < low < 0 < high < 2)
    True
    """

    def __init__(self, estimator: Any, calibration_fraction: float = 0.2, random_state: int = 0) -> None:
        self.estimator = estimator
        self.calibration_fraction = calibration_fraction
        self.random_state = random_state

    def fit(self, X: TableLike, y: ArrayLike, groups: Rows | None = None) -> Self:
        """Fit the regressor to most of the rows, or groups, and measure its errors on the others."""
        target = np.asarray(y, dtype=np.float64)
        n_calibration = max(1, round(self.calibration_fraction * len(target)))
        drawn = draw_groups(groups, n_calibration, len(target), np.random.default_rng(self.random_state))
        calibration, train = np.flatnonzero(drawn), np.flatnonzero(~drawn)
        self.estimator_ = fit_clone(self.estimator, take(X, train), target[train])
        self.errors_ = np.sort(target[calibration] - self.predict(take(X, calibration)))
        return self

    def predict(self, X: TableLike) -> Floats:
        """Predictions of the regressor."""
        return np.asarray(self.estimator_.predict(X), dtype=np.float64).ravel()

    def predict_dist(self, X: TableLike) -> Distribution:
        """The predictions with the distribution of the errors."""
        return InterpolatedQuantiles(LEVELS, self._around(self.predict(X), LEVELS))

    def predict_interval(self, X: TableLike, coverage: float = 0.9) -> Floats:
        """Prediction intervals."""
        tails = np.array([(1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0])
        return self._around(self.predict(X), tails)

    def _around(self, point: Floats, levels: Floats) -> Floats:
        offsets = np.array([conformal_quantile(self.errors_, level) for level in levels])
        values = point[:, None] + offsets
        gap = 1e-9 * max(float(np.ptp(self.errors_)), 1e-12) + 4.0 * np.spacing(np.abs(values).max())
        return separated(values, gap)


class ConstantDistribution(RegressorMixin, BaseEstimator):  # scikit-learn is untyped
    """Predicts the distribution of the training targets for every row: what features must improve on."""

    def fit(self, X: TableLike, y: ArrayLike) -> Self:
        """Store the targets ``y`` (n,)."""
        self.targets_ = np.sort(np.asarray(y, dtype=np.float64))
        return self

    def predict(self, X: TableLike) -> Floats:
        """The mean of the training targets for every row."""
        return np.full(np.shape(X)[0], self.targets_.mean())

    def predict_quantiles(self, X: TableLike, levels: ArrayLike) -> Floats:
        """The quantiles of the training targets for every row, shape (n, k)."""
        return np.tile(np.quantile(self.targets_, np.asarray(levels)), (np.shape(X)[0], 1))


def take(X: TableLike, rows: Rows) -> Any:
    """Rows of a table of any library."""
    if hasattr(X, "take") and hasattr(X, "column_names"):  # pyarrow
        return X.take(rows)
    return _safe_indexing(X, rows)


def fit_clone(estimator: Any, X: TableLike, y: NDArray[np.float64], groups: Rows | None = None) -> Any:
    """A fitted copy of an estimator, also of one without scikit-learn's parameters; with groups if it takes them."""
    from copy import deepcopy

    copy = clone(estimator) if hasattr(estimator, "get_params") else deepcopy(estimator)
    takes_groups = groups is not None and getattr(copy, "_TAKES_GROUPS", has_fit_parameter(copy, "groups"))
    copy.fit(X, y, **({"groups": groups} if takes_groups else {}))
    return copy
