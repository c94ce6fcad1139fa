"""Parametric distributions, as formulas shared by single distributions and mixtures."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from usnrt.distributions.base import Distribution
from usnrt.utils.types import Floats


class ParametricDistribution(Distribution):
    """A distribution with a tuple of parameters of shape ``(n,)`` and formulas that broadcast over arrays.

    The formulas (``formula_*``) are static, so that a `Mixture` can call them with parameters of shape ``(n, m)``.
    The last parameter is the scale, which may be 0 (a point mass at the location, the parameter before it).
    """

    parameters: tuple[Floats, ...]

    @abstractmethod
    def __init__(self, *parameters: ArrayLike) -> None: ...

    @staticmethod
    @abstractmethod
    def formula_logpdf(y: Floats, *parameters: Floats) -> Floats:
        """Log density."""

    @staticmethod
    @abstractmethod
    def formula_cdf(y: Floats, *parameters: Floats) -> Floats:
        """P(Y <= y)."""

    @staticmethod
    @abstractmethod
    def formula_ppf(q: Floats, *parameters: Floats) -> Floats:
        """Quantiles."""

    @staticmethod
    @abstractmethod
    def formula_distance(y: Floats, *parameters: Floats) -> Floats:
        """E|Y - y|, the first term of the CRPS."""

    @staticmethod
    @abstractmethod
    def formula_spread(*parameters: Floats) -> Floats:
        """E|Y - Y'| / 2 of two independent draws, the second term of the CRPS."""

    @classmethod
    def formula_sf(cls, y: Floats, *parameters: Floats) -> Floats:
        """P(Y > y), by the symmetry of the distribution: the probability below the mirror image of y."""
        *others, loc, scale = parameters
        zero = np.zeros(())
        with np.errstate(over="ignore", invalid="ignore"):
            mirrored = cls.formula_cdf(loc - y, *others, zero, scale)
        return np.where((scale == 0) & (y == loc), 0.0, mirrored)

    @classmethod
    def formula_cdf_left(cls, y: Floats, *parameters: Floats) -> Floats:
        """P(Y < y)."""
        loc, scale = parameters[-2], parameters[-1]
        return np.where((scale == 0) & (y == loc), 0.0, cls.formula_cdf(y, *parameters))

    def __len__(self) -> int:
        return self.parameters[0].size

    @property
    def aleatoric(self) -> Floats | None:
        """Aleatoric variance: all of the variance unless set by `with_parts`."""
        return self.var() if self._aleatoric is None else self._aleatoric

    def _columns(self) -> tuple[Floats, ...]:
        return tuple(values[:, None] for values in self.parameters)

    def _logpdf(self, y: Floats) -> Floats:
        return self.formula_logpdf(y, *self._columns())

    def _cdf(self, y: Floats) -> Floats:
        return self.formula_cdf(y, *self._columns())

    def _sf(self, y: Floats) -> Floats:
        return self.formula_sf(y, *self._columns())

    def _cdf_left(self, y: Floats) -> Floats:
        return self.formula_cdf_left(y, *self._columns())

    def _ppf(self, q: Floats) -> Floats:
        return self.formula_ppf(q, *self._columns())

    def _crps(self, y: Floats) -> Floats:
        return self.formula_distance(y, *self.parameters) - self.formula_spread(*self.parameters)

    def _take(self, index: Any) -> Self:
        return type(self)(*(values[index] for values in self.parameters))

    def _scaled(self, shift: Floats, factor: Floats) -> Self:
        *others, loc, scale = self.parameters
        return type(self)(*others, factor * loc + shift, factor * scale)
