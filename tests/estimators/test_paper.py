"""The estimators of the paper: categories, growth, and reading the tree; equal bits are in `test_regressor`."""

import itertools

import numpy as np
import pandas as pd
import pytest

from usnrt import USNRTEnsemble, USNRTRegressor, export_text
from usnrt.datasets import make_heteroscedastic
from usnrt.distributions import Mixture
from usnrt.nn import jax_epochs as training
from usnrt.nn.forward import predict

N = 900


def quick(**changes):
    """The paper's estimator on small tables, with few epochs."""
    return USNRTRegressor.paper(**{"min_samples_leaf": 150, "max_epochs": 4, "random_state": 0, **changes})


@pytest.fixture(scope="module")
def data():
    bunch = make_heteroscedastic("piecewise", N, 3, random_state=3)
    return bunch.data, bunch.target


@pytest.fixture(scope="module")
def model(data):
    return quick().fit(*data)


# -- categories and missing values ------------------------------------------------------------------------------


def test_categories_and_missing_values():
    rng = np.random.default_rng(1)
    kind = rng.choice(["calm", "wild", "mild"], 800)
    x = np.where(rng.uniform(size=800) < 0.1, np.nan, rng.uniform(size=800))
    noise = np.where(kind == "wild", 1.0, 0.1)
    y = np.nan_to_num(x, nan=0.5) + noise * rng.normal(size=800)
    frame = pd.DataFrame({"x": x, "kind": kind})
    model = quick(max_epochs=20).fit(frame, y)
    # the first split sets the noisy category apart
    assert export_text(model).splitlines()[1].startswith("|-- kind in {calm, mild}")
    asked = pd.DataFrame({"x": [0.5, np.nan, 0.5, 0.5], "kind": ["wild", "wild", "never seen", None]})
    mean, std = model.predict(asked, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert (std[:2] > 0.4).all()
    # unseen and missing categories go with the larger side
    assert (std[2:] < 0.4).all()


def test_whole_numbers_can_be_named_categories():
    bunch = make_heteroscedastic("categorical", 1200, 3, random_state=0)
    model = quick(categorical_features=[0], max_epochs=15, alpha=1e-6).fit(bunch.data, bunch.target)
    assert "x0 in {0, 2}" in export_text(model)


# -- growth -----------------------------------------------------------------------------------------------------


def test_two_leaves_meet_at_the_planted_boundary():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 2))
    y = X[:, 1] + np.where(X[:, 0] > 0.3, 1.0, 0.1) * rng.normal(size=1500)
    model = quick(max_depth=1, max_epochs=40).fit(X, y)
    assert model.n_leaves_ == 2
    assert model.tree_.feature[0] == 0
    assert model.tree_.threshold[0] == pytest.approx(0.3, abs=0.02)
    assert model.tree_.statistic[0] < 0, "the left side is the calm one"
    _, std = model.predict([[-0.5, 0.0], [0.8, 0.0]], return_std=True)
    np.testing.assert_allclose(std, [0.1, 1.0], rtol=0.3)


def test_leaves_have_at_least_min_samples_leaf_rows(data):
    for smallest in (60, 200):
        tree = quick(min_samples_leaf=smallest, alpha=0.999, max_epochs=1).fit(*data).tree_
        assert tree.n_rows[tree.leaves].min() >= smallest
        assert tree.n_rows[tree.leaves].sum() == N
        assert tree.n_leaves > 2


@pytest.mark.parametrize(("n", "leaves"), [(200, 2), (199, 1)])
def test_exactly_twice_the_smallest_leaf_can_be_split(n, leaves):
    rng = np.random.default_rng(0)
    X = np.arange(n, dtype=float).reshape(-1, 1)
    y = np.where(X[:, 0] < n / 2, 0.01, 10.0) * rng.normal(size=n)
    model = quick(min_samples_leaf=100, max_epochs=1).fit(X, y)
    assert model.n_leaves_ == leaves
    if leaves == 2:
        assert model.tree_.threshold[0] == 99.5
        assert model.tree_.n_rows.tolist() == [200, 100, 100]


def test_max_depth_is_kept(data):
    for depth in (0, 1, 2):
        model = quick(max_depth=depth, alpha=0.999, min_samples_leaf=50, max_epochs=1).fit(*data)
        assert model.get_depth() == model.tree_.max_depth == depth


def test_max_leaves_and_a_thousand_rows_set_the_smallest_leaf():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(6000, 1))
    y = 0.01 * 10 ** (3 * X[:, 0]) * rng.normal(size=6000)
    for max_leaves, smallest in ((2, 3000), (3, 2000), (10, 1000)):
        model = quick(min_samples_leaf=None, max_leaves=max_leaves, max_epochs=1, batch_size=512).fit(X, y)
        assert model.min_samples_leaf_ == smallest
        assert model.tree_.n_rows[model.tree_.leaves].min() >= smallest
        assert 2 <= model.n_leaves_ <= max_leaves


def test_a_table_too_small_for_max_leaves_gets_fewer(data):
    model = quick(min_samples_leaf=None, max_leaves=N, max_epochs=1).fit(*data)
    assert model.n_leaves_ == 1, "900 rows are less than two leaves of 1000"


def test_alpha_decides_what_is_split():
    bunch = make_heteroscedastic("homoscedastic", N, 3, random_state=0)

    def leaves(**changes):
        return quick(max_epochs=3, **changes).fit(bunch.data, bunch.target).n_leaves_

    assert leaves(alpha=0.999) > 1
    assert leaves(alpha=1e-30) == 1
    # not corrected for the number of thresholds: p of the best of hundreds is below 0.3 by chance
    assert leaves(alpha=0.3) > 1


@pytest.mark.parametrize(
    "changes", [{}, {"center": "median"}, {"step": 10}, {"criterion": "support"}, {"criterion": "cart"}]
)
def test_every_criterion_grows_a_tree(data, changes):
    model = quick(**changes, max_epochs=2, alpha=0.5).fit(*data)
    assert model.n_leaves_ > 1
    assert np.isfinite(model.predict(data[0])).all()


def test_a_constant_target():
    X = np.random.default_rng(0).uniform(size=(500, 3))
    model = quick(min_samples_leaf=100, max_epochs=3).fit(X, np.full(500, 7.5))
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, 7.5, rtol=1e-9)
    assert (std > 0).all()
    assert (std < 1e-9).all()
    assert np.isfinite(model.heterogeneity_)


def test_constant_columns_have_no_effect(data):
    X, y = data
    wide = np.column_stack([np.full(N, 1e12), X])
    model = quick().fit(wide, y)
    assert not (model.tree_.feature == 0).any()
    other = np.column_stack([np.full(N, -3.0), X])
    np.testing.assert_array_equal(model.predict(other), model.predict(wide))


def test_nothing_but_constant_columns(data):
    model = quick().fit(np.ones((N, 2)), data[1])
    assert model.n_leaves_ == 1
    np.testing.assert_allclose(model.predict([[1.0, 1.0]]), data[1].mean(), atol=0.3 * data[1].std())


# -- the engine -------------------------------------------------------------------------------------------------


def test_a_fit_compiles_three_programs_however_many_nodes(data, monkeypatch):
    compiled, original = [], training.compiled

    def noting(program):
        compiled.append(original(program))
        return compiled[-1]

    monkeypatch.setattr(training, "compiled", noting)
    training._program.cache_clear()
    model = quick(min_samples_leaf=40, alpha=0.999, max_epochs=1).fit(*data)
    assert model.tree_.n_nodes > 15
    assert len(compiled) == 3  # networks of the split, of the mean and of the variance
    assert [program._cache_size() for program in compiled] == [1, 1, 1]


def test_history_has_the_losses_of_every_network(model):
    assert len(model.history_) == model.tree_.n_nodes
    for node, history in enumerate(model.history_):
        is_leaf = model.tree_.feature[node] < 0
        assert (
            {"mean 1", "variance 1", "mean 2", "variance 2"} <= set(history) if is_leaf else set(history) == {"split"}
        )
        for losses in history.values():
            assert len(losses.train_loss) == len(losses.valid_loss) == 4
            assert 0 <= losses.best_epoch < 4  # that of the best of ten checks per epoch; the loss is their mean


# -- reading the tree -------------------------------------------------------------------------------------------


def test_apply_decision_path_and_depth_agree(data, model):
    X = data[0]
    leaf, tree = model.apply(X), model.tree_
    assert set(leaf) == set(tree.leaves)
    path = model.decision_path(X).toarray()
    assert path.shape == (N, tree.n_nodes)
    for row in range(0, N, 50):
        nodes = np.flatnonzero(path[row])
        assert nodes.tolist() == tree.path(leaf[row])
        for node, following in itertools.pairwise(nodes):
            goes_left = X[row, tree.feature[node]] <= tree.threshold[node]
            assert following == (tree.left[node] if goes_left else tree.right[node])
    np.testing.assert_array_equal(np.bincount(leaf, minlength=tree.n_nodes)[tree.leaves], tree.n_rows[tree.leaves])
    assert model.get_depth() == path.sum(axis=1).max() - 1
    assert model.get_n_leaves() == model.n_leaves_ == len(tree.leaves) > 2


def test_rules_describe_the_regions(data, model):
    X, y = data
    rules = model.rules()
    assert rules.shape[0] == model.n_leaves_
    region = model.apply(X)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    for row in rules.rows():
        # a rule is a condition that pandas understands, up to rounding to 3 decimals
        inside = frame.eval(row["rule"])
        assert np.mean(inside == (region == row["region"])) > 0.995
        assert row["rows"] == np.sum(region == row["region"])
        residuals = (y - model.predict(X))[region == row["region"]]
        assert row["residual_std"] == pytest.approx(residuals.std(), rel=1e-4), "in the target's units"
    assert rules["share"].sum() == pytest.approx(1.0)


def test_text_names_every_region_once(model):
    text = export_text(model)
    for region in model.tree_.leaves:
        assert text.count(f"region {region}:") == 1
    assert text.startswith(f"all rows: {N} rows")


def test_heterogeneity_is_the_std_of_the_log_residual_stds(data, model):
    X, y = data
    residual = y - model.predict(X)
    leaf = model.apply(X)
    stds = [residual[leaf == node].std() for node in np.unique(leaf)]
    assert model.heterogeneity_ == pytest.approx(np.std(np.log(stds)), rel=1e-4)
    assert model.heterogeneity_ > 0.2


def test_heterogeneity_of_a_single_leaf_is_zero(data):
    assert quick(max_depth=0).fit(*data).heterogeneity_ == 0.0


def test_the_answer_is_the_networks_of_the_leaf(data, model):
    """By hand: scale the inputs, ask the leaf's networks, scale back."""
    X = data[0][:40]
    inputs = ((X - data[0].mean(axis=0)) / data[0].std(axis=0)).astype(np.float32)
    leaf = model.tree_.leaf_index[model.apply(X)]
    mean, std = model.predict(X, return_std=True)
    networks = model.model_.trees
    for row in range(len(X)):
        here = inputs[row : row + 1]
        expected = predict(networks.mean_network, networks.mean_params[leaf[row]], here)[0]
        variance = predict(networks.variance_network, networks.variance_params[leaf[row]], here)[0]
        assert mean[row] == pytest.approx(data[1].mean() + data[1].std() * expected, rel=1e-4, abs=1e-4)
        assert std[row] == pytest.approx(data[1].std() * np.sqrt(variance), rel=1e-4)


# -- the ensemble ---------------------------------------------------------------------------------------------------


def test_the_ensemble_is_a_mixture_of_normals(data):
    X = data[0][:10]
    model = USNRTEnsemble.paper(estimator=USNRTRegressor.paper(max_epochs=3), n_estimators=2, random_state=0).fit(*data)
    dist = model.predict_dist(X)
    assert isinstance(dist, Mixture)
    members, scale = model.model_.trees.members, model.target_scale_
    raw = model._encode(X)
    predicted = [member.quantile_functions(raw, model.model_.inputs.transform(raw)).normals for member in members]
    means, variances = (np.concatenate(part) for part in zip(*predicted))
    np.testing.assert_allclose(dist.mean(), scale.mean + scale.std * means.mean(axis=0))
    np.testing.assert_allclose(dist.var(), scale.std**2 * (variances.mean(axis=0) + means.var(axis=0)))


def test_the_number_of_threads_changes_no_bit_of_the_ensemble(data):
    member = USNRTRegressor.paper(max_epochs=2, min_samples_leaf=300)
    one, other = (
        USNRTEnsemble.paper(estimator=member, n_estimators=2, random_state=0, n_jobs=n_jobs).fit(*data)
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.predict(data[0], return_std=True), other.predict(data[0], return_std=True))
