"""The two strategies of growth: shared networks that are fine-tuned, and networks from scratch.

A network large enough to predict well memorises its training rows, so only rows that it was not trained on show how
large errors are. They stop training early, their residuals are tested for splits, they choose the weights of the
experts, and their conformity scores are used for calibration.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.alternate import Alternation, NetworkRows, train_alternately
from usnrt.nn.device import DeviceTable
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import predict
from usnrt.nn.jax_epochs import JaxEpochs
from usnrt.nn.losses import squared_error
from usnrt.nn.mlp import MLP, Params
from usnrt.nn.quantile_training import QuantileEpochs, QuantileRows, QuantileSteps
from usnrt.nn.quantiles import start_at
from usnrt.nn.train import History, Training, train
from usnrt.tables.rows import draw_validation
from usnrt.tables.training import TrainingTable, TreeRows
from usnrt.tree.grow import Node, Residuals
from usnrt.tree.held_out import HeldOut
from usnrt.tree.levels import MAX_CATEGORIES_FOR_SUBSETS
from usnrt.tree.recipe import PaperTreeRecipe, QuantileTreeRecipe, Schedule, batch_size_for
from usnrt.tree.rivals import Rivals
from usnrt.utils.checkpoint import Checkpoint
from usnrt.utils.context import FitContext
from usnrt.utils.types import Floats, Rows


@dataclass(frozen=True)
class NetworkTraining:
    """How the quantile network is trained on some of the rows.

    Attributes
    ----------
    recipe : QuantileTreeRecipe
    rows : TreeRows
    encoding : PiecewiseLinear or None
        Of the inputs with the guides.
    guides : ndarray of shape (n, n_guides) or None
        Further inputs, if there is a memory.
    network : MLP
    context : FitContext
    """

    recipe: QuantileTreeRecipe
    rows: TreeRows
    encoding: PiecewiseLinear | None
    guides: NDArray[np.float32] | None
    network: MLP
    context: FitContext

    @functools.cached_property
    def network_rows(self) -> QuantileRows:
        """All rows as the network reads them."""
        table = self.table
        return QuantileRows.of(self.encoding, table.inputs, self.guides, table.y, table.weight, self.context.n_threads)

    @property
    def table(self) -> TrainingTable:
        """The rows as networks learn from them."""
        return self.rows.table

    @property
    def n_training(self) -> float:
        """Weight of the training rows."""
        return float(self.table.weight[~self.rows.is_validation].sum())

    def parts(self, rows: Rows) -> tuple[Rows, Rows]:
        """Training rows and validation rows; all rows take the place of either if it would be empty."""
        is_validation = self.rows.is_validation[rows]
        training, validation = rows[~is_validation], rows[is_validation]
        return (training if len(training) else rows), (validation if len(validation) else rows)

    def steps(self, training: Training, n_threads: int) -> QuantileSteps:
        """Steps of a training."""
        n_guides = 0 if self.guides is None else self.guides.shape[1]
        return QuantileSteps(self.network, self.encoding, training, n_guides, self.recipe.guide_dropout, n_threads)

    def train(
        self,
        node: tuple[str, Rows, Checkpoint],
        label: str,
        params: Params,
        training: Training,
        rng: np.random.Generator,
        keep_initial: bool = True,
        stop: Callable[[Params, int], bool] | None = None,
        n_threads: int = 1,
    ) -> tuple[Params, History]:
        """Train the network from some weights.

        Parameters
        ----------
        node : tuple
            Name, rows and checkpoint of the node.
        label : str
            Name of the training.
        params : Params
        training : Training
        rng : numpy.random.Generator
        keep_initial : bool, default=True
        stop : callable, default=None
            See `usnrt.nn.train.train`.
        n_threads : int, default=1
        """
        name, rows, checkpoint = node
        return train(
            QuantileEpochs(self.steps(training, n_threads), self.network_rows, *self.parts(rows)), params, rng,
            self.context.progress.reporter(name, len(rows), label, training.max_epochs),
            keep_initial=keep_initial, checkpoint=checkpoint.within(label), stop=stop,
        )  # fmt: skip


def train_root(
    job: NetworkTraining,
    rng: np.random.Generator,
    rivals: Rivals | None = None,
    trained: tuple[Params, dict[str, History]] | None = None,
    min_rounds: int = 1,
) -> tuple[Params, dict[str, History]] | None:
    """Train the network on all training rows.

    Training is repeated from its last weights as long as the validation loss decreases until the end: with little
    noise, longer training keeps improving the fit, while with much noise it should stop early.

    Parameters
    ----------
    job : NetworkTraining
    rng : numpy.random.Generator
    rivals : Rivals, optional
        Tells whether there is no use in going on.
    trained : tuple, optional
        What this function returned, to go on from there.
    min_rounds : int, default=1
        Trainings that there are at least.

    Returns
    -------
    params : Params
    history : dict of str to History
        Or None instead of both, if the memory is of no use.
    """
    recipe, schedule, y = job.recipe, job.recipe.schedule, job.table.y
    rows = np.arange(job.table.n_rows)
    training_rows = job.parts(rows)[0]
    node = "root", rows, job.context.checkpoint.within("root")
    least = schedule.least_epochs(len(training_rows))
    training = recipe.training(job.n_training)
    training = recipe.epochs(training, schedule.root_steps, len(training_rows), schedule.patience, least)
    if trained is None:
        start = float(y[training_rows].mean()), float(y[training_rows].std())
        trained = start_at(job.network, rng, *start), {}
    params, histories = trained[0], dict(trained[1])
    best_loss, n_epochs = np.inf, sum(len(history.valid_loss) for history in histories.values())
    few_epochs = min(schedule.few_epochs, recipe.max_epochs)  # small limits ask for a short training
    for number in range(len(histories) + 1, schedule.max_large_rounds + 1):
        if number > max(schedule.max_rounds, min_rounds) and n_epochs >= few_epochs:
            break
        if number > 1 and not training.along_components:
            training = _longer_training(job, training, len(training_rows))
        label = "network" if number == 1 else f"network {number}"
        stop = None if rivals is None else functools.partial(_is_over, rivals, number, training.max_epochs)
        weights, history = job.train(node, label, params, training, rng, number > 1, stop, job.context.n_threads)
        done = len(history.valid_loss) / training.max_epochs
        if rivals is not None and rivals.memory_is_useless(weights, number, done):
            return None
        # a training that is given up ends with its last weights, which may be worse than the first ones
        if number == 1 or not history.valid_loss or history.valid_loss[history.best_epoch] < history.initial_loss:
            params = weights
        histories[label] = history
        loss = min(history.valid_loss, default=np.inf)
        is_better = loss <= (1.0 - schedule.min_relative_gain) * best_loss
        if number >= min_rounds and not (is_better and _still_improves(history, training, schedule)):
            break
        best_loss, n_epochs = loss, n_epochs + training.max_epochs
    return params, histories


def _is_over(rivals: Rivals, number: int, n_epochs: int, params: Params, epoch: int) -> bool:
    share = (epoch + 1) / n_epochs
    return rivals.memory_is_useless(params, number, share) or rivals.network_is_useless(params, number, share)


def _still_improves(history: History, training: Training, schedule: Schedule) -> bool:
    """Whether a training ended while its validation loss was decreasing."""
    at_half = min(history.valid_loss[: training.max_epochs // 2], default=np.inf)
    is_late = history.best_epoch >= schedule.late * training.max_epochs
    return is_late and history.valid_loss[history.best_epoch] < (1.0 - schedule.late_gain) * at_half


def _longer_training(job: NetworkTraining, training: Training, n_rows: int) -> Training:
    """Training of a network that has not converged: longer, along components, in larger batches, with less decay.

    It does not stop early: starting again at the full step size, the loss increases before it decreases.
    """
    schedule = job.recipe.schedule
    training = replace(training, batch_size=min(batch_size_for(job.n_training), 2 * schedule.batch_size))
    longer = job.recipe.epochs(training, schedule.more_steps, n_rows, min_epochs=schedule.least_epochs(n_rows))
    return replace(longer, weight_decay=schedule.more_decay * training.weight_decay, along_components=True)


def member_names(number: int) -> list[str]:
    """What the trainings and networks of each member are called, before their own names."""
    return [""] if number == 1 else [f"member {member + 1} " for member in range(number)]


class SharedNetworks:
    """All nodes share the networks of the members, which may be fine-tuned in a region.

    The residuals of held-out rows are tested: those of members that were not trained on them.

    Parameters
    ----------
    trainings : sequence of NetworkTraining
        One per member.
    held_out : HeldOut
    params : sequence of Params
        The networks at the root.
    history : dict of str to History
        Of their training.
    means_of : callable
        ``means_of(rows)`` predicts the means of rows, if possible by members that were not trained on them.

    Attributes
    ----------
    names : list of str
        Of the networks in `Node.networks`.
    """

    def __init__(
        self,
        trainings: Sequence[NetworkTraining],
        held_out: HeldOut,
        params: Sequence[Params],
        history: dict[str, History],
        means_of: Callable[[Rows], Floats],
    ) -> None:
        self.trainings, self.params, self.history, self.means_of = trainings, params, history, means_of
        self.names = [f"{name}network" for name in member_names(len(trainings))]
        self._is_tested = _is_tested(held_out, trainings[0].rows.n_categories)
        self._table = held_out.table
        self._means = np.full(self._table.n_rows, np.nan)

    def compute_residuals(self, node: Node, rng: np.random.Generator) -> None:
        """The residuals of held-out rows are tested; those of all rows if the node has none."""
        node.networks |= dict(zip(self.names, self.params))
        if not node.path:
            node.history |= self.history
        is_tested = self._is_tested[node.rows]
        rows = node.rows[is_tested] if is_tested.any() else node.rows
        node.residuals = rows, self._residuals(rows)

    def untested_residuals(self, node: Node) -> Residuals:
        """Residuals of the other rows of the node; empty if there are no others, or if all are tested."""
        is_tested = self._is_tested[node.rows]
        rows = node.rows[~is_tested] if is_tested.any() else node.rows[:0]
        return rows, self._residuals(rows)

    def finish_leaf(self, node: Node, rng: np.random.Generator) -> None:
        """Fine-tune the networks in the region."""
        if node.residuals is None:
            self.compute_residuals(node, rng)
        if node.path:
            for member, name in enumerate(self.names):
                self._fine_tune(member, name, node, rng)

    def _residuals(self, rows: Rows) -> Floats:
        """Residuals of rows, each of which is predicted only once."""
        unknown = rows[np.isnan(self._means[rows])]
        if len(unknown):
            self._means[unknown] = self.means_of(unknown)
        residuals: Floats = self._table.y[rows] - self._means[rows]
        return residuals

    def _fine_tune(self, member: int, name: str, node: Node, rng: np.random.Generator) -> None:
        """Fine-tune a network on the rows of a node, and keep the result if its validation loss is smaller.

        A short probe decides whether it is worth more steps.
        """
        job, params = self.trainings[member], self.params[member]
        schedule: Schedule = job.recipe.schedule
        if schedule.child_steps == 0:
            return
        training, validation = job.parts(node.rows)
        rows = node.rows
        if len(training) > schedule.child_rows:
            rows = np.concatenate([training[: schedule.child_rows], validation])
        n_rows = min(len(training), schedule.child_rows)
        # batches of the size for a table of so many rows: steps in a region are as many, and shorter
        fine_tuning = job.recipe.training(float(job.table.weight[training[: schedule.child_rows]].sum()))
        fine_tuning = replace(fine_tuning, learning_rate=schedule.child_rate * job.recipe.learning_rate)
        own = node.name, rows, node.checkpoint(job.context.checkpoint)
        for part, n_steps in (("probe", schedule.probe_steps), ("fine-tuning", schedule.child_steps)):
            steps = job.recipe.epochs(fine_tuning, n_steps, n_rows, schedule.child_patience, min_epochs=1)
            label = name.removesuffix("network") + part
            params, history = job.train(own, label, params, steps, rng)
            node.history[label] = history
            gain = history.initial_loss - min(history.valid_loss, default=np.inf)
            if not gain >= schedule.min_probe_gain * history.initial_loss:  # also if the training diverged
                break
            node.networks[name] = params


def _is_tested(held_out: HeldOut, n_categories: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Rows whose residuals are tested: all that are held out.

    If there are folds, no row is left for ordering the categories of columns with many, so that rows of the first third
    of the folds do that instead.
    """
    is_validation = held_out.is_validation
    is_tested: NDArray[np.bool_] = np.logical_or.reduce(is_validation)
    if (n_categories > MAX_CATEGORIES_FOR_SUBSETS).any() and is_tested.all():
        is_tested = ~np.logical_or.reduce(is_validation[: -(-len(is_validation) // 3)])
    return is_tested


class PaperNetworks(NamedTuple):
    """Architectures of the networks of a tree of the paper."""

    split: MLP
    mean: MLP
    variance: MLP


@dataclass
class FromScratch:
    """A splitting network in every node that may be split; a mean and a variance network in every region.

    Every training starts from new weights and draws its validation rows anew, as in the code of the paper's authors.

    Parameters
    ----------
    recipe : PaperTreeRecipe
    table : TrainingTable
    networks : PaperNetworks
    context : FitContext
    """

    recipe: PaperTreeRecipe
    table: TrainingTable
    networks: PaperNetworks
    context: FitContext

    def __post_init__(self) -> None:
        self.device_table = DeviceTable(self.table.inputs)

    def compute_residuals(self, node: Node, rng: np.random.Generator) -> None:
        """Train the splitting network; its residuals on all rows of the node are tested."""
        table = self.table
        parts = draw_validation(node.rows, self.recipe.validation_fraction, rng)
        epochs = JaxEpochs(
            self.networks.split, squared_error, self.device_table, table.y, table.weight, parts, self.recipe.training
        )
        params, node.history["split"] = train(
            epochs, self.networks.split.init(rng), rng,
            self.context.progress.reporter(node.name, len(node.rows), "split", self.recipe.max_epochs),
            checkpoint=node.checkpoint(self.context.checkpoint).within("split"),
        )  # fmt: skip
        node.networks["split"] = params
        node.residuals = node.rows, table.y[node.rows] - predict(self.networks.split, params, table.inputs, node.rows)

    def untested_residuals(self, node: Node) -> None:
        """None: all rows are tested, and they also order categories and locate thresholds, as in the paper."""

    def finish_leaf(self, node: Node, rng: np.random.Generator) -> None:
        """Train the region's mean and variance network alternately."""
        table, rows, recipe, progress = self.table, node.rows, self.recipe, self.context.progress
        pair = train_alternately(
            self.networks[1:],
            NetworkRows(self.device_table, table.inputs, table.y, table.weight),
            lambda: draw_validation(rows, recipe.validation_fraction, rng),
            Alternation((recipe.training, recipe.variance_training), True, n_alternations=recipe.n_alternations),
            rng,
            on_epoch=lambda name, *state: progress.reporter(node.name, len(rows), name, recipe.max_epochs)(*state),
            checkpoint=node.checkpoint(self.context.checkpoint),
        )  # fmt: skip
        node.networks |= {"mean": pair.mean, "variance": pair.variance}
        node.history |= pair.history
        node.residuals = rows, table.y[rows] - predict(self.networks.mean, pair.mean, table.inputs, rows)
