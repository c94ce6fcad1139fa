"""A million rows through a tree of ten leaves, against a forest of 100 trees; both with all cores, then one thread.

Prints rows a second and, last, how much faster we are than scikit-learn's RandomForestRegressor.
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
    tree = USNRTRegressor.paper(min_samples_leaf=1000, max_epochs=20, bonferroni=True, random_state=0).fit(X, y)
    forest = RandomForestRegressor(100, random_state=0, n_jobs=-1).fit(X, y)
    print(f"{N_ASKED:,} rows x {D} features; our tree has {tree.n_leaves_} leaves; {os.cpu_count()} cores")
    ratios = []
    for name, n_jobs in (("all cores", -1), ("one thread", 1)):
        tree.set_params(n_jobs=n_jobs)
        forest.set_params(n_jobs=n_jobs)
        mine = seconds(lambda: tree.predict(asked, return_std=True))
        # a tenth of the rows: its time is proportional to them, and it is long
        peer = seconds(lambda: forest.predict(asked[: N_ASKED // 10]), repeats=2) * 10
        print(
            f"{name}: mean and std {N_ASKED / mine:,.0f} rows/s (goal 1,000,000); forest {N_ASKED / peer:,.0f} rows/s"
        )
        ratios.append(f"{peer / mine:.1f}x with {name}")
    print("ratio: " + ", ".join(ratios) + " (goal 1x)")


if __name__ == "__main__":
    main()
