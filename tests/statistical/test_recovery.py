"""Studies of the whole regressor on data whose noise is known: are planted boundaries found, is nothing else found,
is the stated noise the true one? Twenty draws each; the bounds leave room for what such a number of draws shows."""

import numpy as np
import pytest

from usnrt import USNRTRegressor
from usnrt.datasets import make_heteroscedastic

pytestmark = pytest.mark.slow
DRAWS = 20


def study(kind, n=4000, **changes):
    """Models fitted to fresh draws of one kind of data, with the draws."""
    for seed in range(DRAWS):
        bunch = make_heteroscedastic(kind, n, random_state=seed)
        recipe = {"min_samples_leaf": 400, "max_epochs": 60, "alpha": 1e-6, "random_state": seed, **changes}
        yield USNRTRegressor.paper(**recipe).fit(bunch.data, bunch.target), bunch


def splits(model):
    """Feature and threshold of every split, as pairs."""
    inner = model.tree_.feature >= 0
    return list(zip(model.tree_.feature[inner].tolist(), model.tree_.threshold[inner].tolist()))


@pytest.mark.parametrize("kind", ["piecewise", "jump"])
def test_planted_boundaries_are_found_where_they_are(kind):
    errors = []
    for model, bunch in study(kind):
        for feature, boundary in bunch.truth.boundaries:
            errors.append(min((abs(at - boundary) for f, at in splits(model) if f == feature), default=np.inf))
    assert np.mean(np.array(errors) < 0.03) >= 0.9
    assert np.median(errors) < 0.01


def test_the_default_recipe_finds_boundaries_sharply():
    """Half the boundaries within 0.005, though the mean jumps there too and only 800 rows are tested."""
    errors = []
    for seed in range(8):
        bunch = make_heteroscedastic("piecewise", 4000, random_state=seed)
        model = USNRTRegressor(min_samples_leaf=400, max_epochs=60, random_state=seed).fit(bunch.data, bunch.target)
        for feature, boundary in bunch.truth.boundaries:
            errors.append(min((abs(at - boundary) for f, at in splits(model) if f == feature), default=np.inf))
    assert np.median(errors) < 0.005
    assert np.mean(np.array(errors) < 0.03) >= 0.9


def test_noisy_categories_are_set_apart():
    parted = []
    for model, bunch in study("categorical", categorical_features=[0]):
        leaf = model.tree_.leaf_index[model.apply(bunch.data)]
        kinds = [set(bunch.data[leaf == number, 0] % 2) for number in range(model.n_leaves_)]
        parted.append(all(len(kind) == 1 for kind in kinds))
    assert np.mean(parted) >= 0.9


def test_no_boundary_is_found_where_there_is_none():
    """The corrected test of our estimator holds its level at the root: it splits alpha of all homogeneous tables."""
    quick = {"min_samples_leaf": 400, "max_epochs": 20, "hidden": (8,), "memory": False}
    n_split = 0
    for seed in range(DRAWS):
        bunch = make_heteroscedastic("homoscedastic", 4000, random_state=seed)
        model = USNRTRegressor(alpha=0.05, random_state=seed, **quick).fit(bunch.data, bunch.target)
        n_split += model.n_leaves_ > 1
    assert n_split <= 4  # P(more than 4 of 20 at level 0.05) is 0.3 %


def test_without_correction_chance_is_taken_for_a_boundary():
    """Why our estimator corrects: thousands of thresholds at level 0.05 each nearly always find something."""
    n_split = sum(model.n_leaves_ > 1 for model, _ in study("homoscedastic", alpha=0.05))
    assert n_split >= 8


def test_the_stated_noise_is_the_true_noise():
    ratios, inside = [], []
    for model, bunch in study("piecewise", n=6000):
        fresh = make_heteroscedastic("piecewise", 3000, random_state=1000)
        _, std = model.predict(fresh.data, return_std=True)
        region = bunch.truth.region(fresh.data)
        ratios.append([np.median(std[region == r] / bunch.truth.std(fresh.data[region == r])) for r in range(3)])
        lower, upper = model.predict_interval(fresh.data, 0.9).T
        inside.append(np.mean((lower <= fresh.target) & (fresh.target <= upper)))
    np.testing.assert_allclose(np.median(ratios, axis=0), [1.0, 1.0, 1.0], atol=0.12)
    assert np.mean(inside) == pytest.approx(0.9, abs=0.025)
