"""The normal-inverse-gamma loss and its predictive distribution against scipy."""

import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats
from scipy.special import gammaln

from usnrt.nn.losses import EvidentialLoss, _log_gamma_ratio, nig_parameters, softplus
from usnrt.paper.baselines import EvidentialRegressor

outputs_of_a_row = st.tuples(st.floats(-3, 3), st.floats(-6, 8), st.floats(-6, 8), st.floats(-6, 8))


def evidence(outputs):
    return nig_parameters(np.atleast_2d(np.asarray(outputs, dtype=np.float64)), softplus)


@given(outputs_of_a_row, st.floats(-5, 5))
@settings(deadline=None, max_examples=100)
def test_loss_without_price_is_minus_the_log_density_of_scipys_t(outputs, y):
    gamma, nu, alpha, beta = evidence(outputs)
    expected = -stats.t.logpdf(y, df=2 * alpha, loc=gamma, scale=np.sqrt(beta * (1 + nu) / (nu * alpha)))
    value = EvidentialLoss(0.0)(np.float32([outputs]), np.float32([y]))
    np.testing.assert_allclose(value, expected, rtol=2e-4, atol=2e-4)


@given(outputs_of_a_row, st.floats(-5, 5))
@settings(deadline=None, max_examples=50)
def test_the_price_is_the_error_times_the_evidence(outputs, y):
    gamma, nu, alpha, _ = evidence(outputs)
    batch = np.float32([outputs]), np.float32([y])
    price = EvidentialLoss(0.5)(*batch) - EvidentialLoss(0.0)(*batch)
    expected = 0.5 * np.abs(y - gamma) * (2 * nu + alpha)
    np.testing.assert_allclose(price, expected, rtol=1e-3, atol=1e-3 * (1 + expected.max()))


def test_the_density_is_that_of_the_hierarchy():
    # y given mean and variance is normal; both are drawn from the normal-inverse-gamma distribution.
    gamma, nu, alpha, beta = 1.0, 2.0, 3.0, 1.5
    rng = np.random.default_rng(0)
    variance = stats.invgamma.rvs(alpha, scale=beta, size=200_000, random_state=rng)
    mean = rng.normal(gamma, np.sqrt(variance / nu))
    draws = rng.normal(mean, np.sqrt(variance))
    t = stats.t(2 * alpha, gamma, np.sqrt(beta * (1 + nu) / (nu * alpha)))
    assert stats.kstest(draws, t.cdf).pvalue > 1e-3
    assert mean.var() == pytest.approx(beta / (nu * (alpha - 1)), rel=0.02)
    assert variance.mean() == pytest.approx(beta / (alpha - 1), rel=0.02)


@pytest.mark.parametrize("outputs", [(0.0, 80.0, 80.0, 80.0), (0.0, -80.0, -80.0, -80.0), (1e6, 1e6, 1e6, -1e6)])
def test_loss_and_gradient_stay_finite_at_the_ends(outputs):
    loss = lambda row: EvidentialLoss(0.01)(row[None], np.float32([3.0]))[0]  # noqa: E731
    value, gradient = jax.value_and_grad(loss)(np.float32(outputs))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_large_evidence_keeps_its_digits():
    # Γ(α) and Γ(α + 1/2) cancel to many digits: float32 alone would be off by more than 1 here.
    outputs = np.float32([[0.0, 1.0, 1e6, 1e6]])
    gamma, nu, alpha, beta = evidence(outputs)
    expected = -stats.norm.logpdf(0.5, gamma, np.sqrt(beta * (1 + nu) / (nu * alpha)))  # the limit of many degrees
    np.testing.assert_allclose(EvidentialLoss(0.0)(outputs, np.float32([0.5])), expected, rtol=1e-4)


def test_the_ratio_of_gamma_functions_is_exact():
    alpha = np.geomspace(1.01, 1e6, 200).astype(np.float32)
    expected = gammaln(alpha.astype(np.float64)) - gammaln(alpha.astype(np.float64) + 0.5)
    np.testing.assert_allclose(_log_gamma_ratio(alpha), expected, rtol=2e-6, atol=2e-6)


def test_parts_sum_to_the_variance_of_the_predictive_t():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    model = EvidentialRegressor(hidden=(8,), max_epochs=5, calibrate=False, random_state=0).fit(X, X[:, 0])
    parts, dist = model.predict_variance(X), model.predict_dist(X)
    expected = stats.t.var(dist.df, loc=dist.loc, scale=dist.scale)
    np.testing.assert_allclose(parts["aleatoric"] + parts["epistemic"], expected, rtol=1e-10)
    np.testing.assert_allclose(parts["total"], expected, rtol=1e-10)
