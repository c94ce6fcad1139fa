"""Pairs of members on rows that neither was trained on: their own error, and that of the mean of all."""

from dataclasses import replace

import numpy as np
import pytest

from usnrt.model.pairs import Pairs, capped_disagreement, level_factors, mean_error_factor, own_error_share
from usnrt.model.roles import draw_folds
from usnrt.nn.quantiles import POSITIONS


def known_members(n=40_000, shared=0.7, n_members=2, seed=0):
    """Members that err by common noise and by noise of their own, and state their variance of 1 rightly.

    Returns the pairs of the first two, scores of a single member, and scores of the mean of all.
    """
    rng = np.random.default_rng(seed)
    common = np.sqrt(shared) * rng.normal(size=n)
    own = np.sqrt(1 - shared) * rng.normal(size=(n_members, n))
    pairs = Pairs(
        np.arange(n), np.ones(n), capped_disagreement(POSITIONS - own[:2, :, None]), common + own[:2],
        common + own[:2].mean(axis=0),
    )  # fmt: skip
    return pairs, common + own[0], common + own.mean(axis=0)


@pytest.mark.parametrize("shared", [0.2, 0.7, 1.0])
def test_the_members_own_error_is_found_where_it_is_known(shared):
    pairs, *_ = known_members(shared=shared)
    assert own_error_share(pairs) == pytest.approx(1 - shared, abs=0.03)
    # the cap takes a little off where members differ most
    assert np.mean(pairs.disagreement) == pytest.approx(1 - shared, abs=0.05)


def test_both_members_of_a_pair_count():
    """A pair that is compared with its first member only looks better the worse that one happens to be."""
    pairs, *_ = known_members(shared=0.5)
    worse = replace(pairs, single=np.stack([1.2 * pairs.single[0], pairs.single[1]]))
    swapped = replace(worse, single=worse.single[::-1])
    assert own_error_share(worse) == pytest.approx(own_error_share(swapped))


@pytest.mark.parametrize("n_members", [2, 3, 5, 8])
def test_the_error_of_the_mean_follows_from_members_of_folds(n_members):
    """Members that are means of their training rows: the squared error of their mean is known."""
    rng = np.random.default_rng(n_members)
    estimated, true = [], []
    for _ in range(2000):
        is_training = ~draw_folds(200, n_members, rng)
        means = (is_training @ rng.normal(size=200)) / is_training.sum(axis=1)
        estimated.append(mean_error_factor(~is_training) * means.var(ddof=1))
        true.append(means.mean() ** 2)
    errors = np.std(estimated) + np.std(true)
    assert np.mean(estimated) == pytest.approx(np.mean(true), abs=4 * errors / np.sqrt(2000))


def test_members_of_equal_rows_reveal_nothing_about_them():
    assert mean_error_factor(np.tile(np.arange(10) < 3, (4, 1))) == 1.0
    assert mean_error_factor(np.zeros((3, 10), dtype=bool)) == 1.0


@pytest.mark.parametrize("n_members", [3, 5, 10])
@pytest.mark.parametrize("shared", [0.3, 0.8, 1.0])
def test_scores_of_single_members_become_those_of_the_ensemble(n_members, shared):
    """At every level: narrowed by what is measured on pairs, single scores are distributed as those of the mean."""
    pairs, single, truth = known_members(shared=shared, n_members=n_members)
    own = own_error_share(pairs)
    remaining = 1.0 - own * (1.0 - 1.0 / n_members)  # what quantile functions are narrowed by, in squares
    expected = single * level_factors(pairs, single, np.ones(len(single), int), own, n_members) * np.sqrt(remaining)
    levels = [0.1, 0.3, 0.5, 0.7, 0.9, 0.95]
    ratio = np.quantile(np.abs(expected), levels) / np.quantile(np.abs(truth), levels)
    np.testing.assert_allclose(ratio, 1.0, atol=0.06)


def test_levels_are_corrected_apart():
    """Large errors are common to all members, small ones are not: one factor would be wrong for both."""
    rng = np.random.default_rng(0)
    n, n_members = 60_000, 5
    common = np.where(rng.random(n) < 0.2, 3.0, 0.3) * rng.normal(size=n)
    own = 0.7 * rng.normal(size=(n_members, n))
    pairs = Pairs(np.arange(n), np.ones(n), np.full(n, 0.5), common + own[:2], common + own[:2].mean(axis=0))
    single, truth, share = common + own[0], common + own.mean(axis=0), own_error_share(pairs)
    one_factor = np.sqrt(1.0 - share * (1.0 - 1.0 / n_members))
    levels = [0.3, 0.5, 0.9]
    wanted = np.quantile(np.abs(truth), levels)
    factors = level_factors(pairs, single, np.ones(n, int), share, n_members)
    np.testing.assert_allclose(np.quantile(np.abs(single * factors * one_factor), levels) / wanted, 1.0, atol=0.1)
    assert np.abs(np.quantile(np.abs(single * one_factor), levels) / wanted - 1.0).max() > 0.15
