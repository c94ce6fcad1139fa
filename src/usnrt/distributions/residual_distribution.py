"""Residual distributions of conformity scores."""

import functools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from usnrt.distributions.residual_fit import fit_residual_distribution
from usnrt.utils.types import Floats, Rows

MIN_INDEX, MAX_INDEX = 1e-3, 0.49


@dataclass(eq=False)
class ResidualDistribution:
    """One univariate distribution: piecewise linear density between knots, generalised Pareto tails outside.

    The cdf is piecewise quadratic, so that quantiles, moments and the CRPS have closed forms in precomputed tables; no
    method loops over knots.

    Parameters
    ----------
    knots : ndarray of shape (K,)
        Increasing.
    density : ndarray of shape (K,)
        Density at the knots, positive, continuous with the tails. It is normalised to a total mass of 1.
    tail_mass : ndarray of shape (2,)
        Mass below the first and above the last knot.
    tail_index : ndarray of shape (2,)
        Index of the two tails, P(beyond s) ~ s ** (-1 / index): near 0 exponential, 1/3 as a Student-t with 3 degrees
        of freedom. Clipped to [0.001, 0.49], so that the variance is finite.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.distributions import ResidualDistribution
    >>> residual = ResidualDistribution.from_residuals(np.random.default_rng(0).standard_normal(500))
    >>> round(residual.std, 1)
    1.0
    >>> residual.cdf(residual.ppf(np.array([0.05, 0.5, 0.999]))).round(6)
    array([0.05 , 0.5  , 0.999])
    """

    knots: Floats
    density: Floats
    tail_mass: Floats
    tail_index: Floats
    # Tables computed from the four above.
    mean: float = field(init=False)
    std: float = field(init=False)
    _tail_scale: Floats = field(init=False, repr=False)
    _cdf: Floats = field(init=False, repr=False)
    _survival: Floats = field(init=False, repr=False)
    _left_square: Floats = field(init=False, repr=False)
    _right_square: Floats = field(init=False, repr=False)

    @classmethod
    def from_residuals(cls, residuals: ArrayLike, weights: ArrayLike | None = None) -> "ResidualDistribution":
        """Estimate the distribution from standardised held-out residuals or conformity scores.

        See :func:`usnrt.distributions.residual_fit.fit_residual_distribution` for the estimator.

        Parameters
        ----------
        residuals : array-like of shape (n,)
            At least one, finite, in any order.
        weights : array-like of shape (n,) or None
            Positive weights of the residuals.
        """
        return cls(*fit_residual_distribution(residuals, weights))

    def __post_init__(self) -> None:
        x, d = np.asarray(self.knots, float), np.asarray(self.density, float)
        mass, index = np.asarray(self.tail_mass, float), np.asarray(self.tail_index, float)
        if x.ndim != 1 or x.size < 2 or x.shape != d.shape:
            raise ValueError(f"knots and density must have one shape (K,), got {x.shape} and {d.shape}")
        if not (np.isfinite(x).all() and (np.diff(x) > 0).all()):
            raise ValueError("knots must be finite and increasing, but they are not")
        if not (np.isfinite(d).all() and (d > 0).all()):
            raise ValueError("density must be finite and positive, but it is not")
        if mass.shape != (2,) or not (mass > 0).all() or index.shape != (2,):
            raise ValueError(f"tail_mass must be two positive numbers, got {self.tail_mass}")
        cells = np.diff(x) * 0.5 * (d[1:] + d[:-1])
        total = mass.sum() + cells.sum()
        self.knots, self.density, self.tail_mass = x, d / total, mass / total
        self.tail_index = np.clip(index, MIN_INDEX, MAX_INDEX)
        self._tail_scale = self.tail_mass / self.density[[0, -1]]
        cells = cells / total
        self._cdf = self.tail_mass[0] + np.concatenate([[0.0], np.cumsum(cells)])
        self._survival = self.tail_mass[1] + np.concatenate([np.cumsum(cells[::-1])[::-1], [0.0]])
        self._make_moments()
        self._make_squares()

    def _make_moments(self) -> None:
        left, right = self._tail_scale / (1 - self.tail_index)
        tails = self.tail_mass * np.array([self.knots[0] - left, self.knots[-1] + right])
        self.mean = float(tails.sum() + self._cell_moments(0.0)[1].sum())
        below, above = self._outside_moments(self.knots[0], 0), self._outside_moments(self.knots[-1], 1)
        self.std = float(np.sqrt(self._cell_moments(self.mean)[2].sum() + below[2] + above[2]))

    def _cell_moments(self, centre: float) -> Floats:
        """Moments of order 0, 1 and 2 about a centre over each interval between knots, shape (3, K - 1)."""
        x, d = self.knots, self.density
        width, rise = np.diff(x), np.diff(d)
        zeroth = width * (d[:-1] + rise / 2)
        first = width**2 * (d[:-1] / 2 + rise / 3)
        second = width**3 * (d[:-1] / 3 + rise / 4)
        c = x[:-1] - centre
        return np.array([zeroth, c * zeroth + first, c**2 * zeroth + 2 * c * first + second])

    @functools.cached_property
    def _moments(self) -> Floats:
        """Partial moments about the mean below each knot, shape (3, K); not stored in files."""
        body, below = self._cell_moments(self.mean), self._outside_moments(self.knots[0], 0)
        moments: Floats = below[:, None] + np.pad(np.cumsum(body, axis=1), ((0, 0), (1, 0)))
        return moments

    def _make_squares(self) -> None:
        """Integrals of F^2 below each knot and of (1 - F)^2 above each knot, for the CRPS."""
        cells = np.arange(self.knots.size - 1)
        ones = np.ones(cells.size)
        ends = self.tail_mass**2 * self._tail_scale / (2.0 - self.tail_index)
        up = self._cell_square(cells, ones, self._cdf[:-1], 1.0)
        down = self._cell_square(cells, ones, self._survival[:-1], -1.0)
        self._left_square = ends[0] + np.concatenate([[0.0], np.cumsum(up)])
        self._right_square = ends[1] + np.concatenate([np.cumsum(down[::-1])[::-1], [0.0]])

    def _cell_square(self, cell: Rows, t: Floats, start: Floats, sign: float) -> Floats:
        """Integral of (start + sign * cumulated mass)^2 over the first fraction ``t`` of each cell."""
        width = self.knots[cell + 1] - self.knots[cell]
        b = sign * width * self.density[cell]
        c = sign * width * 0.5 * (self.density[cell + 1] - self.density[cell])
        a = start
        return width * t * (a * a + t * (a * b + t * ((b * b + 2 * a * c) / 3 + t * (b * c / 2 + t * c * c / 5))))

    def _locate(self, z: Floats) -> tuple[Rows, Floats]:
        """The cell of each ``z`` and its relative position in the cell, from 0 to 1."""
        cell = np.clip(np.searchsorted(self.knots, z, side="right") - 1, 0, self.knots.size - 2)
        t = (np.clip(z, self.knots[0], self.knots[-1]) - self.knots[cell]) / (self.knots[cell + 1] - self.knots[cell])
        return cell, t

    def _beyond(self, z: Floats, side: int) -> Floats:
        """``log(1 + index * s)`` with s the distance outside the knots in units of the tail scale; 0 inside."""
        distance = self.knots[0] - z if side == 0 else z - self.knots[-1]
        with np.errstate(over="ignore"):
            s = np.maximum(distance, 0.0) / self._tail_scale[side]
            log_v: Floats = np.log1p(np.minimum(self.tail_index[side] * s, np.finfo(float).max))
        return log_v

    def logpdf(self, z: Floats) -> Floats:
        """Log density at ``z``, any shape."""
        cell, t = self._locate(z)
        inside = self.density[cell] + t * (self.density[cell + 1] - self.density[cell])
        left, right = self._beyond(z, 0), self._beyond(z, 1)
        i, j = self.tail_index
        log_density: Floats = np.log(inside) - (1 / i + 1) * left - (1 / j + 1) * right
        return log_density

    def cdf(self, z: Floats) -> Floats:
        """P(E <= z), any shape."""
        cell, t = self._locate(z)
        width = self.knots[cell + 1] - self.knots[cell]
        rise = self.density[cell + 1] - self.density[cell]
        inside = self._cdf[cell] + width * t * (self.density[cell] + 0.5 * rise * t)
        with np.errstate(under="ignore"):
            left = self.tail_mass[0] * np.exp(-self._beyond(z, 0) / self.tail_index[0])
            right = 1.0 - self.tail_mass[1] * np.exp(-self._beyond(z, 1) / self.tail_index[1])
        return np.where(z < self.knots[0], left, np.where(z > self.knots[-1], right, inside))

    def sf(self, z: Floats) -> Floats:
        """P(E > z), any shape; precise in the upper tail."""
        cell, t = self._locate(z)
        width = self.knots[cell + 1] - self.knots[cell]
        rise = self.density[cell + 1] - self.density[cell]
        inside = self._survival[cell] - width * t * (self.density[cell] + 0.5 * rise * t)
        with np.errstate(under="ignore"):
            left = 1.0 - self.tail_mass[0] * np.exp(-self._beyond(z, 0) / self.tail_index[0])
            right = self.tail_mass[1] * np.exp(-self._beyond(z, 1) / self.tail_index[1])
        return np.where(z < self.knots[0], left, np.where(z > self.knots[-1], right, inside))

    def ppf(self, q: Floats) -> Floats:
        """Quantiles at levels ``q`` in (0, 1), any shape."""
        cell = np.clip(np.searchsorted(self._cdf, q, side="right") - 1, 0, self.knots.size - 2)
        width = self.knots[cell + 1] - self.knots[cell]
        start, rise = self.density[cell], self.density[cell + 1] - self.density[cell]
        # The root of start t + rise t^2 / 2 = area, in the form without cancellation.
        area = np.maximum(q - self._cdf[cell], 0.0) / width
        t = 2.0 * area / (start + np.sqrt(np.maximum(start**2 + 2.0 * rise * area, 0.0)))
        inside = self.knots[cell] + width * np.minimum(t, 1.0)
        p = np.minimum(q / self.tail_mass[0], 1.0), np.minimum((1.0 - q) / self.tail_mass[1], 1.0)
        far = [np.expm1(-i * np.log(x)) / i * scale for x, i, scale in zip(p, self.tail_index, self._tail_scale)]
        low, high = self.knots[0] - far[0], self.knots[-1] + far[1]
        return np.where(p[0] < 1.0, low, np.where(p[1] < 1.0, high, inside))

    def moments_below(self, z: Floats) -> Floats:
        """Partial moments: integrals of 1, ``t - mean`` and ``(t - mean)^2`` times the density below ``z``.

        Parameters
        ----------
        z : ndarray of any shape, finite

        Returns
        -------
        ndarray of shape (3, *z.shape)
        """
        cell, t = self._locate(z)
        width = t * (self.knots[cell + 1] - self.knots[cell])
        start, rise = self.density[cell], t * (self.density[cell + 1] - self.density[cell])
        zeroth = width * (start + rise / 2)
        first = width**2 * (start / 2 + rise / 3)
        second = width**3 * (start / 3 + rise / 4)
        c = self.knots[cell] - self.mean
        part = np.array([zeroth, c * zeroth + first, c**2 * zeroth + 2 * c * first + second])
        total = np.array([1.0, 0.0, self.std**2]).reshape(3, *np.ones(z.ndim, dtype=int))
        low, high = self._outside_moments(z, 0), total - self._outside_moments(z, 1)
        return np.where(z < self.knots[0], low, np.where(z > self.knots[-1], high, self._moments[:, cell] + part))

    def segment_moments(self, positions: Floats) -> Floats:
        """Moments of order 0, 1 and 2 about the mean over each segment between positions, the outer ones unlimited.

        Parameters
        ----------
        positions : ndarray of shape (J,)
            Increasing, J >= 2.

        Returns
        -------
        ndarray of shape (3, J - 1)
            Kept, so that it is computed once per distribution.
        """
        key = positions.tobytes()
        kept = self._segment_moments
        if key not in kept:
            below = np.zeros((3, positions.size))
            below[:, 1:-1] = self.moments_below(positions[1:-1])
            below[:, -1] = 1.0, 0.0, self.std**2
            kept[key] = np.diff(below, axis=1)
        return kept[key]

    @functools.cached_property
    def _segment_moments(self) -> dict[bytes, Floats]:
        return {}

    def _outside_moments(self, z: Floats, side: int) -> Floats:
        """Partial moments of one tail beyond ``z``: integrals of 1, ``t - mean`` and ``(t - mean)^2``."""
        index, log_v = self.tail_index[side], self._beyond(z, side)
        with np.errstate(under="ignore"):
            mass = self.tail_mass[side] * np.exp(-log_v / index)
        # A Pareto tail beyond a threshold is a Pareto tail with the same index and the scale multiplied by v.
        scale = self._tail_scale[side] * np.exp(log_v)
        first, second = scale / (1 - index), 2 * scale**2 / ((1 - index) * (1 - 2 * index))
        c, sign = z - self.mean, -1.0 if side == 0 else 1.0
        return np.array([mass, mass * (c + sign * first), mass * (c**2 + sign * 2 * c * first + second)])

    def crps(self, z: Floats) -> Floats:
        """Continuous ranked probability score of the outcome ``z``, any shape."""
        below, above = self.crps_parts(z)
        return below + above

    def crps_parts(self, z: Floats) -> tuple[Floats, Floats]:
        """The two terms of the CRPS: the integrals of F^2 below ``z`` and of (1 - F)^2 above ``z``, any shape."""
        cell, t = self._locate(z)
        below = self._left_square[cell] + self._cell_square(cell, t, self._cdf[cell], 1.0)
        above = self._right_square[cell] - self._cell_square(cell, t, self._survival[cell], -1.0)
        (low, over_low), (high, over_high) = self._outside_squares(z, 0), self._outside_squares(z, 1)
        return np.where(z < self.knots[0], low, below + over_high), np.where(z > self.knots[-1], high, above + over_low)

    def _outside_squares(self, z: Floats, side: int) -> tuple[Floats, Floats]:
        """Integrals over one tail: of P(beyond)^2 beyond ``z``, and of (1 - P(beyond))^2 up to ``z``."""
        mass, scale, index = self.tail_mass[side], self._tail_scale[side], self.tail_index[side]
        log_v = self._beyond(z, side)
        distance = np.maximum(self.knots[0] - z if side == 0 else z - self.knots[-1], 0.0)
        with np.errstate(under="ignore"):
            outer = mass**2 * scale / (2 - index) * np.exp((1 - 2 / index) * log_v)
            once = mass * scale / (1 - index) * -np.expm1((1 - 1 / index) * log_v)
            twice = mass**2 * scale / (2 - index) * -np.expm1((1 - 2 / index) * log_v)
        return outer, distance - 2 * once + twice
