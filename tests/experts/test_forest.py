"""The forest expert: how its trees grow, weights as repetitions, rows that it has not seen, and its bounds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.datasets import make_friedman1
from sklearn.ensemble import ExtraTreesRegressor

from usnrt import USNRTRegressor
from usnrt.experts import _forest_kernel, forest, forest_growth
from usnrt.experts.base import Query
from usnrt.experts.forest import ForestExpert
from usnrt.experts.forest_growth import Growth
from usnrt.nn.quantiles import MEDIAN
from usnrt.tables.training import TrainingTable, TreeRows, distinct_rows
from usnrt.utils.context import FitContext
from usnrt.utils.progress import FitStopped, Progress


def tree_rows(x, y, weight=None, share=0.2):
    weight = np.ones(len(y)) if weight is None else weight
    is_validation = np.random.default_rng(1).random(len(y)) < share
    table = TrainingTable(x, x.astype(np.float32), y, weight)
    return TreeRows(table, np.arange(x.shape[1]), np.zeros(x.shape[1], dtype=np.int64), is_validation)


def steps(n=600, n_noise=2, seed=0):
    """A target of steps that one column determines."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 1 + n_noise))
    return x, np.floor(8.0 * x[:, 0])


def query(x):
    return Query(x, x.astype(np.float32), np.zeros(len(x), dtype=np.int64))


def grown(rows, share=1.0, n_trees=4, seed=3):
    return Growth.of(rows, FitContext(seed)).grown(share, n_trees)


def leaf_of(tree, x):
    """The leaf of each row, by a plain loop."""
    leaves = []
    for row in x:
        node = 0
        while tree.feature[node] >= 0:
            node = node + 1 if row[tree.feature[node]] <= tree.value[node] else tree.right[node]
        leaves.append(node)
    return np.array(leaves)


def test_every_training_row_ends_among_rows_of_its_target():
    x, y = steps()
    rows = tree_rows(x, y)
    training = rows.training
    for tree in grown(rows):
        leaf = leaf_of(tree, rows.table.inputs[training])
        np.testing.assert_array_equal(tree.value[leaf], y[training].astype(np.float32))
        assert set(leaf) == set(np.flatnonzero(tree.feature < 0))


def test_equal_rows_have_one_leaf_with_their_weighted_mean():
    x, weight = np.repeat([[0.0], [1.0]], [3, 1], axis=0), np.array([1.0, 2.0, 5.0, 1.0])
    rows = tree_rows(np.tile(x, (40, 1)), np.tile([1.0, 2.0, 4.0, 9.0], 40), np.tile(weight, 40), share=0.0)
    (tree,) = grown(rows, n_trees=1)
    assert tree.feature.tolist() == [0, -1, -1]
    np.testing.assert_allclose(tree.value[1:], [25.0 / 8.0, 9.0])


def test_random_numbers_are_uniform_and_follow_from_the_state():
    state, states = np.uint64(12345), []
    for _ in range(4000):
        state = np.uint64(_forest_kernel.next_random(state))  # compiled, it returns an int
        states.append(int(state))
    parts = np.array([[state % 2**22, (state >> 22) % 2**22, (state >> 44) * 4] for state in states]) / 2**22
    assert all(kstest(own, "uniform").pvalue > 0.01 for own in parts.T)
    assert np.abs(np.corrcoef(np.concatenate([parts[1:], parts[:-1]], axis=1).T) - np.eye(6)).max() < 0.06
    first = 12345 ^ (12345 << 13) % 2**64
    first ^= first >> 7
    assert states[0] == first ^ (first << 17) % 2**64


def test_splits_are_uniform_between_the_ends_of_a_random_column():
    """Without a target to follow, of two rows: each column is as likely, and each threshold."""
    state, columns, places = np.uint64(7), [], []
    x = np.array([[0.0, 1.0, 5.0, 4.0], [2.0, 1.0, 3.0, 6.0]], dtype=np.float32)
    for _ in range(3000):
        state, column, threshold = _forest_kernel._split_pair(np.uint64(state), x, 0, 1)
        columns.append(column)
        places.append((threshold - x[:, column].min()) / 2.0)
    counts = np.bincount(columns, minlength=4)
    # the constant column leaves its turn to the next one
    np.testing.assert_allclose(counts / 3000, [0.25, 0.0, 0.5, 0.25], atol=0.04)
    assert kstest(places, "uniform").pvalue > 0.01
    assert min(places) >= 0.0
    assert max(places) < 1.0


def test_drawn_columns_are_not_constant_and_equally_likely():
    low, high = np.zeros(6, np.float32), np.array([1, 0, 1, 1, 0, 1], np.float32)
    thresholds, columns, drawn = np.empty((2, 6), np.float32), np.empty(6, np.int64), []
    state = np.uint64(1)
    for _ in range(2000):
        state, n_drawn = _forest_kernel._draw(np.uint64(state), low, high, 2, columns, thresholds)
        assert n_drawn == 2
        assert columns[0] != columns[1]
        assert (thresholds[:, columns[:2]] < 1.0).all()
        drawn += columns[:2].tolist()
    np.testing.assert_allclose(np.bincount(drawn, minlength=6) / 4000, [0.25, 0, 0.25, 0.25, 0, 0.25], atol=0.03)
    assert _forest_kernel._draw(np.uint64(state), low, high, 5, columns, thresholds)[1] == 4
    assert _forest_kernel._draw(np.uint64(state), low, low, 5, columns, thresholds)[1] == 0


def test_sums_and_ranges_are_those_of_numpy():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(101, 8)).astype(np.float32), rng.normal(size=101)
    weight, order = rng.integers(1, 4, 101).astype(float), rng.permutation(101).astype(np.int32)
    for start, stop in ((0, 101), (10, 13), (3, 4), (20, 28)):
        own = order[start:stop]
        low, high = np.empty(8, np.float32), np.empty(8, np.float32)
        _forest_kernel._ranges(x, order, start, stop, low, high)
        np.testing.assert_array_equal(low, x[own].min(axis=0))
        np.testing.assert_array_equal(high, x[own].max(axis=0))
        thresholds, sums = rng.normal(size=(2, 8)).astype(np.float32), np.empty((4, 8), np.float32)
        _forest_kernel._sums_below(x, y, weight, order, start, stop, 0.5, thresholds, sums)
        below = x[own, None] <= thresholds
        np.testing.assert_allclose(sums[:2], (below * weight[own, None, None]).sum(axis=0), rtol=1e-5)
        expected = (below * (weight[own] * (y[own] - 0.5))[:, None, None]).sum(axis=0)
        np.testing.assert_allclose(sums[2:], expected, rtol=1e-4, atol=1e-5)


def test_forests_predict_as_well_as_those_of_scikit_learn():
    """Friedman's function, two thresholds instead of one: at most 2 % worse, and mostly better."""
    x, y = make_friedman1(3000, noise=0.5, random_state=0)
    rows = tree_rows(x, y, share=0.0)
    new, truth = make_friedman1(2000, noise=0.0, random_state=1)
    new = new.astype(np.float32)
    expert = ForestExpert.fit(rows, FitContext(3)).refit(rows, FitContext(3))
    peer = ExtraTreesRegressor(forest.N_TREES, max_features=int(expert.share * 10), random_state=3, n_jobs=1).fit(x, y)
    own = np.mean((expert.leaf_values(new).mean(axis=1) - truth) ** 2)
    assert own < 1.02 * np.mean((peer.predict(new) - truth) ** 2)
    np.testing.assert_array_equal(expert.leaf_values(new, n_threads=3), expert.leaf_values(new))


@pytest.mark.parametrize("shares", [(1.0, 0.05), (0.05, 1.0)])
def test_validation_rows_choose_how_many_inputs_a_split_tries(shares, monkeypatch):
    """With one useful column of 21, splits have to try all of them."""
    monkeypatch.setattr(forest, "SHARES_TRIED", shares)
    x, y = steps(n_noise=20)
    assert ForestExpert.fit(tree_rows(x, y), FitContext(0)).share == 1.0


def test_few_inputs_have_no_shares_that_are_the_same():
    x, y = steps(n_noise=0)
    assert ForestExpert.fit(tree_rows(x, y), FitContext(0)).share == 1.0


def test_threads_do_not_matter_and_more_trees_neither():
    x, y = steps()
    rows = tree_rows(x, y)
    one, two = (ForestExpert.fit(rows, FitContext(0, n_threads=n_threads)) for n_threads in (1, 2))
    for name in ("root", "feature", "right", "value"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    few, many = grown(rows, n_trees=3), grown(rows, n_trees=6)
    np.testing.assert_array_equal(few[2].value, many[2].value)
    assert len(many[2].value) != len(many[3].value) or (many[2].value != many[3].value).any()


def test_weights_and_repeated_rows_give_equal_forests():
    x, y = steps(300)
    count = np.random.default_rng(0).integers(1, 4, 300)
    again = np.repeat(np.arange(300), count)
    expert = []
    for rows in (distinct_rows(x, y, count.astype(float)), distinct_rows(x[again], y[again], np.ones(len(again)))):
        expert.append(ForestExpert.fit(tree_rows(rows.raw, rows.target, rows.weight), FitContext(0)))
    np.testing.assert_array_equal(expert[0].value, expert[1].value)
    unweighted = ForestExpert.fit(tree_rows(rows.raw, rows.target), FitContext(0))
    assert len(unweighted.value) != len(expert[0].value) or (unweighted.value != expert[0].value).any()


def test_a_forest_is_bounded_and_small_tables_have_none(monkeypatch):
    x, y = steps(90)
    assert ForestExpert.fit(tree_rows(x, y, share=0.0), FitContext(0)) is None
    x, y = steps(400)
    rows = tree_rows(x, y)
    trial = ForestExpert.fit(rows, FitContext(0))
    assert len(trial.root) == forest.FEW_TREES
    monkeypatch.setattr(forest_growth, "MAX_NODES", 10_000)
    assert len(trial.refit(rows, FitContext(0)).root) == forest_growth.MIN_TREES


def test_a_fit_that_is_to_end_ends_before_the_next_trees():
    class Stopping(Progress):
        def check(self):
            raise FitStopped

    x, y = steps()
    with pytest.raises(FitStopped):
        ForestExpert.fit(tree_rows(x, y), FitContext(0, progress=Stopping()))


def test_refit_learns_from_all_rows():
    x, y = steps()
    rows = tree_rows(x, y)
    expert = ForestExpert.fit(rows, FitContext(0))
    final = expert.refit(replace(rows, is_validation=np.zeros(len(y), dtype=bool)), FitContext(0))
    held = rows.is_validation
    np.testing.assert_allclose(final.quantile_functions(query(x[held]))[:, MEDIAN], y[held])
    assert (expert.quantile_functions(query(x[held]))[:, MEDIAN] != y[held]).any()
    assert final.share == expert.share
    assert len(final.root) == forest.N_TREES


def test_a_circle_does_not_fit_together():
    x, y = steps()
    expert = ForestExpert.fit(tree_rows(x, y), FitContext(0))
    assert expert.fits_together()
    assert not replace(expert, right=np.where(expert.right > 0, 1, -1).astype(np.int32)).fits_together()


@pytest.mark.parametrize("memory", [True, False])
def test_steps_get_the_forest_unless_no_row_is_to_be_kept(memory):
    x, y = steps(1500, n_noise=6)
    model = USNRTRegressor(hidden=(16,), max_epochs=10, memory=memory, random_state=0, n_jobs=1).fit(x, y)
    assert ("forest" in model.model_.expert_names) == memory
    assert "forest" not in model.rules().columns or (model.rules()["forest"] > 0.3).any()
    assert memory == (model.model_.rows_in_memory > 0)


def test_noise_has_no_forest():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3))
    model = USNRTRegressor(hidden=(16,), max_epochs=20, random_state=0, n_jobs=1).fit(x, rng.normal(size=600))
    assert "forest" not in model.model_.expert_names


def test_forests_that_are_judged_have_as_many_trees_as_the_one_that_predicts(monkeypatch):
    x, y = steps()
    rows = tree_rows(x, y)
    trial = ForestExpert.fit(rows, FitContext(0))
    everything, most = np.zeros(len(y), dtype=bool), ~rows.is_validation
    for n_trees, numbers in ((forest.N_TREES, forest.MANY_NUMBERS), (forest.FEW_TREES, 10)):
        monkeypatch.setattr(forest, "MANY_NUMBERS", numbers)
        for is_validation in (rows.is_validation, everything):
            grown_again = trial.refit(replace(rows, is_validation=is_validation), FitContext(0))
            assert len(grown_again.root) == n_trees
        assert len(trial.refit(replace(rows, is_validation=most), FitContext(0)).root) == forest.FEW_TREES


@pytest.mark.parametrize("experts", [("forest",), ("forest", "linear")])
def test_a_forest_without_a_network_has_a_width(experts):
    """Where the leaves of a row agree, its quantile function has none: a constant is combined with it."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 12, (1500, 3)).astype(float)
    y = np.round(X[:, 0] + 0.3 * X[:, 1] ** 2 + rng.standard_normal(1500) * (X[:, 2] > 6))
    model = USNRTRegressor(experts=experts, validation=1, random_state=0).fit(X[:1000], y[:1000])
    dist = model.predict_dist(X[1000:])
    assert dist.crps(y[1000:]).mean() < 0.1 * y.std()
    assert dist.std().max() < 3.0 * y.std()
    low, high = model.predict_interval(X[1000:], 0.9).T
    assert abs(((low <= y[1000:]) & (y[1000:] <= high)).mean() - 0.9) < 4 * np.sqrt(0.09 / 200 + 0.09 / 500)
