"""The forest expert: the trees of scikit-learn, weights as repetitions, rows that it has not seen, and its bounds."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from usnrt import USNRTRegressor
from usnrt.experts import forest
from usnrt.experts.base import Query
from usnrt.experts.forest import ForestExpert
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


def test_leaves_are_those_of_scikit_learn():
    x, y = steps()
    rows = tree_rows(x, y)
    expert = ForestExpert.fit(rows, FitContext(3))
    training = ~rows.is_validation
    peer = ExtraTreesRegressor(
        forest.JUDGED_TREES, max_features=max(1, int(expert.share * 3)), random_state=forest._seed(3)
    ).fit(x[training].astype(np.float32), y[training])
    new = steps(200, seed=5)[0].astype(np.float32)
    leaves = np.sort([tree.predict(new) for tree in peer.estimators_], axis=0).T
    np.testing.assert_allclose(expert.leaf_values(new), leaves, rtol=1e-6)
    np.testing.assert_array_equal(expert.leaf_values(new, n_threads=3), expert.leaf_values(new))


@pytest.mark.parametrize("shares", [(1.0, 0.05), (0.05, 1.0)])
def test_validation_rows_choose_how_many_inputs_a_split_tries(shares, monkeypatch):
    """With one useful column of 21, splits have to try all of them."""
    monkeypatch.setattr(forest, "SHARES_TRIED", shares)
    x, y = steps(n_noise=20)
    assert ForestExpert.fit(tree_rows(x, y), FitContext(0)).share == 1.0


def test_threads_do_not_matter_and_batches_neither(monkeypatch):
    x, y = steps()
    one = ForestExpert.fit(tree_rows(x, y), FitContext(0, n_threads=1))
    monkeypatch.setattr(forest, "BATCH", 5)
    two = ForestExpert.fit(tree_rows(x, y), FitContext(0, n_threads=2))
    for name in ("root", "feature", "right", "value"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


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
    monkeypatch.setattr(forest, "MAX_NODES", 10_000)
    assert len(ForestExpert.fit(tree_rows(x, y), FitContext(0)).root) == forest.MIN_TREES
    monkeypatch.setattr(forest, "MAX_WORK", 1.0)  # one input a split
    assert ForestExpert.fit(tree_rows(x, y), FitContext(0)) is not None


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
