"""A plugin of pytest that replaces LLVM code by numpy, so that kernels run as Python: see `make coverage`.

With ``NUMBA_DISABLE_JIT=1`` kernels are plain functions, whose lines coverage sees and whose indices numpy checks.
The intrinsics of `usnrt.nn._layers` exist as machine code only; here they are written down a second time.
"""

import numpy as np

from usnrt.nn import _layers
from usnrt.nn._layers import BLOCK, PANEL, ROWS


def product(n_rows):
    """`_layers._product`."""

    def multiply(x, x_start, x_step, panels, panel_start, depth, floor, out, out_start, out_step):
        panel = panels[panel_start : panel_start + (depth + 1) * PANEL].reshape(depth + 1, PANEL)
        for row in range(n_rows):
            start = x_start + row * x_step
            total = panel[0].copy()
            for k in range(depth):
                total += x[start + k] * panel[k + 1]
            place = out_start + row * out_step
            out[place : place + PANEL] = np.where(total <= floor, floor, total)

    return multiply


def interpolate(
    table, start, index, share, n_knots, first, entry, value, n_entries, first_entry, floor, out, out_start
):
    """`_layers.interpolate`."""

    def line(number):
        return table[start + number * BLOCK : start + (number + 1) * BLOCK]

    total = line(0).copy()
    for k in range(first, first + n_knots):
        total += (np.float32(1) - share[k]) * line(index[k]) + share[k] * line(index[k] + 1)
    for k in range(first_entry, first_entry + n_entries):
        total += value[k] * line(entry[k])
    out[out_start : out_start + BLOCK] = np.where(total <= floor, floor, total)


for module in (_layers,):
    module.multiply_rows, module.multiply_row, module.interpolate = product(ROWS), product(1), interpolate
