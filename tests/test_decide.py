"""Decisions: closed forms of the normal distribution, simulation, exhaustive search, and a fitted model."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm

from usnrt.decide import (
    best_price,
    expected_cost,
    expected_shortfall,
    order_quantity,
    probability_above,
    rows_to_inspect,
)
from usnrt.distributions import (
    Mixture,
    Normal,
    QuantileDistribution,
    ResidualDistribution,
    StudentT,
    TargetMap,
    TransformedDistribution,
)

MEAN, STD = np.array([0.0, 50.0, -3.0, 1e6]), np.array([1.0, 0.01, 20.0, 300.0])
N_DRAWS = 200_000
# standard errors within which all of the simulated values of this file stay with probability 1 - 1e-6
SIGMAS = 5.6


@pytest.fixture
def normals():
    return Normal(MEAN, STD)


def nearly_normal(mean, std):
    """Quantile functions of normal distributions: those that models predict, whose moments are in closed form."""
    knots, positions = np.linspace(-6.0, 6.0, 2401), np.linspace(-3.0, 3.0, 11)
    residuals = ResidualDistribution(knots, np.exp(-(knots**2) / 2.0), np.full(2, 1e-9), np.full(2, 1e-3))
    lines = np.asarray(mean)[:, None] + np.asarray(std)[:, None] * positions
    return QuantileDistribution(lines, positions, np.zeros(len(lines), dtype=int), [residuals])


def families():
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=(2, 6)) * [[3.0], [0.5]]
    std = np.exp(std)
    bounded = TransformedDistribution(nearly_normal(mean, std), TargetMap(low=0.0))
    mixture = Mixture([Normal(mean, std), Normal(mean + 4.0, 2.0 * std)], [0.7, 0.3])
    return {"normal": Normal(mean, std), "t": StudentT(5.0, mean, std), "bounded": bounded, "mixture": mixture}


FAMILIES = families()


def normal_loss(z):
    """E max(Z - z, 0) of a standard normal."""
    return norm.pdf(z) - z * norm.sf(z)


def test_order_quantities_are_quantiles_of_the_ratio_of_costs(normals):
    assert order_quantity(normals, 3.0, 1.0) == pytest.approx(norm.ppf(0.75, MEAN, STD), rel=1e-13)


def test_order_quantities_with_costs_per_row(normals):
    short, over = np.array([1.0, 9.0, 2.0, 50.0]), np.array([1.0, 1.0, 5.0, 0.1])
    expected = norm.ppf(short / (short + over), MEAN, STD)
    assert order_quantity(normals, short, over) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_no_other_quantity_costs_less(name):
    dist, short, over = FAMILIES[name], np.linspace(0.5, 20.0, 6), np.linspace(3.0, 1.0, 6)
    best = order_quantity(dist, short, over)
    least = expected_cost(dist, best, short, over)
    for step in (-1.0, -0.1, -1e-3, 1e-3, 0.1, 1.0):
        assert (expected_cost(dist, best + step * dist.std(), short, over) >= least - 1e-9 * dist.std()).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_quantities_per_row_are_those_of_each_row_alone(name):
    dist, levels = FAMILIES[name], np.array([0.01, 0.3, 0.5, 0.77, 0.9, 0.999])
    alone = [dist[i].ppf(level)[0] for i, level in enumerate(levels)]
    assert order_quantity(dist, levels, 1.0 - levels) == pytest.approx(alone, rel=1e-9, abs=1e-9)


def test_orders_of_a_bounded_target_lie_at_its_bound():
    dist = TransformedDistribution(Normal([-5.0, -5.0], [1.0, 1.0]), TargetMap(low=0.0))
    assert order_quantity(dist, [1.0, 2.0], 1.0).tolist() == [0.0, 0.0]


def test_expected_costs_of_a_normal_are_in_closed_form(normals):
    quantity, short, over = MEAN + STD * np.array([-2.0, 0.0, 0.7, 3.0]), 4.0, 1.5
    z = (quantity - MEAN) / STD
    expected = STD * (short * normal_loss(z) + over * (z + normal_loss(z)))
    assert expected_cost(normals, quantity, short, over) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_expected_costs_are_the_average_of_simulated_costs(name):
    dist, quantity = FAMILIES[name], FAMILIES[name].ppf(0.8)
    demand = dist.rvs(N_DRAWS, random_state=1)
    cost = 5.0 * np.maximum(demand - quantity[:, None], 0) + 2.0 * np.maximum(quantity[:, None] - demand, 0)
    error = cost.std(axis=1) / np.sqrt(N_DRAWS)
    assert (np.abs(expected_cost(dist, quantity, 5.0, 2.0) - cost.mean(axis=1)) <= SIGMAS * error).all()


def test_probabilities_above_small_limits_keep_their_precision(normals):
    limit = MEAN + STD * np.array([0.0, 1.0, 8.0, -2.0])
    assert probability_above(normals, limit) == pytest.approx(norm.sf([0.0, 1.0, 8.0, -2.0]), rel=1e-9)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_expected_shortfall_of_a_normal_is_in_closed_form(normals, level):
    tail = norm.pdf(norm.ppf(level)) / (1 - level)
    tolerance = {"rel": 1e-13, "abs": 1e-8 * STD.max()}
    assert expected_shortfall(normals, level) == pytest.approx(MEAN + STD * tail, **tolerance)
    assert expected_shortfall(normals, level, "lower") == pytest.approx(MEAN - STD * tail, **tolerance)


@pytest.mark.parametrize("name", FAMILIES)
def test_expected_shortfall_is_the_mean_of_the_simulated_tail(name):
    dist, draws = FAMILIES[name], FAMILIES[name].rvs(N_DRAWS, random_state=2)
    worst = np.sort(draws, axis=1)[:, -N_DRAWS // 10 :]
    # variance of an average of the tail, its quantile being estimated: (Var(tail) + 0.9 (ES - VaR)^2) / (0.1 n)
    excess = worst.mean(axis=1) - worst[:, 0]
    error = np.sqrt((worst.var(axis=1) + 0.9 * excess**2) / (0.1 * N_DRAWS))
    difference = np.abs(expected_shortfall(dist, 0.9) - worst.mean(axis=1))
    assert (difference <= SIGMAS * error + 1e-9).all()


def test_expected_shortfall_counts_a_part_of_a_point_mass():
    # 0 with probability 0.5: the worst 80 % of small values are it and the smallest 30 % of the others
    dist = TransformedDistribution(nearly_normal([0.0], [1.0]), TargetMap(low=0.0))
    z = norm.ppf(0.8)
    part = (norm.pdf(0.0) - norm.pdf(z)) / 0.8
    assert expected_shortfall(dist, 0.2, "lower") == pytest.approx([part], rel=1e-5)  # knots every 0.005


def test_the_best_price_solves_the_first_order_condition():
    mean, std, cost = np.array([100.0, 100.0, 5.0]), np.array([5.0, 40.0, 1.0]), np.array([60.0, 60.0, 1.0])
    price = best_price(Normal(mean, std), cost)
    z = (price - mean) / std
    assert (price - cost) / std == pytest.approx(norm.sf(z) / norm.pdf(z), rel=1e-6)


def test_the_best_price_of_a_point_mass_is_that_point():
    assert best_price(Normal([10.0], [0.0]), 4.0).tolist() == [10.0]


def test_the_best_price_is_the_cost_where_no_sale_pays():
    assert best_price(Normal([10.0], [0.1]), 20.0).tolist() == [20.0]


@pytest.mark.parametrize("measure", ["missed", "share", "any"])
@pytest.mark.parametrize("risk", [0.0, 0.05, 0.2, 0.6, 1.0])
def test_no_smaller_set_of_rows_has_the_risk(measure, risk):
    dist = Normal(np.linspace(-2.0, 1.5, 8), np.linspace(1.5, 0.3, 8))
    probability = probability_above(dist, 1.0)

    def risk_without(inspected):
        left = np.delete(probability, list(inspected))
        if measure == "any":
            return 1.0 - np.prod(1.0 - left)
        return left.sum() / (probability.sum() if measure == "share" else 1.0)

    chosen = rows_to_inspect(dist, 1.0, risk, measure)
    assert risk_without(chosen) <= risk + 1e-12
    smaller = combinations(range(8), len(chosen) - 1) if len(chosen) else ()
    assert all(risk_without(rows) > risk for rows in smaller)


def test_simulated_inspections_miss_what_was_asked_for():
    rng = np.random.default_rng(0)
    dist = Normal(rng.normal(size=400), np.exp(rng.normal(size=400)))
    left = np.setdiff1d(np.arange(400), rows_to_inspect(dist, 2.0, 0.1))
    bad = dist.rvs(2000, random_state=3) > 2.0
    missed, expected = bad[left].sum(axis=0), 0.1 * probability_above(dist, 2.0).sum()
    error = missed.std() / np.sqrt(2000)
    assert expected - 1.0 - SIGMAS * error <= missed.mean() <= expected + SIGMAS * error


def test_rows_that_certainly_exceed_are_always_inspected():
    dist = Normal([0.0, 5.0, 5.0], [0.0, 0.0, 0.0])
    for measure in ("missed", "share", "any"):
        assert rows_to_inspect(dist, 1.0, 0.0, measure).tolist() == [1, 2]


def test_nothing_is_inspected_where_nothing_can_exceed():
    for measure in ("missed", "share", "any"):
        assert rows_to_inspect(Normal([0.0, 0.0], 0.0), 1.0, 0.0, measure).size == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: order_quantity(d, 0.0, 1.0), "shortage_cost must be positive, but its smallest value is 0"),
        (lambda d: order_quantity(d, 1.0, -2.0), "surplus_cost must be positive, but its smallest value is -2"),
        (lambda d: expected_cost(d, [1.0], 1.0, 1.0), r"parameters must have equal lengths, got quantity \(1,\), .*"),
        (lambda d: probability_above(d, np.nan), "limit must be finite, but it contains NaN or infinity"),
        (lambda d: expected_shortfall(d, 1.5), r"level must be in \(0, 1\), got 1.5"),
        (lambda d: expected_shortfall(d, 0.9, "left"), "side must be one of 'upper', 'lower', got 'left'"),
        (lambda d: rows_to_inspect(d, 0.0, -0.1), r"risk must be in \[0, 1\], got -0.1"),
        (lambda d: rows_to_inspect(d, 0.0, -1.0, "missed"), "risk must be >= 0, got -1.0"),
        (lambda d: rows_to_inspect(d, 0.0, 0.1, "all"), "measure must be one of 'missed', 'share', 'any', got 'all'"),
    ],
)
def test_invalid_arguments_are_refused(normals, call, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        call(normals)


def test_costs_of_an_infinite_variance_are_refused():
    with pytest.raises(ValueError, match=r"^expected costs and shortfalls need distributions with a finite variance$"):
        expected_shortfall(StudentT(1.5, [0.0], 1.0))


def test_no_rows_need_no_decisions():
    none = Normal(np.empty(0), np.empty(0))
    assert order_quantity(none, 1.0, 1.0).shape == expected_shortfall(none).shape == best_price(none, 0.0).shape == (0,)
    assert rows_to_inspect(none, 0.0, 0.1).size == 0


def test_costs_are_those_of_the_distribution_whatever_its_mean_is():
    """A calibrated distribution may have the mean of its quantile function without the tails."""
    from usnrt.distributions import QuantileDistribution, ResidualDistribution

    residual = ResidualDistribution.from_residuals(np.random.default_rng(0).standard_t(3, size=500))
    parts = [[-1.0, 0.0, 3.0]], [-1.0, 0.0, 1.0], [0], [residual]
    own, other = QuantileDistribution(*parts), QuantileDistribution(*parts, mean=[-5.0])
    for cost in (lambda dist: expected_cost(dist, 1.0, 3.0, 2.0), expected_shortfall):
        np.testing.assert_allclose(cost(other), cost(own), rtol=1e-8)


def test_decisions_take_the_distributions_of_a_fitted_model():
    from usnrt import USNRTRegressor

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 1))
    y = np.exp(X[:, 0] + 0.3 * rng.normal(size=400))
    for options in ({}, {"target_bounds": (0, None)}, {"target_bounds": (0, None), "target_transform": "log"}):
        model = USNRTRegressor.fast(max_epochs=5, random_state=0, **options).fit(X, y)
        dist = model.predict_dist(X[:50])
        draws = dist.rvs(20_000, random_state=4)
        quantity = order_quantity(dist, np.linspace(1.0, 30.0, 50), 2.0)
        cost = 3.0 * np.maximum(draws - quantity[:, None], 0) + 2.0 * np.maximum(quantity[:, None] - draws, 0)
        error = cost.std(axis=1) / np.sqrt(20_000)
        # the moments of a logarithm are sums over 241 nodes: 1e-4 of a standard deviation
        allowed = SIGMAS * error + 1e-4 * dist.std()
        assert (np.abs(expected_cost(dist, quantity, 3.0, 2.0) - cost.mean(axis=1)) <= allowed).all()
