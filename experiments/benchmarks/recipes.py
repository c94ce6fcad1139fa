"""Processor time and CRPS of warm fits: our presets, CatBoost and LightGBM's 21 quantile models, on real data sets.

Of the training rows of split 42 the first 25,000 are used: four fifths are fitted, with one thread, and the others are
scored, so that no test row is looked at. Every fit has a process of its own, which fits 300 rows before, so that
libraries are imported and kernels are loaded. The last lines are geometric means over the data sets.

    USNRT_DATA=... python experiments/benchmarks/recipes.py --recipes usnrt usnrt-fast catboost -d power gpu
"""

import argparse
import os
import subprocess
import sys

import numpy as np

from history import record

OURS = ("usnrt-fast", "usnrt", "usnrt-ensemble")
PEERS = ("catboost", "lightgbm-quantile")
DATASETS = ("electrical", "appliances", "physicochemical", "traffic")
# NPROC holds XLA to one thread
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "NPROC": "1"}
FIT = """
import sys, time
from usnrt_experiments.grid import load_split
from usnrt_experiments.recipes import get_recipe
split = load_split(sys.argv[1], 42)
X, y = split.X_train.iloc[:25_000], split.y_train[:25_000]
build, n = get_recipe(sys.argv[2]).build, len(y) * 4 // 5
build(random_state=42, n_jobs=1).fit(X.iloc[:300], y[:300])
model, start = build(random_state=42, n_jobs=1), time.process_time()
model.fit(X.iloc[:n], y[:n])
print(time.process_time() - start, model.predict_dist(X.iloc[n:]).crps(y[n:]).mean())
"""


def fit(dataset: str, recipe: str) -> tuple[float, float]:
    """Processor seconds of a fit, and its CRPS on the rows that were not fitted."""
    words = [sys.executable, "-c", FIT, dataset, recipe]
    result = subprocess.run(words, env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, text=True, check=True)
    seconds, crps = result.stdout.split()[-2:]
    return float(seconds), float(crps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-d", "--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--recipes", nargs="+", default=(*OURS, *PEERS), choices=(*OURS, *PEERS))
    asked = parser.parse_args()
    if "USNRT_DATA" not in os.environ:
        print("skipped: experiments/benchmarks/recipes.py needs USNRT_DATA, the folder of the data sets")
        return
    seconds, named = {}, {}
    for dataset in asked.datasets:
        for recipe in asked.recipes:
            seconds[dataset, recipe], crps = fit(dataset, recipe)
            print(f"{dataset:16} {recipe:18} {seconds[dataset, recipe]:7.1f} s  CRPS {100 * crps:.3f}", flush=True)
    n_sets = len(asked.datasets)
    for name in (name for name in OURS if name in asked.recipes):
        for peer in (peer for peer in PEERS if peer in asked.recipes):
            shares = [seconds[dataset, name] / seconds[dataset, peer] for dataset in asked.datasets]
            ratio = float(np.exp(np.mean(np.log(shares))))
            named[f"a warm fit of {name} on {n_sets} real tables, {peer}"] = 1 / ratio
            print(f"ratio: {name} / {peer} {ratio:.2f} ({n_sets} data sets)")
    record("recipes", named)


if __name__ == "__main__":
    main()
