"""Residual distributions by group of rows, evaluated for many rows at once."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.distributions.residual_distribution import ResidualDistribution
from usnrt.utils.types import Floats


class GroupedResiduals:
    """One residual distribution per row, that of the row's group.

    Parameters
    ----------
    group : array-like of int of shape (n,)
        Index of the residual distribution of each row.
    residuals : sequence of ResidualDistribution
    """

    def __init__(self, group: ArrayLike, residuals: Sequence[ResidualDistribution]) -> None:
        self.group = np.asarray(group)
        self.residuals = list(residuals)
        if self.group.ndim != 1 or self.group.dtype.kind not in "iu":
            raise ValueError(
                f"group must be integers of shape (n,), got {self.group.dtype} of shape {self.group.shape}"
            )
        if self.group.size and not (self.group.min() >= 0 and self.group.max() < len(self.residuals)):
            raise ValueError(
                f"group must be in [0, {len(self.residuals)}), the number of residual distributions, "
                f"got values from {self.group.min()} to {self.group.max()}"
            )

    def groups(self) -> Iterator[tuple[ResidualDistribution, NDArray[np.intp]]]:
        """Each residual distribution in use with its rows."""
        order = np.argsort(self.group, kind="stable")
        used, start = np.unique(self.group[order], return_index=True)
        for group, rows in zip(used, np.split(order, start[1:])):
            yield self.residuals[group], rows

    def logpdf(self, z: Floats) -> Floats:
        """Log density at ``z``, shape (n, k)."""
        return self._by_group("logpdf", z)

    def cdf(self, z: Floats) -> Floats:
        """P(E <= z) for ``z`` of shape (n, k)."""
        return self._by_group("cdf", z)

    def sf(self, z: Floats) -> Floats:
        """P(E > z) for ``z`` of shape (n, k)."""
        return self._by_group("sf", z)

    def ppf(self, q: Floats) -> Floats:
        """Quantiles at levels of each row, shape (n, k)."""
        return self._by_group("ppf", q)

    def group_ppf(self, q: Floats) -> Floats:
        """Quantiles of each residual distribution at levels of shape (k,), shape (n_groups, k)."""
        return np.array([residual.ppf(q) for residual in self.residuals]).reshape(len(self.residuals), q.size)

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Random values, shape (n, size)."""
        uniform = rng.random((self.group.size, size)).clip(np.finfo(float).tiny, None)
        return self._by_group("ppf", uniform)

    def crps_parts(self, z: Floats) -> tuple[Floats, Floats]:
        """`ResidualDistribution.crps_parts` of each row, for ``z`` of shape (n,)."""
        below, above = np.empty(z.shape), np.empty(z.shape)
        for residual, rows in self.groups():
            below[rows], above[rows] = residual.crps_parts(z[rows])
        return below, above

    def _by_group(self, method: str, values: Floats) -> Floats:
        result = np.empty(values.shape)
        for residual, rows in self.groups():
            result[rows] = getattr(residual, method)(values[rows])
        return result
