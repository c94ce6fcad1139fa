"""Strategy of the default tree: one network for all nodes, fine-tuned in a node where that helps.

A network large enough to predict well memorises its training rows, so only validation rows show how large errors are.
They stop training early, their residuals are tested for splits, they choose the weights of the experts, and their
conformity scores are used for calibration.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.device import DeviceTable
from usnrt.nn.mlp import MLP, Params
from usnrt.nn.quantiles import pinball, start_at
from usnrt.nn.train import History, Training, train
from usnrt.tables.training import TrainingTable
from usnrt.tree.grow import Node, Residuals
from usnrt.tree.recipe import QuantileTreeRecipe
from usnrt.utils.checkpoint import NO_CHECKPOINT, Checkpoint
from usnrt.utils.progress import Progress
from usnrt.utils.types import Floats, Rows


@dataclass
class SharedNetwork:
    """A quantile network that is trained on all training rows, and fine-tuned from node to node where that helps.

    Parameters
    ----------
    recipe : QuantileTreeRecipe
    table : TrainingTable
    device_table : DeviceTable
        With the guides among the inputs, if there is a memory.
    network : MLP
    is_validation : ndarray of bool of shape (n,)
        The validation rows.
    progress : Progress
    checkpoint : Checkpoint, default=NO_CHECKPOINT

    Attributes
    ----------
    params : Params
        Set by `train_root`.
    history : dict of str to History
        Of the trainings of the root.
    mean_of : callable
        ``mean_of(params, rows)`` returns the predicted means of rows of the table, by the experts with this network.
        Set by the caller before the tree grows.
    """

    recipe: QuantileTreeRecipe
    table: TrainingTable
    device_table: DeviceTable
    network: MLP
    is_validation: NDArray[np.bool_]
    progress: Progress
    checkpoint: Checkpoint = NO_CHECKPOINT
    params: Params = field(init=False)
    history: dict[str, History] = field(init=False, default_factory=dict)
    mean_of: Callable[[Params, Rows], Floats] = field(init=False)

    def __post_init__(self) -> None:
        self._root_means = np.full(self.table.n_rows, np.nan)
        self._training = self.recipe.root_training(float(self.table.weight[~self.is_validation].sum()))

    def train_root(self, rng: np.random.Generator) -> None:
        """Train the network on all training rows.

        Training is repeated from its last weights as long as the validation loss decreases until the end: with little
        noise, longer training keeps improving the fit, while with much noise it should stop early.
        """
        schedule, y = self.recipe.schedule, self.table.y
        rows = np.arange(self.table.n_rows)
        training_rows = self.parts(rows)[0]
        checkpoint = self.checkpoint.within("root")
        least = schedule.least_epochs(len(training_rows))
        how = self.recipe.epochs(self._training, schedule.root_steps, len(training_rows), schedule.patience, least)
        start = float(y[training_rows].mean()), float(y[training_rows].std())
        params, best_loss, n_epochs = start_at(self.network, rng, *start), np.inf, 0
        few_epochs = min(schedule.few_epochs, self.recipe.max_epochs)  # small limits ask for a short training
        for number in range(1, schedule.max_large_rounds + 1):
            if number > schedule.max_rounds and n_epochs >= few_epochs:
                break
            label = "network" if number == 1 else f"network {number}"
            if number == 2:
                how = self._unhurried(how, len(training_rows))
            params, history = self._train("root", label, rows, params, how, number > 1, rng, checkpoint)
            self.history[label] = history
            loss = min(history.valid_loss, default=np.inf)
            is_late = history.best_epoch >= schedule.late * how.max_epochs
            if loss > (1.0 - schedule.min_relative_gain) * best_loss or not is_late:
                break
            best_loss, n_epochs = loss, n_epochs + how.max_epochs
        self.params = params

    def _unhurried(self, how: Training, n_rows: int) -> Training:
        """Training of a network that has not converged: longer, and with less weight decay, since nothing overfits.

        It does not stop early: starting again at the full step size, the loss increases before it decreases.
        """
        schedule = self.recipe.schedule
        longer = self.recipe.epochs(how, schedule.more_steps, n_rows, min_epochs=schedule.least_epochs(n_rows))
        return replace(longer, weight_decay=schedule.more_decay * how.weight_decay)

    def compute_residuals(self, node: Node, rng: np.random.Generator) -> None:
        """Fine-tune the network of the parent; the residuals of validation rows are tested.

        All rows take their place if the node has none.
        """
        if node.path:
            self._fine_tune(node, rng)
        else:
            node.networks["network"] = self.params
            node.history |= self.history
        rows = self.parts(node.rows)[1]
        node.residuals = rows, self._residuals(node, rows)

    def untested_residuals(self, node: Node) -> Residuals:
        """Residuals of the node's training rows; empty if these are tested because the node has no validation rows."""
        is_validation = self.is_validation[node.rows]
        rows = node.rows[~is_validation] if is_validation.any() else node.rows[:0]
        return rows, self._residuals(node, rows)

    def finish_leaf(self, node: Node, rng: np.random.Generator) -> None:
        """Nothing is left to do but in nodes that were too small to be split."""
        if node.residuals is None:
            self.compute_residuals(node, rng)

    def _residuals(self, node: Node, rows: Rows) -> Floats:
        return self.table.y[rows] - self._means(node.networks["network"], rows)

    def _means(self, params: Params, rows: Rows) -> Floats:
        """Predicted means; those of the network of the root, which most nodes share, are computed once per row."""
        if params is not self.params:
            return self.mean_of(params, rows)
        unknown = rows[np.isnan(self._root_means[rows])]
        if len(unknown):
            self._root_means[unknown] = self.mean_of(params, unknown)
        return self._root_means[rows]

    def _fine_tune(self, node: Node, rng: np.random.Generator) -> None:
        """Fine-tune the parent's network on the rows of a node, and keep the result if its validation loss is smaller.

        A short probe decides whether it is worth more steps.
        """
        assert node.parent is not None
        schedule, params = self.recipe.schedule, node.parent.networks["network"]
        node.networks["network"] = params
        if schedule.child_steps == 0:
            return
        training, validation = self.parts(node.rows)
        rows = node.rows
        if len(training) > schedule.child_rows:
            rows = np.concatenate([training[: schedule.child_rows], validation])
        n_rows = min(len(training), schedule.child_rows)
        how = replace(self._training, learning_rate=schedule.child_rate * self.recipe.learning_rate)
        for label, n_steps in (("probe", schedule.probe_steps), ("fine-tuning", schedule.child_steps)):
            steps = self.recipe.epochs(how, n_steps, n_rows, min_epochs=1)
            params, history = self._train(
                node.name, label, rows, params, steps, True, rng, node.checkpoint(self.checkpoint)
            )
            node.history[label] = history
            gain = history.initial_loss - min(history.valid_loss, default=np.inf)
            if not gain >= schedule.min_probe_gain * history.initial_loss:  # also if the training diverged
                break
            node.networks["network"] = params

    def _train(
        self,
        node_name: str,
        label: str,
        rows: Rows,
        params: Params,
        how: Training,
        keep_initial: bool,
        rng: np.random.Generator,
        checkpoint: Checkpoint,
    ) -> tuple[Params, History]:
        return train(
            self.network, pinball, params, self.device_table, self.table.y, self.table.weight, *self.parts(rows), how,
            rng, self.progress.reporter(node_name, len(rows), label, how.max_epochs), keep_initial=keep_initial,
            checkpoint=checkpoint.within(label),
        )  # fmt: skip

    def parts(self, rows: Rows) -> tuple[Rows, Rows]:
        """Training rows and validation rows; all rows take the place of either if it would be empty."""
        is_validation = self.is_validation[rows]
        training, validation = rows[~is_validation], rows[is_validation]
        return (training if len(training) else rows), (validation if len(validation) else rows)
