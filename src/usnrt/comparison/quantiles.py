"""Quantiles as forecasts: a distribution from them, their order, and what calibration rows move them by."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.distributions import Distribution
from usnrt.utils.types import Floats


class InterpolatedQuantiles(Distribution):
    r"""Distributions from quantiles: a linear cdf between them, exponential tails beyond the outer ones.

    The density is constant between two quantiles. Each tail starts with the density of the adjacent step and has the
    remaining probability, so that its scale is :math:`p_1 (x_2 - x_1)/(p_2 - p_1)`.

    Parameters
    ----------
    levels : array-like of shape (k,)
        Increasing, in (0, 1), at least 2.
    values : array-like of shape (n, k)
        Quantiles at these levels, increasing along each row; see `separated`.

    Examples
    --------
    >>> from usnrt.comparison.peers import InterpolatedQuantiles
    >>> dist = InterpolatedQuantiles([0.1, 0.5, 0.9], [[0.0, 1.0, 3.0]])
    >>> dist.cdf([0.5]), dist.ppf([0.5, 0.7])
    (array([0.3]), array([[1., 2.]]))
    >>> dist.mean().round(3)
    array([1.325])
    """

    def __init__(self, levels: ArrayLike, values: ArrayLike) -> None:
        self.levels = np.asarray(levels, dtype=np.float64)
        self.values = np.asarray(values, dtype=np.float64)
        check_levels(levels)
        steps = np.diff(np.concatenate([[0.0], self.levels, [1.0]]))
        if self.values.ndim != 2 or self.values.shape[1] != self.levels.size:
            raise ValueError(f"values must have shape (n, {self.levels.size}), got {self.values.shape}")
        if not np.isfinite(self.values).all() or not (np.diff(self.values, axis=1) > 0).all():
            raise ValueError("values must be finite and increase along each row")
        width = np.diff(self.values, axis=1)
        self._low = self.levels[0] * width[:, 0] / steps[1]
        self._high = (1.0 - self.levels[-1]) * width[:, -1] / steps[-2]

    def __len__(self) -> int:
        return len(self.values)

    def mean(self) -> Floats:
        """Mean of each row, shape ``(n,)``."""
        middles = (self.values[:, :-1] + self.values[:, 1:]) / 2.0
        low, high = self.values[:, 0] - self._low, self.values[:, -1] + self._high
        return np.asarray(middles @ np.diff(self.levels) + self.levels[0] * low + (1.0 - self.levels[-1]) * high)

    def std(self) -> Floats:
        """Standard deviation of each row, shape ``(n,)``."""
        x = self.values - self.mean()[:, None]
        inner = (x[:, :-1] ** 2 + x[:, :-1] * x[:, 1:] + x[:, 1:] ** 2) / 3.0  # of a uniform step
        low = x[:, 0] ** 2 - 2.0 * x[:, 0] * self._low + 2.0 * self._low**2  # of an exponential tail
        high = x[:, -1] ** 2 + 2.0 * x[:, -1] * self._high + 2.0 * self._high**2
        tails = self.levels[0] * low + (1.0 - self.levels[-1]) * high
        return np.asarray(np.sqrt(inner @ np.diff(self.levels) + tails))

    def _cdf(self, y: Floats) -> Floats:
        index = self._index(y)
        left, right, rise = self._step(index)
        share = np.clip((y - left) / (right - left), 0.0, 1.0)
        inside = self.levels[np.clip(index - 1, 0, self.levels.size - 2)] + rise * share
        low = self.levels[0] * np.exp(np.minimum(y - self.values[:, :1], 0.0) / self._low[:, None])
        high = 1.0 - (1.0 - self.levels[-1]) * np.exp(-np.maximum(y - self.values[:, -1:], 0.0) / self._high[:, None])
        return np.where(index == 0, low, np.where(index == self.levels.size, high, inside))

    def _sf(self, y: Floats) -> Floats:
        above = np.maximum(y - self.values[:, -1:], 0.0) / self._high[:, None]
        with np.errstate(under="ignore"):
            tail = (1.0 - self.levels[-1]) * np.exp(-above)
        return np.where(y >= self.values[:, -1:], tail, 1.0 - self._cdf(y))

    def _logpdf(self, y: Floats) -> Floats:
        index = self._index(y)
        left, right, rise = self._step(index)
        below = np.maximum(self.values[:, :1] - y, 0.0) / self._low[:, None]
        above = np.maximum(y - self.values[:, -1:], 0.0) / self._high[:, None]
        return np.asarray(np.log(rise / (right - left)) - below - above)

    def _ppf(self, q: Floats) -> Floats:
        q = np.broadcast_to(q, (len(self), q.shape[1]))
        index = np.searchsorted(self.levels, q, side="right")
        left, right, rise = self._step(index)
        start = self.levels[np.clip(index - 1, 0, self.levels.size - 2)]
        inside = left + (right - left) * (q - start) / rise
        low = self.values[:, :1] + self._low[:, None] * np.log(np.minimum(q / self.levels[0], 1.0))
        high = self.values[:, -1:] - self._high[:, None] * np.log(np.minimum((1.0 - q) / (1.0 - self.levels[-1]), 1.0))
        return np.where(index == 0, low, np.where(index == self.levels.size, high, inside))

    def _crps(self, y: Floats) -> Floats:
        # The integral of F^2 left of y and of (1 - F)^2 right of it, step by step.
        a, b = self.values[:, :-1], self.values[:, 1:]
        p, q = self.levels[:-1], self.levels[1:]
        cut = np.clip(y[:, None], a, b)
        at_cut = p + (q - p) * (cut - a) / (b - a)
        steps = (cut - a) * _mean_square(p, at_cut) + (b - cut) * _mean_square(1.0 - at_cut, 1.0 - q)
        low = _tail_crps(self.values[:, 0] - y, self._low, self.levels[0])
        high = _tail_crps(y - self.values[:, -1], self._high, 1.0 - self.levels[-1])
        return np.asarray(steps.sum(axis=1) + low + high)

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        return self._ppf(rng.random((len(self), size)))

    def _take(self, index: Any) -> "InterpolatedQuantiles":
        return InterpolatedQuantiles(self.levels, self.values[index])

    def _scaled(self, shift: Floats, factor: Floats) -> "InterpolatedQuantiles":
        moved = self.values * factor[:, None] + shift[:, None]
        # After a large shift two quantiles may round to the same number.
        gap = 4.0 * np.spacing(np.abs(moved).max(axis=1, keepdims=True))
        return InterpolatedQuantiles(self.levels, separated(moved, gap))

    def _index(self, y: Floats) -> NDArray[np.intp]:
        """Number of quantiles of a row that are at most y, shape (n, k)."""
        index = np.zeros(y.shape, dtype=np.intp)
        for column in range(self.levels.size):
            index += self.values[:, column, None] <= y
        return index

    def _step(self, index: NDArray[np.intp]) -> tuple[Floats, Floats, Floats]:
        """Ends and probability of a step; for a tail those of the adjacent step."""
        step = np.clip(index - 1, 0, self.levels.size - 2)
        left = np.take_along_axis(self.values, step, axis=1)
        return left, np.take_along_axis(self.values, step + 1, axis=1), np.diff(self.levels)[step]


def check_levels(levels: Any) -> None:
    """Check the levels of quantiles that a model is trained on."""
    values = np.asarray(levels, dtype=np.float64)
    if values.ndim != 1 or values.size < 2 or not (np.diff(np.concatenate([[0.0], values, [1.0]])) > 0).all():
        raise ValueError(f"levels must be at least 2, increasing, in (0, 1), got {levels!r}")


def separated(values: Floats, gap: ArrayLike) -> Floats:
    """Quantiles in increasing order, at least a gap apart from each other.

    Parameters
    ----------
    values : ndarray of shape (n, k)
    gap : float or array-like of shape (n, 1)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.comparison.quantiles import separated
    >>> separated(np.array([[2.0, 1.0, 2.0]]), gap=0.5)
    array([[1. , 2. , 2.5]])
    """
    offsets = np.asarray(gap) * np.arange(values.shape[1])
    return np.maximum.accumulate(np.sort(values, axis=1) - offsets, axis=1) + offsets


def conformal_quantile(errors: Floats, level: float, weight: Floats | None = None) -> float:
    """What a quantile is moved by, so that a new target is below it with probability ``level``.

    Above the median at least with this probability, below it at most; the extreme error where rows are too few. Errors
    are targets less their predicted quantiles, of calibration rows; a weight is how often a row counts.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.comparison.quantiles import conformal_quantile
    >>> errors = np.arange(1.0, 20.0)
    >>> conformal_quantile(errors, 0.95), conformal_quantile(errors, 0.5), conformal_quantile(errors, 0.05)
    (19.0, 10.0, 1.0)
    """
    order = np.argsort(errors, kind="stable")
    counts = np.cumsum(np.ones(len(errors)) if weight is None else weight[order])
    rank = (counts[-1] + 1.0) * level
    rank = np.ceil(rank - 1e-9) if level >= 0.5 else np.floor(rank + 1e-9)
    position = int(np.searchsorted(counts, np.clip(rank, 1.0, counts[-1]) - 1e-9))
    return float(errors[order][min(position, len(errors) - 1)])


def _mean_square(p: Floats, q: Floats) -> Floats:
    """Mean square of a linear function from p to q."""
    return (p * p + p * q + q * q) / 3.0


def _tail_crps(depth: Floats, scale: Floats, mass: float) -> Floats:
    """A tail's part of the CRPS; ``depth`` is the distance of y into the tail (negative if outside)."""
    inside = np.maximum(depth, 0.0)
    far = np.exp(-inside / scale)
    # Beyond y the square of the tail's cdf; between y and the quantile the square of 1 minus it.
    beyond = mass**2 * scale / 2.0 * far**2
    between = inside - 2.0 * mass * scale * (1.0 - far) + mass**2 * scale / 2.0 * (1.0 - far**2)
    return np.asarray(beyond + between)
