"""A stable numba sort of floats, about twice as fast as numpy's."""

import numpy as np

from usnrt.utils.jit import kernel

BITS = 11  # bits of the key per pass
PASSES = 6  # 6 x 11 bits cover a 64-bit key
DIGITS = 1 << BITS


@kernel()
def argsort(values):  # type: ignore[no-untyped-def]
    """Stable argsort of float64 values, (n,) int64, NaN last.

    A radix sort. The bits of a float, read as an unsigned integer, are in the order of the floats once those of
    negative numbers are inverted. A pass in which all keys have the same digit is skipped: integers and columns with
    few distinct values need two or three passes.
    """
    n = values.shape[0]
    sign, digits = np.uint64(1) << np.uint64(63), np.uint64(DIGITS - 1)
    keys = (values + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    counts = np.zeros((PASSES, DIGITS), np.int64)
    for i in range(n):
        if values[i] != values[i]:
            keys[i] = ~np.uint64(0)
        elif keys[i] & sign:
            keys[i] = ~keys[i]
        else:
            keys[i] |= sign
        for p in range(PASSES):
            counts[p, (keys[i] >> np.uint64(p * BITS)) & digits] += 1
    order = np.arange(n).astype(np.uint32)  # half the memory to move
    next_keys, next_order = np.empty(n, np.uint64), np.empty(n, np.uint32)
    for p in range(PASSES):
        count, shift = counts[p], np.uint64(p * BITS)
        if n == 0 or count[(keys[0] >> shift) & digits] == n:
            continue
        start = 0
        for digit in range(DIGITS):
            start, count[digit] = start + count[digit], start
        for i in range(n):
            digit = (keys[i] >> shift) & digits
            position = count[digit]
            count[digit] = position + 1
            next_keys[position] = keys[i]
            next_order[position] = order[i]
        keys, next_keys = next_keys, keys
        order, next_order = next_order, order
    return order.astype(np.int64)
