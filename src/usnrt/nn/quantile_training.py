"""Training of quantile networks by compiled kernels, on one or more threads, with the same bits.

XLA, which trains the other networks, compiles a program for each number of columns and each size of table, and its
product of piecewise linear codes and weights takes more than half of a step; see docs/design.md for measurements.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.encoding import INPUT_LIMIT, PiecewiseLinear
from usnrt.nn.mlp import MLP, Params
from usnrt.nn.quantiles import LEVELS, POSITIONS, SCALE_LIMIT, SHARES, STRETCH_LIMIT
from usnrt.nn.train import Outcome, Training
from usnrt.utils.threads import run_in_blocks
from usnrt.utils.types import Rows

# Principal components of the inputs are those of at most so many rows, and for at most so many encoded inputs: beyond
# that a step would take twice the time.
COMPONENT_ROWS, MAX_COMPONENTS = 8192, 512
# Groups of rows of a batch, each of which one thread takes forward and back, and bounds of their size: products of few
# rows are slower.
GROUPS, GROUP_SIZES = 4, (32, 64)


@dataclass(frozen=True)
class QuantileRows:
    """Rows as a quantile network reads them.

    Attributes
    ----------
    inputs : ndarray of shape (n, n_inputs), float32
    guides : ndarray of shape (n, n_guides), float32
        Further inputs, which are missing for a share of the rows in training.
    target, weight : ndarray of shape (n,), float32
    bins : ndarray of shape (n, n_columns), uint8 or uint16
        Bin of each encoded column.
    share : ndarray of shape (n, n_columns), float32
        How far the number is from the lower edge of its bin to the upper one, from 0 to 1.
    """

    inputs: NDArray[np.float32]
    guides: NDArray[np.float32]
    target: NDArray[np.float32]
    weight: NDArray[np.float32]
    bins: NDArray[Any]
    share: NDArray[np.float32]

    @classmethod
    def of(
        cls,
        encoding: PiecewiseLinear | None,
        inputs: NDArray[np.float32],
        guides: NDArray[np.float32] | None,
        target: NDArray[np.floating],
        weight: NDArray[np.floating],
        n_threads: int = 1,
    ) -> "QuantileRows":
        """Rows with their bins.

        Parameters
        ----------
        encoding : PiecewiseLinear or None
            Of the inputs without guides.
        """
        from usnrt.nn._steps import locate_bins

        n, n_columns = len(inputs), 0 if encoding is None else len(encoding.columns)
        n_bins = 1 if encoding is None else encoding.slope.shape[1]
        bins, share = (
            np.empty((n, n_columns), np.uint8 if n_bins <= 256 else np.uint16),
            np.empty((n, n_columns), "f4"),
        )
        inputs = np.ascontiguousarray(inputs, dtype=np.float32)
        if encoding is not None:
            used = _used_bins(encoding)

            def locate(start: int, stop: int) -> None:
                rows = slice(start, stop)
                locate_bins(
                    inputs[rows], encoding.columns, encoding.slope, encoding.offset, used, bins[rows], share[rows]
                )

            run_in_blocks(locate, n, n_threads)
        guides = np.zeros((n, 0), np.float32) if guides is None else np.ascontiguousarray(guides, dtype=np.float32)
        return cls(inputs, guides, target.astype(np.float32), weight.astype(np.float32), bins, share)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.target)

    @property
    def columns(self) -> Any:
        """The arrays as kernels take them."""
        from usnrt.nn._steps import Table

        return Table(self.bins, self.share, self.inputs, self.guides, self.target, self.weight)


def _used_bins(encoding: PiecewiseLinear) -> NDArray[np.int64]:
    used: NDArray[np.int64] = np.count_nonzero(encoding.slope, axis=1).astype(np.int64)
    return used


class QuantileSteps:
    """Steps of training a quantile network, and its loss; bits do not depend on the number of threads.

    The state is a flat array, which steps change in place: weights, both moments of Adam, averaged weights.

    Parameters
    ----------
    network : MLP
        Of ``algebraic`` activation, with ``N_OUTPUTS`` linear outputs.
    encoding : PiecewiseLinear or None
        Of the inputs with the guides, which are its last columns.
    training : Training
    n_guides : int
    guide_dropout : float
        Share of the rows whose guides are set to 0 in training.
    n_threads : int
    """

    def __init__(
        self,
        network: MLP,
        encoding: PiecewiseLinear | None,
        training: Training,
        n_guides: int = 0,
        guide_dropout: float = 0.0,
        n_threads: int = 1,
    ) -> None:
        from usnrt.nn._steps import Loss

        self.network, self.training, self.n_guides = network, training, n_guides
        self._encoding, self._dropout = encoding, guide_dropout
        self._group = int(np.clip(training.batch_size // GROUPS, *GROUP_SIZES))
        self._n_groups = -(-training.batch_size // self._group)
        self.n_threads = min(n_threads, self._n_groups)
        self._net = first_layer(network, encoding, n_guides)
        self._shapes = [((n, m), (m,)) for n, m in pairwise(network.sizes)]
        levels, shares, gaps = (values.astype(np.float32) for values in (LEVELS, SHARES, np.diff(POSITIONS)))
        self._loss = Loss(levels, shares, gaps, SCALE_LIMIT, STRETCH_LIMIT)
        self._components = np.zeros(0, np.float32)
        self._work: Any = None

    def turn(self, inputs: NDArray[np.float32], guides: NDArray[np.float32]) -> None:
        """From now on, scale the gradient of the first layer along the principal components of some rows.

        Differences of nearly equal columns are then learnt as quickly as the columns. Wide encodings are left as they
        are.
        """
        few = slice(COMPONENT_ROWS)
        rows = np.concatenate([inputs[few], guides[few]], axis=1)
        encoded = rows if self._encoding is None else self._encoding(rows)
        if encoded.shape[1] > MAX_COMPONENTS:
            return
        # inputs that are always 0 are left as they are
        used = np.flatnonzero(encoded.any(axis=0))
        components = np.eye(encoded.shape[1], dtype=np.float32)
        encoded = encoded[:, used].astype(np.float64)
        components[np.ix_(used, used)] = np.linalg.eigh(encoded.T @ encoded)[1]
        self._components, self._work = components.ravel(), None

    def start(self, params: Params) -> NDArray[np.float32]:
        """The state before the first step."""
        weights = np.concatenate([np.ravel(array) for layer in params for array in layer])
        nothing = np.zeros_like(weights)
        return np.concatenate([weights, nothing, nothing, weights], dtype=np.float32)

    def params(self, weights: NDArray[np.float32]) -> Params:
        """A copy of weights, layer by layer."""
        arrays, at = [], 0
        for shapes in self._shapes:
            layer = []
            for shape in shapes:
                size = int(np.prod(shape))
                layer.append(weights[at : at + size].reshape(shape).copy())
                at += size
            arrays.append(tuple(layer))
        return tuple(arrays)

    def candidate(self, state: NDArray[np.float32]) -> NDArray[np.float32]:
        """A copy of the weights that predict: the averaged ones, if weights are averaged."""
        weights, _, _, averaged = state.reshape(4, -1)
        return (averaged if self.training.average > 0 else weights).copy()

    def run(
        self, state: NDArray[np.float32], rows: QuantileRows, order: Rows, n_before: int, n_total: int, seed: int
    ) -> float:
        """Take the steps of an order of rows; returns the mean loss of the rows, each before the step of its batch.

        Parameters
        ----------
        state : ndarray
            Changed in place.
        n_before, n_total : int
            Steps before these, and of the whole training.
        seed : int
            Of the dropout of guides.
        """
        return self._run(state, rows, order, True, self._rates(n_before, n_total, seed)) / len(order)

    def loss(self, state: NDArray[np.float32], rows: QuantileRows, chosen: Rows) -> float:
        """Mean loss of some rows by their weights; ``state`` may be a vector of weights."""
        loss = self._run(state, rows, chosen, False, self._rates(0, 1, 0))
        return loss / float(rows.weight[chosen].sum(dtype=np.float64))

    def _run(self, state: NDArray[np.float32], rows: QuantileRows, order: Rows, trains: bool, rates: Any) -> float:
        from usnrt.nn._steps import run_batches

        order = np.ascontiguousarray(order, dtype=np.int64)
        arguments = (
            self._net, state, rows.columns, order, trains, (self.training.batch_size, self._group), rates, self._loss,
            self._memory(), np.zeros(2, dtype=np.int64),
        )  # fmt: skip
        return run_threads(lambda thread: run_batches(*arguments, thread, self.n_threads), self.n_threads)[0]

    def _rates(self, n_before: int, n_total: int, seed: int) -> Any:
        from usnrt.nn._steps import Rates

        own = self.training
        return Rates(
            own.learning_rate, own.schedule == "cosine", own.weight_decay, own.average, n_before, n_total,
            self._dropout, seed,
        )  # fmt: skip

    def _memory(self) -> Any:
        """The memory of the steps, made when it is first needed."""
        from usnrt.nn._steps import BLOCK, Work

        if self._work is not None:
            return self._work
        net, n_lines = self._net, self.network.sizes[0]
        n_rows, widest, n_units = self._n_groups * self._group, int(net.sizes.max()), int(net.sizes[0])
        n_turned = n_lines if len(self._components) else 0
        n_spare = max(max(self._group, BLOCK) * widest, (net.n_bins + 2) * n_units, 2 * n_turned * BLOCK)
        ends = np.cumsum(n_rows * net.sizes)
        outputs, slopes = np.zeros((2, ends[-1]), dtype=np.float32)
        self._work = Work(
            np.zeros(net.n_columns * (net.n_bins + 1) * n_units, np.float32),
            np.zeros(n_rows * net.n_plain, np.float32),
            outputs, slopes, ends - n_rows * net.sizes,
            np.zeros((self.n_threads, n_spare), np.float32), np.zeros(self._n_groups),
            self._components, np.zeros(n_turned * n_units, np.float32),
        )  # fmt: skip
        return self._work


def first_layer(network: MLP, encoding: PiecewiseLinear | None, n_guides: int = 0) -> Any:
    """A network as kernels take it, with its layers one after the other in a vector of weights.

    Parameters
    ----------
    encoding : PiecewiseLinear or None
        Of the inputs with the guides, which are its last columns.
    """
    from usnrt.nn._steps import Net

    ends = np.cumsum([[n * m, m] for n, m in pairwise(network.sizes)])
    n_columns, n_bins = (0, 0) if encoding is None else encoding.slope.shape
    kept = np.arange(network.sizes[0]) if encoding is None else encoding.kept
    return Net(
        np.array(network.sizes[1:]), np.concatenate([[0], ends[1:-1:2]]), ends[::2], kept[: len(kept) - n_guides],
        np.inf if encoding is None else INPUT_LIMIT, len(kept), n_columns, n_bins,
        np.zeros(0, dtype=np.int64) if encoding is None else _used_bins(encoding),
    )  # fmt: skip


def run_threads(task: Callable[[int], float], n_threads: int) -> list[float]:
    """Results of ``task(thread)`` in so many threads at the same time, which may wait for each other."""
    if n_threads == 1:
        return [task(0)]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(task, range(n_threads)))


class QuantileEpochs:
    """Epochs of training a quantile network on rows in memory, for `usnrt.nn.train.train`.

    Parameters
    ----------
    steps : QuantileSteps
    rows : QuantileRows
    train_rows, valid_rows : ndarray of int
        If ``valid_rows`` is empty, the training rows are used instead.
    """

    def __init__(self, steps: QuantileSteps, rows: QuantileRows, train_rows: Rows, valid_rows: Rows) -> None:
        self.training, self._steps, self._rows, self._train_rows = steps.training, steps, rows, train_rows
        self._valid_rows = valid_rows if len(valid_rows) else train_rows
        if steps.training.along_components:
            steps.turn(rows.inputs[train_rows[:COMPONENT_ROWS]], rows.guides[train_rows[:COMPONENT_ROWS]])

    def start(self, params: Params) -> NDArray[np.float32]:
        """The state before the first epoch."""
        return self._steps.start(params)

    def run(self, state: NDArray[np.float32], epoch: int, key: int, rng: np.random.Generator) -> Outcome:
        """One epoch and its validation; epoch -1 validates the initial weights."""
        loss, n_steps = 0.0, -(-len(self._train_rows) // self.training.batch_size)
        if epoch >= 0:
            order, n_total = rng.permutation(self._train_rows), self.training.max_epochs * n_steps
            loss = self._steps.run(state, self._rows, order, epoch * n_steps, n_total, key)
        candidate = self._steps.candidate(state)
        valid_loss = self._steps.loss(candidate, self._rows, self._valid_rows)
        return Outcome(state, candidate, loss, valid_loss, valid_loss)

    def params(self, candidate: NDArray[np.float32]) -> Params:
        """Weights of the network."""
        return self._steps.params(candidate)

    def saved(self, state: NDArray[np.float32]) -> list[NDArray[Any]]:
        """What a checkpoint stores of a state."""
        return [state.copy()]

    def restored(self, state: NDArray[np.float32], saved: list[NDArray[Any]]) -> NDArray[np.float32]:
        """A state from what a checkpoint has stored."""
        return saved[0].copy()
