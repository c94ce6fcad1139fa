"""Copies of a row, by weight or because the table has duplicate rows, must not make a model surer than it may be.

A network that has memorised a row knows its copy too. Judged on copies, intervals would be as narrow as the error on
rows that were trained on: with every row given three times, nominal 90 % intervals used to hold 1.4 % of new rows.
"""

import numpy as np
import pytest

from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.datasets import make_heteroscedastic
from usnrt.paper.baselines import HNNRegressor

N, N_NEW = 600, 2000
# Large enough to memorise 480 rows, if nothing stops it.
TREE = {"hidden": (64, 32), "memory": False, "max_epochs": 60, "n_jobs": 1}
WEIGHTS = {
    "once": lambda rng: np.ones(N),
    "twice": lambda rng: np.full(N, 2.0),
    "thrice": lambda rng: np.full(N, 3.0),
    "mixed": lambda rng: rng.integers(1, 5, N).astype(float),
}
MODELS = {
    "tree": lambda seed: USNRTRegressor(random_state=seed, **TREE),
    "set aside": lambda seed: USNRTRegressor(random_state=seed, calibration_fraction=0.3, **TREE),
    "ensemble": lambda seed: USNRTEnsemble(USNRTRegressor(**{**TREE, "n_jobs": -1}), random_state=seed, n_estimators=3),
    "baseline": lambda seed: HNNRegressor(random_state=seed, max_epochs=40, n_jobs=1),
}


def covered(model, weight, seed, repeat):
    """Share of new rows that 90 % intervals hold, less 0.9."""
    data = make_heteroscedastic("smooth", n_samples=N, random_state=seed)
    if repeat:
        rows = np.repeat(np.arange(N), weight.astype(int))
        model.fit(data.data[rows], data.target[rows])
    else:
        model.fit(data.data, data.target, sample_weight=weight)
    new = make_heteroscedastic("smooth", n_samples=N_NEW, random_state=10_000 + seed)
    low, high = model.predict_interval(new.data, 0.9).T
    return np.mean((low <= new.target) & (new.target <= high)) - 0.9


def assert_holds(kind, weights, n_sets, repeat=False):
    found = [
        covered(MODELS[kind](seed), WEIGHTS[weights](np.random.default_rng(seed)), seed, repeat)
        for seed in range(n_sets)
    ]
    # One calibration of n scores varies by sqrt(0.09 / n); its mean over the sets by less, and new rows add to it.
    n_scores = {"set aside": 0.3 * N, "ensemble": N}.get(kind, 0.2 * N)
    error = np.sqrt(0.09 * (1 / n_scores + 1 / N_NEW) / n_sets)
    # 2 points more, since only rows that are set aside give an exact promise.
    assert np.mean(found) > -3.5 * error - (0.0 if kind == "set aside" else 0.02)


@pytest.mark.parametrize("kind", ["tree", "baseline"])
def test_weights_do_not_narrow_intervals_quick(kind):
    assert_holds(kind, "thrice", n_sets=3)


@pytest.mark.slow
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kind", MODELS)
def test_weights_do_not_narrow_intervals(kind, weights):
    assert_holds(kind, weights, n_sets=20)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_tables_that_repeat_themselves_do_not_narrow_intervals(kind):
    assert_holds(kind, "mixed", n_sets=10, repeat=True)
