"""The forests against direct loops over scikit-learn's trees, and the search against fitting everything."""

import itertools

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from usnrt.datasets import make_heteroscedastic
from usnrt.paper.baselines import ExtraTreesVarianceRegressor, RandomForestVarianceRegressor
from usnrt.paper.baselines.forests import SEARCH_GRID
from usnrt.utils.sklearn_trees import FlatForest

BOTH = [
    (RandomForestVarianceRegressor, RandomForestRegressor),
    (ExtraTreesVarianceRegressor, ExtraTreesRegressor),
]


@pytest.fixture(scope="module")
def data():
    bunch = make_heteroscedastic("jump", 600, random_state=0)
    return bunch.data.astype(np.float32), bunch.target


def total_std(trees, x, min_variance=0.0):
    """What scikit-optimize's forests compute for return_std, tree by tree."""
    mean = np.mean([tree.predict(x) for tree in trees], axis=0)
    square = np.zeros(len(x))
    for tree in trees:
        variance = np.maximum(tree.tree_.impurity[tree.apply(x)], min_variance)
        square += variance + tree.predict(x) ** 2
    return np.sqrt(np.maximum(square / len(trees) - mean**2, 0.0))


@pytest.mark.parametrize("sklearn_forest", [forest for _, forest in BOTH])
@pytest.mark.parametrize("min_variance", [0.0, 0.05])
def test_std_equals_a_loop_over_the_trees(sklearn_forest, min_variance, data):
    x, y = data
    native = sklearn_forest(n_estimators=15, min_samples_leaf=3, random_state=0).fit(x, y)
    mean, within, between = FlatForest.of(native.estimators_).moments(x, min_variance, n_threads=2)[0, 0]
    np.testing.assert_allclose(mean, native.predict(x), rtol=1e-12)
    np.testing.assert_allclose(np.sqrt(within + between), total_std(native.estimators_, x, min_variance), rtol=1e-9)


@pytest.mark.parametrize(("ours", "native"), BOTH)
def test_the_model_answers_what_sklearns_forest_answers(ours, native, data):
    x, y = data
    model = ours(n_estimators=10, calibrate=False, random_state=0).fit(x, y)
    mean, std = model.predict(x, return_std=True)
    table = model._scaled_table(model._read_rows(x, y, None))
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    forest = native(n_estimators=10, max_features=model.max_features, min_samples_leaf=model.min_samples_leaf,
                    random_state=seed).fit(table.inputs, table.y, sample_weight=table.weight)  # fmt: skip
    inputs = model.inputs_.transform(model.encoder_.transform(x))
    scale = model.target_scale_
    np.testing.assert_allclose(mean, scale.mean + scale.std * forest.predict(inputs), rtol=1e-9)
    np.testing.assert_allclose(std, scale.std * total_std(forest.estimators_, inputs, 1e-6), rtol=1e-9)


def test_a_forest_contains_its_smaller_and_shallower_ones(data):
    # With all features at every split a tree's upper levels do not depend on how deep it may grow.
    x, y = data
    how = {"max_features": 1.0, "random_state": 3, "min_samples_leaf": 20}
    large = FlatForest.of(RandomForestRegressor(n_estimators=9, max_depth=6, **how).fit(x, y).estimators_)
    inside = large.moments(x, depths=(2, 4, 6), counts=(3, 9))
    for (i, depth), (j, count) in itertools.product(enumerate((2, 4, 6)), enumerate((3, 9))):
        small = RandomForestRegressor(n_estimators=count, max_depth=depth, **how).fit(x, y)
        np.testing.assert_allclose(inside[i, j, 0], small.predict(x), rtol=1e-9)
        std = np.sqrt(inside[i, j, 1] + inside[i, j, 2])
        np.testing.assert_allclose(std, total_std(small.estimators_, x), rtol=1e-6)


def test_trees_cut_off_are_distributed_like_trees_grown_short(data):
    # With random features the trees differ, but not their law: root splits and mean answers of many of both.
    x, y = data
    cut = FlatForest.of(ExtraTreesRegressor(300, max_depth=6, max_features=0.5, random_state=1).fit(x, y).estimators_)
    short = FlatForest.of(ExtraTreesRegressor(300, max_depth=2, max_features=0.5, random_state=2).fit(x, y).estimators_)
    at_two = [forest.moments(x, depths=(2,))[0, 0] for forest in (cut, short)]
    np.testing.assert_allclose(at_two[0][0], at_two[1][0], atol=0.15 * y.std())
    np.testing.assert_allclose(at_two[0][1].mean(), at_two[1][1].mean(), rtol=0.05)
    np.testing.assert_allclose(at_two[0][2].mean(), at_two[1][2].mean(), rtol=0.15)


@pytest.mark.parametrize("ours", [ours for ours, _ in BOTH])
def test_search_chooses_the_smallest_validation_nll_of_the_grid(ours, data, monkeypatch):
    grid = {"n_estimators": (5, 10), "max_depth": (2, 5), "max_features": (0.5, 1.0)}
    monkeypatch.setattr("usnrt.paper.baselines.forests.SEARCH_GRID", grid)
    grown = []
    grow = ours._grow
    monkeypatch.setattr(ours, "_grow", lambda self, *a, **how: grown.append(how) or grow(self, *a, **how))
    model = ours.paper(random_state=0).fit(*data)
    assert model.search_.shape == (8, 4)
    best = int(np.argmin(model.search_["nll"]))
    assert model.chosen_ == {name: model.search_[name][best] for name in grid}
    assert model.forest_.n_trees == model.chosen_["n_estimators"]
    assert len(grown) == 3  # one for each share of features, and the last one
    assert grown[-1] == model.chosen_


def test_search_nll_is_that_of_the_validation_rows(data, monkeypatch):
    monkeypatch.setattr(
        "usnrt.paper.baselines.forests.SEARCH_GRID",
        {"n_estimators": (8,), "max_depth": (4,), "max_features": (1.0,)},
    )
    model = RandomForestVarianceRegressor.paper(random_state=0).fit(*data)
    table = model._scaled_table(model._read_rows(*data, None))
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    shuffled = np.random.default_rng(seed).permutation(table.n_rows)
    validation, rows = shuffled[:120], np.sort(shuffled[120:])
    forest = RandomForestRegressor(8, max_depth=4, max_features=1.0, random_state=seed)
    forest.fit(table.inputs[rows], table.y[rows], sample_weight=table.weight[rows])
    x = table.inputs[validation]
    nll = -stats.norm.logpdf(table.y[validation], forest.predict(x), total_std(forest.estimators_, x)).mean()
    assert model.search_["nll"][0] == pytest.approx(nll, rel=1e-9)


def test_the_papers_recipe():
    assert SEARCH_GRID == {
        "n_estimators": (50, 100, 150, 200),
        "max_depth": (4, 6, 8, 10, 12),
        "max_features": (0.3, 0.5, 0.7, 0.9),
    }
    model = RandomForestVarianceRegressor.paper(n_jobs=1)
    assert (model.search, model.calibrate, model.min_variance) == (True, False, 0.0)
    assert (model.min_samples_leaf, model.n_jobs) == (1, 1)


@pytest.mark.parametrize("ours", [ours for ours, _ in BOTH])
def test_calibration_stretches_to_validation_likelihood(ours):
    train, fresh = (make_heteroscedastic("smooth", 2000, 3, random_state=seed) for seed in (0, 1))
    plain, calibrated = (
        ours(n_estimators=50, calibrate=on, random_state=0).fit(train.data, train.target) for on in (False, True)
    )
    before, after = (model.predict_dist(fresh.data) for model in (plain, calibrated))
    assert plain.spread_ == 1.0
    np.testing.assert_allclose(after.mean(), before.mean(), rtol=1e-9)
    np.testing.assert_allclose(after.std(), before.std() * calibrated.spread_, rtol=1e-9)
    assert after.logpdf(fresh.target).mean() > before.logpdf(fresh.target).mean()


def test_infinite_likelihoods_are_no_sign_of_a_good_forest(monkeypatch):
    # Leaves that hold one value only have no variance, and are infinitely sure of it.
    X = np.random.default_rng(0).uniform(size=(400, 1))
    y = np.where(np.argsort(np.argsort(X[:, 0])) < 200, -1.0, 1.0)
    monkeypatch.setattr(
        "usnrt.paper.baselines.forests.SEARCH_GRID",
        {"n_estimators": (5,), "max_depth": (3, 12), "max_features": (1.0,)},
    )
    model = RandomForestVarianceRegressor.paper(random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.search_["nll"], np.inf)
    assert model.chosen_["max_depth"] == 3


@pytest.mark.parametrize("ours", [ours for ours, _ in BOTH])
def test_the_number_of_threads_changes_no_bit(ours, data):
    one, two = (ours(n_estimators=12, random_state=5, n_jobs=n).fit(*data).predict_dist(data[0]) for n in (1, 2))
    np.testing.assert_array_equal(one.mean(), two.mean())
    np.testing.assert_array_equal(one.std(), two.std())


def test_no_variance_is_zero_by_default(data):
    # Leaves of equal targets have no variance of their own.
    x, y = data[0], (data[0][:, 0] > 0.5).astype(float)
    model = RandomForestVarianceRegressor(n_estimators=5, calibrate=False, random_state=0).fit(x, y)
    assert (model.predict(x, return_std=True)[1] >= 1e-3 * 0.49).all()
    bare = RandomForestVarianceRegressor(n_estimators=5, min_variance=0.0, calibrate=False, random_state=0)
    assert bare.fit(x, y).predict(x, return_std=True)[1].min() < 1e-9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_estimators": 0}, "n_estimators must be an int >= 1, got 0"),
        ({"max_depth": 0}, "max_depth must be an int >= 1 or None, got 0"),
        ({"max_features": 1.5}, "max_features must be in (0, 1], got 1.5"),
        ({"min_variance": -1.0}, "min_variance must be in [0, inf), got -1.0"),
        ({"search": "yes"}, "search must be True or False, got 'yes'"),
    ],
)
def test_bad_parameters_are_one_sentence(changes, message, data):
    with pytest.raises(ValueError) as error:
        RandomForestVarianceRegressor(**changes).fit(*data)
    assert str(error.value) == message


def test_verbose_tells_of_the_search(data, capsys, monkeypatch):
    monkeypatch.setattr(
        "usnrt.paper.baselines.forests.SEARCH_GRID",
        {"n_estimators": (4,), "max_depth": (2,), "max_features": (0.5, 1.0)},
    )
    RandomForestVarianceRegressor.paper(random_state=0, verbose=1).fit(*data)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" (")[0] for line in lines] == ["max_features=0.5", "max_features=1.0", "forest"]
    assert "best NLL so far" in lines[0]
