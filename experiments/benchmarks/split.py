"""Split search: every threshold, exactly, against scipy.stats.levene at every tenth threshold.

The peer is the reference implementation's loop: for each feature, each tenth value of the sorted rows, divide the
residuals and call `scipy.stats.levene`. It would run for minutes, so that a random sample of its thresholds is timed
and scaled up to their number. One thread, same process, same data; times are of the processor, so that other work on
the machine does not count. The last line is the smallest of the ratios.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from time import process_time

import numpy as np
from scipy.stats import levene

from history import record
from usnrt.tree.split import best_split

SIZES = [(8_000, 12), (40_000, 9)]
STEP = 10
SAMPLED = 300


def make_node(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.normal(size=(n, d)))
    return X, rng.normal(size=n) * np.where(X[:, 1] > 0.3, 1.2, 1.0)


def time_ours(X: np.ndarray, residuals: np.ndarray, min_samples_leaf: int, criterion: str) -> float:
    best_split(X, residuals, min_samples_leaf=min_samples_leaf, criterion=criterion)  # compile or load
    times = []
    for _ in range(31):
        start = process_time()
        best_split(X, residuals, min_samples_leaf=min_samples_leaf, criterion=criterion)
        times.append(process_time() - start)
    return float(np.median(times))


def time_scipy(X: np.ndarray, residuals: np.ndarray, min_samples_leaf: int, center: str) -> tuple[float, int]:
    """Estimated time of all thresholds, and their number."""
    n, d = X.shape
    positions = np.arange(min_samples_leaf, n - min_samples_leaf + 1, STEP)
    n_tests = len(positions) * d
    rng = np.random.default_rng(1)
    spent = 0.0
    for _ in range(SAMPLED):
        column, position = X[:, rng.integers(d)], rng.choice(positions)
        threshold = np.partition(column, position - 1)[position - 1]
        start = process_time()
        left = column <= threshold
        levene(residuals[left], residuals[~left], center=center)
        spent += process_time() - start
    return spent / SAMPLED * n_tests, n_tests


def main() -> None:
    ratios, named = [], {}
    for n, d in SIZES:
        X, residuals = make_node(n, d)
        min_samples_leaf = n // 10
        for criterion, center in (("brown-forsythe", "median"), ("levene", "mean")):
            ours = time_ours(X, residuals, min_samples_leaf, criterion)
            peer, n_tests = time_scipy(X, residuals, min_samples_leaf, center)
            split = best_split(X, residuals, min_samples_leaf=min_samples_leaf, criterion=criterion)
            assert split is not None
            left = X[:, split.feature] <= split.threshold
            statistic = levene(residuals[left], residuals[~left], center=center).statistic
            ratios.append(peer / ours)
            named[f"{n:,} x {d}, {criterion}, scipy at every tenth threshold"] = peer / ours
            print(
                f"{n:,} x {d}, {criterion}: usnrt {split.n_candidates:,} thresholds in {1e3 * ours:.1f} ms; "
                f"scipy {n_tests:,} thresholds in {peer:.1f} s ({SAMPLED} timed, scaled up); "
                f"T^2 {split.statistic**2:.6f} against {statistic:.6f}; ratio {ratios[-1]:,.0f}x"
            )
    record("split", named)
    print(f"split search, the least of the four: {min(ratios):,.0f}x faster than scipy (goal 500x)")


if __name__ == "__main__":
    main()
