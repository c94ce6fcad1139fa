"""Numba kernels for the layers of a network; `usnrt.nn.packed` prepares their arguments."""

import numpy as np

from usnrt.nn._panels import BLOCK, PANEL, ROWS, interpolate, multiply_row, multiply_rows
from usnrt.utils.jit import kernel

# Rows processed at a time: their activations stay in the second-level cache.
CHUNK = 96
# Activations by their numbers.
ACTIVATIONS = ("linear", "relu", "algebraic")
_LINEAR, RELU, ALGEBRAIC = range(3)


@kernel()
def dense(x, n_rows, x_step, panels, start, depth, n_panels, floor, out, out_step):  # type: ignore[no-untyped-def]
    """Write ``max(x @ weights + bias, floor)``; rows start every ``x_step`` and ``out_step`` numbers."""
    whole = n_rows - n_rows % ROWS
    for panel in range(n_panels):
        weights = start + panel * (depth + 1) * PANEL
        column = panel * PANEL
        for i in range(0, whole, ROWS):
            multiply_rows(x, i * x_step, x_step, panels, weights, depth, floor, out, i * out_step + column, out_step)
        for i in range(whole, n_rows):
            multiply_row(x, i * x_step, x_step, panels, weights, depth, floor, out, i * out_step + column, out_step)


@kernel()
def locate(x, rows, columns, first, n_knots, knots, rounded, scale, index, share):  # type: ignore[no-untyped-def]
    """Write the knot below each number, and how far it is from there to the next one, from 0 to 1.

    ``rounded`` are the knots rounded up to float32: a float32 is at least a knot if it is at least the rounded one.
    """
    n, n_columns = len(rows), len(columns)
    value, knot = np.empty(n, np.float32), np.empty(n, np.int32)
    for j in range(n_columns):
        low, high = first[j], first[j] + n_knots[j] - 1
        for i in range(n):
            value[i], knot[i] = x[rows[i], columns[j]], low
        for k in range(low + 1, high):
            edge = rounded[k]
            for i in range(n):
                knot[i] += value[i] >= edge
        for i in range(n):
            at = knot[i]
            inside = min(max(np.float64(value[i]), knots[low]), knots[high])
            index[i * n_columns + j] = at + 1  # line 0 is the bias
            share[i * n_columns + j] = np.float32((inside - knots[at]) * scale[at])


@kernel()
def nonzero_entries(x, rows, columns, first_line, limit, entry, value, n_entries):  # type: ignore[no-untyped-def]
    """Write the nonzero numbers of these columns, clipped, and their lines in the table."""
    width = len(columns)
    for i in range(len(rows)):
        count = 0
        for j in range(width):
            number = x[rows[i], columns[j]]
            if number != 0:
                entry[i * width + count] = first_line + j
                value[i * width + count] = min(max(number, -limit), limit)
                count += 1
        n_entries[i] = count


@kernel()
def first_layer(  # type: ignore[no-untyped-def]
    n_rows, n_columns, width, index, share, entry, value, n_entries, table, n_lines, n_blocks, floor, out, out_step
):  # fmt: skip
    """Write the first layer of rows whose knots and entries are known."""
    for block in range(n_blocks):
        start = block * n_lines * BLOCK
        for i in range(n_rows):
            interpolate(  # type: ignore[call-arg]
                table, start, index, share, n_columns, i * n_columns,
                entry, value, n_entries[i], i * width, floor, out, i * out_step + block * BLOCK,
            )  # fmt: skip


@kernel()
def _buffers(x, encoded, n_blocks, shapes):  # type: ignore[no-untyped-def]
    """Two buffers of activations, then knots, shares, entries, values and numbers of entries of a chunk."""
    n_columns, n_others = len(encoded[0]), len(encoded[6])
    widest = max(n_blocks * BLOCK, x.shape[1])
    for layer in range(len(shapes)):
        widest = max(widest, shapes[layer, 2] * PANEL)
    return (
        np.empty(CHUNK * widest, np.float32), np.empty(CHUNK * widest, np.float32),
        np.empty(CHUNK * n_columns, np.int32), np.empty(CHUNK * n_columns, np.float32),
        np.empty(CHUNK * n_others, np.int32), np.empty(CHUNK * n_others, np.float32), np.zeros(CHUNK, np.int64),
    )  # fmt: skip


@kernel(error_model="numpy")  # seven times as fast: tests for a division by 0 would prevent vector code
def activate_algebraic(values, n):  # type: ignore[no-untyped-def]
    """Apply x / 2 (1 + x / sqrt(4 + x²)) to the first ``n`` values."""
    half, one, four = np.float32(0.5), np.float32(1.0), np.float32(4.0)
    for i in range(n):
        x = values[i]
        values[i] = half * x * (one + x / np.sqrt(four + x * x))


@kernel()
def _run_chunk(  # type: ignore[no-untyped-def]
    x, rows, encoded, n_blocks, table, n_lines, panels, shapes, activation, buffers
):  # fmt: skip
    """Outputs of the last layer, and the step from one row to the next."""
    unlimited = np.float32(-np.inf)
    floor = np.float32(0.0) if activation == RELU else unlimited
    columns, first, n_knots, knots, rounded, scale, others, limit = encoded
    here, there, index, share, entry, value, n_entries = buffers
    n = len(rows)
    if n_blocks > 0:
        locate(x, rows, columns, first, n_knots, knots, rounded, scale, index, share)
        nonzero_entries(x, rows, others, n_lines - len(others), limit, entry, value, n_entries)
        step = n_blocks * BLOCK
        first_layer(
            n, len(columns), len(others), index, share, entry, value, n_entries, table, n_lines, n_blocks,
            floor if len(shapes) > 0 else unlimited, here, step,
        )  # fmt: skip
        if activation == ALGEBRAIC and len(shapes) > 0:
            activate_algebraic(here, n * step)
    else:
        step = x.shape[1]
        for i in range(n):
            for j in range(step):
                here[i * step + j] = x[rows[i], j]
    for layer in range(len(shapes)):
        start, depth, n_panels = shapes[layer]
        width = n_panels * PANEL
        is_hidden = layer < len(shapes) - 1
        dense(here, n, step, panels, start, depth, n_panels, floor if is_hidden else unlimited, there, width)
        if activation == ALGEBRAIC and is_hidden:
            activate_algebraic(there, n * width)
        here, there, step = there, here, width
    return here, step


@kernel()
def run_layers(x, rows, at, encoded, n_blocks, table, n_lines, panels, shapes, activation, out):  # type: ignore[no-untyped-def]
    """Write the outputs for ``x[rows]`` to ``out[at]``.

    ``encoded`` is (columns, first knots, numbers of knots, knots, rounded knots, scale, other columns, limit), all of
    length 0 without encoding; ``shapes`` has a row (start, depth, number of panels) per dense layer; ``activation`` is
    that of all layers but the last one.
    """
    buffers = _buffers(x, encoded, n_blocks, shapes)
    for start in range(0, len(rows), CHUNK):
        some, to = rows[start : start + CHUNK], at[start : start + CHUNK]
        last, step = _run_chunk(
            x, some, encoded, n_blocks, table, n_lines, panels, shapes, activation, buffers
        )  # fmt: skip
        for i in range(len(some)):
            for j in range(out.shape[1]):
                out[to[i], j] = last[i * step + j]
