"""One fit on one and on two Dask workers: time of the training, memory of the client, bytes sent between workers.

    python experiments/benchmarks/scale_cluster.py --rows 200000 --workers 1 2

The worker processes have one thread each. Sizes are reduced (``--sample``, ``--steps``), so that a table of some
hundred thousand rows takes the way of a table larger than memory, and most of the time is spent on training the network
of the root. Prints one JSON line per fit; the last one has the ratio.
"""

import argparse
import hashlib
import importlib
import json
import resource
import time
from dataclasses import replace
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster, WorkerPlugin

from usnrt import USNRTRegressor
from usnrt.tables import streaming
from usnrt.tree.recipe import Streaming


class Sizes(WorkerPlugin):
    """Sets the sizes on every worker, also on those that are started later."""

    name = "sizes"

    def __init__(self, sample_rows: int, how: Streaming) -> None:
        self.sample_rows, self.how = sample_rows, how

    def setup(self, worker: Any) -> None:
        """Called on each worker."""
        importlib.import_module("usnrt.tree.streamed").SAMPLE_ROWS = self.sample_rows  # type: ignore[attr-defined]
        recipe, how = USNRTRegressor._recipe, self.how
        USNRTRegressor._recipe = lambda model: replace(recipe(model), streaming=how)  # type: ignore[method-assign]


def part(number: int, n_rows: int, n_columns: int) -> pd.DataFrame:
    """A partition of a table of known truth."""
    rng = np.random.default_rng(number)
    X = rng.uniform(size=(n_rows, n_columns)).astype(np.float32)
    y = np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + np.where(X[:, 3] > 0.5, 0.5, 0.1) * rng.normal(size=n_rows)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(n_columns)]).assign(y=y)


def usage(dask_worker: Any) -> dict[str, float]:
    """Processor time, peak memory and bytes received of a worker."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    received = sum(entry["total"] for entry in dask_worker.transfer_incoming_log)
    return {"cpu_s": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss / 1024, "received_mb": received / 1e6}


def run(n_workers: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """One fit on so many workers."""
    how = Streaming(shard_rows=arguments.rows // 8, n_steps=arguments.steps)
    cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None, memory_limit=0)
    rounds: list[float] = []
    with cluster, Client(cluster) as client:
        client.register_plugin(Sizes(arguments.sample, how))
        table = dd.from_map(
            part,
            range(16),
            n_rows=arguments.rows // 16,
            n_columns=arguments.columns,
            meta=part(0, 1, arguments.columns)[:0],
        ).persist()
        model = USNRTRegressor(
            random_state=0, n_jobs=1, memory=False,
            callbacks=[lambda e: rounds.append(time.monotonic()) if e.network.startswith("network") else None],
        )  # fmt: skip
        start = time.monotonic()
        model.fit(table[table.columns[:-1].tolist()], table["y"])
        total = time.monotonic() - start
        workers = list(client.run(usage).values())
    # the first round compiles; the events before the tree is grown are those of the root
    n_rounds = len(model.history_[0]["network"].train_loss)
    training = rounds[n_rounds - 1] - rounds[0]
    digest = hashlib.sha256(model.predict(part(99, 100, arguments.columns).drop(columns="y")).tobytes()).hexdigest()
    return {
        "workers": n_workers, "rows": arguments.rows, "rounds": n_rounds, "total_s": round(total, 1),
        "training_s": round(training, 1), "predictions": digest[:12],
        "client_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        **{f"worker_{key}": [round(worker[key], 1) for worker in workers] for key in workers[0]},
    }  # fmt: skip


def main() -> None:
    """Fit on each number of workers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--sample", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    streaming.BLOCK_ROWS = 2 * arguments.sample
    results = []
    for n_workers in arguments.workers:
        results.append(run(n_workers, arguments))
        print(json.dumps(results[-1]), flush=True)
    ratio = results[0]["training_s"] / results[-1]["training_s"]
    same = len({result["predictions"] for result in results}) == 1
    print(json.dumps({"training_ratio": round(ratio, 2), "same_bits": same}))


if __name__ == "__main__":
    main()
