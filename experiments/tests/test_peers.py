"""The adapters that only the experiments use: the scikit-learn contract, the libraries' own answers."""

import re
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from peer_contract import *  # noqa: F403
from peer_contract import again, test_documentation_names_every_parameter_with_its_default
from sklearn.utils.estimator_checks import parametrize_with_checks

from usnrt.comparison.peers.base import LEVELS, BoostingPeer
from usnrt_experiments import peers

QUICK = {"random_state": 0, "n_jobs": 1}
MODELS = [
    peers.QuantileExtraTreesRegressor(n_estimators=20, **QUICK),
    peers.LightGBMTunedRegressor(n_estimators=30, learning_rate=0.2, num_leaves=15, levels=(0.1, 0.5, 0.9), **QUICK),
    peers.XGBoostQuantileRegressor(  # 3.4 needs more rounds than 3.2
        n_estimators=60, learning_rate=0.2, max_depth=4, levels=(0.1, 0.5, 0.9), **QUICK
    ),
    peers.CrepesRegressor(n_estimators=30, learning_rate=0.2, num_leaves=15, **QUICK),
]
CREPES = MODELS[-1]


@pytest.fixture(params=MODELS, ids=lambda model: type(model).__name__)
def model(request):
    return request.param


@pytest.fixture
def thorough(model):
    """Parameters for a good fit, and how far its spread may be from the truth (in logarithms)."""
    if isinstance(model, BoostingPeer):
        return {"n_estimators": 200, "learning_rate": 0.1, "early_stopping_rounds": 50}, 0.25
    return ({"n_estimators": 40, "learning_rate": 0.1}, 0.4) if model is CREPES else ({"n_estimators": 200}, 0.25)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(MODELS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("copies", [1, 3], ids=["single-row leaves", "leaves of several targets"])
def test_quantile_extra_trees_answer_what_the_library_answers(copies, jump):
    from quantile_forest import ExtraTreesQuantileRegressor

    # Rows with the same features share a leaf.
    X, y = np.repeat(jump.data[:300], copies, axis=0), jump.target[: 300 * copies]
    model = peers.QuantileExtraTreesRegressor(n_estimators=20, **QUICK).fit(X, y)
    rows = model._read_rows(X, y, None)
    table = model._scaled_table(rows)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    native = ExtraTreesQuantileRegressor(n_estimators=20, max_samples_leaf=None, random_state=seed)
    native.fit(table.inputs, table.y)
    expected = native.predict(table.inputs[:100], list(LEVELS), weighted_leaves=True)
    if copies == 1:
        np.testing.assert_allclose(model._quantiles(table.inputs[:100]), expected, rtol=1e-9, atol=1e-12)
    else:  # the library's ranks are in units of rows, ours in units of trees
        assert np.abs(model._quantiles(table.inputs[:100]) - expected).mean() < 0.05 * table.y.std()
    native_mean = native.predict(table.inputs[:100], "mean", weighted_leaves=True)
    leaf = model._leaves(table.inputs[:100])
    sums = np.add.reduceat(np.append(model.targets_ * model.weights_, 0.0), model.start_[:-1])
    np.testing.assert_allclose(sums[leaf].mean(axis=1), native_mean, atol=1e-9)


def test_catboost_and_lightgbm_use_the_tuned_defaults():
    model = peers.CatBoostTunedRegressor()
    assert (model.max_depth, model.learning_rate, model.early_stopping_rounds, model.n_estimators) == (
        9,
        0.09,
        300,
        1000,
    )
    model = peers.LightGBMTunedRegressor()
    assert (model.num_leaves, model.learning_rate) == (100, 0.05)
    assert (model.n_estimators, model.early_stopping_rounds) == (1000, None)
    assert (model.min_child_samples, model.subsample) == (3, 0.7)


def test_without_early_stopping_all_rows_are_training_rows(jump):
    seen = {}
    model = peers.CatBoostTunedRegressor(n_estimators=5, early_stopping_rounds=None, **QUICK)
    model._boost = lambda table, train, valid, seed: seen.update(train=train, valid=valid)
    model.fit(jump.data[:50], jump.target[:50])
    assert len(seen["train"]) == len(seen["valid"]) == 50


def test_crepes_answers_what_the_library_answers(jump):
    model = again(CREPES, n_bins=4).fit(jump.data, jump.target)
    assert len(model.thresholds_) == 3
    raw = model._encode(jump.data[:50])
    center, spread = model._point_and_difficulty(raw)
    bins = model._bins(center)
    low, high = model.system_.predict_int(center, sigmas=spread, bins=bins, confidence=0.9).T
    np.testing.assert_allclose(model._distribution(raw).ppf([0.05, 0.95]), np.column_stack([low, high]), atol=1e-5)


def test_tied_predictions_share_a_mondrian_bin(jump):
    y = np.where(jump.data[:, 0] > 0.9, jump.target, 0.0)
    model = again(CREPES).fit(jump.data, y)
    assert np.isfinite(model.predict(jump.data)).all()
    assert set(model._bins(np.array([-1e9, 1e9]))) <= set(model.system_.binned_alphas[0])


@pytest.mark.parametrize("model", [peers.RealMLPRegressor(**QUICK), peers.TabMRegressor(**QUICK)])
def test_networks_of_pytabkit(model, jump, monkeypatch):
    if find_spec("pytabkit"):
        model = again(model, n_epochs=2, levels=(0.1, 0.5, 0.9)).fit(jump.data[:200], jump.target[:200])
        assert model.predict_dist(jump.data).values.shape == (len(jump.data), 3)
    monkeypatch.setitem(sys.modules, "pytabkit", None)
    with pytest.raises(ImportError, match=rf"^{type(model).__name__} needs pytabkit: pip install torch pytabkit$"):
        again(model).fit(jump.data[:50], jump.target[:50])


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        (MODELS[1], {"subsample": 1.5}, "subsample must be in (0, 1), got 1.5"),
        (MODELS[2], {"min_child_weight": -1}, "min_child_weight must be in (0, inf), got -1"),
        (CREPES, {"n_folds": 1}, "n_folds must be an int >= 2, got 1"),
    ],
)
def test_bad_parameters_are_one_sentence(model, changes, message, jump):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        again(model, **changes).fit(jump.data[:50], jump.target[:50])


@pytest.mark.parametrize("name", ["CatBoostTunedRegressor", "RealMLPRegressor", "TabMRegressor"])
def test_documentation_of_the_others(name):
    test_documentation_names_every_parameter_with_its_default(getattr(peers, name)())
