"""Increasing maps from the scale on which models learn to the target: logarithm, bounds and point masses at bounds."""

from dataclasses import dataclass, replace

import numpy as np

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
    >>> from usnrt.distributions.target_map import TargetMap
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
