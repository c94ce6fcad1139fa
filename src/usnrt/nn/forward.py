"""Prediction with trained networks, in numpy: no compilation, no jax, all cores.

Rows are worked off in chunks of one fixed size, the last one padded, so that a row's answer has the same bits
whatever rows are asked with it and however many threads work.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from usnrt.nn.mlp import MIN_VARIANCE, MLP, Params

# Activations of a chunk stay in the second-level cache.
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
        x = x @ weights
        x += bias
        if network.activation == "relu":
            np.maximum(x, 0.0, out=x)
        else:
            np.tanh(x, out=x)
    weights, bias = params[-1]
    x = x @ weights
    x += bias
    if network.output == "softplus":
        # log(1 + e^x) without overflow
        x = np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))) + np.float32(MIN_VARIANCE)
    return x


def run_in_chunks(
    answer: Callable[[NDArray[np.intp]], NDArray[np.float32]], rows: NDArray[np.intp], n_threads: int = 1
) -> NDArray[np.float32]:
    """Call ``answer`` with fixed-size pieces of ``rows`` on several threads and put the results together.

    Parameters
    ----------
    answer : callable
        Takes row numbers of shape (CHUNK,), gives an array of shape (CHUNK, ...).
    rows : ndarray of shape (n,)
    n_threads : int

    Returns
    -------
    ndarray of shape (n, ...)
    """
    n_chunks = max(1, -(-len(rows) // CHUNK))
    padded = np.empty(n_chunks * CHUNK, dtype=np.intp)
    padded[: len(rows)] = rows
    padded[len(rows) :] = rows[0] if len(rows) else 0
    pieces = padded.reshape(n_chunks, CHUNK)
    if n_threads == 1 or n_chunks == 1:
        parts = [answer(piece) for piece in pieces]
    else:
        # Our threads do the sharing; a second layer of threads in BLAS would only get in their way.
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_threads) as pool:
            parts = list(pool.map(answer, pieces, chunksize=max(1, n_chunks // (8 * n_threads))))
    return np.concatenate(parts)[: len(rows)]


def predict(
    network: MLP, params: Params, x: NDArray[np.float32], rows: NDArray[np.intp] | None = None, n_threads: int = 1
) -> NDArray[np.float64]:
    """Outputs of one network for some rows of a table.

    Parameters
    ----------
    network : MLP
    params : tuple of (weights, bias)
    x : ndarray of shape (n_table, n_inputs), float32
    rows : ndarray of shape (n,), default=None
        Rows of the table to answer for; all by default.
    n_threads : int

    Returns
    -------
    ndarray of shape (n,) for one output, else (n, n_outputs), float64
    """
    rows = np.arange(len(x)) if rows is None else rows
    outputs = run_in_chunks(lambda piece: forward(network, params, x[piece]), rows, n_threads).astype(np.float64)
    return outputs[:, 0] if network.sizes[-1] == 1 else outputs
