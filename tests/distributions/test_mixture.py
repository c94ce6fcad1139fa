"""Mixtures: closed forms against scoringrules, quantiles in hard cases, the two parts of the variance."""

import numpy as np
import pytest
import scoringrules
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from usnrt.distributions import Mixture, Normal, StudentT
from usnrt.distributions.mixture import _middle_of_floats, solve_quantiles

RNG = np.random.default_rng(0)
N, M = 40, 5
MEANS, STDS = RNG.normal(scale=2.0, size=(N, M)), RNG.exponential(size=(N, M))
WEIGHTS = RNG.dirichlet(np.ones(M), size=N)
Y = 3.0 * RNG.normal(size=N)


def mixture(weights=None):
    return Mixture([Normal(MEANS[:, j], STDS[:, j]) for j in range(M)], weights)


def test_formulas_of_normal_mixtures():
    dist = mixture(WEIGHTS)
    density = (WEIGHTS * stats.norm.pdf(Y[:, None], MEANS, STDS)).sum(axis=1)
    np.testing.assert_allclose(dist.logpdf(Y), np.log(density), rtol=1e-10)
    np.testing.assert_allclose(dist.cdf(Y), (WEIGHTS * stats.norm.cdf(Y[:, None], MEANS, STDS)).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(dist.crps(Y), scoringrules.crps_mixnorm(Y, MEANS, STDS, WEIGHTS, m_axis=-1), rtol=1e-8)


def test_two_parts_of_the_variance():
    dist = mixture(WEIGHTS)
    mean = (WEIGHTS * MEANS).sum(axis=1)
    np.testing.assert_allclose(dist.mean(), mean)
    np.testing.assert_allclose(dist.aleatoric, (WEIGHTS * STDS**2).sum(axis=1))
    np.testing.assert_allclose(dist.epistemic, (WEIGHTS * (MEANS - mean[:, None]) ** 2).sum(axis=1))
    np.testing.assert_allclose(dist.var(), dist.aleatoric + dist.epistemic)
    given = dist.with_parts(np.ones(N), np.zeros(N))
    np.testing.assert_array_equal(given.aleatoric, np.ones(N))
    np.testing.assert_array_equal(given.epistemic, np.zeros(N))


def test_one_member_is_that_member():
    levels = [1e-12, 0.1, 0.5, 0.999]
    single = Normal(MEANS[:, 0], STDS[:, 0])
    for same in (Mixture([single]), Mixture([single] * 3)):
        np.testing.assert_allclose(same.ppf(levels), single.ppf(levels), rtol=1e-9)
        np.testing.assert_allclose(same.logpdf(Y), single.logpdf(Y), rtol=1e-12)
        np.testing.assert_allclose(same.crps(Y), single.crps(Y), rtol=1e-6)


@settings(deadline=None, max_examples=60)
@given(
    means=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=4),
    log_stds=st.lists(st.floats(-6, 6), min_size=4, max_size=4),
    level=st.floats(1e-12, 1 - 1e-12),
)
def test_quantiles_of_any_mixture(means, log_stds, level):
    dist = Mixture([Normal(m, 10.0**s) for m, s in zip(means, log_stds)])
    x = dist.ppf(level)[0]
    # the cdf passes the level between the floats next to x
    unit = max(1e-10 * min(10.0**s for s in log_stds), 4 * np.spacing(abs(x)))
    assert dist.cdf(x - unit)[0] <= level * (1 + 1e-9) + 1e-15
    assert dist.cdf(x + unit)[0] >= level * (1 - 1e-9) - 1e-15


def test_quantiles_across_all_scales():
    dist = Mixture(
        [Normal([0.0, 0.0, -1e150], [1e-300, 1e300, 1e-5]), Normal([1.0, 1e299, 1e150], [1e300, 1e-300, 1.0])]
    )
    levels = np.array([1e-9, 0.2, 0.5, 0.7, 1 - 1e-9])
    quantiles = dist.ppf(levels)
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=1) >= 0).all()
    # members narrower than the floats around them are steps: the level is passed between two neighbours
    ulps = 2 * np.spacing(np.abs(quantiles))
    assert (dist.cdf(quantiles - ulps) <= levels * (1 + 1e-9)).all()
    assert (dist.cdf(quantiles + ulps) >= levels * (1 - 1e-9)).all()
    assert np.isfinite(dist.std()).all()
    assert np.isfinite(dist.crps(0.0)).all()


def test_point_masses_inside_a_mixture():
    dist = Mixture([Normal([0.0], [0.0]), Normal([2.0], [0.0]), Normal([1.0], [1.0])], [0.25, 0.25, 0.5])
    np.testing.assert_allclose(dist.ppf([0.2, 0.3, 0.9]), [[0.0, 0.0, 2.0]], atol=1e-15)
    left, right = dist.cdf_left(0.0)[0], dist.cdf(0.0)[0]
    np.testing.assert_allclose([left, right], [0.5 * stats.norm.cdf(-1), 0.25 + 0.5 * stats.norm.cdf(-1)])
    assert dist.logpdf(0.0)[0] == np.inf
    assert np.isfinite(dist.logpdf(0.5)[0])
    only = Mixture([Normal([0.0], [0.0]), Normal([2.0], [0.0])])
    assert only.logpdf(1.0)[0] == -np.inf
    np.testing.assert_allclose(only.crps(1.0), [0.5])


def test_a_member_without_weight_does_not_count():
    dist = Mixture([Normal([0.0], [1.0]), Normal([1e9], [0.0])], [1.0, 0.0])
    np.testing.assert_allclose(dist.ppf([0.1, 0.9]), Normal(0.0, 1.0).ppf([0.1, 0.9]), atol=1e-9)
    np.testing.assert_allclose(dist.logpdf(0.5), Normal(0.0, 1.0).logpdf(0.5))
    assert dist.logpdf(1e9)[0] < -1e17
    np.testing.assert_allclose([dist.mean()[0], dist.std()[0]], [0.0, 1.0])
    assert dist.rvs(1000, random_state=0).max() < 10
    np.testing.assert_allclose(dist.aleatoric, [1.0])


def test_members_and_weights_are_arrays():
    dist = mixture([1.0, 1.0, 2.0, 0.0, 0.0])
    assert dist.n_members == M
    assert dist.means.shape == dist.stds.shape == (N, M)
    np.testing.assert_allclose(dist.weights[3], [0.25, 0.25, 0.5, 0.0, 0.0])
    np.testing.assert_array_equal(dist.components[2].mean(), MEANS[:, 2])
    np.testing.assert_array_equal(dist[4:6].stds, STDS[4:6])


def test_chunks_do_not_change_the_result(monkeypatch):
    dist = mixture()
    whole = dist.ppf([0.1, 0.9]), dist.cdf(Y), dist.logpdf(Y)
    import usnrt.distributions.mixture as module

    chunks = module.row_chunks
    monkeypatch.setattr(module, "row_chunks", lambda n, values: chunks(n, values, max_values=30))
    for a, b in zip(whole, (dist.ppf([0.1, 0.9]), dist.cdf(Y), dist.logpdf(Y))):
        np.testing.assert_array_equal(a, b)


def test_bad_components_and_weights():
    normal, t = Normal([0.0], 1.0), StudentT(3.0, [0.0], 1.0)
    with pytest.raises(TypeError, match=r"components must be Normal, got \['Normal', 'StudentT'\]"):
        Mixture([normal, t])
    with pytest.raises(TypeError, match=r"components must be Normal, got \[\]"):
        Mixture([])
    with pytest.raises(ValueError, match=r"components must have equal numbers of rows, got \[1, 2\]"):
        Mixture([normal, Normal([0.0, 1.0], 1.0)])
    with pytest.raises(ValueError, match=r"weights must have shape \(2,\) or \(1, 2\), got \(3,\)"):
        Mixture([normal, normal], [1, 1, 1])
    with pytest.raises(ValueError, match="weights must be finite and >= 0, but some are not"):
        Mixture([normal, normal], [1, -1])
    with pytest.raises(ValueError, match="weights must have a positive sum in every row, but a sum is 0"):
        Mixture([normal, normal], [0, 0])


def test_solver_survives_a_cdf_of_steps():
    edges = np.array([-3.0, 1e-200, 5.0])

    def steps(problems, x):
        return np.array([(edges <= value).mean() for value in x]), np.zeros(x.size)

    q = np.array([0.2, 0.5, 0.9])
    found = solve_quantiles(steps, q, np.full(3, -1e300), np.full(3, 1e300), np.zeros(3))
    np.testing.assert_array_equal(found, edges)


def test_middle_of_floats_lies_between():
    left, right = np.array([-1e300, -1.0, 1e-300, 0.0, 1.0]), np.array([1e300, 1e-300, 1.0, 5e-324, 1.0 + 2**-51])
    middle = _middle_of_floats(left, right)
    assert ((left <= middle) & (middle <= right)).all()
    assert middle[4] == 1.0 + 2**-52
