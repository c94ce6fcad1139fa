"""Prediction with trained networks, in numpy: no compilation, no jax, all cores.

Rows are worked off in chunks of one fixed size, so that a row's answer has the same bits
whatever rows are asked with it and however many threads work.
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
        x = _product(x, weights)
        x += bias
        if network.activation == "relu":
            np.maximum(x, 0.0, out=x)
        elif network.activation == "silu":
            x *= 0.5 * np.tanh(0.5 * x) + 0.5  # x times the logistic function, which cannot overflow this way
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
    """``x @ weights``, in pieces of so many rows that the bits of a row do not depend on where it stands."""
    n_rows = rows_per_product(*weights.shape) if len(x) == CHUNK else len(x)
    if n_rows == len(x):
        return x @ weights
    return (x.reshape(-1, n_rows, x.shape[1]) @ weights).reshape(len(x), -1)


@functools.cache
def rows_per_product(n_inputs: int, n_outputs: int) -> int:
    """The most rows that BLAS multiplies at once with the same bits for a row wherever it stands among them.

    Some BLAS kernels sum a row's products in another order at other places of the same matrix, which shows in the last
    bits of a float32. It depends on the processor, so it is tried out, once per shape.

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
        Rows of the table to answer for; all by default.
    n_threads : int
    encoding : PiecewiseLinear, default=None
        What turns the inputs into what the network sees.

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
    encoding : PiecewiseLinear, default=None
        What turns the inputs into what the networks see.

    Returns
    -------
    ndarray of shape (n,) for one output, else (n, n_outputs), float64
    """
    asked = group if rows is None else group[rows]
    # Few groups fit in 16 bits, and numpy sorts those by counting: linear in the rows.
    asked = asked.astype(np.int16) if len(params_of_group) < 2**15 else asked
    order = np.argsort(asked, kind="stable")
    bounds = np.searchsorted(asked[order], np.arange(len(params_of_group) + 1))
    pieces = [
        (which, order[start : min(start + CHUNK, bounds[which + 1])])
        for which in range(len(params_of_group))
        for start in range(bounds[which], bounds[which + 1], CHUNK)
    ]
    outputs = np.empty((len(asked), network.sizes[-1]))

    def answer(some: Sequence[tuple[int, NDArray[np.intp]]]) -> None:
        # Always a chunk of the same shape, and with it the same bits; rows left over in it are not looked at.
        chunk = np.zeros((CHUNK, x.shape[1]), dtype=np.float32)
        for which, places in some:
            picked = places if rows is None else rows[places]
            np.take(x, picked, axis=0, out=chunk[: len(places)], mode="clip")  # "raise" would copy once more
            seen = chunk if encoding is None else encoding(chunk)
            outputs[places] = forward(network, params_of_group[which], seen)[: len(places)]

    with ONE_BLAS_THREAD:
        if n_threads == 1 or len(pieces) < 4:
            answer(pieces)
        else:
            # A few long tasks a thread: handing over costs time, and uneven ends do too.
            n_tasks = min(4 * n_threads, len(pieces))
            cuts = np.linspace(0, len(pieces), n_tasks + 1).astype(int)
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(answer, [pieces[start:stop] for start, stop in itertools.pairwise(cuts)]))
    return outputs[:, 0] if network.sizes[-1] == 1 else outputs
