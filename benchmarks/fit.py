"""A whole fit by the paper's recipe, 10,000 x 12 rows: plain PyTorch against ours, both with their usual threads.

The PyTorch program does what the paper's code does: every training starts from new weights and draws its validation
rows anew, the networks are validated after every batch, and every tenth threshold is tested with
``scipy.stats.levene``. Prints seconds, and seconds of processor time, which other programs on the machine do not
lengthen; also those of a cold first fit in a new process (imports and compilation included, all caches empty); and the
ratio last.
"""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from history import record

N_ROWS, D, REPEATS = 10_000, 12, 3
ALPHA, MIN_LEAF, VALIDATION = 0.01, 1000, 0.2


def make_rows(seed=0):
    """A smooth mean with a jump, and noise that differs between four regions."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(N_ROWS, D))
    std = np.where(X[:, 0] > 0.5, np.where(X[:, 1] > 0.4, 1.0, 0.3), np.where(X[:, 2] > 0.6, 0.25, 0.1))
    mean = np.sin(2 * np.pi * X[:, 3]) + X[:, 4] * X[:, 5] + 2 * (X[:, 0] > 0.5)
    return X, mean + std * rng.standard_normal(N_ROWS)


def ours(X, y):
    """Fit and tell seconds, processor seconds and leaves."""
    from usnrt import USNRTRegressor

    start, processor_start = time.perf_counter(), time.process_time()
    model = USNRTRegressor.paper(random_state=0).fit(X, y)
    return time.perf_counter() - start, time.process_time() - processor_start, model.n_leaves_


def theirs(X, y):
    """The same recipe in PyTorch: seconds, processor seconds and leaves."""
    import peer_torch
    from peer_torch import torch

    torch.manual_seed(0)
    start, processor_start = time.perf_counter(), time.process_time()
    raw = (X - X.mean(axis=0)) / X.std(axis=0)
    x = torch.tensor(raw, dtype=torch.float32)
    target = torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32)
    ones = torch.ones(len(y))

    def train(network, loss, goal, weight, rows):
        shuffled = rows[torch.randperm(len(rows))]
        n_valid = int(VALIDATION * len(rows))
        train_rows, valid_rows = shuffled[n_valid:], shuffled[:n_valid]
        return peer_torch.train(network, loss, x, goal, weight, train_rows=train_rows, valid_rows=valid_rows)

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
        p, feature, threshold = every_tenth_threshold(raw[rows.numpy()], residuals)
        if p > ALPHA:
            return leaf(rows)
        goes_left = torch.tensor(raw[rows.numpy(), feature] <= threshold)
        return grow(rows[goes_left]) + grow(rows[~goes_left])

    n_leaves = grow(torch.arange(len(y)))
    return time.perf_counter() - start, time.process_time() - processor_start, n_leaves


def every_tenth_threshold(X, residuals):
    """The smallest p of Levene's test over every tenth admissible threshold of every feature."""
    from scipy.stats import levene

    best = (np.inf, 0, 0.0)
    for feature in range(X.shape[1]):
        order = np.argsort(X[:, feature])
        for i in range(MIN_LEAF, len(order) - MIN_LEAF + 1, 10):
            p = levene(residuals[order[:i]], residuals[order[i:]], center="mean").pvalue
            if p < best[0]:
                best = p, feature, X[order[i - 1 : i + 1], feature].mean()
    return best


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
        print(ours(X, y)[0])
        return
    with tempfile.TemporaryDirectory() as cache:
        cold, second = in_new_process(cache), in_new_process(cache)
    print(f"new process, empty caches: {cold[0]:.1f} s, of which the fit {cold[1]:.1f} s (goal under 20 s)")
    print(f"new process, caches there: {second[0]:.1f} s, of which the fit {second[1]:.1f} s")
    ours(X, y)
    mine, my_processor, leaves = min(ours(X, y) for _ in range(REPEATS))
    print(f"ours, warm: {mine:.2f} s ({my_processor:.2f} s of processor), {leaves} leaves, {os.cpu_count()} threads")
    peer, processor, leaves = theirs(X, y)
    from peer_torch import torch

    n_threads = torch.get_num_threads()
    print(f"PyTorch: {peer:.1f} s ({processor:.1f} s of processor), {leaves} leaves, {n_threads} threads")
    print(f"ratio: {peer / mine:.1f}x (goal 25x), of processor time {processor / my_processor:.1f}x")
    record("fit", {"a fit by the paper's recipe, PyTorch": processor / my_processor})


if __name__ == "__main__":
    main()
