"""Training the network of the root on all rows of a store, while everything else works on a sample of them.

The rows are scaled, the memory adds its guides, and the result is written to one file per shard; then the network is
trained on these files pass by pass, see `usnrt.nn.rounds`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from usnrt.memory.retrieval import Retrieval
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.mlp import Params
from usnrt.nn.quantiles import pinball, start_at
from usnrt.nn.rounds import RoundPlan, Runner, ShardRows, rounds_per_pass, train_rounds
from usnrt.nn.train import History, validator
from usnrt.tables.cluster_store import ClusterStore
from usnrt.tables.inputs import NetworkInputs
from usnrt.tables.roles import RowRoles
from usnrt.tables.store import RowStore
from usnrt.tree.shards import ShardEncoding, ShardFile, ShardWriter, cluster_runner, cluster_shards, kept_rows
from usnrt.tree.strategies import NetworkTraining
from usnrt.utils.context import FitContext
from usnrt.utils.folders import check_space, scratch_folder
from usnrt.utils.progress import Progress
from usnrt.utils.threads import run_in_threads
from usnrt.utils.types import Floats, Rows

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
    runner : callable or None
        Runs the shards of a round, see `usnrt.nn.rounds.Runner`; None for threads of this process.
    """

    store: RowStore
    roles: RowRoles
    inputs: NetworkInputs
    scale_target: Callable[[Floats], Floats]
    group: Rows | None = None
    runner: Runner | None = None

    def write(
        self,
        folder: Path,
        n_shards: int,
        memory: Retrieval | None,
        mean_weight: float,
        n_threads: int,
        progress: Progress,
    ) -> Sequence[ShardFile]:
        """Write the training rows, scaled and with the guides of the memory, to one file per shard.

        Parameters
        ----------
        memory : Retrieval or None
            It numbers rows as the sample does: the rows of the store without calibration rows.
        mean_weight : float
            Weights are divided by it.
        """
        encoding = self.shard_encoding(n_shards, memory, mean_weight)
        check_space(folder, 4 * (encoding.n_inputs + 2) * self.store.n_rows)
        n_before = 0
        with ShardWriter(folder, n_shards, encoding.n_inputs) as writer:
            for bucket in range(self.store.n_buckets):
                rows, hashes = self.store.read(bucket), self.store.hashes(bucket)
                for number, own in encoding.of(rows, hashes, n_before, n_threads):
                    writer.append(number, own)
                n_before += kept_rows(rows, hashes, self.roles)
                progress.check()
        return writer.files

    def shard_encoding(self, n_shards: int, memory: Retrieval | None, mean_weight: float) -> ShardEncoding:
        """How rows become rows of shards; parameters as of `write`."""
        return ShardEncoding(self.roles, self.inputs, self.scale_target, mean_weight, n_shards, memory, self.group)


def train_root_on_store(
    job: NetworkTraining,
    streamed: StreamedRows,
    memory: Retrieval | None,
    encoding: PiecewiseLinear | None,
    rng: np.random.Generator,
) -> tuple[Params, dict[str, History]]:
    """Train the network of the root on all training rows of a store.

    Parameters
    ----------
    job : NetworkTraining
        Of the sample, whose validation rows choose the weights.
    memory : Retrieval or None
        Of training rows.
    encoding : PiecewiseLinear or None
        Of the inputs with the guides.
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
    rows = validation[: streaming.validation_rows]
    fine_tuning = recipe.root_training(float(table.weight[training].sum()))
    loss_of = validator(job.network, pinball, job.device_table, table.y, table.weight, rows, fine_tuning)
    with scratch_folder(streamed.store.folder) as folder:
        n_shards = streaming.n_shards(round(streamed.store.n_rows * len(training) / table.n_rows))
        shards, runner = _shards(streamed, folder, n_shards, memory, mean_weight, context)
        n_rows = [shard.n_rows for shard in shards]
        plan = RoundPlan(
            job.network, pinball, encoding, replace(fine_tuning, batch_size=streaming.batch_size),
            min(streaming.n_passes(sum(n_rows)), recipe.max_epochs),
            rounds_per_pass(n_rows, streaming.piece_rows, streaming.pieces_per_round), streaming.piece_rows,
            streaming.pieces_per_round, context.seed,
        )  # fmt: skip
        n_rounds = plan.n_passes * plan.n_rounds
        label = f"network, {plan.n_passes} passes" if plan.n_passes > 1 else "network, 1 pass"
        report = context.progress.reporter("root", streamed.store.n_rows, label, n_rounds, "round")
        checkpoint = context.checkpoint.within("root")
        params, history = train_rounds(plan, shards, params, loss_of, runner, report, checkpoint)
    return params, {"network": history}


def _shards(
    streamed: StreamedRows,
    folder: Path,
    n_shards: int,
    memory: Retrieval | None,
    mean_weight: float,
    context: FitContext,
) -> tuple[Sequence[ShardRows], Runner]:
    """The rows of each shard, and what trains on them: files and threads, or workers of a cluster."""
    if isinstance(streamed.store, ClusterStore):
        encoding = streamed.shard_encoding(n_shards, memory, mean_weight)
        return cluster_shards(streamed.store, encoding), cluster_runner(streamed.store)
    files = streamed.write(folder, n_shards, memory, mean_weight, context.n_threads, context.progress)
    return files, streamed.runner or _in_threads(context.n_threads, context.progress)


def _in_threads(n_threads: int, progress: Progress) -> Runner:
    """A runner that uses threads of this process."""

    def run(task: Callable[[Any], Any], items: Sequence[Any]) -> Iterable[Any]:
        numbered = run_in_threads(lambda i: (i, task(items[i])), range(len(items)), n_threads, progress)
        return [result for _, result in sorted(numbered, key=lambda pair: pair[0])]

    return run
