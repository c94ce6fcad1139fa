"""The adapters to other libraries: the scikit-learn contract, the libraries' own answers, early stopping."""

import re
import sys

import numpy as np
import pytest
from peer_contract import *  # noqa: F403
from peer_contract import again
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from usnrt.comparison import peers
from usnrt.comparison.peers.base import BoostingPeer
from usnrt.comparison.peers.forest import with_drawn_targets
from usnrt.datasets import make_heteroscedastic

QUICK = {"random_state": 0, "n_jobs": 1}
MODELS = [
    peers.CatBoostRegressor(n_estimators=30, learning_rate=0.2, **QUICK),
    peers.NGBoostRegressor(n_estimators=30, learning_rate=0.2, **QUICK),
    peers.LightGBMQuantileRegressor(n_estimators=30, learning_rate=0.2, levels=(0.1, 0.5, 0.9), **QUICK),
    peers.QuantileForestRegressor(n_estimators=20, **QUICK),
    peers.CatBoostQuantileRegressor(n_estimators=30, learning_rate=0.2, max_depth=4, levels=(0.1, 0.5, 0.9), **QUICK),
    peers.ConformalBoosterRegressor(n_estimators=20, learning_rate=0.3, levels=(0.1, 0.5, 0.9), **QUICK),
]
CONFORMAL = MODELS[-1]
LIBRARIES = ["catboost", "ngboost", "lightgbm", "quantile_forest", "catboost"]


@pytest.fixture(params=MODELS, ids=lambda model: type(model).__name__)
def model(request):
    return request.param


@pytest.fixture
def thorough(model):
    """Parameters for a good fit, and how far its spread may be from the truth (in logarithms)."""
    if isinstance(model, BoostingPeer):
        return {"n_estimators": 200, "learning_rate": 0.1, "early_stopping_rounds": 50}, 0.25
    return {"n_estimators": 40 if model is CONFORMAL else 200}, 0.25


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(MODELS[:1])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(MODELS[1:])
def test_scikit_learn_checks_of_other_peers(estimator, check):
    check(estimator)


def test_ngboost_answers_what_the_library_answers(jump):
    import ngboost

    model = peers.NGBoostRegressor(n_estimators=30, **QUICK).fit(jump.data, jump.target)
    rows = model._read_rows(jump.data, jump.target, None)
    table = model._scaled_table(rows)
    kept = {}
    model._boost = lambda table, train, valid, seed: kept.update(train=train, valid=valid, seed=seed)
    model._fit(rows)
    train, valid, seed = kept["train"], kept["valid"], kept["seed"]
    native = ngboost.NGBRegressor(
        Base=DecisionTreeRegressor(max_depth=3, random_state=seed),
        n_estimators=30, learning_rate=0.05, random_state=seed, verbose=False,
    )  # fmt: skip
    native.fit(
        table.inputs[train], table.y[train], X_val=table.inputs[valid], Y_val=table.y[valid],
        sample_weight=table.weight[train], val_sample_weight=table.weight[valid],
    )  # fmt: skip
    expected = native.pred_dist(table.inputs[:50], max_iter=native.best_val_loss_itr + 1)
    ours = model._distribution(table.raw[:50])
    np.testing.assert_allclose(ours.mean(), expected.loc, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours.std(), expected.scale, rtol=1e-6)


def test_quantile_forest_answers_what_the_library_answers(jump):
    from quantile_forest import RandomForestQuantileRegressor

    x = jump.data.astype(np.float32)
    native = RandomForestQuantileRegressor(n_estimators=30, min_samples_leaf=5, random_state=0).fit(x, jump.target)
    answers = with_drawn_targets(native).leaf_means(x[:100])
    levels = [0.05, 0.3, 0.5, 0.95]
    np.testing.assert_allclose(np.quantile(answers, levels, axis=1).T, native.predict(x[:100], levels), rtol=1e-12)


def test_quantiles_never_cross(jump):
    model = again(MODELS[2], levels=(0.4, 0.45, 0.5, 0.55, 0.6)).fit(jump.data[:300], jump.target[:300])
    assert (np.diff(model.predict_quantiles(jump.data, [0.1, 0.42, 0.5, 0.58, 0.9]), axis=1) > 0).all()


@pytest.mark.parametrize(("model", "module"), list(zip(MODELS, LIBRARIES)))
def test_a_missing_library_is_one_sentence(model, module, jump, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    message = f"{type(model).__name__} needs {module.replace('_', '-')}: pip install 'usnrt[compare]'"
    with pytest.raises(ImportError, match=rf"^{re.escape(message)}$"):
        again(model).fit(jump.data[:50], jump.target[:50])


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        (MODELS[0], {"max_depth": 0}, "max_depth must be an int in [1, 16], got 0"),
        (MODELS[1], {"learning_rate": 0}, "learning_rate must be in (0, inf), got 0"),
        (MODELS[2], {"num_leaves": 1}, "num_leaves must be an int >= 2, got 1"),
        (MODELS[2], {"levels": (0.5, 0.1)}, "levels must be at least 2, increasing, in (0, 1), got (0.5, 0.1)"),
        (MODELS[3], {"min_samples_leaf": 0}, "min_samples_leaf must be an int >= 1, got 0"),
        (MODELS[4], {"max_bins": 0}, "max_bins must be an int in [1, 65535], got 0"),
    ],
)
def test_bad_parameters_are_one_sentence(model, changes, message, jump):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        again(model, **changes).fit(jump.data[:50], jump.target[:50])


def test_intervals_of_the_conformal_booster_have_their_coverage():
    """On average over 8 tables; 200 calibration rows of each make the standard error 0.8 %."""
    shares = []
    for seed in range(8):
        data = make_heteroscedastic("jump", 2000, random_state=seed)
        model = again(CONFORMAL, n_estimators=5, levels=(0.05, 0.95), random_state=seed)
        model.fit(data.data[:1000], data.target[:1000])
        low, high = model.predict_interval(data.data[1000:], 0.9).T
        shares.append(np.mean((low <= data.target[1000:]) & (data.target[1000:] <= high)))
    assert 0.88 < np.mean(shares) < 0.93
