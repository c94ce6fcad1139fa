"""What networks predict of rows that they were not trained on chooses the weights of the experts and refines them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from usnrt.experts.refine import Refinement, ends_of
from usnrt.memory.retrieval import PREDICT_ROWS
from usnrt.nn.quantiles import quantile_function_mean
from usnrt.tables.training import TrainingTable, TreeRows
from usnrt.tree.model import ExpertTree
from usnrt.utils.types import Floats, Rows


@dataclass(frozen=True)
class HeldOut:
    """The rows that the members of a model were not trained on.

    Attributes
    ----------
    table : TrainingTable
    is_validation : ndarray of bool of shape (n_members, n)
        One row for a model of a single network.
    """

    table: TrainingTable
    is_validation: NDArray[np.bool_]

    @classmethod
    def of(cls, folds: Sequence[TreeRows]) -> "HeldOut":
        """What the members hold out, given the rows of each."""
        return cls(folds[0].table, np.stack([rows.is_validation for rows in folds]))

    @property
    def rows(self) -> Rows:
        """Rows that some member was not trained on; all rows if there are none."""
        return _marked(np.logical_or.reduce(self.is_validation))

    @property
    def by_member(self) -> list[Rows]:
        """Rows that each member was not trained on; all rows if there are none."""
        return [_marked(own) for own in self.is_validation]

    def counts(self, rows: Rows) -> NDArray[np.int64]:
        """How many members `mean` averages for each row."""
        counts: NDArray[np.int64] = self._predicted_by(rows).sum(axis=0)
        return counts

    def mean(self, rows: Rows, predict: Callable[[int, Rows], Floats]) -> Floats:
        """Mean over the members that were not trained on a row; over all members, if all were trained on it.

        Parameters
        ----------
        rows : ndarray of int of shape (n,)
        predict : callable
            ``predict(member, positions)`` returns what a member predicts of ``rows[positions]``, shape (m, ...).

        Returns
        -------
        ndarray of shape (n, ...)

        Examples
        --------
        >>> import numpy as np
        >>> from usnrt.tables.training import TrainingTable
        >>> from usnrt.tree.held_out import HeldOut
        >>> table = TrainingTable(np.zeros((3, 1)), np.zeros((3, 1), np.float32), np.zeros(3), np.ones(3))
        >>> held_out = HeldOut(table, np.array([[True, False, True], [False, True, True]]))
        >>> held_out.mean(np.array([0, 1, 2]), lambda member, positions: np.full(len(positions), 10.0 * member))
        array([ 0., 10.,  5.])
        """
        by_member = self._predicted_by(rows)
        total: Floats | None = None
        for member, own in enumerate(by_member):
            positions = np.flatnonzero(own)
            if len(positions):
                values = predict(member, positions)
                total = np.zeros((len(rows), *values.shape[1:])) if total is None else total
                total[positions] += values
        if total is None:
            return predict(0, np.arange(0))
        means: Floats = total / by_member.sum(axis=0).reshape(-1, *[1] * (total.ndim - 1))
        return means

    def _predicted_by(self, rows: Rows) -> NDArray[np.bool_]:
        own: NDArray[np.bool_] = self.is_validation[:, rows]
        return own | ~own.any(axis=0)


def _marked(is_marked: NDArray[np.bool_]) -> Rows:
    return np.flatnonzero(is_marked) if is_marked.any() else np.arange(len(is_marked))


def refine(members: Sequence[ExpertTree], held_out: HeldOut) -> tuple[list[ExpertTree], list[Floats]]:
    """The members with common weights of the experts and a common refinement, which held-out rows choose.

    Parameters
    ----------
    members : sequence of ExpertTree
        Of the same tree, with the same experts.
    held_out : HeldOut

    Returns
    -------
    members : list of ExpertTree
    quantiles : list of ndarray of shape (m, n_positions)
        Per member, refined quantile functions of its rows in `HeldOut.by_member`.
    """
    table, tree, rows = held_out.table, members[0].tree, held_out.rows
    y, weight, leaf = table.y[rows], table.validation_weight[rows], tree.leaf_of(table.raw[rows])
    members = [replace(member, refinement=None) for member in members]
    if members[0].n_experts > 1:
        few = rows[:PREDICT_ROWS]  # rows are in random order; weights do not need more of them
        quantiles = held_out.mean(few, lambda member, own: members[member].expert_quantiles(table, few[own]))
        n_few = slice(len(few))
        weights = members[0].fitted_weights(np.moveaxis(quantiles, 1, 0), leaf[n_few], y[n_few], weight[n_few])
        members = [replace(member, expert_weights=weights) for member in members]
    blended = [
        member.quantile_functions(table.raw[own], table.inputs[own], without=own).quantiles
        for member, own in zip(members, held_out.by_member)
    ]
    mean = mean_quantiles(held_out, blended)
    refinement = Refinement.fit(leaf, quantile_function_mean(mean), mean, y, weight, tree.n_leaves, ends_of(table.y))
    refined = [
        refinement.apply(tree.leaf_of(table.raw[own]), quantile_function_mean(quantiles), quantiles)
        for own, quantiles in zip(held_out.by_member, blended)
    ]
    return [replace(member, refinement=refinement) for member in members], refined


def mean_quantiles(held_out: HeldOut, quantiles: Sequence[Floats]) -> Floats:
    """Quantile functions of all held-out rows, given those by each member: the means of `HeldOut.mean`."""
    rows, by_member = held_out.rows, held_out.by_member
    return held_out.mean(rows, lambda member, own: quantiles[member][np.searchsorted(by_member[member], rows[own])])
