"""The normal distribution, one mean and one standard deviation a row."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from usnrt.distributions.base import Distribution, Floats, broadcast_rows, standardise

HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
INV_SQRT_PI = 1.0 / np.sqrt(np.pi)


class Normal(Distribution):
    """Normal distributions.

    Parameters
    ----------
    mean : float or array-like of shape (n,)
    std : float or array-like of shape (n,)
        Standard deviations, 0 or more. With 0 all probability sits on the mean: the cdf is a step, and the
        logarithm of the density is infinite on the mean and minus infinite elsewhere.

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
            raise ValueError(f"std must be 0 or more, however: its smallest value is {self._std.min()}")

    def __len__(self) -> int:
        return self._mean.size

    def mean(self) -> Floats:
        """Mean of each row, shape ``(n,)``."""
        return self._mean.copy()

    def std(self) -> Floats:
        """Standard deviation of each row, shape ``(n,)``."""
        return self._std.copy()

    @property
    def aleatoric(self) -> Floats | None:
        """Variance of the noise: all of the variance, unless the maker said otherwise."""
        return self.var() if self._aleatoric is None else self._aleatoric

    def _logpdf(self, y: Floats) -> Floats:
        return normal_logpdf(y, self._mean[:, None], self._std[:, None])

    def _cdf(self, y: Floats) -> Floats:
        return normal_cdf(y, self._mean[:, None], self._std[:, None])

    def _cdf_left(self, y: Floats) -> Floats:
        mean, std = self._mean[:, None], self._std[:, None]
        return np.where((std == 0) & (y == mean), 0.0, normal_cdf(y, mean, std))

    def _ppf(self, q: Floats) -> Floats:
        return self._mean[:, None] + self._std[:, None] * ndtri(q)

    def _crps(self, y: Floats) -> Floats:
        return expected_distance(y - self._mean, self._std) - self._std * INV_SQRT_PI

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        return self._mean[:, None] + self._std[:, None] * rng.standard_normal((len(self), size))

    def _take(self, index: Any) -> "Normal":
        return Normal(self._mean[index], self._std[index])

    def _scaled(self, shift: Floats, factor: Floats) -> "Normal":
        return Normal(factor * self._mean + shift, factor * self._std)


def normal_logpdf(y: Floats, mean: Floats, std: Floats) -> Floats:
    """Log density in log space: finite wherever its value fits a float, also for tiny and huge ``std``."""
    z = standardise(y, mean, std)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
        values = -0.5 * z * z - np.log(std) - HALF_LOG_2PI
    # std == 0 off the mean: -inf + inf above
    return np.where(np.isnan(values), -np.inf, values)


def normal_cdf(y: Floats, mean: Floats, std: Floats) -> Floats:
    """P(Y <= y); with ``std`` 0 a step that is 1 from the mean on."""
    with np.errstate(under="ignore"):
        return np.where((std == 0) & (y == mean), 1.0, ndtr(standardise(y, mean, std)))


def expected_distance(difference: Floats, std: Floats) -> Floats:
    r""":math:`E|X|` of a normal with mean ``difference``: :math:`d(2\Phi(d/s) - 1) + 2 s \phi(d/s)`."""
    z = standardise(difference, np.zeros(()), std)
    with np.errstate(over="ignore", under="ignore"):
        density = np.exp(-0.5 * z * z - HALF_LOG_2PI)
    return difference * (2.0 * ndtr(z) - 1.0) + 2.0 * std * density
