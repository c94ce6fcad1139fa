"""HNN: a mean network and a variance network, trained in turns (Skafte et al. 2019; the USNRT paper's HNN)."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from usnrt.baselines._shared import NetworkRegressor, TrainingJob
from usnrt.baselines._spread import MIN_ROWS_TO_CALIBRATE
from usnrt.distributions import Normal
from usnrt.nn.alternate import MeanAndVariance, train_alternately
from usnrt.nn.losses import variance_nll
from usnrt.nn.mlp import MLP, Params
from usnrt.nn.train import train
from usnrt.tables.training import TrainingTable
from usnrt.utils.checks import check_whole


@dataclass(kw_only=True, eq=False, repr=False)
class HNNRegressor(NetworkRegressor):
    r"""Heteroscedastic neural network: one network for the mean and one for the variance.

    .. math:: y \mid x \sim N(f(x), \sigma^2(x))

    The mean network learns by least squares, the variance network from its residuals by likelihood; then each once
    more with the other held fixed. The variance is noise only: the model does not know how unsure it is of itself.
    With ``calibrate`` the variance network also learns from held-out rows, where residuals have their true size.

    Parameters
    ----------
    hidden : sequence of int or str, default=(128, 64)
        Hidden layers of the mean network (ReLU) and of the variance network (Tanh, then Softplus); ``"8d"`` is eight
        times the number of features. The paper has ("8d", "4d").
    n_alternations : int, default=2
        How often each network is trained.
    {shared}

    Attributes
    ----------
    params_ : tuple of two Params
        Weights of the mean network and of the variance network.
    spread_ : float
        What calibration multiplies standard deviations by.
    history_ : dict of str to dict of str to History
        Losses of each training.

    References
    ----------
    N. Skafte, M. Jørgensen, S. Hauberg (2019): Reliable training and estimation of variance networks.

    Examples
    --------
    >>> from usnrt.baselines import HNNRegressor
    >>> from usnrt.datasets import make_heteroscedastic
    >>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
    >>> model = HNNRegressor(max_epochs=20, random_state=0).fit(data.data, data.target)
    >>> model.predict_interval(data.data[:3], coverage=0.9).shape
    (3, 2)
    """

    n_alternations: int = 2

    _PAPER: ClassVar[dict[str, Any]] = {"hidden": ("8d", "4d"), "n_alternations": 2}

    def _check(self, table: TrainingTable) -> None:
        check_whole("n_alternations", self.n_alternations, 1)
        sizes = self._sizes(table, n_outputs=1)
        self.networks_ = (MLP(sizes, "relu", "linear"), MLP(sizes, "tanh", "softplus"))

    def _learn(self, job: TrainingJob) -> tuple[Params, Params]:
        pair = train_alternately(
            self.networks_, job.inputs, job.table.inputs, job.table.y, job.table.weight,
            job.train_rows, job.valid_rows, job.how, job.rng,
            n_alternations=self.n_alternations, encoding=self.encoding_,
            on_epoch=lambda name, *state: job.report(name)(*state),
        )  # fmt: skip
        job.history |= pair.history
        return pair.mean, self._corrected(pair, job) if self.calibrate else pair.variance

    def _corrected(self, pair: MeanAndVariance, job: TrainingJob) -> Params:
        """The variance network trained on with residuals of held-out rows, which the mean network does not remember.

        Half of these rows train, the others judge; where they see no gain the network stays as it was.
        """
        table, rows = job.table, job.rng.permutation(job.valid_rows)
        if len(rows) < MIN_ROWS_TO_CALIBRATE:
            return pair.variance
        squared_residual = np.zeros(table.n_rows)
        squared_residual[rows] = (table.y[rows] - self._outputs(self.networks_[0], pair.mean, table.inputs[rows])) ** 2
        how = replace(job.how, learning_rate=job.how.learning_rate / 3.0)
        name, half = "variance held-out", len(rows) // 2
        params, job.history[name] = train(
            self.networks_[1], variance_nll, pair.variance, job.inputs, squared_residual, table.weight,
            np.sort(rows[half:]), np.sort(rows[:half]), how, job.rng, job.report(name), judge_start=True,
        )  # fmt: skip
        return params

    def _of_inputs(self, inputs: NDArray[np.float32]) -> Normal:
        return self._normal(self.params_, inputs)

    def _normal(self, params: tuple[Params, Params], inputs: NDArray[np.float32]) -> Normal:
        mean, variance = (self._outputs(network, each, inputs) for network, each in zip(self.networks_, params))
        return Normal(mean, np.sqrt(variance)).with_parts(variance, None)
