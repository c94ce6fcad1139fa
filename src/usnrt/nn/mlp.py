"""Multilayer perceptrons, described by hashable values so that jax can cache compiled programs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from jax import Array

#: Parameters of a network: per layer weights and bias, and for concrete dropout the logit of the rate. The arrays are
#: jax arrays within compiled programs.
Params = tuple[tuple[NDArray[np.float32], ...], ...]

# Lower bound of a variance, since its logarithm and its inverse diverge at 0.
MIN_VARIANCE = 1e-8
# Bound of the logarithm of a variance: exp overflows in float32 near 88.
LOG_LIMIT = 40.0


@dataclass(frozen=True)
class MLP:
    """A multilayer perceptron.

    Two networks with equal fields are equal and share their compiled programs.

    Parameters
    ----------
    sizes : tuple of int
        Number of inputs, of units in each hidden layer, and of outputs.
    activation : {"relu", "tanh", "algebraic"}
        Of the hidden layers. ``algebraic`` is x / 2 (1 + x / sqrt(4 + x²)): as smooth as SiLU, without an exponential.
        It is that of quantile networks, see `usnrt.nn.quantile_training`.
    output : {"linear", "softplus", "exp"}
        Of the last layer. The last two give variances, at least 1e-8; with ``exp`` the bias is a log scale.

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

    def __call__(self, params: Params, x: "Array", key: "Array | None" = None) -> "Array":
        """Outputs of shape (batch, n_outputs), in jax; ``key`` is unused, networks with dropout need it."""
        import jax
        import jax.numpy as jnp

        activation = {"relu": jax.nn.relu, "tanh": jnp.tanh}[self.activation]
        for weights, bias in params[:-1]:
            x = activation(x @ weights + bias)
        weights, bias = params[-1]
        x = x @ weights + bias
        if self.output == "linear":
            return x
        variance = jax.nn.softplus(x) if self.output == "softplus" else jnp.exp(jnp.clip(x, -LOG_LIMIT, LOG_LIMIT))
        return variance + MIN_VARIANCE


def hidden_sizes(hidden: Sequence[int | str], n_features: int, name: str = "hidden") -> tuple[int, ...]:
    """Sizes of hidden layers as integers, where "8d" is eight times the number of features.

    Parameters
    ----------
    n_features : int
        d, the number of features before one-hot encoding.
    name : str
        Name of the parameter for error messages.

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
            raise ValueError(f"{name} must hold ints >= 1 or multiples like '8d', got {hidden!r}")
        sizes.append(units)
    return tuple(sizes)


def to_numpy(params: Params) -> Params:
    """Copy parameters from the device to the host."""
    return tuple(tuple(np.asarray(array) for array in layer) for layer in params)


def check_layers(layers: Sequence[Sequence[NDArray[np.floating]]]) -> None:
    """Raise a ValueError if layers do not fit together; compiled programs rely on it, since they check no bounds.

    Parameters
    ----------
    layers : sequence of (weights, bias, ...)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.mlp import check_layers
    >>> check_layers([(np.ones((2, 3)), np.ones(3)), (np.ones((4, 1)), np.ones(1))])
    Traceback (most recent call last):
        ...
    ValueError: the layers of a network must fit together, got weights of shapes (2, 3), (4, 1), biases of (3,), (1,)
    """
    weights, biases = ([np.shape(layer[i]) for layer in layers] for i in (0, 1))
    fits = all(len(shape) == 2 and bias == shape[1:] for shape, bias in zip(weights, biases)) and all(
        before[1] == after[0] for before, after in pairwise(weights)
    )
    if not fits or not weights:
        raise ValueError(
            f"the layers of a network must fit together, got weights of shapes {', '.join(map(str, weights))}, "
            f"biases of {', '.join(map(str, biases))}"
        )
