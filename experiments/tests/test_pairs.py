"""Differences count only beyond their error: identical models rarely, planted differences nearly always."""

import math

import numpy as np
import pytest

from usnrt.paper.datasets import train_test_rows
from usnrt_experiments.jackknife import JACKKNIFED, N_BLOCKS, error_over_rows, leave_out_blocks
from usnrt_experiments.pairs import SplitValue, paired
from usnrt_experiments.scores import METRICS

N_ROWS, N_TRIALS = 400, 600
SEEDS = (42, 142, 242, 342, 442)


def tolerance(rate, n_trials, sigmas=4.0):
    """What a share of trials may exceed its expectation by."""
    return sigmas * math.sqrt(rate * (1 - rate) / n_trials)


def split_differences(rng, tests, gap=0.0):
    """Losses of two models that differ by row noise, and by noise of each training set: one value per split."""
    row_noise = rng.normal(size=N_ROWS) + gap
    return [float(row_noise[test].mean() + 0.05 * rng.normal()) for test in tests]


@pytest.fixture(scope="module")
def tests_of_splits():
    return [train_test_rows(N_ROWS, seed)[1] for seed in SEEDS]


def rate_of_counted(tests, gap=0.0, uncorrected=False):
    rng = np.random.default_rng(7)
    counted = 0
    for _ in range(N_TRIALS):
        values = split_differences(rng, tests, gap)
        if uncorrected:
            counted += abs(np.mean(values)) > 1.96 * np.std(values, ddof=1) / math.sqrt(len(values))
        else:
            first = {seed: SplitValue(value) for seed, value in zip(SEEDS, values)}
            counted += paired(first, dict.fromkeys(SEEDS, SplitValue(0.0))).counts
    return counted / N_TRIALS


def test_equal_models_are_rarely_called_different(tests_of_splits):
    """Over five overlapping splits; without the correction and with a normal quantile the rate is several times 5 %."""
    assert rate_of_counted(tests_of_splits) <= 0.05 + tolerance(0.05, N_TRIALS)
    assert rate_of_counted(tests_of_splits, uncorrected=True) > 0.10


def test_planted_differences_are_found(tests_of_splits):
    assert rate_of_counted(tests_of_splits, gap=0.5) > 0.9


def rows_of(rng, n, worse=0.0):
    y, mean = rng.normal(size=n), rng.normal(size=n) * 0.3
    return {
        "y": y, "mean": mean, "std": np.exp(rng.normal(size=n)), "pit": rng.uniform(size=n),
        "logpdf": rng.normal(size=n) - worse, "crps": rng.exponential(size=n) + worse, "curve_x": np.zeros(7),
    }  # fmt: skip


def test_one_split_with_errors_over_rows():
    """Blocks of rows have the error of the mean: equal models differ in 5 % of the trials, others nearly always."""
    rng, n_trials = np.random.default_rng(3), 120
    names = ("crps", "nll", "rmse", "ece")
    counted = dict.fromkeys(names, 0)
    for _ in range(n_trials):
        two = [rows_of(rng, 200) for _ in range(2)]
        blocks = [leave_out_blocks(rows) for rows in two]
        for name in names:
            pair = [{42: SplitValue(METRICS[name](r), tuple(b[name]))} for r, b in zip(two, blocks)]
            counted[name] += paired(*pair).counts
    assert max(counted.values()) / n_trials <= 0.05 + tolerance(0.05, n_trials)
    pair = [
        {42: SplitValue(METRICS["crps"](r), tuple(leave_out_blocks(r)["crps"]))}
        for r in (rows_of(rng, 400, worse=1.0), rows_of(rng, 400))
    ]
    assert paired(*pair).verdict == "higher"
    assert paired(*pair[::-1]).verdict == "lower"


def test_the_jackknife_has_the_error_of_a_mean():
    """With blocks of one row it is the usual standard error, times t / z."""
    rng = np.random.default_rng(0)
    difference = rng.normal(size=N_BLOCKS)
    left_out = (difference.sum() - difference) / (N_BLOCKS - 1)
    usual = difference.std(ddof=1) / math.sqrt(N_BLOCKS)
    assert error_over_rows(left_out, np.zeros(N_BLOCKS)) == pytest.approx(usual * 2.063899 / 1.959964, rel=1e-5)
    assert math.isnan(error_over_rows([math.inf] * N_BLOCKS, np.zeros(N_BLOCKS)))


def test_blocks_of_a_record():
    rows = rows_of(np.random.default_rng(1), 100)
    found = leave_out_blocks(rows)
    assert set(found) == set(JACKKNIFED)
    kept = np.arange(100) % N_BLOCKS != 3
    assert found["ece"][3] == pytest.approx(METRICS["ece"]({"pit": rows["pit"][kept]}), rel=1e-6)
    assert leave_out_blocks(rows_of(np.random.default_rng(1), 49)) == {}


def test_what_is_compared_and_over_what():
    blocks = tuple(np.linspace(1.0, 1.001, N_BLOCKS))
    one = {42: SplitValue(1.0, blocks), 142: SplitValue(1.2), 242: SplitValue(1.1)}
    other = {42: SplitValue(2.0, blocks[::-1]), 142: SplitValue(2.1), 442: SplitValue(9.0)}
    assert paired(one, {442: SplitValue(1.0)}) is None
    alone = paired({42: one[42]}, other)
    assert (alone.n_splits, alone.basis, alone.verdict) == (1, "rows", "lower")
    assert paired({142: one[142]}, other).verdict == "unknown"
    # Two splits: the larger error of rows and splits, with the errors of rows that are known.
    both = paired(one, other)
    assert (both.n_splits, both.basis) == (2, "rows")
    assert both.std_error == pytest.approx(math.sqrt(0.75 * 0.005))
    three = paired(one, {seed: SplitValue(v) for seed, v in zip((42, 142, 242), (1.5, 1.6, 1.7))})
    assert (three.basis, three.n_splits) == ("splits", 3)
    assert three.half_width == pytest.approx(4.302653 * math.sqrt((1 / 3 + 0.25) * np.var([-0.5, -0.4, -0.6], ddof=1)))


def test_infinite_values():
    finite, infinite = {42: SplitValue(1.0)}, {42: SplitValue(math.inf)}
    assert paired(finite, infinite).verdict == "lower"
    assert paired(infinite, finite).verdict == "higher"
    assert paired(infinite, infinite).verdict == "unknown"
