"""What an expert must be able to do."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from usnrt.memory.retrieval import Retrieved
from usnrt.tables.training import TreeRows
from usnrt.utils.context import FitContext
from usnrt.utils.schema import Schema
from usnrt.utils.types import Floats, Rows

# What most experts need: the best of many combinations is better than the network by chance.
MIN_STANDARD_ERRORS = 3.0


@dataclass(frozen=True)
class Query:
    """Rows that experts predict.

    Attributes
    ----------
    raw : ndarray of shape (n, d)
        Encoded rows.
    inputs : ndarray of shape (n, p), float32
        Network inputs.
    leaf : ndarray of int of shape (n,)
        Region of each row.
    without : ndarray of int of shape (n,) or None
        The rows of the training table that these are: an expert must predict them as if it had not seen them.
    retrieved : Retrieved or None
        What the memory predicts, if there is one.
    n_threads : int
    """

    raw: Floats
    inputs: NDArray[np.float32]
    leaf: NDArray[np.int64]
    without: Rows | None = None
    retrieved: Retrieved | None = None
    n_threads: int = 1

    def take(self, rows: Rows) -> "Query":
        """Some of the rows."""
        return replace(
            self,
            raw=self.raw[rows],
            inputs=self.inputs[rows],
            leaf=self.leaf[rows],
            without=None if self.without is None else self.without[rows],
            retrieved=None if self.retrieved is None else self.retrieved.take(rows),
        )


class Expert(Protocol):
    """Predicts a quantile function of every row, on the scale of the scaled target."""

    @property
    def name(self) -> str:
        """Its name in tables and sentences."""

    @property
    def max_weight(self) -> float:
        """The largest weight that it may have in a region."""

    @property
    def min_errors(self) -> float:
        """Standard errors by which combinations with it must be better than the best without it."""

    def quantile_functions(self, query: Query) -> Floats:
        """Quantile functions at `usnrt.nn.quantiles.POSITIONS`, shape (n, n_positions), each non-decreasing."""


class FurtherExpert(Expert, Protocol):
    """An expert that is fitted by itself, beside those that are trained together.

    One whose weight is 0 in every region is dropped: it then costs neither bytes nor time.
    """

    @property
    def n_inputs(self) -> int:
        """Number of network inputs that it takes."""

    def fits_together(self) -> bool:
        """Whether the fields of one that was read from a file fit together, each of which is valid by itself."""

    def to_onnx(self, graph: Any, query: Mapping[str, str]) -> str:
        """Quantile functions in an ONNX graph, from the names of its ``"inputs"`` and ``"leaf"``; name, (n, J)."""


class FittedExpert(FurtherExpert, Protocol):
    """A further expert of the library: its class is decorated by `register_expert`."""

    # What its file holds: the fields of the class and what each may be, see `usnrt.utils.schema`.
    FIELDS: ClassVar[Schema]
    # An expert may also have `min_gain`, the share of the loss by which combinations with it must be better, and
    # `n_parts`: then `fit` returns a trial, and if this one improves the predictions of the others, validation rows are
    # divided into so many parts, each predicted by an expert fitted to all other rows.

    @classmethod
    def fit(cls, rows: TreeRows, context: FitContext) -> Self | None:
        """Fit to the training rows, never to validation rows, which choose the weights; None for too small tables."""

    def refit(self, rows: TreeRows, context: FitContext) -> Self:
        """The expert with the choices of this one, fitted to the training rows of other rows."""


# Experts that are fitted by themselves, beside those that are trained together, in the order of their weights.
FURTHER_EXPERTS: list[type[FittedExpert]] = []
Kind = TypeVar("Kind", bound=type[FittedExpert])


def register_expert(kind: Kind) -> Kind:
    """Enter a class among the experts of default fits; one of your own before anything else of usnrt is imported."""
    FURTHER_EXPERTS.append(kind)
    return kind
