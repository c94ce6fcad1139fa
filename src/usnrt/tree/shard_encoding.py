"""How rows of a store become rows of the shards that the network of the root is trained on."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from usnrt.memory.retrieval import Retrieval
from usnrt.nn.rounds import EncodedRows
from usnrt.tables.inputs import NetworkInputs
from usnrt.tables.roles import CALIBRATION, TRAINING, RowRoles, shard_of, units_of
from usnrt.tables.training import DistinctRows
from usnrt.utils.types import Floats, Rows


@dataclass(frozen=True)
class ShardEncoding:
    """How rows of a store become rows of shards.

    Attributes
    ----------
    roles : RowRoles
    inputs : NetworkInputs
    scale_target : callable
        From targets to the values that the network learns.
    mean_weight : float
        Weights are divided by it.
    n_shards : int
    memory : Retrieval or None
    group : ndarray of int or None
        Group of each row of the sample that the memory is from.
    """

    roles: RowRoles
    inputs: NetworkInputs
    scale_target: Callable[[Floats], Floats]
    mean_weight: float
    n_shards: int
    memory: Retrieval | None
    group: Rows | None = None

    def grouped(self) -> "ShardEncoding":
        """The encoding as it was before it was sent here: a memory does not take its groups along."""
        return self if self.memory is None else replace(self, memory=self.memory.grouped(self.group))

    @property
    def n_inputs(self) -> int:
        """Number of network inputs, with the guides."""
        return self.inputs.n_outputs_ + (0 if self.memory is None else self.memory.guide_mean.shape[0])

    def of(
        self, rows: DistinctRows, hashes: NDArray[np.uint64], n_before: int, n_threads: int = 1
    ) -> list[tuple[int, EncodedRows]]:
        """The training rows of a bucket in each shard that has any.

        Parameters
        ----------
        rows : DistinctRows
        hashes : ndarray of uint64
        n_before : int
            `kept_rows` of all buckets before.
        n_threads : int
        """
        roles = self.roles.of(units_of(rows, hashes))
        number = n_before + np.cumsum(roles != CALIBRATION) - 1
        chosen = np.flatnonzero(roles == TRAINING)
        inputs = self.inputs.transform(rows.raw[chosen])
        if self.memory is not None:
            own, group = (number[chosen], None) if rows.group is None else (None, rows.group[chosen])
            guides = self.memory.guides_of(inputs, own, n_threads, group)
            inputs = np.concatenate([inputs, guides], axis=1)
        y = self.scale_target(rows.target[chosen])
        weight, shard = rows.weight[chosen] / self.mean_weight, shard_of(hashes[chosen], self.n_shards)
        parts = [(own, shard == own) for own in np.unique(shard).tolist()]
        return [(own, EncodedRows(inputs[member], y[member], weight[member])) for own, member in parts]


def kept_rows(rows: DistinctRows, hashes: NDArray[np.uint64], roles: RowRoles) -> int:
    """Number of rows of a bucket that are not calibration rows."""
    return int((roles.of(units_of(rows, hashes)) != CALIBRATION).sum())
