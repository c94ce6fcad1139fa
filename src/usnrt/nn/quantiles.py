"""Quantile networks: quantiles of the target at fixed positions of the normal scale.

The first output shifts the median, the second is the logarithm of a scale, and the others are the log factors of the
steps between adjacent quantiles, so that quantiles never cross.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from usnrt.nn.mlp import MLP, Params
from usnrt.utils.threads import run_in_blocks
from usnrt.utils.types import Floats

# Positions of the predicted quantiles on the scale of a standard normal; the middle one is the median.
POSITIONS: NDArray[np.float64] = np.array([-2.5, -1.5, -1.0, -0.6, -0.3, 0.0, 0.3, 0.6, 1.0, 1.5, 2.5])
LEVELS: NDArray[np.float64] = ndtr(POSITIONS)
# Weight of each quantile in the loss: the spacing of the levels around it.
SHARES: NDArray[np.float64] = np.gradient(LEVELS)
MEDIAN = len(POSITIONS) // 2
N_OUTPUTS = len(POSITIONS) + 1
# Bounds of the log scale and of the log factors: quantiles stay distinct, and float32 finite.
SCALE_LIMIT, STRETCH_LIMIT = 12.0, 5.0


def to_quantiles(outputs: NDArray[np.floating]) -> NDArray[np.floating]:
    """Quantiles at the levels of ``POSITIONS``, increasing along each row.

    Parameters
    ----------
    outputs : ndarray of shape (n, N_OUTPUTS)
        Outputs of the network.

    Returns
    -------
    ndarray of shape (n, n_positions)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.quantiles import N_OUTPUTS, to_quantiles
    >>> to_quantiles(np.zeros((1, N_OUTPUTS)))  # a standard normal
    array([[-2.5, -1.5, -1. , -0.6, -0.3,  0. ,  0.3,  0.6,  1. ,  1.5,  2.5]])
    """
    gaps = np.diff(POSITIONS).astype(outputs.dtype)
    scale = np.exp(np.clip(outputs[:, 1:2], -SCALE_LIMIT, SCALE_LIMIT))
    median = scale * outputs[:, :1]
    steps = scale * gaps * np.exp(np.clip(outputs[:, 2:], -STRETCH_LIMIT, STRETCH_LIMIT))
    above = median + np.cumsum(steps[:, MEDIAN:], axis=1)
    below = median - np.cumsum(steps[:, :MEDIAN][:, ::-1], axis=1)[:, ::-1]
    return np.concatenate([below, median, above], axis=1)


def predicted_quantiles(outputs: NDArray[np.float64], first: int = 0, n_threads: int = 1) -> NDArray[np.float64]:
    """`to_quantiles` of predicted outputs, compiled and multi-threaded.

    Parameters
    ----------
    outputs : ndarray of shape (n, n_outputs)
    first : int, default=0
        The first of the ``N_OUTPUTS`` columns to use.

    Returns
    -------
    ndarray of shape (n, n_positions)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.quantiles import N_OUTPUTS, predicted_quantiles
    >>> predicted_quantiles(np.zeros((1, 1 + N_OUTPUTS)), first=1)
    array([[-2.5, -1.5, -1. , -0.6, -0.3,  0. ,  0.3,  0.6,  1. ,  1.5,  2.5]])
    """
    from usnrt.nn._quantile_kernels import write_quantiles

    outputs = np.ascontiguousarray(outputs, dtype=np.float64)
    quantiles, gaps = np.empty((len(outputs), len(POSITIONS))), np.diff(POSITIONS)

    def write(start: int, stop: int) -> None:
        write_quantiles(outputs[start:stop], first, gaps, SCALE_LIMIT, STRETCH_LIMIT, MEDIAN, quantiles[start:stop])

    run_in_blocks(write, len(outputs), n_threads)
    return quantiles


def quantile_function_mean(quantiles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of the distributions given by piecewise linear quantile functions.

    Parameters
    ----------
    quantiles : ndarray of shape (n, n_positions)
        At ``POSITIONS``; the outer segments extend to infinity.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> from usnrt.nn.quantiles import POSITIONS, quantile_function_mean
    >>> quantile_function_mean(3.0 + 2.0 * POSITIONS[None, :]).round(12)
    array([3.])
    """
    # Not a matrix product: BLAS rounds a row differently depending on the other rows and the number of threads.
    mean: NDArray[np.float64] = (quantiles * MEAN_WEIGHTS).sum(axis=1)
    return mean


def _mean_weights() -> NDArray[np.float64]:
    """Weight of each quantile in the mean."""
    ends = np.concatenate([[-np.inf], POSITIONS[1:-1], [np.inf]])
    mass = np.diff(ndtr(ends))
    first_moment = -np.diff(np.exp(-(ends**2) / 2.0) / np.sqrt(2.0 * np.pi))
    low, high = POSITIONS[:-1], POSITIONS[1:]
    weights = np.zeros(len(POSITIONS))
    weights[:-1] += (high * mass - first_moment) / (high - low)
    weights[1:] += (first_moment - low * mass) / (high - low)
    return weights


# The mean of a quantile function is the sum of its quantiles with these weights, which sum to 1.
MEAN_WEIGHTS = _mean_weights()


def start_at(network: MLP, rng: np.random.Generator, mean: float, std: float) -> Params:
    """Initial weights that predict approximately the same normal distribution for all rows.

    Parameters
    ----------
    network : MLP
        With ``N_OUTPUTS`` linear outputs.
    mean, std : float
        Of the normal distribution; the standard deviation is at least 1e-4.
    """
    std = max(std, 1e-4)
    *hidden, (weights, bias) = network.init(rng)
    bias[:2] = mean / std, np.log(std)
    return (*hidden, ((0.1 * weights).astype(np.float32), bias))


def constant_network(network: MLP, y: Floats, weight: Floats) -> Params:
    """Weights that predict the same normal distribution for all rows, that of the target: what stands for no network.

    Parameters
    ----------
    network : MLP
        Without hidden layers.
    y, weight : ndarray of shape (n,)
    """
    mean = float(np.average(y, weights=weight))
    std = float(np.sqrt(np.average((y - mean) ** 2, weights=weight)))
    ((weights, bias),) = start_at(network, np.random.default_rng(0), mean, std)
    return ((np.zeros_like(weights), bias),)


def is_constant(params: Params) -> bool:
    """Whether weights are those of `constant_network`: a trained network has none that are all 0."""
    return not any(layer[0].any() for layer in params)
