"""Predictions by similar rows: the targets of the nearest training rows under a learnt metric, weighted by similarity.

Embedded rows are stored in cells of similar rows. A search compares a row with the centres of all cells, and then with
the rows of the nearest cells, a few hundred of them. Searching more changes predictions by less than one percent.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from usnrt.memory._search import nearest_rows, weighted_summaries
from usnrt.memory.cells import median_cells
from usnrt.memory.metric import MetricRows, MetricTraining, learn_metric
from usnrt.nn._layers import PANEL
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import GroupedNetworks
from usnrt.nn.mlp import MLP
from usnrt.nn.packed import pack_layer
from usnrt.nn.quantiles import LEVELS, SHARES
from usnrt.tables.training import TrainingTable
from usnrt.utils.context import FitContext
from usnrt.utils.threads import run_in_blocks
from usnrt.utils.types import Floats, Rows

# Rows of a cell, cells that are searched, and similar rows that count.
CELL_SIZE, N_PROBES, N_NEIGHBORS = 64, 12, 32
# Rows that a memory holds at most. Tables are sorted by the hash of their rows, so the first rows are a random sample.
MAX_ROWS = 65_536
# Validation rows on which a metric is evaluated during training.
MAX_VALIDATION = 2000
# The spread of similar targets is at least this, in standard deviations of the target, before its logarithm is taken.
MIN_SPREAD = 1e-3
N_GUIDES = 3
# Positions of the two quantiles whose distance is the spread.
SPREAD_POSITIONS = 3, 7
# Rows that a thread embeds and searches at a time, and rows whose predictions are in memory at a time.
BLOCK, PREDICT_ROWS = 4096, 65_536
# Embeddings are clipped to this; float16 ends at 65,504.
EMBEDDING_LIMIT = 60_000.0


class Retrieved(NamedTuple):
    """What similar rows predict.

    Attributes
    ----------
    mean : ndarray of shape (n,)
    quantiles : ndarray of shape (n, n_positions)
        At `usnrt.nn.quantiles.POSITIONS`; constant where all similar rows have the same target.
    log_density : ndarray of shape (n,)
        Logarithm of the total weight of similar rows before it is normalised: how many there are, and how close.
    """

    mean: Floats
    quantiles: Floats
    log_density: Floats

    def take(self, rows: Rows) -> "Retrieved":
        """Some of the rows."""
        return Retrieved(self.mean[rows], self.quantiles[rows], self.log_density[rows])


class Neighbors(NamedTuple):
    """The most similar rows of a memory.

    Attributes
    ----------
    row : ndarray of int of shape (n, k)
        Row numbers in the training table; -1 where there are fewer than k.
    weight : ndarray of shape (n, k)
        Weights in the prediction, which sum to at most 1.
    target : ndarray of shape (n, k)
        Scaled targets; NaN where there are fewer than k.
    """

    row: NDArray[np.int64]
    weight: Floats
    target: Floats


@dataclass(frozen=True)
class Retrieval:
    """Embedded training rows with their targets.

    Attributes
    ----------
    encoding : PiecewiseLinear or None
        Encoding of the inputs.
    metric : ndarray of shape (n_encoded, n_dims), float32
    cells : ndarray of shape (n_cells, n_dims, cell_size), float16
        Embedded rows; infinity fills up cells.
    centres : ndarray of shape (n_dims, n_cells), float32
        Means of the cells.
    row : ndarray of int of shape (n_cells * cell_size,)
        Row of the training table in each place of a cell; -1 where there is none.
    target, log_weight : ndarray of shape (n_cells * cell_size,)
    guide_mean, guide_std : ndarray of shape (3,)
        Moments of the guides of training rows, see `guides`.
    n_probes, n_neighbors : int
        Cells that are searched, and similar rows that count. Stored, so that a model file predicts the same with
        versions of the library that have other defaults.
    """

    encoding: PiecewiseLinear | None
    metric: NDArray[np.float32]
    cells: NDArray[np.float16]
    centres: NDArray[np.float32]
    row: NDArray[np.int64]
    target: Floats
    log_weight: Floats
    guide_mean: Floats
    guide_std: Floats
    # Set by `grouped`; not a field, so that it is not stored in files.
    _groups: ClassVar[Rows | None] = None

    n_probes: int = N_PROBES
    n_neighbors: int = N_NEIGHBORS

    @classmethod
    def of(
        cls,
        encoding: PiecewiseLinear | None,
        metric: NDArray[np.float32],
        table: TrainingTable,
        rows: Rows,
        n_threads: int = 1,
    ) -> "Retrieval":
        """A memory of some rows of a table; of a sample of them if there are more than ``MAX_ROWS``.

        Parameters
        ----------
        metric : ndarray of shape (n_encoded, n_dims), float32
        rows : ndarray of int
        """
        rows = np.sort(rows)[:MAX_ROWS]
        # Rounded before distances are computed: a saved model predicts the same as before it was saved.
        embedded = embed(metric, encoding, table.inputs, rows, n_threads).astype(np.float16).astype(np.float32)
        members = median_cells(embedded, CELL_SIZE)
        size = max(len(cell) for cell in members)
        cells = np.full((len(members), size, metric.shape[1]), np.inf, dtype=np.float16)
        row = np.full((len(members), size), -1, dtype=np.int64)
        for number, cell in enumerate(members):
            cells[number, : len(cell)] = embedded[cell]
            row[number, : len(cell)] = rows[cell]
        centres = np.stack([embedded[cell].mean(axis=0) for cell in members], axis=1)
        found = row.ravel()
        return cls(
            encoding, metric, np.ascontiguousarray(cells.transpose(0, 2, 1)), centres, found,
            np.where(found < 0, np.nan, table.y[found]), np.where(found < 0, 0.0, np.log(table.weight[found])),
            np.zeros(N_GUIDES), np.ones(N_GUIDES),
        ).grouped(table.group)  # fmt: skip

    def grouped(self, groups: Rows | None) -> "Retrieval":
        """The memory, in which rows that are left out leave out their whole group; known only during a fit.

        Parameters
        ----------
        groups : ndarray of int or None
            Group of each row of the training table.
        """
        memory = replace(self)
        object.__setattr__(memory, "_groups", None if groups is None else groups.astype(np.int64))
        return memory

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # without cached properties

    @property
    def n_rows(self) -> int:
        """Number of rows in the memory."""
        return int((self.row >= 0).sum())

    @property
    def n_inputs(self) -> int:
        """Number of inputs before the encoding."""
        return len(self.metric) if self.encoding is None else self.encoding.n_inputs

    # Not fields, so that they are not stored in files.

    @cached_property
    def _embedding(self) -> GroupedNetworks:
        return _embedding(self.metric, self.encoding)

    @cached_property
    def _centre_panels(self) -> NDArray[np.float32]:
        """The negative centres for `usnrt.nn._layers.dense`: half of the squared norm, less the product with a row."""
        missing = -self.centres.shape[1] % PANEL
        centres = np.pad(self.centres, ((0, 0), (0, missing)))
        half = np.pad(0.5 * np.sum(self.centres**2, axis=0), (0, missing), constant_values=np.inf)
        return pack_layer(-centres, half)

    @cached_property
    def _cell_panels(self) -> NDArray[np.float32]:
        """The same for the rows of each cell, one cell after the other; infinity where there is no row."""
        n_cells, n_dims, size = self.cells.shape
        wide = np.zeros((n_cells, n_dims + 1, self._n_panels * PANEL), dtype=np.float32)
        wide[:, 1:, :size] = np.where(np.isfinite(self.cells), -self.cells, 0.0)
        half = 0.5 * (wide[:, 1:, :size] ** 2).sum(axis=1)
        wide[:, 0] = np.inf
        wide[:, 0, :size] = np.where(self.row.reshape(n_cells, size) < 0, np.inf, half)
        return wide.reshape(n_cells, n_dims + 1, self._n_panels, PANEL).transpose(0, 2, 1, 3).ravel()

    @property
    def _n_panels(self) -> int:
        return int(-(-self.cells.shape[2] // PANEL))

    def predict(
        self,
        inputs: NDArray[np.float32],
        without: Rows | None = None,
        n_threads: int = 1,
        without_group: Rows | None = None,
    ) -> Retrieved:
        """Distributions of the targets of similar rows.

        Parameters
        ----------
        inputs : ndarray of shape (n, p), float32
        without : ndarray of int of shape (n,), optional
            For each row, the row of the training table that it is; it is not similar to itself and its group.
        n_threads : int
        without_group : ndarray of int of shape (n,), optional
            Instead of ``without``, the group of each row; the row itself need not be in the training table.

        Returns
        -------
        Retrieved
        """
        n = len(inputs)
        mean, density, quantiles = np.empty(n), np.empty(n), np.empty((n, len(LEVELS)))

        def summarise(start: int, stop: int, positions: NDArray[np.int64], distances: NDArray[np.float32]) -> None:
            weighted_summaries(
                positions, distances, self.target, self.log_weight, LEVELS, np.empty(positions.shape),
                mean[start:stop], quantiles[start:stop], density[start:stop],
            )  # fmt: skip

        self._search(inputs, without, n_threads, summarise, without_group)
        return Retrieved(mean, quantiles, density)

    def neighbors(self, inputs: NDArray[np.float32], n_neighbors: int = 5, n_threads: int = 1) -> Neighbors:
        """The most similar rows, the most similar one first.

        Parameters
        ----------
        inputs : ndarray of shape (n, p), float32
        n_neighbors : int, default=5
            At most the number of similar rows that count.
        n_threads : int

        Returns
        -------
        Neighbors
        """
        n, k = len(inputs), self.n_neighbors
        at, weight = np.empty((n, k), dtype=np.int64), np.empty((n, k))

        def summarise(start: int, stop: int, positions: NDArray[np.int64], distances: NDArray[np.float32]) -> None:
            size = stop - start
            order = np.argsort(distances, axis=1, kind="stable")
            positions = np.take_along_axis(positions, order, axis=1)
            distances = np.take_along_axis(distances, order, axis=1)
            at[start:stop] = positions
            weighted_summaries(
                positions, distances, self.target, self.log_weight, LEVELS, weight[start:stop],
                np.empty(size), np.empty((size, len(LEVELS))), np.empty(size),
            )  # fmt: skip

        self._search(inputs, None, n_threads, summarise)
        at, weight = at[:, :n_neighbors], weight[:, :n_neighbors]
        return Neighbors(np.where(at < 0, -1, self.row[at]), weight, np.where(at < 0, np.nan, self.target[at]))

    def _search(
        self,
        inputs: NDArray[np.float32],
        without: Rows | None,
        n_threads: int,
        use: Callable[[int, int, NDArray[np.int64], NDArray[np.float32]], None],
        without_group: Rows | None = None,
    ) -> None:
        """Call ``use(start, stop, positions, distances)`` with the nearest rows of each block of rows."""
        embedding = self._embedding
        n_cells, _, cell_size = self.cells.shape
        owner, skipped = self.row, np.full(len(inputs), -1, dtype=np.int64) if without is None else without
        if without is not None and self._groups is not None:
            without_group = self._groups[without]
        if without_group is not None and self._groups is not None:
            owner, skipped = np.where(owner < 0, -1, self._groups[owner]), without_group
        skipped = np.ascontiguousarray(skipped, dtype=np.int64)
        centres, cells, n_panels, k = self._centre_panels, self._cell_panels, self._n_panels, self.n_neighbors

        def search_block(start: int, stop: int) -> None:
            for first in range(start, stop, BLOCK):
                last = min(first + BLOCK, stop)
                queries = _embedded(embedding, inputs[first:last], None, 1)
                positions, distances = np.empty((last - first, k), np.int64), np.empty((last - first, k), np.float32)
                nearest_rows(
                    queries, skipped[first:last], owner, centres, n_cells, cells, n_panels, cell_size, self.n_probes,
                    positions, distances,
                )  # fmt: skip
                use(first, last, positions, distances)

        run_in_blocks(search_block, len(inputs), n_threads)

    def guides(self, retrieved: Retrieved) -> NDArray[np.float32]:
        """Predictions as inputs of a network: mean, log spread and log density, standardised.

        Returns
        -------
        ndarray of shape (n, 3), float32
        """
        return ((_raw_guides(retrieved) - self.guide_mean) / self.guide_std).astype(np.float32)

    def guides_of(
        self,
        inputs: NDArray[np.float32],
        without: Rows | None = None,
        n_threads: int = 1,
        without_group: Rows | None = None,
    ) -> NDArray[np.float32]:
        """`guides` of `predict`, block by block: what similar rows predict takes more memory than the guides.

        Parameters
        ----------
        inputs : ndarray of shape (n, p), float32
        without, without_group : ndarray of int of shape (n,), optional

        Returns
        -------
        ndarray of shape (n, 3), float32
        """
        guides = np.empty((len(inputs), N_GUIDES), dtype=np.float32)
        for start in range(0, len(inputs), PREDICT_ROWS):
            part = slice(start, start + PREDICT_ROWS)
            own, group = (None if keys is None else keys[part] for keys in (without, without_group))
            guides[part] = self.guides(self.predict(inputs[part], own, n_threads, group))
        return guides

    def with_scale(self, retrieved: Retrieved) -> "Retrieval":
        """The memory with the moments of the guides of these training rows."""
        raw = _raw_guides(retrieved)
        scaled = replace(self, guide_mean=raw.mean(axis=0), guide_std=np.maximum(raw.std(axis=0), 1e-6))
        return scaled.grouped(self._groups)

    def with_rows(self, table: TrainingTable, n_threads: int = 1) -> "Retrieval":
        """A memory of all rows of the table, with the same metric and guides."""
        wider = Retrieval.of(self.encoding, self.metric, table, np.arange(table.n_rows), n_threads)
        return replace(wider, guide_mean=self.guide_mean, guide_std=self.guide_std).grouped(table.group)


def fit_retrieval(
    table: TrainingTable,
    encoding: PiecewiseLinear | None,
    is_validation: NDArray[np.bool_],
    training: MetricTraining,
    rng: np.random.Generator,
    context: FitContext,
) -> Retrieval:
    """Learn a metric, and build the memory of the training rows.

    Parameters
    ----------
    is_validation : ndarray of bool of shape (n,)
    """
    n_threads = context.n_threads
    training_rows, validation_rows = np.flatnonzero(~is_validation), np.flatnonzero(is_validation)[:MAX_VALIDATION]
    report = context.progress.reporter("root", table.n_rows, "memory", training.n_steps, "step")
    drawn = training_rows[: 2 * MAX_ROWS]  # blocks do not need more rows than a memory holds

    def validation_loss(metric: NDArray[np.float32]) -> float:
        memory = Retrieval.of(encoding, metric, table, drawn, n_threads)
        quantiles = memory.predict(table.inputs[validation_rows], validation_rows, n_threads).quantiles
        distance = table.y[validation_rows, None] - quantiles
        losses = (SHARES * np.maximum(LEVELS * distance, (LEVELS - 1.0) * distance)).sum(axis=1)
        return float(np.average(losses, weights=table.validation_weight[validation_rows]))

    n_used = table.n_rows if len(training_rows) <= len(drawn) else int(drawn[-1]) + 1
    group = None if table.group is None else np.unique(table.group[:n_used], return_inverse=True)[1]
    rows = MetricRows(encoding, table.inputs[:n_used], table.y[:n_used], table.weight[:n_used], group, drawn)
    metric = learn_metric(
        rows, lambda metric, own: embed(metric, encoding, table.inputs, own, n_threads), validation_loss, training, rng,
        lambda n_steps, loss: report(n_steps, loss, loss), context.checkpoint, n_threads,
    )  # fmt: skip
    memory = Retrieval.of(encoding, metric, table, training_rows, n_threads)
    return memory.with_scale(memory.predict(table.inputs[drawn], drawn, n_threads))


def embed(
    metric: NDArray[np.float32],
    encoding: PiecewiseLinear | None,
    inputs: NDArray[np.float32],
    rows: Rows | None = None,
    n_threads: int = 1,
) -> NDArray[np.float32]:
    """Embedded rows of a table, shape (n, n_dims)."""
    return _embedded(_embedding(metric, encoding), inputs, rows, n_threads)


def _embedding(metric: NDArray[np.float32], encoding: PiecewiseLinear | None) -> GroupedNetworks:
    """The metric as a network of one layer."""
    layer = ((metric, np.zeros(metric.shape[1], dtype=np.float32)),)
    return GroupedNetworks(MLP(metric.shape), [layer], encoding)


def _embedded(
    embedding: GroupedNetworks, inputs: NDArray[np.float32], rows: Rows | None, n_threads: int
) -> NDArray[np.float32]:
    group = np.zeros(len(inputs), dtype=np.intp)
    embedded = embedding.predict(inputs, group, rows, n_threads).astype(np.float32)
    np.clip(embedded, -EMBEDDING_LIMIT, EMBEDDING_LIMIT, out=embedded)
    return embedded.reshape(-1, embedding.network.sizes[-1])


def _raw_guides(retrieved: Retrieved) -> Floats:
    low, high = SPREAD_POSITIONS
    spread = retrieved.quantiles[:, high] - retrieved.quantiles[:, low]
    return np.column_stack([retrieved.mean, np.log(np.maximum(spread, MIN_SPREAD)), retrieved.log_density])
