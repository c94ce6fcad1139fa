"""Decisions from predictive distributions: how much to order, what to charge, what to inspect, how bad it may become.

A point forecast answers none of these questions: each needs another part of the distribution. All functions take the
distributions of ``model.predict_dist(X)`` and return one value per row.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from usnrt.distributions import Distribution
from usnrt.distributions.base import broadcast_rows
from usnrt.utils.constraints import check_choice
from usnrt.utils.types import Floats, Rows

__all__ = [
    "best_price",
    "expected_cost",
    "expected_shortfall",
    "order_quantity",
    "probability_above",
    "rows_to_inspect",
]

# E|Y - t| = CRPS(t) + E|Y - Y'| / 2, whose second term is the limit of |t - E[Y]| - CRPS(t). At 1e6 standard deviations
# the difference to the limit is negligible even for Student's t, and its rounding is 1e-10 of a standard deviation.
FAR = 1e6
# Quantiles among which the best price is bracketed, and steps that narrow the bracket by 0.618 each: to 1e-9 of it.
PRICE_LEVELS = np.arange(1, 200) / 200.0
GOLDEN, GOLDEN_STEPS = (np.sqrt(5.0) - 1.0) / 2.0, 43


def order_quantity(dist: Distribution, shortage_cost: ArrayLike, surplus_cost: ArrayLike) -> Floats:
    """Quantities of least expected cost, where every missing and every superfluous unit has its cost (newsvendor).

    It is the quantile of level ``shortage_cost / (shortage_cost + surplus_cost)``.

    Parameters
    ----------
    dist : Distribution
        Of the demand.
    shortage_cost, surplus_cost : float or array-like of shape (n,)
        Cost of each unit of demand above, and below, the quantity; positive.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> from usnrt.decide import order_quantity
    >>> from usnrt.distributions import Normal
    >>> order_quantity(Normal([100.0, 100.0], [10.0, 40.0]), shortage_cost=9.0, surplus_cost=1.0).round(1)
    array([112.8, 151.3])
    """
    short, over = _costs(dist, shortage_cost, surplus_cost)
    return dist.ppf((short / (short + over))[:, None])[:, 0]


def expected_cost(dist: Distribution, quantity: ArrayLike, shortage_cost: ArrayLike, surplus_cost: ArrayLike) -> Floats:
    """Expected cost of quantities, with the costs of `order_quantity`.

    Parameters
    ----------
    dist : Distribution
    quantity : float or array-like of shape (n,)
    shortage_cost, surplus_cost : float or array-like of shape (n,)

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> from usnrt.decide import expected_cost
    >>> from usnrt.distributions import Normal
    >>> demand = Normal([100.0], [40.0])
    >>> [expected_cost(demand, quantity, 9.0, 1.0).round(1).item() for quantity in (100.0, 151.3)]
    [159.6, 70.2]
    """
    short, over = _costs(dist, shortage_cost, surplus_cost)
    missing, superfluous = _partial_expectations(dist, _per_row(dist, quantity, "quantity"))
    return short * missing + over * superfluous


def probability_above(dist: Distribution, limit: ArrayLike) -> Floats:
    """Probability that the target exceeds a limit.

    Parameters
    ----------
    dist : Distribution
    limit : float or array-like of shape (n,)

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> from usnrt.decide import probability_above
    >>> from usnrt.distributions import Normal
    >>> probability_above(Normal([0.0, 0.0], [1.0, 2.0]), [1.0, 4.0]).round(4)
    array([0.1587, 0.0228])
    """
    return dist.sf(_per_row(dist, limit, "limit"))


def expected_shortfall(
    dist: Distribution, level: ArrayLike = 0.95, side: Literal["upper", "lower"] = "upper"
) -> Floats:
    """Mean of the worst outcomes: of those above the quantile of a level, or below the quantile of ``1 - level``.

    Parameters
    ----------
    dist : Distribution
    level : float or array-like of shape (n,), default=0.95
        In (0, 1): at 0.95 the worst 5 %.
    side : {"upper", "lower"}, default="upper"
        Whether large or small targets are the bad ones.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> from usnrt.decide import expected_shortfall
    >>> from usnrt.distributions import Normal
    >>> expected_shortfall(Normal([0.0, 10.0], [1.0, 2.0]), 0.95).round(3)
    array([ 2.063, 14.125])
    """
    check_choice("side", side, ("upper", "lower"))
    levels = _per_row(dist, level, "level")
    if not ((levels > 0) & (levels < 1)).all():
        raise ValueError(f"level must be in (0, 1), got {levels[~((levels > 0) & (levels < 1))][0]:g}")
    quantile = dist.ppf((levels if side == "upper" else 1.0 - levels)[:, None])[:, 0]
    above, below = _partial_expectations(dist, quantile)
    return quantile + above / (1.0 - levels) if side == "upper" else quantile - below / (1.0 - levels)


def best_price(dist: Distribution, unit_cost: ArrayLike) -> Floats:
    """Prices of largest expected profit, for customers who accept any price up to the target.

    The profit is ``(price - unit_cost) * P(target >= price)``. Its best value is found among 199 quantiles of each row,
    then between the neighbours of the best one.

    Parameters
    ----------
    dist : Distribution
        Of the highest price that the customer accepts.
    unit_cost : float or array-like of shape (n,)
        What a sale costs.

    Returns
    -------
    ndarray of shape (n,)
        ``unit_cost`` where no sale is profitable.

    Examples
    --------
    >>> from usnrt.decide import best_price
    >>> from usnrt.distributions import Normal
    >>> best_price(Normal([100.0, 100.0], [5.0, 40.0]), unit_cost=60.0).round(1)
    array([ 92.8, 105.3])
    """
    cost = _per_row(dist, unit_cost, "unit_cost")[:, None]

    def profit(prices: Floats) -> Floats:
        return (prices - cost) * (1.0 - dist.cdf_left(prices))

    prices = np.maximum(dist.ppf(PRICE_LEVELS), cost)
    best, rows = np.argmax(profit(prices), axis=1), np.arange(len(dist))
    low = prices[rows, np.maximum(best - 1, 0)][:, None]
    high = prices[rows, np.minimum(best + 1, prices.shape[1] - 1)][:, None]
    for _ in range(GOLDEN_STEPS):
        inner = np.hstack([high - GOLDEN * (high - low), low + GOLDEN * (high - low)])
        left, right = np.hsplit(profit(inner), 2)
        low, high = np.where(left >= right, low, inner[:, :1]), np.where(left >= right, inner[:, 1:], high)
    candidates = np.hstack([prices[rows, best][:, None], (low + high) / 2.0])
    chosen: Floats = candidates[rows, np.argmax(profit(candidates), axis=1)]
    return chosen


def rows_to_inspect(
    dist: Distribution, limit: ArrayLike, risk: float, measure: Literal["missed", "share", "any"] = "share"
) -> Rows:
    """The smallest set of rows to inspect so that what is missed among the others is at most a given risk.

    A row is bad if its target exceeds the limit, and an inspection finds out. The most probably bad rows are inspected;
    no other set of rows is smaller.

    Parameters
    ----------
    dist : Distribution
    limit : float or array-like of shape (n,)
    risk : float
    measure : {"missed", "share", "any"}, default="share"
        What the risk is: the expected number of bad rows among those that are not inspected, its share of the expected
        number of all bad rows, or the probability of at least one among them if rows are independent.

    Returns
    -------
    ndarray of int
        Positions of the rows, the most probably bad one first.

    Examples
    --------
    >>> from usnrt.decide import rows_to_inspect
    >>> from usnrt.distributions import Normal
    >>> dist = Normal([0.0, 0.0, 0.0, 0.0], [0.1, 2.0, 0.5, 1.0])
    >>> rows_to_inspect(dist, limit=1.0, risk=0.1)
    array([1, 3])
    """
    check_choice("measure", measure, ("missed", "share", "any"))
    if not risk >= 0 or (measure != "missed" and risk > 1):
        bounds = ">= 0" if measure == "missed" else "in [0, 1]"
        raise ValueError(f"risk must be {bounds}, got {risk!r}")
    probability = probability_above(dist, limit)
    order = np.argsort(-probability, kind="stable")
    rising = probability[order][::-1]
    if measure == "any":
        with np.errstate(divide="ignore"):  # a certain exceedance
            left = -np.expm1(np.cumsum(np.log1p(-rising)))
    else:
        left = np.cumsum(rising)
        if measure == "share" and left.size and left[-1] > 0:
            left = left / left[-1]
    return order[: len(order) - int(np.searchsorted(left, risk, side="right"))]


def _costs(dist: Distribution, shortage_cost: ArrayLike, surplus_cost: ArrayLike) -> tuple[Floats, Floats]:
    given = {"shortage_cost": shortage_cost, "surplus_cost": surplus_cost}
    short, over = (_per_row(dist, cost, name) for name, cost in given.items())
    for name, cost in zip(given, (short, over)):
        if not (cost > 0).all():
            raise ValueError(f"{name} must be positive, but its smallest value is {cost.min():g}")
    return short, over


def _per_row(dist: Distribution, values: ArrayLike, name: str) -> Floats:
    return broadcast_rows({name: values, "the distribution": np.zeros(len(dist))})[0]


def _partial_expectations(dist: Distribution, value: Floats) -> tuple[Floats, Floats]:
    """``E max(Y - value, 0)`` and ``E max(value - Y, 0)`` of each row."""
    std = dist.std()
    if not np.isfinite(std).all():
        raise ValueError("expected costs and shortfalls need distributions with a finite variance")
    # E |Y - value| is the CRPS and half of E |Y - Y'|, which values far away on both sides tell, as they tell the mean.
    # Not `dist.mean()`, which may be that of the quantile function without its tails.
    reach = FAR * np.maximum(std, np.finfo(float).tiny)
    low, high = dist.mean() - reach, dist.mean() + reach
    crps_of_low, crps_of_high = dist.crps(low), dist.crps(high)
    distance = dist.crps(value) + (high - low - crps_of_low - crps_of_high) / 2.0
    mean = (low + high + crps_of_low - crps_of_high) / 2.0
    above, below = (distance + mean - value) / 2.0, (distance - mean + value) / 2.0
    return np.maximum(above, 0.0), np.maximum(below, 0.0)
