"""Quantile networks in jax, as the kernels of `usnrt.nn._steps` must compute them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from usnrt.nn.encoding import encode
from usnrt.nn.quantiles import LEVELS, MEDIAN, POSITIONS, SCALE_LIMIT, SHARES, STRETCH_LIMIT


def outputs_of(params, x):
    """Outputs of a network whose hidden layers have the algebraic activation."""
    for weights, bias in params[:-1]:
        z = x @ weights + bias
        x = 0.5 * z * (1.0 + z / jnp.sqrt(4.0 + z * z))
    return x @ params[-1][0] + params[-1][1]


def pinball(outputs, target):
    """Weighted sum of the pinball losses of all quantiles of each row."""
    scale = jnp.exp(jnp.clip(outputs[:, 1:2], -SCALE_LIMIT, SCALE_LIMIT))
    steps = scale * np.diff(POSITIONS) * jnp.exp(jnp.clip(outputs[:, 2:], -STRETCH_LIMIT, STRETCH_LIMIT))
    median = scale * outputs[:, :1]
    above = median + jnp.cumsum(steps[:, MEDIAN:], axis=1)
    below = median - jnp.cumsum(steps[:, :MEDIAN][:, ::-1], axis=1)[:, ::-1]
    distance = target[:, None] - jnp.concatenate([below, median, above], axis=1)
    return jnp.sum(SHARES * jnp.maximum(LEVELS * distance, (LEVELS - 1.0) * distance), axis=1)


def steps_of_adamw(encoding, params, inputs, target, weight, batches, training, n_total, components=None):
    """Weights and averaged weights after a step for each batch, and the mean loss of all rows before their step."""
    x = inputs if encoding is None else encode(np, inputs, *encoding.constants)
    adam, averaged, total = optax.scale_by_adam(), params, 0.0
    state = adam.init(params)

    @jax.jit
    def loss_of(params, x, target, share):
        return jnp.sum(pinball(outputs_of(params, x), target) * share)

    def turned(layers, matrix):
        (weights, bias), *others = layers
        return ((matrix @ weights, bias), *others)

    for step, rows in enumerate(batches):
        value, gradient = jax.value_and_grad(loss_of)(params, x[rows], target[rows], weight[rows] / weight[rows].sum())
        gradient = gradient if components is None else turned(gradient, components.T)
        update, state = adam.update(gradient, state)
        update = update if components is None else turned(update, components)
        rate = training.learning_rate * (
            0.5 * (1 + np.cos(np.pi * step / n_total)) if training.schedule == "cosine" else 1
        )
        params = jax.tree.map(lambda p, u, rate=rate: p - rate * (u + training.weight_decay * p), params, update)
        keep = min(training.average, (1 + step) / (10 + step))
        averaged = jax.tree.map(lambda a, p, keep=keep: keep * a + (1 - keep) * p, averaged, params)
        total += float(value) * len(rows)
    return params, averaged, total / sum(map(len, batches))
