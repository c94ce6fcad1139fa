"""Deep Ensemble: several networks with different random seeds (Lakshminarayanan et al. 2017)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from usnrt.distributions import Distribution, Mixture
from usnrt.paper.baselines.hnn import HNNRegressor
from usnrt.utils.constraints import Constraint, Whole


@dataclass(kw_only=True, eq=False, repr=False)
class DeepEnsembleRegressor(HNNRegressor):
    r"""Deep Ensemble: the mixture of several HNNs with different initial weights.

    .. math:: y \mid x \sim \tfrac1M \sum_{m=1}^M N(f_m(x), \sigma_m^2(x))

    Its variance has two parts: the mean of the members' variances (aleatoric) and the variance of the members'
    means (epistemic), which is larger where training rows are few.

    Parameters
    ----------
    n_members : int, default=5
        Number of HNNs; ``n_jobs`` of them are trained in parallel.
    hidden : sequence of int or str, default=(128, 64)
        Hidden layers of each mean network (ReLU) and variance network (Tanh, then Softplus); ``"8d"`` is eight times
        the number of features. The paper uses ("8d", "4d").
    n_alternations : int, default=2
        Number of trainings of each network.
    reinitialize : bool, default=False
        See `HNNRegressor`.
    {shared}

    Attributes
    ----------
    params_ : list of (Params, Params)
        Weights of each member's mean network and variance network.
    spread_ : float
        Calibration factor that scales the mixture about its mean.
    history_ : dict of str to dict of str to History
        Losses of each training of each member.

    References
    ----------
    B. Lakshminarayanan, A. Pritzel, C. Blundell (2017): Simple and scalable predictive uncertainty estimation using
    deep ensembles.

    Examples
    --------
    >>> from usnrt.paper.baselines import DeepEnsembleRegressor
    >>> from usnrt.datasets import make_heteroscedastic
    >>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
    >>> model = DeepEnsembleRegressor(n_members=3, max_epochs=10, random_state=0).fit(data.data, data.target)
    >>> parts = model.predict_variance(data.data[:3])
    >>> bool((abs(parts["aleatoric"] + parts["epistemic"] - parts["total"]) < 1e-9).all())
    True
    """

    n_members: int = 5

    _PAPER: ClassVar[dict[str, Any]] = {**HNNRegressor._PAPER, "n_members": 5}
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {**HNNRegressor._CONSTRAINTS, "n_members": Whole(1)}

    def _members(self) -> list[str]:
        return [f"member {index + 1}" for index in range(self.n_members)]

    def _store_params(self, params: list[Any]) -> None:
        self.params_ = params

    def _distribution_of_inputs(self, inputs: NDArray[np.float32]) -> Distribution:  # type: ignore[override]
        return Mixture([self._normal(params, inputs) for params in self.params_])
