"""Weights that differ much are little evidence: coverage on the population they describe, or no finite bound."""

import numpy as np
import pytest

from usnrt import USNRTRegressor
from usnrt.utils.notices import InfiniteIntervalWarning, UnguaranteedIntervalWarning

N_NEW, N_TABLES = 2000, 20
SMALL = {"hidden": (64, 32), "max_epochs": 30, "n_jobs": 1}
TREE = {**SMALL, "memory": False, "calibration_fraction": 0.3}


def make_rows(rng, n, shift=0.0):
    x = rng.normal(shift, 1.0, n)
    return x[:, None], np.sin(x) + np.exp(0.4 * x) * 0.3 * rng.normal(size=n)


@pytest.mark.slow
def test_importance_weights_cover_the_population_they_describe():
    """Weights exp(x) of standard normal rows describe rows around 1."""
    covered = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = make_rows(rng, 2000)
        model = USNRTRegressor(random_state=seed, **TREE).fit(X, y, sample_weight=np.exp(X[:, 0]))
        X_new, y_new = make_rows(rng, N_NEW, 1.0)
        low, high = model.predict_interval(X_new, 0.9).T
        covered.append(np.mean((low <= y_new) & (y_new <= high)))
    # about 200 effective scores per set
    assert np.mean(covered) > 0.9 - 3.5 * np.sqrt(0.09 * (1 / 200 + 1 / N_NEW) / 10)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::usnrt.utils.notices.UnguaranteedIntervalWarning")
@pytest.mark.parametrize(("memory", "tilt"), [(True, 0.0), (True, 1.5), (False, 1.5), (True, 2.5)])
def test_importance_weights_by_validation_rows(memory, tilt):
    """Weights exp(tilt x) describe rows around tilt; 0 is the null case. With the memory, large weights were copies."""
    shares, counts = [], []
    for seed in range(N_TABLES):
        rng = np.random.default_rng([seed, 3])
        X, y = make_rows(rng, 2000)
        model = USNRTRegressor(random_state=seed, memory=memory, **SMALL)
        model.fit(X, y, sample_weight=np.exp(tilt * X[:, 0]))
        assert model.model_.seen is None
        X_new, y_new = make_rows(rng, N_NEW, tilt)
        low, high = model.predict_interval(X_new, 0.9).T
        shares.append(np.mean((low <= y_new) & (y_new <= high)))
        counts.append(np.mean([weights.sum() for weights in model.calibration_.weights]))
    error = np.std(shares, ddof=1) / np.sqrt(N_TABLES)
    print(
        f"exp({tilt} x), memory={memory}: {np.mean(shares):.4f} ± {error:.4f}, {np.mean(counts):.0f} effective scores"
    )
    # about 20 effective scores at exp(2.5 x), most of them of one row: too few, and a warning says so
    assert np.mean(shares) > (0.9 - 3 * error if tilt < 2 else 0.75)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::usnrt.utils.notices.InfiniteIntervalWarning")
def test_twenty_rows_of_weight_1000_give_no_finite_bound():
    rng = np.random.default_rng(0)
    X, y = make_rows(rng, 2000)
    weight = np.where(np.arange(2000) < 20, 1000.0, 1.0)
    model = USNRTRegressor(random_state=0, **TREE).fit(X, y, sample_weight=weight)
    with pytest.warns(
        InfiniteIntervalWarning, match="effective calibration rows, by their weights or groups; 19 are needed"
    ):
        assert np.isinf(model.predict_interval(X[:50], 0.9, guaranteed=True)).all()


def test_a_warning_names_effective_scores_that_are_too_few():
    rng = np.random.default_rng(0)
    X, y = make_rows(rng, 400)
    model = USNRTRegressor(hidden=(8,), max_epochs=5, memory=False, random_state=0)
    model.fit(X, y, sample_weight=np.exp(3 * X[:, 0]))
    with pytest.warns(UnguaranteedIntervalWarning, match="effective calibration rows, by their weights or groups; 19"):
        assert np.isfinite(model.predict_interval(X[:5], 0.9)).all()
