"""Student's t distribution with location and scale per row."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, stdtr, stdtrit

from usnrt.distributions.base import broadcast_rows, standardise
from usnrt.distributions.parametric import ParametricDistribution
from usnrt.utils.types import Floats

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
        """Mean of each row, shape ``(n,)``."""
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
        """Quantiles."""
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
