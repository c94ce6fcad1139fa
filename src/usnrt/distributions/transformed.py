"""Distributions of a mapped variable, and the increasing maps: logarithm, bounds and point masses at bounds."""

import functools
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from usnrt.distributions.base import Distribution
from usnrt.distributions.quantile_distribution import QuantileDistribution
from usnrt.utils.types import Floats

# A target at the open end of a logarithm counts as this share of the largest one.
SMALLEST = 1e-12
# Targets at a bound are set apart if they are at least this share of all, by this share of the median distance.
MIN_SHARE, SEPARATION = 0.01, 0.25
# Equal targets count as at the bound if their distance to it is below this share of that of the others.
NEAR = 0.1


@dataclass(frozen=True)
class TargetMap:
    """``Y = map(Z)`` for the value ``Z`` that a model predicts on its own scale.

    Without a logarithm the scale is that of the target. With it, ``Z = log(Y - low + shift)`` up to ``knee``, the
    largest target of the training rows, and continues beyond with the slope at the knee: what is known about the target
    ends there, and the mean of an exponentiated heavy tail would be infinite.

    Values up to ``low_end`` become ``low`` and values from ``high_end`` on become ``high``: point masses at the bounds.
    If a share of the targets is at a bound, models learn them as values beyond it, ``low_at`` or ``high_at``, so that
    the bound and the values near it are apart.

    Parameters
    ----------
    low, high : float, default=-inf, inf
        Bounds of the target.
    log : bool, default=False
        Whether the scale is logarithmic; ``low`` is then finite.
    shift : float, default=0
        Positive if training targets are at ``low``.
    knee : float, default=1
        Where the logarithm becomes linear, as ``Y - low + shift``.
    low_end, high_end : float, optional
        Ends of the intervals that are mapped to the bounds; the bounds themselves by default.
    low_at, high_at : float, optional
        Values on the model's scale of targets at the bounds; those of the formula by default.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.distributions.transformed import TargetMap
    >>> counts = TargetMap(low=0.0, log=True, shift=1.0, knee=1000.0)
    >>> counts.to_model(np.array([0.0, 9.0])).round(3)
    array([0.   , 2.303])
    >>> counts.to_target(np.array([-5.0, 0.0, np.log(10.0)])).round(3)
    array([0., 0., 9.])
    """

    low: float = -np.inf
    high: float = np.inf
    log: bool = False
    shift: float = 0.0
    knee: float = 1.0
    low_end: float = np.nan
    high_end: float = np.nan
    low_at: float = np.nan
    high_at: float = np.nan

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.log and not (np.isfinite(self.low) and self.knee > 0)):
            raise ValueError(f"the bounds and the knee of a target map must be in order, got {self}")
        if np.isnan(self.low_end):
            object.__setattr__(self, "low_end", float(self.low))
        if np.isnan(self.high_end):
            object.__setattr__(self, "high_end", float(self.high))
        for name, bound in (("low_at", self.low), ("high_at", self.high)):
            if np.isnan(getattr(self, name)):
                object.__setattr__(self, name, float(self.scale(np.array([bound]))[0]))

    @property
    def is_bounded(self) -> bool:
        """Whether the target has a bound."""
        return bool(np.isfinite(self.low) or np.isfinite(self.high))

    @classmethod
    def logarithm(cls, y: Floats, low: float, high: float = np.inf) -> "TargetMap":
        """The logarithmic map for training targets, all of them at least ``low``.

        The shift is 0 if no target is at the bound, else the distance to it of the smallest 5 % of the others: 1 for
        small counts. Many equal targets just above the bound count as at it: their logarithm would be far below all
        others, at a distance that only the choice of the bound determines.

        Parameters
        ----------
        y : ndarray of shape (n,)
        low, high : float
        """
        distance = y - low
        smallest = float(distance.min())
        others = distance[distance > smallest]
        if len(others) == 0:
            return cls(low, high, log=True, knee=smallest) if smallest > 0 else cls(low, high, log=True, shift=1.0)
        typical = float(np.quantile(others, 0.05, method="lower"))
        is_point_mass = smallest < NEAR * typical and len(others) <= (1.0 - MIN_SHARE) * len(y)
        shift = typical if smallest == 0 or is_point_mass else 0.0
        return cls(low, high, log=True, shift=shift, knee=float(distance.max() + shift))

    def separated(self, y: Floats) -> "TargetMap":
        """The same map with targets at a bound set apart from the others, where they are at least 1 % of all.

        The distance to the nearest other target is at least a quarter of the median distance, on the model's scale.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Training targets.
        """

        def place(bound: float, at: float, inward: float) -> float:
            others = y[y != bound]
            if not np.isfinite(bound) or len(others) == 0 or len(others) > (1.0 - MIN_SHARE) * len(y):
                return at
            start = float(self.scale(np.array([bound]))[0])
            distance = np.abs(self.scale(others) - start)
            return start - inward * max(0.0, SEPARATION * float(np.median(distance)) - float(distance.min()))

        return replace(self, low_at=place(self.low, self.low_at, 1.0), high_at=place(self.high, self.high_at, -1.0))

    def to_model(self, y: Floats) -> Floats:
        """Targets on the model's scale."""
        z = self.scale(y)
        return np.where(y == self.low, self.low_at, np.where(y == self.high, self.high_at, z))

    def scale(self, y: Floats) -> Floats:
        """Values on the model's scale by the formula; infinite ones stay infinite."""
        if not self.log:
            return y
        distance = np.maximum((y - self.low) + self.shift, SMALLEST * self.knee)
        inside = np.minimum(distance, self.knee)
        scaled: Floats = np.log(inside) + (distance - inside) / self.knee
        return scaled

    def to_target(self, z: Floats) -> Floats:
        """Targets of values on the model's scale, within the bounds; the ends have their point masses."""
        y = self._unbounded(z)
        return np.where(y <= self.low_end, self.low, np.where(y >= self.high_end, self.high, y))

    def to_range(self, z: Floats) -> Floats:
        """Targets of values on the model's scale, within the ends of the point masses: `to_target` without jumps."""
        return np.clip(self._unbounded(z), self.low_end, self.high_end)

    def _unbounded(self, z: Floats) -> Floats:
        if not self.log:
            return z
        top = np.log(self.knee)
        with np.errstate(under="ignore"):
            inside = np.exp(np.minimum(z, top))
        distance: Floats = inside + self.knee * np.maximum(z - top, 0.0)
        # what `scale` does not tell from the bound is the bound
        return np.where(distance <= SMALLEST * self.knee, 0.0, distance) + (self.low - self.shift)

    def log_slope(self, y: Floats) -> Floats:
        """Logarithm of the derivative of `scale`, for densities."""
        if not self.log:
            return np.zeros(y.shape)
        distance = np.clip((y - self.low) + self.shift, SMALLEST * self.knee, self.knee)
        slope: Floats = -np.log(distance)
        return slope


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
        return np.asarray(self._shift + self._factor * self._moments[0])

    def std(self) -> Floats:
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
