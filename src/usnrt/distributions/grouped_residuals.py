"""Location and scale a row, shape of the residuals a group: what calibration by leaf answers with."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.distributions.base import Distribution, broadcast_rows, standardise
from usnrt.distributions.residual_distribution import ResidualDistribution
from usnrt.utils.types import Floats


class GroupedResiduals(Distribution):
    """``Y = loc + scale * E``, where ``E`` has the shape of the row's group.

    Parameters
    ----------
    loc : float or array-like of shape (n,)
    scale : float or array-like of shape (n,)
        0 or more; 0 is a point mass on ``loc``.
    group : array-like of int of shape (n,)
        Which of the shapes each row has.
    shapes : sequence of ResidualDistribution
    mean : array-like of shape (n,), default=None
        The means, where they are known better than from the shapes: the mean of a shape hangs on its tails, and those
        on few residuals. By default ``loc + scale * E[shape]``.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.distributions import GroupedResiduals, ResidualDistribution
    >>> rng = np.random.default_rng(0)
    >>> calm = ResidualDistribution.from_residuals(rng.normal(size=300))
    >>> wild = ResidualDistribution.from_residuals(rng.standard_t(3, size=300))
    >>> dist = GroupedResiduals(loc=[1.0, 1.0], scale=2.0, group=[0, 1], shapes=[calm, wild])
    >>> dist.interval(0.99).round(0)
    array([[ -4.,   6.],
           [-11.,  13.]])
    """

    def __init__(
        self,
        loc: ArrayLike,
        scale: ArrayLike,
        group: ArrayLike,
        shapes: Sequence[ResidualDistribution],
        mean: ArrayLike | None = None,
    ) -> None:
        self.group = np.asarray(group)
        if self.group.ndim != 1 or self.group.dtype.kind not in "iu":
            raise ValueError(
                f"group must be integers of shape (n,), got {self.group.dtype} of shape {self.group.shape}"
            )
        rows = np.zeros(self.group.shape)
        self.loc, self.scale, _ = broadcast_rows({"loc": loc, "scale": scale, "group": rows})
        self.shapes = list(shapes)
        self.known_mean = None if mean is None else broadcast_rows({"mean": mean, "group": rows})[0]
        if (self.scale < 0).any():
            raise ValueError(f"scale must be 0 or more, but its smallest value is {self.scale.min()}")
        if self.group.size and not (self.group.min() >= 0 and self.group.max() < len(self.shapes)):
            raise ValueError(
                f"group must be in [0, {len(self.shapes)}), the number of shapes, but "
                f"it goes from {self.group.min()} to {self.group.max()}"
            )

    def __len__(self) -> int:
        return self.group.size

    def mean(self) -> Floats:
        """Mean of each row, shape ``(n,)``."""
        if self.known_mean is not None:
            return self.known_mean
        return self.loc + self.scale * np.array([shape.mean for shape in self.shapes])[self.group]

    def std(self) -> Floats:
        """Standard deviation of each row, shape ``(n,)``."""
        return self.scale * np.array([shape.std for shape in self.shapes])[self.group]

    @property
    def aleatoric(self) -> Floats | None:
        """Variance of the noise: all of the variance, unless the maker said otherwise."""
        return self.var() if self._aleatoric is None else self._aleatoric

    def _groups(self) -> Iterator[tuple[ResidualDistribution, NDArray[np.intp]]]:
        """Each shape in use with the rows that have it."""
        order = np.argsort(self.group, kind="stable")
        used, start = np.unique(self.group[order], return_index=True)
        for group, rows in zip(used, np.split(order, start[1:])):
            yield self.shapes[group], rows

    def _by_group(self, method: str, values: Floats) -> Floats:
        answer = np.empty(values.shape)
        for shape, rows in self._groups():
            answer[rows] = getattr(shape, method)(values[rows])
        return answer

    def _logpdf(self, y: Floats) -> Floats:
        scale = self.scale[:, None]
        values = self._by_group("logpdf", standardise(y, self.loc[:, None], scale))
        with np.errstate(divide="ignore", invalid="ignore"):
            values = values - np.log(scale)
        return np.where(scale == 0, np.where(y == self.loc[:, None], np.inf, -np.inf), values)

    def _cdf(self, y: Floats) -> Floats:
        loc, scale = self.loc[:, None], self.scale[:, None]
        return np.where(scale == 0, y >= loc, self._by_group("cdf", standardise(y, loc, scale)))

    def _cdf_left(self, y: Floats) -> Floats:
        return np.where((self.scale[:, None] == 0) & (y == self.loc[:, None]), 0.0, self._cdf(y))

    def _ppf(self, q: Floats) -> Floats:
        table = np.array([shape.ppf(q) for shape in self.shapes]).reshape(len(self.shapes), q.size)
        return self.loc[:, None] + self.scale[:, None] * table[self.group]

    def _crps(self, y: Floats) -> Floats:
        # The score is linear in the scale; the distance itself stays exact where z overflows.
        z = standardise(y, self.loc, self.scale)
        fits = np.abs(z) < 1e150
        score = self.scale * self._by_group("crps", np.where(fits, z, 0.0))
        return np.where(fits & (self.scale > 0), score, np.abs(y - self.loc))

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        uniform = rng.random((len(self), size)).clip(np.finfo(float).tiny, None)
        return self.loc[:, None] + self.scale[:, None] * self._by_group("ppf", uniform)

    def _take(self, index: Any) -> "GroupedResiduals":
        mean = None if self.known_mean is None else self.known_mean[index]
        return GroupedResiduals(self.loc[index], self.scale[index], self.group[index], self.shapes, mean)

    def _scaled(self, shift: Floats, factor: Floats) -> "GroupedResiduals":
        mean = None if self.known_mean is None else factor * self.known_mean + shift
        return GroupedResiduals(factor * self.loc + shift, factor * self.scale, self.group, self.shapes, mean)
