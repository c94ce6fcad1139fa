"""When the memory is used at all: only if it is better beyond chance."""

import numpy as np
import pytest

from usnrt.experts.refine import best_candidates, pinball_losses
from usnrt.experts.weights import (
    MAX_NARROW,
    MEMORY,
    NETWORK,
    Traits,
    _is_better,
    candidate_weights,
    combined,
    fit_weights,
    losses_of,
)
from usnrt.nn.quantiles import LEVELS, POSITIONS


def narrow(location):
    """Quantile functions of a hundredth of the unit width at these locations."""
    return location[:, None] + 0.01 * POSITIONS


def weights_of(network, memory, y, weight=None):
    experts = np.stack([narrow(network), narrow(network), narrow(memory)])
    return fit_weights(
        experts, np.zeros(len(y), dtype=int), y, np.ones(len(y)) if weight is None else weight, n_leaves=1
    )[0]


@pytest.mark.parametrize("seed", range(5))
def test_twins_are_used_though_rows_without_have_large_errors(seed):
    """Of 1,000 rows, 998 have a twin with the same target; the two others decide about the error of the mean."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=1000)
    memory = y + np.concatenate([[4.0, -4.0], np.zeros(998)])
    assert weights_of(y + 0.02 * rng.normal(size=1000), memory, y)[MEMORY] > 0.5


@pytest.mark.parametrize("seed", range(20))
def test_a_memory_that_is_worse_in_the_mean_is_not_used(seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=400)
    memory = y + np.concatenate([np.full(40, 2.0), np.zeros(360)])
    weights = weights_of(y + 0.05 * rng.normal(size=400), memory, y)
    assert weights[MEMORY] <= 0.3


def test_equally_good_experts_mostly_leave_weight_to_the_network():
    """Errors are independent, so averages would be better; errors that are the same are no reason for a memory."""
    used = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y, error = rng.normal(size=300), 0.1 * rng.standard_t(2, size=300)
        used += weights_of(y + error, y + error * rng.choice([1.0, 1.02, 0.98], size=300), y)[NETWORK] < 1.0
    assert used <= 3


def test_signed_ranks_count_weights_as_evidence_only_once():
    """Without weights 60 % of the differences decide; with nearly all weight on 5 rows there is no evidence."""
    rng = np.random.default_rng(0)
    others = np.full(1000, 1.0)
    losses = others - 0.5 * np.abs(rng.normal(size=1000)) * rng.choice([1.0, -0.1], size=1000, p=[0.8, 0.2])
    losses[5] = 40.0  # makes the standard error of the mean large
    assert _is_better(losses, others, np.ones(1000)) or losses.mean() > 0.9
    heavy = np.where(np.arange(1000) < 5, 1e6, 1e-6)
    losses[:5] = [0.0, 0.5, 0.2, 1.3, 0.4]
    assert not _is_better(losses, others, heavy)
    assert _is_better(losses[6:], others[6:], np.full(994, 7.0))


def test_heavy_rows_of_a_region_do_not_outvote_the_prior():
    """Two rows of weight 1,000 prefer the second candidate, the 500 rows of the other region the first."""
    leaf = np.repeat([0, 1], [2, 500])
    losses = np.stack([np.ones(502), np.where(leaf == 0, 0.9, 1.1)])
    weight = np.where(leaf == 0, 1000.0, 1.0)
    assert best_candidates(losses, leaf, weight, 2, 50.0).tolist() == [0, 0]
    assert best_candidates(losses, leaf, np.full(502, 3.0), 2, 50.0).tolist() == [0, 0]


def test_narrow_experts_leave_a_share_to_the_others():
    weights = candidate_weights([1.0, 1.0, 0.9, 0.9, 1.0], first=1)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert weights[:, 2:4].sum(axis=1).max() == pytest.approx(MAX_NARROW)
    assert weights[:, 2:4].max() <= 0.9


@pytest.mark.parametrize(("min_errors", "used"), [(3.0, False), (1.0, True)])
def test_an_expert_of_few_parameters_needs_less_evidence(min_errors, used):
    """40 rows on which it is better by two standard errors."""
    rng = np.random.default_rng(2)
    y = rng.normal(size=40)
    simple, network = y + 0.9 * rng.normal(size=40), y + 1.1 * rng.normal(size=40)
    experts = np.stack([network[:, None] + POSITIONS, simple[:, None] + POSITIONS])
    traits = [Traits(), Traits(min_errors=min_errors, together=False)]
    weights = fit_weights(experts, np.zeros(40, dtype=int), y, np.ones(40), 1, traits)
    assert (weights[0, 1] > 0) == used


@pytest.mark.parametrize(("min_gain", "used"), [(0.0, True), (0.05, False)])
def test_an_expert_that_costs_much_must_gain_more(min_gain, used):
    """One that is better on every row, by 2 %."""
    rng = np.random.default_rng(2)
    y = rng.normal(size=200)
    error = rng.normal(size=200)
    experts = np.stack([(y + error)[:, None] + POSITIONS, (y + 0.98 * error)[:, None] + POSITIONS])
    traits = [Traits(), Traits(min_errors=1.2, together=False, min_gain=min_gain)]
    weights = fit_weights(experts, np.zeros(200, dtype=int), y, np.ones(200), 1, traits)
    assert (weights[0, 1] > 0) == used


def test_memories_come_before_experts_that_need_less_evidence():
    """A forest that is no better than the memory is not used, although it is better than the network."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=600)
    network, memory = narrow(y + rng.normal(size=600)), narrow(y + 0.2 * rng.normal(size=600))
    forest = memory + 0.2 * rng.normal(size=(600, 1))
    traits = [Traits(), Traits(), Traits(), Traits(0.9, 1.2, False, 0.005)]
    weights = fit_weights(
        np.stack([network, network, memory, forest]), np.zeros(600, dtype=int), y, np.ones(600), 1, traits
    )
    assert weights[0, 2] > 0.5
    assert weights[0, 3] < 0.2


@pytest.mark.parametrize("seed", range(20))
def test_noise_beside_a_network_has_no_weight(seed):
    """A null case of the forest: it predicts samples of the target that tell nothing."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=300)
    network = np.tile(POSITIONS, (300, 1))
    samples = np.sort(rng.normal(size=(300, 64)), axis=1)
    forest = np.stack([np.quantile(samples, level, axis=1) for level in LEVELS], axis=1)
    traits = [Traits(), Traits(0.9, 1.2, False, 0.005)]
    weights = fit_weights(np.stack([network, forest]), np.zeros(300, dtype=int), y, np.ones(300), 1, traits)
    assert weights[0, 1] == 0.0


def test_compiled_losses_are_those_of_the_combination():
    rng = np.random.default_rng(0)
    quantiles, y = np.sort(rng.normal(size=(4, 30, len(POSITIONS))), axis=2), rng.normal(size=30)
    candidates = candidate_weights([1.0, 1.0, 0.9, 0.9])
    losses = losses_of(quantiles, candidates, y)
    expected = [pinball_losses(combined(quantiles, own[None]), y) for own in candidates]
    np.testing.assert_allclose(losses, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_further_experts_must_be_better_than_the_best_without_them(seed):
    """A copy of the memory is as good as the memory, hence no reason to keep it."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=600)
    network, memory = narrow(y + rng.normal(size=600)), narrow(y + 0.3 * rng.normal(size=600))
    experts = np.stack([network, network, memory, memory])
    traits = [Traits(), Traits(), Traits(), Traits(together=False)]
    weights = fit_weights(experts, np.zeros(600, dtype=int), y, np.ones(600), 1, traits)
    assert weights[0, 2] > 0.5
    assert weights[0, 3] == 0.0
