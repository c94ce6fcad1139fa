"""Our way: children start from their parent's networks, and one part of the rows is held out for the whole tree.

Networks large enough to predict well remember the rows they were trained on, so only held-out rows show how large
errors really are. They stop the training of all networks early, and their residuals are tested for splits.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.losses import squared_error
from usnrt.nn.mlp import MLP, Params
from usnrt.tree.grow import Node, Residuals
from usnrt.tree.spread import Spread, TrainingContext
from usnrt.utils.types import Rows


@dataclass(frozen=True)
class InheritedParams:
    """What a parent hands down: its mean network, and the root's second networks."""

    mean: Params
    spread: tuple[Params, ...]


@dataclass
class WarmStart:
    """Mean networks that are fine-tuned from node to node, second networks from the root to the leaves.

    Parameters
    ----------
    context : TrainingContext
    mean_network : MLP
    spread : Spread
        How the second networks are trained.
    held_out : ndarray of bool of shape (n,)
        The rows that are held out.
    inherit : bool
        Whether children start from their parent's mean network; otherwise every node starts anew.
    """

    context: TrainingContext
    mean_network: MLP
    spread: Spread
    held_out: NDArray[np.bool_]
    inherit: bool

    def study(self, node: Node, rng: np.random.Generator) -> None:
        """Train the mean network, at the root the second network too; held-out residuals are tested."""
        context, schedule = self.context, self.context.schedule
        held, seen = self._parts(node.rows)
        parent: InheritedParams | None = node.state
        work = node, "mean", self.mean_network, squared_error
        if parent is None or not self.inherit:
            how = schedule.fitted(schedule.mean, schedule.mean_steps, len(seen))
            start = self.mean_network.init(rng)
            node.mean = context.train(*work, start, context.table.y, seen, held, how, rng, rounds=schedule.max_rounds)
        else:
            rate = schedule.child_rate * schedule.mean.learning_rate
            how = schedule.fitted(schedule.mean, schedule.child_steps, len(seen), learning_rate=rate)
            node.mean = context.train(*work, parent.mean, context.table.y, seen, held, how, rng, fresh=False)
        node.residuals = held, context.table.y[held] - context.answer(self.mean_network, node.mean, held)
        spread = self.spread.root(node, seen, held, rng) if parent is None else parent.spread
        node.state = InheritedParams(node.mean, spread)

    def untested(self, node: Node) -> Residuals:
        """Residuals of the node's training rows, none if they are tested for want of others."""
        held_out = self.held_out[node.rows]
        rows = node.rows[~held_out] if held_out.any() else node.rows[:0]
        if len(rows) == 0:
            return rows, np.zeros(0)
        return rows, self.context.table.y[rows] - self.context.answer(self.mean_network, node.mean, rows)

    def finish(self, node: Node, rng: np.random.Generator) -> None:
        """Tune the second networks of a leaf, and see where its held-out rows lie by them."""
        if node.residuals is None:
            self.study(node, rng)
        held, seen = self._parts(node.rows)
        networks: tuple[Params, ...] = node.state.spread
        if node.path:
            networks = self.spread.leaf(node, networks, seen, held, rng)
        node.variance = list(networks)
        node.scores = held, self.spread.scores(node, networks, held)

    def _parts(self, rows: Rows) -> tuple[Rows, Rows]:
        """Held-out rows and rows to train on; few rows serve as both, if one of the two would be empty."""
        held = rows[self.held_out[rows]]
        seen = rows[~self.held_out[rows]]
        return (held if len(held) else rows), (seen if len(seen) else rows)
