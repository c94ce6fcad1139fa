"""What the networks minimise: pure functions of one batch, a value a row.

Every loss takes the network's outputs of shape (batch, n_outputs) and a target of shape (batch,) and gives (batch,).
"""

from typing import Any


def squared_error(outputs: Any, target: Any) -> Any:
    r"""Squared error :math:`(y - f(x))^2`; with row weights :math:`1/\sigma^2(x)`, weighted least squares."""
    return (target - outputs[:, 0]) ** 2


def variance_nll(outputs: Any, squared_residual: Any) -> Any:
    r"""Gaussian negative log-likelihood of a variance, the mean held fixed.

    .. math:: \tfrac12 \log \sigma^2(x) + \frac{(y - f(x))^2}{2 \sigma^2(x)}

    The target is the squared residual :math:`(y - f(x))^2`.
    """
    import jax.numpy as jnp

    variance = outputs[:, 0]
    return 0.5 * (jnp.log(variance) + squared_residual / variance)
