"""Learning a metric under which rows with similar targets are close (after ModernNCA, Ye et al. 2024).

A matrix maps the encoded inputs of a row to an embedding. The predictive distribution of a row is a weighted sample of
the targets of other rows, with weights softmax(-distance). The matrix minimises the CRPS of these distributions, each
row without itself.

Rows are compared within blocks of similar rows only, which the current metric forms anew every few steps: far rows have
no weight, and in a block of 512 similar rows nearly all of the weight of a row is found with a fraction of the work of
comparing it with thousands of random rows.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from usnrt.memory.cells import median_cells
from usnrt.nn.device import DeviceTable, compiled, with_leaves
from usnrt.nn.encoding import encode
from usnrt.utils.checkpoint import NO_CHECKPOINT, Checkpoint
from usnrt.utils.resumable import Resumable
from usnrt.utils.types import Floats, Rows

if TYPE_CHECKING:
    from jax import Array

# Squared distances are at least this: the square root has no derivative at 0.
MIN_SQUARE = 1e-6
# Numbers in the state of a training, besides that of the optimiser.
_KEPT = "best", "best_loss", "n_worse", "seed", "n_done"
# Logarithm of a weight that does not count.
NEVER = -1e30


@dataclass(frozen=True)
class MetricTraining:
    """How a metric is learnt.

    Attributes
    ----------
    n_dims : int
        Dimensions of the embedding.
    n_steps : int
    learning_rate : float
        Step size of Adam at the start; it falls to 0 along a cosine.
    dropout : float
        Share of the encoded inputs that a step ignores. Without it the metric memorises its training rows, and their
        predictions are much better than those of new rows.
    block_size, n_blocks : int
        Rows of a block, and blocks per step.
    refresh : int
        Steps between two partitions into blocks.
    check : int
        Steps between two validations, a multiple of ``refresh``.
    patience : int
        Training stops after this many validations without a smaller loss.
    n_thresholds : int
        Thresholds at which the CRPS is computed, quantiles of the target.
    """

    n_dims: int = 48
    n_steps: int = 600
    learning_rate: float = 0.025
    dropout: float = 0.1
    block_size: int = 512
    n_blocks: int = 2
    refresh: int = 50
    check: int = 100
    patience: int = 2
    n_thresholds: int = 24

    def within(self, max_epochs: int, n_rows: int) -> "MetricTraining":
        """The training with at most as many steps as this many passes over the rows have."""
        per_pass = -(-n_rows // (self.block_size * self.n_blocks))
        return replace(self, n_steps=min(self.n_steps, max_epochs * per_pass))


def learn_metric(
    table: DeviceTable,
    embed: Callable[[NDArray[np.float32], Rows], NDArray[np.float32]],
    y: Floats,
    weight: Floats,
    group: Rows | None,
    rows: Rows,
    validation_loss: Callable[[NDArray[np.float32]], float],
    n_encoded: int,
    how: MetricTraining,
    rng: np.random.Generator,
    on_check: Callable[[int, float], None],
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> NDArray[np.float32]:
    """Learn a metric from the training rows and keep the one with the smallest validation loss.

    Parameters
    ----------
    table : DeviceTable
    embed : callable
        ``embed(metric, rows)`` returns embedded rows of the table.
    y, weight : ndarray of shape (n,)
    group : ndarray of int of shape (n,) or None
        Rows of a group do not predict each other.
    rows : ndarray of int
        Training rows.
    validation_loss : callable
        Loss of a metric on validation rows.
    n_encoded : int
        Number of encoded inputs.
    how : MetricTraining
    rng : numpy.random.Generator
    on_check : callable
        Called with the number of steps done and the validation loss.
    checkpoint : Checkpoint, default=NO_CHECKPOINT
        Where the state of the training and the metric are stored, under the key "training".

    Returns
    -------
    ndarray of shape (n_encoded, n_dims), float32
    """
    with Resumable(checkpoint, "training", rng) as entry:
        if entry.result is None:
            steps = _Steps(table, embed, y, weight, group, rows, how)
            entry.finish(_learn(steps, validation_loss, n_encoded, entry, on_check))
        metric: NDArray[np.float32] = entry.result
    return metric


class _Steps:
    """The steps of a training: its program with all arguments that do not change; parameters as for `learn_metric`."""

    def __init__(
        self,
        table: DeviceTable,
        embed: Callable[[NDArray[np.float32], Rows], NDArray[np.float32]],
        y: Floats,
        weight: Floats,
        group: Rows | None,
        rows: Rows,
        how: MetricTraining,
    ) -> None:
        self.how, self._embed, self._rows = how, embed, rows
        own = np.arange(table.n_rows) if group is None else group
        of_rows = table.column(y), table.column(np.log(weight)), table.rows(own)
        self._columns = table.inputs, table.encoding, *of_rows
        self._thresholds = _thresholds(y[rows], how.n_thresholds)

    def run(self, state: Any, done: int, n_now: int, seed: np.uint32, rng: np.random.Generator) -> Any:
        """The state after the next steps, on blocks of rows that are similar by the current metric."""
        import jax

        how = self.how
        embedded = self._embed(np.asarray(state[0]), self._rows)
        blocks = _draw_blocks(embedded, self._rows, how.block_size, how.refresh * how.n_blocks, rng)
        return _program(how.dropout > 0)(
            state, *self._columns, jax.device_put(blocks.reshape(how.refresh, how.n_blocks, -1)), *self._thresholds,
            np.float32(how.learning_rate), np.float32(how.dropout), done, n_now, how.n_steps, seed,
        )  # fmt: skip


def _learn(
    steps: _Steps,
    validation_loss: Callable[[NDArray[np.float32]], float],
    n_encoded: int,
    entry: Resumable,
    on_check: Callable[[int, float], None],
) -> NDArray[np.float32]:
    """The training itself, from its beginning or from the state of the entry."""
    import jax

    rng, how = entry.rng, steps.how
    best: NDArray[np.float32]
    if entry.state is None:
        best = (rng.standard_normal((n_encoded, how.n_dims)) / np.sqrt(how.n_dims)).astype(np.float32)
        state = _initial_state(best)
        seed = np.uint32(rng.integers(2**32))
        best_loss, n_worse, first = np.inf, 0, 0
    else:
        best, best_loss, n_worse, seed, first = (entry.state[name] for name in _KEPT)
        state = with_leaves(_initial_state(best), entry.state["state"])
    for done in range(first, how.n_steps, how.refresh):
        if done > first:
            kept = dict(zip(_KEPT, (best, best_loss, n_worse, seed, done)))
            entry.keep({"state": jax.tree.leaves(state), **kept})
        n_now = min(how.refresh, how.n_steps - done)
        state = steps.run(state, done, n_now, seed, rng)
        if (done + n_now) % how.check and done + n_now < how.n_steps:
            continue
        metric = np.asarray(state[0])
        loss = validation_loss(metric)
        on_check(done + n_now, loss)
        if loss < best_loss:
            best, best_loss, n_worse = metric, loss, 0
        else:
            n_worse += 1
        if n_worse >= how.patience or not np.isfinite(metric).all():
            break
    return best


def _thresholds(y: Floats, number: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Thresholds, and the length of the interval around each: the CRPS is an integral over them."""
    at = np.unique(np.quantile(y, (np.arange(number) + 0.5) / number))
    ends = np.concatenate([[y.min()], (at[1:] + at[:-1]) / 2.0, [y.max()]])
    padding = number - len(at)
    return (
        np.pad(at, (0, padding), mode="edge").astype(np.float32),
        np.pad(np.diff(ends), (0, padding)).astype(np.float32),
    )


def _draw_blocks(
    embedded: NDArray[np.float32], rows: Rows, size: int, number: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Blocks of similar rows in random order, shape (number, size); -1 fills up short ones."""
    blocks: list[NDArray[np.int32]] = []
    while len(blocks) < number:
        cells = median_cells(embedded, size, rng)
        for cell in rng.permutation(len(cells)):
            block = np.full(size, -1, dtype=np.int32)
            block[: len(cells[cell])] = rows[cells[cell]]
            blocks.append(block)
    return np.stack(blocks[:number])


def _initial_state(metric: NDArray[np.float32]) -> Any:
    import jax
    import optax

    # as in `usnrt.nn.train.start_state`: nothing to compile
    shapes = jax.eval_shape(optax.scale_by_adam().init, metric)
    return jax.device_put((metric, jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)))


@functools.cache
def _program(has_dropout: bool) -> Callable[..., Any]:
    """Some steps of training, compiled once with and once without dropout."""
    import jax
    import jax.numpy as jnp
    import optax

    optimiser = optax.scale_by_adam()

    def block_loss(metric: "Array", x: Any, y: Any, log_weight: Any, own: Any, counts: Any, at: Any, gaps: Any) -> Any:
        """Sum of the CRPS of all rows of some blocks, divided by their weight."""
        embedded = x @ metric
        squares = jnp.sum(embedded * embedded, axis=2)
        products = jnp.einsum("bid,bjd->bij", embedded, embedded)
        distance = jnp.sqrt(jnp.maximum(squares[:, :, None] + squares[:, None] - 2.0 * products, MIN_SQUARE))
        logits = jnp.where(counts, log_weight, NEVER)[:, None, :] - distance
        logits = jnp.where(own[:, :, None] == own[:, None, :], NEVER, logits)
        below = (y[:, :, None] <= at).astype(jnp.float32)
        predicted = jnp.einsum("bij,bjk->bik", jax.nn.softmax(logits, axis=2), below)
        scores = jnp.sum(gaps * (predicted - below) ** 2, axis=2)
        weight = jnp.where(counts, jnp.exp(log_weight), 0.0)
        return jnp.sum(scores * weight) / jnp.sum(weight)

    def steps(
        state: Any, inputs: Any, encoding: Any, target: Any, log_weight: Any, own: Any, blocks: Any, at: Any, gaps: Any,
        learning_rate: Any, dropout: Any, done: Any, n_now: Any, n_steps: Any, seed: Any,
    ) -> Any:  # fmt: skip
        def step(i: Any, state: Any) -> Any:
            metric, optimiser_state = state
            rows = jnp.maximum(blocks[i], 0)
            x = inputs[rows.ravel()]
            x = x if encoding is None else encode(jnp, x, *encoding)
            if has_dropout:
                key = jax.random.fold_in(jax.random.key(seed), done + i)
                x = x * jax.random.bernoulli(key, 1.0 - dropout, (1, x.shape[1]))
            x = x.reshape(*rows.shape, -1)
            of_rows = target[rows], log_weight[rows], own[rows], blocks[i] >= 0
            gradient = jax.grad(block_loss)(metric, x, *of_rows, at, gaps)
            update, optimiser_state = optimiser.update(gradient, optimiser_state)
            rate = learning_rate * 0.5 * (1.0 + jnp.cos(jnp.pi * (done + i) / n_steps))
            return metric - rate * update, optimiser_state

        return jax.lax.fori_loop(0, n_now, step, state)

    return compiled(steps)
