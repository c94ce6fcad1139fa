"""Training the network of the root on all rows of a store, while everything else works on a sample of them.

The rows are scaled, the memory adds its guides, and the result is written to a file, or remains on the workers of a
cluster; then the network is trained on it pass by pass, see `usnrt.nn.windows`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from usnrt.memory.retrieval import Retrieval
from usnrt.nn.mlp import Params
from usnrt.nn.quantiles import start_at
from usnrt.nn.train import History
from usnrt.nn.windows import Passes, RowReader, train_on_windows
from usnrt.tables.cluster_store import ClusterStore
from usnrt.tables.inputs import NetworkInputs
from usnrt.tables.roles import RowRoles
from usnrt.tables.store import RowStore
from usnrt.tree.encoded_rows import ClusterRows, RowEncoding, RowFile, kept_rows
from usnrt.tree.strategies import NetworkTraining
from usnrt.utils.context import FitContext
from usnrt.utils.folders import check_space, scratch_folder
from usnrt.utils.types import Rows, ScaleTarget

# Rows of the sample on which everything but the network of the root is fitted, and bytes of its split features.
SAMPLE_ROWS, SAMPLE_BYTES = 1_048_576, 512 * 2**20


def sample_size(store: RowStore) -> int:
    """Number of rows of the sample: a million, fewer of wide tables, so that it takes at most half a gibibyte."""
    return min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * max(store.n_features, 1)))


@dataclass(frozen=True)
class StreamedRows:
    """All rows of a store as the network of the root sees them.

    Attributes
    ----------
    roles : RowRoles
        Only training rows are trained on.
    inputs : NetworkInputs
        Learnt from the sample.
    scale_target : callable
        From targets to the values that the network learns; it can be pickled.
    group : ndarray of int or None
        Group of each row of the sample without calibration rows.
    """

    store: RowStore
    roles: RowRoles
    inputs: NetworkInputs
    scale_target: ScaleTarget
    group: Rows | None = None

    def encoding(self, memory: Retrieval | None, mean_weight: float) -> RowEncoding:
        """How rows are encoded.

        Parameters
        ----------
        memory : Retrieval or None
            It numbers rows as the sample does: the rows of the store without calibration rows.
        mean_weight : float
            Weights are divided by it.
        """
        return RowEncoding(self.roles, self.inputs, self.scale_target, mean_weight, memory, self.group)

    @contextmanager
    def encoded(self, encoding: RowEncoding, context: FitContext) -> Iterator[RowReader]:
        """The training rows, encoded: in a file that is removed in the end, or on the workers of a cluster."""
        if isinstance(self.store, ClusterStore):
            yield ClusterRows.of(self.store, encoding)
            return
        with scratch_folder(self.store.folder) as folder:
            check_space(folder, 4 * (encoding.n_inputs + 2) * self.store.n_rows)
            with RowFile(Path(folder) / "rows.f32", encoding.n_inputs) as file:
                n_before = 0
                for bucket in range(self.store.n_buckets):
                    rows, hashes = self.store.read(bucket), self.store.hashes(bucket)
                    file.append(encoding.of(rows, hashes, n_before, context.n_threads))
                    n_before += kept_rows(rows, hashes, self.roles)
                    context.progress.check()
                yield file


def train_root_on_store(
    job: NetworkTraining,
    streamed: StreamedRows,
    memory: Retrieval | None,
    rng: np.random.Generator,
) -> tuple[Params, dict[str, History]]:
    """Train the network of the root on all training rows of a store.

    Parameters
    ----------
    job : NetworkTraining
        Of the sample, whose validation rows choose the weights.
    memory : Retrieval or None
        Of training rows.
    rng : numpy.random.Generator
        Draws the initial weights.

    Returns
    -------
    params : Params
    history : dict of str to History
    """
    recipe, table, context, streaming = job.recipe, job.table, job.context, job.recipe.streaming
    training, validation = job.parts(np.arange(table.n_rows))
    mean_weight, y = float(table.weight[training].mean()), table.y[training]
    params = start_at(job.network, rng, float(y.mean()), float(y.std()))
    own = replace(recipe.training(float(table.weight[training].sum())), batch_size=streaming.batch_size)
    steps, rows = job.steps(own, context.n_threads), validation[: streaming.validation_rows]
    with streamed.encoded(streamed.encoding(memory, mean_weight), context) as reader:
        passes = Passes(
            min(streaming.n_passes(reader.n_rows), recipe.max_epochs), streaming.piece_rows, streaming.window_pieces,
            context.seed,
        )  # fmt: skip
        n_windows = passes.n_passes * passes.n_windows(reader.n_rows)
        label = f"network, {passes.n_passes} passes" if passes.n_passes > 1 else "network, 1 pass"
        report = context.progress.reporter("root", streamed.store.n_rows, label, n_windows, "window")
        params, history = train_on_windows(
            steps, job.encoding, reader, passes, params, lambda weights: steps.loss(weights, job.network_rows, rows),
            report, context.checkpoint.within("root"),
        )  # fmt: skip
    return params, {"network": history}
