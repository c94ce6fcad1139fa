"""The paper's way: every node trains networks of its own from nothing, on its own rows."""

from dataclasses import dataclass

import numpy as np

from usnrt.nn.alternate import train_alternately
from usnrt.nn.device import DeviceTable
from usnrt.nn.forward import predict
from usnrt.nn.losses import squared_error
from usnrt.nn.mlp import MLP
from usnrt.nn.train import Training, train
from usnrt.tables.rows import draw_validation
from usnrt.tables.training import TrainingTable
from usnrt.tree.grow import Node
from usnrt.utils.progress import Progress


@dataclass
class FromScratch:
    """A splitting network in every node that may be split; a mean and a variance network in every leaf.

    Parameters
    ----------
    table : TrainingTable
    device_table : DeviceTable
    split_network, mean_network, variance_network : MLP
    training : Training
    validation_fraction : float
        Share of a node's rows that early stopping looks at, drawn anew in every node.
    n_alternations : int
    progress : Progress
    """

    table: TrainingTable
    device_table: DeviceTable
    split_network: MLP
    mean_network: MLP
    variance_network: MLP
    training: Training
    validation_fraction: float
    n_alternations: int
    progress: Progress

    def study(self, node: Node, rng: np.random.Generator) -> None:
        """Train the splitting network; its residuals on all rows of the node are tested."""
        table = self.table
        train_rows, valid_rows = node.state = draw_validation(node.rows, self.validation_fraction, rng)
        params, node.history["split"] = train(
            self.split_network, squared_error, self.split_network.init(rng), self.device_table, table.y, table.weight,
            train_rows, valid_rows, self.training, rng, self.progress.reporter(node.name, len(node.rows), "split"),
        )  # fmt: skip
        node.residuals = node.rows, table.y[node.rows] - predict(self.split_network, params, table.inputs, node.rows)

    def untested(self, node: Node) -> None:
        """All rows are tested: they order categories and place cuts themselves, as in the paper."""

    def finish(self, node: Node, rng: np.random.Generator) -> None:
        """Train the leaf's mean and variance network in turns."""
        table, rows = self.table, node.rows
        if node.residuals is None:
            node.state = draw_validation(rows, self.validation_fraction, rng)
        train_rows, valid_rows = node.state
        pair = train_alternately(
            (self.mean_network, self.variance_network), self.device_table, table.inputs, table.y, table.weight,
            train_rows, valid_rows, self.training, rng, n_alternations=self.n_alternations,
            on_epoch=lambda network, *state: self.progress.reporter(node.name, len(rows), network)(*state),
        )  # fmt: skip
        node.mean, node.variance = pair.mean, [pair.variance]
        node.history |= pair.history
        node.residuals = rows, table.y[rows] - predict(self.mean_network, pair.mean, table.inputs, rows)
