"""Dropout at prediction: MC dropout, and concrete dropout, which learns its rates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from usnrt.distributions import Normal
from usnrt.nn.dropout import ConcreteDropoutMLP, ConcretePenalty, DropoutMLP, heteroscedastic_nll, rate_of
from usnrt.nn.losses import squared_error
from usnrt.nn.mlp import MIN_VARIANCE, Params
from usnrt.paper.baselines._shared import NETWORK_CONSTRAINTS, NetworkRegressor, TrainingJob
from usnrt.tables.training import TrainingTable
from usnrt.utils.constraints import FLAG, Choice, Constraint, Number, Whole, check_applies
from usnrt.utils.types import Floats, Rows

PASSES_CONSTRAINTS: Mapping[str, Constraint] = {**NETWORK_CONSTRAINTS, "n_passes": Whole(2)}


@dataclass(kw_only=True, eq=False, repr=False)
class _Passes:
    """The dropout models: predictions are the moments of many forward passes."""

    n_passes: int = 1000

    def _moments(self: Any, inputs: NDArray[np.float32]) -> tuple[Floats, ...]:
        """Mean and variance over the passes, and the mean of the noise variances that they predict, each (n,)."""
        from usnrt.nn.passes import predict_passes

        masks = self.network_.draw_masks(self.params_, self.n_passes, self._rng(2))
        layers, n_threads = self.network_.layers(self.params_), effective_n_jobs(self.n_jobs)
        return predict_passes(layers, masks, inputs, n_threads, self.encoding_, self.network_.activation)


@dataclass(kw_only=True, eq=False, repr=False)
class MCDropoutRegressor(_Passes, NetworkRegressor):
    r"""MC Dropout: mean and variance over many forward passes with dropout.

    .. math:: E[y] = \tfrac1T \sum_t f_t(x), \qquad Var[y] = \tau^{-1} + Var_t[f_t(x)]

    The second part of the variance is epistemic. The first is the noise of the observations, the same for all rows,
    estimated by the maximum likelihood of the validation rows.

    Parameters
    ----------
    hidden : sequence of int or str, default=(128, 64)
        Hidden layers (ReLU); ``"8d"`` is eight times the number of features. The paper uses ("8d", "16d", "4d").
    rate : float, default=0.05
        Probability of dropping a hidden unit. The paper uses 0.5.
    n_passes : int, default=1000
        Number of forward passes per prediction.
    observation_noise : bool, default=True
        Whether the variance includes :math:`\tau^{-1}`. The paper omits it, and with it most of the noise. Estimating
        it calibrates the model, so ``calibrate`` must be True then.
    {shared}

    Attributes
    ----------
    noise_ : float
        Noise variance :math:`\tau^{-1}` of the scaled target; 0 without ``observation_noise``.
    params_ : Params
        Weights of the network.
    spread_ : float
        Calibration factor on standard deviations.
    history_ : dict of str to dict of str to History
        Losses of the training.

    References
    ----------
    Y. Gal, Z. Ghahramani (2016): Dropout as a Bayesian approximation: representing model uncertainty in deep learning.

    Examples
    --------
    >>> from usnrt.paper.baselines import MCDropoutRegressor
    >>> from usnrt.datasets import make_heteroscedastic
    >>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
    >>> model = MCDropoutRegressor(max_epochs=10, n_passes=50, random_state=0).fit(data.data, data.target)
    >>> parts = model.predict_variance(data.data)
    >>> bool((parts["epistemic"] > 0).all()), len(set(parts["aleatoric"].round(9)))
    (True, 1)
    """

    rate: float = 0.05
    observation_noise: bool = True

    _PAPER: ClassVar[dict[str, Any]] = {
        "hidden": ("8d", "16d", "4d"),
        "rate": 0.5,
        "n_passes": 1000,
        "observation_noise": False,
    }
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {
        **PASSES_CONSTRAINTS,
        "rate": Number(0, 1),
        "observation_noise": FLAG,
    }

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """The recipe of the USNRT paper; ``changes`` override its parameters.

        With ``observation_noise=True`` the noise is estimated from validation rows, and ``calibrate`` is True.
        """
        return super().paper(**({"calibrate": True} if changes.get("observation_noise") else {}) | changes)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_applies(self, "calibrate", observation_noise=False)

    def _set_networks(self, table: TrainingTable) -> None:
        self.network_ = DropoutMLP(self._sizes(table, n_outputs=1), self.rate)

    def _train(self, job: TrainingJob) -> Params:
        return job.train(self.network_, squared_error)

    def _finish(self, table: TrainingTable, validation_rows: Rows) -> None:
        self.noise_ = 0.0
        if not self.observation_noise:
            return super()._finish(table, validation_rows)
        self.spread_ = 1.0  # the estimated noise already calibrates the model
        rows = validation_rows if len(validation_rows) else np.arange(table.n_rows)
        mean, variance, _ = self._moments(table.inputs[rows])
        self.noise_ = max_likelihood_noise((table.y[rows] - mean) ** 2, variance, table.weight[rows])

    def _distribution_of_inputs(self, inputs: NDArray[np.float32]) -> Normal:
        mean, variance, _ = self._moments(inputs)
        total = np.maximum(variance + self.noise_, MIN_VARIANCE)
        return Normal(mean, np.sqrt(total)).with_parts(np.full(len(mean), self.noise_), variance)


def max_likelihood_noise(squared_residual: Floats, variance: Floats, weight: Floats) -> float:
    r"""Maximum-likelihood estimate of :math:`\tau^{-1}` from residuals with variances :math:`\tau^{-1} + v_i`.

    Parameters
    ----------
    squared_residual, variance, weight : ndarray of shape (n,)
    """

    def nll(log_noise: float) -> float:
        total = np.exp(log_noise) + variance
        return float(np.average(np.log(total) + squared_residual / total, weights=weight))

    upper = np.log(max(float(squared_residual.max()), MIN_VARIANCE)) + 1.0
    best = minimize_scalar(nll, bounds=(np.log(MIN_VARIANCE), upper), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(best.x))


@dataclass(kw_only=True, eq=False, repr=False)
class ConcreteDropoutRegressor(_Passes, NetworkRegressor):
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
        "separate_heads": FLAG,
        "epistemic": FLAG,
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
