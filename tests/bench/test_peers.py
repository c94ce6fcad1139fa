"""The adapters to other libraries: the scikit-learn contract, the libraries' own answers, early stopping."""

import sys

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from usnrt.bench import peers
from usnrt.bench.peers.forest import with_drawn_targets
from usnrt.datasets import make_heteroscedastic

QUICK = {"random_state": 0, "n_jobs": 1}
MODELS = [
    peers.CatBoostRegressor(n_estimators=30, learning_rate=0.2, **QUICK),
    peers.NGBoostRegressor(n_estimators=30, learning_rate=0.2, **QUICK),
    peers.LightGBMQuantileRegressor(n_estimators=30, learning_rate=0.2, levels=(0.1, 0.5, 0.9), **QUICK),
    peers.QuantileForestRegressor(n_estimators=20, **QUICK),
]
BOOSTING = MODELS[:3]
names = [type(model).__name__ for model in MODELS]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(MODELS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def jump():
    return make_heteroscedastic("jump", 3000, random_state=0)


def again(model, **changes):
    return type(model)(**{**model.get_params(), **changes})


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_each_learns_mean_and_spread(model, jump):
    more = {"n_estimators": 200, "learning_rate": 0.1} if model in BOOSTING else {"n_estimators": 200}
    mean, std = again(model, **more).fit(jump.data, jump.target).predict(jump.data[:1000], return_std=True)
    true_mean, true_std = jump.truth.mean(jump.data[:1000]), jump.truth.std(jump.data[:1000])
    assert np.sqrt(np.mean((mean - true_mean) ** 2)) < 0.5 * true_std.mean()
    noisy = true_std > np.median(true_std)
    assert std[noisy].mean() > 1.5 * std[~noisy].mean()
    assert abs(np.log(std.mean() / true_std.mean())) < 0.25


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
def test_a_constant_target_is_answered_with_itself(model, jump):
    mean, std = again(model).fit(jump.data[:60], np.full(60, 7.0)).predict(jump.data[:5], return_std=True)
    np.testing.assert_allclose(mean, 7.0, atol=1e-6)
    assert (std < 1e-3).all()


@pytest.mark.parametrize("model", BOOSTING, ids=names[:3])
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


def test_quantiles_never_cross(jump):
    model = again(MODELS[2], levels=(0.4, 0.45, 0.5, 0.55, 0.6)).fit(jump.data[:300], jump.target[:300])
    assert (np.diff(model.predict_quantiles(jump.data, [0.1, 0.42, 0.5, 0.58, 0.9]), axis=1) > 0).all()


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_a_missing_library_is_one_sentence(model, jump, monkeypatch):
    module, package = {
        "CatBoostRegressor": ("catboost", "catboost"),
        "NGBoostRegressor": ("ngboost", "ngboost"),
        "LightGBMQuantileRegressor": ("lightgbm", "lightgbm"),
        "QuantileForestRegressor": ("quantile_forest", "quantile-forest"),
    }[type(model).__name__]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"^{type(model).__name__} needs {package}: pip install 'usnrt\[bench\]'$"):
        again(model).fit(jump.data[:50], jump.target[:50])


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        (MODELS[0], {"max_depth": 0}, "max_depth must be a whole number from 1 to 16, got 0"),
        (MODELS[1], {"learning_rate": 0}, "learning_rate must be in (0, inf), got 0"),
        (MODELS[2], {"num_leaves": 1}, "num_leaves must be a whole number from 2 on, got 1"),
        (
            MODELS[2],
            {"levels": (0.5, 0.1)},
            "levels must be at least 2, increasing, in (0, 1), got (0.5, 0.1)",
        ),
        (MODELS[3], {"min_samples_leaf": 0}, "min_samples_leaf must be a whole number from 1 on, got "
         "0"),
    ],
)  # fmt: skip
def test_bad_parameters_are_one_sentence(model, changes, message, jump):
    with pytest.raises(ValueError) as error:
        again(model, **changes).fit(jump.data[:50], jump.target[:50])
    assert str(error.value) == message
