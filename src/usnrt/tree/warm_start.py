"""Warm-start strategy: children start from their parent's networks, and one part of the rows validates the whole tree.

Networks large enough to predict well memorise their training rows, so only validation rows show how large errors are.
They stop the training of all networks early, their residuals are tested for splits, and their conformity scores are
used for calibration.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.device import DeviceTable
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import predict
from usnrt.nn.losses import squared_error
from usnrt.nn.mlp import MLP, Params
from usnrt.nn.quantile_functions import conformity_scores
from usnrt.nn.quantiles import pinball, start_at, to_quantiles
from usnrt.nn.train import Training, train
from usnrt.tables.training import TrainingTable
from usnrt.tree.grow import InheritedParams, Node, Residuals
from usnrt.tree.recipe import QuantileTreeRecipe
from usnrt.utils.progress import Progress
from usnrt.utils.types import Floats, Rows


@dataclass
class WarmStart:
    """Mean networks fine-tuned from node to node, quantile networks from the root to the regions.

    Parameters
    ----------
    recipe : QuantileTreeRecipe
    table : TrainingTable
    device_table : DeviceTable
    encoding : PiecewiseLinear or None
        Encoding of the device table.
    mean_network, quantile_network : MLP
    is_validation : ndarray of bool of shape (n,)
        The validation rows.
    progress : Progress
    """

    recipe: QuantileTreeRecipe
    table: TrainingTable
    device_table: DeviceTable
    encoding: PiecewiseLinear | None
    mean_network: MLP
    quantile_network: MLP
    is_validation: NDArray[np.bool_]
    progress: Progress

    def __post_init__(self) -> None:
        self._root_training = self.recipe.root_training(float(self.table.weight[~self.is_validation].sum()))

    def compute_residuals(self, node: Node, rng: np.random.Generator) -> None:
        """Train the mean network, at the root the quantile network too; validation residuals are tested."""
        y = self.table.y
        training_rows, validation_rows = self._parts(node.rows)
        inherited = node.inherited
        start = self.mean_network.init(rng) if inherited is None else inherited.mean
        mean = self._train(node, "mean", self.mean_network, squared_error, start, inherited is None, rng)
        node.networks["mean"] = mean
        node.residuals = validation_rows, y[validation_rows] - self._predict(self.mean_network, mean, validation_rows)
        if inherited is None:
            centre, spread = float(y[training_rows].mean()), float(y[training_rows].std())
            start = start_at(self.quantile_network, rng, centre, spread)
            quantiles = self._train(node, "quantiles", self.quantile_network, pinball, start, True, rng)
        else:
            quantiles = inherited.quantiles
        node.inherited = InheritedParams(mean, quantiles)

    def untested_residuals(self, node: Node) -> Residuals:
        """Residuals of the node's training rows; empty if these are tested because the node has no validation rows."""
        is_validation = self.is_validation[node.rows]
        rows = node.rows[~is_validation] if is_validation.any() else node.rows[:0]
        if len(rows) == 0:
            return rows, np.zeros(0)
        return rows, self.table.y[rows] - self._predict(self.mean_network, node.networks["mean"], rows)

    def finish_leaf(self, node: Node, rng: np.random.Generator) -> None:
        """Fine-tune the quantile network of a region, and compute the conformity scores of its validation rows."""
        if node.residuals is None:
            self.compute_residuals(node, rng)
        assert node.inherited is not None
        quantiles = node.inherited.quantiles
        if node.path:
            quantiles = self._train(node, "quantiles", self.quantile_network, pinball, quantiles, False, rng)
        node.networks["quantiles"] = quantiles
        rows = self._parts(node.rows)[1]
        predicted = to_quantiles(self._predict(self.quantile_network, quantiles, rows))
        node.scores = rows, conformity_scores(predicted, self.table.y[rows])

    def _train(
        self,
        node: Node,
        name: str,
        network: MLP,
        loss: Callable[[Any, Any], Any],
        start: Params,
        is_new: bool,
        rng: np.random.Generator,
    ) -> Params:
        """Train one network of a node: from new weights at the root, fine-tuned if that helps below.

        At the root, training is repeated from its last weights as long as the validation loss decreases considerably:
        with little noise, longer training keeps improving the fit, while with much noise it should stop early.
        """
        recipe, schedule = self.recipe, self.recipe.schedule
        n_rows = len(self._parts(node.rows)[0])
        if is_new:
            how = recipe.epochs(self._root_training, schedule.root_steps, n_rows)
        else:
            rate = schedule.child_rate * recipe.learning_rate
            how = recipe.epochs(replace(self._root_training, learning_rate=rate), schedule.child_steps, n_rows)
        params, best_loss = start, np.inf
        for number in range(1, schedule.max_rounds + 1 if is_new else 2):
            label = name if number == 1 else f"{name} {number}"
            params, loss_now, is_late = self._round(
                node, label, network, loss, params, how, not is_new or number > 1, rng
            )
            if loss_now > (1.0 - schedule.min_relative_gain) * best_loss or not is_late:
                break
            best_loss = loss_now
        return params

    def _round(
        self,
        node: Node,
        label: str,
        network: MLP,
        loss: Callable[[Any, Any], Any],
        params: Params,
        how: Training,
        keep_initial: bool,
        rng: np.random.Generator,
    ) -> tuple[Params, float, bool]:
        """One training; also returns its best validation loss and whether that came late."""
        params, history = train(
            network, loss, params, self.device_table, self.table.y, self.table.weight, *self._parts(node.rows), how,
            rng, self.progress.reporter(node.name, len(node.rows), label), keep_initial=keep_initial,
        )  # fmt: skip
        node.history[label] = history
        is_late = history.best_epoch >= self.recipe.schedule.late * len(history.valid_loss)
        return params, min(history.valid_loss, default=np.inf), is_late

    def _predict(self, network: MLP, params: Params, rows: Rows) -> Floats:
        return predict(network, params, self.table.inputs, rows, encoding=self.encoding)

    def _parts(self, rows: Rows) -> tuple[Rows, Rows]:
        """Training rows and validation rows; all rows take the place of either if it would be empty."""
        is_validation = self.is_validation[rows]
        training, validation = rows[~is_validation], rows[is_validation]
        return (training if len(training) else rows), (validation if len(validation) else rows)
