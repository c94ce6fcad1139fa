"""Kernels of the search for similar rows. Each row is processed on its own, so its bits do not depend on the others."""

import math

import numpy as np

from usnrt.nn._layers import CHUNK, PANEL, ROWS, dense
from usnrt.utils.jit import kernel

LARGEST = np.float32(np.finfo(np.float32).max)
# Squared distances below this share of the squared norm are computed again, from differences.
NEAR = 1e-3
# Queries that are processed together.
QUERIES = 768


@kernel(fastmath={"reassoc", "nnan", "nsz"})
def _smallest(values):  # type: ignore[no-untyped-def]
    smallest = values[0]
    for m in range(len(values)):
        smallest = min(smallest, values[m])
    return smallest


@kernel()
def _bound(values, k):  # type: ignore[no-untyped-def]
    """The largest of the first ``k`` finite values: the k-th smallest of all is not larger."""
    largest, n_finite = -LARGEST, 0
    for m in range(len(values)):
        if values[m] <= LARGEST:
            largest = max(largest, values[m])
            n_finite += 1
            if n_finite == k:
                break
    return largest


@kernel(fastmath={"reassoc"})
def _count(values, limit):  # type: ignore[no-untyped-def]
    """Number of values that are at most ``limit``; as a float32, which needs no conversions."""
    total = np.float32(0.0)
    for m in range(len(values)):
        total += np.float32(1.0) if values[m] <= limit else np.float32(0.0)
    return total


@kernel()
def _select(values, k, chosen):  # type: ignore[no-untyped-def]
    """Write the indices of the ``k`` smallest values, of equal ones the first, and return how many there are.

    Infinite values are never chosen. The k-th smallest is found by bisection: counting takes no branches, so it is
    faster than sorting.
    """
    low, high = _smallest(values), _bound(values, k)
    if low > LARGEST:
        return 0
    n_low, n_high = _count(values, low), _count(values, high)
    if n_low >= k or low == high:
        high, n_high, low, n_low = low, n_low, np.float32(-np.inf), np.float32(0.0)
    while n_high > k:
        middle = low * np.float32(0.5) + high * np.float32(0.5)
        if not low < middle < high:
            break
        count = _count(values, middle)
        if count >= k:
            high, n_high = middle, count
        else:
            low, n_low = middle, count
    n_chosen = 0
    if n_high <= k:
        for m in range(len(values)):
            chosen[n_chosen] = m
            n_chosen += values[m] <= high
        return n_chosen
    n_equal = k - int(n_low)  # all values between low and high are equal, and not all are needed
    for m in range(len(values)):
        if values[m] <= low:
            chosen[n_chosen] = m
            n_chosen += 1
        elif values[m] <= high and n_equal > 0:
            chosen[n_chosen] = m
            n_chosen += 1
            n_equal -= 1
    return n_chosen


@kernel()
def _squared_distance(query, panels, start, n_dims):  # type: ignore[no-untyped-def]
    """Squared distance of a query to one row of a cell, without cancellation."""
    total = np.float32(0.0)
    for dim in range(n_dims):
        difference = query[dim] + panels[start + dim * PANEL]  # panels are negative
        total += difference * difference
    return total


@kernel()
def _compare(queries, n_dims, probes, cell_panels, n_panels, n_cells, values):  # type: ignore[no-untyped-def]
    """Write the values of all rows of the probed cells for each query; higher values are farther.

    Cell by cell for all queries that probe it, because reading a cell takes longer than the arithmetic of one query.
    """
    n_pairs, n_probes = probes.size, probes.shape[1]
    cell_of, step, size = probes.ravel(), n_panels * PANEL, n_panels * (n_dims + 1) * PANEL
    ends = np.zeros(n_cells + 1, dtype=np.int64)
    for pair in range(n_pairs):
        ends[cell_of[pair] + 1] += 1
    most = ends.max() + ROWS
    for cell in range(n_cells):
        ends[cell + 1] += ends[cell]
    order, next_at = np.empty(n_pairs, dtype=np.int64), ends[:-1].copy()
    for pair in range(n_pairs):
        order[next_at[cell_of[pair]]] = pair
        next_at[cell_of[pair]] += 1
    x, product = np.zeros(most * n_dims, dtype=np.float32), np.empty(most * step, dtype=np.float32)
    for cell in range(n_cells):
        pairs = order[ends[cell] : ends[cell + 1]]
        if len(pairs) == 0:
            continue
        for at in range(len(pairs)):
            row = pairs[at] // n_probes
            for dim in range(n_dims):
                x[at * n_dims + dim] = queries[row, dim]
        # rounded up to whole groups of rows, which are faster than single rows
        n_rows = (len(pairs) + ROWS - 1) // ROWS * ROWS
        dense(x, n_rows, n_dims, cell_panels, cell * size, n_dims, n_panels, np.float32(-np.inf), product, step)
        for at in range(len(pairs)):
            to = pairs[at] * step
            for m in range(step):
                values[to + m] = product[at * step + m]


@kernel()
def _choose(query, skipped, owner, cells, cell_panels, n_panels, cell_size, values, chosen, positions, distances):  # type: ignore[no-untyped-def]
    """Write the nearest rows of one query."""
    n_dims, step = len(query), n_panels * PANEL
    if skipped >= 0:
        for c in range(len(cells)):
            for place in range(cell_size):
                if owner[cells[c] * cell_size + place] == skipped:
                    values[c * step + place] = np.inf
    squares = np.float32(0.0)
    for dim in range(n_dims):
        squares += query[dim] * query[dim]
    n_chosen = _select(values, len(positions), chosen)
    for at in range(len(positions)):
        positions[at], distances[at] = -1, np.inf
        if at < n_chosen:
            c, place = chosen[at] // step, chosen[at] % step
            square = squares + np.float32(2.0) * values[chosen[at]]
            if square < np.float32(NEAR) * squares:
                panel = cells[c] * n_panels + place // PANEL
                start = panel * (n_dims + 1) * PANEL + PANEL + place % PANEL
                square = _squared_distance(query, cell_panels, start, n_dims)
            positions[at] = cells[c] * cell_size + place
            distances[at] = math.sqrt(max(square, np.float32(1e-6)))


@kernel()
def nearest_rows(  # type: ignore[no-untyped-def]
    queries, skipped, owner, centre_panels, n_cells, cell_panels, n_panels, cell_size, n_probes, positions, distances
):  # fmt: skip
    """The nearest rows of each query, among those of the cells with the nearest centres, in no particular order.

    Places whose ``owner`` is the ``skipped`` one of a query are not found; -1 skips nothing. ``centre_panels`` and
    ``cell_panels`` are those of `usnrt.memory.retrieval.Retrieval`. Writes positions and distances of shape (n, k); -1
    and infinity where fewer rows were found.
    """
    n, n_dims = queries.shape
    flat, n_probes, step = queries.ravel(), min(n_probes, n_cells), n_panels * PANEL
    n_centre_panels = (n_cells + PANEL - 1) // PANEL
    width = n_centre_panels * PANEL
    to_centres = np.empty(CHUNK * width, dtype=np.float32)
    values = np.empty(min(n, QUERIES) * n_probes * step, dtype=np.float32)
    chosen = np.empty(max(n_probes * step, width) + 1, dtype=np.int64)
    probes = np.empty((min(n, QUERIES), n_probes), dtype=np.int64)
    for start in range(0, n, QUERIES):
        stop = min(start + QUERIES, n)
        for first in range(start, stop, CHUNK):
            m = min(CHUNK, stop - first)
            dense(
                flat[first * n_dims :], m, n_dims, centre_panels, 0, n_dims, n_centre_panels, np.float32(-np.inf),
                to_centres, width,
            )  # fmt: skip
            for i in range(m):
                n_chosen = _select(to_centres[i * width : (i + 1) * width], n_probes, chosen)
                for at in range(n_probes):  # fewer only if distances are not finite
                    probes[first - start + i, at] = chosen[at] if at < n_chosen else 0
        some = probes[: stop - start]
        _compare(queries[start:stop], n_dims, some, cell_panels, n_panels, n_cells, values)
        for i in range(stop - start):
            _choose(
                queries[start + i], skipped[start + i], owner, some[i], cell_panels, n_panels, cell_size,
                values[i * n_probes * step : (i + 1) * n_probes * step], chosen,
                positions[start + i], distances[start + i],
            )  # fmt: skip


@kernel(error_model="numpy")
def weighted_summaries(positions, distances, target, log_weight, levels, weights, mean, quantiles, density):  # type: ignore[no-untyped-def]
    """Mean, quantiles and log density of the targets of the nearest rows, weighted by softmax(log_weight - distance).

    Writes the weights too, which sum to 1. Quantiles interpolate between the midpoints of the cumulative weights.
    """
    n, k = positions.shape
    ordered, share = np.empty(k), np.empty(k)
    for row in range(n):
        n_found, largest = 0, -np.inf
        for at in range(k):
            if positions[row, at] < 0:
                break
            n_found += 1
            largest = max(largest, log_weight[positions[row, at]] - distances[row, at])
        total, first_moment = 0.0, 0.0
        for at in range(n_found):
            position = positions[row, at]
            value, weight = target[position], np.exp(log_weight[position] - distances[row, at] - largest)
            weights[row, at] = weight
            total += weight
            first_moment += weight * value
            place = at
            while place > 0 and ordered[place - 1] > value:
                ordered[place], share[place] = ordered[place - 1], share[place - 1]
                place -= 1
            ordered[place], share[place] = value, weight
        mean[row] = first_moment / total
        density[row] = np.log(total) + largest
        for at in range(k):
            weights[row, at] = weights[row, at] / total if at < n_found else 0.0
        passed, level, before, value = 0.0, 0, -1.0, ordered[0]
        for at in range(n_found):
            middle = (passed + 0.5 * share[at]) / total
            while level < len(levels) and levels[level] <= middle:
                if before < 0.0:
                    quantiles[row, level] = ordered[at]
                else:
                    fraction = (levels[level] - before) / max(middle - before, 1e-300)
                    quantiles[row, level] = value + fraction * (ordered[at] - value)
                level += 1
            before, value = middle, ordered[at]
            passed += share[at]
        while level < len(levels):
            quantiles[row, level] = value
            level += 1
