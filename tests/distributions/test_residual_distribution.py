"""Residual distributions: formulas against integration, estimates in regular and in degenerate cases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from usnrt.distributions import ResidualDistribution
from usnrt.distributions.residual_fit import fit_residual_distribution

SIMPLE = ResidualDistribution(
    np.array([-1.0, 0.0, 2.0]), np.array([0.2, 0.5, 0.1]), np.array([0.1, 0.2]), np.array([0.3, 0.1])
)


def test_total_mass_is_one():
    raw = 0.1 + 0.2 + 0.35 + 0.6
    np.testing.assert_allclose(SIMPLE.cdf(np.array([-1.0, 0.0, 2.0])), np.array([0.1, 0.45, 1.05]) / raw)
    np.testing.assert_allclose(np.exp(SIMPLE.logpdf(np.array([-0.5, 1.0]))), np.array([0.35, 0.3]) / raw)


def test_tails_are_pareto():
    mass, scale, index = 0.1 / 1.25, 0.1 / 0.2, 0.3
    tail = stats.genpareto(index, scale=scale)
    s = np.array([0.01, 1.0, 50.0, 1e6])
    np.testing.assert_allclose(SIMPLE.cdf(-1.0 - s), mass * tail.sf(s), rtol=1e-10)
    np.testing.assert_allclose(SIMPLE.logpdf(-1.0 - s), np.log(mass) + tail.logpdf(s), rtol=1e-10)
    np.testing.assert_allclose(SIMPLE.ppf(mass * tail.sf(s)), -1.0 - s, rtol=1e-10)


def test_density_has_no_jump_at_the_outer_knots():
    for knot in (-1.0, 2.0):
        inner, outer = SIMPLE.logpdf(np.array([knot - 1e-9, knot + 1e-9]))
        assert abs(inner - outer) < 1e-6


def test_moments_and_crps_against_integration():
    t = np.linspace(-40.0, 40.0, 800001)
    x, dx = np.sinh(t), np.cosh(t) * (t[1] - t[0])
    density, below = np.exp(SIMPLE.logpdf(x)), SIMPLE.cdf(x)
    np.testing.assert_allclose(SIMPLE.mean, (x * density * dx).sum(), rtol=1e-6)
    np.testing.assert_allclose(SIMPLE.std**2, ((x - SIMPLE.mean) ** 2 * density * dx).sum(), rtol=1e-5)
    for z in (-30.0, -1.0, -0.3, 1.7, 2.0, 400.0):
        miss = np.where(x >= z, (1 - below) ** 2, below**2) * dx
        np.testing.assert_allclose(SIMPLE.crps(np.array(z)), miss.sum(), rtol=1e-3)


def test_crps_is_least_near_the_median_and_grows_like_distance():
    z = np.linspace(-5, 5, 2001)
    assert abs(z[np.argmin(SIMPLE.crps(z))] - SIMPLE.ppf(np.array(0.5))) < 0.01
    np.testing.assert_allclose(SIMPLE.crps(np.array(1e9)) - SIMPLE.crps(np.array(0.5e9)), 0.5e9, rtol=1e-6)


@settings(deadline=None, max_examples=40)
@given(
    residuals=st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=40),
    level=st.floats(1e-9, 1 - 1e-9),
)
def test_any_residuals_give_a_proper_distribution(residuals, level):
    residual = ResidualDistribution.from_residuals(residuals)
    z = residual.ppf(np.array([1e-12, level, 1 - 1e-12]))
    assert np.isfinite(z).all()
    assert z[0] <= z[1] <= z[2]
    np.testing.assert_allclose(residual.cdf(z[1]), level, atol=1e-6)
    assert np.isfinite(residual.logpdf(z)).all()
    assert np.isfinite([residual.mean, residual.std]).all()
    assert residual.std > 0
    assert (residual.crps(z) >= 0).all()
    assert (np.diff(residual.cdf(residual.knots)) >= 0).all()


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_few_residuals_give_only_a_scale(n):
    residuals = np.linspace(1.0, 2.0, n)
    residual = ResidualDistribution.from_residuals(residuals)
    rms = np.sqrt(np.mean(residuals**2))
    np.testing.assert_allclose(
        residual.ppf(np.array([0.05, 0.5, 0.95])), rms * stats.t.ppf([0.05, 0.5, 0.95], 5), atol=0.01
    )
    np.testing.assert_allclose(residual.std, rms * np.sqrt(5 / 3), rtol=0.05)


def test_nothing_but_zeros():
    for n in (1, 3, 200):
        residual = ResidualDistribution.from_residuals(np.zeros(n))
        width = float(np.diff(residual.ppf(np.array([0.05, 0.95])))[0])
        assert abs(residual.ppf(np.array(0.5))) < 1e-12
        # one zero is no evidence about the scale; two hundred are evidence of a point mass
        assert (width > 1.0) if n == 1 else (width < 3.0 if n == 3 else width < 0.01)
        assert np.isfinite(residual.logpdf(np.array([0.0, 5.0]))).all()


def test_zero_inflated_residuals_keep_the_mass_of_the_zeros():
    rng = np.random.default_rng(0)
    residuals = np.where(rng.random(1000) < 0.6, 0.0, rng.exponential(2.0, size=1000))
    residual = ResidualDistribution.from_residuals(residuals)
    mass = np.diff(residual.cdf(np.array([-0.01, 0.01])))[0]
    assert abs(mass - (residuals == 0).mean()) < 0.02
    others = residuals[residuals > 0]
    for level in (0.3, 0.6, 0.9):
        above = 0.6 + 0.4 * level
        assert abs(residual.ppf(np.array(above)) - np.quantile(others, level)) < 0.35
    # the smooth part ranks the same with and without the zeros
    np.testing.assert_allclose(residual.mean, residuals.mean(), atol=0.05)


def test_estimate_is_near_a_known_truth():
    rng = np.random.default_rng(1)
    levels = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
    for truth in (stats.norm(0, 1), stats.t(3), stats.gamma(2, loc=-2), stats.norm(5, 0.01)):
        residual = ResidualDistribution.from_residuals(truth.rvs(5000, random_state=rng))
        np.testing.assert_allclose(truth.cdf(residual.ppf(levels)), levels, atol=0.015)
        held_out = truth.rvs(20000, random_state=rng)
        lost = truth.logpdf(held_out).mean() - residual.logpdf(held_out).mean()
        assert lost < 0.015


@settings(deadline=None, max_examples=20)
@given(shift=st.floats(-50, 50), factor=st.floats(1e-3, 1e3))
def test_estimate_moves_along_with_its_residuals(shift, factor):
    residuals = np.random.default_rng(2).standard_t(4, size=80)
    levels = np.array([0.001, 0.1, 0.5, 0.8, 0.999])
    plain, moved = (
        ResidualDistribution.from_residuals(residuals),
        ResidualDistribution.from_residuals(factor * residuals + shift),
    )
    np.testing.assert_allclose(moved.ppf(levels), factor * plain.ppf(levels) + shift, atol=1e-4 * factor)
    np.testing.assert_allclose(moved.std, factor * plain.std, rtol=1e-4)


def test_order_does_not_matter_and_weights_count_rows():
    rng = np.random.default_rng(3)
    residuals = rng.normal(size=60)
    shuffled = ResidualDistribution.from_residuals(rng.permutation(residuals))
    plain = ResidualDistribution.from_residuals(residuals)
    np.testing.assert_array_equal(plain.knots, shuffled.knots)
    np.testing.assert_array_equal(
        plain.density, ResidualDistribution.from_residuals(residuals, np.full(60, 7.0)).density
    )
    heavy = ResidualDistribution.from_residuals(
        np.concatenate([residuals, residuals + 10.0]), np.repeat([1.0, 1e-3], 60)
    )
    assert abs(heavy.ppf(np.array(0.5)) - plain.ppf(np.array(0.5))) < 0.1
    assert heavy.cdf(np.array(5.0)) > 0.97


def test_many_residuals_are_grouped_without_loss():
    residuals = np.random.default_rng(4).gamma(2.0, size=20000)
    residual = ResidualDistribution.from_residuals(residuals)
    assert residual.knots.size < 800
    levels = np.array([0.005, 0.1, 0.5, 0.9, 0.995])
    np.testing.assert_allclose((residuals[:, None] <= residual.ppf(levels)).mean(axis=0), levels, atol=0.006)


def test_heavy_tails_do_not_swallow_the_spread():
    for seed in range(5):
        residuals = np.random.default_rng(seed).lognormal(sigma=1.0, size=100)
        residual = ResidualDistribution.from_residuals(residuals)
        assert 0.6 < residual.std / residuals.std() < 1.5


@pytest.mark.slow
def test_the_estimator_beats_the_simpler_ones_on_held_out_rows():
    """The study behind the choice: mean loss of log score against the truth, over distributions and repetitions."""
    truths = [
        stats.norm(),
        stats.t(3, scale=0.6),
        stats.lognorm(0.8, loc=-1.2),
        stats.gamma(2, loc=-1.4, scale=0.7),
        stats.laplace(0, 0.7),
    ]
    for n in (100, 300, 1000):
        lost = {"ours": [], "normal": [], "t": [], "kde": []}
        for truth in truths:
            held_out = truth.rvs(4000, random_state=99)
            best = truth.logpdf(held_out).mean()
            for seed in range(4):
                r = truth.rvs(n, random_state=seed)
                lost["ours"].append(best - ResidualDistribution.from_residuals(r).logpdf(held_out).mean())
                lost["normal"].append(best - stats.norm.logpdf(held_out, r.mean(), r.std()).mean())
                lost["t"].append(best - stats.t.logpdf(held_out, *stats.t.fit(r)).mean())
                lost["kde"].append(best - np.log(stats.gaussian_kde(r)(held_out) + 1e-300).mean())
        means = {name: np.mean(values) for name, values in lost.items()}
        assert means["ours"] < 0.6 * min(means["normal"], means["t"], means["kde"]), (n, means)


@pytest.mark.parametrize(
    ("residuals", "weights", "message"),
    [
        ([], None, r"residuals must have shape \(n,\) with n >= 1, got \(0,\)"),
        ([0.0, np.nan], None, "residuals must be finite, but they contain NaN or infinity"),
        ([0.0, 1.0], [1.0], r"weights must have shape \(2,\), got \(1,\)"),
        ([0.0, 1.0], [1.0, 0.0], "weights must be finite and positive, but some are not"),
    ],
)
def test_bad_residuals(residuals, weights, message):
    with pytest.raises(ValueError, match=message):
        fit_residual_distribution(residuals, weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"knots": np.array([0.0, 0.0])}, "knots must be finite and increasing, but they are not"),
        ({"density": np.array([0.0, 1.0])}, "density must be finite and positive, but it is not"),
        ({"density": np.ones(3)}, r"knots and density must have one shape \(K,\), got \(2,\) and \(3,\)"),
        ({"tail_mass": np.array([0.0, 0.1])}, r"tail_mass must be two positive numbers, got \[0.  0.1\]"),
    ],
)
def test_bad_parameters(change, message):
    good = {"knots": np.array([0.0, 1.0]), "density": np.ones(2), "tail_mass": np.ones(2), "tail_index": np.ones(2)}
    with pytest.raises(ValueError, match=message):
        ResidualDistribution(**(good | change))
