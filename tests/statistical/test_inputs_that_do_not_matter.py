"""What irrelevant columns and monotone transforms cost the default estimator (docs/recipe.md has all figures)."""

import numpy as np
import pytest
from scipy.special import ndtr

from usnrt import USNRTRegressor

pytestmark = pytest.mark.slow


def draw(n, n_more, seed):
    """Normal features, of which three matter: a sine of a product, and a square."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3 + n_more))
    a, b, c = ndtr(x[:, :3]).T
    return x, 2 * np.sin(np.pi * a * b) + 8 * (c - 0.5) ** 2 + 0.2 * rng.normal(size=n)


def crps(x, y, new, target):
    model = USNRTRegressor(random_state=0, n_jobs=1).fit(x, y)
    return float(model.predict_dist(new).crps(target).mean())


@pytest.fixture(scope="module")
def alone():
    (x, y), (new, target) = draw(1500, 100, 0), draw(3000, 100, 1)
    return crps(x[:, :3], y, new[:, :3], target)


def test_a_hundred_irrelevant_columns_cost_8_percent(alone):
    assert crps(*draw(1500, 100, 0), *draw(3000, 100, 1)) < 1.08 * alone


def test_exponentials_cost_3_percent(alone):
    (x, y), (new, target) = draw(1500, 100, 0), draw(3000, 100, 1)
    assert crps(np.exp(3 * x[:, :3]), y, np.exp(3 * new[:, :3]), target) < 1.03 * alone
