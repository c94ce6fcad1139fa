"""Large tables: processor time, memory, disk and CRPS of a fit against the number of rows and columns.

A generated table of known truth is written as a folder of Parquet files, piece by piece. Every model is fitted to the
folder in a process of its own, which prints its processor time, its peak memory beyond the imported library, the
largest size of its temporary files, and two losses on new rows, each divided by that of the true distribution: its
CRPS, and the pinball loss of its 5 % and 95 % quantiles, which is all that ``lightgbm-pair`` has. Tables of more than
1,048,576 rows are not in memory. The last column is the time per row divided by that of the first line.

    python experiments/benchmarks/scale.py --rows 1000000 10000000 --columns 20
    python experiments/benchmarks/scale.py --rows 1000000 --peers lightgbm-pair lightgbm catboost --rounds 300
    python experiments/benchmarks/scale.py --rows 10000000 --tenth
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from history import record

PIECE = 250_000
N_TEST, TEST_SEED = 50_000, 10**6
PAIR = np.array([0.05, 0.95])
PEERS = ("lightgbm-pair", "lightgbm", "catboost")


def truth(X):
    """Mean and standard deviation of the target: jumps, products and waves in the first twelve columns."""
    x = X[:, :12].astype(np.float64).T
    mean = np.sin(2 * np.pi * x[2]) + x[1] * x[2] + 2 * (x[0] > 0.5) + np.sin(2 * np.pi * (x[3] + x[4]))
    mean += 4 * (x[5] - 0.5) * (x[6] - 0.5) + np.sin(4 * np.pi * x[7] * x[8]) + np.abs(x[9] - x[10])
    std = np.where(x[0] > 0.5, np.where(x[1] > 0.4, 1.0, 0.4), 0.1) * (0.5 + x[11])
    return mean, std


def make_rows(seed, n, d):
    """Uniform features in float32, and a target with normal noise."""
    rng = np.random.default_rng(np.random.SeedSequence([7, seed]))
    X = rng.random((n, d), dtype=np.float32)
    mean, std = truth(X)
    return X, mean + std * rng.standard_normal(n)


def write_table(folder, n, d):
    """Write a table as Parquet, one file per piece; the first rows of a table are those of a smaller one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for piece in range(-(-n // PIECE)):
        X, y = make_rows(piece, min(PIECE, n - piece * PIECE), d)
        columns = {f"x{j}": X[:, j] for j in range(d)} | {"y": y}
        pq.write_table(pa.table(columns), folder / f"part-{piece:05d}.parquet")


def oracle_crps(X, y):
    """Mean CRPS of the true normal distributions."""
    from scipy.stats import norm

    mean, std = truth(X)
    z = (y - mean) / std
    return float((std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))).mean())


def pair_loss(quantiles, y):
    """Mean pinball loss of the quantiles at PAIR, shape (n, 2)."""
    distance = y[:, None] - quantiles
    return float(np.maximum(PAIR * distance, (PAIR - 1) * distance).mean())


def memory_of(key):
    """A line of /proc/self/status in megabytes: VmRSS, or VmHWM for the peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    return float("nan")


class LargestSize:
    """Measures the largest size of a folder while a block runs."""

    def __init__(self, folder):
        self.folder, self.megabytes, self._done = folder, 0.0, threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._done.set()
        self._thread.join()

    def _watch(self):
        while not self._done.wait(0.5):
            sizes = 0
            for root, _, files in os.walk(self.folder):
                for file in files:
                    with contextlib.suppress(OSError):  # removed in the meantime
                        sizes += os.path.getsize(os.path.join(root, file))
            self.megabytes = max(self.megabytes, sizes / 2**20)


def make_model(name, jobs, rounds):
    if name == "usnrt":
        from usnrt import USNRTRegressor

        return USNRTRegressor(random_state=0, n_jobs=jobs)
    from usnrt.comparison.peers import CatBoostQuantileRegressor, LightGBMQuantileRegressor

    peer = CatBoostQuantileRegressor if name == "catboost" else LightGBMQuantileRegressor
    options = {"levels": tuple(PAIR.tolist())} if name == "lightgbm-pair" else {}
    return peer(random_state=0, n_jobs=jobs, n_estimators=rounds, **options)


def measure(name, folder, d, jobs, rounds):
    """Fit one model in this process, and print what it took as JSON."""
    import pyarrow as pa
    from scipy.stats import norm

    model = make_model(name, jobs, rounds)
    X, y = make_rows(TEST_SEED, 3000, d)
    # imports, and compiles what does not depend on the table
    make_model("usnrt", jobs, rounds).set_params(max_epochs=1).fit(X, y)
    scratch = tempfile.mkdtemp(prefix="usnrt-scale-")
    base = memory_of("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    wall, processor = time.perf_counter(), time.process_time()
    with LargestSize(scratch) as disk:
        options = {"scratch": scratch} if name == "usnrt" else {}
        model.fit(f"{folder}/*.parquet", "y", **options)
    result = {
        "model": name,
        "processor": time.process_time() - processor,
        "seconds": time.perf_counter() - wall,
        "memory": memory_of("VmHWM") - base,
        "disk": disk.megabytes,
        "left_behind": len(os.listdir(scratch)),
    }
    shutil.rmtree(scratch)
    X, y = make_rows(TEST_SEED, N_TEST, d)
    table = pa.table({f"x{j}": X[:, j] for j in range(d)})
    predicted, (mean, std) = model.predict_dist(table), truth(X)
    result["crps"] = float(predicted.crps(y).mean()) / oracle_crps(X, y)
    true_quantiles = mean[:, None] + std[:, None] * norm.ppf(PAIR)
    result["pair"] = pair_loss(predicted.ppf(PAIR), y) / pair_loss(true_quantiles, y)
    result["regions"] = getattr(model, "n_leaves_", None)
    print(json.dumps(result))


def measured(name, folder, d, jobs, rounds):
    command = [sys.executable, __file__, "--measure", name, str(folder)]
    command += ["--columns", str(d), "--jobs", str(jobs), "--rounds", str(rounds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def show(n, d, result, first):
    per_row = 1e6 * result["processor"] / n
    print(
        f"{n:>11,} {d:>4} {result['model']:<13} {result['processor']:>8.0f} {result['seconds']:>8.0f} "
        f"{result['memory']:>7.0f} {result['disk']:>7.0f} {result['crps']:>7.4f} {result['pair']:>7.4f} "
        f"{per_row:>8.1f} {per_row / first:>7.2f}",
        flush=True,
    )


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--columns", type=int, default=20, help="at least 12")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=[])
    parser.add_argument("--rounds", type=int, default=300, help="of the boosting models, at most")
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--tenth", action="store_true", help="also fit a tenth of the rows, for the CRPS that it loses")
    parser.add_argument("--folder", help="where to write the table; a temporary folder by default")
    parser.add_argument("--measure", nargs=2, metavar=("MODEL", "FOLDER"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    asked = arguments()
    if asked.measure:
        measure(*asked.measure, asked.columns, asked.jobs, asked.rounds)
        return
    print("       rows cols model         proc. s  clock s mem. MB disk MB CRPS/tr pair/tr us/row   ratio")
    first, named = None, {}
    for n in asked.rows:
        for rows in [n, n // 10] if asked.tenth else [n]:
            with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
                write_table(Path(folder), rows, asked.columns)
                results = {}
                for name in ["usnrt", *asked.peers]:
                    results[name] = measured(name, folder, asked.columns, asked.jobs, asked.rounds)
                    first = first or 1e6 * results[name]["processor"] / rows
                    show(rows, asked.columns, results[name], first)
                for name in asked.peers:
                    ratio = results[name]["processor"] / results["usnrt"]["processor"]
                    named[f"a fit of {rows:,} x {asked.columns} from Parquet, {name}, {asked.rounds} rounds"] = ratio
    if named:
        record("scale", named)


if __name__ == "__main__":
    main()
