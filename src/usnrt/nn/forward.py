"""Prediction with trained networks, in numpy: no compilation, no jax, all cores.

Rows are worked off in chunks of one fixed size, the last one padded, so that a row's answer has the same bits
whatever rows are asked with it and however many threads work.
"""

from collections.abc import Sequence
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


def predict(
    network: MLP,
    params: Params,
    x: NDArray[np.float32],
    rows: NDArray[np.intp] | None = None,
    n_threads: int = 1,
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
    return predict_grouped(network, [params], x, np.zeros(len(x), dtype=np.intp), rows, n_threads)


def predict_grouped(
    network: MLP,
    params_of_group: Sequence[Params],
    x: NDArray[np.float32],
    group: NDArray[np.intp],
    rows: NDArray[np.intp] | None = None,
    n_threads: int = 1,
) -> NDArray[np.float64]:
    """Outputs where each row asks the network of its group, such as the leaf it falls in.

    Parameters
    ----------
    network : MLP
        The one architecture of all groups.
    params_of_group : sequence of Params
    x : ndarray of shape (n_table, n_inputs), float32
    group : ndarray of shape (n_table,)
        Which network each row asks.
    rows : ndarray of shape (n,), default=None
        Rows of the table to answer for; all by default.
    n_threads : int

    Returns
    -------
    ndarray of shape (n,) for one output, else (n, n_outputs), float64
    """
    rows = np.arange(len(x)) if rows is None else rows
    outputs = np.empty((len(rows), network.sizes[-1]))
    order = np.argsort(group[rows], kind="stable")
    bounds = np.searchsorted(group[rows][order], np.arange(len(params_of_group) + 1))
    pieces = [
        (which, order[start : min(start + CHUNK, bounds[which + 1])])
        for which in range(len(params_of_group))
        for start in range(bounds[which], bounds[which + 1], CHUNK)
    ]

    def answer(piece: tuple[int, NDArray[np.intp]]) -> None:
        which, places = piece
        chunk = x[rows[places]]
        if len(places) < CHUNK:  # the same shape every time, and with it the same bits
            chunk = np.concatenate([chunk, np.zeros((CHUNK - len(places), x.shape[1]), dtype=np.float32)])
        outputs[places] = forward(network, params_of_group[which], chunk)[: len(places)]

    if n_threads == 1 or len(pieces) < 4:
        for piece in pieces:
            answer(piece)
    else:
        # Our threads do the sharing; a second layer of threads in BLAS would only get in their way.
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(answer, pieces))
    return outputs[:, 0] if network.sizes[-1] == 1 else outputs
