"""A whole fit by the paper's recipe, 10,000 x 12 rows: plain PyTorch against ours, like for like.

Both do the same work: four regions (a significance level of 1e-8, which only the planted boundaries reach), every
training from new weights with newly drawn validation rows, the same number of validations per epoch (first ten, as in
our recipe, then one per batch, as in the paper's code), the same rule for stopping, one thread; three seeds each. They
find cuts in their own ways: PyTorch's program tests every tenth threshold with ``scipy.stats.levene``, as the paper's
code does, ours tests all of them with prefix sums; how long the former takes is printed. Prints seconds, and seconds of
processor time, which other programs on the machine do not lengthen; also those of a cold first fit in a new process
(imports and compilation included, all caches empty); the ratios last.
"""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace

import numpy as np

from history import record

N_ROWS, D, SEEDS = 10_000, 12, (0, 1, 2)
ALPHA, MIN_LEAF, VALIDATION = 1e-8, 1000, 0.2
VALIDATIONS = {"ten validations per epoch": 10, "a validation per batch": None}


@dataclass
class Fit:
    """Seconds, processor seconds, of which for finding cuts, regions, and epochs of all networks together."""

    seconds: float = 0.0
    processor: float = 0.0
    cuts: float = 0.0
    regions: int = 0
    epochs: int = 0

    def __str__(self):
        cuts = "" if np.isnan(self.cuts) else f" ({self.cuts:.2f} s for cuts)"
        times = f"{self.seconds:.1f} s, {self.processor:.2f} s of processor{cuts}"
        return f"{times}, {self.regions} regions, {self.epochs} epochs"


def make_rows(seed=0):
    """A smooth mean with a jump, and noise that differs between four regions."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(N_ROWS, D))
    std = np.where(X[:, 0] > 0.5, np.where(X[:, 1] > 0.4, 1.0, 0.3), np.where(X[:, 2] > 0.6, 0.25, 0.1))
    mean = np.sin(2 * np.pi * X[:, 3]) + X[:, 4] * X[:, 5] + 2 * (X[:, 0] > 0.5)
    return X, mean + std * rng.standard_normal(N_ROWS)


def ours(X, y, validations=10, seed=0):
    """Fit our estimator; the time for finding cuts is not measured by itself."""
    from usnrt.estimators.paper import PaperUSNRTRegressor

    class Estimator(PaperUSNRTRegressor):
        def _recipe(self):
            return replace(super()._recipe(), validations=validations)

    start, processor_start = time.perf_counter(), time.process_time()
    model = Estimator(alpha=ALPHA, random_state=seed, n_jobs=1).fit(X, y)
    seconds, processor = time.perf_counter() - start, time.process_time() - processor_start
    epochs = sum(len(history.valid_loss) for node in model.history_ for history in node.values())
    return Fit(seconds, processor, float("nan"), model.n_leaves_, epochs)


def theirs(X, y, validations=None, seed=0):
    """Fit the same recipe in PyTorch."""
    import peer_torch
    from peer_torch import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    total = Fit()
    start, processor_start = time.perf_counter(), time.process_time()
    raw = (X - X.mean(axis=0)) / X.std(axis=0)
    x = torch.tensor(raw, dtype=torch.float32)
    target = torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32)
    ones = torch.ones(len(y))

    def train(network, loss, goal, weight, rows):
        shuffled = rows[torch.randperm(len(rows))]
        n_valid = int(VALIDATION * len(rows))
        train_rows, valid_rows = shuffled[n_valid:], shuffled[:n_valid]
        total.epochs += peer_torch.train(
            network, loss, x, goal, weight, train_rows=train_rows, valid_rows=valid_rows, validations=validations
        )

    def outputs(network, rows):
        with torch.no_grad():
            return network(x[rows])[:, 0]

    def leaf(rows):
        weight = ones.clone()
        for _ in range(2):
            mean_network = peer_torch.make_network((D, 4 * D, 2 * D, 1))
            train(mean_network, peer_torch.squared_error, target, weight, rows)
            squared = torch.zeros(len(y))
            squared[rows] = (target[rows] - outputs(mean_network, rows)) ** 2
            variance_network = peer_torch.make_network((D, 4 * D, 2 * D, 1), torch.nn.Tanh, softplus=True)
            train(variance_network, peer_torch.variance_nll, squared, ones, rows)
            weight[rows] = 1 / (outputs(variance_network, rows) + 1e-8)
        return 1

    def grow(rows):
        if len(rows) < 2 * MIN_LEAF:
            return leaf(rows)
        network = peer_torch.make_network((D, 8 * D, 4 * D, 1))
        train(network, peer_torch.squared_error, target, ones, rows)
        residuals = (target[rows] - outputs(network, rows)).numpy().astype(np.float64)
        before = time.process_time()
        p, feature, threshold = every_tenth_threshold(raw[rows.numpy()], residuals)
        total.cuts += time.process_time() - before
        if p > ALPHA:
            return leaf(rows)
        goes_left = torch.tensor(raw[rows.numpy(), feature] <= threshold)
        return grow(rows[goes_left]) + grow(rows[~goes_left])

    total.regions = grow(torch.arange(len(y)))
    total.seconds, total.processor = time.perf_counter() - start, time.process_time() - processor_start
    return total


def every_tenth_threshold(X, residuals):
    """The best of every tenth admissible threshold of every feature by Levene's test: p, feature, threshold.

    The statistic decides, since the smallest p are 0 in floating point: the paper's code takes the first of these.
    """
    from scipy.stats import levene

    best, found = -np.inf, (1.0, 0, 0.0)
    for feature in range(X.shape[1]):
        order = np.argsort(X[:, feature])
        for i in range(MIN_LEAF, len(order) - MIN_LEAF + 1, 10):
            test = levene(residuals[order[:i]], residuals[order[i:]], center="mean")
            if test.statistic > best:
                best, found = test.statistic, (test.pvalue, feature, X[order[i - 1 : i + 1], feature].mean())
    return found


def in_new_process(cache):
    """Seconds of a process that imports, generates and fits, with its caches in the folder ``cache``."""
    environment = {**os.environ, "USNRT_CACHE": cache, "NUMBA_CACHE_DIR": os.path.join(cache, "numba")}
    start = time.perf_counter()
    told = subprocess.run(
        [sys.executable, __file__, "--ours"], env=environment, check=True, capture_output=True, text=True
    )
    return time.perf_counter() - start, float(told.stdout)


def main():
    X, y = make_rows()
    if sys.argv[1:] == ["--ours"]:
        print(ours(X, y).seconds)
        return
    with tempfile.TemporaryDirectory() as cache:
        cold, second = in_new_process(cache), in_new_process(cache)
    print(f"new process, empty caches: {cold[0]:.1f} s, of which the fit {cold[1]:.1f} s (goal under 20 s)")
    print(f"new process, caches there: {second[0]:.1f} s, of which the fit {second[1]:.1f} s")
    ratios = {}
    for name, validations in VALIDATIONS.items():
        ours(X, y, validations)  # compiles
        mine, peers = [ours(X, y, validations, seed) for seed in SEEDS], []
        for seed, own in zip(SEEDS, mine):
            print(f"ours, {name}: {own}", flush=True)
            peers.append(theirs(X, y, validations, seed))
            print(f"PyTorch, {name}: {peers[-1]}", flush=True)
        regions = {fit.regions for fit in (*mine, *peers)}
        if len(regions) > 1:
            sys.exit(f"all fits must have the same number of regions, got {sorted(regions)}: no ratio")
        own, peer, cuts = sum(f.processor for f in mine), sum(f.processor for f in peers), sum(f.cuts for f in peers)
        label = f"a fit by the paper's recipe, {regions.pop()} regions, {name}, PyTorch"
        ratios |= {label: peer / own, f"{label} without its tests": (peer - cuts) / own}
    for name, ratio in ratios.items():
        print(f"ratio: {ratio:.1f}x, {name}")
    record("fit", ratios)


if __name__ == "__main__":
    main()
