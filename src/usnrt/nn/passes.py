"""Stochastic forward passes of a network with dropout: their mean and variance, in a compiled loop.

The masks of a pass are the same for all rows: a pass is one sample of the networks that dropout represents, and the
prediction of a row does not depend on the other rows. Dropped units can then be left out of the matrix products, which
at a rate of one half saves three quarters of the work.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.dropout import LOG_VARIANCE_BOUNDS
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.mlp import check_layers
from usnrt.utils.jit import kernel
from usnrt.utils.threads import ONE_BLAS_THREAD

# Rows per chunk; the last chunk is padded, so that the bits of a prediction never change.
CHUNK = 256


def predict_passes(
    layers: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]],
    masks: Sequence[NDArray[np.float32]],
    x: NDArray[np.float32],
    n_threads: int = 1,
    encoding: PiecewiseLinear | None = None,
    activation: str = "relu",
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variance over all passes, and the mean of the predicted noise variance.

    Parameters
    ----------
    layers : sequence of (weights, bias)
        A network with one output, the mean, or two, the mean and the log variance of the noise.
    masks : sequence of ndarray of shape (n_passes, n_units)
        For each layer the factors of its inputs; 0 drops a unit. Those of the last layer may have shape
        (n_passes, n_outputs, n_units), different ones for each output.
    x : ndarray of shape (n, n_inputs), float32
    encoding : PiecewiseLinear, default=None
        Applied to ``x``.
    activation : {"relu", "elu"}, default="relu"
        Of the hidden layers.

    Returns
    -------
    mean, variance, noise : ndarray of shape (n,)
        ``noise`` is 0 for networks with one output.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.passes import predict_passes
    >>> layers = [(np.ones((1, 1), np.float32), np.zeros(1, np.float32))]
    >>> mask = np.array([[1.0], [0.0]], dtype=np.float32)  # of two passes one drops the input
    >>> mean, variance, noise = predict_passes(layers, [mask], np.array([[4.0]], dtype=np.float32))
    >>> mean, variance, noise
    (array([2.]), array([4.]), array([0.]))
    """
    _check_shapes(layers, masks, x.shape[1] if encoding is None else encoding.n_outputs)
    # In double precision: in float32 some BLAS kernels round a row differently depending on its position in a matrix.
    # Copies, because numba distinguishes writable from read-only arrays. Weights have shape (outputs, inputs).
    weights = tuple(np.array(w.T, dtype=np.float64, order="C") for w, _ in layers)
    biases = tuple(np.array(bias, dtype=np.float64) for _, bias in layers)
    last = masks[-1] if masks[-1].ndim == 3 else np.repeat(masks[-1][:, None], len(biases[-1]), axis=1)
    factors = tuple(np.array(mask, dtype=np.float64, order="C") for mask in (*masks[:-1], last.max(axis=1)))
    output_factors = np.array(last, dtype=np.float64, order="C")
    moments = np.empty((3, len(x)))
    settings = (*LOG_VARIANCE_BOUNDS, activation == "elu")

    def predict_chunk(start: int) -> None:
        stop = min(start + CHUNK, len(x))
        encoded = x[start:stop] if encoding is None else encoding(x[start:stop])
        chunk = np.zeros((encoded.shape[1], CHUNK), dtype=np.float64)
        chunk[:, : stop - start] = encoded.T
        moments[:, start:stop] = _moments(weights, biases, factors, output_factors, chunk, *settings)[:, : stop - start]

    with ONE_BLAS_THREAD, ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(predict_chunk, range(0, len(x), CHUNK)))
    return moments[0], moments[1], moments[2]


def _check_shapes(
    layers: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]],
    masks: Sequence[NDArray[np.float32]],
    n_inputs: int,
) -> None:
    """Raise a ValueError if layers, masks and inputs do not fit together: the kernel checks no bounds."""
    check_layers(layers)
    n_passes, n_outputs = len(masks[0]) if masks else 0, len(layers[-1][1])
    shapes = [(n_passes, len(weights)) for weights, _ in layers]
    per_output = (n_passes, n_outputs, shapes[-1][1])
    found = [shapes[-1] if mask.shape == per_output and mask is masks[-1] else mask.shape for mask in masks]
    if len(layers[0][0]) != n_inputs or n_outputs not in (1, 2) or found != shapes:
        raise ValueError(
            f"inputs and dropout masks must fit the network, got {n_inputs} inputs and masks of shapes "
            f"{', '.join(str(mask.shape) for mask in masks)} for layers of {', '.join(str(w.shape) for w, _ in layers)}"
        )


@kernel()
def _moments(weights, biases, masks, output_masks, x, low, high, is_elu):  # type: ignore[no-untyped-def]
    """Mean, variance and mean noise over the passes for a chunk of rows x (n_inputs, n_rows), shape (3, n_rows).

    The mask of the last layer only tells which units any output needs; `output_masks` has the factors of each.
    """
    n_passes, n_rows = masks[0].shape[0], x.shape[1]
    n_layers = len(weights)
    mean, squares, noise = np.zeros(n_rows), np.zeros(n_rows), np.zeros(n_rows)
    for t in range(n_passes):
        here = np.flatnonzero(masks[0][t])
        state = np.empty((len(here), n_rows), dtype=np.float64)
        for j in range(len(here)):
            state[j] = x[here[j]]
        for layer in range(n_layers):
            last = layer == n_layers - 1
            ahead = np.arange(weights[layer].shape[0]) if last else np.flatnonzero(masks[layer + 1][t])
            small = np.empty((len(ahead), len(here)), dtype=np.float64)
            for i in range(len(ahead)):
                for j in range(len(here)):
                    factor = output_masks[t, i, here[j]] if last else masks[layer][t, here[j]]
                    small[i, j] = weights[layer][ahead[i], here[j]] * factor
            if len(here) == 0 or len(ahead) == 0:
                state = np.zeros((len(ahead), n_rows), dtype=np.float64)
            else:
                state = np.dot(small, state)
            for i in range(len(ahead)):
                bias = biases[layer][ahead[i]]
                for k in range(n_rows):
                    value = state[i, k] + bias
                    if not (last or value > 0):
                        value = np.exp(value) - 1.0 if is_elu else 0.0
                    state[i, k] = value
            here = ahead
        for k in range(n_rows):  # Welford's update: no difference of large sums
            distance = state[0, k] - mean[k]
            mean[k] += distance / (t + 1)
            squares[k] += distance * (state[0, k] - mean[k])
        if state.shape[0] > 1:
            for k in range(n_rows):
                noise[k] += np.exp(min(max(state[1, k], low), high))
    moments = np.empty((3, n_rows))
    moments[0], moments[1], moments[2] = mean, squares / n_passes, noise / n_passes
    return moments
