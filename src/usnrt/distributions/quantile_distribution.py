"""Predicted quantile functions, calibrated by residual distributions per group."""

import functools
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.distributions.base import Distribution, broadcast_rows
from usnrt.distributions.residual_distribution import ResidualDistribution
from usnrt.nn.quantile_functions import group_values, position_of, segment_heights, value_at
from usnrt.utils.threads import run_in_blocks
from usnrt.utils.types import Floats, Rows


class QuantileDistribution(Distribution):
    """``Y = loc + T(E)``, with the row's quantile function ``T`` and ``E`` from its group's residual distribution.

    The quantile function maps the normal scale to the target. It is linear between its knots, and its outer segments
    extend to infinity, so that moments and the CRPS are sums over segments, in closed form.

    Parameters
    ----------
    knots : array-like of shape (n, J)
        Values of the quantile functions at the positions, each row non-decreasing. A flat segment is a point mass.
    positions : array-like of shape (J,)
        Increasing, J >= 2, on the scale of the residual distributions.
    group : array-like of int of shape (n,)
        Index of the residual distribution of each row.
    residuals : sequence of ResidualDistribution
    mean : array-like of shape (n,), default=None
        Means to return instead of those of the distribution: these depend on the tails, which few scores determine.
        The standard deviation is always that of the distribution.
    loc : float or array-like of shape (n,), default=0
        Added to the knots; stored separately, so that a small spread around a large number keeps its precision.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.distributions import QuantileDistribution, ResidualDistribution
    >>> residual = ResidualDistribution.from_residuals(np.random.default_rng(0).normal(size=300))
    >>> symmetric, skewed = [-2.0, 0.0, 2.0], [-1.0, 0.0, 6.0]
    >>> dist = QuantileDistribution([symmetric, skewed], [-2.0, 0.0, 2.0], group=[0, 0], residuals=[residual])
    >>> dist.interval(0.9).round(1)
    array([[-1.7,  1.6],
           [-0.8,  4.9]])
    """

    # Threads for many rows; estimators set it to theirs.
    _n_threads = 1
    # Set by `scaled`: the knots are the factor times those of another distribution, computed when they are needed.
    _unscaled: "QuantileDistribution | None" = None
    _factor: Floats

    def __init__(
        self,
        knots: ArrayLike,
        positions: ArrayLike,
        group: ArrayLike,
        residuals: Sequence[ResidualDistribution],
        mean: ArrayLike | None = None,
        loc: ArrayLike = 0.0,
    ) -> None:
        self.knots = np.ascontiguousarray(knots, dtype=np.float64)
        self.positions = np.asarray(positions, dtype=np.float64)
        self.group, self.residuals = np.asarray(group), list(residuals)
        check_groups(self.group, len(self.residuals))
        expected = (self.group.size, self.positions.size)
        if self.positions.ndim != 1 or self.positions.size < 2:
            raise ValueError(f"positions must have shape (J,) with J >= 2, got {self.positions.shape}")
        if not (np.isfinite(self.positions).all() and (np.diff(self.positions) > 0).all()):
            raise ValueError("positions must be finite and increasing, but they are not")
        if self.knots.shape != expected:
            raise ValueError(f"knots must have shape {expected}, got {self.knots.shape}")
        check_knots(self.knots)
        rows = np.broadcast_to(0.0, self.group.size)
        self.loc = broadcast_rows({"loc": loc, "group": rows})[0]
        self._mean = None if mean is None else broadcast_rows({"mean": mean, "group": rows})[0]

    def __len__(self) -> int:
        return self.group.size

    def mean(self) -> Floats:
        return self.loc + self._moments[0] if self._mean is None else self._mean

    def std(self) -> Floats:
        return self._moments[1].copy()

    @property
    def aleatoric(self) -> Floats | None:
        """Aleatoric variance: all of the variance unless set by `with_parts`."""
        return self.var() if self._aleatoric is None else self._aleatoric

    def _positions(self, y: Floats, side: str = "right") -> tuple[Floats, Floats]:
        return position_of(self.knots, self.positions, y - self.loc[:, None], side)

    @functools.cached_property
    def knots(self) -> Floats:
        """Values of the quantile functions at the positions, less the location, shape ``(n, J)``."""
        assert self._unscaled is not None  # otherwise they were set
        knots: Floats = self._factor[:, None] * self._unscaled.knots
        return knots

    @functools.cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Mean of ``T(E)`` and its standard deviation."""
        if self._unscaled is not None:
            mean, std = self._unscaled._moments
            return self._factor * mean, self._factor * std
        from usnrt.nn._quantile_kernels import write_moments

        positions, group = self.positions, np.asarray(self.group, dtype=np.int64)
        shift = np.array([residual.mean - positions[:-1] for residual in self.residuals])
        tables = np.array([residual.segment_moments(positions) for residual in self.residuals])
        mass, first, second = np.ascontiguousarray(tables.transpose(1, 0, 2))
        steps, mean, std = np.diff(positions), np.empty(len(self)), np.empty(len(self))

        def write(start: int, stop: int) -> None:
            rows = slice(start, stop)
            write_moments(self.knots[rows], steps, group[rows], shift, mass, first, second, mean[rows], std[rows])

        run_in_blocks(write, len(self), self._n_threads)
        return mean, std

    def _flat(self, y: Floats) -> NDArray[np.bool_]:
        """Whether ``y`` is the value of a flat segment."""
        y, at = y - self.loc[:, None], np.zeros(y.shape, dtype=bool)
        for low, high in zip(self.knots.T[:-1, :, None], self.knots.T[1:, :, None]):
            at |= (low == y) & (high == y)
        return at

    def _is_all_of_tail(self, y: Floats, outer: int, inner: int) -> NDArray[np.bool_]:
        """Whether ``y`` is the value of a flat first or last segment, which has the mass of the whole tail."""
        y = y - self.loc[:, None]
        return np.asarray((y == self.knots[:, [outer]]) & (y == self.knots[:, [inner]]))

    def _groups(self) -> Iterator[tuple[ResidualDistribution, Rows]]:
        """Each residual distribution in use with its rows."""
        order = np.argsort(self.group, kind="stable")
        used, start = np.unique(self.group[order], return_index=True)
        for group, rows in zip(used, np.split(order, start[1:])):
            yield self.residuals[group], rows

    def _by_group(self, method: str, values: Floats) -> Floats:
        """Results of a method of the residual distributions for values of each row."""
        result = np.empty(values.shape)
        for residual, rows in self._groups():
            result[rows] = getattr(residual, method)(values[rows])
        return result

    def _logpdf(self, y: Floats) -> Floats:
        z, log_slope = self._positions(y)
        return np.where(self._flat(y), np.inf, self._by_group("logpdf", z) + log_slope)

    def _cdf(self, y: Floats) -> Floats:
        return np.where(self._is_all_of_tail(y, -1, -2), 1.0, self._by_group("cdf", self._positions(y)[0]))

    def _sf(self, y: Floats) -> Floats:
        return np.where(self._is_all_of_tail(y, -1, -2), 0.0, self._by_group("sf", self._positions(y)[0]))

    def _cdf_left(self, y: Floats) -> Floats:
        return np.where(self._is_all_of_tail(y, 0, 1), 0.0, self._by_group("cdf", self._positions(y, side="left")[0]))

    def _ppf(self, q: Floats) -> Floats:
        if len(q) == 1:  # per group, not per row
            z = np.array([residual.ppf(q[0]) for residual in self.residuals]).reshape(len(self.residuals), q.size)
            values = group_values(self.knots, self.positions, z, self.group, self._n_threads)
        else:
            values = value_at(self.knots, self.positions, self._by_group("ppf", q))
        values += self.loc[:, None]
        return values

    def _crps(self, y: Floats) -> Floats:
        below, above = self._crps_parts(y)
        return below + above

    def _crps_parts(self, y: Floats) -> tuple[Floats, Floats]:
        """The integrals of F^2 below ``y`` and of (1 - F)^2 above ``y``, for ``y`` of shape (n,)."""
        y = y - self.loc
        z = position_of(self.knots, self.positions, y[:, None])[0][:, 0]
        segment = np.searchsorted(self.positions[1:-1], z, side="right")
        # Where z overflows, in an outer segment, the score is the distance.
        representable = np.abs(z) < 1e150
        below, above = np.empty(z.shape), np.empty(z.shape)
        for residual, rows in self._groups():
            below[rows], above[rows] = residual.crps_parts(np.where(representable[rows], z[rows], 0.0))
        parts = [residual.crps_parts(self.positions[1:-1]) for residual in self.residuals]
        low = np.array([np.concatenate([[0.0], part[0]]) for part in parts])
        high = np.array([np.concatenate([part[1], [0.0]]) for part in parts])
        with np.errstate(over="ignore"):
            slope = segment_heights(self.knots) / np.diff(self.positions)
            # Entire segments below and above the outcome, then the two parts of its own segment.
            sum_low, sum_high = np.zeros(slope.shape), np.zeros(slope.shape)
            np.cumsum(slope[:, :-1] * np.diff(low, axis=1)[self.group], axis=1, out=sum_low[:, 1:])
            decrease = slope[:, 1:] * -np.diff(high, axis=1)[self.group]
            sum_high[:, :-1] = np.cumsum(decrease[:, ::-1], axis=1)[:, ::-1]
            rows = np.arange(len(self))
            own_low = slope[rows, segment] * (below - low[self.group, segment])
            own_high = slope[rows, segment] * (above - high[self.group, segment])
            distance = np.abs(y - self.knots[rows, segment])
        own_low = np.where(representable, own_low, np.where(z > 0, distance, 0.0))
        own_high = np.where(representable, own_high, np.where(z > 0, 0.0, distance))
        return sum_low[rows, segment] + own_low, sum_high[rows, segment] + own_high

    def moments_between(self, low: float, high: float, centre: Floats) -> tuple[Floats, Floats, Floats]:
        """Integrals of 1, ``y - centre`` and its square times the density between two values.

        Parameters
        ----------
        low, high : float
            Point masses at the ends do not count; infinite for no end.
        centre : ndarray of shape (n,)

        Returns
        -------
        mass, first, second : ndarray of shape (n,)
        """
        tables = np.array([residual.segment_moments(self.positions) for residual in self.residuals])
        before = np.pad(np.cumsum(tables, axis=2), ((0, 0), (0, 0), (1, 0)))  # (n_groups, 3, J)
        slope = segment_heights(self.knots) / np.diff(self.positions)
        shift = np.array([residual.mean - self.positions[:-1] for residual in self.residuals])
        # each segment is the line at_mean + slope * (E - E[E]), about the centre
        at_mean = self.knots[:, :-1] + slope * shift[self.group] + (self.loc - centre)[:, None]
        starts, ends = self._moments_up_to(low, "right", before), self._moments_up_to(high, "left", before)
        # the overlap of each segment with the interval: what is below the upper end less what is below the lower end
        mass, first, second = np.moveaxis(ends - starts, 2, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            return (
                mass.sum(axis=1),
                (at_mean * mass + slope * first).sum(axis=1),
                (at_mean**2 * mass + 2.0 * at_mean * slope * first + slope**2 * second).sum(axis=1),
            )

    def _moments_up_to(self, value: float, side: Literal["left", "right"], before: Floats) -> Floats:
        """Moments of E about its mean in each segment below a value of the target, shape (n, J - 1, 3)."""
        n, n_segments = len(self), self.positions.size - 1
        totals: Floats = np.diff(before, axis=2).swapaxes(1, 2)[self.group]
        if np.isinf(value):
            return totals if value > 0 else np.zeros_like(totals)
        z = np.clip(self._positions(np.full((n, 1), value), side)[0][:, 0], -1e8, 1e8)
        segment = np.searchsorted(self.positions[1:-1], z, side=side)
        below = np.empty((n, 3))
        for residual, rows in self._groups():
            below[rows] = residual.moments_below(z[rows]).T
        complete = np.arange(n_segments) < segment[:, None]
        parts = np.where(complete[:, :, None], totals, 0.0)
        parts[np.arange(n), segment] = below - before[self.group, :, segment]  # the part of the value's own segment
        return parts

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        uniform = rng.random((len(self), size)).clip(np.finfo(float).tiny, None)
        return self.loc[:, None] + value_at(self.knots, self.positions, self._by_group("ppf", uniform))

    def _take(self, index: Any) -> "QuantileDistribution":
        mean = None if self._mean is None else self._mean[index]
        return QuantileDistribution(
            self.knots[index], self.positions, self.group[index], self.residuals, mean, self.loc[index]
        )

    def _scaled(self, shift: Floats, factor: Floats) -> "QuantileDistribution":
        with np.errstate(over="ignore"):
            ends = factor[:, None] * self.knots[:, [0, -1]]
        if not np.isfinite(ends).all():
            raise ValueError(NOT_FINITE)
        changed = copy(self)
        for name in ("knots", "_moments"):
            changed.__dict__.pop(name, None)
        changed._unscaled, changed._factor = self, factor
        changed.loc = broadcast_rows({"loc": factor * self.loc + shift})[0]
        if self._mean is not None:
            changed._mean = broadcast_rows({"mean": factor * self._mean + shift})[0]
        return changed


NOT_FINITE = "knots must be finite, but they contain NaN or infinity"


def check_knots(knots: Floats) -> None:
    """Raise a ValueError unless all knots are finite and non-decreasing in each row."""
    from usnrt.nn._quantile_kernels import check_rows

    infinite, decreasing = check_rows(knots)
    if infinite >= 0:
        raise ValueError(NOT_FINITE)
    if decreasing >= 0:
        raise ValueError(f"knots must be non-decreasing in each row, got knots[{decreasing}]={knots[decreasing]}")


def check_groups(group: NDArray[Any], n_groups: int) -> None:
    """Raise a ValueError unless groups are indices of residual distributions."""
    if group.ndim != 1 or group.dtype.kind not in "iu":
        raise ValueError(f"group must be integers of shape (n,), got {group.dtype} of shape {group.shape}")
    if group.size and not (group.min() >= 0 and group.max() < n_groups):
        raise ValueError(
            f"group must be in [0, {n_groups}), the number of residual distributions, "
            f"got values from {group.min()} to {group.max()}"
        )
