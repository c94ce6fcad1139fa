"""Prediction with trained networks: no import of jax, multi-threaded.

The prediction of a row has the same bits whatever other rows are predicted with it and whatever the number of threads.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.mlp import LOG_LIMIT, MIN_VARIANCE, MLP, Params
from usnrt.nn.packed import PackedLayers
from usnrt.utils.threads import run_in_blocks

# Rows processed at a time by networks whose activation is computed by numpy.
CHUNK = 512


def forward(network: MLP, params: Params, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Outputs of one network.

    Parameters
    ----------
    params : tuple of (weights, bias)
    x : ndarray of shape (n, n_inputs), float32

    Returns
    -------
    ndarray of shape (n, n_outputs), float32
    """
    return predict(network, params, x).reshape(len(x), -1).astype(np.float32)


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
    group = np.zeros(len(x), dtype=np.intp)
    return GroupedNetworks(network, [params], encoding).predict(x, group, rows, n_threads)


class GroupedNetworks:
    """Networks of one architecture, one per group of rows, prepared for prediction.

    Each network is prepared when the first row of its group is predicted, so the weights must not be changed in place
    after that. Preparing takes a few milliseconds.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.forward import GroupedNetworks
    >>> from usnrt.nn.mlp import MLP
    >>> weights, bias = np.ones((2, 1), dtype=np.float32), np.zeros(1, dtype=np.float32)
    >>> networks = GroupedNetworks(MLP((2, 1)), [((weights, bias),), ((weights, bias + 10),)])
    >>> networks.predict(np.array([[1, 2], [3, 4]], dtype=np.float32), group=np.array([0, 1]))
    array([ 3., 17.])
    """

    def __init__(
        self, network: MLP, params_of_group: Sequence[Params], encoding: PiecewiseLinear | None = None
    ) -> None:
        self.network, self.params_of_group, self.encoding = network, params_of_group, encoding
        self._layers: list[list[PackedLayers] | None] = [None] * len(params_of_group)

    def predict(
        self,
        x: NDArray[np.float32],
        group: NDArray[np.intp],
        rows: NDArray[np.intp] | None = None,
        n_threads: int = 1,
    ) -> NDArray[np.float64]:
        """Outputs for some rows of a table.

        Parameters
        ----------
        x : ndarray of shape (n_table, n_inputs), float32
        group : ndarray of shape (n_table,)
            Group of each row.
        rows : ndarray of shape (n,), default=None
            Rows of the table to predict; all by default.
        n_threads : int, default=1

        Returns
        -------
        ndarray of shape (n,) for one output, else (n, n_outputs), float64
        """
        x, rows = _table(x), _rows(x, rows)
        group = np.asarray(group)[rows]
        outputs = np.empty((len(rows), self.network.sizes[-1]))
        if len(rows) == 1:
            bounds = {int(group[0]): (0, 1)}
            order = np.zeros(1, dtype=np.intp)
        else:
            # Few groups fit in 16 bits, for which numpy uses a linear-time radix sort.
            key = group.astype(np.int16) if len(self._layers) < 2**15 else group
            order = np.argsort(key, kind="stable")
            ends = np.searchsorted(key[order], np.arange(len(self._layers) + 1))
            bounds = {g: (ends[g], ends[g + 1]) for g in range(len(self._layers)) if ends[g] < ends[g + 1]}
        layers = {g: self._prepared(g) for g in bounds}

        def predict_block(start: int, stop: int) -> None:
            for g, (low, high) in bounds.items():
                at = order[max(start, low) : min(stop, high)]
                if len(at):
                    self._write(layers[g], x, rows[at], at, outputs)

        run_in_blocks(predict_block, len(rows), n_threads)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def _prepared(self, group: int) -> list[PackedLayers]:
        """All layers as one program, or each of them alone if numpy computes the activation."""
        packed = self._layers[group]
        if packed is None:
            params = tuple(tuple(np.asarray(array) for array in layer[:2]) for layer in self.params_of_group[group])
            if self.network.activation != "tanh":
                packed = [PackedLayers(params, self.encoding, self.network.activation)]
            else:
                encodings = [self.encoding, *(None for _ in params[1:])]
                packed = [PackedLayers((layer,), own, "linear") for layer, own in zip(params, encodings)]
            self._layers[group] = packed
        return packed

    def _write(
        self,
        layers: list[PackedLayers],
        x: NDArray[np.float32],
        rows: NDArray[np.intp],
        at: NDArray[np.intp],
        outputs: NDArray[np.float64],
    ) -> None:
        if self.network.output == "linear" and len(layers) == 1:
            layers[0].write(x, rows, at, outputs)
            return
        for start in range(0, len(rows), CHUNK):
            values, own = x, rows[start : start + CHUNK]
            for layer in layers[:-1]:
                values = layer(values, own)
                np.tanh(values, out=values)
                own = np.arange(len(own))
            outputs[at[start : start + CHUNK]] = _activated(layers[-1](values, own), self.network.output)


def _table(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """A writable float32 table in C order: numba compiles a program per type of array, and this is the only one."""
    table: NDArray[np.float32] = np.require(x, dtype=np.float32, requirements=["C", "W"])
    return table


def _rows(x: NDArray[Any], rows: NDArray[np.intp] | None) -> NDArray[np.intp]:
    return np.arange(len(x)) if rows is None else np.require(rows, dtype=np.intp, requirements=["C", "W"])


def _activated(outputs: NDArray[np.float32], output: str) -> NDArray[np.float32]:
    """The activation of the last layer."""
    if output == "softplus":
        # log(1 + e^x) without overflow
        return np.maximum(outputs, 0.0) + np.log1p(np.exp(-np.abs(outputs))) + np.float32(MIN_VARIANCE)
    if output == "exp":
        return np.exp(np.clip(outputs, -LOG_LIMIT, LOG_LIMIT)) + np.float32(MIN_VARIANCE)
    return outputs
