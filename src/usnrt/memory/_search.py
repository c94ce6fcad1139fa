"""Kernels of the search for similar rows. Each row is processed on its own, so its bits do not depend on the others."""

import numpy as np

from usnrt.utils.jit import kernel


@kernel(fastmath={"contract"})
def squared_distances(query, points, distances):  # type: ignore[no-untyped-def]
    """Squared distances of a query (n_dims,) to points in columns (n_dims, m)."""
    distances[:] = 0.0
    for dim in range(points.shape[0]):
        value = query[dim]
        line = points[dim]
        for m in range(points.shape[1]):
            difference = value - line[m]
            distances[m] += difference * difference


@kernel()
def keep_nearest(distances, first, skipped, kept, kept_at, n_kept):  # type: ignore[no-untyped-def]
    """Insert distances into the sorted list ``kept``, whose positions are counted from ``first``; returns its length.

    The position ``skipped`` is left out, and so are infinite distances.
    """
    size = len(kept)
    for m in range(len(distances)):
        value = distances[m]
        if n_kept == size and value >= kept[size - 1]:
            continue
        if first + m == skipped or value == np.inf:
            continue
        at = n_kept if n_kept < size else size - 1
        while at > 0 and kept[at - 1] > value:
            kept[at] = kept[at - 1]
            kept_at[at] = kept_at[at - 1]
            at -= 1
        kept[at] = value
        kept_at[at] = first + m
        if n_kept < size:
            n_kept += 1
    return n_kept


@kernel()
def nearest_rows(queries, skipped, centres, cells, n_probes, positions, distances):  # type: ignore[no-untyped-def]
    """The nearest rows of each query, among those of the cells with the nearest centres.

    ``cells`` has shape (n_cells, n_dims, cell_size), padded with infinity. Writes positions and distances, sorted, of
    shape (n, k); -1 and infinity where fewer rows were found.
    """
    n_cells, _, cell_size = cells.shape
    k = positions.shape[1]
    to_centres = np.empty(n_cells, dtype=np.float32)
    to_rows = np.empty(cell_size, dtype=np.float32)
    n_probes = min(n_probes, n_cells)
    probe, probe_at = np.empty(n_probes, dtype=np.float32), np.empty(n_probes, dtype=np.int64)
    kept, kept_at = np.empty(k, dtype=np.float32), np.empty(k, dtype=np.int64)
    for row in range(len(queries)):
        squared_distances(queries[row], centres, to_centres)
        n_found = keep_nearest(to_centres, 0, -1, probe, probe_at, 0)
        n_kept = 0
        for cell in range(n_found):
            number = probe_at[cell]
            squared_distances(queries[row], cells[number], to_rows)
            n_kept = keep_nearest(to_rows, number * cell_size, skipped[row], kept, kept_at, n_kept)
        for at in range(k):
            positions[row, at] = kept_at[at] if at < n_kept else -1
            distances[row, at] = np.sqrt(max(kept[at], 1e-6)) if at < n_kept else np.inf


@kernel()
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
