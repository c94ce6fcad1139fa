"""Quantile networks: two-peaked targets, and rounds that go on only where they pay."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from tree_recipes import change_recipe

from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.tree.recipe import Schedule

SMALL = {"hidden": (32, 16), "memory": False, "validation": 1, "random_state": 0}


def two_peaks(n, seed):
    """Where x0 is positive the target is near -1 or near 1, else it is near 0."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    peak = np.where(X[:, 0] > 0, rng.choice([-1.0, 1.0], n), 0.0)
    return X, peak + 0.1 * rng.normal(size=n)


@pytest.fixture(scope="module")
def models():
    X, y = two_peaks(4000, 0)
    return {
        "quantiles": USNRTRegressor(**SMALL, max_epochs=60, max_leaves=1).fit(X, y),
        "variance": USNRTRegressor.paper(mean_hidden=(32, 16), variance_hidden=(32, 16), max_epochs=60, random_state=0)
        .set_params(max_leaves=1).fit(X, y).calibrate(*two_peaks(1000, 9)),
    }  # fmt: skip


def test_two_peaks_are_seen_without_a_tree(models):
    X, y = two_peaks(4000, 1)
    nll = {spread: -np.mean(model.predict_dist(X).logpdf(y)) for spread, model in models.items()}
    crps = {spread: np.mean(model.predict_dist(X).crps(y)) for spread, model in models.items()}
    assert nll["quantiles"] < nll["variance"] - 0.15
    assert crps["quantiles"] < 0.98 * crps["variance"]
    between = models["quantiles"].predict_dist(np.array([[0.5, 0.0]]))
    assert (between.cdf(0.5) - between.cdf(-0.5))[0] < 0.2


@pytest.mark.parametrize("spread", ["quantiles", "variance"])
def test_both_are_calibrated(models, spread):
    X, y = two_peaks(6000, 2)
    pit = models[spread].predict_dist(X).cdf(y)
    for level in (0.05, 0.25, 0.5, 0.75, 0.95):
        # 800 rows calibrate, 6000 test; and the fit looked at the former
        assert np.mean(pit <= level) == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / 800))


def test_without_calibration_quantiles_are_taken_as_they_are():
    X, y = two_peaks(3000, 0)
    model = USNRTRegressor(**SMALL, calibration=None, max_leaves=1, max_epochs=40).fit(X, y)
    assert model.calibration_ is None
    fresh, truth = two_peaks(4000, 3)
    assert np.mean(model.predict_dist(fresh).cdf(truth) <= 0.9) == pytest.approx(0.9, abs=0.04)
    member = clone(model).set_params(random_state=None)
    ensemble = USNRTEnsemble(member, n_estimators=2, random_state=0).fit(X, y)
    parts = ensemble.predict_variance(fresh[:5])
    np.testing.assert_allclose(parts["aleatoric"] + parts["epistemic"], parts["total"])


def test_rounds_go_on_where_they_pay_only():
    """A function without noise can be learnt ever better; pure noise is left after the first round."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 3))
    quick = {**SMALL, "max_leaves": 1, "max_epochs": 12}
    smooth = USNRTRegressor(**quick).fit(X, np.sin(3 * X[:, 0]) * X[:, 1])
    noise = USNRTRegressor(**quick).fit(X, rng.normal(size=2000))
    assert "network 2" in smooth.history_[0]
    assert "network 3" not in noise.history_[0]


def test_more_rounds_while_rows_were_seen_a_few_times_only(monkeypatch):
    """Large tables have few epochs in a round."""
    schedule = Schedule(root_steps=100, more_steps=100)  # ten epochs each
    change_recipe(lambda recipe: replace(recipe, schedule=schedule), monkeypatch.setattr)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 3))
    y = np.sin(3 * X[:, 0]) * X[:, 1]

    def n_rounds(target, **more):
        history = USNRTRegressor(**SMALL, max_leaves=1, **more).fit(X, target).history_[0]
        return sum(name.startswith("network") for name in history)

    assert 3 < n_rounds(y) <= schedule.max_large_rounds
    assert n_rounds(y, max_epochs=10) == 3  # a small limit asks for a short training
    assert n_rounds(rng.normal(size=2000)) <= 3
