"""Concrete Dropout: MC Dropout with learned rates and a noise variance per row (Gal, Hron and Kendall 2017)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from usnrt.distributions import Normal
from usnrt.nn.dropout import ConcreteDropoutMLP, ConcretePenalty, heteroscedastic_nll, rate_of
from usnrt.paper.baselines._passes import PASSES_CONSTRAINTS, PassesRegressor
from usnrt.paper.baselines._shared import TrainingJob
from usnrt.tables.training import TrainingTable
from usnrt.utils.constraints import Choice, Constraint, Flag, Number


@dataclass(kw_only=True, eq=False, repr=False)
class ConcreteDropoutRegressor(PassesRegressor):
    r"""Concrete Dropout: a network with learned dropout rates and two outputs, mean and logarithm of the variance.

    .. math::

        E[y] = \tfrac1T \sum_t f_t(x), \qquad
        Var[y] = \tfrac1T \sum_t \sigma_t^2(x) + Var_t[f_t(x)]

    The first part of the variance is aleatoric, the second epistemic. The objective is the negative log-likelihood
    plus the divergence of the dropout distribution from its prior, divided by the number of rows; so more rows lead to
    smaller rates and less epistemic variance.

    Parameters
    ----------
    hidden : sequence of int or str, default=(128, 64)
        Hidden layers; ``"8d"`` is eight times the number of features. The paper uses ("8d", "4d").
    activation : {"relu", "elu"}, default="relu"
        Of the hidden layers. The paper's code has "elu".
    length_scale : float, default=0.0001
        Length scale of the prior on the weights; larger values give smoother functions.
    separate_heads : bool, default=False
        Whether mean and variance have a dropout rate and masks of their own for the last layer, as in the paper's code.
    epistemic : bool, default=True
        Whether the variance includes :math:`Var_t[f_t]`. The paper's code omits it.
    n_passes : int, default=1000
        Number of forward passes per prediction.
    {shared}

    Attributes
    ----------
    rates_ : ndarray of shape (n_layers,)
        Learned rates: of the inputs, then of each hidden layer; of the last one twice with ``separate_heads``.
    params_ : tuple of (weights, bias, logit of the rate)
        One per layer; with ``separate_heads`` the last two are those of the mean and of the variance.
    spread_ : float
        Calibration factor on standard deviations.
    history_ : dict of str to dict of str to History
        Losses of the training.

    References
    ----------
    Y. Gal, J. Hron, A. Kendall (2017): Concrete dropout.

    Examples
    --------
    >>> from usnrt.paper.baselines import ConcreteDropoutRegressor
    >>> from usnrt.datasets import make_heteroscedastic
    >>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
    >>> model = ConcreteDropoutRegressor(max_epochs=10, n_passes=50, random_state=0).fit(data.data, data.target)
    >>> model.rates_.shape
    (3,)
    """

    activation: str = "relu"
    length_scale: float = 1e-4
    separate_heads: bool = False
    epistemic: bool = True
    weight_decay: float = 0.0  # the prior already penalises weights

    _PAPER: ClassVar[dict[str, Any]] = {
        "hidden": ("8d", "4d"),
        "activation": "elu",
        "length_scale": 1e-4,
        "separate_heads": True,
        "epistemic": False,
        "n_passes": 1000,
    }

    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {
        **PASSES_CONSTRAINTS,
        "activation": Choice(("relu", "elu")),
        "length_scale": Number(0, np.inf),
        "separate_heads": Flag(),
        "epistemic": Flag(),
    }

    def _set_networks(self, table: TrainingTable) -> None:
        sizes = self._sizes(table, n_outputs=2)
        self.network_ = ConcreteDropoutMLP(sizes, activation=self.activation, separate_heads=self.separate_heads)

    def _train(self, job: TrainingJob) -> Any:
        return job.train(self.network_, heteroscedastic_nll, ConcretePenalty(self.length_scale))

    def _store_params(self, params: list[Any]) -> None:
        super()._store_params(params)
        self.rates_ = np.array([float(rate_of(logit)) for _, _, logit in self.params_])

    def _distribution_of_inputs(self, inputs: NDArray[np.float32]) -> Normal:
        mean, variance, noise = self._moments(inputs)
        if not self.epistemic:
            return Normal(mean, np.sqrt(noise)).with_parts(noise, None)
        return Normal(mean, np.sqrt(variance + noise)).with_parts(noise, variance)
