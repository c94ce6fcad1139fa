"""One factor for all distributions of a model, so that held-out rows are as likely as they can be."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from usnrt.distributions import Distribution

# With fewer held-out rows than this their spread says too little to correct a model by it.
MIN_ROWS_TO_CALIBRATE = 30


def likeliest_spread(dist: Distribution, y: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """The factor that makes ``y`` most likely if every distribution is stretched about its mean by it.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.baselines._spread import likeliest_spread
    >>> from usnrt.distributions import Normal
    >>> y = np.array([-2.0, 2.0])
    >>> round(likeliest_spread(Normal(np.zeros(2), 1.0), y, np.ones(2)), 3)
    2.0
    """
    # Stretching by c about the mean m: density at y is that of the old one at m + (y - m) / c, divided by c.
    middle = dist.mean()
    distance = y - middle

    def nll(log_factor: float) -> float:
        values = dist.logpdf(middle + distance / np.exp(log_factor)) - log_factor
        return -float(np.average(values, weights=weight))

    best = minimize_scalar(nll, bounds=(-np.log(20.0), np.log(20.0)), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(best.x)) if np.isfinite(best.fun) else 1.0


def stretched(dist: Distribution, factor: float) -> Distribution:
    """Distributions stretched about their means."""
    return dist if factor == 1.0 else dist.scaled(dist.mean() * (1.0 - factor), factor)
