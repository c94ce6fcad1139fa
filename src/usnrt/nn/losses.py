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
