"""Tests over data sets, against scipy and by their null rates."""

import math

import numpy as np
import pytest
from scipy import stats

from usnrt_experiments.ranks import critical_difference, holm, largest_complete, ranking, signed_rank_p


@pytest.mark.parametrize("n", [4, 7, 12, 17])
def test_signed_ranks_are_scipys(n):
    rng = np.random.default_rng(n)
    for _ in range(5):
        values = rng.normal(size=n) + 0.3
        assert signed_rank_p(values) == pytest.approx(stats.wilcoxon(values, method="exact").pvalue, rel=1e-12)


def test_signed_ranks_with_ties_are_exact():
    """Every assignment of signs counted."""
    values = np.array([1.0, 1.0, -2.0, 2.0, 2.0, 3.0, -1.0, 0.0])
    kept = values[values != 0]
    ranks = stats.rankdata(np.abs(kept))
    signs = np.array(np.meshgrid(*[[0, 1]] * len(kept))).reshape(len(kept), -1)
    sums, observed = ranks @ signs, ranks[kept > 0].sum()
    expected = min(1.0, 2 * min(np.mean(sums <= observed + 1e-9), np.mean(sums >= observed - 1e-9)))
    assert signed_rank_p(values) == pytest.approx(expected, rel=1e-12)
    assert signed_rank_p([0.0, 0.0]) == 1.0


def test_signed_ranks_keep_their_level():
    rng, n_trials = np.random.default_rng(0), 1000
    rate = np.mean([signed_rank_p(rng.normal(size=10)) < 0.05 for _ in range(n_trials)])
    assert rate <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / n_trials)


def test_friedman_is_scipys():
    rng = np.random.default_rng(1)
    for values in (rng.normal(size=(9, 4)), rng.integers(0, 3, size=(9, 4)).astype(float)):
        table = {f"set {i}": dict(zip("abcd", row)) for i, row in enumerate(values)}
        found, expected = ranking(table, list("abcd")), stats.friedmanchisquare(*values.T)
        assert found.statistic == pytest.approx(expected.statistic, rel=1e-10)
        assert found.p_value == pytest.approx(expected.pvalue, rel=1e-8)
    equal = ranking({"x": {"a": 1.0, "b": 1.0}}, ["a", "b"])
    assert (equal.statistic, equal.p_value) == (0.0, 1.0)


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_critical_differences_are_those_of_demsar(k, q):
    """Table 5 of Demšar (2006)."""
    assert critical_difference(k, 14) == pytest.approx(q * math.sqrt(k * (k + 1) / 84), rel=1e-3)


def test_equal_models_rarely_leave_the_clique():
    """Nemenyi's test keeps its level over all pairs at once."""
    rng, n_trials = np.random.default_rng(2), 300
    apart = 0
    for _ in range(n_trials):
        table = {str(i): dict(zip("abcdef", row)) for i, row in enumerate(rng.normal(size=(12, 6)))}
        apart += ranking(table, list("abcdef")).cliques() != [(0, 5)]
    assert apart / n_trials <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / n_trials)


def test_cliques_join_what_is_not_distinguished():
    table = {str(i): {"a": 1.0, "b": 2.0 + i % 2, "c": 3.0 - i % 2, "d": 4.0} for i in range(14)}
    found = ranking(table, list("abcd"))
    assert found.ranks.tolist() == [1.0, 2.5, 2.5, 4.0]
    assert found.cliques() == [(1, 2)]  # the critical difference is 1.25


def test_holm():
    assert holm([0.2, 0.001, 0.04]) == pytest.approx([0.2, 0.003, 0.08])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_largest_complete_table():
    known = {"ours": {"u", "v", "w", "x"}, "a": {"u", "v", "w"}, "b": {"u", "v", "w"}, "c": {"x"}, "d": set()}
    assert largest_complete(known, "ours") == (["ours", "a", "b"], ["u", "v", "w"])
    assert largest_complete({"a": {"u"}, "b": {"u"}}, "ours") == ([], [])
    assert largest_complete({"ours": {"u"}, "b": set()}, "ours") == ([], [])
