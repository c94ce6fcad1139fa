"""Networks with dropout: with a fixed rate, or with learned rates (concrete dropout)."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from usnrt.nn.mlp import MLP, Params

if TYPE_CHECKING:
    from jax import Array
    from jax.typing import ArrayLike

# Bounds of learned rates, away from 0 and 1, where their logarithms and 1 / (1 - rate) diverge.
MIN_RATE, MAX_RATE = 1e-4, 0.95
# Bounds of a log variance: exp overflows in float32 beyond about 88, and scaled targets never need more than this.
LOG_VARIANCE_BOUNDS = (-16.0, 16.0)


@dataclass(frozen=True)
class DropoutMLP:
    """A ReLU network that drops each hidden unit with a fixed probability and rescales the others.

    Parameters
    ----------
    sizes : tuple of int
        Number of inputs, of units in each hidden layer, and of outputs.
    rate : float
        Probability of dropping a unit.
    """

    sizes: tuple[int, ...]
    rate: float
    activation: ClassVar[str] = "relu"

    def init(self, rng: np.random.Generator) -> Params:
        """Initial weights, those of a network without dropout."""
        return MLP(self.sizes).init(rng)

    def __call__(self, params: Params, x: "Array", key: "Array | None" = None) -> "Array":
        """Outputs of shape (batch, n_outputs); without a key no unit is dropped."""
        import jax
        import jax.numpy as jnp

        threshold = jnp.uint32(min(round(self.rate * 2**32), 2**32 - 1))
        for layer, (weights, bias) in enumerate(params[:-1]):
            x = jax.nn.relu(x @ weights + bias)
            if key is not None:
                bits = random_bits(jax.random.fold_in(key, layer), x.shape)
                x = jnp.where(bits >= threshold, x / (1.0 - self.rate), 0.0)
        weights, bias = params[-1]
        return x @ weights + bias

    def layers(self, params: Params) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """Weights and biases of each layer, for `usnrt.nn.passes`."""
        return [(weights, bias) for weights, bias in params]

    def draw_masks(self, params: Params, n: int, rng: np.random.Generator) -> list[NDArray[np.float32]]:
        """Factors of the inputs of each layer, for ``n`` passes: 0 or ``1 / (1 - rate)``, 1 for network inputs.

        Returns
        -------
        list of ndarray of shape (n, n_units), float32
            One per layer.
        """
        masks = [np.ones((n, self.sizes[0]), dtype=np.float32)]
        for units in self.sizes[1:-1]:
            kept = rng.random((n, units)) >= self.rate
            masks.append((kept / (1.0 - self.rate)).astype(np.float32))
        return masks


@dataclass(frozen=True)
class ConcreteDropoutMLP:
    """A network that learns the dropout rate of the inputs of each layer.

    Dropout is relaxed to a smooth function of the rate (the concrete distribution), so that the rate has a gradient.
    The parameters of a layer are weights, bias and the logit of the rate. With separate heads each output has a layer
    of its own.

    Parameters
    ----------
    sizes : tuple of int
        Number of inputs, of units in each hidden layer, and of outputs.
    first_rate : float
        Initial dropout rate.
    temperature : float
        Of the concrete distribution; masks approach 0 or 1 as it approaches 0.
    activation : {"relu", "elu"}
        Of the hidden layers.
    separate_heads : bool
        Whether each output has a dropout rate and masks of its own.
    """

    sizes: tuple[int, ...]
    first_rate: float = 0.1
    temperature: float = 0.1
    activation: str = "relu"
    separate_heads: bool = False

    def init(self, rng: np.random.Generator) -> Params:
        """Initial weights, those of a network without dropout, and the initial logits."""
        share = (self.first_rate - MIN_RATE) / (MAX_RATE - MIN_RATE)
        logit = np.asarray(np.log(share) - np.log1p(-share), dtype=np.float32)
        *hidden, (weights, bias) = MLP(self.sizes).init(rng)
        n_heads = self.sizes[-1] if self.separate_heads else 1
        heads = zip(np.split(weights, n_heads, axis=1), np.split(bias, n_heads))
        return tuple((*layer, logit) for layer in (*hidden, *heads))

    def __call__(self, params: Params, x: "Array", key: "Array | None" = None) -> "Array":
        """Outputs of shape (batch, n_outputs); without a key the masks are those of a fixed key."""
        import jax
        import jax.numpy as jnp

        key = jax.random.key(0) if key is None else key
        activation = {"relu": jax.nn.relu, "elu": jax.nn.elu}[self.activation]

        def dense(layer: int, x: "Array") -> "Array":
            weights, bias, logit = params[layer]
            bits = random_bits(jax.random.fold_in(key, layer), x.shape)
            return (x * concrete_mask(logit, uniform(bits), self.temperature)) @ weights + bias

        n_hidden = len(self.sizes) - 2
        for layer in range(n_hidden):
            x = activation(dense(layer, x))
        heads = [dense(layer, x) for layer in range(n_hidden, len(params))]
        return jnp.concatenate(heads, axis=1)

    def layers(self, params: Params) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """Weights and biases of each layer, for `usnrt.nn.passes`; heads are one layer."""
        n_hidden = len(self.sizes) - 2
        weights, biases, _ = zip(*params[n_hidden:])
        chain = [(layer[0], layer[1]) for layer in params[:n_hidden]]
        return [*chain, (np.concatenate(weights, axis=1), np.concatenate(biases))]

    def draw_masks(self, params: Params, n: int, rng: np.random.Generator) -> list[NDArray[np.float32]]:
        """Factors of the inputs of each layer, for ``n`` passes, as in training.

        Returns
        -------
        list of ndarray of shape (n, n_units), float32
            One per layer; factors close to 0 are set to 0. That of separate heads has shape (n, n_outputs, n_units).
        """
        masks: list[NDArray[np.float32]] = []
        for weights, _, logit in params:
            units = len(weights)
            rate = MIN_RATE + (MAX_RATE - MIN_RATE) * expit(float(logit))
            drawn = rng.uniform(2.0**-24, 1.0 - 2.0**-24, (n, units))
            kept = expit(-(np.log(rate / (1.0 - rate)) + np.log(drawn / (1.0 - drawn))) / self.temperature)
            masks.append(np.where(kept < 1e-4, 0.0, kept / (1.0 - rate)).astype(np.float32))
        n_hidden = len(self.sizes) - 2
        return [*masks[:n_hidden], np.stack(masks[n_hidden:], axis=1)] if self.separate_heads else masks


def random_bits(key: "Array", shape: tuple[int, ...]) -> "Array":
    """32 random bits per entry: one draw of jax's generator, expanded to all entries by a hash.

    Drawing every entry from jax's generator would take longer than the matrix products, and dropout does not need its
    quality.
    """
    import jax
    import jax.numpy as jnp

    seed = jax.random.bits(key, (), "uint32")
    return _hash(_hash(jax.lax.iota(jnp.uint32, math.prod(shape))) ^ seed).reshape(shape)


def _hash(bits: "Array") -> "Array":
    """The finalizer of MurmurHash3: every input bit flips each output bit with probability of about one half."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = (bits ^ (bits >> shift)) * np.uint32(factor)
    return bits ^ (bits >> 16)


def uniform(bits: "Array") -> "Array":
    """Uniform random numbers in the open interval (0, 1) from the upper 23 of 32 random bits."""
    import jax.numpy as jnp

    return (bits >> 9).astype(jnp.float32) * 2.0**-23 + 2.0**-24


def rate_of(logit: "ArrayLike") -> "Array":
    """Dropout rate of a logit: a sigmoid scaled to the bounds of the rate, so that its gradient never vanishes."""
    import jax

    return MIN_RATE + (MAX_RATE - MIN_RATE) * jax.nn.sigmoid(logit)


def concrete_mask(logit: "ArrayLike", uniform: "Array", temperature: float) -> "Array":
    r"""Relaxed dropout factors :math:`(1 - z)/(1 - p)`.

    .. math::

        z = \operatorname{sigmoid}\Bigl(\frac{\log p - \log(1 - p) + \log u - \log(1 - u)}{t}\Bigr)

    Parameters
    ----------
    logit : array of shape ()
        Of the rate :math:`p`.
    uniform : array of shape (batch, n_units)
        Uniform random numbers :math:`u`.
    temperature : float
        :math:`t`.
    """
    import jax
    import jax.numpy as jnp

    rate = rate_of(logit)
    logit_of_mask = jnp.log(rate / (1.0 - rate)) + jnp.log(uniform / (1.0 - uniform))
    return jax.nn.sigmoid(-logit_of_mask / temperature) / (1.0 - rate)


@dataclass(frozen=True)
class ConcretePenalty:
    r"""The prior term of the objective, divided by the number of rows (Gal et al. 2017, equation 3).

    .. math::

        \frac1N \sum_{\text{layers}} \frac{l^2}{2} \frac{\lVert W \rVert^2}{1 - p} - K H(p), \qquad
        H(p) = -p \log p - (1 - p) \log(1 - p)

    where a layer has :math:`K` inputs and :math:`W` are its weights before the division by :math:`1 - p`.

    Parameters
    ----------
    length_scale : float
        :math:`l` of the prior; larger values give smoother functions.
    """

    length_scale: float = 1e-2

    def __call__(self, params: Params, n_rows: "ArrayLike") -> "Array":
        """The penalty, an array of shape ()."""
        import jax.numpy as jnp

        total: Array = jnp.zeros((), dtype=jnp.float32)
        for weights, _, logit in params:
            rate = rate_of(logit)
            entropy = -rate * jnp.log(rate) - (1.0 - rate) * jnp.log1p(-rate)
            total += 0.5 * self.length_scale**2 * jnp.sum(weights**2) / (1.0 - rate) - weights.shape[0] * entropy
        return total / n_rows


def heteroscedastic_nll(outputs: "Array", target: "Array") -> "Array":
    r"""Gaussian negative log-likelihood of outputs :math:`(f, \log \sigma^2)`, up to a constant.

    .. math:: \tfrac12 \log \sigma^2 + \frac{(y - f)^2}{2\sigma^2}
    """
    import jax.numpy as jnp

    log_variance = jnp.clip(outputs[:, 1], *LOG_VARIANCE_BOUNDS)
    return 0.5 * (log_variance + (target - outputs[:, 0]) ** 2 * jnp.exp(-log_variance))
