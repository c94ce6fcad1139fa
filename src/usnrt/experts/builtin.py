"""The experts that are trained together: a network, the same network guided by a memory, and the memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from usnrt.experts.base import MIN_STANDARD_ERRORS, Query
from usnrt.memory.retrieval import N_GUIDES, Retrieval
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import GroupedNetworks
from usnrt.nn.mlp import MLP, Params
from usnrt.nn.quantiles import predicted_quantiles
from usnrt.utils.types import Floats


class RegionNetworks:
    """Quantile networks of regions: most share one, some have one that was fine-tuned.

    Parameters
    ----------
    network : MLP
    params : sequence of Params
    network_of : ndarray of int of shape (n_leaves,)
        The network of each region.
    encoding : PiecewiseLinear or None
        Of the inputs.
    """

    def __init__(
        self,
        network: MLP,
        params: Sequence[Params],
        network_of: NDArray[np.int64],
        encoding: PiecewiseLinear | None,
    ) -> None:
        self.network_of, self._networks = network_of, GroupedNetworks(network, params, encoding)

    def quantile_functions(self, query: Query, guides: NDArray[np.float32] | None) -> Floats:
        """Quantile functions of rows; the guides are further inputs."""
        inputs = query.inputs if guides is None else np.concatenate([query.inputs, guides], axis=1)
        outputs = self._networks.predict(inputs, self.network_of[query.leaf], None, query.n_threads)
        return predicted_quantiles(outputs, n_threads=query.n_threads)


@dataclass(frozen=True)
class NetworkExpert:
    """The network by itself: its guides, if it has any, are missing."""

    networks: RegionNetworks
    has_guides: bool

    name: ClassVar[str] = "network"
    max_weight: ClassVar[float] = 1.0
    min_errors: ClassVar[float] = MIN_STANDARD_ERRORS

    def quantile_functions(self, query: Query) -> Floats:
        """See `usnrt.experts.base.Expert`."""
        guides = np.zeros((len(query.inputs), N_GUIDES), dtype=np.float32) if self.has_guides else None
        return self.networks.quantile_functions(query, guides)


@dataclass(frozen=True)
class GuidedExpert:
    """The network with what similar rows predict among its inputs."""

    networks: RegionNetworks
    memory: Retrieval

    name: ClassVar[str] = "guided network"
    max_weight: ClassVar[float] = 1.0
    min_errors: ClassVar[float] = MIN_STANDARD_ERRORS

    def quantile_functions(self, query: Query) -> Floats:
        """See `usnrt.experts.base.Expert`."""
        assert query.retrieved is not None
        return self.networks.quantile_functions(query, self.memory.guides(query.retrieved))


@dataclass(frozen=True)
class MemoryExpert:
    """The targets of similar training rows.

    Similar rows may all have the same target, so the memory alone may predict a distribution without width. (With at
    most 0.98 instead of 0.9, Real-time has a CRPS of 0.061 instead of 0.066, but an RMSE of 18 instead of 4.6: the mean
    depends on the tails, which are many widths away.)
    """

    memory: Retrieval

    name: ClassVar[str] = "memory"
    max_weight: ClassVar[float] = 0.9
    min_errors: ClassVar[float] = MIN_STANDARD_ERRORS

    def quantile_functions(self, query: Query) -> Floats:
        """See `usnrt.experts.base.Expert`."""
        assert query.retrieved is not None
        return query.retrieved.quantiles


TOGETHER: tuple[Any, ...] = (NetworkExpert, GuidedExpert, MemoryExpert)
