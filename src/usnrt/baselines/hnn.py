"""HNN: a mean network and a variance network, trained in turns (Skafte et al. 2019; the USNRT paper's HNN)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from usnrt.base import TrainingTable
from usnrt.baselines._shared import Lesson, NetworkRegressor, network_sizes
from usnrt.checks import check_whole
from usnrt.distributions import Normal
from usnrt.nn.alternate import train_alternately
from usnrt.nn.forward import predict
from usnrt.nn.mlp import MLP, Params


@dataclass(kw_only=True, eq=False, repr=False)
class HNNRegressor(NetworkRegressor):
    r"""Heteroscedastic neural network: one network for the mean and one for the variance.

    .. math:: y \mid x \sim N(f(x), \sigma^2(x))

    The mean network learns by least squares, the variance network from its residuals by likelihood; then each once
    more with the other held fixed. The variance is noise only: the model does not know how unsure it is of itself.

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

    hidden: Sequence[int | str] = (128, 64)
    n_alternations: int = 2

    _PAPER: ClassVar[dict[str, Any]] = {"hidden": ("8d", "4d"), "n_alternations": 2}

    def _check(self, table: TrainingTable) -> None:
        check_whole("n_alternations", self.n_alternations, 1)
        sizes = network_sizes(table, self.hidden, n_outputs=1)
        self.networks_ = (MLP(sizes, "relu", "linear"), MLP(sizes, "tanh", "softplus"))

    def _learn(self, lesson: Lesson) -> tuple[Params, Params]:
        pair = train_alternately(
            self.networks_, lesson.inputs, lesson.table.inputs, lesson.table.y, lesson.table.weight,
            lesson.train_rows, lesson.valid_rows, lesson.how, lesson.rng,
            n_alternations=self.n_alternations,
            on_epoch=lambda name, *state: lesson.report(name)(*state),
        )  # fmt: skip
        lesson.history |= pair.history
        return pair.mean, pair.variance

    def _of_inputs(self, inputs: NDArray[np.float32]) -> Normal:
        return self._normal(self.params_, inputs)

    def _normal(self, params: tuple[Params, Params], inputs: NDArray[np.float32]) -> Normal:
        n_threads = effective_n_jobs(self.n_jobs)
        mean, variance = (
            predict(network, weights, inputs, n_threads=n_threads) for network, weights in zip(self.networks_, params)
        )
        return Normal(mean, np.sqrt(variance)).with_parts(variance, None)
