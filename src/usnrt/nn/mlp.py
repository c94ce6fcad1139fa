"""The network of this library: a multilayer perceptron, described by plain values so that jax can cache programs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# One (weights, bias) pair a layer.
Params = tuple[Any, ...]

# Keeps a variance away from 0, where its logarithm and its inverse explode.
MIN_VARIANCE = 1e-8
# Logarithms of variances beyond this are taken as this: float32 ends near 88.
LOG_LIMIT = 40.0


@dataclass(frozen=True)
class MLP:
    """A multilayer perceptron.

    Two networks with equal fields are equal and share their compiled programs.

    Parameters
    ----------
    sizes : tuple of int
        Number of inputs, of units in each hidden layer, and of outputs.
    activation : {"relu", "tanh", "silu"}
        Of the hidden layers.
    output : {"linear", "softplus", "exp"}
        Of the last layer. The last two give variances, at least 1e-8; what ``exp`` gives is scaled by its bias.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.mlp import MLP
    >>> network = MLP((3, 24, 12, 1), "relu", "linear")
    >>> params = network.init(np.random.default_rng(0))
    >>> [weights.shape for weights, bias in params]
    [(3, 24), (24, 12), (12, 1)]
    """

    sizes: tuple[int, ...]
    activation: str = "relu"
    output: str = "linear"

    def init(self, rng: np.random.Generator) -> Params:
        """Xavier-normal weights and zero biases, drawn from ``rng``."""
        return tuple(
            (
                (rng.standard_normal((n_in, n_out)) * np.sqrt(2.0 / (n_in + n_out))).astype(np.float32),
                np.zeros(n_out, dtype=np.float32),
            )
            for n_in, n_out in zip(self.sizes[:-1], self.sizes[1:])
        )

    def __call__(self, params: Params, x: Any, key: Any = None) -> Any:
        """Outputs of shape (batch, n_outputs), traced by jax; ``key`` is for networks with random layers."""
        import jax
        import jax.numpy as jnp

        activate = {"relu": jax.nn.relu, "tanh": jnp.tanh, "silu": jax.nn.silu}[self.activation]
        for weights, bias in params[:-1]:
            x = activate(x @ weights + bias)
        weights, bias = params[-1]
        x = x @ weights + bias
        if self.output == "linear":
            return x
        return (
            jax.nn.softplus(x) if self.output == "softplus" else jnp.exp(jnp.clip(x, -LOG_LIMIT, LOG_LIMIT))
        ) + MIN_VARIANCE


def hidden_sizes(hidden: Sequence[int | str], n_features: int, name: str = "hidden") -> tuple[int, ...]:
    """Read the sizes of hidden layers: whole numbers as they are, "8d" as eight times the number of features.

    Parameters
    ----------
    hidden : sequence of int or str
    n_features : int
        d, the number of features before one-hot encoding.
    name : str
        How the parameter is called in an error.

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> from usnrt.nn.mlp import hidden_sizes
    >>> hidden_sizes(("8d", "4d"), n_features=12)
    (96, 48)
    >>> hidden_sizes((256, 128), n_features=12)
    (256, 128)
    """
    sizes = []
    for size in hidden if isinstance(hidden, Iterable) and not isinstance(hidden, str) else [hidden]:
        try:
            units = round(float(size[:-1]) * n_features) if isinstance(size, str) and size.endswith("d") else int(size)
        except (TypeError, ValueError):
            units = 0
        if units < 1:
            raise ValueError(f"{name} must hold whole numbers from 1 on or multiples like '8d', got {hidden!r}")
        sizes.append(units)
    return tuple(sizes)


def to_numpy(params: Any) -> Params:
    """Copy parameters, a tuple of arrays a layer, from a device to the host."""
    return tuple(tuple(np.asarray(array) for array in layer) for layer in params)
