"""Networks that drop units at random: with one fixed rate, or with learned ones (concrete dropout)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from usnrt.nn.mlp import MLP, Params

# Learned rates stay away from 0 and 1, where their logarithms and 1 / (1 - rate) explode.
RATE_BOUNDS = (1e-3, 0.9)
# Bounds of a log variance: float32 has no exponential beyond about 88, and no data set a noise beyond these.
LOG_VARIANCE_BOUNDS = (-16.0, 16.0)


@dataclass(frozen=True)
class DropoutMLP:
    """A ReLU network that drops each hidden unit with one fixed probability, and scales up those that stay.

    Parameters
    ----------
    sizes : tuple of int
        Number of inputs, of units in each hidden layer, and of outputs.
    rate : float
        Probability to drop a unit.
    """

    sizes: tuple[int, ...]
    rate: float

    def init(self, rng: np.random.Generator) -> Params:
        """Weights as of a network without dropout."""
        return MLP(self.sizes).init(rng)

    def __call__(self, params: Params, x: Any, key: Any = None) -> Any:
        """Outputs of shape (batch, n_outputs); without a key no unit is dropped."""
        import jax
        import jax.numpy as jnp

        # 16 random bits decide on a unit; drawing whole floats would take longer than the products.
        threshold = round(self.rate * 2**16)
        for layer, (weights, bias) in enumerate(params[:-1]):
            x = jax.nn.relu(x @ weights + bias)
            if key is not None:
                bits = jax.random.bits(jax.random.fold_in(key, layer), x.shape, "uint16")
                x = jnp.where(bits >= threshold, x / (1.0 - self.rate), 0.0)
        weights, bias = params[-1]
        return x @ weights + bias

    def draw_masks(self, params: Params, n: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Factors of the units that enter each layer, for ``n`` passes: 0 or ``1 / (1 - rate)``, inputs 1.

        Returns
        -------
        list of ndarray of shape (n, n_units), float32
            One a layer.
        """
        masks = [np.ones((n, self.sizes[0]), dtype=np.float32)]
        for units in self.sizes[1:-1]:
            kept = rng.random((n, units)) >= self.rate
            masks.append((kept / (1.0 - self.rate)).astype(np.float32))
        return masks


@dataclass(frozen=True)
class ConcreteDropoutMLP:
    """A ReLU network that learns with what probability the units entering each layer are dropped.

    Dropping is relaxed to a smooth function of the rate (the concrete distribution), so that the rate has a gradient.
    Parameters are a (weights, bias, logit of the rate) triple a layer.

    Parameters
    ----------
    sizes : tuple of int
        Number of inputs, of units in each hidden layer, and of outputs.
    first_rate : float
        Rates before training.
    temperature : float
        Of the concrete distribution; near 0 units are dropped nearly whole or nearly not.
    """

    sizes: tuple[int, ...]
    first_rate: float = 0.1
    temperature: float = 0.1

    def init(self, rng: np.random.Generator) -> Any:
        """Weights as of a network without dropout, and the first rates."""
        logit = np.float32(np.log(self.first_rate) - np.log1p(-self.first_rate))
        return tuple((weights, bias, logit) for weights, bias in MLP(self.sizes).init(rng))

    def __call__(self, params: Any, x: Any, key: Any = None) -> Any:
        """Outputs of shape (batch, n_outputs); without a key one fixed draw of the random numbers is used."""
        import jax

        key = jax.random.key(0) if key is None else key
        for layer, (weights, bias, logit) in enumerate(params):
            uniform = jax.random.uniform(jax.random.fold_in(key, layer), x.shape, minval=1e-6, maxval=1.0 - 1e-6)
            x = (x * concrete_mask(logit, uniform, self.temperature)) @ weights + bias
            if layer < len(params) - 1:
                x = jax.nn.relu(x)
        return x

    def draw_masks(self, params: Any, n: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Factors of the units that enter each layer, for ``n`` passes, as in training.

        Returns
        -------
        list of ndarray of shape (n, n_units), float32
            One a layer; those next to 0 are 0.
        """
        masks = []
        for units, (_, _, logit) in zip(self.sizes[:-1], params):
            uniform = rng.uniform(1e-6, 1.0 - 1e-6, (n, units))
            rate = 1.0 / (1.0 + np.exp(-float(logit)))
            rate = float(np.clip(rate, *RATE_BOUNDS))
            score = (np.log(rate) - np.log1p(-rate) + np.log(uniform) - np.log1p(-uniform)) / self.temperature
            kept = 1.0 / (1.0 + np.exp(np.clip(score, -50.0, 50.0)))
            masks.append(np.where(kept < 1e-4, 0.0, kept / (1.0 - rate)).astype(np.float32))
        return masks


def rate_of(logit: Any) -> Any:
    """The dropout rate of a logit, within its bounds."""
    import jax
    import jax.numpy as jnp

    return jnp.clip(jax.nn.sigmoid(logit), *RATE_BOUNDS)


def concrete_mask(logit: Any, uniform: Any, temperature: float) -> Any:
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
    score = jnp.log(rate) - jnp.log1p(-rate) + jnp.log(uniform) - jnp.log1p(-uniform)
    return jax.nn.sigmoid(-score / temperature) / (1.0 - rate)


@dataclass(frozen=True)
class ConcretePenalty:
    r"""The prior's part of the objective, divided by the number of rows (Gal et al. 2017, equation 3).

    .. math::

        \frac1N \sum_{\text{layers}} \frac{l^2}{2} \frac{\lVert W \rVert^2}{1 - p} - K H(p), \qquad
        H(p) = -p \log p - (1 - p) \log(1 - p)

    with :math:`K` units entering a layer. The weights here are those before the division by :math:`1 - p`.

    Parameters
    ----------
    length_scale : float
        :math:`l` of the prior: a larger one means a smoother function.
    """

    length_scale: float = 1e-2

    def __call__(self, params: Any, n_rows: Any) -> Any:
        """One number."""
        import jax.numpy as jnp

        total = 0.0
        for weights, _, logit in params:
            rate = rate_of(logit)
            entropy = -rate * jnp.log(rate) - (1.0 - rate) * jnp.log1p(-rate)
            total += 0.5 * self.length_scale**2 * jnp.sum(weights**2) / (1.0 - rate) - weights.shape[0] * entropy
        return total / n_rows


def heteroscedastic_nll(outputs: Any, target: Any) -> Any:
    r"""Gaussian negative log-likelihood of outputs :math:`(f, \log \sigma^2)`, up to a constant.

    .. math:: \tfrac12 \log \sigma^2 + \frac{(y - f)^2}{2\sigma^2}
    """
    import jax.numpy as jnp

    log_variance = jnp.clip(outputs[:, 1], *LOG_VARIANCE_BOUNDS)
    return 0.5 * (log_variance + (target - outputs[:, 0]) ** 2 * jnp.exp(-log_variance))
