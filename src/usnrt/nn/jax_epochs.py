"""Epochs of training in jax: a compiled loop over mini-batches, called once per epoch from Python.

One program trains every node of a tree. The whole table is on the device once; the rows of a node are row numbers,
padded to the length of the table, and their number is an argument. Shapes do not depend on a node, so a fit compiles
one program per pair of network and loss.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.device import DeviceTable, compiled, with_leaves
from usnrt.nn.encoding import encode
from usnrt.nn.mlp import Params, to_numpy
from usnrt.nn.train import Outcome, Training
from usnrt.utils.types import Rows

# Rows per step of the validation loss.
VALID_CHUNK = 512
# Threads that need the same program at the same time must share it: `functools.cache` alone may build it twice.
_PROGRAM_LOCK = threading.Lock()


class JaxEpochs:
    """Epochs of training a network, for `usnrt.nn.train.train`.

    Parameters
    ----------
    network : hashable callable
        ``network(params, x, key)`` returns outputs of shape (batch, n_outputs); see `MLP`.
    loss : callable
        ``loss(outputs, target)`` returns one value per row; a module-level function or hashable object, so that the
        compiled program is cached.
    table : DeviceTable
        The network inputs of all rows, on the device.
    target, weight : ndarray of shape (n_table,)
        Of all rows of the table; only those of training and validation rows are used. ``weight=None`` for equal
        weights.
    parts : (ndarray of int, ndarray of int)
        Training rows and validation rows; without the latter, the training rows take their place.
    training : Training
    penalty : callable, default=None
        ``penalty(params, n_rows)`` is added to the training loss; a module-level function or hashable object.
    """

    def __init__(
        self,
        network: Any,
        loss: Callable[[Any, Any], Any],
        table: DeviceTable,
        target: NDArray[np.floating],
        weight: NDArray[np.floating] | None,
        parts: tuple[Rows, Rows],
        training: Training,
        penalty: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        with _PROGRAM_LOCK:
            self._program = _program(
                network, loss, penalty, training.batch_size, training.schedule, training.average > 0, table.n_inputs
            )
        train_rows, valid_rows = parts
        valid_rows = valid_rows if len(valid_rows) else train_rows
        scaled = np.ones(table.n_rows) if weight is None else weight / weight[train_rows].mean()
        self._columns = table.inputs, table.encoding, table.column(target), table.column(scaled)
        self._valid = table.rows(valid_rows), len(valid_rows)
        self.training, self._table, self._train_rows = training, table, train_rows

    def start(self, params: Params) -> Any:
        """Weights, state of the optimiser, and averaged weights, on the device."""
        import jax

        # Zeros of numpy: each shape of a zero that jax makes is a program to compile.
        shapes = jax.eval_shape(_adamw(0.0, 0.0).init, params)
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
        return jax.device_put((params, zeros, params))

    def run(self, state: Any, epoch: int, key: int, rng: np.random.Generator) -> Outcome:
        """See `usnrt.nn.train.Epochs`."""
        own, n_rows = self.training, len(self._train_rows)
        is_start = epoch < 0
        n_steps = -(-n_rows // own.batch_size)
        n_checks = n_steps if own.validations is None else min(own.validations, n_steps)
        state, candidate, *losses = self._program(
            state,
            *self._columns,
            self._valid[0] if is_start else self._table.rows(rng.permutation(self._train_rows)),
            n_rows,
            *self._valid,
            0 if is_start else n_steps,
            1 if is_start else n_checks,
            max(epoch, 0),
            own.max_epochs,
            np.float32(own.learning_rate),
            np.float32(own.weight_decay),
            np.float32(own.average),
            key,
        )
        # Waits for the device, so that Ctrl-C takes effect between epochs.
        return Outcome(state, candidate, *map(float, losses))

    def params(self, candidate: Any) -> Params:
        """See `usnrt.nn.train.Epochs`."""
        return to_numpy(candidate)

    def saved(self, state: Any) -> list[Any]:
        """See `usnrt.nn.train.Epochs`."""
        import jax

        return [np.asarray(leaf) for leaf in jax.tree.leaves(state)]

    def restored(self, state: Any, saved: list[Any]) -> Any:
        """See `usnrt.nn.train.Epochs`."""
        return with_leaves(state, saved)


def _adamw(rate: Any, weight_decay: Any) -> Any:
    """AdamW, whose step size and decay may be arguments of a compiled program."""
    import optax

    return optax.chain(
        optax.scale_by_adam(), optax.add_decayed_weights(weight_decay), optax.scale_by_learning_rate(rate)
    )


def _adam_update(network: Any, loss: Any, penalty: Any, averaged: bool) -> Callable[..., Any]:
    """A function of state and batch that takes one step of Adam; it returns the new state and the loss of the batch."""
    import jax
    import jax.numpy as jnp
    import optax

    def batch_loss(params: Any, x: Any, target: Any, weight: Any, key: Any, n_rows: Any) -> Any:
        values = loss(network(params, x, key), target) * weight
        value = jnp.sum(values)
        return value if penalty is None else value + penalty(params, n_rows)

    def update(
        state: Any, x: Any, target: Any, share: Any, key: Any, n_rows: Any,
        rate: Any, weight_decay: Any, average: Any, n_done: Any,
    ) -> Any:  # fmt: skip
        params, optimiser_state, mean_params = state
        value, gradient = jax.value_and_grad(batch_loss)(params, x, target, share, key, n_rows)
        updates, optimiser_state = _adamw(rate, weight_decay).update(gradient, optimiser_state, params)
        params = optax.apply_updates(params, updates)
        if averaged:
            # Early in training the decay is smaller, so that the initial weights are forgotten faster. Not
            # `optax.incremental_update`: it subtracts the share from 1 a second time, which moves bits.
            keep = jnp.minimum(average, (1.0 + n_done) / (10.0 + n_done))
            mean_params = jax.tree.map(lambda m, p: keep * m + (1.0 - keep) * p, mean_params, params)
        return params, optimiser_state, mean_params, value

    return update


@functools.cache
def _program(
    network: Any, loss: Any, penalty: Any, batch_size: int, schedule: str, averaged: bool, n_inputs: int
) -> Callable[..., Any]:
    """One epoch of training with its validation, compiled once per combination of arguments."""
    import jax
    import jax.numpy as jnp

    update = _adam_update(network, loss, penalty, averaged)

    def epoch_program(
        state: Any, inputs: Any, encoding: Any, target: Any, weight: Any, rows: Any, n_rows: Any,
        valid: Any, n_valid: Any, n_steps: Any, n_checks: Any, epoch: Any, max_epochs: Any,
        learning_rate: Any, weight_decay: Any, average: Any, seed: Any,
    ) -> Any:  # fmt: skip
        def read(chosen: Any) -> Any:
            return inputs[chosen] if encoding is None else encode(jnp, inputs[chosen], *encoding)

        def step(i: Any, carry: Any) -> Any:
            params, optimiser_state, mean_params, total = carry
            position = i * batch_size + jnp.arange(batch_size)
            chosen = jax.lax.dynamic_slice(rows, (i * batch_size,), (batch_size,))
            counts = position < n_rows
            share = weight[chosen] * counts / jnp.sum(counts)
            done = (epoch * n_steps + i) / (max_epochs * n_steps)
            # By hand: schedules of optax need the number of steps at compile time, here it differs between nodes.
            rate = learning_rate * (0.5 * (1.0 + jnp.cos(jnp.pi * done)) if schedule == "cosine" else 1.0)
            key = jax.random.fold_in(jax.random.key(seed), epoch * n_steps + i)
            params, optimiser_state, mean_params, value = update(
                (params, optimiser_state, mean_params), read(chosen), target[chosen], share, key, n_rows,
                rate, weight_decay, average, epoch * n_steps + i,
            )  # fmt: skip
            return params, optimiser_state, mean_params, total + value * jnp.sum(counts)

        n_chunks = (n_valid + VALID_CHUNK - 1) // VALID_CHUNK

        def validation_loss(params: Any) -> Any:
            def add_chunk(i: Any, sums: Any) -> Any:
                position = i * VALID_CHUNK + jnp.arange(VALID_CHUNK)
                chosen = jax.lax.dynamic_slice(valid, (i * VALID_CHUNK,), (VALID_CHUNK,))
                weights = weight[chosen] * (position < n_valid)
                values = loss(network(params, read(chosen), None), target[chosen])
                return sums[0] + jnp.sum(values * weights), sums[1] + jnp.sum(weights)

            value, weights = jax.lax.fori_loop(0, n_chunks, add_chunk, (0.0, 0.0))
            return value / weights

        def check(k: Any, carry: Any) -> Any:
            inner, best, best_loss, sum_of_losses = carry
            inner = jax.lax.fori_loop(k * n_steps // n_checks, (k + 1) * n_steps // n_checks, step, inner)
            candidate = inner[2] if averaged else inner[0]
            value = validation_loss(candidate)
            best = jax.tree.map(lambda old, new: jnp.where(value < best_loss, new, old), best, candidate)
            return inner, best, jnp.minimum(value, best_loss), sum_of_losses + value

        start = ((*state, 0.0), state[0], jnp.inf, 0.0)
        (*state, total), best, best_loss, sum_of_losses = jax.lax.fori_loop(0, n_checks, check, start)
        return tuple(state), best, total / n_rows, sum_of_losses / n_checks, best_loss

    return compiled(epoch_program)
