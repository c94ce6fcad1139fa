"""Template of an expert: copy this file, replace what it fits, and import the copy.

Within the library the file belongs in ``src/usnrt/experts``, and the one line to add is its import in
``src/usnrt/experts/__init__.py``. In your own project import it before anything else of usnrt. From then on
every default fit has the expert: validation rows choose its weight in each region, rules and explanations name it,
model files and ONNX graphs hold it. Where it has no weight in any region, it is dropped.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from usnrt.experts.base import MIN_STANDARD_ERRORS, Query, register_expert
from usnrt.nn.quantiles import POSITIONS
from usnrt.tables.training import TreeRows
from usnrt.utils.context import FitContext
from usnrt.utils.schema import Array, Float, Schema
from usnrt.utils.types import Floats

# In units of the standardised inputs.
RIDGE = 1.0


@register_expert
@dataclass(frozen=True)
class RidgeExpert:
    """Ridge regression on the network inputs, with a normal distribution of one standard deviation.

    Attributes
    ----------
    coefficients : ndarray of shape (n_inputs,)
    intercept, std : float
    """

    coefficients: Floats
    intercept: float
    std: float

    name: ClassVar[str] = "ridge"
    max_weight: ClassVar[float] = 1.0
    min_errors: ClassVar[float] = MIN_STANDARD_ERRORS
    # What a model file holds, checked when it is loaded: every field, with its dtype, shape and range.
    FIELDS: ClassVar[Schema] = {
        "coefficients": Array("f8", ("n_inputs",)),
        "intercept": Float(),
        "std": Float(5e-324),
    }

    @classmethod
    def fit(cls, rows: TreeRows, context: FitContext) -> "RidgeExpert | None":
        """Fit to the training rows, never to validation rows: these choose the weights of the experts.

        ``context`` has the seed, the number of threads, the progress and the checkpoint of the fit. Return None if the
        table is too small for the expert.
        """
        training = np.flatnonzero(~rows.is_validation)
        if len(training) < 20:
            return None
        x, y, weight = (values[training] for values in (rows.table.inputs, rows.table.y, rows.table.weight))
        x = x.astype(np.float64)
        center, mean = np.average(x, axis=0, weights=weight), np.average(y, weights=weight)
        scaled = (x - center) * weight[:, None]
        matrix = scaled.T @ (x - center) + RIDGE * np.eye(x.shape[1])
        coefficients = np.linalg.solve(matrix, scaled.T @ (y - mean))
        intercept = float(mean - center @ coefficients)
        error = y - x @ coefficients - intercept
        return cls(coefficients, intercept, max(float(np.sqrt(np.average(error**2, weights=weight))), 1e-9))

    def refit(self, rows: TreeRows, context: FitContext) -> "RidgeExpert":
        """The expert, fitted to other rows, with what was chosen for this one: here nothing."""
        return self.fit(rows, context) or self

    @property
    def n_inputs(self) -> int:
        """Number of network inputs that it takes."""
        return len(self.coefficients)

    def fits_together(self) -> bool:
        """Whether the fields of an expert from a file fit together, each of which is valid by itself."""
        return True

    def quantile_functions(self, query: Query) -> Floats:
        """Quantile functions at `usnrt.nn.quantiles.POSITIONS`, shape (n, n_positions), each non-decreasing.

        ``query`` has the rows as they were encoded (``raw``), the network inputs (``inputs``), their regions
        (``leaf``) and, in a fit, which training rows they are (``without``).
        """
        # A sum for each row, not a matrix product, whose bits depend on the other rows.
        mean = (query.inputs * self.coefficients).sum(axis=1) + self.intercept
        return mean[:, None] + self.std * POSITIONS

    def to_onnx(self, graph: Any, query: Mapping[str, str]) -> str:
        """Quantile functions in an ONNX graph, from the names of the network inputs and the leaves of rows."""
        inputs = graph.cast(query["inputs"], np.float64)
        mean = graph.op("MatMul", inputs, self.coefficients[:, None])
        return graph.op("Add", mean, self.intercept + self.std * POSITIONS)
