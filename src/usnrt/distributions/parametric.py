"""Normal and Student-t distributions, each with its scores in closed form, and what they share."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, ndtr, ndtri, stdtr, stdtrit

from usnrt.distributions.base import Distribution, broadcast_rows, standardise
from usnrt.utils.types import Floats


class ParametricDistribution(Distribution):
    """A distribution with a tuple of parameters of shape ``(n,)`` and formulas that broadcast over arrays.

    The formulas (``formula_*``) are static, so that a `Mixture` can call them with parameters of shape ``(n, m)``.
    The last parameter is the scale, which may be 0 (a point mass at the location, the parameter before it).
    """

    parameters: tuple[Floats, ...]
    formula_logpdf: ClassVar[Callable[..., Floats]]
    formula_cdf: ClassVar[Callable[..., Floats]]
    formula_ppf: ClassVar[Callable[..., Floats]]
    formula_distance: ClassVar[Callable[..., Floats]]  # E|Y - y|, the first term of the CRPS
    formula_spread: ClassVar[Callable[..., Floats]]  # E|Y - Y'| / 2 of two independent draws, the second term

    @abstractmethod
    def __init__(self, *parameters: ArrayLike) -> None: ...

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


HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
SQRT_2PI = np.sqrt(2.0 * np.pi)
INV_SQRT_PI = 1.0 / np.sqrt(np.pi)


class Normal(ParametricDistribution):
    """Normal distributions.

    Parameters
    ----------
    mean : float or array-like of shape (n,)
    std : float or array-like of shape (n,)
        Standard deviations, 0 or more. With 0 the distribution is a point mass: the cdf is a step, and the log density
        is infinite at the mean and minus infinity elsewhere.

    Examples
    --------
    >>> from usnrt.distributions import Normal
    >>> dist = Normal([0.0, 10.0], [1.0, 2.0])
    >>> dist.interval(0.9).round(2)
    array([[-1.64,  1.64],
           [ 6.71, 13.29]])
    >>> dist.crps([0.0, 12.0]).round(4)
    array([0.2337, 1.2049])
    >>> dist[1:].ppf([0.5, 0.975]).round(2)
    array([[10.  , 13.92]])
    """

    def __init__(self, mean: ArrayLike, std: ArrayLike) -> None:
        self._mean, self._std = broadcast_rows({"mean": mean, "std": std})
        if (self._std < 0).any():
            raise ValueError(f"std must be >= 0, but its smallest value is {self._std.min()}")
        self.parameters = (self._mean, self._std)

    def mean(self) -> Floats:
        return self._mean.copy()

    def std(self) -> Floats:
        return self._std.copy()

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        return self._mean[:, None] + self._std[:, None] * rng.standard_normal((len(self), size))

    @staticmethod
    def formula_logpdf(y: Floats, *parameters: Floats) -> Floats:
        """Log density, finite wherever its value is representable, also for tiny and huge ``std``."""
        mean, std = parameters
        z = standardise(y, mean, std)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
            values = -0.5 * z * z - np.log(std) - HALF_LOG_2PI
        # NaN is -inf + inf: std == 0, away from the mean.
        return np.where(np.isnan(values), -np.inf, values)

    @staticmethod
    def formula_cdf(y: Floats, *parameters: Floats) -> Floats:
        """P(Y <= y); with ``std`` 0 a step at the mean."""
        mean, std = parameters
        with np.errstate(under="ignore"):
            return np.where((std == 0) & (y == mean), 1.0, ndtr(standardise(y, mean, std)))

    @classmethod
    def formula_cdf_and_pdf(cls, y: Floats, *parameters: Floats) -> tuple[Floats, Floats]:
        """P(Y <= y) and the density from one division; the bottleneck of quantiles of mixtures."""
        mean, std = parameters
        with np.errstate(over="ignore", under="ignore"):
            if (std == 0).any():
                return cls.formula_cdf(y, mean, std), np.exp(cls.formula_logpdf(y, mean, std))
            z = (y - mean) / std
            return ndtr(z), np.exp(-0.5 * z * z) / (std * SQRT_2PI)

    @staticmethod
    def formula_ppf(q: Floats, *parameters: Floats) -> Floats:
        mean, std = parameters
        quantiles: Floats = mean + std * ndtri(q)
        return quantiles

    @staticmethod
    def formula_distance(y: Floats, *parameters: Floats) -> Floats:
        r""":math:`E|Y - y| = d(2\Phi(d/s) - 1) + 2 s \phi(d/s)` with :math:`d = y - \mu`."""
        mean, std = parameters
        return expected_distance(y - mean, std)

    @staticmethod
    def formula_spread(*parameters: Floats) -> Floats:
        r""":math:`s / \sqrt{\pi}`."""
        spread: Floats = parameters[1] * INV_SQRT_PI
        return spread


def expected_distance(difference: Floats, std: Floats) -> Floats:
    r""":math:`E|X|` of a normal with mean ``difference``: :math:`d(2\Phi(d/s) - 1) + 2 s \phi(d/s)`."""
    z = standardise(difference, np.zeros(()), std)
    with np.errstate(over="ignore", under="ignore"):
        density = np.exp(-0.5 * z * z - HALF_LOG_2PI)
    distance: Floats = difference * (2.0 * ndtr(z) - 1.0) + 2.0 * std * density
    return distance


# Beyond this (in units of sqrt(df)) the tail is a pure power law in float precision, and scipy's functions overflow.
FAR = 1e8


class StudentT(ParametricDistribution):
    """Student-t distributions, ``loc + scale * T`` where ``T`` has ``df`` degrees of freedom.

    Parameters
    ----------
    df : float or array-like of shape (n,)
        Degrees of freedom, more than 1 so that the mean exists. The variance is infinite for ``df <= 2``.
    loc : float or array-like of shape (n,)
    scale : float or array-like of shape (n,)
        0 or more; it is not the standard deviation, which is ``scale * sqrt(df / (df - 2))``.

    Examples
    --------
    >>> from usnrt.distributions import StudentT
    >>> dist = StudentT(df=4.0, loc=[0.0, 1.0], scale=1.0)
    >>> dist.interval(0.9).round(2)
    array([[-2.13,  2.13],
           [-1.13,  3.13]])
    >>> dist.crps([0.0, 3.0]).round(4)
    array([0.2637, 1.385 ])
    """

    def __init__(self, df: ArrayLike, loc: ArrayLike, scale: ArrayLike) -> None:
        self.df, self.loc, self.scale = broadcast_rows({"df": df, "loc": loc, "scale": scale})
        if (self.df <= 1).any():
            raise ValueError(f"df must be > 1, but its smallest value is {self.df.min()}")
        if (self.scale < 0).any():
            raise ValueError(f"scale must be >= 0, but its smallest value is {self.scale.min()}")
        self.parameters = (self.df, self.loc, self.scale)

    def mean(self) -> Floats:
        return self.loc.copy()

    def std(self) -> Floats:
        """Standard deviation of each row, shape ``(n,)``; infinite where ``df`` is 2 or less."""
        df = np.where(self.df > 2, self.df, 3.0)
        finite = self.scale * np.sqrt(df / (df - 2.0))
        return np.where((self.df > 2) | (self.scale == 0), finite, np.inf)

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        draws = rng.standard_t(self.df[:, None], (len(self), size))
        return self.loc[:, None] + self.scale[:, None] * draws

    @staticmethod
    def formula_logpdf(y: Floats, *parameters: Floats) -> Floats:
        r""":math:`-\log(s \sqrt\nu B(\nu/2, 1/2)) - \frac{\nu+1}{2} \log(1 + z^2/\nu)`, in log space."""
        df, loc, scale = parameters
        z = standardise(y, loc, scale)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = _log_norm(df) - 0.5 * (df + 1.0) * _log1p_square(z / np.sqrt(df)) - np.log(scale)
        return np.where(np.isnan(values), -np.inf, values)

    @staticmethod
    def formula_cdf(y: Floats, *parameters: Floats) -> Floats:
        """P(Y <= y); with ``scale`` 0 a step at the location."""
        df, loc, scale = parameters
        z = standardise(y, loc, scale)
        return np.where((scale == 0) & (y == loc), 1.0, _cdf(z, df))

    @staticmethod
    def formula_ppf(q: Floats, *parameters: Floats) -> Floats:
        df, loc, scale = parameters
        return loc + scale * _ppf(q, df)

    @staticmethod
    def formula_distance(y: Floats, *parameters: Floats) -> Floats:
        r""":math:`E|Y - y| = s[z(2F(z) - 1) + 2 f(z)(\nu + z^2)/(\nu - 1)]` (Jordan et al. 2019)."""
        df, loc, scale = parameters
        z = standardise(y, loc, scale)
        log_square = _log1p_square(z / np.sqrt(df))  # log((df + z^2) / df)
        with np.errstate(under="ignore", over="ignore"):
            tails = 2.0 * df / (df - 1.0) * np.exp(_log_norm(df) - 0.5 * (df - 1.0) * log_square)
        return (y - loc) * (2.0 * _cdf(z, df) - 1.0) + scale * tails

    @staticmethod
    def formula_spread(*parameters: Floats) -> Floats:
        r""":math:`s \frac{2\sqrt\nu}{\nu - 1} B(1/2, \nu - 1/2) / B(\nu/2, 1/2)^2` (Jordan et al. 2019)."""
        df, _, scale = parameters
        log_ratio = betaln(0.5, df - 0.5) - 2.0 * betaln(df / 2.0, 0.5)
        spread: Floats = scale * 2.0 / (df - 1.0) * np.exp(0.5 * np.log(df) + log_ratio)
        return spread


def _log_norm(df: Floats) -> Floats:
    log_norm: Floats = -betaln(df / 2.0, 0.5) - 0.5 * np.log(df)
    return log_norm


def _log1p_square(u: Floats) -> Floats:
    """``log(1 + u^2)`` without overflow."""
    size = np.abs(u)
    with np.errstate(over="ignore", divide="ignore", under="ignore"):
        return np.where(size < 1e100, np.log1p(np.minimum(size, 1e100) ** 2), 2.0 * np.log(size))


def _log_far_constant(df: Floats) -> Floats:
    """Logarithm of ``df * B(df/2, 1/2)``: the far tail is ``(|t| / sqrt(df)) ** -df`` divided by this constant."""
    constant: Floats = np.log(df) + betaln(df / 2.0, 0.5)
    return constant


def _cdf(z: Floats, df: Floats) -> Floats:
    z, df = np.broadcast_arrays(z, df)
    far = np.abs(z) > FAR * np.sqrt(df)
    values: Floats = stdtr(df, np.where(far, 0.0, z))
    if far.any():
        with np.errstate(under="ignore"):
            tail = np.exp(-df[far] * np.log(np.abs(z[far]) / np.sqrt(df[far])) - _log_far_constant(df[far]))
        values[far] = np.where(z[far] > 0, 1.0 - tail, tail)
    return values


def _ppf(q: Floats, df: Floats) -> Floats:
    q, df = np.broadcast_arrays(q, df)
    tail = np.minimum(q, 1.0 - q)
    # log(|t| / sqrt(df)) for a pure power law
    log_size = -(np.log(tail) + _log_far_constant(df)) / df
    far = log_size > np.log(FAR)
    values = -np.abs(stdtrit(df, np.where(far, 0.5, tail)))
    values[far] = -np.exp(np.minimum(log_size[far], 700.0)) * np.sqrt(df[far])
    return np.where(q == 0.5, 0.0, np.where(q < 0.5, values, -values))
