"""Generated tables have exactly the mean, spread and quantiles they state."""

import numpy as np
import pytest
from scipy import stats

from usnrt.datasets import _KINDS, make_heteroscedastic

KINDS = sorted(_KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_and_reproducibility(kind):
    first = make_heteroscedastic(kind, n_samples=50, n_features=5, random_state=3)
    again = make_heteroscedastic(kind, n_samples=50, n_features=5, random_state=3)
    other = make_heteroscedastic(kind, n_samples=50, n_features=5, random_state=4)
    assert first.data.shape == (50, 5)
    assert first.feature_names == ["x0", "x1", "x2", "x3", "x4"]
    np.testing.assert_array_equal(first.target, again.target)
    assert not np.array_equal(first.target, other.target)


@pytest.mark.parametrize("kind", KINDS)
def test_the_drawn_rows_follow_the_stated_law(kind):
    bunch = make_heteroscedastic(kind, n_samples=20_000, random_state=1)
    truth = bunch.truth
    pit = truth.cdf(bunch.data, bunch.target)
    if kind == "zero_inflated":  # its distribution function jumps at zero: spread that mass evenly
        at_zero = bunch.target == 0
        rng = np.random.default_rng(0)
        pit = np.where(at_zero, rng.uniform(size=len(pit)) * pit, pit)
    assert stats.kstest(pit, "uniform").pvalue > 0.001
    for number in range(len(truth.regions)):
        rows = truth.region(bunch.data) == number
        standardised = (bunch.target[rows] - truth.mean(bunch.data[rows])) / truth.std(bunch.data[rows])
        assert abs(standardised.mean()) < 5 / np.sqrt(rows.sum())
        assert standardised.std() == pytest.approx(1, rel=0.15 if kind == "zero_inflated" else 0.08)


@pytest.mark.parametrize("kind", KINDS)
def test_quantiles_cover_as_they_say(kind):
    bunch = make_heteroscedastic(kind, n_samples=20_000, random_state=2)
    quantiles = bunch.truth.quantile(bunch.data, [0.85, 0.95])
    assert quantiles.shape == (20_000, 2)
    np.testing.assert_allclose((bunch.target[:, None] <= quantiles).mean(0), [0.85, 0.95], atol=0.01)
    np.testing.assert_array_equal(bunch.truth.quantile(bunch.data, 0.95), quantiles[:, 1])


@pytest.mark.parametrize("kind", ["piecewise", "jump", "heavy_tails"])
def test_mean_and_noise_jump_at_the_first_boundary(kind):
    truth = make_heteroscedastic(kind, n_samples=1, random_state=0).truth
    feature, threshold = truth.boundaries[0]
    x = np.full((2, 4), 0.3)
    x[:, feature] = [threshold, threshold + 1e-9]
    assert abs(np.diff(truth.mean(x))) > 0.2
    assert abs(np.diff(truth.std(x))) > 0.2


def test_homoscedastic_noise_is_the_same_everywhere():
    bunch = make_heteroscedastic("homoscedastic", n_samples=100, random_state=0)
    assert set(bunch.truth.std(bunch.data)) == {0.5}


def test_zero_inflated_has_exact_zeros():
    bunch = make_heteroscedastic("zero_inflated", n_samples=5000, random_state=0)
    left = bunch.truth.region(bunch.data) == 0
    assert (bunch.target[left] == 0).mean() == pytest.approx(0.8, abs=0.03)
    assert (bunch.target[~left] == 0).mean() == pytest.approx(0.3, abs=0.03)


def test_categorical_codes_decide_the_region():
    bunch = make_heteroscedastic("categorical", n_samples=200, random_state=0)
    assert bunch.categorical_names == ["x0"]
    assert set(bunch.data[:, 0]) == {0, 1, 2, 3}
    np.testing.assert_array_equal(bunch.truth.region(bunch.data), bunch.data[:, 0] % 2)


def test_clear_errors():
    with pytest.raises(ValueError, match=r"^kind must be one of \[.*\], got 'steps'$"):
        make_heteroscedastic("steps")
    with pytest.raises(ValueError, match=r"^n_samples must be at least 1, got 0$"):
        make_heteroscedastic(n_samples=0)
    with pytest.raises(ValueError, match=r"^n_features must be at least 3, got 2$"):
        make_heteroscedastic(n_features=2)
    truth = make_heteroscedastic(n_samples=1).truth
    with pytest.raises(ValueError, match=r"^X must have shape \(n, d\) with d >= 3, got \(3,"):
        truth.mean([0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"got 1.0$"):
        truth.quantile([[0.1, 0.2, 0.3]], 1.0)
