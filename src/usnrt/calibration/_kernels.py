"""Numba kernels for the support of rows; `table` is the flat memory of the encoded rows, see `usnrt.utils.threads`."""

import math

import numpy as np

from usnrt.nn._layers import CHUNK, PANEL, dense, multiply_row
from usnrt.utils.jit import kernel


@kernel(error_model="numpy")
def measure_rows(  # type: ignore[no-untyped-def]
    table, row_step, column_step, start, stop, categorical, never_missing, missing_value_variance, growth,
    largest_growth, max_delta, low, high, below, above, outside, unseen, missing, region,
    unknown_variance, walk, distance,
):  # fmt: skip
    """Write the support of rows without the joint space; ``region`` holds their leaves at first."""
    whole_table = len(low) - 1
    for i in range(start, stop):
        for j in range(len(categorical)):
            x = table[i * row_step + j * column_step]
            if x != x:
                if never_missing[j]:
                    missing[i] = True
                    unknown_variance[i] += missing_value_variance[j]
            elif categorical[j] and x == -1.0:
                unseen[i] = True
                unknown_variance[i] += missing_value_variance[j]
        if missing[i] or unseen[i]:
            region[i] = whole_table
        r = region[i]
        for j in range(len(categorical)):
            x = table[i * row_step + j * column_step]
            if x < low[r, j] or x > high[r, j]:
                outside[i] = True
                delta = max((low[r, j] - x) / below[r, j], (x - high[r, j]) / above[r, j])
                delta = min(delta, max_delta)
                walk[i] += delta * growth[j]
                distance[i] += delta * delta * (growth[j] / largest_growth)


@kernel(error_model="numpy")
def _squash(table, row_step, column_step, start, n, columns, centre, scale, largest, squashed):  # type: ignore[no-untyped-def]
    """Columns in units of their scale, log-transformed; 0 for missing values and constant columns."""
    width = len(columns)
    one = np.float32(1.0)
    for i in range(n):
        for j in range(width):
            units = (table[(start + i) * row_step + columns[j] * column_step] - centre[j]) / scale[j]
            size = np.float32(min(abs(units), largest))
            log = np.float32(math.log(size + one))
            # The only number that is not equal to itself is NaN.
            squashed[i * width + j] = np.float32(0.0) if units != units else (log if units > 0 else -log)


@kernel()
def write_coordinates(  # type: ignore[no-untyped-def]
    table, row_step, column_step, start, stop, columns, centre, scale, largest, whitening, n_panels, coordinates
):  # fmt: skip
    """Whitened coordinates of rows from ``start`` to ``stop``, flat, with the width of whole panels."""
    width = len(columns)
    step, unlimited = n_panels * PANEL, np.float32(-np.inf)
    squashed = np.empty(CHUNK * width, np.float32)
    for first in range(start, stop, CHUNK):
        n = min(CHUNK, stop - first)
        _squash(table, row_step, column_step, first, n, columns, centre, scale, largest, squashed)
        to = coordinates[(first - start) * step :]
        dense(squashed, n, width, whitening, 0, width, n_panels, unlimited, to, step)


@kernel()
def write_nearest(coordinates, n, width, points, n_panels, near, distance):  # type: ignore[no-untyped-def]
    """Distance of each row to the nearest of the points; 0 as soon as a point is not farther than ``near``.

    The panels of the points are multiplied one after the other: their weights are the points, their biases minus half
    of the squared norms.
    """
    step = (width + PANEL - 1) // PANEL * PANEL
    size, unlimited = (width + 1) * PANEL, np.float32(-np.inf)
    product = np.empty(CHUNK * PANEL, np.float32)
    for first in range(0, n, CHUNK):
        m = min(CHUNK, n - first)
        dense(coordinates[first * step :], m, step, points, 0, width, 1, unlimited, product, PANEL)
        for i in range(m):
            row = (first + i) * step
            squares = 0.0
            for j in range(width):
                squares += np.float64(coordinates[row + j]) * np.float64(coordinates[row + j])
            best = product[i * PANEL]
            for k in range(1, PANEL):
                best = max(best, product[i * PANEL + k])
            found = math.sqrt(max(squares - 2.0 * best, 0.0))
            panel = 1
            while found > near and panel < n_panels:
                multiply_row(coordinates, row, step, points, panel * size, width, unlimited, product, i * PANEL, 0)
                for k in range(PANEL):
                    best = max(best, product[i * PANEL + k])
                found = math.sqrt(max(squares - 2.0 * best, 0.0))
                panel += 1
            distance[first + i] = found if found > near else 0.0
