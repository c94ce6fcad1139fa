"""Are categories tested honestly? Size and power of the corrected split test for any number of levels.

Trees are grown from given residuals: a fifth of the rows is tested, the others order the levels. Bounds are quantiles
of the binomial distribution: a right test exceeds them once in ten thousand runs. The seeds are fixed.
"""

import numpy as np
import pytest
from given import grow_given
from scipy import stats

from usnrt import USNRTRegressor

LEVELS = (5, 20, 50, 300, 1000)


def noise(kind):
    return {
        "normal": lambda rng, n: rng.normal(size=n),
        "t3": lambda rng, n: rng.standard_t(3, size=n),
        "laplace": lambda rng, n: rng.laplace(size=n),
    }[kind]


def levels(rng, n, n_levels, uneven=False):
    """Codes of levels, all as frequent, or the k-th a k-th as frequent as the first."""
    shares = 1 / np.arange(1, n_levels + 1) if uneven else np.ones(n_levels)
    return rng.choice(n_levels, n, p=shares / shares.sum()).astype(float)


def n_split(n_trials, alpha, n_levels, *, n=2000, ratio=1.0, draw="normal", missing=0.0, seed=0, uneven=False, **how):
    """How many of so many trees split; levels of even codes are `ratio` times as noisy. No levels: numbers only."""
    rng = np.random.default_rng(seed)
    found = 0
    for _ in range(n_trials):
        numbers = rng.normal(size=(n, 2))
        codes = levels(rng, n, max(n_levels, 1), uneven)
        residuals = noise(draw)(rng, n) * np.where(codes % 2 == 0, ratio, 1.0)
        X = np.column_stack([numbers, codes]) if n_levels else numbers
        X[rng.uniform(size=X.shape) < missing] = np.nan
        kinds = [0, 0, n_levels] if n_levels else [0, 0]
        grown = grow_given(X, residuals, kinds, alpha=alpha, **{"min_samples_leaf": n // 10, **how})
        found += len(grown.leaves) > 1
    return found


def at_most(alpha, n_trials):
    return stats.binom.ppf(1 - 1e-4, n_trials, alpha)


def at_least(power, n_trials):
    return stats.binom.ppf(1e-4, n_trials, power)


@pytest.mark.parametrize("n_levels", [5, 50, 300])
def test_noise_is_not_split(n_levels):
    assert n_split(60, 0.05, n_levels) <= at_most(0.05, 60)


@pytest.mark.parametrize("n_levels", [5, 50, 300])
def test_planted_levels_are_found(n_levels):
    assert n_split(20, 0.01, n_levels, ratio=2.0) >= at_least(0.9, 20)


def test_without_other_rows_levels_split_noise():
    # the paper's way, and why the default strategy does otherwise
    assert n_split(20, 0.01, 300, part=1) == 20


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 0.01])
@pytest.mark.parametrize("n_levels", [0, *LEVELS])
def test_the_size_is_at_most_alpha(n_levels, alpha):
    assert n_split(1000, alpha, n_levels) <= at_most(alpha, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 0.01])
@pytest.mark.parametrize("draw", ["t3", "laplace"])
@pytest.mark.parametrize("min_samples_leaf", [20, 50, 200])
@pytest.mark.parametrize("n_levels", [0, 5, 300])
def test_size_is_at_most_alpha_with_heavy_tails_and_small_leaves(n_levels, min_samples_leaf, draw, alpha):
    n_trials = 500
    found = n_split(n_trials, alpha, n_levels, draw=draw, min_samples_leaf=min_samples_leaf, uneven=True)
    assert found <= at_most(alpha, n_trials)


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 500])
@pytest.mark.parametrize("n_levels", [0, 5, 50])
def test_size_is_at_most_alpha_with_few_rows_and_missing_values(n, n_levels):
    found = n_split(500, 0.05, n_levels, n=n, missing=0.2, min_samples_leaf=20, uneven=True)
    assert found <= at_most(0.05, 500)


@pytest.mark.slow
@pytest.mark.parametrize(("n_levels", "power"), [(5, 0.99), (50, 0.99), (300, 0.95)])
def test_the_power_for_twice_the_noise(n_levels, power):
    assert n_split(200, 0.01, n_levels, ratio=2.0) >= at_least(power, 200)


def text_table(rng, n, n_levels, ratio=1.0):
    """Two numbers that matter and a text column; of its levels half are `ratio` times as noisy."""
    pd = pytest.importorskip("pandas")
    codes = rng.integers(0, n_levels, n)
    table = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    table["text"] = [f"level {code}" for code in codes]
    return table, np.sin(table["a"]) + table["b"] + rng.normal(size=n) * np.where(codes % 2 == 0, ratio, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("n_levels", [5, 50, 300])
def test_whole_fits_do_not_split_noise_and_cover(n_levels):
    n_leaves, covered = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        model = USNRTRegressor(max_epochs=20, random_state=seed).fit(*text_table(rng, 4000, n_levels))
        X, y = text_table(rng, 4000, n_levels)
        lower, upper = model.predict_interval(X, 0.9).T
        n_leaves.append(model.n_leaves_)
        covered.append(np.mean((lower <= y) & (y <= upper)))
    assert sum(n > 1 for n in n_leaves) <= at_most(0.01, 8)
    assert np.mean(covered) == pytest.approx(0.9, abs=0.015)  # 800 calibration rows a fit: 0.011 each, 0.004 of eight


@pytest.mark.slow
@pytest.mark.parametrize("n_levels", [5, 50, 300])
def test_fits_find_planted_levels_and_keep_the_promised_leaf(n_levels):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = text_table(rng, 4000, n_levels, ratio=2.0)
        model = USNRTRegressor(max_epochs=20, random_state=seed, min_samples_leaf=1500).fit(X, y)
        assert model.n_leaves_ == 2
        assert model.tree_.n_rows.min() >= 1500
        assert np.unique(model.apply(X), return_counts=True)[1].min() >= 1500
