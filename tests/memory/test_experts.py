"""When the memory is used at all: only if it is better beyond chance."""

import numpy as np
import pytest

from usnrt.nn.quantiles import POSITIONS
from usnrt.tree.experts import MEMORY, NETWORK, fit_weights


def narrow(location):
    """Quantile functions of a hundredth of the unit width at these locations."""
    return location[:, None] + 0.01 * POSITIONS


def weights_of(network, memory, y):
    experts = np.stack([narrow(network), narrow(network), narrow(memory)])
    return fit_weights(experts, np.zeros(len(y), dtype=int), y, np.ones(len(y)), n_leaves=1)[0]


@pytest.mark.parametrize("seed", range(5))
def test_twins_are_used_though_a_few_rows_without_a_twin_have_large_errors(seed):
    """Of 1,000 rows, 998 have a twin with the same target; the two others decide about the error of the mean."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=1000)
    memory = y + np.concatenate([[4.0, -4.0], np.zeros(998)])
    assert weights_of(y + 0.02 * rng.normal(size=1000), memory, y)[MEMORY] > 0.5


@pytest.mark.parametrize("seed", range(20))
def test_a_memory_that_is_worse_in_the_mean_is_not_used_whatever_the_ranks(seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=400)
    memory = y + np.concatenate([np.full(40, 2.0), np.zeros(360)])
    weights = weights_of(y + 0.05 * rng.normal(size=400), memory, y)
    assert weights[MEMORY] <= 0.3


def test_equally_good_experts_leave_all_weight_to_the_network_in_most_tables():
    """Errors are independent, so averages would be better; errors that are the same are no reason for a memory."""
    used = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y, error = rng.normal(size=300), 0.1 * rng.standard_t(2, size=300)
        used += weights_of(y + error, y + error * rng.choice([1.0, 1.02, 0.98], size=300), y)[NETWORK] < 1.0
    assert used <= 3
