"""One interface to the four ways of giving a forecast, with what the metrics need from it.

=====================  ======================================================================================
given by               what is defined
=====================  ======================================================================================
a ``Distribution``     everything
``mean=`` and ``std=``  everything, as a normal distribution
``quantiles=``,        what needs quantiles between the lowest and the highest level given (interpolated
``levels=``            linearly): ece, tce, pinball, interval_score, coverage, mean_width, pit, crps
``samples=``           all but nll, from the empirical distribution of each row
``mean=`` alone        rmse, mae, r2
=====================  ======================================================================================
"""

from typing import Any, NoReturn, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.distributions import Distribution, Normal
from usnrt.distributions.base import check_levels, row_chunks
from usnrt.utils.arrays import plain_array
from usnrt.utils.types import Floats


class Given(TypedDict, total=False):
    """Keywords that give a forecast instead of a ``Distribution``."""

    mean: ArrayLike
    std: ArrayLike
    quantiles: ArrayLike
    levels: ArrayLike
    samples: ArrayLike


class UndefinedMetricError(ValueError):
    """A forecast of this kind does not define the metric."""


class Forecast:
    """Interface of a forecast for the metrics; what a kind does not define raises `UndefinedMetricError`."""

    kind = "intervals alone"
    own_levels: Floats | None = None  # levels of a forecast by quantiles

    def __len__(self) -> int:
        raise NotImplementedError

    def _lacks(self, what: str) -> NoReturn:
        raise UndefinedMetricError(f"this metric needs {what}, but the forecast is given by {self.kind}")

    def mean(self) -> Floats:
        """Point forecast, shape ``(n,)``."""
        self._lacks("a mean")

    def std(self) -> Floats:
        """Standard deviation, shape ``(n,)``."""
        self._lacks("a standard deviation")

    def quantile(self, levels: Floats) -> Floats:
        """Quantiles at levels of shape ``(k,)``, shape ``(n, k)``."""
        self._lacks("quantiles")

    def cdf(self, y: Floats) -> tuple[Floats, Floats]:
        """P(Y < y) and P(Y <= y), each of shape ``(n,)``."""
        self._lacks("a distribution")

    def logpdf(self, y: Floats) -> Floats:
        """Log density, shape ``(n,)``."""
        self._lacks("a density")

    def crps(self, y: Floats) -> Floats:
        """Continuous ranked probability score, shape ``(n,)``."""
        self._lacks("a distribution")

    def inside(self, y: Floats, coverages: Floats) -> NDArray[np.bool_]:
        """Whether y is strictly inside the central interval of each coverage, shape ``(n, k)``."""
        low, high = tail_levels(coverages)
        return (self.quantile(low) < y[:, None]) & (y[:, None] < self.quantile(high))

    def count_levels_below(self, y: Floats, levels: Floats) -> NDArray[np.intp]:
        """For each row the number of (increasing) levels whose quantile is <= y, shape ``(n,)``.

        Quantiles increase with the level, so this number determines for every level whether y < quantile.
        """
        counts = np.empty(len(self), dtype=np.intp)
        for rows in row_chunks(len(self), levels.size):
            counts[rows] = (self._rows(rows).quantile(levels) <= y[rows, None]).sum(axis=1)
        return counts

    def _rows(self, rows: slice) -> "Forecast":
        self._lacks("quantiles")


class DistributionForecast(Forecast):
    """A ``Distribution``; also a mean with its std."""

    kind = "a distribution"

    def __init__(self, dist: Distribution) -> None:
        self.dist = dist

    def __len__(self) -> int:
        return len(self.dist)

    def mean(self) -> Floats:
        return self.dist.mean()

    def std(self) -> Floats:
        return self.dist.std()

    def quantile(self, levels: Floats) -> Floats:
        return self.dist.ppf(levels)

    def cdf(self, y: Floats) -> tuple[Floats, Floats]:
        return self.dist.cdf_left(y), self.dist.cdf(y)

    def logpdf(self, y: Floats) -> Floats:
        return self.dist.logpdf(y)

    def crps(self, y: Floats) -> Floats:
        return self.dist.crps(y)

    # A quantile is the smallest x with cdf(x) >= level. So y < quantile is the same as cdf(y) < level, and one
    # cdf value per row serves every level: no array of rows times levels, no root finding.

    def inside(self, y: Floats, coverages: Floats) -> NDArray[np.bool_]:
        low, high = tail_levels(coverages)
        left, right = self.cdf(y)
        above = left[:, None] > low
        # On equality, y may be the end of a flat part of the cdf; only the quantile itself decides.
        for row, k in zip(*np.nonzero(left[:, None] == low)):
            above[row, k] = self.dist[row].ppf(low[k])[0] < y[row]
        return above & (right[:, None] < high)

    def count_levels_below(self, y: Floats, levels: Floats) -> NDArray[np.intp]:
        return np.searchsorted(levels, self.dist.cdf(y), side="right")


class QuantileForecast(Forecast):
    """Quantiles at some levels; linear interpolation between them, undefined outside."""

    kind = "quantiles"

    def __init__(self, quantiles: ArrayLike, levels: ArrayLike) -> None:
        at = np.atleast_1d(check_levels(levels, "levels"))
        values = _finite(quantiles, "quantiles", 2)
        if values.shape[1] != at.size:
            raise ValueError(f"quantiles must have one column per level ({at.size}), got {values.shape}")
        order = np.argsort(at)
        self.levels = self.own_levels = at[order]
        self.values = values[:, order]
        if (np.diff(self.levels) == 0).any():
            raise ValueError("levels must be unique, got one twice")
        if (np.diff(self.values, axis=1) < 0).any():
            raise ValueError("quantiles must not decrease with their level, got crossing quantiles")

    def __len__(self) -> int:
        return len(self.values)

    def quantile(self, levels: Floats) -> Floats:
        # Levels that differ by rounding are the same level.
        low, high = self.levels[0], self.levels[-1]
        outside = (levels < low - 1e-12) | (levels > high + 1e-12)
        if outside.any():
            raise UndefinedMetricError(
                f"this metric needs level {levels[outside][0]:g}, but quantiles are given in [{low:g}, {high:g}]"
            )
        right = np.clip(np.searchsorted(self.levels, levels - 1e-12), 1, max(self.levels.size - 1, 1))
        if self.levels.size == 1:
            return np.repeat(self.values, levels.size, axis=1)
        span = self.levels[right] - self.levels[right - 1]
        share = np.clip((levels - self.levels[right - 1]) / span, 0.0, 1.0)
        share = np.where(share < 1e-9, 0.0, np.where(share > 1 - 1e-9, 1.0, share))
        return (1.0 - share) * self.values[:, right - 1] + share * self.values[:, right]

    def cdf(self, y: Floats) -> tuple[Floats, Floats]:
        """Interpolated; outside the quantiles the midpoint between the outer level and 0 or 1."""
        levels = self.levels
        count = (self.values <= y[:, None]).sum(axis=1)
        left = np.clip(count - 1, 0, max(levels.size - 2, 0))
        right = np.minimum(left + 1, levels.size - 1)
        rows = np.arange(len(self))
        start, width = self.values[rows, left], self.values[rows, right] - self.values[rows, left]
        share = np.clip((y - start) / np.where(width > 0, width, 1.0), 0.0, 1.0)
        inside = levels[left] + share * (levels[right] - levels[left])
        cdf = np.where(count == 0, levels[0] / 2, np.where(y > self.values[:, -1], (1 + levels[-1]) / 2, inside))
        return cdf, cdf

    def crps(self, y: Floats) -> Floats:
        """Twice the integral of the pinball loss over the levels, by the midpoint rule."""
        edges = np.concatenate([[0.0], (self.levels[1:] + self.levels[:-1]) / 2, [1.0]])
        return 2.0 * pinball_rows(y, self.values, self.levels) @ np.diff(edges)

    def _rows(self, rows: slice) -> "QuantileForecast":
        return QuantileForecast(self.values[rows], self.levels)


class SampleForecast(Forecast):
    """Samples of each row, as its empirical distribution."""

    kind = "samples"

    def __init__(self, samples: ArrayLike) -> None:
        self.samples = np.sort(_finite(samples, "samples", 2), axis=1)

    def __len__(self) -> int:
        return len(self.samples)

    def mean(self) -> Floats:
        return np.asarray(self.samples.mean(axis=1))

    def std(self) -> Floats:
        return np.asarray(self.samples.std(axis=1))

    def quantile(self, levels: Floats) -> Floats:
        size = self.samples.shape[1]
        # smallest x with empirical cdf >= level, up to rounding of level * size
        position = np.ceil(levels * size - 1e-9).astype(int) - 1
        return self.samples[:, np.clip(position, 0, size - 1)]

    def cdf(self, y: Floats) -> tuple[Floats, Floats]:
        column = y[:, None]
        return (self.samples < column).mean(axis=1), (self.samples <= column).mean(axis=1)

    def crps(self, y: Floats) -> Floats:
        size = self.samples.shape[1]
        # E|X - X'| / 2 from the order statistics
        weights = (2.0 * np.arange(1, size + 1) - size - 1.0) / size**2
        return np.asarray(np.abs(self.samples - y[:, None]).mean(axis=1) - self.samples @ weights)

    def _rows(self, rows: slice) -> "SampleForecast":
        part = SampleForecast.__new__(SampleForecast)
        part.samples = self.samples[rows]
        return part


class PointForecast(Forecast):
    """A mean alone."""

    kind = "a mean alone"

    def __init__(self, mean: ArrayLike) -> None:
        self._mean = _finite(mean, "mean", 1)

    def __len__(self) -> int:
        return self._mean.size

    def mean(self) -> Floats:
        return self._mean


def as_forecast(forecast: Distribution | Forecast | ArrayLike | None = None, **given: Any) -> Forecast:
    """Convert a forecast, however it is given, to a :class:`Forecast`.

    Parameters
    ----------
    forecast : Distribution, or array-like of shape (n,) that is a point forecast, or None
    mean, std, quantiles, levels, samples : array-like
        The forecast, if ``forecast`` is None: ``mean=`` alone or with ``std=``, of shape (n,); ``quantiles=`` of
        shape (n, k) with ``levels=`` of shape (k,); ``samples=`` of shape (n, s).

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.metrics import as_forecast
    >>> forecast = as_forecast(quantiles=[[1.0, 2.0, 4.0]], levels=[0.1, 0.5, 0.9])
    >>> forecast.quantile(np.array([0.3, 0.7]))
    array([[1.5, 3. ]])
    """
    named = {name for name, value in given.items() if value is not None}
    unknown = sorted(set(given) - set(Given.__annotations__))
    if unknown:
        raise TypeError(f"a forecast is given by {sorted(Given.__annotations__)}, got {unknown[0]}=")
    if (forecast is not None) == bool(named):
        what = "both" if named else "neither"
        raise ValueError(f"a forecast must be a distribution or keywords such as mean=, std=, got {what}")
    if forecast is not None:
        if isinstance(forecast, Forecast):
            return forecast
        return DistributionForecast(forecast) if isinstance(forecast, Distribution) else PointForecast(forecast)
    if named == {"mean", "std"}:
        return DistributionForecast(Normal(given["mean"], given["std"]))
    if named == {"mean"}:
        return PointForecast(given["mean"])
    if named == {"quantiles", "levels"}:
        return QuantileForecast(given["quantiles"], given["levels"])
    if named == {"samples"}:
        return SampleForecast(given["samples"])
    raise ValueError(
        "a forecast is given by mean=, by mean= and std=, by quantiles= and levels=, or by samples=, "
        f"got {', '.join(sorted(named))}"
    )


def check_truth(y_true: ArrayLike, forecast: Forecast) -> Floats:
    """Observed targets as finite numbers, one per row of the forecast."""
    y = _finite(y_true, "y_true", 1)
    if y.size != len(forecast):
        raise ValueError(f"y_true must have one value per row of the forecast ({len(forecast)}), got {y.size} values")
    return y


def pinball_rows(y: Floats, quantiles: Floats, levels: Floats) -> Floats:
    """Pinball loss of each row and level, shape ``(n, k)``."""
    error = y[:, None] - quantiles
    return np.maximum(levels * error, (levels - 1.0) * error)


def tail_levels(coverages: Floats) -> tuple[Floats, Floats]:
    """Levels of both ends of central intervals, rounded so that a coverage of 0.9 means the levels 0.05 and 0.95."""
    return np.round((1.0 - coverages) / 2.0, 12), np.round((1.0 + coverages) / 2.0, 12)


def _finite(values: ArrayLike, name: str, ndim: int) -> Floats:
    array = np.asarray(plain_array(values, name), dtype=np.float64)
    shape = "(n,)" if ndim == 1 else "(n, k)"
    if array.ndim != ndim:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} must have at least one row, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return array
