"""The adapters to other libraries: the scikit-learn contract, the libraries' own answers, early stopping."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from usnrt.bench import peers
from usnrt.bench.peers._shared import BoostingPeer
from usnrt.bench.peers.forest import LEVELS, with_drawn_targets
from usnrt.datasets import make_heteroscedastic

QUICK = {"random_state": 0, "n_jobs": 1}
MODELS = [
    peers.CatBoostRegressor(n_estimators=30, learning_rate=0.2, **QUICK),
    peers.NGBoostRegressor(n_estimators=30, learning_rate=0.2, **QUICK),
    peers.LightGBMQuantileRegressor(n_estimators=30, learning_rate=0.2, levels=(0.1, 0.5, 0.9), **QUICK),
    peers.QuantileForestRegressor(n_estimators=20, **QUICK),
    peers.QuantileExtraTreesRegressor(n_estimators=20, **QUICK),
    peers.CatBoostQuantileRegressor(n_estimators=30, learning_rate=0.2, max_depth=4, levels=(0.1, 0.5, 0.9), **QUICK),
    peers.LightGBMTunedRegressor(n_estimators=30, learning_rate=0.2, num_leaves=15, levels=(0.1, 0.5, 0.9), **QUICK),
]
CONFORMAL = peers.ConformalBoosterRegressor(n_estimators=20, learning_rate=0.3, levels=(0.1, 0.5, 0.9), **QUICK)
MODELS += [CONFORMAL]
XGBOOST = peers.XGBoostQuantileRegressor(  # 3.4 needs more rounds than 3.2
    n_estimators=60, learning_rate=0.2, max_depth=4, levels=(0.1, 0.5, 0.9), **QUICK
)
CREPES = peers.CrepesRegressor(n_estimators=30, learning_rate=0.2, num_leaves=15, **QUICK)
MODELS += [XGBOOST] if find_spec("xgboost") else []
MODELS += [CREPES] if find_spec("crepes") else []
BOOSTING = [model for model in MODELS if isinstance(model, BoostingPeer)]
names = [type(model).__name__ for model in MODELS]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(MODELS[:1])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(MODELS[1:])
def test_scikit_learn_checks_of_other_peers(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def jump():
    return make_heteroscedastic("jump", 4000, random_state=0)


def again(model, **changes):
    return type(model)(**{**model.get_params(), **changes})


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_each_learns_mean_and_spread(model, jump):
    more = {"n_estimators": 40 if model in (CREPES, CONFORMAL) else 200}
    if model in BOOSTING:
        more |= {"early_stopping_rounds": 50}
    if model in BOOSTING or model is CREPES:
        more |= {"learning_rate": 0.1}
    fitted = again(model, **more).fit(jump.data[1000:], jump.target[1000:])
    mean, std = fitted.predict(jump.data[:1000], return_std=True)
    true_mean, true_std = jump.truth.mean(jump.data[:1000]), jump.truth.std(jump.data[:1000])
    assert np.sqrt(np.mean((mean - true_mean) ** 2)) < 0.5 * true_std.mean()
    noisy = true_std > np.median(true_std)
    assert std[noisy].mean() > 1.5 * std[~noisy].mean()
    # Residuals of calibration rows include the error of the mean.
    assert abs(np.log(std.mean() / true_std.mean())) < (0.4 if model is CREPES else 0.25)


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_categories_as_text_and_missing_values_are_learnt(model):
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", "c"], 400)
    number = rng.normal(size=400)
    y = np.select([kind == "a", kind == "b"], [0.0, 5.0], 10.0) + 0.1 * rng.normal(size=400)
    X = np.column_stack([kind.astype(object), number.astype(object)])
    X[::7, 1] = None
    fitted = again(model).fit(X, y)
    answers = fitted.predict(np.array([["a", 0.0], ["b", None], ["c", 0.0], ["new", 0.0]], dtype=object))
    np.testing.assert_allclose(answers[:3], [0.0, 5.0, 10.0], atol=0.6)
    assert np.isfinite(answers[3])


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_a_column_without_values_is_no_obstacle(model):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), np.full(200, np.nan)])
    fitted = again(model).fit(X, X[:, 0] + 0.1 * rng.normal(size=200))
    mean = fitted.predict(np.array([[-1.0, np.nan], [1.0, np.nan], [1.0, 3.0]]))
    assert mean[0] < 0 < mean[1]
    assert mean[2] > 0


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_a_constant_target_is_answered_with_itself(model, jump):
    mean, std = again(model).fit(jump.data[:60], np.full(60, 7.0)).predict(jump.data[:5], return_std=True)
    np.testing.assert_allclose(mean, 7.0, atol=1e-6)
    assert (std < 1e-3).all()


@pytest.mark.parametrize("model", BOOSTING, ids=[type(model).__name__ for model in BOOSTING])
def test_early_stopping_ends_long_before_the_last_round(model, jump):
    short = again(model, n_estimators=40, learning_rate=0.5, early_stopping_rounds=5)
    long = again(short, n_estimators=4000)
    data = jump.data[:400], jump.target[:400]
    # Both stop at the same round, so the longest way that was allowed does not matter.
    np.testing.assert_array_equal(short.fit(*data).predict(data[0]), long.fit(*data).predict(data[0]))


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
    expected = native.predict(table.inputs[:100], LEVELS.tolist(), weighted_leaves=True)
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


@pytest.mark.skipif(not find_spec("crepes"), reason="crepes is not installed")
def test_crepes_answers_what_the_library_answers(jump):
    model = again(CREPES, n_bins=4).fit(jump.data, jump.target)
    assert len(model.thresholds_) == 3
    raw = model._encode(jump.data[:50])
    center, spread = model._point_and_difficulty(raw)
    bins = model._bins(center)
    low, high = model.system_.predict_int(center, sigmas=spread, bins=bins, confidence=0.9).T
    np.testing.assert_allclose(model._distribution(raw).ppf([0.05, 0.95]), np.column_stack([low, high]), atol=1e-5)


@pytest.mark.skipif(not find_spec("crepes"), reason="crepes is not installed")
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


def test_quantiles_never_cross(jump):
    model = again(MODELS[2], levels=(0.4, 0.45, 0.5, 0.55, 0.6)).fit(jump.data[:300], jump.target[:300])
    assert (np.diff(model.predict_quantiles(jump.data, [0.1, 0.42, 0.5, 0.58, 0.9]), axis=1) > 0).all()


NEEDY = [model for model in MODELS if model is not CONFORMAL]


@pytest.mark.parametrize("model", NEEDY, ids=[type(model).__name__ for model in NEEDY])
def test_a_missing_library_is_one_sentence(model, jump, monkeypatch):
    module, package = {
        "CatBoostRegressor": ("catboost", "catboost"),
        "NGBoostRegressor": ("ngboost", "ngboost"),
        "LightGBMQuantileRegressor": ("lightgbm", "lightgbm"),
        "QuantileForestRegressor": ("quantile_forest", "quantile-forest"),
        "QuantileExtraTreesRegressor": ("quantile_forest", "quantile-forest"),
        "CatBoostQuantileRegressor": ("catboost", "catboost"),
        "LightGBMTunedRegressor": ("lightgbm", "lightgbm"),
        "XGBoostQuantileRegressor": ("xgboost", "xgboost"),
        "CrepesRegressor": ("crepes", "crepes"),
    }[type(model).__name__]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"^{type(model).__name__} needs {package}: pip install 'usnrt\[bench\]'$"):
        again(model).fit(jump.data[:50], jump.target[:50])


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        (MODELS[0], {"max_depth": 0}, "max_depth must be an int in [1, 16], got 0"),
        (MODELS[1], {"learning_rate": 0}, "learning_rate must be in (0, inf), got 0"),
        (MODELS[2], {"num_leaves": 1}, "num_leaves must be an int >= 2, got 1"),
        (
            MODELS[2],
            {"levels": (0.5, 0.1)},
            "levels must be at least 2, increasing, in (0, 1), got (0.5, 0.1)",
        ),
        (MODELS[3], {"min_samples_leaf": 0}, "min_samples_leaf must be an int >= 1, got "
         "0"),
        (MODELS[5], {"max_bins": 0}, "max_bins must be an int in [1, 65535], got 0"),
        (MODELS[6], {"subsample": 1.5}, "subsample must be in (0, 1), got 1.5"),
        (XGBOOST, {"min_child_weight": -1}, "min_child_weight must be in (0, inf), got -1"),
        (CREPES, {"n_folds": 1}, "n_folds must be an int >= 2, got 1"),
    ],
)  # fmt: skip
def test_bad_parameters_are_one_sentence(model, changes, message, jump):
    with pytest.raises(ValueError) as error:
        again(model, **changes).fit(jump.data[:50], jump.target[:50])
    assert str(error.value) == message


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
