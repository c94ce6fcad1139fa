"""Training: a compiled loop over mini-batches, called once per epoch from Python.

One program trains every node of a tree. The whole table is on the device once; the rows of a node are row numbers,
padded to the length of the table, and their number is an argument. Shapes do not depend on a node, so a fit compiles
one program per pair of network and loss. The loop over epochs is in Python, where progress, callbacks, early stopping
and Ctrl-C are simple.
"""

import functools
import threading
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.device import DeviceTable, compiled, with_leaves
from usnrt.nn.encoding import encode
from usnrt.nn.mlp import Params, to_numpy
from usnrt.nn.stored import CODEC
from usnrt.utils.checkpoint import NO_CHECKPOINT, Checkpoint
from usnrt.utils.resumable import Resumable

# Rows per step of the validation loss.
VALID_CHUNK = 512
# Principal components of the inputs are those of at most so many rows, and for at most so many encoded inputs: beyond
# that a step would take twice the time.
COMPONENT_ROWS, MAX_COMPONENTS = 8192, 512
# Threads that need the same program at the same time must share it: `functools.cache` alone may build it twice.
_PROGRAM_LOCK = threading.Lock()


@dataclass(frozen=True)
class Training:
    """How a network is trained.

    Parameters
    ----------
    learning_rate : float
        Step size of Adam; the initial one if a schedule lowers it.
    batch_size : int
    max_epochs : int
    schedule : {"constant", "cosine"}
        ``cosine`` lowers the step size to 0 over ``max_epochs``.
    patience : int or None
        Stop when the validation loss has had no new minimum for this many epochs. None: the rule of the paper's code,
        which stops once the mean of the last 5 validation losses is above that of the 20 before.
    validations : int or None
        Number of validations per epoch, after each of which the weights are kept if they are the best so far; the
        validation loss of an epoch is the mean. None: after every batch.
    stop_margin : float
        With ``patience=None``: stop once the mean of the last 5 losses is less than this below that of the 20 before.
    weight_decay : float
        Decoupled (AdamW).
    average : float
        Decay per step of an exponential moving average of the weights; 0 for no averaging.
    along_components : bool
        Whether Adam scales the gradient of the first layer along the principal components of the inputs instead of the
        inputs: differences of nearly equal columns are then learnt as quickly as the columns. For up to 512 inputs.
    """

    learning_rate: float = 0.01
    batch_size: int = 64
    max_epochs: int = 1000
    schedule: str = "constant"
    patience: int | None = None
    validations: int | None = 1
    stop_margin: float = 0.0
    weight_decay: float = 0.0
    average: float = 0.0
    along_components: bool = False


@dataclass
class History:
    """History of one training: losses per epoch, and the epoch whose weights were kept.

    Attributes
    ----------
    train_loss, valid_loss : list of float
    best_epoch : int
        Counted from 0; -1 if the initial weights were the best.
    initial_loss : float
        Validation loss of the initial weights if these may be kept; otherwise infinite.
    diverged : bool
        Whether the loss became infinite or NaN; the last good weights were kept.
    """

    train_loss: list[float] = field(default_factory=list)
    valid_loss: list[float] = field(default_factory=list)
    best_epoch: int = -1
    diverged: bool = False
    initial_loss: float = np.inf


def train(
    network: Any,
    loss: Callable[[Any, Any], Any],
    params: Params,
    table: DeviceTable,
    target: NDArray[np.floating],
    weight: NDArray[np.floating] | None,
    train_rows: NDArray[np.intp],
    valid_rows: NDArray[np.intp],
    how: Training,
    rng: np.random.Generator,
    on_epoch: Callable[[int, float, float], None] | None = None,
    penalty: Callable[[Any, Any], Any] | None = None,
    keep_initial: bool = False,
    checkpoint: Checkpoint = NO_CHECKPOINT,
    stop: Callable[[Any, int], bool] | None = None,
) -> tuple[Params, History]:
    """Train a network and keep the weights with the smallest validation loss.

    Parameters
    ----------
    network : hashable callable
        ``network(params, x, key)`` returns outputs of shape (batch, n_outputs); see `MLP`.
    loss : callable
        ``loss(outputs, target)`` returns one value per row; a module-level function or hashable object, so that the
        compiled program is cached.
    params : pytree
        Initial weights.
    table : DeviceTable
        The network inputs of all rows, on the device.
    target, weight : ndarray of shape (n_table,)
        Of all rows of the table; only those of training and validation rows are used. ``weight=None`` for equal
        weights.
    train_rows, valid_rows : ndarray of int
        If ``valid_rows`` is empty, the training rows are used instead.
    how : Training
    rng : numpy.random.Generator
        Shuffles the training rows and seeds the network's random numbers.
    on_epoch : callable, default=None
        Called with epoch, training loss and validation loss; may raise to stop.
    penalty : callable, default=None
        ``penalty(params, n_rows)`` is added to the training loss; a module-level function or hashable object.
    keep_initial : bool, default=False
        Whether to keep the initial weights unless training improves on them.
    checkpoint : Checkpoint, default=NO_CHECKPOINT
        Where the state of the training and its result are stored, under the key "training".
    stop : callable, default=None
        ``stop(params, epoch)`` ends the training with the weights after an epoch if it returns True.

    Returns
    -------
    params : pytree of ndarray
    history : History
    """
    with Resumable(checkpoint, "training", rng, CODEC) as entry:
        if entry.result is None:
            epochs = _Epochs(network, loss, penalty, how, table, target, weight, train_rows, valid_rows)
            entry.finish(_train_epochs(epochs, params, entry, on_epoch, keep_initial, stop))
        result: tuple[Params, History] = entry.result
    return result


class _Epochs:
    """The epochs of a training: its program with all arguments that do not change; parameters as for `train`."""

    def __init__(
        self,
        network: Any,
        loss: Any,
        penalty: Any,
        how: Training,
        table: DeviceTable,
        target: NDArray[np.floating],
        weight: NDArray[np.floating] | None,
        train_rows: NDArray[np.intp],
        valid_rows: NDArray[np.intp],
    ) -> None:
        with _PROGRAM_LOCK:
            self._program = _program(
                network, loss, penalty, how.batch_size, how.schedule, how.average > 0, table.n_inputs
            )
        valid_rows = valid_rows if len(valid_rows) else train_rows
        scaled = np.ones(table.n_rows) if weight is None else weight / weight[train_rows].mean()
        self._columns = table.inputs, table.encoding, table.column(target), table.column(scaled)
        self._valid = table.rows(valid_rows), len(valid_rows)
        self.how, self._table, self._train_rows = how, table, train_rows
        self._components = _principal_components(table, train_rows) if how.along_components else None

    def run(self, state: Any, epoch: int, key: int, rng: np.random.Generator) -> tuple[Any, ...]:
        """New state, weights of the best validation, training loss, validation loss, and that of these weights.

        Epoch -1 has no steps: it validates the initial weights.
        """
        how, n_rows = self.how, len(self._train_rows)
        is_start = epoch < 0
        n_steps = -(-n_rows // how.batch_size)
        n_checks = n_steps if how.validations is None else min(how.validations, n_steps)
        state, candidate, *losses = self._program(
            state,
            *self._columns,
            self._valid[0] if is_start else self._table.rows(rng.permutation(self._train_rows)),
            n_rows,
            *self._valid,
            0 if is_start else n_steps,
            1 if is_start else n_checks,
            max(epoch, 0),
            how.max_epochs,
            np.float32(how.learning_rate),
            np.float32(how.weight_decay),
            np.float32(how.average),
            key,
            self._components,
        )
        # Waits for the device, so that Ctrl-C takes effect between epochs.
        return state, candidate, *map(float, losses)


def _train_epochs(
    epochs: _Epochs,
    params: Params,
    entry: Resumable,
    on_epoch: Callable[[int, float, float], None] | None,
    keep_initial: bool,
    stop: Callable[[Any, int], bool] | None,
) -> tuple[Params, History]:
    """The training itself, from its beginning or from the state of the entry."""
    import jax

    rng, state = entry.rng, start_state(params)
    if entry.state is None:
        key, first, history = int(rng.integers(2**31)), -1 if keep_initial else 0, History()
        best, best_loss = params, np.inf
    else:
        state = with_leaves(state, entry.state["state"])
        best, best_loss = entry.state["best"], entry.state["best_loss"]
        key, first, history = entry.state["key"], entry.state["epoch"], entry.state["history"]
    for epoch in range(first, epochs.how.max_epochs):
        if history.valid_loss and _should_stop(history, epochs.how):
            break
        state, candidate, train_loss, valid_loss, candidate_loss = epochs.run(state, epoch, key, rng)
        if not (np.isfinite(train_loss) and np.isfinite(valid_loss)):
            history.diverged = True
            break
        if epoch < 0:
            best_loss = history.initial_loss = valid_loss
            continue
        history.train_loss.append(train_loss)
        history.valid_loss.append(valid_loss)
        if candidate_loss < best_loss:
            best, best_loss, history.best_epoch = candidate, candidate_loss, epoch
        if stop is not None and stop(to_numpy(candidate), epoch):
            best, history.best_epoch = candidate, epoch
            break
        if entry.is_active:
            kept = {"state": jax.tree.leaves(state), "best": best, "best_loss": best_loss, "key": key}
            entry.keep({**kept, "epoch": epoch + 1, "history": deepcopy(history)})
        if on_epoch is not None:
            on_epoch(epoch, train_loss, valid_loss)
    return to_numpy(best), history


def validator(
    network: Any,
    loss: Callable[[Any, Any], Any],
    table: DeviceTable,
    target: NDArray[np.floating],
    weight: NDArray[np.floating],
    rows: NDArray[np.intp],
    how: Training,
) -> Callable[[Params], float]:
    """A function of weights that returns their loss on validation rows; it runs the program that `train` runs.

    Parameters are those of `train`; ``rows`` are the validation rows.
    """
    with _PROGRAM_LOCK:
        program = _program(network, loss, None, how.batch_size, how.schedule, how.average > 0, table.n_inputs)
    columns = table.column(target), table.column(weight / weight[rows].mean())
    valid, no_rate = table.rows(rows), np.float32(0.0)

    def validation_loss(params: Params) -> float:
        return float(program(
            start_state(params), table.inputs, table.encoding, *columns, valid, len(rows), valid, len(rows),
            0, 1, 0, 1, no_rate, no_rate, no_rate, 0, None,
        )[3])  # fmt: skip

    return validation_loss


def _should_stop(history: History, how: Training) -> bool:
    losses = history.valid_loss
    if how.patience is not None:
        return len(losses) - 1 - history.best_epoch >= how.patience
    return len(losses) >= 25 and float(np.mean(losses[-5:])) > float(np.mean(losses[-25:-5])) - how.stop_margin


def start_state(params: Params) -> Any:
    """Initial state on the device: weights, state of the optimiser, and averaged weights."""
    import jax

    # Zeros of numpy: each shape of a zero that jax makes is a program to compile.
    shapes = jax.eval_shape(_adamw(0.0, 0.0).init, params)
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    return jax.device_put((params, zeros, params))


def _adamw(rate: Any, weight_decay: Any, components: Any = None) -> Any:
    """AdamW, whose step size, decay and components may be arguments of a compiled program."""
    import optax

    adam = optax.scale_by_adam() if components is None else _adam_along(components)
    return optax.chain(adam, optax.add_decayed_weights(weight_decay), optax.scale_by_learning_rate(rate))


def _adam_along(components: Any) -> Any:
    """Adam whose gradient of the first layer is that along the components, the columns of an orthogonal matrix."""
    import optax

    adam = optax.scale_by_adam()

    def turned(updates: Any, matrix: Any) -> Any:
        (weights, *others), *layers = updates
        return ((matrix @ weights, *others), *layers)

    def update(gradient: Any, state: Any, params: Any = None) -> Any:
        updates, state = adam.update(turned(gradient, components.T), state, params)
        return turned(updates, components), state

    return optax.GradientTransformation(adam.init, update)


def _principal_components(table: DeviceTable, rows: NDArray[np.intp]) -> NDArray[np.float32] | None:
    """Principal components of the encoded inputs of some rows as columns; None if there are too many inputs."""
    inputs = np.asarray(table.inputs)[rows[:COMPONENT_ROWS]]
    encoded = inputs if table.encoding is None else encode(np, inputs, *map(np.asarray, table.encoding))
    if encoded.shape[1] > MAX_COMPONENTS:
        return None
    # inputs that are always 0, such as guides of a network without a memory, are left as they are
    used = np.flatnonzero(encoded.any(axis=0))
    components = np.eye(encoded.shape[1], dtype=np.float32)
    encoded = encoded[:, used].astype(np.float64)
    components[np.ix_(used, used)] = np.linalg.eigh(encoded.T @ encoded)[1]
    return components


def adam_update(network: Any, loss: Any, penalty: Any, averaged: bool) -> Callable[..., Any]:
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
        rate: Any, weight_decay: Any, average: Any, n_done: Any, components: Any = None,
    ) -> Any:  # fmt: skip
        params, optimiser_state, mean_params = state
        value, gradient = jax.value_and_grad(batch_loss)(params, x, target, share, key, n_rows)
        updates, optimiser_state = _adamw(rate, weight_decay, components).update(gradient, optimiser_state, params)
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

    update = adam_update(network, loss, penalty, averaged)

    def epoch_program(
        state: Any, inputs: Any, encoding: Any, target: Any, weight: Any, rows: Any, n_rows: Any,
        valid: Any, n_valid: Any, n_steps: Any, n_checks: Any, epoch: Any, max_epochs: Any,
        learning_rate: Any, weight_decay: Any, average: Any, seed: Any, components: Any,
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
                rate, weight_decay, average, epoch * n_steps + i, components,
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
