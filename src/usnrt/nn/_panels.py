"""Vector code for the layers of a network: every output of a row is one chain of fused additions, in a fixed order.

numba does not keep arrays in registers, so the two inner loops are written as LLVM vector code; the loops around them
are in `usnrt.nn._layers`. A chain does not depend on the other rows, so neither do its bits.

numba caches a kernel until its own file changes: after a change here, touch `_layers.py` and `calibration/_kernels.py`.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

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
