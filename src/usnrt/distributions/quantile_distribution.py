"""A curve of straight pieces a row, shape of the residuals a group: spread and skewness that change with the row."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.distributions.base import Distribution, broadcast_rows
from usnrt.distributions.grouped_residuals import GroupedResiduals
from usnrt.distributions.residual_distribution import ResidualDistribution
from usnrt.nn.quantile_functions import segment_heights, position_of, value_at
from usnrt.utils.types import Floats


class QuantileDistribution(Distribution):
    """``Y = loc + T(E)``, where ``E`` has the shape of the row's group and ``T`` is the row's increasing curve.

    The curve is straight between its knots, and its outer pieces go on to both infinities; so moments and the CRPS
    are sums over pieces, in closed form.

    Parameters
    ----------
    knots : array-like of shape (n, J)
        Heights of the curves at the positions, each row non-decreasing. A flat piece is a point mass.
    positions : array-like of shape (J,)
        Increasing, J >= 2, in units of the shapes.
    group : array-like of int of shape (n,)
        Which of the shapes each row has.
    shapes : sequence of ResidualDistribution
    mean : array-like of shape (n,), default=None
        The means, where they are known better than from the shapes; see `GroupedResiduals`. The standard deviation is
        that of the distribution itself in any case.
    loc : float or array-like of shape (n,), default=0
        Added to all; apart from the knots, so that a small spread around a large number keeps its digits.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.distributions import QuantileDistribution, ResidualDistribution
    >>> shape = ResidualDistribution.from_residuals(np.random.default_rng(0).normal(size=300))
    >>> even, skewed = [-2.0, 0.0, 2.0], [-1.0, 0.0, 6.0]
    >>> dist = QuantileDistribution([even, skewed], positions=[-2.0, 0.0, 2.0], group=[0, 0], shapes=[shape])
    >>> dist.interval(0.9).round(1)
    array([[-1.7,  1.6],
           [-0.8,  4.9]])
    """

    def __init__(
        self,
        knots: ArrayLike,
        positions: ArrayLike,
        group: ArrayLike,
        shapes: Sequence[ResidualDistribution],
        mean: ArrayLike | None = None,
        loc: ArrayLike = 0.0,
    ) -> None:
        self.knots, self.positions = np.asarray(knots, dtype=np.float64), np.asarray(positions, dtype=np.float64)
        # The distribution of E itself: a straight curve. It checks the groups, too.
        self._standard = GroupedResiduals(0.0, 1.0, group, shapes)
        self.group, self.shapes = self._standard.group, self._standard.shapes
        expected = (self.group.size, self.positions.size)
        if self.positions.ndim != 1 or self.positions.size < 2:
            raise ValueError(f"positions must have shape (J,) with J >= 2, got {self.positions.shape}")
        if not (np.isfinite(self.positions).all() and (np.diff(self.positions) > 0).all()):
            raise ValueError("positions must be finite and increasing, but they are not")
        if self.knots.shape != expected:
            raise ValueError(f"knots must have shape {expected}, got {self.knots.shape}")
        if not np.isfinite(self.knots).all():
            raise ValueError("knots must be finite, but they contain NaN or infinity")
        if (self.knots[:, 1:] < self.knots[:, :-1]).any():
            row = int((self.knots[:, 1:] < self.knots[:, :-1]).any(axis=1).argmax())
            raise ValueError(f"knots must be non-decreasing in each row, got knots[{row}]={self.knots[row]}")
        self.loc = broadcast_rows({"loc": loc, "group": self._standard.loc})[0]
        self.known_mean = None if mean is None else broadcast_rows({"mean": mean, "group": self._standard.loc})[0]

    def __len__(self) -> int:
        return self.group.size

    def mean(self) -> Floats:
        """Mean of each row, shape ``(n,)``."""
        return self.loc + self._moments[0] if self.known_mean is None else self.known_mean

    def std(self) -> Floats:
        """Standard deviation of each row, shape ``(n,)``."""
        return self._moments[1].copy()

    @property
    def aleatoric(self) -> Floats | None:
        """Variance of the noise: all of the variance, unless the maker said otherwise."""
        return self.var() if self._aleatoric is None else self._aleatoric

    def score(self, y: ArrayLike) -> Floats:
        """Where ``y`` is on the scale of the shape, ``T^-1(y)``: a number or of shape ``(n,)`` or ``(n, k)``."""
        return self._on_rows(lambda rows: self._positions(rows)[0], y)

    def _positions(self, y: Floats, side: str = "right") -> tuple[Floats, Floats]:
        return position_of(self.knots, self.positions, y - self.loc[:, None], side)

    @functools.cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Mean of the curve and standard deviation of the distribution itself."""
        # Each piece is the line at_mean + slope * (E - E[E]); in units of the row, so that no square overflows.
        unit, middle = segment_heights(self.knots[:, [0, -1]]), self.knots[:, [self.positions.size // 2]]
        slope = segment_heights(self.knots) / unit / np.diff(self.positions)
        shift = np.array([shape.mean - self.positions[:-1] for shape in self.shapes])
        at_mean = (self.knots[:, :-1] - middle) / unit + slope * shift[self.group]
        mass, first, second = (table[self.group] for table in self._piece_moments())
        mean = (at_mean * mass + slope * first).sum(axis=1, keepdims=True)
        off = at_mean - mean
        var = (off**2 * mass + 2.0 * off * slope * first + slope**2 * second).sum(axis=1, keepdims=True)
        return (middle + unit * mean)[:, 0], (unit * np.sqrt(np.maximum(var, 0.0)))[:, 0]

    def _piece_moments(self) -> list[Floats]:
        """Moments of order 0, 1, 2 of each shape about its mean over each piece, three of shape (shapes, J - 1)."""
        tables = np.zeros((3, len(self.shapes), self.positions.size))
        for g, shape in enumerate(self.shapes):
            tables[:, g, 1:-1] = shape.moments_below(self.positions[1:-1])
            tables[:, g, -1] = 1.0, 0.0, shape.std**2
        return list(np.diff(tables, axis=2))

    def _flat(self, y: Floats) -> NDArray[np.bool_]:
        """Whether ``y`` is the height of a flat piece."""
        y, at = y - self.loc[:, None], np.zeros(y.shape, dtype=bool)
        for low, high in zip(self.knots.T[:-1, :, None], self.knots.T[1:, :, None]):
            at |= (low == y) & (high == y)
        return at

    def _logpdf(self, y: Floats) -> Floats:
        z, log_slope = self._positions(y)
        return np.where(self._flat(y), np.inf, self._standard._logpdf(z) + log_slope)

    def _cdf(self, y: Floats) -> Floats:
        z, _ = self._positions(y)
        # A flat last piece holds all of the upper tail.
        y = y - self.loc[:, None]
        ends = (y == self.knots[:, -1:]) & (y == self.knots[:, -2:-1])
        return np.where(ends, 1.0, self._standard._cdf(z))

    def _cdf_left(self, y: Floats) -> Floats:
        z, _ = self._positions(y, side="left")
        y = y - self.loc[:, None]
        starts = (y == self.knots[:, :1]) & (y == self.knots[:, 1:2])
        return np.where(starts, 0.0, self._standard._cdf(z))

    def _ppf(self, q: Floats) -> Floats:
        return self.loc[:, None] + value_at(self.knots, self.positions, self._standard._ppf(q))

    def _crps(self, y: Floats) -> Floats:
        y = y - self.loc
        z = position_of(self.knots, self.positions, y[:, None])[0][:, 0]
        piece = np.searchsorted(self.positions[1:-1], z, side="right")
        # The distance itself stays exact where z overflows; only an outer piece reaches that far.
        fits = np.abs(z) < 1e150
        below, above = self._squares(np.where(fits, z, 0.0))
        cuts = [shape.squares(self.positions[1:-1]) for shape in self.shapes]
        low = np.array([np.concatenate([[0.0], cut[0]]) for cut in cuts])
        high = np.array([np.concatenate([cut[1], [0.0]]) for cut in cuts])
        with np.errstate(over="ignore"):
            slope = segment_heights(self.knots) / np.diff(self.positions)
            # Whole pieces below and above the outcome, then what of its own piece is on either side.
            whole_low, whole_high = np.zeros(slope.shape), np.zeros(slope.shape)
            np.cumsum(slope[:, :-1] * np.diff(low, axis=1)[self.group], axis=1, out=whole_low[:, 1:])
            falls = slope[:, 1:] * -np.diff(high, axis=1)[self.group]
            whole_high[:, :-1] = np.cumsum(falls[:, ::-1], axis=1)[:, ::-1]
            rows = np.arange(len(self))
            own = slope[rows, piece] * (below - low[self.group, piece] + above - high[self.group, piece])
            far = np.abs(y - self.knots[rows, piece])
        return whole_low[rows, piece] + whole_high[rows, piece] + np.where(fits, own, far)

    def _squares(self, z: Floats) -> tuple[Floats, Floats]:
        """Each row's `Shape.squares`."""
        below, above = np.empty(z.shape), np.empty(z.shape)
        for shape, rows in self._standard._groups():
            below[rows], above[rows] = shape.squares(z[rows])
        return below, above

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        return self.loc[:, None] + value_at(self.knots, self.positions, self._standard._draw(size, rng))

    def _take(self, index: Any) -> "QuantileDistribution":
        mean = None if self.known_mean is None else self.known_mean[index]
        return QuantileDistribution(
            self.knots[index], self.positions, self.group[index], self.shapes, mean, self.loc[index]
        )

    def _scaled(self, shift: Floats, factor: Floats) -> "QuantileDistribution":
        mean = None if self.known_mean is None else factor * self.known_mean + shift
        knots = factor[:, None] * self.knots
        return QuantileDistribution(knots, self.positions, self.group, self.shapes, mean, factor * self.loc + shift)
