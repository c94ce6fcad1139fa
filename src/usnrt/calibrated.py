"""What the tree and the ensemble share: regions, and answers calibrated in them."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from usnrt.base import read_target
from usnrt.calibration import Calibration, scores_of
from usnrt.checks import check_choice, check_number
from usnrt.distributions import Distribution, GroupedCurve, Shape
from usnrt.nn.quantiles import POSITIONS
from usnrt.supported import SupportedRegressor
from usnrt.table import Table
from usnrt.tree.rules import rules_table

if TYPE_CHECKING:
    from onnx import ModelProto


class CalibratedRegressor(SupportedRegressor):
    """A model that knows regions, and may be calibrated in them.

    It sets ``tree_``, ``support_`` and ``calibration_`` in fit, and defines ``_network_curves(raw)``: leaf, mean,
    quantile functions and disagreement of encoded rows, in units of the scaled target.
    """

    calibration_: Calibration | None

    def _distribution(self, raw: NDArray[np.float64]) -> Distribution:
        predicted = self._predicted(raw)
        dist = self._of_curves(predicted.leaf, predicted.mean, predicted.curve)
        if predicted.found is None:
            return dist
        return dist.with_parts(self._within(dist, predicted), None)

    def _of_curves(
        self, leaf: NDArray[np.int64], mean: NDArray[np.float64], curve: NDArray[np.float64]
    ) -> GroupedCurve:
        """Distributions from what the networks say: calibrated, or as it is."""
        if self.calibration_ is None:
            return GroupedCurve(curve, POSITIONS, np.zeros_like(leaf), [standard_normal()], mean=mean)
        return self.calibration_.distribution(mean, curve, leaf)

    def _scores(
        self, raw: NDArray[np.float64], target: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Leaf, and place among the quantiles, of encoded rows and targets in the user's units."""
        leaf, _, curve = self._curves(raw)
        return leaf, scores_of(curve, (target - self.target_mean_) / self.target_std_)

    def calibrate(self, X: Any, y: ArrayLike, by: str = "leaf") -> Self:
        """Learn the spread and shape of the errors anew from fresh rows, and nothing else.

        The coverage of `predict_interval` is then guaranteed, in every leaf, for rows that are exchangeable with
        these: no assumption is made about the networks or the distribution.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Rows that were not used to fit the model.
        y : array-like of shape (n_samples,)
        by : {"leaf", "global"}, default="leaf"
            Whether every leaf, or all together, get a shape of their own.

        Returns
        -------
        self
        """
        check_choice("by", by, ("leaf", "global"))
        raw, target = self._encode(X), read_target(y)
        if len(raw) != len(target):
            raise ValueError(f"X and y must have the same number of rows, however: {len(raw)} and {len(target)}")
        leaf, scores = self._scores(raw, target)
        self.calibration_ = Calibration.from_scores(scores, leaf, np.ones(len(scores)), self.tree_, by)
        return self

    def predict_interval(self, X: Any, coverage: float | Sequence[float] = 0.9) -> NDArray[np.float64]:
        """Intervals that hold the target with a stated probability, with equal tails.

        Calibrated models take the order statistics of the held-out errors in the row's leaf (see
        `usnrt.calibration`): bounds are infinite where the leaf has too few of them for the coverage asked for.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        coverage : float or sequence of k floats, default=0.9
            In (0, 1).

        Returns
        -------
        ndarray of shape (n_samples, 2), or (n_samples, 2, k) for a sequence
        """
        check_is_fitted(self)
        if self.calibration_ is None:
            return super().predict_interval(X, coverage)
        for level in np.atleast_1d(coverage):
            check_number("coverage", float(level), 0, 1)
        leaf, _, curve = self._curves(self._encode(X))
        bounds = [
            self.target_mean_ + self.target_std_ * self.calibration_.interval(curve, leaf, float(level))
            for level in np.atleast_1d(coverage)
        ]
        return bounds[0] if np.ndim(coverage) == 0 else np.stack(bounds, axis=2)

    # -- reading the regions -----------------------------------------------------------------------------------

    @property
    def n_leaves_(self) -> int:
        """Number of regions."""
        return self.tree_.n_leaves

    def apply(self, X: Any) -> NDArray[np.int64]:
        """The node number of the leaf that each row falls in.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        raw = self._encode(X)
        return self.tree_.apply(raw)

    def decision_path(self, X: Any) -> Any:
        """The nodes that each row passes.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_samples, n_nodes)
            1 where a row passes a node.
        """
        raw = self._encode(X)
        return self.tree_.decision_path(raw)

    def get_depth(self) -> int:
        """The longest way from the root to a leaf."""
        check_is_fitted(self)
        return self.tree_.max_depth

    def get_n_leaves(self) -> int:
        """Number of leaves."""
        check_is_fitted(self)
        return self.n_leaves_

    @property
    def heterogeneity_(self) -> float:
        """Standard deviation of the logarithms of the leaves' residual standard deviations."""
        leaves = self.tree_.feature < 0
        return float(np.std(np.log(np.maximum(self.tree_.residual_std[leaves], np.finfo(float).tiny))))

    def rules(self) -> Table:
        """The regions as a table: rule, rows, residual standard deviation in the target's units, splits on the way.

        Returns
        -------
        Table
            One row a leaf.
        """
        check_is_fitted(self)
        return rules_table(self.tree_, self.columns_)

    def to_onnx(self, path: Any = None, *, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> "ModelProto":
        """The model as one ONNX graph for other languages: rows as they are go in, answers come out.

        Inputs: if all columns hold numbers, one matrix ``X`` of shape (n, n_features), float64. Else an input of shape
        (n,) for each column, under its name: numbers as float64, text as strings, dates as int64 microseconds of wall
        time since 1970. A missing value is NaN, the empty string or the smallest int64 (every input tells so in its
        description); `usnrt.onnx.feeds` makes all inputs from a table. An input has an underscore after its name if an
        output is called so. Categories that training did not see and values beyond all thresholds are handled as in
        the library; a number that is infinite is not refused but taken as a very large one.

        Outputs: ``mean`` and ``std`` of shape (n,), ``leaf`` of shape (n,) as from `apply`, ``quantiles`` of shape
        (n, k) as from `predict_quantiles`, and ``supported`` of shape (n,) as from `predict_support`.

        Parameters
        ----------
        path : path-like, optional
            The file to write, by custom ending in ``.onnx``; None for none.
        levels : sequence of k floats, default=(0.05, 0.5, 0.95)
            Of the quantiles, each in (0, 1).

        Returns
        -------
        onnx.ModelProto
        """
        from usnrt.onnx import to_onnx

        return to_onnx(self, path, levels=levels)


@functools.cache
def standard_normal() -> Shape:
    """The shape of a standard normal, for quantiles that are taken as the networks say them."""
    knots = np.linspace(-6.0, 6.0, 241)
    return Shape(knots, np.exp(-(knots**2) / 2.0), np.full(2, 2.5e-9), np.full(2, 1e-3))
