"""Learning a metric under which rows with similar targets are close (after ModernNCA, Ye et al. 2024).

A matrix maps the encoded inputs of a row to an embedding. The predictive distribution of a row is a weighted sample of
the targets of other rows, with weights softmax(-distance). The matrix minimises the CRPS of these distributions, each
row without itself.

Rows are compared within blocks of similar rows only, which the current metric forms anew every few steps: far rows have
no weight, and in a block of 512 similar rows nearly all of the weight of a row is found with a fraction of the work of
comparing it with thousands of random rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.memory.cells import median_cells
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.mlp import MLP
from usnrt.nn.quantile_training import QuantileRows, first_layer, run_threads
from usnrt.utils.checkpoint import NO_CHECKPOINT, Checkpoint
from usnrt.utils.resumable import Resumable
from usnrt.utils.types import Floats, Rows

# Numbers in the state of a training, besides that of the optimiser.
_KEPT = "best", "best_loss", "n_worse", "seed", "n_done"


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


@dataclass(frozen=True)
class MetricRows:
    """Rows that a metric is learnt from.

    Attributes
    ----------
    encoding : PiecewiseLinear or None
    inputs : ndarray of shape (n, p), float32
    y, weight : ndarray of shape (n,)
    group : ndarray of int of shape (n,) or None
        Rows of a group do not predict each other.
    chosen : ndarray of int
        Training rows.
    """

    encoding: PiecewiseLinear | None
    inputs: NDArray[np.float32]
    y: Floats
    weight: Floats
    group: Rows | None
    chosen: Rows


def learn_metric(
    rows: MetricRows,
    embed: Callable[[NDArray[np.float32], Rows], NDArray[np.float32]],
    validation_loss: Callable[[NDArray[np.float32]], float],
    training: MetricTraining,
    rng: np.random.Generator,
    on_check: Callable[[int, float], None],
    checkpoint: Checkpoint = NO_CHECKPOINT,
    n_threads: int = 1,
) -> NDArray[np.float32]:
    """Learn a metric from the training rows and keep the one with the smallest validation loss.

    Parameters
    ----------
    rows : MetricRows
    embed : callable
        ``embed(metric, rows)`` returns embedded rows of the table.
    validation_loss : callable
        Loss of a metric on validation rows.
    training : MetricTraining
    rng : numpy.random.Generator
    on_check : callable
        Called with the number of steps done and the validation loss.
    checkpoint : Checkpoint, default=NO_CHECKPOINT
        Where the state of the training and the metric are stored, under the key "training".
    n_threads : int, default=1

    Returns
    -------
    ndarray of shape (n_encoded, n_dims), float32
    """
    with Resumable(checkpoint, "training", rng) as entry:
        if entry.result is None:
            entry.finish(_learn(_Steps(rows, embed, training, n_threads), validation_loss, entry, on_check))
        metric: NDArray[np.float32] = entry.result
    return metric


class _Steps:
    """The steps of a training; parameters as for `learn_metric`.

    Their state is a flat array: the metric, both moments of Adam, and a fourth line that is not used.
    """

    def __init__(
        self,
        rows: MetricRows,
        embed: Callable[[NDArray[np.float32], Rows], NDArray[np.float32]],
        training: MetricTraining,
        n_threads: int,
    ) -> None:
        self.training, self._embed, self._rows, self._n_threads = training, embed, rows, n_threads
        n = len(rows.y)
        self._table = QuantileRows.of(rows.encoding, rows.inputs, None, rows.y, np.ones(n), n_threads)
        self.shape = (rows.inputs.shape[1] if rows.encoding is None else rows.encoding.n_outputs, training.n_dims)
        self._net = first_layer(MLP(self.shape), rows.encoding)
        self._own = (np.arange(n) if rows.group is None else rows.group).astype(np.int64)
        self._log_weight = np.log(rows.weight).astype(np.float32)
        self._thresholds = _thresholds(rows.y[rows.chosen], training.n_thresholds)
        self._work = self._memory()

    def start(self, metric: NDArray[np.float32]) -> NDArray[np.float32]:
        """The state before the first step."""
        return np.concatenate([metric.ravel(), np.zeros(3 * metric.size, dtype=np.float32)])

    def metric(self, state: NDArray[np.float32]) -> NDArray[np.float32]:
        """A copy of the metric of a state."""
        return state[: self.shape[0] * self.shape[1]].reshape(self.shape).copy()

    def run(self, state: NDArray[np.float32], done: int, n_now: int, seed: int, rng: np.random.Generator) -> None:
        """Take the next steps, on blocks of rows that are similar by the current metric; the state is changed."""
        from usnrt.memory._metric_steps import Blocks, learn_steps

        own, chosen = self.training, self._rows.chosen
        embedded = self._embed(self.metric(state), chosen)
        drawn = _draw_blocks(embedded, chosen, self._rows.y, own.block_size, own.refresh * own.n_blocks, rng)
        blocks = drawn.reshape(own.refresh, own.n_blocks, -1)[:n_now]
        arguments = (
            self._net, state, self._table.columns, Blocks(blocks, self._own, self._log_weight, *self._thresholds),
            done, own.n_steps, own.learning_rate, own.dropout, seed, self._work, np.zeros(2, dtype=np.int64),
        )  # fmt: skip
        run_threads(lambda thread: learn_steps(*arguments, thread, self._n_threads), self._n_threads)

    def _memory(self) -> Any:
        from usnrt.memory._metric_steps import PADDING, MetricWork

        (n_lines, n_dims), net, own = self.shape, self._net, self.training
        n, size = own.n_blocks * own.block_size, own.block_size
        n_spare = max(3 * size + 2 * (own.n_thresholds + 1), max(net.n_bins + 2, net.n_plain) * n_dims)
        sizes = (
            n_lines * n_dims, net.n_columns * (net.n_bins + 1) * n_dims, n * net.n_plain, n * n_dims, n, n * n_dims,
            n * (size + PADDING), (self._n_threads, n_spare),
        )  # fmt: skip
        of_rows: Any = (np.zeros((self._n_threads, n), dtype=kind) for kind in (np.int64, np.int32, np.float32))
        numbers: Any = (np.zeros(own, dtype=np.float32) for own in sizes)
        return MetricWork(*numbers, *of_rows)


def _learn(
    steps: _Steps,
    validation_loss: Callable[[NDArray[np.float32]], float],
    entry: Resumable,
    on_check: Callable[[int, float], None],
) -> NDArray[np.float32]:
    """The training itself, from its beginning or from the state of the entry."""
    rng, own = entry.rng, steps.training
    best: NDArray[np.float32]
    if entry.state is None:
        best = (rng.standard_normal(steps.shape) / np.sqrt(own.n_dims)).astype(np.float32)
        state, seed = steps.start(best), int(rng.integers(2**32))
        best_loss, n_worse, first = np.inf, 0, 0
    else:
        best, best_loss, n_worse, seed, first = (entry.state[name] for name in _KEPT)
        state = entry.state["state"].copy()
    for done in range(first, own.n_steps, own.refresh):
        if done > first and entry.is_active:
            kept = dict(zip(_KEPT, (best, best_loss, n_worse, seed, done)))
            entry.keep({"state": state.copy(), **kept})
        n_now = min(own.refresh, own.n_steps - done)
        steps.run(state, done, n_now, seed, rng)
        if (done + n_now) % own.check and done + n_now < own.n_steps:
            continue
        metric = steps.metric(state)
        loss = validation_loss(metric)
        on_check(done + n_now, loss)
        if loss < best_loss:
            best, best_loss, n_worse = metric, loss, 0
        else:
            n_worse += 1
        if n_worse >= own.patience or not np.isfinite(metric).all():
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
    embedded: NDArray[np.float32], rows: Rows, y: Floats, size: int, number: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Blocks of similar rows in random order, each sorted by the target; -1 fills up short ones."""
    blocks: list[NDArray[np.int64]] = []
    while len(blocks) < number:
        cells = median_cells(embedded, size, rng)
        for cell in rng.permutation(len(cells)):
            own, block = rows[cells[cell]], np.full(size, -1, dtype=np.int64)
            block[: len(own)] = own[np.argsort(y[own], kind="stable")]
            blocks.append(block)
    return np.stack(blocks[:number])
