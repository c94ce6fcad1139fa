"""Prediction with trained networks in numpy: no compilation, no import of jax, multi-threaded.

Rows are processed in chunks of a fixed size, so that the prediction of a row has the same bits whatever other rows are
predicted with it and whatever the number of threads.
"""

import functools
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.mlp import LOG_LIMIT, MIN_VARIANCE, MLP, Params
from usnrt.utils.blas import ONE_BLAS_THREAD

# The activations of a chunk fit in the second-level cache.
CHUNK = 512


def forward(network: MLP, params: Params, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Outputs of one network.

    Parameters
    ----------
    network : MLP
    params : tuple of (weights, bias)
    x : ndarray of shape (n, n_inputs), float32

    Returns
    -------
    ndarray of shape (n, n_outputs), float32
    """
    for weights, bias in params[:-1]:
        x = _product(x, weights)
        x += bias
        if network.activation == "relu":
            np.maximum(x, 0.0, out=x)
        else:
            np.tanh(x, out=x)
    weights, bias = params[-1]
    x = _product(x, weights)
    x += bias
    if network.output == "softplus":
        # log(1 + e^x) without overflow
        x = np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))) + np.float32(MIN_VARIANCE)
    elif network.output == "exp":
        x = np.exp(np.clip(x, -LOG_LIMIT, LOG_LIMIT)) + np.float32(MIN_VARIANCE)
    return x


def _product(x: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """``x @ weights``, in blocks of rows such that the bits of a row do not depend on its position."""
    n_rows = rows_per_product(*weights.shape) if len(x) == CHUNK else len(x)
    if n_rows == len(x):
        return x @ weights
    return (x.reshape(-1, n_rows, x.shape[1]) @ weights).reshape(len(x), -1)


@functools.cache
def rows_per_product(n_inputs: int, n_outputs: int) -> int:
    """The largest block of rows that BLAS multiplies with bits that do not depend on the position of a row.

    Some BLAS kernels sum the products of a row in an order that depends on its position in the matrix, which changes
    the last bits of a float32. This depends on the processor, so it is measured once per shape.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Shape of the weights.

    Returns
    -------
    int
        A divisor of ``CHUNK``.
    """
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(n_inputs, n_outputs)).astype(np.float32)
    for n_rows in (CHUNK, CHUNK // 8, CHUNK // 16, 8, 4, 2):
        for row in rng.normal(size=(4, n_inputs)).astype(np.float32):
            product = np.tile(row, (CHUNK // n_rows, n_rows, 1)) @ weights
            if (product != product[0, 0]).any():
                break
        else:
            return n_rows
    return 1


def predict(
    network: MLP,
    params: Params,
    x: NDArray[np.float32],
    rows: NDArray[np.intp] | None = None,
    n_threads: int = 1,
    encoding: PiecewiseLinear | None = None,
) -> NDArray[np.float64]:
    """Outputs of one network for some rows of a table.

    Parameters
    ----------
    network : MLP
    params : tuple of (weights, bias)
    x : ndarray of shape (n_table, n_inputs), float32
    rows : ndarray of shape (n,), default=None
        Rows of the table to predict; all by default.
    n_threads : int
    encoding : PiecewiseLinear, default=None
        Applied to the inputs.

    Returns
    -------
    ndarray of shape (n,) for one output, else (n, n_outputs), float64
    """
    rows = np.arange(len(x)) if rows is None else rows
    return predict_grouped(network, [params], x, np.zeros(len(x), dtype=np.intp), rows, n_threads, encoding)


def predict_grouped(
    network: MLP,
    params_of_group: Sequence[Params],
    x: NDArray[np.float32],
    group: NDArray[np.intp],
    rows: NDArray[np.intp] | None = None,
    n_threads: int = 1,
    encoding: PiecewiseLinear | None = None,
) -> NDArray[np.float64]:
    """Outputs of one network per group of rows, such as the leaves of a tree.

    Parameters
    ----------
    network : MLP
        Architecture of the networks.
    params_of_group : sequence of Params
    x : ndarray of shape (n_table, n_inputs), float32
    group : ndarray of shape (n_table,)
        Group of each row.
    rows : ndarray of shape (n,), default=None
        Rows of the table to predict; all by default.
    n_threads : int
    encoding : PiecewiseLinear, default=None
        Applied to the inputs.

    Returns
    -------
    ndarray of shape (n,) for one output, else (n, n_outputs), float64
    """
    group = group if rows is None else group[rows]
    # Few groups fit in 16 bits, for which numpy uses a linear-time radix sort.
    group_key = group.astype(np.int16) if len(params_of_group) < 2**15 else group
    order = np.argsort(group_key, kind="stable")
    bounds = np.searchsorted(group_key[order], np.arange(len(params_of_group) + 1))
    chunks = [
        (g, order[start : min(start + CHUNK, bounds[g + 1])])
        for g in range(len(params_of_group))
        for start in range(bounds[g], bounds[g + 1], CHUNK)
    ]
    outputs = np.empty((len(group), network.sizes[-1]))

    def predict_chunks(some: Sequence[tuple[int, NDArray[np.intp]]]) -> None:
        # The buffer always has the same shape, for the same bits; its surplus rows are ignored.
        buffer = np.zeros((CHUNK, x.shape[1]), dtype=np.float32)
        for g, positions in some:
            table_rows = positions if rows is None else rows[positions]
            np.take(x, table_rows, axis=0, out=buffer[: len(positions)], mode="clip")  # "raise" would copy once more
            encoded = buffer if encoding is None else encoding(buffer)
            outputs[positions] = forward(network, params_of_group[g], encoded)[: len(positions)]

    with ONE_BLAS_THREAD:
        if n_threads == 1 or len(chunks) < 4:
            predict_chunks(chunks)
        else:
            # A few long tasks per thread: a compromise between the cost of dispatch and uneven load.
            n_tasks = min(4 * n_threads, len(chunks))
            cuts = np.linspace(0, len(chunks), n_tasks + 1).astype(int)
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(predict_chunks, [chunks[start:stop] for start, stop in itertools.pairwise(cuts)]))
    return outputs[:, 0] if network.sizes[-1] == 1 else outputs
