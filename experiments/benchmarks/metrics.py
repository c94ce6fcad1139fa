"""Seconds for all metrics of a 5-member normal mixture on 100,000 rows, and the CRPS of it against scoringrules.

One core; seconds are of the processor, so that other work on the machine does not count. The last line is a ratio:
seconds of scoringrules' normal-mixture CRPS over seconds of ours, the best of some runs each, so above 1 ours is
faster.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

from history import record
from usnrt.distributions import Mixture, Normal
from usnrt.metrics import evaluate


def best_seconds(call: Callable[[], Any], repeats: int) -> float:
    """The shortest of some runs: what the code takes when nothing else gets in its way."""
    seconds = []
    for _ in range(repeats):
        start = process_time()
        call()
        seconds.append(process_time() - start)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()

    rng = np.random.default_rng(0)
    shape = (options.rows, options.members)
    means, stds = rng.normal(size=shape), rng.uniform(0.2, 2.0, size=shape)
    dist = Mixture([Normal(means[:, j], stds[:, j]) for j in range(options.members)])
    y = dist.rvs(random_state=1)

    print(evaluate(dist, None, y))
    print(f"all metrics: {best_seconds(lambda: evaluate(dist, None, y), options.repeats):.2f} s")
    big = dist[np.arange(1_000_000) % options.rows]
    print(f"1,000,000 rows x 1 quantile: {best_seconds(lambda: big.ppf(0.9), 1):.2f} s")

    import scoringrules

    def peer() -> Any:
        return scoringrules.crps_mixnorm(y, means, stds, m_axis=-1)

    np.testing.assert_allclose(peer(), dist.crps(y), rtol=1e-6)
    ours, theirs = best_seconds(lambda: dist.crps(y), options.repeats), best_seconds(peer, options.repeats)
    print(f"CRPS: ours {ours:.3f} s, scoringrules {theirs:.3f} s")
    print(f"ratio {theirs / ours:.2f}")
    record("metrics", {"CRPS of a normal mixture, scoringrules": theirs / ours})


if __name__ == "__main__":
    main()
