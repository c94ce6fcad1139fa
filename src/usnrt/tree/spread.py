"""What the second network of a leaf says, and how it is trained: quantiles of the target, or a variance.

Networks large enough to predict well remember the rows they were trained on; so rows that are held out for the whole
tree stop their training early, and give the scores that calibration starts from. The score of a row is where its
target lies on the normal scale, by the networks; for a variance it is the residual over the standard deviation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.device import DeviceTable
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import predict
from usnrt.nn.losses import SCALE_DF, robust_scale_nll, variance_nll
from usnrt.nn.mlp import MLP, Params
from usnrt.nn.quantile_functions import conformity_scores
from usnrt.nn.quantiles import pinball, start_at, to_quantiles
from usnrt.nn.train import Training, train
from usnrt.tables.training import TrainingTable
from usnrt.tree.grow import Node
from usnrt.tree.schedule import Schedule
from usnrt.utils.progress import Progress
from usnrt.utils.types import Rows

# A half of a leaf's held-out rows below this tells too little to tune a variance network by.
MIN_ROWS_TO_TUNE = 20

# A training whose best epoch comes after this share of it has not come to its end.
LATE = 0.9


class Spread(Protocol):
    """How the second networks come about."""

    def root(self, node: Node, seen: Rows, held: Rows, rng: np.random.Generator) -> tuple[Params, ...]:
        """Networks for all rows."""

    def leaf(
        self, node: Node, networks: tuple[Params, ...], seen: Rows, held: Rows, rng: np.random.Generator
    ) -> tuple[Params, ...]:
        """Networks of a leaf, from those of the root."""

    def scores(self, node: Node, networks: Sequence[Params], held: Rows) -> NDArray[np.float64]:
        """Where the held-out rows lie, by networks that did not learn from them."""


@dataclass
class TrainingContext:
    """What every training of a tree needs.

    Attributes
    ----------
    table : TrainingTable
    device_table : DeviceTable
    encoding : PiecewiseLinear or None
    schedule : Schedule
    progress : Progress
    """

    table: TrainingTable
    device_table: DeviceTable
    encoding: PiecewiseLinear | None
    schedule: Schedule
    progress: Progress

    def train(
        self,
        node: Node,
        name: str,
        network: MLP,
        loss: Callable[[Any, Any], Any],
        params: Params,
        target: NDArray[np.float64],
        seen: Rows,
        held: Rows,
        how: Training,
        rng: np.random.Generator,
        *,
        fresh: bool = True,
        rounds: int = 1,
    ) -> Params:
        """Train one network of a node; one that is not fresh is kept as it was if training does not help.

        With several rounds it is trained again from where it came to, as long as held-out rows gain a lot by it: a
        table without noise can be learnt ever better, while one that is mostly noise is best left early.
        """
        loss_before = np.inf
        for number in range(1, rounds + 1):
            label = name if number == 1 else f"{name} {number}"
            params, course = train(
                network, loss, params, self.device_table, target, self.table.weight, seen, held, how, rng,
                self.progress.reporter(node.name, len(node.rows), label), judge_start=not fresh or number > 1,
            )  # fmt: skip
            node.history[label] = course
            loss_now = min(course.valid_loss, default=np.inf)
            gained = loss_now <= (1.0 - self.schedule.min_relative_gain) * loss_before
            if not gained or course.best_epoch < LATE * len(course.valid_loss):
                break
            loss_before = loss_now
        return params

    def answer(self, network: MLP, params: Params, rows: Rows) -> NDArray[np.float64]:
        """What a network says of some rows."""
        return predict(network, params, self.table.inputs, rows, encoding=self.encoding)


@dataclass
class QuantileSpread:
    """One network that says quantiles of the target; leaves tune that of the root on their rows.

    Parameters
    ----------
    context : TrainingContext
    network : MLP
    inherit : bool
        Whether leaves start from the root's network, or anew.
    """

    context: TrainingContext
    network: MLP
    inherit: bool

    def root(self, node: Node, seen: Rows, held: Rows, rng: np.random.Generator) -> tuple[Params, ...]:
        """A network for all rows."""
        y, schedule = self.context.table.y, self.context.schedule
        start = start_at(self.network, rng, float(y[seen].mean()), float(y[seen].std()))
        how = schedule.fitted(schedule.variance, schedule.quantile_steps, len(seen))
        return (
            self.context.train(
                node, "quantiles", self.network, pinball, start, y, seen, held, how, rng, rounds=schedule.max_rounds
            ),
        )

    def leaf(
        self, node: Node, networks: tuple[Params, ...], seen: Rows, held: Rows, rng: np.random.Generator
    ) -> tuple[Params, ...]:
        """The root's network, tuned on the rows of a leaf if that helps."""
        if not self.inherit:
            return self.root(node, seen, held, rng)
        context, schedule = self.context, self.context.schedule
        rate = schedule.child_rate * schedule.variance.learning_rate
        how = schedule.fitted(schedule.variance, schedule.child_steps, len(seen), learning_rate=rate)
        return (
            context.train(
                node,
                "quantiles",
                self.network,
                pinball,
                networks[0],
                context.table.y,
                seen,
                held,
                how,
                rng,
                fresh=False,
            ),
        )

    def scores(self, node: Node, networks: Sequence[Params], held: Rows) -> NDArray[np.float64]:
        """Positions of the held-out targets on the normal scale."""
        quantiles = to_quantiles(self.context.answer(self.network, networks[0], held))
        return conformity_scores(quantiles, self.context.table.y[held])


@dataclass
class VarianceSpread:
    """Variance networks: one from the training rows, then one from each half of the held-out rows.

    A held-out row is judged by the network of the other half, so that the spread of its standardised residual is that
    of a row never seen.

    Parameters
    ----------
    context : TrainingContext
    network, mean_network : MLP
    robust : bool
        Whether spreads are learnt by the likelihood of a Student-t, so that outliers do not rule them; calibration must
        follow then. Otherwise they are variances, by that of a normal.
    """

    context: TrainingContext
    network: MLP
    mean_network: MLP
    robust: bool

    @property
    def _loss(self) -> Callable[[Any, Any], Any]:
        return robust_scale_nll if self.robust else variance_nll

    def root(self, node: Node, seen: Rows, held: Rows, rng: np.random.Generator) -> tuple[Params, ...]:
        """A variance network from the training rows, then one from each half of the held-out rows."""
        assert node.residuals is not None
        context, schedule = self.context, self.context.schedule
        squared = np.zeros(context.table.n_rows)
        squared[seen] = (context.table.y[seen] - context.answer(self.mean_network, node.mean, seen)) ** 2
        squared[held] = node.residuals[1] ** 2
        how = schedule.fitted(schedule.variance, schedule.variance_steps, len(seen))
        start = self.network.init(rng)
        params = context.train(node, "variance", self.network, self._loss, start, squared, seen, held, how, rng)
        return self._tune(node, (params, params), held, schedule.tune_steps, rng)

    def leaf(
        self, node: Node, networks: tuple[Params, ...], seen: Rows, held: Rows, rng: np.random.Generator
    ) -> tuple[Params, ...]:
        """The root's two networks, tuned on the held-out rows of a leaf."""
        return self._tune(node, networks, held, self.context.schedule.leaf_tune_steps, rng)

    def scores(self, node: Node, networks: Sequence[Params], held: Rows) -> NDArray[np.float64]:
        """Residuals over standard deviations, by the network of the other half."""
        assert node.residuals is not None
        first, second = (self._variance(params, held) for params in networks)
        return node.residuals[1] / np.sqrt(np.where(_first_half(held), second, first))

    def _tune(
        self, node: Node, networks: tuple[Params, ...], held: Rows, n_steps: int, rng: np.random.Generator
    ) -> tuple[Params, ...]:
        """Tune the network of each half on that half, early stopping on the other."""
        assert node.residuals is not None
        context, schedule = self.context, self.context.schedule
        squared = np.zeros(context.table.n_rows)
        squared[held] = node.residuals[1] ** 2
        first = _first_half(held)
        halves = held[first], held[~first]
        tuned = []
        for which, params in enumerate(networks):
            own, other = halves[which], halves[1 - which]
            params = self._rescaled(params, own if len(own) else held, squared)
            if min(len(own), len(other)) >= MIN_ROWS_TO_TUNE:
                rate = schedule.variance.learning_rate / 4
                how = schedule.fitted(schedule.variance, n_steps, len(own), batch_size=64, learning_rate=rate)
                name = f"variance {'AB'[which]}"
                params = context.train(
                    node, name, self.network, self._loss, params, squared, own, other, how, rng, fresh=False
                )
            tuned.append(params)
        return tuple(tuned)

    def _rescaled(self, params: Params, rows: Rows, squared: NDArray[np.float64]) -> Params:
        """The variance network times the factor that fits the residuals of some rows best."""
        weight = self.context.table.weight[rows]
        ratio = squared[rows] / self._variance(params, rows)
        factor = float(np.average(ratio, weights=weight))
        for _ in range(20 if self.robust else 0):  # the scale of a Student-t, by its fixed point
            pull = (SCALE_DF + 1) / (SCALE_DF + ratio / max(factor, 1e-12))
            factor = float(np.average(pull * ratio, weights=weight))
        *hidden, (weights, bias) = params
        return (*hidden, (weights, (bias + np.log(max(factor, 1e-12))).astype(np.float32)))

    def _variance(self, params: Params, rows: Rows) -> NDArray[np.float64]:
        return self.context.answer(self.network, params, rows)


def _first_half(rows: Rows) -> NDArray[np.bool_]:
    """Which held-out rows belong to the first half: every other one of the table."""
    return rows % 2 == 0
