"""A network for mean and variance, and deep ensembles of such networks."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from usnrt.distributions import Distribution, Mixture, Normal
from usnrt.nn.alternate import Alternation, MeanAndVariance, NetworkRows, train_alternately
from usnrt.nn.jax_epochs import JaxEpochs
from usnrt.nn.losses import variance_nll
from usnrt.nn.mlp import MLP, Params
from usnrt.nn.train import train
from usnrt.paper.baselines._shared import MIN_ROWS_TO_CALIBRATE, NETWORK_CONSTRAINTS, NetworkRegressor, TrainingJob
from usnrt.tables.rows import draw_validation
from usnrt.tables.training import TrainingTable
from usnrt.tree.recipe import VARIANCE_STOP_MARGIN
from usnrt.utils.constraints import FLAG, Constraint, Whole
from usnrt.utils.types import Rows

# Lower bound on the variances that become weights, as a share of their median: noise-free rows must not dominate.
MIN_RELATIVE_VARIANCE = 1e-4


@dataclass(kw_only=True, eq=False, repr=False)
class _MeanAndVarianceNetworks:
    """The models of pairs of networks: how a pair is trained, and what it predicts."""

    n_alternations: int = 2
    reinitialize: bool = False

    def _check_pair(self: Any) -> None:
        if self.reinitialize and self.calibrate:  # no rows are left to calibrate by
            raise ValueError("calibrate must be False if reinitialize is True, got True")

    def _set_networks(self: Any, table: TrainingTable) -> None:
        sizes = self._sizes(table, n_outputs=1)
        self.networks_ = MLP(sizes, "relu", "linear"), MLP(sizes, "tanh", "softplus")

    def _train(self: Any, job: TrainingJob) -> tuple[Params, Params]:
        """Weights of the mean network and of the variance network."""
        all_rows = np.arange(job.table.n_rows)

        def draw_parts() -> tuple[Rows, Rows]:
            if self.reinitialize:
                return draw_validation(all_rows, self.validation_fraction, job.rng)
            return job.train_rows, job.valid_rows

        training, min_relative_variance = (job.training, job.training), MIN_RELATIVE_VARIANCE
        if self.reinitialize:  # as in the code of the paper's authors
            training = job.training, replace(job.training, stop_margin=VARIANCE_STOP_MARGIN)
            min_relative_variance = 0.0
        pair = train_alternately(
            self.networks_,
            NetworkRows(job.inputs, job.table.inputs, job.table.y, job.table.weight, self.encoding_),
            draw_parts,
            Alternation(training, self.reinitialize, min_relative_variance, self.n_alternations),
            job.rng,
            on_epoch=lambda name, *state: job.report(name)(*state),
        )
        job.history |= pair.history
        return pair.mean, self._fine_tuned_variance(pair, job) if self.calibrate else pair.variance

    def _fine_tuned_variance(self: Any, pair: MeanAndVariance, job: TrainingJob) -> Params:
        """Fine-tune the variance network on residuals of validation rows, which the mean network has not memorised.

        Half of these rows train, the others validate; the initial weights are kept unless the loss improves.
        """
        table, rows = job.table, job.rng.permutation(job.valid_rows)
        if len(rows) < MIN_ROWS_TO_CALIBRATE:
            return pair.variance
        mean = self._outputs(self.networks_[0], pair.mean, table.inputs[rows])
        squared_residual = np.zeros(table.n_rows)
        squared_residual[rows] = (table.y[rows] - mean) ** 2
        training = replace(job.training, learning_rate=job.training.learning_rate / 3.0)
        name, half = "variance fine-tuning", len(rows) // 2
        parts = np.sort(rows[half:]), np.sort(rows[:half])
        epochs = JaxEpochs(self.networks_[1], variance_nll, job.inputs, squared_residual, table.weight, parts, training)
        params, job.history[name] = train(epochs, pair.variance, job.rng, job.report(name), keep_initial=True)
        return params

    def _normal(self: Any, params: tuple[Params, Params], inputs: NDArray[np.float32]) -> Normal:
        mean, variance = (self._outputs(network, each, inputs) for network, each in zip(self.networks_, params))
        return Normal(mean, np.sqrt(variance)).with_parts(variance, None)


@dataclass(kw_only=True, eq=False, repr=False)
class HNNRegressor(_MeanAndVarianceNetworks, NetworkRegressor):
    r"""Heteroscedastic neural network: one network for the mean and one for the variance.

    .. math:: y \mid x \sim N(f(x), \sigma^2(x))

    The mean network is trained by least squares, the variance network on its residuals by likelihood; then each once
    more with the other fixed. The variance is that of the noise only: there is no estimate of epistemic uncertainty.
    With ``calibrate`` the variance network is also fine-tuned on validation rows, because residuals of training rows
    are too small.

    Parameters
    ----------
    hidden : sequence of int or str, default=(128, 64)
        Hidden layers of the mean network (ReLU) and of the variance network (Tanh, then Softplus); ``"8d"`` is eight
        times the number of features. The paper uses ("8d", "4d").
    n_alternations : int, default=2
        Number of trainings of each network.
    reinitialize : bool, default=False
        Whether every training starts from new weights and draws its validation rows anew, as in the code of the USNRT
        paper; otherwise trainings are warm-started. ``calibrate`` needs rows that no network was trained on, so it must
        be False then.
    {shared}

    Attributes
    ----------
    params_ : tuple of two Params
        Weights of the mean network and of the variance network.
    spread_ : float
        Calibration factor on standard deviations.
    history_ : dict of str to dict of str to History
        Losses of each training.

    References
    ----------
    N. Skafte, M. Jørgensen, S. Hauberg (2019): Reliable training and estimation of variance networks.

    Examples
    --------
    >>> from usnrt.paper.baselines import HNNRegressor
    >>> from usnrt.datasets import make_heteroscedastic
    >>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
    >>> model = HNNRegressor(max_epochs=20, random_state=0).fit(data.data, data.target)
    >>> model.predict_interval(data.data[:3], coverage=0.9).shape
    (3, 2)
    """

    _PAPER: ClassVar[dict[str, Any]] = {"hidden": ("8d", "4d"), "n_alternations": 2, "reinitialize": True}
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {
        **NETWORK_CONSTRAINTS,
        "n_alternations": Whole(1),
        "reinitialize": FLAG,
    }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_pair()

    def _distribution_of_inputs(self, inputs: NDArray[np.float32]) -> Normal:
        return self._normal(self.params_, inputs)


@dataclass(kw_only=True, eq=False, repr=False)
class DeepEnsembleRegressor(_MeanAndVarianceNetworks, NetworkRegressor):
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_pair()

    def _members(self) -> list[str]:
        return [f"member {index + 1}" for index in range(self.n_members)]

    def _store_params(self, params: list[Any]) -> None:
        self.params_ = params

    def _distribution_of_inputs(self, inputs: NDArray[np.float32]) -> Distribution:
        return Mixture([self._normal(params, inputs) for params in self.params_])
