"""Kernels of layers: panels of rows, and networks applied to them.

numba does not keep arrays in registers, so the two inner loops are written as LLVM vector code; the loops around them
are in `usnrt.nn._layers`. A chain does not depend on the other rows, so neither do its bits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from usnrt.utils.jit import kernel

# Outputs of a product that are computed together, and rows: 6 x 16 sums fill 12 of the 16 registers of AVX2.
PANEL, ROWS = 16, 6
# Hidden units of an interpolation that are computed together.
BLOCK = 32

_FLOAT = ir.FloatType()
_FUSED = ("contract",)


def _data(context: Any, builder: Any, array_type: Any, array: Any, start: Any) -> Any:
    """Pointer to an element of a flat array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [start])


def _load(builder: Any, pointer: Any, size: int) -> Any:
    vector = ir.VectorType(_FLOAT, size)
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=4)


def _store(builder: Any, vector: Any, pointer: Any) -> None:
    builder.store(vector, builder.bitcast(pointer, vector.type.as_pointer()), align=4)


def _splat(builder: Any, value: Any, size: int) -> Any:
    vector = ir.VectorType(_FLOAT, size)
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), size), [0] * size))


def _variable(builder: Any, value: Any) -> Any:
    return cgutils.alloca_once_value(builder, value)  # type: ignore[no-untyped-call]


def _add_product(builder: Any, total: Any, first: Any, second: Any) -> Any:
    return builder.fadd(total, builder.fmul(first, second, flags=_FUSED), flags=_FUSED)


def _at_least(builder: Any, vector: Any, floor: Any) -> Any:
    """The larger of each number and ``floor``; NaN remains NaN."""
    return builder.select(builder.fcmp_unordered(">", vector, floor), vector, floor)


def _product(n_rows: int) -> Callable[..., Any]:
    """Intrinsic for the product of some rows with one panel."""

    @intrinsic
    def product(typingctx, x, x_start, x_step, panels, panel_start, depth, floor, out, out_start, out_step):  # type: ignore[no-untyped-def]  # fmt: skip
        """Add the products of ``n_rows`` rows of x and a panel (first its bias, then its weights) and write them."""

        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            x_value, x_at, x_step, panel_value, panel_at, depth, floor, out_value, out_at, out_step = args
            x_data = _data(context, builder, signature.args[0], x_value, x_at)
            panel = _data(context, builder, signature.args[3], panel_value, panel_at)
            out_data = _data(context, builder, signature.args[7], out_value, out_at)
            size = ir.Constant(depth.type, PANEL)
            bias = _load(builder, panel, PANEL)
            totals = [_variable(builder, bias) for _ in range(n_rows)]
            steps = [builder.mul(x_step, ir.Constant(x_step.type, row)) for row in range(n_rows)]
            with cgutils.for_range(builder, depth) as loop:
                following = builder.add(loop.index, ir.Constant(loop.index.type, 1))
                weights = _load(builder, builder.gep(panel, [builder.mul(following, size)]), PANEL)
                for total, step in zip(totals, steps):
                    value = builder.load(builder.gep(x_data, [builder.add(step, loop.index)]))
                    value = _splat(builder, value, PANEL)
                    builder.store(_add_product(builder, builder.load(total), value, weights), total)
            lowest = _splat(builder, floor, PANEL)
            for row, total in enumerate(totals):
                step = builder.mul(out_step, ir.Constant(out_step.type, row))
                result = _at_least(builder, builder.load(total), lowest)
                _store(builder, result, builder.gep(out_data, [step]))
            return context.get_dummy_value()

        flat, whole = types.Array(types.float32, 1, "C"), types.intp
        return types.void(flat, whole, whole, flat, whole, whole, types.float32, flat, whole, whole), codegen

    return product


multiply_rows, multiply_row = _product(ROWS), _product(1)


@intrinsic
def interpolate(  # type: ignore[no-untyped-def]
    typingctx, table, start, index, share, n_knots, first, entry, value, n_entries, first_entry, floor, out, out_start
):  # fmt: skip
    """Sum interpolated and multiplied lines of a block of the table, its first line included, and write it.

    A line has ``BLOCK`` numbers. The sum is line 0, plus for each of the knots ``(1 - share) * line[index] + share *
    line[index + 1]``, plus for each of the entries ``value * line[entry]``.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        (
            table_value, start, index_value, share_value, n_knots, first,
            entry_value, value_value, n_entries, first_entry, floor, out_value, out_start,
        ) = args  # fmt: skip
        lines = _data(context, builder, signature.args[0], table_value, start)
        index = _data(context, builder, signature.args[2], index_value, first)
        share = _data(context, builder, signature.args[3], share_value, first)
        entry = _data(context, builder, signature.args[6], entry_value, first_entry)
        value = _data(context, builder, signature.args[7], value_value, first_entry)
        size = ir.Constant(n_knots.type, BLOCK)
        one = ir.Constant(_FLOAT, 1.0)
        total = _variable(builder, _load(builder, lines, BLOCK))
        with cgutils.for_range(builder, n_knots) as loop:
            line = builder.mul(builder.sext(builder.load(builder.gep(index, [loop.index])), n_knots.type), size)
            right = builder.load(builder.gep(share, [loop.index]))
            left = _splat(builder, builder.fsub(one, right), BLOCK)
            lower = _load(builder, builder.gep(lines, [line]), BLOCK)
            upper = _load(builder, builder.gep(lines, [builder.add(line, size)]), BLOCK)
            new = _add_product(builder, builder.load(total), left, lower)
            builder.store(_add_product(builder, new, _splat(builder, right, BLOCK), upper), total)
        with cgutils.for_range(builder, n_entries) as loop:
            line = builder.mul(builder.sext(builder.load(builder.gep(entry, [loop.index])), n_knots.type), size)
            factor = _splat(builder, builder.load(builder.gep(value, [loop.index])), BLOCK)
            new = _add_product(builder, builder.load(total), factor, _load(builder, builder.gep(lines, [line]), BLOCK))
            builder.store(new, total)
        result = _at_least(builder, builder.load(total), _splat(builder, floor, BLOCK))
        _store(builder, result, _data(context, builder, signature.args[11], out_value, out_start))
        return context.get_dummy_value()

    numbers, indices, whole = types.Array(types.float32, 1, "C"), types.Array(types.int32, 1, "C"), types.intp
    arguments = (
        numbers, whole, indices, numbers, whole, whole, indices, numbers, whole, whole, types.float32, numbers, whole,
    )  # fmt: skip
    return types.void(*arguments), codegen


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
