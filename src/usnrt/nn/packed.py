"""Networks prepared for prediction: weights in the order in which the kernels read them.

The first layer of a network with a piecewise linear encoding is never multiplied. Each unit is a sum of piecewise
linear functions, one per encoded number, so it suffices to know their values at the edges of the bins: a number lies
between two edges, and the function is interpolated between them. Of a one-hot encoding only the nonzero entries count.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.nn._layers import ACTIVATIONS, BLOCK, PANEL, run_layers
from usnrt.nn.encoding import INPUT_LIMIT, PiecewiseLinear
from usnrt.nn.mlp import Params, check_layers

# The edges of adjacent bins agree up to the rounding of their coefficients. Two of them are one knot if the encoding
# changes by less than this between them.
_SAME_EDGE = 2e-6
_LIMIT = np.float32(INPUT_LIMIT)


class PackedLayers:
    """The first layers of a network, or all of them.

    Parameters
    ----------
    params : sequence of (weights, bias)
    encoding : PiecewiseLinear or None
        Encoding of the inputs of the first layer.
    activation : {"linear", "relu", "algebraic"}
        Of all layers but the last one.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.packed import PackedLayers
    >>> params = ((np.eye(2, 3, dtype=np.float32), np.zeros(3, dtype=np.float32)),)
    >>> PackedLayers(params, None, activation="linear")(np.array([[1, 2]], dtype=np.float32), np.array([0]))
    array([[1., 2., 0.]], dtype=float32)
    """

    def __init__(self, params: Params, encoding: PiecewiseLinear | None, activation: str) -> None:
        check_layers(params)
        self.n_inputs = len(params[0][0]) if encoding is None else encoding.n_inputs
        self.n_outputs = len(params[-1][1])
        lines = np.zeros((0, 0))
        knots = _no_knots()
        if encoding is not None:
            (weights, bias), params = params[0], params[1:]
            knots, lines = _interpolated(encoding, weights.astype(np.float64), bias.astype(np.float64))
        panels, shapes, start = [np.zeros(0, dtype=np.float32)], [], 0
        for weights, bias in params:
            panels.append(pack_layer(weights, bias))
            shapes.append((start, len(weights), panels[-1].size // ((len(weights) + 1) * PANEL)))
            start += panels[-1].size
        n_blocks = -(-lines.shape[1] // BLOCK)
        table = _in_blocks(lines, BLOCK)
        self.arguments: tuple[Any, ...] = (
            knots, n_blocks, table, len(lines), np.concatenate(panels),
            np.array(shapes, dtype=np.int64).reshape(-1, 3), ACTIVATIONS.index(activation),
        )  # fmt: skip

    def __call__(self, x: NDArray[np.float32], rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """Outputs for some rows of ``x``, shape (n, n_outputs)."""
        outputs = np.empty((len(rows), self.n_outputs), dtype=np.float32)
        self.write(x, rows, np.arange(len(rows)), outputs)
        return outputs

    def write(self, x: NDArray[np.float32], rows: NDArray[np.intp], at: NDArray[np.intp], out: NDArray[Any]) -> None:
        """Write the outputs for ``x[rows]`` to ``out[at]``."""
        if (x.shape[1], out.shape[1]) != (self.n_inputs, self.n_outputs):  # the kernel checks no bounds
            raise ValueError(
                f"the network must have as many inputs and outputs as its tables, got {self.n_inputs} and "
                f"{self.n_outputs} for {x.shape[1]} and {out.shape[1]}"
            )
        run_layers(x, rows, at, *self.arguments, out)


def pack_layer(weights: NDArray[np.float32], bias: NDArray[np.float32]) -> NDArray[np.float32]:
    """A layer in panels of ``PANEL`` outputs, each with its bias and then its weights, for `usnrt.nn._layers.dense`."""
    return _in_blocks(np.concatenate([bias[None], weights]), PANEL)


def _in_blocks(lines: NDArray[Any], size: int) -> NDArray[np.float32]:
    """Blocks of columns one after the other; the last one is filled up with zeros."""
    n_lines, width = lines.shape
    n_blocks = -(-width // size)
    padded = np.zeros((n_lines, n_blocks * size), dtype=np.float32)
    padded[:, :width] = lines
    return padded.reshape(n_lines, n_blocks, size).transpose(1, 0, 2).ravel()


def _no_knots() -> tuple[Any, ...]:
    nothing = np.zeros(0, dtype=np.int64)
    return nothing, nothing, nothing, np.zeros(0), _rounded_up(np.zeros(0)), np.zeros(0), nothing, _LIMIT


def _interpolated(
    encoding: PiecewiseLinear, weights: NDArray[np.float64], bias: NDArray[np.float64]
) -> tuple[tuple[Any, ...], NDArray[np.float64]]:
    """Knots of all encoded columns, and the lines of the first layer: bias, values at knots, weights of the others."""
    kept, columns, slope, offset = (constant.copy() for constant in encoding.constants)
    plain, binned = np.split(weights, [len(kept)])
    binned = binned.reshape(*slope.shape, weights.shape[1])
    others = np.setdiff1d(kept, columns)
    knots, lines = [], [bias[None]]
    for j, column in enumerate(columns):
        at = _knots(slope[j].astype(np.float64), offset[j].astype(np.float64))
        bins = np.clip(at[:, None] * slope[j].astype(np.float64) + offset[j], -0.5, 0.5)
        inputs = np.clip(at, -INPUT_LIMIT, INPUT_LIMIT)[:, None]
        # einsum, because the bits of a matrix product depend on the number of threads
        lines.append(inputs * plain[np.searchsorted(kept, column)] + np.einsum("kb,bh->kh", bins, binned[j]))
        knots.append(at)
    n_knots = np.array([len(at) for at in knots], dtype=np.int64)
    flat = np.concatenate([np.zeros(0), *knots])
    with np.errstate(divide="ignore"):
        scale = 1.0 / np.diff(flat, append=np.inf)
    described = (
        columns, np.cumsum(n_knots) - n_knots, n_knots, flat, _rounded_up(flat), scale, others.astype(np.int64), _LIMIT,
    )  # fmt: skip
    return described, np.concatenate([*lines, plain[np.searchsorted(kept, others)]])


def _knots(slope: NDArray[np.float64], offset: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where the encoding of a number changes its slope: edges of the bins in use, and the bounds of the plain input."""
    used = slope > 0
    ends = np.concatenate([*((end - offset[used]) / slope[used] for end in (-0.5, 0.5)), [-INPUT_LIMIT, INPUT_LIMIT]])
    steepness = np.concatenate([slope[used], slope[used], [1.0, 1.0]])
    order = np.argsort(ends, kind="stable")
    ends, steepness = ends[order], steepness[order]
    change = np.diff(ends) * np.maximum(steepness[1:], steepness[:-1])
    kept: NDArray[np.float64] = ends[np.concatenate([[True], change > _SAME_EDGE])]
    return kept


def _rounded_up(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """The smallest float32 that is at least each number."""
    nearest = numbers.astype(np.float32)
    return np.where(nearest < numbers, np.nextafter(nearest, np.float32(np.inf)), nearest)
