"""What the two dropout models share: many passes through a network, each with other units dropped."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from usnrt.baselines._shared import NETWORK_CONSTRAINTS, NetworkRegressor
from usnrt.utils.constraints import Constraint, Whole

PASSES_CONSTRAINTS: Mapping[str, Constraint] = {**NETWORK_CONSTRAINTS, "n_passes": Whole(2)}


@dataclass(kw_only=True, eq=False, repr=False)
class PassesRegressor(NetworkRegressor):
    """Base of the dropout models: the moments of many passes.

    Parameters
    ----------
    n_passes : int, default=1000
        Passes behind each prediction.
    {shared}
    """

    n_passes: int = 1000

    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = PASSES_CONSTRAINTS

    def _moments(self, inputs: NDArray[np.float32]) -> tuple[NDArray[np.float64], ...]:
        """Mean and variance over the passes, and the mean of the noise variances they predict, each (n,)."""
        from usnrt.nn.passes import predict_passes

        network: Any = self.network_
        masks = network.draw_masks(self.params_, self.n_passes, self._rng(2))
        layers = [(layer[0], layer[1]) for layer in self.params_]
        return predict_passes(layers, masks, inputs, effective_n_jobs(self.n_jobs), self.encoding_)
