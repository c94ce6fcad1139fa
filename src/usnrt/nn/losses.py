"""Loss functions: of means and variances, and of evidential regression.

Every loss takes network outputs of shape (batch, n_outputs) and a target of shape (batch,) and returns shape (batch,).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.encoding import ArrayT

if TYPE_CHECKING:
    from jax import Array


def squared_error(outputs: "Array", target: "Array") -> "Array":
    r"""Squared error :math:`(y - f(x))^2`; with row weights :math:`1/\sigma^2(x)`, weighted least squares."""
    return (target - outputs[:, 0]) ** 2


def variance_nll(outputs: "Array", squared_residual: "Array") -> "Array":
    r"""Gaussian negative log-likelihood of a variance, for a fixed mean.

    .. math:: \tfrac12 \log \sigma^2(x) + \frac{(y - f(x))^2}{2 \sigma^2(x)}

    The target is the squared residual :math:`(y - f(x))^2`.
    """
    import jax.numpy as jnp

    variance = outputs[:, 0]
    return 0.5 * (jnp.log(variance) + squared_residual / variance)


@dataclass(frozen=True)
class EvidentialLoss:
    r"""Negative log-likelihood of the normal-inverse-gamma model, and a penalty on the evidence of wrong predictions.

    The mean and the variance of the noise have a normal-inverse-gamma distribution with parameters
    :math:`\gamma, \nu, \alpha, \beta`, so that the target has a Student-t distribution with :math:`2\alpha` degrees of
    freedom, location :math:`\gamma` and squared scale :math:`\beta(1 + \nu)/(\nu\alpha)`. With
    :math:`\Omega = 2\beta(1 + \nu)` the loss is

    .. math::

        \tfrac12 \log\frac{\pi\Omega}{\nu}
        + (\alpha + \tfrac12) \log\Bigl(1 + \frac{\nu(y - \gamma)^2}{\Omega}\Bigr)
        + \log\frac{\Gamma(\alpha)}{\Gamma(\alpha + \frac12)}
        + \lambda\,|y - \gamma|\,(2\nu + \alpha),

    the paper's formula with two logarithms combined, which nearly cancel in single precision.

    Parameters
    ----------
    lam : float
        :math:`\lambda`, the weight of the penalty.
    min_evidence, min_alpha : float
        See `nig_parameters`.
    """

    lam: float = 0.01
    min_evidence: float = 1e-6
    min_alpha: float = 1.01

    def __call__(self, outputs: "Array", target: "Array") -> "Array":
        """Loss per row, shape (batch,), of outputs of shape (batch, 4)."""
        import jax
        import jax.numpy as jnp

        gamma, nu, alpha, beta = nig_parameters(outputs, jax.nn.softplus, self.min_evidence, self.min_alpha)
        distance = jnp.abs(target - gamma)
        omega = 2.0 * beta * (1.0 + nu)
        nll = (
            0.5 * jnp.log(jnp.pi * omega / nu)
            + (alpha + 0.5) * jnp.log1p(distance * (nu / omega) * distance)
            + _log_gamma_ratio(alpha)
        )
        return nll + self.lam * distance * (2.0 * nu + alpha)


class NormalInverseGamma(NamedTuple, Generic[ArrayT]):
    """Parameters of a batch of distributions, each of shape (n,)."""

    gamma: ArrayT
    nu: ArrayT
    alpha: ArrayT
    beta: ArrayT


def nig_parameters(
    outputs: ArrayT, softplus: Callable[[ArrayT], ArrayT], min_evidence: float = 1e-6, min_alpha: float = 1.01
) -> NormalInverseGamma[ArrayT]:
    r"""The parameters :math:`\gamma`, :math:`\nu > 0`, :math:`\alpha > 1`, :math:`\beta > 0` from network outputs.

    Parameters
    ----------
    outputs : array of shape (n, 4)
    softplus : callable
        For arrays of the library of ``outputs``.
    min_evidence : float, default=1e-6
        Lower bound of :math:`\nu` and :math:`\beta`.
    min_alpha : float, default=1.01
        Lower bound of :math:`\alpha`; at 1 the variance would be infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.losses import nig_parameters, softplus
    >>> [float(round(value[0], 3)) for value in nig_parameters(np.array([[2.0, 0.0, 0.0, -50.0]]), softplus)]
    [2.0, 0.693, 1.703, 0.0]
    """
    nu, alpha, beta = (softplus(outputs[:, k]) for k in (1, 2, 3))
    return NormalInverseGamma(outputs[:, 0], nu + min_evidence, alpha + min_alpha, beta + min_evidence)


def softplus(x: NDArray[np.floating]) -> NDArray[np.floating]:
    """log(1 + exp(x)) in numpy, without overflow."""
    value: NDArray[np.floating] = np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    return value


def _log_gamma_ratio(alpha: "Array") -> "Array":
    r""":math:`\log(\Gamma(\alpha) / \Gamma(\alpha + 1/2))`: recurrence to a larger argument, then asymptotic series.

    The difference of two log-gamma values would suffer from cancellation in float32.
    """
    import jax.numpy as jnp

    steps = 6
    z = alpha + steps
    series = -0.5 * jnp.log(z) + (1.0 / 8.0 - (1.0 / 192.0 - 1.0 / (640.0 * z**2)) / z**2) / z
    return series + sum(jnp.log1p(0.5 / (alpha + k)) for k in range(steps))
