"""Base of the two dropout models: many forward passes through a network, each with its own dropout masks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from usnrt.paper.baselines._shared import NETWORK_CONSTRAINTS, NetworkRegressor
from usnrt.utils.constraints import Constraint, Whole

PASSES_CONSTRAINTS: Mapping[str, Constraint] = {**NETWORK_CONSTRAINTS, "n_passes": Whole(2)}


@dataclass(kw_only=True, eq=False, repr=False)
class PassesRegressor(NetworkRegressor):
    """Base of the dropout models: predictions are the moments of many forward passes.

    Parameters
    ----------
    n_passes : int, default=1000
        Number of forward passes per prediction.
    {shared}
    """

    n_passes: int = 1000

    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = PASSES_CONSTRAINTS

    def _moments(self, inputs: NDArray[np.float32]) -> tuple[NDArray[np.float64], ...]:
        """Mean and variance over the passes, and the mean of the noise variances that they predict, each (n,)."""
        from usnrt.nn.passes import predict_passes

        network: Any = self.network_
        masks = network.draw_masks(self.params_, self.n_passes, self._rng(2))
        layers, n_threads = network.layers(self.params_), effective_n_jobs(self.n_jobs)
        return predict_passes(layers, masks, inputs, n_threads, self.encoding_, network.activation)
