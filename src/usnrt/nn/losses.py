"""Loss functions: pure functions of one batch, one value per row.

Every loss takes network outputs of shape (batch, n_outputs) and a target of shape (batch,) and returns shape (batch,).
"""

from typing import TYPE_CHECKING

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


# Degrees of freedom of the Student-t likelihood of scales: its tails limit the influence of outliers.
SCALE_DF = 3.0


def robust_scale_nll(outputs: "Array", squared_residual: "Array") -> "Array":
    r"""Negative log-likelihood of the squared scale of a Student-t with 3 degrees of freedom, for a fixed location.

    .. math:: \tfrac12 \log s^2(x) + \tfrac{\nu + 1}2 \log\left(1 + \frac{(y - f(x))^2}{\nu s^2(x)}\right)

    The target is the squared residual. Few large errors have little influence on the scale.
    """
    import jax.numpy as jnp

    scale = outputs[:, 0]
    return 0.5 * jnp.log(scale) + 0.5 * (SCALE_DF + 1) * jnp.log1p(squared_residual / (SCALE_DF * scale))
