"""90 % intervals of conformal methods around one LightGBM: MAPIE's and crepes', as their documentation shows them."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.utils.types import Floats

COVERAGE = 0.9
CALIBRATION_FRACTION = 0.2
N_FOLDS = 3
BETA = 0.01  # added to the difficulty, crepes' default
N_BINS = 10  # crepes' default of a Mondrian categorizer
MIN_ROWS_PER_BIN = 100
Interval = tuple[Floats, Floats]


class ConformalIntervals:
    """Conformal intervals on one division of the training rows, so that all methods share models and rows.

    LightGBM has 200 rounds at a learning rate of 0.1, otherwise its defaults. A fifth of the training rows is for
    calibration.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Categories as their codes.
    y : ndarray of shape (n,)
    categorical : sequence of int
        Columns that are categories.
    seed : int
    n_jobs : int, default=1
    """

    def __init__(self, X: Floats, y: Floats, categorical: Sequence[int], seed: int, n_jobs: int = 1) -> None:
        self.categorical, self.seed, self.n_jobs = list(categorical), seed, n_jobs
        order = np.random.default_rng(seed).permutation(len(y))
        n_calibration = max(1, round(CALIBRATION_FRACTION * len(y)))
        calibration, train = np.sort(order[:n_calibration]), np.sort(order[n_calibration:])
        self.X, self.y = X[train], y[train]
        self.X_calibration, self.y_calibration = X[calibration], y[calibration]
        self.point = self._fit(self.X, self.y)

    def intervals(self, X_test: Floats) -> dict[str, Interval]:
        """Lower and upper bounds (n_test,) of each method of `METHODS`."""
        return {name: method(self, X_test) for name, method in METHODS.items()}

    def _fit(self, X: Floats, y: Floats, **settings: Any) -> Any:
        import lightgbm

        fixed: dict[str, Any] = {"n_estimators": 200, "learning_rate": 0.1, "random_state": self.seed, "verbosity": -1}
        fixed |= {"n_jobs": self.n_jobs, "deterministic": True, "force_row_wise": True}
        model = lightgbm.LGBMRegressor(**fixed, **settings)
        return model.fit(X, y, categorical_feature=self.categorical)

    def mapie_split(self, X_test: Floats) -> Interval:
        """MAPIE, split conformal with absolute residuals: the same width everywhere."""
        from mapie.regression import SplitConformalRegressor

        model = SplitConformalRegressor(self.point, confidence_level=COVERAGE, prefit=True)
        return _mapie_interval(model.conformalize(self.X_calibration, self.y_calibration), X_test)

    def mapie_cqr(self, X_test: Floats) -> Interval:
        """MAPIE, conformalised quantile regression."""
        from mapie.regression import ConformalizedQuantileRegressor

        tail = (1 - COVERAGE) / 2
        fitted = [self._fit(self.X, self.y, objective="quantile", alpha=level) for level in (tail, 1 - tail, 0.5)]
        model = ConformalizedQuantileRegressor(fitted, confidence_level=COVERAGE, prefit=True)
        return _mapie_interval(model.conformalize(self.X_calibration, self.y_calibration), X_test)

    def crepes_normalised(self, X_test: Floats) -> Interval:
        """Crepes, conformal regressor normalised by a difficulty estimate."""
        return self._crepes(X_test, mondrian=False)

    def crepes_mondrian(self, X_test: Floats) -> Interval:
        """Crepes, the same in ten bins of the predicted difficulty."""
        return self._crepes(X_test, mondrian=True)

    def _crepes(self, X_test: Floats, mondrian: bool) -> Interval:
        import crepes

        residuals = self.y_calibration - self._predict(self.point, self.X_calibration)
        spread, spread_test = self._spread(self.X_calibration), self._spread(X_test)
        n_bins = min(N_BINS, max(1, len(spread) // MIN_ROWS_PER_BIN))
        edges = np.unique(np.quantile(spread, np.arange(1, n_bins) / n_bins))
        binned = mondrian and len(edges) > 0  # crepes has another path without bins
        bins, bins_test = (np.searchsorted(edges, each) if binned else None for each in (spread, spread_test))
        with warnings.catch_warnings():
            # A bin with too few calibration rows has infinite intervals.
            warnings.filterwarnings("ignore", message="the no. of calibration examples is")
            model = crepes.ConformalRegressor().fit(residuals, sigmas=spread, bins=bins)
            both = model.predict_int(self._predict(self.point, X_test), spread_test, bins_test, confidence=COVERAGE)
        return np.asarray(both[:, 0]), np.asarray(both[:, 1])

    def _spread(self, X: Floats) -> Floats:
        return np.maximum(self._predict(self.difficulty, X), 0.0) + BETA

    @property
    def difficulty(self) -> Any:
        """LightGBM of the absolute residual, from residuals of models that were not trained on the row."""
        if not hasattr(self, "_difficulty"):
            from sklearn.model_selection import KFold

            size = np.zeros(len(self.y))
            for fitted, left in KFold(N_FOLDS, shuffle=True, random_state=self.seed).split(self.y):
                model = self._fit(self.X[fitted], self.y[fitted])
                size[left] = np.abs(self.y[left] - self._predict(model, self.X[left]))
            self._difficulty = self._fit(self.X, size)
        return self._difficulty

    @staticmethod
    def _predict(model: Any, X: Floats) -> Floats:
        return np.asarray(model.predict(X), dtype=float)


def _mapie_interval(model: Any, X_test: Floats) -> Interval:
    with warnings.catch_warnings():
        # Of quantiles that cross in some rows; the interval of such a row is empty, and counted so.
        warnings.filterwarnings("ignore", category=UserWarning)
        _, bounds = model.predict_interval(X_test)
    bounds = np.asarray(bounds, dtype=float).reshape(len(X_test), 2)
    return bounds[:, 0], bounds[:, 1]


METHODS: dict[str, Callable[[ConformalIntervals, Floats], Interval]] = {
    "mapie-split": ConformalIntervals.mapie_split,
    "mapie-cqr": ConformalIntervals.mapie_cqr,
    "crepes-normalised": ConformalIntervals.crepes_normalised,
    "crepes-mondrian": ConformalIntervals.crepes_mondrian,
}


def covered(y: Floats, lower: Floats, upper: Floats) -> NDArray[np.bool_]:
    """Whether each interval holds its target, shape (n,)."""
    return (lower <= y) & (y <= upper)
