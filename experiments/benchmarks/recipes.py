"""Processor time and CRPS of the presets: against their former recipe, CatBoost and LightGBM, on real data sets.

Every model is fitted with one thread on the training rows of split 42, in a process of its own so that compilation of
one does not help another. The former recipe's times were measured on the same kind of machine before the memory and the
shared network replaced two networks per region (commit 5900aac); those of CatBoost and LightGBM are measured in the
same run. The last lines are geometric means over the data sets.

    USNRT_DATA=... python experiments/benchmarks/recipes.py [data set ...]
"""

import os
import subprocess
import sys

import numpy as np

from history import record

# Processor seconds of a fit by the former recipe: tree and ensemble.
BEFORE = {
    "appliances": (78.1, 510.1),
    "conditional": (76.1, 342.4),
    "electrical": (59.6, 225.1),
    "facebook1": (208.8, 927.5),
    "industry": (115.6, 458.7),
    "physicochemical": (84.3, 342.5),
    "realtime": (65.2, 383.3),
    "traffic": (43.6, 186.0),
}
RECIPES = ("usnrt-fast", "usnrt", "usnrt-ensemble", "catboost-multiquantile", "lightgbm-tuned")
# NPROC holds XLA to one thread: on two it takes a third more processor time.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "NPROC": "1"}
FIT = """
import sys
from usnrt_experiments import Cell
from usnrt_experiments.cells import run_cell
meta, _ = run_cell(Cell(sys.argv[1], sys.argv[2], 42))
print(meta["fit_cpu_seconds"], meta["metrics"]["crps"])
"""


def fit(dataset: str, recipe: str) -> tuple[float, float]:
    """Processor seconds of a fit, and its CRPS on the test rows times 100."""
    words = [sys.executable, "-c", FIT, dataset, recipe]
    result = subprocess.run(words, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, check=True)
    seconds, crps = result.stdout.split()[-2:]
    return float(seconds), float(crps)


def main(datasets: list[str]) -> None:
    if "USNRT_DATA" not in os.environ:
        print("skipped: experiments/benchmarks/recipes.py needs USNRT_DATA, the folder of the data sets")
        return
    seconds, named = {}, {}
    for dataset in datasets:
        for recipe in RECIPES:
            seconds[dataset, recipe], crps = fit(dataset, recipe)
            print(f"{dataset:16} {recipe:23} {seconds[dataset, recipe]:7.1f} s  CRPS {crps:.2f}", flush=True)

    def ratio(name: str, other: str, of: dict[str, float]) -> None:
        shares = [seconds[dataset, name] / of[dataset] for dataset in datasets if dataset in of]
        if shares:
            mean = np.exp(np.mean(np.log(shares)))
            if other in RECIPES:
                named[f"fit of {name} on {len(shares)} real tables, {other}"] = 1 / mean
            print(f"ratio: {name} / {other} {mean:.2f} ({len(shares)} data sets)")

    for place, name in enumerate(("usnrt", "usnrt-ensemble")):
        ratio(name, "the same before", {dataset: times[place] for dataset, times in BEFORE.items()})
    for name in RECIPES[:3]:
        for peer in RECIPES[3:]:
            ratio(name, peer, {dataset: seconds[dataset, peer] for dataset in datasets})
    record("recipes", named)


if __name__ == "__main__":
    main(sys.argv[1:] or ["electrical", "appliances", "physicochemical", "traffic"])
