"""What numba's own functions lack in kernels: matrix products on parts of flat arrays, and a barrier between threads.

Symbols are found by name when machine code is loaded from numba's cache, so this module registers them first.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import ctypes
import sys
from typing import Any

import llvmlite.binding as llvm
import scipy.linalg.cython_blas  # noqa: F401  (get_cython_function_address finds it only if it is imported)
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import get_cython_function_address
from numba.extending import intrinsic as _numba_intrinsic
from numba.np.arrayobj import populate_array

from usnrt.utils.jit import helper

# Its type does not know that numba passes the first parameter.
intrinsic: Any = _numba_intrinsic

_SGEMM, _SLEEP, _YIELD = "usnrt_sgemm", "usnrt_sleep", "usnrt_yield"
_INT, _LONG, _FLOAT, _BYTE = ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.IntType(8)
# How often a thread looks at a barrier, some ten microseconds, before it offers its core to other programs, and how
# often it does that before it sleeps. On an idle machine no thread sleeps: to wake up takes longer than half a step.
LOOKS, OFFERS, MICROSECONDS = 20_000, 1_000, 50


def _register() -> None:
    if sys.platform == "win32":
        kernel = ctypes.WinDLL("kernel32")
        functions = {_SLEEP: kernel.Sleep, _YIELD: kernel.SwitchToThread}
    else:
        library = ctypes.CDLL(None)
        functions = {_SLEEP: library.usleep, _YIELD: library.sched_yield}
    for name, function in functions.items():
        llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
    llvm.add_symbol(_SGEMM, get_cython_function_address("scipy.linalg.cython_blas", "sgemm"))


_register()


def _element(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    """Pointer to an element of a flat array."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [at])


@intrinsic
def part(typingctx, array, start, size):
    """Part of a flat array, unchecked: slices count references and allow for negative positions.

    The array must have been made outside the kernel: numba frees its own arrays after their last use, a part is none.
    """

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        whole = context.make_array(kind)(context, builder, args[0])
        own = context.make_array(kind)(context, builder)
        step = whole.itemsize
        populate_array(own, builder.gep(whole.data, [args[1]]), [args[2]], [step], step, None)
        return own._getvalue()

    return array(array, types.intp, types.intp), codegen


@intrinsic
def float_of_bits(typingctx, bits):
    """The float32 with these 32 bits."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], _FLOAT)

    return types.float32(types.int32), codegen


@intrinsic
def product(
    typingctx, turn_a, turn_b, m, n, k, a, a_start, a_step, b, b_start, b_step, keep, out, out_start, out_step
):  # fmt: skip
    """Write ``a @ b + keep * out`` to out, by BLAS; ``turn_a`` and ``turn_b`` tell whether a and b are transposed.

    The result has m rows and n columns, k products are added up. Matrices are in C order; each begins at an element of
    a flat array, and its rows, as they are stored, are so many elements apart.
    """

    def codegen(context, builder, signature, args):
        turn_a, turn_b, m, n, k, a, a_start, a_step, b, b_start, b_step, keep, out, out_start, out_step = args

        def stored(value):
            return cgutils.alloca_once_value(builder, value)

        def turned(flag):
            letters = (ir.Constant(_BYTE, ord(letter)) for letter in "tn")
            return stored(builder.select(builder.trunc(flag, ir.IntType(1)), *letters))

        # BLAS knows columns only: to it, matrices in C order are transposed, and so is the product.
        n, m, k, b_step, a_step, out_step = (
            stored(builder.trunc(value, _INT)) for value in (n, m, k, b_step, a_step, out_step)
        )
        kinds = signature.args
        places = ((kinds[8], b, b_start), (kinds[5], a, a_start), (kinds[12], out, out_start))
        b, a, out = (_element(context, builder, *place) for place in places)
        text, ints, floats = (kind.as_pointer() for kind in (_BYTE, _INT, _FLOAT))
        parameters = [text, text, ints, ints, ints, floats, floats, ints, floats, ints, floats, floats, ints]
        sgemm = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), parameters), _SGEMM)
        one = stored(ir.Constant(_FLOAT, 1.0))
        factors = one, b, b_step, a, a_step, stored(keep)
        builder.call(sgemm, [turned(turn_b), turned(turn_a), n, m, k, *factors, out, out_step])
        return context.get_dummy_value()

    whole, flat = types.intp, types.Array(types.float32, 1, "C")
    matrix = (flat, whole, whole)
    return types.void(
        types.boolean, types.boolean, whole, whole, whole, *matrix, *matrix, types.float32, *matrix
    ), codegen


_GATE = types.Array(types.int64, 1, "C")


@intrinsic
def _arrive(typingctx, gate):
    """Add 1 to the first number of a gate; returns what it was."""

    def codegen(context, builder, signature, args):
        at = _element(context, builder, signature.args[0], args[0], ir.Constant(_LONG, 0))
        return builder.atomic_rmw("add", at, ir.Constant(_LONG, 1), "seq_cst")

    return types.int64(_GATE), codegen


@intrinsic
def _read(typingctx, gate):
    """The second number of a gate."""

    def codegen(context, builder, signature, args):
        at = _element(context, builder, signature.args[0], args[0], ir.Constant(_LONG, 1))
        return builder.load_atomic(at, "seq_cst", 8)

    return types.int64(_GATE), codegen


@intrinsic
def _open(typingctx, gate, number):
    """Set the first number of a gate to 0, then the second one."""

    def codegen(context, builder, signature, args):
        for at, value in ((0, ir.Constant(_LONG, 0)), (1, args[1])):
            place = _element(context, builder, signature.args[0], args[0], ir.Constant(_LONG, at))
            builder.store_atomic(value, place, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(_GATE, types.int64), codegen


@intrinsic
def _sleep(typingctx):
    def codegen(context, builder, signature, args):
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_INT, [_INT]), _SLEEP)
        builder.call(function, [ir.Constant(_INT, 1 if sys.platform == "win32" else MICROSECONDS)])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def _yield(typingctx):
    def codegen(context, builder, signature, args):
        builder.call(cgutils.get_or_insert_function(builder.module, ir.FunctionType(_INT, []), _YIELD), [])
        return context.get_dummy_value()

    return types.void(), codegen


@helper()
def wait_for_all(gate, n_threads):
    """Return when all threads have called it.

    ``gate`` has two numbers, 0 at first: threads that have arrived, and how often it was opened.
    """
    if n_threads == 1:
        return
    opened = _read(gate)
    if _arrive(gate) == n_threads - 1:
        _open(gate, opened + 1)
        return
    n_looks = 0
    while _read(gate) == opened:
        n_looks += 1
        if n_looks > LOOKS + OFFERS:
            _sleep()
        elif n_looks > LOOKS:
            _yield()
