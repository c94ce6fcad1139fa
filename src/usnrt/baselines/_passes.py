"""What the two dropout models share: a network asked many times, each time with other units missing."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from usnrt.baselines._shared import NetworkRegressor


@dataclass(kw_only=True, eq=False, repr=False)
class PassesRegressor(NetworkRegressor):
    """Base of the dropout models: the moments of many passes.

    Parameters
    ----------
    n_passes : int, default=1000
        Passes behind each answer.
    {shared}
    """

    n_passes: int = 1000

    def _moments(self, inputs: NDArray[np.float32]) -> tuple[NDArray[np.float64], ...]:
        """Mean and variance over the passes, and the mean of the noise variances they predict, each (n,)."""
        from usnrt.nn.passes import predict_passes

        network: Any = self.network_
        masks = network.draw_masks(self.params_, self.n_passes, self._rng(2))
        layers = [(layer[0], layer[1]) for layer in self.params_]
        return predict_passes(layers, masks, inputs, effective_n_jobs(self.n_jobs), self.encoding_)
