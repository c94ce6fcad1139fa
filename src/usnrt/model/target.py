"""The target as networks learn it: its map, its scale, and the point masses at its bounds."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from usnrt.distributions import Distribution, TransformedDistribution
from usnrt.distributions.transformed import MIN_SHARE, TargetMap
from usnrt.utils.types import Floats

# The interval is at most this share of the gap between the bound and the nearest other target.
MAX_GAP = 0.99
BISECTIONS = 40
# Size of targets and their deviations from the mean: squares of larger numbers overflow, of smaller ones underflow.
LARGEST, SMALLEST = 1e150, 1e-150


def bounds_of(target_bounds: Any) -> tuple[float, float]:
    """Lower and upper bound, infinite where there is none.

    Examples
    --------
    >>> from usnrt.model.target import bounds_of
    >>> bounds_of((0, None)), bounds_of(None)
    ((0.0, inf), (-inf, inf))
    """
    low, high = (None, None) if target_bounds is None else target_bounds
    return -np.inf if low is None else float(low), np.inf if high is None else float(high)


@dataclass(frozen=True)
class TargetScale:
    """From targets to the values that networks learn: the map, then a mean of 0 and a standard deviation of 1.

    Attributes
    ----------
    mean, std : float
        Of the mapped targets.
    target_map : TargetMap or None
        None for the identity without bounds.
    moments : tuple of float or None
        Mean and standard deviation of the training targets if they are mapped.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.model.target import TargetScale
    >>> scale = TargetScale(10.0, 2.0)
    >>> scale(np.array([10.0, 14.0])), scale.to_target(np.array([2.0]))
    (array([0., 2.]), array([14.]))
    """

    mean: float
    std: float
    target_map: TargetMap | None = None
    moments: tuple[float, float] | None = None

    @property
    def training_moments(self) -> tuple[float, float]:
        """Mean and standard deviation of the training targets."""
        return self.moments or (self.mean, self.std)

    def __call__(self, target: Floats) -> Floats:
        """Scaled targets."""
        mapped = target if self.target_map is None else self.target_map.to_model(target)
        return (mapped - self.mean) / self.std

    def to_target(self, scaled: Floats) -> Floats:
        """Values in units of the target, within its bounds, from scaled ones."""
        values = self.mean + self.std * scaled
        return values if self.target_map is None else self.target_map.to_target(values)

    def in_units(self, dist: Distribution) -> Distribution:
        """Distributions of the target from those of the scaled target."""
        dist = dist.scaled(self.mean, self.std)
        return dist if self.target_map is None else TransformedDistribution(dist, self.target_map)


def scale_target(target: Floats, weight: Floats, target_map: TargetMap | None = None) -> tuple[TargetScale, Floats]:
    """The scale of training targets, and the scaled targets.

    Parameters
    ----------
    target, weight : ndarray of shape (n,)
    target_map : TargetMap, optional
    """
    moments = None
    size = float(np.abs(target).max())
    if size > LARGEST:
        raise ValueError(f"y must be at most {LARGEST:g} in size, got {size:.2g}; divide it by a constant")
    if target_map is not None:
        mean = float(np.average(target, weights=weight))
        moments = mean, float(np.sqrt(np.average((target - mean) ** 2, weights=weight)))
        target = target_map.to_model(target)
    mean = float(np.average(target, weights=weight))
    deviation = target - mean
    largest = float(np.abs(deviation).max())
    # The standard deviation of a constant target is tiny but positive, so that densities are finite.
    if largest <= 1e-12 * abs(mean):
        # That of zeros is far from the smallest number: other targets, in a calibration, are multiples of it.
        std = max(1e-12 * abs(mean), 1e-100) if mean else 1e-50
        return TargetScale(mean, std, target_map, moments), np.zeros_like(target)
    if largest < SMALLEST:
        raise ValueError(f"y must differ by at least {SMALLEST:g}, got {largest:.2g}; multiply it by a constant")
    # divided before squaring, so that squares of huge numbers do not overflow
    std = largest * float(np.sqrt(np.average((deviation / largest) ** 2, weights=weight)))
    return TargetScale(mean, std, target_map, moments), deviation / std


def candidate_maps(y: Floats, target_bounds: Any, target_transform: str | None) -> list[TargetMap | None]:
    """The maps that a fit may use: one, or for ``"auto"`` those to choose from, without a logarithm first.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Targets of the rows to fit.
    target_bounds : pair or None
    target_transform : {"log", "auto", None}

    Returns
    -------
    list of TargetMap or None
        None for the identity without bounds.
    """
    low, high = bounds_of(target_bounds)
    plain = None if target_bounds is None else TargetMap(low, high).separated(y)
    from_low = 0.0 if low == -np.inf else low
    if target_transform is None or (target_transform == "auto" and (y.min() < from_low or y.min() == y.max())):
        return [plain]
    logarithm = TargetMap.logarithm(y, from_low, high).separated(y)
    return [logarithm] if target_transform == "log" else [plain, logarithm]


def with_point_masses(target_map: TargetMap, y: Floats, weight: Floats, cdf: Callable[[float], Floats]) -> TargetMap:
    """Choose the intervals that are mapped to the bounds, so that predicted and observed shares of the bounds agree.

    Networks predict values near a bound where many targets are at it. No target is between the bound and the nearest
    other one, so that what is predicted there is a matter of rounding: the part that belongs to the bound is chosen
    such that the mean predicted probability of the bound is the share of the targets at it, as far as the gap allows.

    Parameters
    ----------
    target_map : TargetMap
    y, weight : ndarray of shape (n,)
        Targets of rows that were not trained on.
    cdf : callable
        Predicted probability per row of a value up to a given one, on the target's scale but without bounds.

    Returns
    -------
    TargetMap
    """

    def end(bound: float, inward: float) -> float:
        at = y == bound
        share, others = float(np.average(at, weights=weight)), np.abs(y[~at] - bound)
        if not np.isfinite(bound) or share < MIN_SHARE or len(others) == 0:
            return bound

        def is_enough(distance: float) -> bool:
            below = float(np.average(cdf(bound + inward * distance), weights=weight))
            return (below if inward > 0 else 1.0 - below) >= share

        if is_enough(0.0):
            return bound
        nearest, farthest = 0.0, MAX_GAP * float(others.min())
        for _ in range(BISECTIONS):
            middle = (nearest + farthest) / 2.0
            nearest, farthest = (nearest, middle) if is_enough(middle) else (middle, farthest)
        return bound + inward * farthest

    low_end, high_end = end(target_map.low, 1.0), end(target_map.high, -1.0)
    if low_end >= high_end:  # all targets are at the bounds, and both ends are one quantile, up to rounding
        high_end = float(np.nextafter(low_end, np.inf))
    return replace(target_map, low_end=low_end, high_end=high_end)
