"""A guided network and its memory: validation rows tell early in its training if one of them is of no use."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.experts.refine import pinball_losses
from usnrt.memory.retrieval import Retrieval
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import GroupedNetworks
from usnrt.nn.mlp import MLP, Params
from usnrt.nn.quantiles import predicted_quantiles
from usnrt.tables.training import TreeRows
from usnrt.utils.types import Floats

# A memory is given up if it alone has this times the loss of the network without guides, and guides reduce that by less
# than this share: judged by at most so many validation rows, in the first half of a training.
WORSE_MEMORY, LEAST_GUIDED_GAIN, MAX_JUDGES = 1.2, 0.03, 4096
# In the second training, of a network that had not converged, either of them is given up if its loss is so many times
# that of the other: the network, whose loss has yet to decrease, after a quarter of the training.
FAR_WORSE, QUARTER = 2.0, 0.25


@dataclass(frozen=True)
class Rivals:
    """Judges of a guided network and its memory.

    Attributes
    ----------
    of_memory : float
        Mean loss of the memory.
    of_network : callable
        From weights to the mean losses of the network with guides and without.
    """

    of_memory: float
    of_network: Callable[[Params], tuple[float, float]]

    @classmethod
    def of(
        cls,
        network: MLP,
        encoding: PiecewiseLinear | None,
        memory: Retrieval,
        rows: TreeRows,
        guides: NDArray[np.float32],
    ) -> "Rivals":
        """The network and a memory of training rows, whose guides are those of all rows."""
        table, validation = rows.table, np.flatnonzero(rows.is_validation)[:MAX_JUDGES]
        inputs, y, weight = table.inputs[validation], table.y[validation], table.validation_weight[validation]
        guided = np.concatenate([inputs, guides[validation]], axis=1)
        unguided = np.concatenate([inputs, np.zeros_like(guides[validation])], axis=1)

        def mean_loss(quantiles: Floats) -> float:
            return float(np.average(pinball_losses(quantiles, y), weights=weight))

        def of_network(params: Params) -> tuple[float, float]:
            networks, group = GroupedNetworks(network, [params], encoding), np.zeros(len(y), dtype=np.intp)
            first, second = (mean_loss(predicted_quantiles(networks.predict(x, group))) for x in (guided, unguided))
            return first, second

        return cls(mean_loss(memory.predict(inputs, validation).quantiles), of_network)

    def memory_is_useless(self, params: Params, number: int, share: float) -> bool:
        """Whether the memory is given up.

        Parameters
        ----------
        number : int
            Of the training, from 1 on.
        share : float
            Share of its epochs that are done.
        """
        if number > 2 or share > 0.5:
            return False
        guided, alone = self.of_network(params)
        if number == 2:
            return self.of_memory > FAR_WORSE * alone
        return self.of_memory > WORSE_MEMORY * alone and guided > (1.0 - LEAST_GUIDED_GAIN) * alone

    def network_is_useless(self, params: Params, number: int, share: float) -> bool:
        """Whether the network is not trained any longer; parameters as of `memory_is_useless`."""
        return number == 2 and share >= QUARTER and min(self.of_network(params)) > FAR_WORSE * self.of_memory
