"""A compiled sort of numbers, about twice as fast as numpy's, and stable."""

import numpy as np

from usnrt.utils.jit import kernel

BITS = 11  # of a key that one pass looks at
PASSES = 6  # 6 x 11 bits hold a 64-bit key
DIGITS = 1 << BITS


@kernel()
def argsort(values):
    """The order of float64 values, (n,) int64: NaN last, equal ones as they come.

    A radix sort. The bits of a number, read as an unsigned integer, are in the order of the numbers once those of
    negative numbers are inverted. A pass whose digit is the same in all keys is skipped: whole numbers and columns of
    few distinct values take two or three.
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
            place = count[digit]
            count[digit] = place + 1
            next_keys[place] = keys[i]
            next_order[place] = order[i]
        keys, next_keys = next_keys, keys
        order, next_order = next_order, order
    return order.astype(np.int64)
