"""The default tree and its ensemble: equal bits and weights, also of the paper's; tables, growth, reading the tree."""

import copy
import itertools
import pickle
import subprocess
import sys

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest

from usnrt import USNRTEnsemble, USNRTRegressor, export_text
from usnrt.datasets import make_heteroscedastic

N = 700
SMALL = {"hidden": (16, 8), "n_bins": 4, "max_epochs": 4, "validation": 1, "min_samples_leaf": 150}


def quick(**changes):
    """The default tree with a small network, few epochs and small regions."""
    return USNRTRegressor(**{**SMALL, "random_state": 0, **changes})


def quick_ensemble(n_jobs=-1, random_state=0):
    return USNRTEnsemble(USNRTRegressor(**SMALL), n_estimators=3, random_state=random_state, n_jobs=n_jobs)


@pytest.fixture(scope="module")
def data():
    """Steps that a small network does not learn, so that the memory is used, and noise that depends on x0."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(N, 3))
    return X, 3 * np.floor(3 * X[:, 1]) + np.where(X[:, 0] > 0.5, 2.0, 0.1) * rng.normal(size=N)


@pytest.fixture(scope="module")
def model(data):
    return quick().fit(*data)


def quick_folds(**changes):
    return quick(**{"validation": 3, **changes})


def quick_paper(**changes):
    return USNRTRegressor.paper(**{"min_samples_leaf": 150, "max_epochs": 4, "random_state": 0, **changes})


OF_OURS = pytest.mark.parametrize("make", [quick, quick_folds, quick_ensemble], ids=["tree", "folds", "ensemble"])


@pytest.fixture(params=[quick, quick_folds, quick_ensemble, quick_paper], ids=["tree", "folds", "ensemble", "paper"])
def make(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(data, model):
    """The fitted model of each maker."""
    models = {quick: model, **{make: make().fit(*data) for make in (quick_folds, quick_ensemble)}}
    assert all(len(made.model_.memories) == len(made.model_.members) for made in models.values())
    return {**models, quick_paper: quick_paper().fit(*data)}


def assert_same_bits(one, other, X):
    """Same trees, same networks, same memories, same predictions."""
    np.testing.assert_array_equal(one.predict(X, return_std=True), other.predict(X, return_std=True))
    np.testing.assert_array_equal(one.predict_interval(X, [0.5, 0.8]), other.predict_interval(X, [0.5, 0.8]))
    np.testing.assert_array_equal(one.predict_quantiles(X, [0.05, 0.5]), other.predict_quantiles(X, [0.05, 0.5]))
    for left, right in zip(arrays_of(one), arrays_of(other), strict=True):
        np.testing.assert_array_equal(left, right)


def arrays_of(model):
    """Thresholds, networks, weights of the experts and targets in the memory of all trees."""
    names = ("params", "expert_weights", "mean_params", "variance_params")
    parts = [[getattr(tree, name) for name in names if hasattr(tree, name)] for tree in model.model_.members]
    assert all(networks for networks, *_ in parts)
    trees = [(tree.tree.feature, tree.tree.threshold) for tree in model.model_.members]
    return jax.tree_util.tree_leaves([trees, parts, [memory.target for memory in model.model_.memories]])


# -- equal bits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_the_number_of_threads_changes_no_bit(data, make, fitted, n_jobs):
    assert_same_bits(make(n_jobs=n_jobs).fit(*data), fitted[make], data[0])


def test_another_order_of_the_rows_changes_no_bit(data, make, fitted):
    X, y = data
    order = np.random.default_rng(0).permutation(N)
    assert_same_bits(make().fit(X[order], y[order]), fitted[make], X)


def test_another_random_state_gives_another_model(data, make, fitted):
    other = make(random_state=1).fit(*data)
    assert not np.array_equal(other.predict(data[0]), fitted[make].predict(data[0]))


def test_random_state_may_be_a_generator(data, make):
    one, other = (make(random_state=np.random.RandomState(7)).fit(*data) for _ in range(2))
    assert_same_bits(one, other, data[0])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies_predict_the_same_bits(data, make, fitted, copied):
    model = fitted[make]
    twin = copied(model)
    assert_same_bits(twin, model, data[0])
    assert repr(twin) == repr(model)
    assert export_text(twin) == export_text(model)


def test_a_prediction_does_not_depend_on_the_other_rows(data, make, fitted):
    X, model = data[0], fitted[make]
    mean, std = model.predict(X, return_std=True)
    interval = model.predict_interval(X, 0.5)
    for row in (0, 17, N - 1):
        alone = model.predict(X[[row]], return_std=True)
        assert (alone[0][0], alone[1][0]) == (mean[row], std[row])
        np.testing.assert_array_equal(model.predict_interval(X[[row]], 0.5)[0], interval[row])


# -- weights ----------------------------------------------------------------------------------------------------


def test_a_whole_weight_is_a_repeated_row(data, make):
    X, y = data
    weight = np.random.default_rng(0).integers(0, 4, N)
    weighted = make().fit(X, y, sample_weight=weight)
    repeated = make().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_same_bits(weighted, repeated, X)
    assert weighted.tree_.n_rows[0] == weight.sum()


def test_a_row_of_weight_zero_is_absent(data, make):
    X, y = data
    weight = np.where(np.arange(N) < N - 100, 1.0, 0.0)
    wild = np.where(weight > 0, y, 1e6)
    assert_same_bits(make().fit(X, wild, sample_weight=weight), make().fit(X[: N - 100], y[: N - 100]), X)


def test_only_the_proportions_of_fractional_weights_count(data, make):
    X, y = data
    weight = np.random.default_rng(0).uniform(0.5, 2.0, N)
    one, other = (make().fit(X, y, sample_weight=factor * weight) for factor in (1.0, 1024.0))
    assert_same_bits(one, other, X)


# -- tables of every kind ---------------------------------------------------------------------------------------


def test_numpy_pandas_and_polars_give_the_same_predictions(data, model):
    X, y = data
    columns = {name: X[:, j] for j, name in enumerate(("a", "b", "c"))}
    frames = pd.DataFrame(columns), pl.DataFrame(columns)
    for frame, target in zip(frames, (pd.Series(y), pl.Series(y))):
        named = quick().fit(frame, target)
        assert list(named.feature_names_in_) == ["a", "b", "c"]
        np.testing.assert_array_equal(named.predict(frame), model.predict(X))
        assert "a <= " in export_text(named)
    # fitted to one kind, predicting another
    np.testing.assert_array_equal(named.predict(frames[0]), model.predict(X))
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 3


def test_other_dtypes_and_memory_orders_are_the_same_table(make, fitted):
    model = fitted[make]
    X = np.random.default_rng(0).integers(0, 2, (50, 3)).astype(np.float64)
    expected = model.predict(X)
    for other in (X.astype(np.float32), X.astype(np.int8), X.tolist(), np.asfortranarray(X), np.repeat(X, 2, 0)[::2]):
        np.testing.assert_array_equal(model.predict(other), expected)


def test_a_noisy_category_gets_a_region():
    rng = np.random.default_rng(1)
    kind = rng.choice(["calm", "wild", "mild"], 800)
    x = np.where(rng.uniform(size=800) < 0.1, np.nan, rng.uniform(size=800))
    y = np.nan_to_num(x, nan=0.5) + np.where(kind == "wild", 1.0, 0.1) * rng.normal(size=800)
    model = quick(max_epochs=20).fit(pd.DataFrame({"x": x, "kind": kind}), y)
    assert export_text(model).splitlines()[1].startswith("|-- kind in {calm, mild}")
    asked = pd.DataFrame({"x": [0.5, np.nan, 0.5, 0.5], "kind": ["wild", "wild", "calm", "mild"]})
    mean, std = model.predict(asked, return_std=True)
    assert np.isfinite(mean).all()
    assert (std[:2] > 0.4).all()
    assert (std[2:] < 0.4).all()


def test_whole_numbers_can_be_named_categories():
    bunch = make_heteroscedastic("categorical", 1200, 3, random_state=0)
    model = quick(categorical_features=[0], max_epochs=15).fit(bunch.data, bunch.target)
    assert "x0 in {0, 2}" in export_text(model)


# -- growth -----------------------------------------------------------------------------------------------------


def test_two_regions_meet_at_the_planted_boundary():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 2))
    y = X[:, 1] + np.where(X[:, 0] > 0.3, 1.0, 0.1) * rng.normal(size=1500)
    model = quick(max_depth=1, max_epochs=40).fit(X, y)
    assert model.n_leaves_ == 2
    assert model.tree_.feature[0] == 0
    assert model.tree_.threshold[0] == pytest.approx(0.3, abs=0.02)
    assert model.tree_.statistic[0] < 0, "the left side is the calm one"
    _, std = model.predict([[-0.5, 0.0], [0.8, 0.0]], return_std=True)
    np.testing.assert_allclose(std, [0.1, 1.0], rtol=0.35)


@pytest.mark.parametrize("smallest", [60, 200])
def test_regions_have_at_least_min_samples_leaf_rows(data, smallest):
    tree = quick(min_samples_leaf=smallest, alpha=0.999, max_epochs=1).fit(*data).tree_
    assert tree.n_rows[tree.leaves].min() >= smallest
    assert tree.n_rows[tree.leaves].sum() == N
    assert tree.n_leaves > 1


@pytest.mark.parametrize(("n", "n_leaves"), [(200, 2), (199, 1)])
def test_exactly_twice_the_smallest_region_can_be_split(n, n_leaves):
    X = np.arange(n, dtype=float).reshape(-1, 1)
    y = np.where(X[:, 0] < n / 2, 0.01, 10.0) * np.random.default_rng(0).normal(size=n)
    model = quick(min_samples_leaf=100, max_epochs=1, alpha=0.5).fit(X, y)
    assert model.n_leaves_ == n_leaves


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_max_depth_is_kept(data, depth):
    model = quick(max_depth=depth, alpha=0.999, min_samples_leaf=50, max_epochs=1).fit(*data)
    assert model.get_depth() == model.tree_.max_depth == depth


def test_max_leaves_and_a_fifth_of_rows_set_the_smallest_region():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(4000, 1))
    y = 0.01 * 10 ** (3 * X[:, 0]) * rng.normal(size=4000)
    for max_leaves, smallest in ((2, 2000), (10, 800)):
        model = quick(min_samples_leaf=None, max_leaves=max_leaves, max_epochs=1, memory=False).fit(X, y)
        assert model.min_samples_leaf_ == smallest
        assert model.tree_.n_rows[model.tree_.leaves].min() >= smallest
        assert 2 <= model.n_leaves_ <= max_leaves


def test_splits_are_corrected_for_the_number_of_thresholds():
    bunch = make_heteroscedastic("homoscedastic", 900, 3, random_state=0)
    assert quick(alpha=0.05, max_epochs=3).fit(bunch.data, bunch.target).n_leaves_ == 1


@OF_OURS
def test_a_constant_target_has_a_tiny_standard_deviation(make):
    X = np.random.default_rng(0).uniform(size=(500, 3))
    model = make().fit(X, np.full(500, 7.5))
    assert model.n_leaves_ == 1
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, 7.5, rtol=1e-9)
    assert (std > 0).all()
    assert (std < 1e-9).all()


def test_a_target_of_zeros_is_not_split():
    X = np.random.default_rng(0).normal(size=(1000, 3))
    model = USNRTRegressor(hidden=(32, 16), max_epochs=10, memory=False).fit(X, np.zeros(1000))
    assert model.n_leaves_ == 1


def test_constant_columns_are_never_split(data):
    X, y = data
    model = quick().fit(np.column_stack([np.full(N, 1e12), X]), y)
    assert not (model.tree_.feature == 0).any()


def test_a_table_of_constant_columns_has_one_region(data):
    model = quick().fit(np.ones((N, 2)), data[1])
    assert model.n_leaves_ == 1
    np.testing.assert_allclose(model.predict([[1.0, 1.0]]), data[1].mean(), atol=0.3 * data[1].std())


# -- trainings --------------------------------------------------------------------------------------------------


def test_fits_do_not_import_jax(tmp_path):
    words = (
        "import sys, numpy as np, usnrt; x = np.random.default_rng(0).normal(size=(300, 2)); "
        "usnrt.USNRTRegressor(hidden=(4,), max_epochs=1, random_state=0, n_jobs=1).fit(x, x[:, 0]).predict(x); "
        "print('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", words], capture_output=True, text=True).stdout == "False\n"


def test_the_history_has_the_trainings_of_every_node(model):
    assert len(model.history_) == model.tree_.n_nodes
    assert "network" in model.history_[0]
    assert all(set(history) <= {"probe", "fine-tuning"} for history in model.history_[1:])


def test_the_history_has_one_check_per_epoch(model):
    for losses in model.history_[0].values():
        assert len(losses.train_loss) == len(losses.valid_loss)
        assert losses.best_epoch in (-1, int(np.argmin(losses.valid_loss)))


# -- reading the tree -------------------------------------------------------------------------------------------


def test_apply_decision_path_and_depth_agree(data, model):
    X = data[0]
    region, tree = model.apply(X), model.tree_
    assert set(region) == set(tree.leaves)
    path = model.decision_path(X).toarray()
    assert path.shape == (N, tree.n_nodes)
    for row in range(0, N, 50):
        nodes = np.flatnonzero(path[row])
        assert nodes.tolist() == tree.path(region[row])
        for node, following in itertools.pairwise(nodes):
            goes_left = X[row, tree.feature[node]] <= tree.threshold[node]
            assert following == (tree.left[node] if goes_left else tree.right[node])
    np.testing.assert_array_equal(np.bincount(region, minlength=tree.n_nodes)[tree.leaves], tree.n_rows[tree.leaves])
    assert model.get_depth() == path.sum(axis=1).max() - 1
    assert model.get_n_leaves() == model.n_leaves_ == len(tree.leaves) > 1


def test_rules_describe_the_regions(data, model):
    X = data[0]
    rules, region = model.rules(), model.apply(X)
    assert rules.shape[0] == model.n_leaves_
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    for row in rules.rows():
        # a rule is a condition that pandas understands, up to rounding to 3 decimals
        inside = frame.eval(row["rule"])
        assert np.mean(inside == (region == row["region"])) > 0.995
        assert row["rows"] == np.sum(region == row["region"])
    assert rules["share"].sum() == pytest.approx(1.0)


def test_text_names_every_region_once(model):
    text = export_text(model)
    for region in model.tree_.leaves:
        assert text.count(f"region {region}:") == 1
    assert text.startswith(f"all rows: {N} rows")


def test_heterogeneity_is_the_std_of_the_log_residual_stds(model):
    stds = model.tree_.residual_std[model.tree_.leaves]
    assert model.heterogeneity_ == pytest.approx(np.std(np.log(stds)))
    assert model.heterogeneity_ > 0.2


def test_heterogeneity_of_a_single_region_is_zero(data):
    assert quick(max_depth=0).fit(*data).heterogeneity_ == 0.0


# -- predictions by hand ----------------------------------------------------------------------------------------


@OF_OURS
def test_intervals_are_those_of_the_calibration(data, make, fitted):
    X, model = data[0][:40], fitted[make]
    predicted = model.model_.predict(model._encode(X))
    bounds = model.calibration_.interval(predicted.quantiles, predicted.calibration_leaf, 0.5)
    scale = model.target_scale_
    np.testing.assert_allclose(model.predict_interval(X, 0.5), scale.mean + scale.std * bounds, rtol=1e-12)


def test_quantile_functions_are_those_of_the_experts(data, model):
    """The refined mean of the quantile functions of all experts, in each region."""
    from usnrt.experts.base import Query
    from usnrt.nn.quantiles import quantile_function_mean

    tree, raw = model.model_.trees, model._encode(data[0][:40])
    inputs, leaf = model.model_.inputs.transform(raw), model.tree_.leaf_of(raw)
    found = None if tree.memory is None else tree.memory.predict(inputs)
    weights = tree.expert_weights[leaf].T
    query = Query(raw, inputs, leaf, retrieved=found)
    experts = [tree._experts[k].quantile_functions(query) if own.any() else 0.0 for k, own in enumerate(weights)]
    combined = sum(own[:, None] * quantiles for own, quantiles in zip(weights, experts))
    expected = tree.refinement.apply(leaf, quantile_function_mean(combined), combined)
    np.testing.assert_allclose(tree.quantile_functions(raw, inputs).quantiles, expected, rtol=1e-12, atol=1e-12)
