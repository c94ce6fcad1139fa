"""Distributions of a target that is a map of what a model predicts: bounded, or learnt on a logarithmic scale."""

import functools
from copy import copy
from typing import Any

import numpy as np
from scipy.special import ndtr

from usnrt.distributions.base import Distribution
from usnrt.distributions.quantile_distribution import QuantileDistribution
from usnrt.distributions.target_map import TargetMap
from usnrt.utils.types import Floats

# Nodes on the normal scale and their weights: expectations are integrals of quantile functions by the trapezoidal rule,
# whose error for smooth functions falls faster than any power of the step.
NODES: Floats = np.linspace(-7.5, 7.5, 241)
NODE_LEVELS: Floats = ndtr(NODES)
NODE_WEIGHTS: Floats = np.exp(-(NODES**2) / 2.0) / np.exp(-(NODES**2) / 2.0).sum()
# Rows times nodes that are held at a time.
BLOCK = 4096


class TransformedDistribution(Distribution):
    """``Y = map(Z)``, with ``Z`` from another distribution and an increasing map.

    Mean, variance and CRPS of a bounded `QuantileDistribution` are in closed form; with a logarithm, or for other
    distributions, they are integrals of the quantile function over 241 nodes.

    At a bound, ``pdf`` and ``logpdf`` are those of the point mass: the density with respect to length plus one unit of
    mass at each bound. They are 0 and ``-inf`` outside the bounds.

    Parameters
    ----------
    base : Distribution
        Of ``Z``.
    map : TargetMap

    Examples
    --------
    >>> from usnrt.distributions import Normal, TargetMap, TransformedDistribution
    >>> dist = TransformedDistribution(Normal([0.0, 3.0], [1.0, 1.0]), TargetMap(low=0.0))
    >>> dist.cdf(0.0).round(3), dist.ppf(0.1).round(3)
    (array([0.5  , 0.001]), array([0.   , 1.718]))
    >>> dist.pdf(-1.0)
    array([0., 0.])
    """

    _shift: Floats | float = 0.0
    _factor: Floats | float = 1.0

    def __init__(self, base: Distribution, map: TargetMap) -> None:
        self.base, self.map = base, map
        # ends of the point masses on the scale of the base
        ends = np.array([map.low_end, map.high_end])
        low, high = map.scale(ends).tolist()
        self._ends: tuple[float, float] = low, high

    def __len__(self) -> int:
        return len(self.base)

    # -- probabilities ---------------------------------------------------------------------------------------------

    @functools.cached_property
    def _mass(self) -> tuple[Floats, Floats]:
        """P(Y = low) and P(Y < high), shape (n,)."""
        low, high = self._ends
        below = self.base.cdf(low) if np.isfinite(low) else np.zeros(len(self))
        return below, self.base.cdf_left(high) if np.isfinite(high) else np.ones(len(self))

    def _cdf(self, y: Floats) -> Floats:
        y, m = self._unscaled(y), self.map
        below, up_to = (mass[:, None] for mass in self._mass)
        inside = self.base._cdf(self._within(y))
        value = np.where(y < m.low_end, below, np.where(y >= m.high_end, up_to, inside))
        return np.where(y < m.low, 0.0, np.where(y >= m.high, 1.0, value))

    def _cdf_left(self, y: Floats) -> Floats:
        y, m = self._unscaled(y), self.map
        below, up_to = (mass[:, None] for mass in self._mass)
        inside = self.base._cdf_left(self._within(y))
        value = np.where(y <= m.low_end, below, np.where(y > m.high_end, up_to, inside))
        return np.where(y <= m.low, 0.0, np.where(y > m.high, 1.0, value))

    def _within(self, y: Floats) -> Floats:
        """Values on the scale of the base, within the ends of the point masses."""
        return self.map.scale(np.clip(y, self.map.low_end, self.map.high_end))

    def _logpdf(self, y: Floats) -> Floats:
        factor = np.log(np.broadcast_to(self._factor, len(self)))[:, None]
        y, m = self._unscaled(y), self.map
        clipped = np.clip(y, m.low_end, m.high_end)
        density = self.base._logpdf(m.scale(clipped)) + m.log_slope(clipped) - factor
        inside = (y > m.low_end) & (y < m.high_end)
        if m.low_end == m.low and m.low == -np.inf:
            inside |= y == -np.inf
        below, up_to = (mass[:, None] for mass in self._mass)
        with np.errstate(divide="ignore"):
            at_bound = np.where(y == m.low, np.log(below), np.where(y == m.high, np.log1p(-up_to), -np.inf))
        return np.where(inside, density, at_bound)

    def _ppf(self, q: Floats) -> Floats:
        return self._scaled_up(self.map.to_target(self.base._ppf(q)))

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        return self._scaled_up(self.map.to_target(self.base._draw(size, rng)))

    # -- moments ---------------------------------------------------------------------------------------------------

    def mean(self) -> Floats:
        """Mean of each row, shape ``(n,)``."""
        return np.asarray(self._shift + self._factor * self._moments[0])

    def std(self) -> Floats:
        """Standard deviation of each row, shape ``(n,)``."""
        return np.asarray(self._factor * self._moments[1])

    @property
    def aleatoric(self) -> Floats | None:
        """Aleatoric variance: the same share of the variance as in the base, unless set by `with_parts`."""
        return self._part(self._aleatoric, self.base.aleatoric)

    @property
    def epistemic(self) -> Floats | None:
        """Epistemic variance: the same share of the variance as in the base, unless set by `with_parts`."""
        return self._part(self._epistemic, self.base.epistemic)

    def _part(self, given: Floats | None, of_base: Floats | None) -> Floats | None:
        if given is not None or of_base is None:
            return given
        return self.var() * (of_base / np.maximum(self.base.var(), np.finfo(float).tiny))

    @property
    def _is_closed(self) -> bool:
        """Whether moments and CRPS have closed forms."""
        return isinstance(self.base, QuantileDistribution) and not self.map.log

    @functools.cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation before scaling, computed in blocks of rows."""
        mean, std = np.empty(len(self)), np.empty(len(self))
        for start in range(0, len(self), BLOCK):
            rows = slice(start, start + BLOCK)
            part = TransformedDistribution(self.base[rows], self.map)
            mean[rows], std[rows] = part._closed_moments() if self._is_closed else part._moments_by_nodes()
        return mean, std

    def _moments_by_nodes(self) -> tuple[Floats, Floats]:
        values = self.map.to_range(self.base._ppf(NODE_LEVELS[None]))
        # Sums, not matrix products: these round a row differently depending on the other rows.
        centre: Floats = (values * NODE_WEIGHTS).sum(axis=1)
        deviation = values - centre[:, None]
        unit = np.maximum(np.abs(deviation).max(axis=1), np.finfo(float).tiny)
        square = unit**2 * ((deviation / unit[:, None]) ** 2 * NODE_WEIGHTS).sum(axis=1)
        offset = np.zeros(len(self))
        for bound, end, mass in self._jumps():
            offset = offset + mass * (bound - end)
            square = square + mass * ((bound - centre) ** 2 - (end - centre) ** 2)
        return centre + offset, np.sqrt(np.maximum(square - offset**2, 0.0))

    def _jumps(self) -> list[tuple[float, float, Floats]]:
        """Bound, end and mass of the intervals that are mapped to bounds other than their ends."""
        (below, up_to), m = self._mass, self.map
        jumps = [(m.low, m.low_end, below), (m.high, m.high_end, 1.0 - up_to)]
        return [(bound, end, mass) for bound, end, mass in jumps if bound != end]

    def _closed_moments(self) -> tuple[Floats, Floats]:
        assert isinstance(self.base, QuantileDistribution)
        (below, up_to), m = self._mass, self.map
        centre = np.clip(self.base.mean(), m.low, m.high)
        _, first, second = self.base.moments_between(*self._ends, centre)
        offset, square = first, second
        for bound, mass in ((m.low, below), (m.high, 1.0 - up_to)):
            if np.isfinite(bound):
                offset, square = offset + mass * (bound - centre), square + mass * (bound - centre) ** 2
        return np.clip(centre + offset, m.low, m.high), np.sqrt(np.maximum(square - offset**2, 0.0))

    def _crps(self, y: Floats) -> Floats:
        y = np.asarray((y - self._shift) / self._factor)
        return np.asarray(self._factor * (self._closed_crps(y) if self._is_closed else self._crps_by_nodes(y)))

    def _crps_by_nodes(self, y: Floats) -> Floats:
        """E|Y - y| - E|Y - Y'| / 2 over the nodes, in blocks of rows."""
        score = np.empty(len(self))
        for start in range(0, len(self), BLOCK):
            rows = slice(start, start + BLOCK)
            score[rows] = TransformedDistribution(self.base[rows], self.map)._node_crps(y[rows])
        return np.maximum(score, 0.0)

    def _node_crps(self, y: Floats) -> Floats:
        values = self.map.to_range(self.base._ppf(NODE_LEVELS[None])) - y[:, None]
        score: Floats = ((np.abs(values) - values * (2.0 * NODE_LEVELS - 1.0)) * NODE_WEIGHTS).sum(axis=1)
        # The distance bends at the outcome: the error of the trapezoidal rule by Euler and Maclaurin.
        left, rows = np.clip((values < 0).sum(axis=1) - 1, 0, len(NODES) - 2), np.arange(len(y))
        step = values[rows, left + 1] - values[rows, left]
        share = np.clip(-values[rows, left] / np.maximum(step, np.finfo(float).tiny), 0.0, 1.0)
        score -= (NODE_WEIGHTS[left] + NODE_WEIGHTS[left + 1]) / 2.0 * step * (share * (1.0 - share) - 1.0 / 6.0)
        for bound, end, mass in self._jumps():
            score += mass * (np.abs(bound - y) - np.abs(end - y))
            sign = 1.0 if bound < end else -1.0
            score += sign * (bound - end) * mass * (1.0 - mass)
        return score

    def _closed_crps(self, y: Floats) -> Floats:
        """The integral of F^2 below and of (1 - F)^2 above the outcome, over the range of the target."""
        assert isinstance(self.base, QuantileDistribution)
        m, (below, up_to) = self.map, self._mass
        observed = np.clip(y, m.low, m.high)
        squares_below, squares_above = self.base._crps_parts(np.clip(observed, m.low_end, m.high_end))
        score = np.abs(y - observed) + squares_below + squares_above
        if np.isfinite(m.low_end):
            before = np.minimum(observed, m.low_end)
            score -= self.base._crps_parts(np.full(len(self), m.low_end))[0]
            score += (before - m.low) * below**2 + (m.low_end - before) * (1.0 - below) ** 2
        if np.isfinite(m.high_end):
            after = np.maximum(observed, m.high_end)
            score -= self.base._crps_parts(np.full(len(self), m.high_end))[1]
            score += (after - m.high_end) * up_to**2 + (m.high - after) * (1.0 - up_to) ** 2
        return np.maximum(score, 0.0)

    # -- rows and scale --------------------------------------------------------------------------------------------

    def _take(self, index: Any) -> "TransformedDistribution":
        chosen = TransformedDistribution(self.base[index], self.map)
        chosen._shift = np.broadcast_to(self._shift, len(self))[index]
        chosen._factor = np.broadcast_to(self._factor, len(self))[index]
        return chosen

    def _scaled(self, shift: Floats, factor: Floats) -> "TransformedDistribution":
        changed = copy(self)
        changed._shift, changed._factor = factor * self._shift + shift, factor * self._factor
        return changed

    def _unscaled(self, y: Floats) -> Floats:
        shift, factor = (np.broadcast_to(value, len(self))[:, None] for value in (self._shift, self._factor))
        return np.asarray((y - shift) / factor)

    def _scaled_up(self, values: Floats) -> Floats:
        shift, factor = (np.broadcast_to(value, len(self))[:, None] for value in (self._shift, self._factor))
        return np.asarray(shift + factor * values)
