"""The linear expert: ridge regression with a log-linear spread, which a few dozen rows are enough for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from usnrt.experts.base import Query, register_expert
from usnrt.nn.quantiles import LEVELS, POSITIONS
from usnrt.tables.training import TreeRows
from usnrt.utils.context import FitContext
from usnrt.utils.schema import Array, Float, Schema
from usnrt.utils.types import Floats

# Fewer training rows tell nothing of the spread; more columns or rows cost more than they tell.
MIN_ROWS, MAX_ROWS, MAX_INPUTS = 20, 20_000, 500
# Penalties that are tried, in units of the number of rows; the last one leaves only the intercept.
PENALTIES = (*np.logspace(-6.0, 2.0, 17), np.inf)
# A residual counts at least this share of their standard deviation when its logarithm is taken.
SMALLEST = 1e-3
# What a model of a scaled target may hold: predictions of a forged file stay finite.
LARGEST = 1e9


@register_expert
@dataclass(frozen=True)
class LinearExpert:
    """Mean and logarithm of the spread are linear in the network inputs; residuals have one shape.

    Attributes
    ----------
    coefficients, spread_coefficients : ndarray of shape (n_inputs,)
    intercept, spread_intercept : float
    spread_low, spread_high : float
        Range of the logarithm of the spread in training; beyond, it is constant.
    shape : ndarray of shape (n_positions,)
        Quantiles of the residuals in units of their spread.
    """

    coefficients: Floats
    intercept: float
    spread_coefficients: Floats
    spread_intercept: float
    spread_low: float
    spread_high: float
    shape: Floats

    name: ClassVar[str] = "linear"
    max_weight: ClassVar[float] = 1.0
    # It has few parameters, and where the truth is linear, the 40 validation rows of a table of 200 tell little: with 3
    # standard errors it had no weight there. With 1 it has none on tables that are not linear (docs/recipe.md).
    min_errors: ClassVar[float] = 1.0
    FIELDS: ClassVar[Schema] = {
        "coefficients": Array("f8", ("n_inputs",), low=-LARGEST, high=LARGEST),
        "intercept": Float(-LARGEST, LARGEST),
        "spread_coefficients": Array("f8", ("n_inputs",), low=-LARGEST, high=LARGEST),
        "spread_intercept": Float(-LARGEST, LARGEST),
        "spread_low": Float(-100.0, 100.0),
        "spread_high": Float(-100.0, 100.0),
        "shape": Array("f8", (len(LEVELS),), low=-LARGEST, high=LARGEST, order="ascending"),
    }

    @classmethod
    def fit(cls, rows: TreeRows, context: FitContext) -> "LinearExpert | None":
        """Fit to the training rows; penalties are chosen by leaving out one row at a time."""
        training = np.flatnonzero(~rows.is_validation)[:MAX_ROWS]
        if len(training) < MIN_ROWS or rows.table.inputs.shape[1] > MAX_INPUTS:
            return None
        y, weight = rows.table.y[training], rows.table.weight[training]
        ridge = _Ridge(rows.table.inputs[training].astype(np.float64), weight)
        coefficients, intercept, residuals = ridge.fit(y)
        floor = SMALLEST * float(np.sqrt(np.average(residuals**2, weights=weight))) + 1e-12
        spread, spread_intercept, error = ridge.fit(np.log(np.maximum(np.abs(residuals), floor)))
        log_spread = np.log(np.maximum(np.abs(residuals), floor)) - error
        low, high = np.quantile(log_spread, [0.01, 0.99])
        shape = _weighted_quantiles(residuals / np.exp(np.clip(log_spread, low, high)), weight)
        shape = shape + SMALLEST * POSITIONS  # an exact fit still predicts distributions, not points
        return cls(coefficients, intercept, spread, spread_intercept, float(low), float(high), shape)

    def refit(self, rows: TreeRows, context: FitContext) -> "LinearExpert":
        """See `usnrt.experts.base.FittedExpert`."""
        return self.fit(rows, context) or self

    @property
    def n_inputs(self) -> int:
        """See `usnrt.experts.base.FittedExpert`."""
        return len(self.coefficients)

    def fits_together(self) -> bool:
        """See `usnrt.experts.base.FittedExpert`."""
        return self.spread_low <= self.spread_high

    def quantile_functions(self, query: Query) -> Floats:
        """See `usnrt.experts.base.Expert`."""
        # Sums for each row, not a matrix product, whose bits depend on the other rows.
        mean = (query.inputs * self.coefficients).sum(axis=1) + self.intercept
        log_spread = (query.inputs * self.spread_coefficients).sum(axis=1) + self.spread_intercept
        spread = np.exp(np.clip(log_spread, self.spread_low, self.spread_high))
        quantiles: Floats = mean[:, None] + spread[:, None] * self.shape
        return quantiles

    def to_onnx(self, graph: Any, query: Mapping[str, str]) -> str:
        """See `usnrt.experts.base.FittedExpert`."""
        inputs = graph.cast(query["inputs"], np.float64)
        columns = np.stack([self.coefficients, self.spread_coefficients], axis=1)
        intercepts = np.array([self.intercept, self.spread_intercept])
        both = graph.op("Add", graph.op("MatMul", inputs, columns), intercepts)
        mean, log_spread = graph.ops("Split", 2, both, np.array([1, 1]), axis=1)
        clipped = graph.op("Clip", log_spread, np.float64(self.spread_low), np.float64(self.spread_high))
        return str(graph.op("Add", mean, graph.op("Mul", graph.op("Exp", clipped), self.shape)))


class _Ridge:
    """Ridge regressions of several targets on the same rows.

    Parameters
    ----------
    x : ndarray of shape (n, p)
    weight : ndarray of shape (n,)
    """

    def __init__(self, x: Floats, weight: Floats) -> None:
        self._weight = weight / weight.mean()
        self._center = np.average(x, axis=0, weights=weight)
        self._root = np.sqrt(self._weight)[:, None]
        self._u, self._s, self._v = np.linalg.svd(self._root * (x - self._center), full_matrices=False)

    def fit(self, y: Floats) -> tuple[Floats, float, Floats]:
        """Coefficients, intercept, and the residuals of rows that were left out, with the best penalty."""
        n, root = len(y), self._root[:, 0]
        mean = float(np.average(y, weights=self._weight))
        target = root * (y - mean)
        projected, best = self._u.T @ target, (np.inf, np.zeros(0), np.zeros(0))
        for penalty in PENALTIES:
            shrinkage = self._s**2 / (self._s**2 + n * penalty) if np.isfinite(penalty) else np.zeros(len(self._s))
            leverage = (self._u**2) @ shrinkage + self._weight / n
            left_out = (target - self._u @ (shrinkage * projected)) / np.maximum(1.0 - leverage, 1e-3)
            loss = float((left_out**2).sum())
            if loss < best[0]:
                best = loss, shrinkage, left_out
        _, shrinkage, left_out = best
        inverse = np.divide(shrinkage, self._s, out=np.zeros(len(self._s)), where=self._s > 1e-12 * self._s[0])
        coefficients = self._v.T @ (inverse * projected)
        return coefficients, mean - float(self._center @ coefficients), left_out / root


def _weighted_quantiles(values: Floats, weight: Floats) -> Floats:
    """Quantiles at the levels of quantile functions."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weight[order])
    quantiles: Floats = np.interp(LEVELS * total[-1], total - 0.5 * weight[order], values[order])
    return quantiles
