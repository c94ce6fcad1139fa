"""The normal distribution, with a mean and a standard deviation per row."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from usnrt.distributions.base import broadcast_rows, standardise
from usnrt.distributions.parametric import ParametricDistribution
from usnrt.utils.types import Floats

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
        """Mean of each row, shape ``(n,)``."""
        return self._mean.copy()

    def std(self) -> Floats:
        """Standard deviation of each row, shape ``(n,)``."""
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
        """Quantiles."""
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
