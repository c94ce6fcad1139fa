"""Numba kernels for quantile functions, one row at a time; `usnrt.nn.quantile_functions` describes their arguments."""

import math

import numpy as np

from usnrt.utils.jit import kernel


@kernel()
def write_quantiles(outputs, first, gaps, scale_limit, stretch_limit, median, quantiles):  # type: ignore[no-untyped-def]
    """Quantiles of network outputs, see `usnrt.nn.quantiles.to_quantiles`; ``first`` is the first column to use."""
    n_positions = len(gaps) + 1
    for i in range(len(outputs)):
        scale = math.exp(min(max(outputs[i, first + 1], -scale_limit), scale_limit))
        centre = scale * outputs[i, first]
        quantiles[i, median] = centre
        total = 0.0
        for j in range(median, n_positions - 1):
            stretch = min(max(outputs[i, first + 2 + j], -stretch_limit), stretch_limit)
            total += scale * gaps[j] * math.exp(stretch)
            quantiles[i, j + 1] = centre + total
        total = 0.0
        for j in range(median - 1, -1, -1):
            stretch = min(max(outputs[i, first + 2 + j], -stretch_limit), stretch_limit)
            total += scale * gaps[j] * math.exp(stretch)
            quantiles[i, j] = centre - total


@kernel()
def refine_quantiles(  # type: ignore[no-untyped-def]
    leaf, mean, quantiles, mean_weights, blend, low, high, median, spread_share, log_half_width, location_share,
    low_end, high_end
):  # fmt: skip
    """Blend the means and refine the quantile functions in place, see `usnrt.experts.refine.Refinement`."""
    n_positions = quantiles.shape[1]
    for i in range(len(quantiles)):
        row = quantiles[i]
        centre, own_mean = row[median], 0.0
        for j in range(n_positions):
            own_mean += row[j] * mean_weights[j]
        mean[i] += blend * (own_mean - mean[i])
        region = leaf[i]
        half_width = max((row[high] - row[low]) / 2.0, 1e-30)
        stretch = 1.0
        if spread_share[region] != 0.0:
            stretch = math.exp(spread_share[region] * (log_half_width[region] - math.log(half_width)))
        # The mean is linear in the quantiles, and its weights sum to 1.
        shift = location_share[region] * (mean[i] - (centre + stretch * (own_mean - centre)))
        for j in range(n_positions):
            row[j] = min(max(centre + stretch * (row[j] - centre) + shift, low_end), high_end)


@kernel(error_model="numpy")
def write_values(knots, positions, z, values):  # type: ignore[no-untyped-def]
    """Values of each row's quantile function at its positions ``z``."""
    last = len(positions) - 2
    for i in range(len(knots)):
        for k in range(z.shape[1]):
            segment = 0
            for j in range(1, last + 1):
                segment += positions[j] <= z[i, k]
            fraction = (z[i, k] - positions[segment]) / (positions[segment + 1] - positions[segment])
            height = min(max(knots[i, segment + 1] - knots[i, segment], TINY), LARGEST)
            values[i, k] = knots[i, segment] + height * fraction


@kernel()
def write_group_values(knots, group, segment, fraction, values):  # type: ignore[no-untyped-def]
    """Values of each row's quantile function at the positions of its group, given as segments and fractions."""
    for i in range(len(knots)):
        g = group[i]
        for k in range(segment.shape[1]):
            j = segment[g, k]
            height = min(max(knots[i, j + 1] - knots[i, j], TINY), LARGEST)
            values[i, k] = knots[i, j] + height * fraction[g, k]


@kernel(error_model="numpy")
def write_moments(knots, steps, group, shift, mass, first, second, mean, std):  # type: ignore[no-untyped-def]
    """Mean and standard deviation of each row, given the moments of its group over each segment."""
    n_segments = len(steps)
    slope, at_mean = np.empty(n_segments), np.empty(n_segments)
    for i in range(len(knots)):
        g = group[i]
        # Each segment is the line at_mean + slope * (E - E[E]); in units of the row, so that no square overflows.
        unit = min(max(knots[i, n_segments] - knots[i, 0], TINY), LARGEST)
        middle = knots[i, (n_segments + 1) // 2]
        average = 0.0
        for j in range(n_segments):
            slope[j] = min(max(knots[i, j + 1] - knots[i, j], TINY), LARGEST) / unit / steps[j]
            at_mean[j] = (knots[i, j] - middle) / unit + slope[j] * shift[g, j]
            average += at_mean[j] * mass[g, j] + slope[j] * first[g, j]
        variance = 0.0
        for j in range(n_segments):
            off = at_mean[j] - average
            variance += off * off * mass[g, j] + 2.0 * off * slope[j] * first[g, j] + slope[j] * slope[j] * second[g, j]
        mean[i] = middle + unit * average
        std[i] = unit * math.sqrt(max(variance, 0.0))


@kernel()
def check_rows(knots):  # type: ignore[no-untyped-def]
    """The first row that is not finite (and -1), the first that decreases (and -1)."""
    infinite, decreasing = -1, -1
    for i in range(len(knots)):
        for j in range(knots.shape[1]):
            if not abs(knots[i, j]) <= LARGEST and infinite < 0:
                infinite = i
            if j > 0 and knots[i, j] < knots[i, j - 1] and decreasing < 0:
                decreasing = i
    return infinite, decreasing


TINY, LARGEST = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)
