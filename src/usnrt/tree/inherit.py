"""Our way: children start from their parent's networks, and one part of the rows is held out for the whole tree.

Networks large enough to predict well remember the rows they were trained on, so only held-out rows show how large
errors really are. They stop the training of the mean networks early, their residuals are tested for splits, and the
variance networks learn from them: first roughly from the training rows, then, in two halves, from held-out rows. Each
half has its own variance network; a held-out row is judged by the network of the other half, so that the spread of
its standardised residual is that of a row never seen.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.base import TrainingTable
from usnrt.nn.device import Table
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import predict
from usnrt.nn.losses import SCALE_DF, robust_scale_nll, squared_error, variance_nll
from usnrt.nn.mlp import MLP, Params
from usnrt.nn.train import Training, train
from usnrt.progress import Progress
from usnrt.tree.grow import Node

# A half of a leaf's held-out rows below this tells too little to tune a variance network by.
MIN_ROWS_TO_TUNE = 20


@dataclass(frozen=True)
class Family:
    """What a parent hands down: its mean network, and the root's variance networks of the two halves."""

    mean: Params
    variance: tuple[Params, Params]


@dataclass(frozen=True)
class Schedule:
    """Steps of training at the root and below; the number of epochs follows from the number of rows.

    Attributes
    ----------
    mean, variance : Training
        At the root.
    mean_steps, variance_steps : int
        Steps of the mean and of the variance network at the root.
    child_rate : float
        Share of the root's step size that fine-tuning takes.
    child_steps : int
        Steps of fine-tuning a child's mean network.
    tune_steps, leaf_tune_steps : int
        Steps of tuning a variance network on held-out rows, at the root and in a leaf.
    min_epochs, max_epochs : int
        Bounds on the number of epochs.
    """

    mean: Training
    variance: Training
    mean_steps: int = 5000
    variance_steps: int = 1500
    child_rate: float = 0.2
    child_steps: int = 1000
    tune_steps: int = 1000
    leaf_tune_steps: int = 200
    min_epochs: int = 10
    max_epochs: int = 300

    def fitted(self, how: Training, n_steps: int, n_rows: int, **changes: float) -> Training:
        """The training with as many epochs as make so many steps, within the bounds."""
        batch_size = int(changes.get("batch_size", how.batch_size))
        epochs = round(n_steps * batch_size / max(n_rows, 1))
        bounded = int(np.clip(epochs, min(self.min_epochs, self.max_epochs), self.max_epochs))
        return replace(how, max_epochs=bounded, patience=bounded, **changes)  # type: ignore[arg-type]


@dataclass
class Inheriting:
    """Mean networks that are fine-tuned from node to node, variance networks that learn from held-out rows.

    Parameters
    ----------
    table : TrainingTable
    device_table : Table
    encoding : PiecewiseLinear or None
    mean_network, variance_network : MLP
    schedule : Schedule
    held_out : ndarray of bool of shape (n,)
        The rows that are held out.
    inherit : bool
        Whether children start from their parent's mean network; otherwise every node starts anew.
    robust : bool
        Whether spreads are learnt by the likelihood of a Student-t, so that outliers do not rule them; calibration must
        follow then. Otherwise they are variances, by that of a normal.
    progress : Progress
    """

    table: TrainingTable
    device_table: Table
    encoding: PiecewiseLinear | None
    mean_network: MLP
    variance_network: MLP
    schedule: Schedule
    held_out: NDArray[np.bool_]
    inherit: bool
    robust: bool
    progress: Progress

    @property
    def _spread_loss(self) -> Callable[[Any, Any], Any]:
        return robust_scale_nll if self.robust else variance_nll

    def study(self, node: Node, rng: np.random.Generator) -> None:
        """Train the mean network, at the root the variance networks too; held-out residuals are tested."""
        table, schedule = self.table, self.schedule
        held, seen = self._parts(node.rows)
        parent: Family | None = node.state
        fresh = parent is None or not self.inherit
        if fresh:
            start, how = self.mean_network.init(rng), schedule.fitted(schedule.mean, schedule.mean_steps, len(seen))
        else:
            assert parent is not None
            start = parent.mean
            rate = schedule.child_rate * schedule.mean.learning_rate
            how = schedule.fitted(schedule.mean, schedule.child_steps, len(seen), learning_rate=rate)
        node.mean, node.history["mean"] = train(
            self.mean_network, squared_error, start, self.device_table, table.y, table.weight, seen, held, how, rng,
            self.progress.reporter(node.name, len(node.rows), "mean"), judge_start=not fresh,
        )  # fmt: skip
        node.residuals = held, table.y[held] - self._mean(node.mean, held)
        variance = self._root_variance(node, seen, held, rng) if parent is None else parent.variance
        node.state = Family(node.mean, variance)

    def finish(self, node: Node, rng: np.random.Generator) -> None:
        """Tune the leaf's variance networks and standardise the residuals of its held-out rows."""
        if node.residuals is None:
            self.study(node, rng)
        assert node.residuals is not None
        held, residuals = node.residuals
        networks = node.state.variance
        if node.path:
            networks = self._tune(node, networks, held, residuals, self.schedule.leaf_tune_steps, rng)
        node.variance = list(networks)
        first = self._first_half(held)
        scale = np.sqrt(np.where(first, self._variance(networks[1], held), self._variance(networks[0], held)))
        node.scores = held, residuals / scale

    def _parts(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Held-out rows and rows to train on; few rows serve as both, if one of the two would be empty."""
        held = rows[self.held_out[rows]]
        seen = rows[~self.held_out[rows]]
        return (held if len(held) else rows), (seen if len(seen) else rows)

    def _first_half(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which held-out rows belong to the first half: every other one of the table."""
        return rows % 2 == 0

    def _root_variance(
        self, node: Node, seen: NDArray[np.intp], held: NDArray[np.intp], rng: np.random.Generator
    ) -> tuple[Params, Params]:
        """A variance network from the training rows, then one from each half of the held-out rows."""
        assert node.residuals is not None
        schedule, table = self.schedule, self.table
        squared = np.zeros(table.n_rows)
        squared[seen] = (table.y[seen] - self._mean(node.mean, seen)) ** 2
        squared[held] = node.residuals[1] ** 2
        params, node.history["variance"] = train(
            self.variance_network, self._spread_loss, self.variance_network.init(rng), self.device_table, squared,
            table.weight, seen, held, schedule.fitted(schedule.variance, schedule.variance_steps, len(seen)), rng,
            self.progress.reporter(node.name, len(node.rows), "variance"),
        )  # fmt: skip
        return self._tune(node, (params, params), *node.residuals, schedule.tune_steps, rng)

    def _tune(
        self,
        node: Node,
        networks: tuple[Params, Params],
        held: NDArray[np.intp],
        residuals: NDArray[np.float64],
        n_steps: int,
        rng: np.random.Generator,
    ) -> tuple[Params, Params]:
        """Tune the network of each half on that half, early stopping on the other."""
        schedule, table = self.schedule, self.table
        squared = np.zeros(table.n_rows)
        squared[held] = residuals**2
        first = self._first_half(held)
        halves = held[first], held[~first]
        tuned = []
        for which, params in enumerate(networks):
            own, other = halves[which], halves[1 - which]
            params = self._rescaled(params, own if len(own) else held, squared)
            if min(len(own), len(other)) >= MIN_ROWS_TO_TUNE:
                how = schedule.fitted(
                    schedule.variance, n_steps, len(own),
                    batch_size=64, learning_rate=schedule.variance.learning_rate / 4,
                )  # fmt: skip
                name = f"variance {'AB'[which]}"
                params, node.history[name] = train(
                    self.variance_network, self._spread_loss, params, self.device_table, squared, table.weight,
                    own, other, how, rng, self.progress.reporter(node.name, len(node.rows), name), judge_start=True,
                )  # fmt: skip
            tuned.append(params)
        return tuned[0], tuned[1]

    def _rescaled(self, params: Params, rows: NDArray[np.intp], squared: NDArray[np.float64]) -> Params:
        """The variance network times the factor that fits the residuals of some rows best."""
        ratio = squared[rows] / self._variance(params, rows)
        factor = float(np.average(ratio, weights=self.table.weight[rows]))
        for _ in range(20 if self.robust else 0):  # the scale of a Student-t, by its fixed point
            pull = (SCALE_DF + 1) / (SCALE_DF + ratio / max(factor, 1e-12))
            factor = float(np.average(pull * ratio, weights=self.table.weight[rows]))
        *hidden, (weights, bias) = params
        return (*hidden, (weights, (bias + np.log(max(factor, 1e-12))).astype(np.float32)))

    def _mean(self, params: Params, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        return predict(self.mean_network, params, self.table.inputs, rows, encoding=self.encoding)

    def _variance(self, params: Params, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        return predict(self.variance_network, params, self.table.inputs, rows, encoding=self.encoding)
