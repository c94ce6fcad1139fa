"""One training step: eager PyTorch against our compiled loop, [8d, 4d], batch 64, Adam, one thread each.

Times are of the processor, so that other work on the machine does not count.
Prints microseconds a step and GFLOP/s beside those of a large float32 product, and the ratios last.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

from time import process_time

import numpy as np

from history import record
from peer_torch import make_network, squared_error, torch
from usnrt.nn import losses
from usnrt.nn.device import DeviceTable
from usnrt.nn.jax_epochs import JaxEpochs
from usnrt.nn.mlp import MLP
from usnrt.nn.train import Training, train

N_ROWS, BATCH, REPEATS = 6400, 64, 5


def ours(x, y, d):
    """Seconds a step, validation left out (one row validates)."""
    network, table = MLP((d, 8 * d, 4 * d, 1)), DeviceTable(x)
    rows, valid = np.arange(N_ROWS), np.arange(1)

    def run(epochs):
        params, training = network.init(np.random.default_rng(0)), Training(max_epochs=epochs, patience=epochs)
        start = process_time()
        program = JaxEpochs(network, losses.squared_error, table, y, None, (rows, valid), training)
        train(program, params, np.random.default_rng(0))
        return process_time() - start

    run(1)
    return min(run(10) for _ in range(REPEATS)) / (10 * N_ROWS / BATCH)


def theirs(x, y, d):
    """Seconds a step in eager PyTorch."""
    torch.set_num_threads(1)
    network = make_network((d, 8 * d, 4 * d, 1))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    x, y, weight = torch.tensor(x), torch.tensor(y, dtype=torch.float32), torch.ones(len(y))

    def run(steps=300):
        rows = torch.randperm(N_ROWS)
        start = process_time()
        for i in range(steps):
            batch = rows[(i * BATCH) % N_ROWS :][:BATCH]
            optimiser.zero_grad()
            squared_error(network(x[batch])[:, 0], y[batch], weight[batch]).backward()
            optimiser.step()
        return (process_time() - start) / steps

    return min(run() for _ in range(REPEATS))


def peak_gflops(size=1024):
    """GFLOP/s of a large float32 product on one core."""
    a, b = np.random.default_rng(0).standard_normal((2, size, size)).astype(np.float32)
    times = []
    for _ in range(5):
        start = process_time()
        a @ b
        times.append(process_time() - start)
    return 2 * size**3 / min(times) / 1e9


def main():
    rng = np.random.default_rng(0)
    peak = peak_gflops()
    print(f"large float32 product: {peak:.0f} GFLOP/s on one core")
    ratios, named = [], {}
    for d, goal in ((12, 8.0), (52, 1.5)):
        x = rng.standard_normal((N_ROWS, d)).astype(np.float32)
        y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2]
        mine, peer = ours(x, y, d), theirs(x, y, d)
        flop = 6 * BATCH * (d * 8 * d + 8 * d * 4 * d + 4 * d)
        speed = flop / mine / 1e9
        print(
            f"d = {d}: PyTorch eager {peer * 1e6:.0f} us a step, ours {mine * 1e6:.0f} us "
            f"({speed:.0f} GFLOP/s, {speed / peak:.0%} of the large product)"
        )
        named[f"a training step at d = {d}, PyTorch eager"] = peer / mine
        ratios.append(f"{peer / mine:.1f}x at d = {d} (goal {goal}x)")
    record("engine", named)
    print("ratio: " + ", ".join(ratios))


if __name__ == "__main__":
    main()
