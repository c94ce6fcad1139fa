"""A million rows through trees by the paper's and by the default recipe, against a forest of 100 trees.

All with all cores, then one thread. Prints rows per second and, last, how much faster than scikit-learn's
RandomForestRegressor the two are. The default recipe has larger networks and calibrates and checks the support of rows.
"""

import os
import time

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from usnrt import USNRTRegressor

N_TRAIN, N_ASKED, D, REPEATS = 20_000, 1_000_000, 12, 5


def make_rows(n, seed):
    """Ten stripes along the first feature, each noisier than the one before."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, D))
    std = 0.05 * 1.5 ** np.floor(10 * X[:, 0])
    return X, np.sin(5 * X[:, 1]) + X[:, 2] * X[:, 3] + std * rng.standard_normal(n)


def seconds(ask, repeats=REPEATS):
    """The best of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        ask()
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    X, y = make_rows(N_TRAIN, seed=0)
    asked, _ = make_rows(N_ASKED, seed=1)
    trees = {
        "paper": USNRTRegressor.paper(min_samples_leaf=1000, max_epochs=20, alpha=1e-6, random_state=0).fit(X, y),
        "default": USNRTRegressor(min_samples_leaf=1000, max_epochs=20, random_state=0).fit(X, y),
    }
    forest = RandomForestRegressor(100, random_state=0, n_jobs=-1).fit(X, y)
    leaves = ", ".join(f"{recipe} {tree.n_leaves_}" for recipe, tree in trees.items())
    print(f"{N_ASKED:,} rows x {D} features; leaves: {leaves}; {os.cpu_count()} cores")
    ratios = []
    for name, n_jobs in (("all cores", -1), ("one thread", 1)):
        forest.set_params(n_jobs=n_jobs)
        # a tenth of the rows: its time is proportional to them, and it is long
        peer = seconds(lambda: forest.predict(asked[: N_ASKED // 10]), repeats=2) * 10
        print(f"{name}: forest {N_ASKED / peer:,.0f} rows/s, mean only")
        for recipe, tree in trees.items():
            tree.set_params(n_jobs=n_jobs)
            mine = seconds(lambda tree=tree: tree.predict(asked, return_std=True), REPEATS if recipe == "paper" else 2)
            print(f"{name}: mean and std by the {recipe} recipe {N_ASKED / mine:,.0f} rows/s")
            ratios.append(f"{peer / mine:.1f}x ({recipe}, {name})")
    print("ratio: " + ", ".join(ratios))


if __name__ == "__main__":
    main()
