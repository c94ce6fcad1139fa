"""Training on more rows than fit into memory: fixed logical shards, whose weights are averaged after every round.

The training rows are divided into a few logical shards by their content. A pass is divided into rounds. In a round
every shard trains from the common weights on its next pieces, in random order; then weights, averaged weights and
moments of Adam are averaged over the shards, in the order of the shards. How many threads or machines train the shards,
and which of them trains which, does not matter: the result has the same bits.

`train_shard` is a pure function of picklable arguments. A map-like function (`Runner`) calls it for all shards.
"""

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.device import DISK_CACHE, MARGIN, check_not_forked, compiled, with_leaves
from usnrt.nn.encoding import PiecewiseLinear, encode
from usnrt.nn.mlp import Params, to_numpy
from usnrt.nn.stored import CODEC
from usnrt.nn.train import History, Training, adam_update, start_state
from usnrt.utils.checkpoint import NO_CHECKPOINT, Checkpoint
from usnrt.utils.resumable import Resumable
from usnrt.utils.types import Rows

_PROGRAM_LOCK = threading.Lock()


class EncodedRows(NamedTuple):
    """Rows that a network is trained on.

    Attributes
    ----------
    inputs : ndarray of shape (n, n_inputs), float32
    target, weight : ndarray of shape (n,), float32
    """

    inputs: NDArray[np.float32]
    target: NDArray[np.float32]
    weight: NDArray[np.float32]


class ShardRows(Protocol):
    """The rows of a shard, in an order that depends on their content only."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def read(self, start: int, stop: int) -> EncodedRows:
        """Some consecutive rows."""


@dataclass(frozen=True)
class RoundPlan:
    """How a network is trained on shards.

    Attributes
    ----------
    network : hashable callable
        See `usnrt.nn.train.train`.
    loss : callable
    encoding : PiecewiseLinear or None
        Applied to each batch.
    how : Training
        Step size, batch size, weight decay and averaging; the step size falls to 0 over all passes.
    n_passes, n_rounds : int
        Passes over the rows, and rounds per pass.
    piece_rows, pieces_per_round : int
        Rows of a piece, which are read together, and the largest number of pieces of a shard in a round.
    seed : int
    """

    network: Any
    loss: Callable[[Any, Any], Any]
    encoding: PiecewiseLinear | None
    how: Training
    n_passes: int
    n_rounds: int
    piece_rows: int
    pieces_per_round: int
    seed: int

    @property
    def window_rows(self) -> int:
        """The largest number of rows of a shard in a round."""
        return self.piece_rows * self.pieces_per_round


def rounds_per_pass(n_rows: Sequence[int], piece_rows: int, pieces_per_round: int) -> int:
    """Rounds per pass, so that no shard has more than ``pieces_per_round`` pieces in a round.

    Examples
    --------
    >>> from usnrt.nn.rounds import rounds_per_pass
    >>> rounds_per_pass([1000, 1100], piece_rows=100, pieces_per_round=5)
    3
    """
    n_pieces = max(-(-n // piece_rows) for n in n_rows)
    return max(1, -(-n_pieces // pieces_per_round))


@dataclass(frozen=True)
class ShardTask:
    """One shard of one round.

    Attributes
    ----------
    plan : RoundPlan
    state : pytree of ndarray
        Common state at the start of the round: weights, state of Adam, averaged weights.
    position : int
        Number of the round, counted over all passes.
    number : int
        Number of the shard.
    """

    plan: RoundPlan
    state: Any = field(repr=False)
    position: int
    number: int


class ShardResult(NamedTuple):
    """State after a round, number of rows that it trained on, and their mean loss."""

    state: Any
    n_rows: int
    loss: float


#: ``runner(task, items)`` returns the results of the task for all items, in the order of the items.
Runner = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


def train_rounds(
    plan: RoundPlan,
    shards: Sequence[ShardRows],
    params: Params,
    validation_loss: Callable[[Params], float],
    runner: Runner,
    on_round: Callable[[int, float, float], None] | None = None,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> tuple[Params, History]:
    """Train a network on shards, and keep the averaged weights with the smallest validation loss.

    Parameters
    ----------
    plan : RoundPlan
    shards : sequence of ShardRows
    params : pytree
        Initial weights.
    validation_loss : callable
        Loss of weights on rows that no shard contains.
    runner : callable
        Runs the shards of a round, in threads or on the machines of a cluster; the items are pairs of `ShardTask` and
        shard.
    on_round : callable, default=None
        Called with the number of the round, training loss and validation loss; may raise to stop.
    checkpoint : Checkpoint, default=NO_CHECKPOINT
        Where the state between two rounds and the result are stored, under the key "rounds".

    Returns
    -------
    params : pytree of ndarray
    history : History
        One entry per round; ``best_epoch`` is the round whose weights were kept.
    """
    # all random numbers come from the seed of the plan
    with Resumable(checkpoint, "rounds", np.random.default_rng(0), CODEC) as entry:
        if entry.result is None:
            entry.finish(_train_rounds(plan, shards, params, validation_loss, runner, on_round, entry))
        result: tuple[Params, History] = entry.result
    return result


def _train_rounds(
    plan: RoundPlan,
    shards: Sequence[ShardRows],
    params: Params,
    validation_loss: Callable[[Params], float],
    runner: Runner,
    on_round: Callable[[int, float, float], None] | None,
    entry: Resumable,
) -> tuple[Params, History]:
    import jax

    state = start_state(params)
    first, history, best, best_loss = 0, History(), params, np.inf
    if entry.state is not None:
        state, best, best_loss = with_leaves(state, entry.state["state"]), entry.state["best"], entry.state["best_loss"]
        first, history = entry.state["position"], entry.state["history"]
    state = on_host(state)
    for position in range(first, plan.n_passes * plan.n_rounds):
        tasks = [(ShardTask(plan, state, position, number), shard) for number, shard in enumerate(shards)]
        results = [result for result in runner(run_item, tasks) if result.n_rows]
        n_rows = [result.n_rows for result in results]
        train_loss = float(np.average([result.loss for result in results], weights=n_rows))
        state = averaged_state([result.state for result in results], n_rows)
        candidate = state[2] if plan.how.average > 0 else state[0]
        valid_loss = validation_loss(candidate)
        if not (np.isfinite(train_loss) and np.isfinite(valid_loss)):
            history.diverged = True
            break
        history.train_loss.append(train_loss)
        history.valid_loss.append(valid_loss)
        if valid_loss < best_loss:
            best, best_loss, history.best_epoch = candidate, valid_loss, position
        if entry.is_active:
            kept = {"state": jax.tree.leaves(state), "best": best, "best_loss": best_loss, "position": position + 1}
            entry.keep({**kept, "history": deepcopy(history)})
        if on_round is not None:
            on_round(position, train_loss, valid_loss)
    return to_numpy(best), history


def run_item(item: tuple[ShardTask, ShardRows]) -> ShardResult:
    """`train_shard` of a pair; runners are called with it."""
    return train_shard(*item)


def pieces_of(plan: RoundPlan, n_rows: int, position: int, number: int) -> NDArray[np.int64]:
    """The pieces of a shard in a round: its share of a random order that each pass draws anew.

    Parameters
    ----------
    plan : RoundPlan
    n_rows : int
        Of the shard.
    position, number : int
        Of the round and of the shard.

    Returns
    -------
    ndarray of int
        Piece k holds the rows from ``k * piece_rows`` on.
    """
    n_pass, n_round = divmod(position, plan.n_rounds)
    n_pieces = -(-n_rows // plan.piece_rows)
    order = _generator(plan.seed, n_pass, 0, number).permutation(n_pieces)
    return order[n_round * n_pieces // plan.n_rounds : (n_round + 1) * n_pieces // plan.n_rounds]


def train_shard(task: ShardTask, shard: ShardRows) -> ShardResult:
    """Train on the rows of a shard in one round: a pure function of the task and the rows.

    Parameters
    ----------
    task : ShardTask
    shard : ShardRows

    Returns
    -------
    ShardResult
        With the initial state if the shard has no rows in this round.
    """
    plan = task.plan
    chosen = pieces_of(plan, shard.n_rows, task.position, task.number)
    if len(chosen) == 0:
        return ShardResult(task.state, 0, 0.0)
    window = _read_window(plan, shard, chosen)
    n_pass, n_round = divmod(task.position, plan.n_rounds)
    rng = _generator(plan.seed, n_pass, 1 + n_round, task.number)
    n_rows = len(window.target)
    order: Rows = rng.permutation(n_rows)
    with DISK_CACHE:  # on a worker of a cluster no fit has entered it
        state, loss = _run_program(plan, task, window, order, int(rng.integers(2**31)))
    return ShardResult(on_host(state), n_rows, float(loss))


def _read_window(plan: RoundPlan, shard: ShardRows, chosen: NDArray[np.int64]) -> EncodedRows:
    size = plan.piece_rows
    parts = [shard.read(k * size, min((k + 1) * size, shard.n_rows)) for k in chosen.tolist()]
    return EncodedRows(*(np.concatenate(columns) for columns in zip(*parts)))


def _run_program(plan: RoundPlan, task: ShardTask, window: EncodedRows, order: Rows, seed: int) -> tuple[Any, Any]:
    import jax

    check_not_forked()
    DISK_CACHE.use()
    how, n_inputs = plan.how, window.inputs.shape[1]
    with _PROGRAM_LOCK:
        program = _program(plan.network, plan.loss, how.batch_size, how.schedule, how.average > 0, n_inputs)
    capacity = plan.window_rows + MARGIN
    inputs, columns = np.zeros((capacity, n_inputs), np.float32), np.zeros((2, capacity), np.float32)
    # Shuffled here, once, so that the program reads its batches one after the other.
    n_rows = len(order)
    np.take(window.inputs, order, axis=0, out=inputs[:n_rows])
    columns[0, :n_rows], columns[1, :n_rows] = window.target[order], window.weight[order]
    result: tuple[Any, Any] = program(
        jax.device_put(task.state), inputs, None if plan.encoding is None else plan.encoding.constants, *columns,
        n_rows, -(-n_rows // how.batch_size), np.float32(task.position), np.float32(plan.n_passes * plan.n_rounds),
        np.float32(how.learning_rate), np.float32(how.weight_decay), np.float32(how.average), seed,
    )  # fmt: skip
    return result


@functools.cache
def _program(
    network: Any, loss: Any, batch_size: int, schedule: str, averaged: bool, n_inputs: int
) -> Callable[..., Any]:
    """The steps of one round, compiled once per combination of arguments."""
    import jax
    import jax.numpy as jnp

    update = adam_update(network, loss, None, averaged)

    def round_program(
        state: Any, inputs: Any, encoding: Any, target: Any, weight: Any, n_rows: Any, n_steps: Any,
        position: Any, n_positions: Any, learning_rate: Any, weight_decay: Any, average: Any, seed: Any,
    ) -> Any:  # fmt: skip
        def step(i: Any, carry: Any) -> Any:
            params, optimiser_state, mean_params, total = carry
            first = i * batch_size
            x, y, w = (jax.lax.dynamic_slice_in_dim(values, first, batch_size) for values in (inputs, target, weight))
            counts = first + jnp.arange(batch_size) < n_rows
            done = (position + i / n_steps) / n_positions
            rate = learning_rate * (0.5 * (1.0 + jnp.cos(jnp.pi * done)) if schedule == "cosine" else 1.0)
            *state, value = update(
                (params, optimiser_state, mean_params), x if encoding is None else encode(jnp, x, *encoding), y,
                w * counts / jnp.sum(counts), jax.random.fold_in(jax.random.key(seed), i), n_rows,
                rate, weight_decay, average, position * n_steps + i,
            )  # fmt: skip
            return (*state, total + value * jnp.sum(counts))

        *state, total = jax.lax.fori_loop(0, n_steps, step, (*state, 0.0))
        return tuple(state), total / n_rows

    return compiled(round_program)


def averaged_state(states: Sequence[Any], n_rows: Sequence[int]) -> Any:
    """Mean of the states of several shards, weighted by their rows and added up in the order of the shards.

    Counters, which are integers, become their maximum.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.rounds import averaged_state
    >>> averaged_state([np.array([0.0, 2.0]), np.array([4.0, 2.0])], [30, 10])
    array([1., 2.])
    """
    import jax

    total = float(sum(n_rows))

    def mean(*leaves: Any) -> Any:
        if np.issubdtype(np.asarray(leaves[0]).dtype, np.integer):
            return np.max(leaves, axis=0)
        result = np.zeros(np.shape(leaves[0]))
        for leaf, n in zip(leaves, n_rows):
            result += np.asarray(leaf, dtype=np.float64) * (n / total)
        return result.astype(leaves[0].dtype)

    return jax.tree.map(mean, *states)


def on_host(state: Any) -> Any:
    """A pytree of numpy arrays."""
    import jax

    return jax.tree.map(np.asarray, state)


def _generator(*key: int) -> np.random.Generator:
    seed, *place = key
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(place)))
