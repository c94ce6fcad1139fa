"""The paper's strategy: every node trains networks of its own from new weights, on its own rows."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from usnrt.nn.alternate import train_alternately
from usnrt.nn.device import DeviceTable
from usnrt.nn.forward import predict
from usnrt.nn.losses import squared_error
from usnrt.nn.mlp import MLP
from usnrt.nn.train import train
from usnrt.tables.rows import draw_validation
from usnrt.tables.training import TrainingTable
from usnrt.tree.grow import Node
from usnrt.tree.recipe import PaperTreeRecipe
from usnrt.utils.context import FitContext


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
        params, node.history["split"] = train(
            self.networks.split, squared_error, self.networks.split.init(rng), self.device_table, table.y, table.weight,
            *parts, self.recipe.training, rng,
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
            self.networks[1:], self.device_table, table.inputs, table.y, table.weight,
            lambda: draw_validation(rows, recipe.validation_fraction, rng),
            (recipe.training, recipe.variance_training), rng,
            reinitialize=True, n_alternations=recipe.n_alternations,
            on_epoch=lambda name, *state: progress.reporter(node.name, len(rows), name, recipe.max_epochs)(*state),
            checkpoint=node.checkpoint(self.context.checkpoint),
        )  # fmt: skip
        node.networks |= {"mean": pair.mean, "variance": pair.variance}
        node.history |= pair.history
        node.residuals = rows, table.y[rows] - predict(self.networks.mean, pair.mean, table.inputs, rows)
