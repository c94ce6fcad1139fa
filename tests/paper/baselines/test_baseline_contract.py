"""Every competing model keeps the scikit-learn contract and the promises of the shared base."""

import ast
from inspect import getdoc

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import usnrt
from usnrt.paper import baselines

# Small and short: the checks fit hundreds of tiny tables and look at the interface, not at how good the fit is.
QUICK = {"max_epochs": 20, "hidden": (16,), "learning_rate": 0.03, "random_state": 0, "n_jobs": 1}
MODELS = [
    baselines.HNNRegressor(**QUICK),
    baselines.DeepEnsembleRegressor(**QUICK, n_members=2),
    baselines.MCDropoutRegressor(**QUICK, n_passes=5),
    baselines.ConcreteDropoutRegressor(**QUICK, n_passes=5),
    baselines.EvidentialRegressor(**QUICK),
    baselines.RandomForestVarianceRegressor(n_estimators=5, random_state=0, n_jobs=1),
    baselines.ExtraTreesVarianceRegressor(n_estimators=5, random_state=0, n_jobs=1),
]


@pytest.fixture(autouse=True, scope="module")
def quickly_compiled():
    """Programs for some dozens of shapes, each run for moments: optimising them takes longer than running them."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


# One network and one forest in the quick tests: the others share all that these checks look at with one of them.
QUICKLY_CHECKED = (baselines.HNNRegressor, baselines.RandomForestVarianceRegressor)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([model for model in MODELS if isinstance(model, QUICKLY_CHECKED)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([model for model in MODELS if not isinstance(model, QUICKLY_CHECKED)])
def test_scikit_learn_checks_of_the_others(estimator, check):
    check(estimator)


@pytest.mark.parametrize("model", [type(model) for model in MODELS])
def test_documentation_names_every_parameter_with_its_default(model):
    assert "{shared}" not in model.__doc__
    assert "{model" not in model.__doc__
    for parameter, value in model().get_params().items():
        line = next(line for line in getdoc(model).splitlines() if line.startswith(f"{parameter} : "))
        stated = line.partition("default=")[2]
        assert "..." in stated or ast.literal_eval(stated) == value, line


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_saved_model_answers_with_the_same_bits(model, tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(80, 2)).astype(object), rng.choice(["a", "b"], 80)])
    fitted = clone(model).fit(X, X[:, 0].astype(float))
    fitted.save(tmp_path / "model.usnrt")
    loaded = usnrt.load(tmp_path / "model.usnrt")
    assert type(loaded) is type(model)
    assert loaded.get_params() == fitted.get_params()
    before, after = fitted.predict_dist(X), loaded.predict_dist(X)
    np.testing.assert_array_equal(after.mean(), before.mean())
    np.testing.assert_array_equal(after.std(), before.std())
