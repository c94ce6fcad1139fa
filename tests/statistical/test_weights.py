"""Weights that differ much are little evidence: coverage on the population they describe, or no finite bound."""

import numpy as np
import pytest

from usnrt import USNRTRegressor
from usnrt.utils.notices import InfiniteIntervalWarning

N_NEW = 2000
TREE = {"hidden": (64, 32), "max_epochs": 30, "memory": False, "n_jobs": 1, "calibration_fraction": 0.3}


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
