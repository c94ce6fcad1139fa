"""Intervals that keep their coverage while the data drift: every observed target moves the bounds."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from usnrt.calibration.groups import GroupCalibration
from usnrt.estimators.targets import check_target, read_target
from usnrt.estimators.tree_regressor import TreeRegressor
from usnrt.nn.quantile_functions import value_at
from usnrt.nn.quantiles import POSITIONS
from usnrt.utils.constraints import check_number
from usnrt.utils.types import Floats, TableLike

# How far a bound moves for a surplus of misses, on the scale of conformity scores: in proportion to a small surplus, by
# its cube beyond TABLE_LIMIT or REGION_LIMIT misses. Chosen on simulated scores (docs/calibration.md).
STEP = 0.05
TABLE_LIMIT, REGION_LIMIT = 4.0, 8.0
# A surplus falls by at most (1 - coverage) / 2 per row, so one without limit kept the intervals of a passing jump for
# thousands of rows. At 90 % this one is worked off in 400 rows. It moves a bound by 126 for the table, 17 for a region.
MAX_SURPLUS = 20.0


class OnlineCalibrator:
    r"""Prediction intervals of a fitted model that adapt to drift, region by region.

    Adaptive conformal inference on the scale of conformity scores. For each side of the interval, the surplus
    :math:`S` of misses is counted: every row adds 1 if its target is beyond the bound, less the nominal rate
    :math:`(1 - coverage) / 2`. The bound of a region is that of the model's calibration, moved outwards by
    :math:`φ(S) + φ_r(S_r)`, with the surplus of all rows and that of the region's rows, and

    .. math:: φ(S) = 0.05 S + (S / 4)^3, \quad φ_r(S) = 0.05 S + (S / 8)^3

    So a region with few rows follows the table, and one with many finds its own bounds. Whatever the data, as long as
    no surplus is at its limit, the coverage of n consecutive rows differs from the nominal one by at most the change of
    :math:`S` over them, divided by n; the cube keeps :math:`S` within a few misses. This is quantile tracking [1]_,
    [2]_ with a saturating integrator [3]_.

    Each surplus is limited to ±20, so that a jump and its return do not leave wide intervals for thousands of rows. The
    bounds therefore follow drift up to :math:`φ(20) = 126` on the scale of conformity scores, about 126 predicted
    standard deviations. Rows beyond that are missed: refit the model.

    A side that is at a bound of the target (``target_bounds``) does not count its lack of misses.

    Parameters
    ----------
    model : USNRTRegressor, USNRTEnsemble or their paper's versions
        Fitted; it is not changed.
    coverage : float, default=0.9
        Nominal coverage, in (0, 1).

    Attributes
    ----------
    surplus_ : ndarray of shape (2,)
        Surplus of misses below and above, over all rows.
    region_surplus_ : ndarray of shape (n_leaves, 2)
        The same for each region, left to right.
    n_rows_ : int
        Number of rows seen.
    n_covered_ : int
        Number of these whose target was in its interval, predicted before it was seen.

    References
    ----------
    .. [1] I. Gibbs, E. Candès: Adaptive conformal inference under distribution shift, 2021.
    .. [2] O. Bastani et al.: Practical adversarial multivalid conformal prediction, 2022.
    .. [3] A. Angelopoulos, E. Candès, R. Tibshirani: Conformal PID control for time series prediction, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt import OnlineCalibrator, USNRTRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (800, 2))
    >>> y = X[:, 1] + 0.3 * rng.normal(size=800)
    >>> model = USNRTRegressor(hidden=(16, 8), max_epochs=10, random_state=0).fit(X, y)
    >>> online = OnlineCalibrator(model, coverage=0.9)
    >>> drifted = y + 1.0
    >>> online.update(X, drifted).n_covered_ > 650
    True
    >>> low, high = online.predict_interval([[0.0, 0.0]])[0]
    >>> bool(0.2 < low < 1.0 < high)  # the mean has moved from 0 to 1
    True
    """

    def __init__(self, model: TreeRegressor, coverage: float = 0.9) -> None:
        if not isinstance(model, TreeRegressor):
            raise TypeError(f"model must be a model with regions, got {type(model).__name__}")
        check_is_fitted(model)
        check_number("coverage", coverage, 0, 1)
        self.model = model
        self.coverage = float(coverage)
        self.surplus_ = np.zeros(2)
        self.region_surplus_ = np.zeros((model.n_leaves_, 2))
        self.n_rows_, self.n_covered_ = 0, 0

    def update(self, X: TableLike, y: ArrayLike) -> Self:
        """Learn from observed targets, row by row in the order given.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The rows, the oldest first.
        y : float or array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        self._run(X, read_target(np.atleast_1d(y)))
        return self

    def predict_interval(self, X: TableLike) -> Floats:
        """Intervals of the nominal coverage, with all that was observed so far.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper bounds.
        """
        leaf, quantiles, static = self._predicted(X)
        moved = static + np.array([-1.0, 1.0]) * self._offsets()[leaf]
        return self._in_units(quantiles, moved)

    def predict_then_update(self, X: TableLike, y: ArrayLike) -> Floats:
        """Intervals of rows in the order given, each predicted with the targets of the rows before it.

        The same as `predict_interval` and `update` for one row after the other; the networks run once.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_samples, 2)
        """
        return self._run(X, read_target(y))

    def save(self, path: Any, user_models: Callable[[Any], bytes] | None = None) -> None:
        """Write the calibrator and its model to one file that `usnrt.load` reads.

        Parameters
        ----------
        path : str or path-like
        user_models : callable, default=None
            See `usnrt.USNRTRegressor.save`.
        """
        from usnrt.persistence import save

        save(self, path, user_models)

    def _run(self, X: TableLike, target: Floats) -> Floats:
        check_target(target, self.model._parameter("target_bounds"))
        leaf, quantiles, static = self._predicted(X)
        if len(leaf) != len(target):
            raise ValueError(f"X and y must have the same number of rows, got {len(leaf)} and {len(target)}")
        ends = np.empty((len(leaf), 2))
        target_map = self.model.target_map_
        limits = np.array([-np.inf, np.inf] if target_map is None else [target_map.low, target_map.high])
        expected = (1.0 - self.coverage) / 2.0
        for row, region in enumerate(leaf):
            moved = static[row] + np.array([-1.0, 1.0]) * self._offset(int(region))
            ends[row] = self._in_units(quantiles[row : row + 1], moved[None, :])[0]
            missed = np.array([target[row] < ends[row, 0], target[row] > ends[row, 1]])
            counts = missed | (ends[row] != limits)
            change = np.where(counts, missed - expected, 0.0)
            self.surplus_ = np.clip(self.surplus_ + change, -MAX_SURPLUS, MAX_SURPLUS)
            self.region_surplus_[region] = np.clip(self.region_surplus_[region] + change, -MAX_SURPLUS, MAX_SURPLUS)
            self.n_rows_ += 1
            self.n_covered_ += int(not missed.any())
        return ends

    def _predicted(self, X: TableLike) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Region, quantile functions and static bounds of rows, the bounds as positions, shape (n, 2)."""
        model = self.model.model_
        predicted = model.predict(self.model._encode(X))
        side, leaf = float(ndtri((1.0 + self.coverage) / 2.0)), predicted.calibration_leaf
        static = np.tile([-side, side], (len(leaf), 1))
        if isinstance(model.calibration, GroupCalibration):
            bounds = model.calibration.bounds(self.coverage)
            bounds = np.where(np.isfinite(bounds), bounds, [-side, side])  # too few scores: it learns from new rows
            static = bounds[model.calibration.group_of_leaf[leaf]]
        return predicted.leaf, predicted.quantiles, static

    def _offsets(self) -> Floats:
        """Distances by which the bounds of each region are moved outwards, shape (n_leaves, 2)."""
        return np.array([self._offset(region) for region in range(len(self.region_surplus_))])

    def _offset(self, region: int) -> Floats:
        offset = _moved(self.surplus_, TABLE_LIMIT)
        return offset if len(self.region_surplus_) == 1 else offset + _moved(self.region_surplus_[region], REGION_LIMIT)

    def _in_units(self, quantiles: Floats, positions: Floats) -> Floats:
        """Bounds in units of the target; where the sides have crossed, their middle."""
        positions = np.where((positions[:, :1] > positions[:, 1:]), positions.mean(axis=1, keepdims=True), positions)
        return self.model.target_scale_.to_target(value_at(quantiles, POSITIONS, positions))


def _moved(surplus: Floats, limit: float) -> Floats:
    return STEP * surplus + (surplus / limit) ** 3
