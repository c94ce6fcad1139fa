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


# Degrees of freedom of the Student-t that scales are learnt with: tails heavy enough that no outlier rules.
SCALE_DF = 3.0


def robust_scale_nll(outputs: Any, squared_residual: Any) -> Any:
    r"""Negative log-likelihood of the squared scale of a Student-t with 3 degrees of freedom, the centre held fixed.

    .. math:: \tfrac12 \log s^2(x) + \tfrac{\nu + 1}2 \log\left(1 + \frac{(y - f(x))^2}{\nu s^2(x)}\right)

    The target is the squared residual. A few large errors say little about the spread of all others, and here they
    count little.
    """
    import jax.numpy as jnp

    scale = outputs[:, 0]
    return 0.5 * jnp.log(scale) + 0.5 * (SCALE_DF + 1) * jnp.log1p(squared_residual / (SCALE_DF * scale))
