"""Calibration by one factor: all distributions of a model are scaled about their means."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from usnrt.distributions import Distribution

# Fewer validation rows than this estimate the factor too poorly to use it.
MIN_ROWS_TO_CALIBRATE = 30


def max_likelihood_spread(dist: Distribution, y: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """The maximum-likelihood factor to scale all distributions about their means by.

    Parameters
    ----------
    dist : Distribution
        Of n rows.
    y, weight : ndarray of shape (n,)

    Returns
    -------
    float
        In [1/20, 20]; 1 if the likelihood is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.paper.baselines._spread import max_likelihood_spread
    >>> from usnrt.distributions import Normal
    >>> y = np.array([-2.0, 2.0])
    >>> round(max_likelihood_spread(Normal(np.zeros(2), 1.0), y, np.ones(2)), 3)
    2.0
    """
    # Scaled by c about the mean m, the density at y is the original one at m + (y - m) / c, divided by c.
    mean = dist.mean()
    residual = y - mean

    def nll(log_factor: float) -> float:
        values = dist.logpdf(mean + residual / np.exp(log_factor)) - log_factor
        return -float(np.average(values, weights=weight))

    best = minimize_scalar(nll, bounds=(-np.log(20.0), np.log(20.0)), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(best.x)) if np.isfinite(best.fun) else 1.0


def stretched(dist: Distribution, factor: float) -> Distribution:
    """Distributions scaled by a factor about their means."""
    return dist if factor == 1.0 else dist.scaled(dist.mean() * (1.0 - factor), factor)
