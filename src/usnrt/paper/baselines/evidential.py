"""Deep evidential regression: aleatoric and epistemic variance from one forward pass (Amini et al. 2020)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from usnrt.distributions import StudentT
from usnrt.nn.losses import EvidentialLoss, nig_parameters, softplus
from usnrt.nn.mlp import MLP, Params
from usnrt.paper.baselines._shared import NETWORK_CONSTRAINTS, NetworkRegressor, TrainingJob
from usnrt.tables.training import TrainingTable
from usnrt.utils.constraints import Constraint, Number


@dataclass(kw_only=True, eq=False, repr=False)
class EvidentialRegressor(NetworkRegressor):
    r"""Deep evidential regression: a network that predicts a normal-inverse-gamma distribution.

    .. math::

        y \sim N(\mu, \sigma^2), \quad \mu \sim N(\gamma, \sigma^2/\nu), \quad \sigma^2 \sim \Gamma^{-1}(\alpha, \beta)

    so that the target has a Student-t distribution with :math:`2\alpha` degrees of freedom. The aleatoric variance is
    :math:`E[\sigma^2] = \beta/(\alpha - 1)`, the epistemic one :math:`Var[\mu] = \beta/(\nu(\alpha - 1))`.

    Parameters
    ----------
    hidden : sequence of int or str, default=(128, 64)
        Hidden layers (ReLU); ``"8d"`` is eight times the number of features. The paper uses ("8d", "4d").
    lam : float, default=0.01
        Weight :math:`\lambda` of the penalty on evidence for wrong predictions.
    min_evidence : float, default=1e-06
        Lower bound of :math:`\nu` and :math:`\beta`. The paper's code has 1e-8.
    min_alpha : float, default=1.01
        Lower bound of :math:`\alpha`, above 1, where the variance is infinite. The paper's code has 1.
    {shared}

    Attributes
    ----------
    params_ : Params
        Weights of the network.
    spread_ : float
        Calibration factor on the scale.
    history_ : dict of str to dict of str to History
        Losses of the training.

    References
    ----------
    A. Amini, W. Schwarting, A. Soleimany, D. Rus (2020): Deep evidential regression.

    Examples
    --------
    >>> from usnrt.paper.baselines import EvidentialRegressor
    >>> from usnrt.datasets import make_heteroscedastic
    >>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
    >>> model = EvidentialRegressor(max_epochs=20, random_state=0).fit(data.data, data.target)
    >>> model.predict_dist(data.data)
    <StudentT of 500 rows>
    >>> model.predict_variance(data.data).columns
    ['aleatoric', 'epistemic', 'total']
    """

    lam: float = 0.01
    min_evidence: float = 1e-6
    min_alpha: float = 1.01

    _PAPER: ClassVar[dict[str, Any]] = {
        "hidden": ("8d", "4d"),
        "lam": 0.01,
        "min_evidence": 1e-8,
        "min_alpha": 1.0 + 1e-8,  # at 1 itself the variance could be infinite
    }

    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {
        **NETWORK_CONSTRAINTS,
        "lam": Number(0, np.inf, include_low=True),
        "min_evidence": Number(0, np.inf),
        "min_alpha": Number(1, np.inf),
    }

    def _set_networks(self, table: TrainingTable) -> None:
        self.network_ = MLP(self._sizes(table, n_outputs=4), "relu", "linear")

    def _train(self, job: TrainingJob) -> Params:
        return job.train(self.network_, EvidentialLoss(self.lam, self.min_evidence, self.min_alpha))

    def _distribution_of_inputs(self, inputs: NDArray[np.float32]) -> StudentT:
        outputs = self._outputs(self.network_, self.params_, inputs)
        gamma, nu, alpha, beta = nig_parameters(outputs, softplus, self.min_evidence, self.min_alpha)
        scale = np.sqrt(beta * (1.0 + nu) / (nu * alpha))
        noise = beta / (alpha - 1.0)
        return StudentT(2.0 * alpha, gamma, scale).with_parts(noise, noise / nu)
