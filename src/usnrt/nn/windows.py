"""Training on more rows than fit into memory: window by window, the next one read while one is trained on.

The rows lie in an order that depends on their content only, in pieces that are read together. Each pass takes the
pieces in a new random order, some of them at a time, a window, and the rows of a window in a random order. So the bits
of the result do not depend on who reads the rows, and when.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.mlp import Params
from usnrt.nn.quantile_training import QuantileRows, QuantileSteps
from usnrt.nn.stored import CODEC
from usnrt.nn.train import History
from usnrt.utils.checkpoint import NO_CHECKPOINT, Checkpoint
from usnrt.utils.resumable import Resumable

# First and last position, the latter not included.
Span = tuple[int, int]


class EncodedRows(NamedTuple):
    """Rows that a network is trained on.

    Attributes
    ----------
    inputs : ndarray of shape (n, n_inputs), float32
        The guides are the last columns.
    target, weight : ndarray of shape (n,), float32
    """

    inputs: NDArray[np.float32]
    target: NDArray[np.float32]
    weight: NDArray[np.float32]


class Pending(Protocol):
    """Rows that are being read."""

    def result(self) -> EncodedRows:
        """Wait for the rows."""


class RowReader(Protocol):
    """Reads rows, in an order that depends on their content only."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def start_reading(self, spans: Sequence[Span]) -> Pending:
        """Begin to read some spans of rows, one after the other."""


@dataclass(frozen=True)
class Passes:
    """The windows of some passes over rows.

    Attributes
    ----------
    n_passes : int
    piece_rows : int
        Rows that are read together.
    window_pieces : int
        Pieces that are in memory together, and between two validations.
    seed : int
    """

    n_passes: int
    piece_rows: int
    window_pieces: int
    seed: int

    def n_windows(self, n_rows: int) -> int:
        """Windows of a pass.

        Examples
        --------
        >>> from usnrt.nn.windows import Passes
        >>> Passes(n_passes=1, piece_rows=100, window_pieces=5, seed=0).n_windows(1100)
        3
        """
        return max(1, -(-n_rows // (self.piece_rows * self.window_pieces)))

    def window(self, n_rows: int, position: int) -> list[Span]:
        """The pieces of a window, which is counted over all passes."""
        n_pass, number = divmod(position, self.n_windows(n_rows))
        n_pieces = -(-n_rows // self.piece_rows)
        order = self.generator(n_pass, 0).permutation(n_pieces)
        pieces = np.array_split(order, self.n_windows(n_rows))[number].tolist()
        return [(k * self.piece_rows, min((k + 1) * self.piece_rows, n_rows)) for k in pieces]

    def generator(self, *place: int) -> np.random.Generator:
        """Random numbers of a pass or window."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=place))


def train_on_windows(
    steps: QuantileSteps,
    encoding: PiecewiseLinear | None,
    reader: RowReader,
    passes: Passes,
    params: Params,
    validation_loss: Callable[[NDArray[np.float32]], float],
    on_window: Callable[[int, float, float], None] | None = None,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> tuple[Params, History]:
    """Train a network, and keep the averaged weights with the smallest validation loss.

    Parameters
    ----------
    steps : QuantileSteps
    encoding : PiecewiseLinear or None
    reader : RowReader
    passes : Passes
    params : Params
        Initial weights.
    validation_loss : callable
        Loss of a vector of weights on rows that are not trained on.
    on_window : callable, default=None
        Called with the number of the window, training loss and validation loss; may raise to stop.
    checkpoint : Checkpoint, default=NO_CHECKPOINT
        Where the state between two windows and the result are stored, under the key "windows".

    Returns
    -------
    params : Params
    history : History
        One entry per window; ``best_epoch`` is the window whose weights were kept.
    """
    # all random numbers come from the seed of the passes
    with Resumable(checkpoint, "windows", np.random.default_rng(0), CODEC) as entry:
        if entry.result is None:
            windows = _Windows(steps, encoding, reader, passes)
            entry.finish(_train(windows, params, validation_loss, on_window, entry))
        result: tuple[Params, History] = entry.result
    return result


@dataclass(frozen=True)
class _Windows:
    """The windows of all passes, trained on one after the other."""

    steps: QuantileSteps
    encoding: PiecewiseLinear | None
    reader: RowReader
    passes: Passes

    @functools.cached_property
    def spans(self) -> list[list[Span]]:
        """The pieces of each window."""
        n_rows = self.reader.n_rows
        number = self.passes.n_passes * self.passes.n_windows(n_rows)
        return [self.passes.window(n_rows, position) for position in range(number)]

    @functools.cached_property
    def n_steps(self) -> list[int]:
        """Steps before each window, and after the last one."""
        n_rows = (sum(stop - start for start, stop in spans) for spans in self.spans)
        return list(itertools.accumulate((-(-n // self.steps.training.batch_size) for n in n_rows), initial=0))

    def start_reading(self, position: int) -> Pending | None:
        return self.reader.start_reading(self.spans[position]) if position < len(self.spans) else None

    def run(self, state: NDArray[np.float32], rows: EncodedRows, position: int) -> float:
        """Train on a window; returns its mean loss."""
        steps = self.steps
        n_own, rng = rows.inputs.shape[1] - steps.n_guides, self.passes.generator(position, 1)
        read = QuantileRows.of(
            self.encoding, rows.inputs[:, :n_own], rows.inputs[:, n_own:], rows.target, rows.weight, steps.n_threads
        )
        order, key = rng.permutation(read.n_rows), int(rng.integers(2**31))
        return steps.run(state, read, order, self.n_steps[position], self.n_steps[-1], key)


def _train(
    windows: _Windows,
    params: Params,
    validation_loss: Callable[[NDArray[np.float32]], float],
    on_window: Callable[[int, float, float], None] | None,
    entry: Resumable,
) -> tuple[Params, History]:
    steps, state = windows.steps, windows.steps.start(params)
    first, history, best, best_loss = 0, History(), params, np.inf
    if entry.state is not None:
        state, best, best_loss = entry.state["state"].copy(), entry.state["best"], entry.state["best_loss"]
        first, history = entry.state["position"], entry.state["history"]
    pending: Any = windows.start_reading(first)
    for position in range(first, len(windows.spans)):
        rows, pending = pending.result(), windows.start_reading(position + 1)
        train_loss = windows.run(state, rows, position)
        candidate = steps.candidate(state)
        valid_loss = validation_loss(candidate)
        if not (np.isfinite(train_loss) and np.isfinite(valid_loss)):
            history.diverged = True
            break
        history.train_loss.append(train_loss)
        history.valid_loss.append(valid_loss)
        if valid_loss < best_loss:
            best, best_loss, history.best_epoch = steps.params(candidate), valid_loss, position
        if entry.is_active:
            kept = {"state": state.copy(), "best": best, "best_loss": best_loss, "position": position + 1}
            entry.keep({**kept, "history": deepcopy(history)})
        if on_window is not None:
            on_window(position, train_loss, valid_loss)
    return best, history
