"""What every adapter to another library keeps: files of tests import it, and have fixtures `model` and `thorough`."""

import ast
from inspect import getdoc

import numpy as np
import pytest

from usnrt.comparison.peers.base import BoostingPeer
from usnrt.datasets import make_heteroscedastic

__all__ = [
    "jump",
    "test_a_column_without_values_is_no_obstacle",
    "test_a_constant_target_is_answered_with_itself",
    "test_categories_as_text_and_missing_values_are_learnt",
    "test_documentation_names_every_parameter_with_its_default",
    "test_each_learns_mean_and_spread",
    "test_early_stopping_ends_long_before_the_last_round",
]


@pytest.fixture(scope="module")
def jump():
    return make_heteroscedastic("jump", 4000, random_state=0)


def again(model, **changes):
    return type(model)(**{**model.get_params(), **changes})


def test_each_learns_mean_and_spread(model, jump, thorough):
    changes, tolerance = thorough
    fitted = again(model, **changes).fit(jump.data[1000:], jump.target[1000:])
    mean, std = fitted.predict(jump.data[:1000], return_std=True)
    true_mean, true_std = jump.truth.mean(jump.data[:1000]), jump.truth.std(jump.data[:1000])
    assert np.sqrt(np.mean((mean - true_mean) ** 2)) < 0.5 * true_std.mean()
    noisy = true_std > np.median(true_std)
    assert std[noisy].mean() > 1.5 * std[~noisy].mean()
    # Residuals of calibration rows include the error of the mean.
    assert abs(np.log(std.mean() / true_std.mean())) < tolerance


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


def test_a_column_without_values_is_no_obstacle(model):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), np.full(200, np.nan)])
    fitted = again(model).fit(X, X[:, 0] + 0.1 * rng.normal(size=200))
    mean = fitted.predict(np.array([[-1.0, np.nan], [1.0, np.nan], [1.0, 3.0]]))
    assert mean[0] < 0 < mean[1]
    assert mean[2] > 0


def test_a_constant_target_is_answered_with_itself(model, jump):
    mean, std = again(model).fit(jump.data[:60], np.full(60, 7.0)).predict(jump.data[:5], return_std=True)
    np.testing.assert_allclose(mean, 7.0, atol=1e-6)
    assert (std < 1e-3).all()


def test_early_stopping_ends_long_before_the_last_round(model, jump):
    if not isinstance(model, BoostingPeer):
        pytest.skip("does not boost until a loss stops falling")
    short = again(model, n_estimators=40, learning_rate=0.5, early_stopping_rounds=5)
    long = again(short, n_estimators=4000)
    data = jump.data[:400], jump.target[:400]
    # Both stop at the same round, so the longest way that was allowed does not matter.
    np.testing.assert_array_equal(short.fit(*data).predict(data[0]), long.fit(*data).predict(data[0]))


def test_documentation_names_every_parameter_with_its_default(model):
    assert "{shared}" not in model.__doc__
    assert "{model" not in model.__doc__
    for parameter, value in type(model)().get_params().items():
        line = next(line for line in getdoc(model).splitlines() if line.startswith(f"{parameter} : "))
        stated = line.partition("default=")[2]
        assert "..." in stated or ast.literal_eval(stated) == value, line
