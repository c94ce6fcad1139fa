"""A cell of a real tree keeps everything tables and figures need."""

from types import SimpleNamespace

import numpy as np
import pytest
from archives import MAKERS, put_archive

from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.datasets import make_heteroscedastic
from usnrt.distributions import Normal
from usnrt_experiments import Cell, Store, load_split
from usnrt_experiments.cells import QUANTILE_LEVELS, predict_rows, run_cell
from usnrt_experiments.constant import ConstantNormal
from usnrt_experiments.figures import FIGURES, draw
from usnrt_experiments.grid import load_table
from usnrt_experiments.runner import run_grid
from usnrt_experiments.scores import score
from usnrt_experiments.trees import describe_tree

TREE = "usnrt-paper?min_samples_leaf=150&max_epochs=15"


@pytest.fixture(scope="module")
def tree_cell():
    return run_cell(Cell("generated-piecewise-1000", TREE, 42), n_jobs=1)


def test_the_split_is_scaled_with_training_rows_only():
    split = load_split("generated-jump-500", 42)
    assert len(split.y_train) == 400
    assert split.y_train.mean() == pytest.approx(0, abs=1e-12)
    assert split.y_train.std() == pytest.approx(1)
    assert abs(split.y_test.mean()) > 1e-6
    y = make_heteroscedastic("jump", n_samples=500, random_state=0).target
    rows = split.X_test.index
    np.testing.assert_allclose(split.y_test * split.target_std + split.target_mean, y[rows])


def test_categories_reach_the_model_as_categories():
    split = load_split("generated-categorical-100", 42)
    assert str(split.X_train["x0"].dtype) == "category"
    assert str(split.X_train["x1"].dtype) == "float64"


def test_facts(tree_cell):
    meta, _ = tree_cell
    assert (meta["n_train"], meta["n_test"], meta["n_features"]) == (800, 200, 4)
    assert meta["settings"]["min_samples_leaf"] == 150
    assert meta["settings"]["split_hidden"] == ["8d", "4d"]
    assert meta["fit_seconds"] > 0
    assert {"python", "numpy", "usnrt"} <= set(meta["versions"])


def test_rows_are_enough_for_every_metric(tree_cell):
    meta, arrays = tree_cell
    assert score(arrays) == meta["metrics"]
    assert arrays["z_quantiles"].shape == (200, len(QUANTILE_LEVELS))
    np.testing.assert_allclose(arrays["z_quantiles"][0, [0, -1]], [-1.645, 1.645], atol=1e-3)
    assert arrays["leaf"].shape == arrays["inside90"].shape == (200,)
    assert arrays["inside90"].dtype == bool


def test_the_tree_is_described(tree_cell):
    meta, arrays = tree_cell
    tree = meta["tree"]
    assert tree["n_leaves"] == len(tree["leaf_residual_std"]) == len(tree["leaf_rows"]) >= 2
    assert sum(tree["leaf_rows"]) == 800
    assert tree["heterogeneity"] == pytest.approx(np.std(np.log(tree["leaf_residual_std"])), rel=1e-4)
    assert tree["curve_feature"] == tree["root_feature"] == "x0"
    assert 0.4 < tree["root_threshold"] < 0.6
    # The known jump of the noise at the root's cut shows in the stored curve.
    left = arrays["curve_x"] <= tree["root_threshold"]
    assert arrays["curve_std"][~left].mean() > 2 * arrays["curve_std"][left].mean()
    assert arrays["root_x"].shape == arrays["root_residual"].shape == (800,)  # training rows


def test_categorical_roots_have_a_curve_but_no_plane():
    split = load_split("generated-categorical-600", 42)
    model = ConstantNormal().fit(split.X_train, split.y_train)
    model.tree_ = SimpleNamespace(  # the root asks for the category x0, its right child for x2
        feature=np.array([0, -1, 2, -1, -1]),
        threshold=np.array([np.nan, np.nan, 0.3, np.nan, np.nan]),
        n_rows=np.array([480.0, 200.0, 280.0, 100.0, 180.0]),
        residual_std=np.array([1.0, 0.2, 1.0, 0.5, 1.5]),
        max_depth=2,
    )
    model.heterogeneity_ = 0.7
    asked = []
    model.predict_dist = lambda rows: asked.append(rows) or Normal(np.zeros(len(rows)), np.ones(len(rows)))
    facts, arrays = describe_tree(model, split)
    assert facts == {
        "n_leaves": 3,
        "max_depth": 2,
        "leaf_rows": [200.0, 100.0, 180.0],
        "leaf_residual_std": [0.2, 0.5, 1.5],
        "heterogeneity": 0.7,
        "curve_feature": "x2",
    }
    assert set(arrays) == {"curve_x", "curve_std"}
    (rows,) = asked
    np.testing.assert_array_equal(rows["x2"], arrays["curve_x"])
    assert rows["x0"].dtype == split.X_train["x0"].dtype
    assert set(rows["x0"]) == {split.X_train["x0"].mode()[0]}
    assert set(rows["x1"]) == {split.X_train["x1"].mean()}


def test_root_residuals_are_those_of_the_splitting_network():
    split = load_split("generated-piecewise-4000", 42)
    model = ConstantNormal().fit(split.X_train, split.y_train)
    model.tree_ = SimpleNamespace(
        feature=np.array([0, -1, -1]),
        threshold=np.array([0.5, np.nan, np.nan]),
        n_rows=np.array([3200.0, 1600.0, 1600.0]),
        residual_std=np.array([1.0, 0.2, 1.0]),
        max_depth=1,
    )
    model.heterogeneity_ = 0.7
    facts, arrays = describe_tree(model, split)
    assert facts["root_residuals_of"] == "predicted mean on test rows"
    np.testing.assert_array_equal(arrays["root_x"], split.X_test["x0"])
    model.split_residuals = lambda X, y: y - 2 * X["x0"].to_numpy()
    facts, arrays = describe_tree(model, split)
    assert facts["root_residuals_of"] == "splitting network on training rows"
    assert arrays["root_x"].shape == arrays["root_residual"].shape == (2000,)
    rows = split.X_train.assign(residual=split.y_train - 2 * split.X_train["x0"]).set_index("x0")
    expected = rows.loc[arrays["root_x"], "residual"]
    np.testing.assert_allclose(arrays["root_residual"], expected, rtol=1e-6)


def test_models_without_a_tree_have_none():
    meta, arrays = run_cell(Cell("generated-jump-50", "constant-normal", 42))
    assert meta["tree"] is None
    assert set(arrays) == {"y", "mean", "std", "pit", "logpdf", "crps", "z_quantiles", "inside90"}


def test_nothing_to_draw_gives_nothing(tmp_path):
    store = Store(tmp_path / "store")
    run_grid([Cell("generated-jump-50", "constant-normal", 42)], store)
    assert [draw(name, store, tmp_path) for name in FIGURES] == [None] * len(FIGURES)
    with pytest.raises(ValueError, match=r"^figure must be one of .*, got 'pie'$"):
        draw("pie", store, tmp_path)


@pytest.mark.parametrize("members", [1, 2])
def test_coverage_is_that_of_the_models_own_interval(members):
    data = make_heteroscedastic("jump", 1900, random_state=0)
    (X, test), (y, observed) = np.split(data.data, [1500]), np.split(data.target, [1500])
    tree = USNRTRegressor(min_samples_leaf=150, max_epochs=15, random_state=0)
    model = tree if members == 1 else USNRTEnsemble(tree, n_estimators=members, random_state=0)
    model.fit(X, y)
    lower, upper = model.predict_interval(test, 0.9).T
    inside, region = (lower <= observed) & (observed <= upper), model.apply(test)
    found = score(predict_rows(model, SimpleNamespace(X_test=test, y_test=observed)))
    assert found["coverage90"] == pytest.approx(100 * inside.mean())
    gaps = [abs(inside[region == each].mean() - 0.9) for each in np.unique(region)]
    assert found["worst_leaf_gap"] == pytest.approx(100 * max(gaps))


@pytest.mark.filterwarnings("ignore::usnrt.utils.notices.UnverifiedFileWarning")
@pytest.mark.parametrize("name", list(MAKERS))
def test_a_cell_runs_from_the_archive(name, tmp_path, monkeypatch):
    """Of the five data sets whose files are not at hand, by a model that takes no time."""
    spec = put_archive(name, tmp_path, monkeypatch)
    load_table.cache_clear()
    meta, arrays = run_cell(Cell(name, "constant-normal", 42))
    load_table.cache_clear()
    assert (meta["n_train"], meta["n_test"]) == (320, 80)
    assert meta["n_features"] == spec.n_features
    assert np.isfinite(arrays["mean"]).all()
