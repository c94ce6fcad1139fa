"""Experts that learn from all rows in the end, and still predict rows of the training table as if they were new."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.experts.base import FurtherExpert, Query
from usnrt.nn.quantiles import POSITIONS
from usnrt.tables.training import TreeRows
from usnrt.utils.context import FitContext
from usnrt.utils.schema import Array, Many, Schema, one
from usnrt.utils.types import Floats

# If more rows than this share validate, there are twice as many parts, so that no part is large.
MOST = 0.5


@dataclass(frozen=True)
class CrossFitted:
    """An expert that was fitted to all rows, and the same one fitted without each fold; exists only during a fit.

    Attributes
    ----------
    final : FurtherExpert
    parts : tuple of FurtherExpert
        One per fold, fitted without its rows.
    fold_of : ndarray of int of shape (n,)
        Fold of each row of the training table.
    """

    final: Any
    parts: tuple[Any, ...]
    fold_of: NDArray[np.int64]

    @property
    def name(self) -> str:
        """Name of the expert."""
        return str(self.final.name)

    @property
    def max_weight(self) -> float:
        """The largest weight that it may have in a region."""
        return float(self.final.max_weight)

    @property
    def min_errors(self) -> float:
        """See `usnrt.experts.base.Expert`."""
        return float(self.final.min_errors)

    @property
    def min_gain(self) -> float:
        """See `usnrt.experts.base.FittedExpert`."""
        return float(getattr(self.final, "min_gain", 0.0))

    @property
    def n_inputs(self) -> int:
        """Number of network inputs that it takes."""
        return int(self.final.n_inputs)

    def fits_together(self) -> bool:
        """See `usnrt.experts.base.FittedExpert`."""
        return all(part.n_inputs == self.n_inputs for part in self.parts)

    def quantile_functions(self, query: Query) -> Floats:
        """Of rows of the training table by the part that did not learn from them."""
        if query.without is None:
            final: Floats = self.final.quantile_functions(query)
            return final
        quantiles, fold = np.empty((len(query.leaf), len(POSITIONS))), self.fold_of[query.without]
        for number, part in enumerate(self.parts):
            rows = np.flatnonzero(fold == number)
            if len(rows):
                quantiles[rows] = part.quantile_functions(query.take(rows))
        return quantiles

    def to_onnx(self, graph: Any, query: Mapping[str, str]) -> str:
        """See `usnrt.experts.base.FittedExpert`."""
        return str(self.final.to_onnx(graph, query))


def stored_fields(names: list[str]) -> Schema:
    """What a checkpoint holds of a cross-fitted expert, from the names of the classes of experts."""
    return {"final": one(*names), "parts": Many(one(*names), kind=tuple), "fold_of": Array("i8", (None,), low=0)}


def cross_fitted(expert: Any, rows: TreeRows, context: FitContext, in_time_order: bool) -> FurtherExpert:
    """An expert that was fitted to the training rows, fitted to all rows.

    Validation rows are still predicted by the one that was fitted to the training rows, and training rows by one that
    was fitted to the validation rows: only the order of categories and the exact place of thresholds use these.

    Parameters
    ----------
    expert : FittedExpert
    rows : TreeRows
    context : FitContext
    in_time_order : bool
        Whether validation rows are later than training rows: it then learns from none of them.
    """
    is_validation = rows.is_validation
    if not is_validation.any():
        further: FurtherExpert = expert
        return further
    everything = replace(rows, is_validation=np.zeros_like(is_validation))
    final = expert if in_time_order else expert.refit(everything, context)
    reverse = expert.refit(replace(rows, is_validation=~is_validation), context)
    return CrossFitted(final, (expert, reverse), np.where(is_validation, 0, 1))


def fitted_in_parts(expert: Any, rows: TreeRows, context: FitContext) -> FurtherExpert:
    """An expert of which each part of the validation rows is predicted by one fitted to all rows but this part.

    Predictions of validation rows are thus nearly as accurate as those of new rows by the expert that `refitted` makes.
    Training rows, if there are any, are predicted by one that was fitted to the validation rows: only the order of
    categories and the exact place of thresholds use these.

    Parameters
    ----------
    expert : FittedExpert
        With what was chosen by a trial.
    rows : TreeRows
        Its validation rows are those that any fold holds out.
    context : FitContext
    """
    validation = np.flatnonzero(rows.is_validation)
    n_parts = expert.n_parts if len(validation) < MOST * rows.table.n_rows else 2 * expert.n_parts
    group = np.arange(len(validation)) if rows.table.group is None else rows.table.group[validation]
    fold_of = np.full(rows.table.n_rows, n_parts)
    fold_of[validation] = np.unique(group, return_inverse=True)[1] % n_parts  # rows are in random order

    def fitted_without(number: int) -> Any:
        # random numbers of its own, so that the parts differ
        own = replace(context, seed=[*np.atleast_1d(context.seed).tolist(), number])
        return expert.refit(replace(rows, is_validation=fold_of == number), own)

    parts = [fitted_without(number) for number in range(n_parts)]
    others = [] if len(validation) == rows.table.n_rows else [fitted_without(n_parts)]
    return CrossFitted(parts[0], (*parts, *others), fold_of)


def fitted_to_folds(expert: Any, folds: Sequence[TreeRows], context: FitContext) -> FurtherExpert:
    """An expert that was fitted to the training rows of the first fold, fitted to those of the others, too.

    Parameters
    ----------
    expert : FittedExpert
    folds : sequence of TreeRows
        A single one if the table is not cross-fitted: the expert then remains what it is.
    context : FitContext
    """
    is_validation = np.stack([rows.is_validation for rows in folds])
    fold_of = np.argmax(is_validation, axis=0)
    if not np.logical_or.reduce(is_validation).all() or fold_of.max() == 0:
        further: FurtherExpert = expert
        return further
    others = (expert.refit(rows, context) for rows in folds[1 : int(fold_of.max()) + 1])
    return CrossFitted(expert, (expert, *others), fold_of)


def is_trial(expert: Any) -> bool:
    """Whether an expert only shows whether another one is worth fitting, see `FittedExpert`."""
    return getattr(expert, "n_parts", 1) > 1


def refitted(expert: CrossFitted, rows: TreeRows, context: FitContext) -> FurtherExpert:
    """A cross-fitted expert of the library, whose final one is fitted to all rows."""
    everything = replace(rows, is_validation=np.zeros_like(rows.is_validation))
    return replace(expert, final=expert.parts[0].refit(everything, context))
