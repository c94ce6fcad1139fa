"""Kernels that train a quantile network: steps of AdamW on mini-batches, and the validation loss.

A step has two parts, each divided into pieces that are computed one after the other or by several threads, with the
same bits: the rows of the batch go forward and back in fixed groups, and the weights are updated in fixed blocks, each
by the gradient of all rows of the batch. So no sum depends on the number of threads.

The first layer is never multiplied with piecewise linear codes. What a column adds to the first layer is a piecewise
linear function of the column, so it suffices to know it at the edges of the bins: a row reads two lines of a table, and
its gradient is added to two lines. Everything else is matrix products by BLAS, and loops that the compiler turns into
vector code, for which each needs flat arrays that begin at 0.
"""

# mypy: disable-error-code="no-untyped-def"

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usnrt.nn._machine import part, product, wait_for_all
from usnrt.utils.jit import helper, kernel

_ZERO, _HALF, _ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
# Of Adam.
BETA1, BETA2, EPSILON = np.float32(0.9), np.float32(0.999), np.float32(1e-8)
# Inputs of a layer whose weights are updated together.
BLOCK = 64
# Positions of the weights, both moments of Adam and the averaged weights in the state.
WEIGHTS, FIRST, SECOND, AVERAGE = range(4)
# contract: fused multiplications and additions; nsz, arcp: signs of zeros, and division by multiplication
VECTOR = {"error_model": "numpy", "fastmath": {"contract", "nsz", "arcp"}}


class Net(NamedTuple):
    """The network, and where its parts are in a vector of weights.

    Attributes
    ----------
    sizes, weight, bias : ndarray of int
        Units of each layer, and where its weights and its bias begin.
    kept : ndarray of int
        Inputs that the network gets as they are, clipped to ``limit``; the guides follow.
    n_plain, n_columns, n_bins : int
        Numbers of inputs as they are and of guides together, of encoded columns, and of the bins of each.
    used : ndarray of int of shape (n_columns,)
        Bins that are used.
    """

    sizes: NDArray[np.int64]
    weight: NDArray[np.int64]
    bias: NDArray[np.int64]
    kept: NDArray[np.int64]
    limit: float
    n_plain: int
    n_columns: int
    n_bins: int
    used: NDArray[np.int64]


class Table(NamedTuple):
    """Rows as the network reads them.

    Attributes
    ----------
    bins, share : ndarray of shape (n, n_columns), uint8 and float32
        Bin of each encoded column, and how far the number is from its lower edge to the upper one, from 0 to 1.
    inputs, guides : ndarray of shape (n, n_inputs) and (n, n_guides), float32
    target, weight : ndarray of shape (n,), float32
    """

    bins: NDArray[np.uint8]
    share: NDArray[np.float32]
    inputs: NDArray[np.float32]
    guides: NDArray[np.float32]
    target: NDArray[np.float32]
    weight: NDArray[np.float32]


class Loss(NamedTuple):
    """Constants of the pinball loss, see `usnrt.nn.quantiles`."""

    levels: NDArray[np.float32]
    shares: NDArray[np.float32]
    gaps: NDArray[np.float32]
    scale_limit: float
    stretch_limit: float


class Rates(NamedTuple):
    """Settings of the steps, see `usnrt.nn.train.Training`.

    Attributes
    ----------
    n_before, n_total : int
        Steps before these, and of the whole training.
    guide_dropout : float
    seed : int
        Of the dropout.
    """

    learning_rate: float
    decays_to_zero: bool
    weight_decay: float
    average: float
    n_before: int
    n_total: int
    guide_dropout: float
    seed: int


class Work(NamedTuple):
    """Memory of the steps.

    Attributes
    ----------
    tables : ndarray of shape (n_columns * (n_bins + 1) * n_units,)
        What each column adds to the first layer at the edges of its bins.
    plain : ndarray of shape (n_rows * n_plain,)
        Inputs of the batch that are not encoded.
    outputs, slopes : ndarray
        Of all layers: outputs after the activation and its derivatives, then gradients.
    starts : ndarray of int
        Where each layer begins in these.
    spare : ndarray of shape (n_threads, size)
    loss : ndarray of shape (n_groups,)
    components : ndarray of shape (n_lines * n_lines,)
        Principal components of the encoded inputs, as columns; empty to do without.
    gradient : ndarray of shape (n_lines * n_units,)
        Of the first layer, if there are components.
    """

    tables: NDArray[np.float32]
    plain: NDArray[np.float32]
    outputs: NDArray[np.float32]
    slopes: NDArray[np.float32]
    starts: NDArray[np.int64]
    spare: NDArray[np.float32]
    loss: NDArray[np.float64]
    components: NDArray[np.float32]
    gradient: NDArray[np.float32]


@helper()
def _clipped(value, limit):
    return limit if value > limit else -limit if value < -limit else value


@helper()
def fill_zero(out):
    for i in range(len(out)):
        out[i] = _ZERO


# -- the encoded part of the first layer ------------------------------------------------------------------------------


@kernel()
def locate_bins(x, columns, slope, offset, used, bins, share):
    """Write the bin of each encoded number, and how far the number is from its lower edge, from 0 to 1."""
    for i in range(x.shape[0]):
        for j in range(len(columns)):
            value = x[i, columns[j]]
            k = 0
            while k < used[j] - 1 and value * slope[j, k] + offset[j, k] >= _HALF:
                k += 1
            inside = value * slope[j, k] + offset[j, k]
            bins[i, j] = k
            share[i, j] = _HALF + _clipped(inside, _HALF)


@helper(**VECTOR)
def tabulate(weights, used, n_units, table):
    """Write what a column adds to the first layer at the edges of its bins: their codes are -1/2 below, 1/2 above."""
    lowest = part(table, 0, n_units)
    fill_zero(lowest)
    for k in range(used):
        line = part(weights, k * n_units, n_units)
        for u in range(n_units):
            lowest[u] -= _HALF * line[u]
    for k in range(used):
        line, lower = part(weights, k * n_units, n_units), part(table, k * n_units, n_units)
        upper = part(table, (k + 1) * n_units, n_units)
        for u in range(n_units):
            upper[u] = lower[u] + line[u]


@helper(**VECTOR)
def add_columns(table, rows, tables, n_edges, n_units, out):
    """Add what the encoded columns contribute to the first layer of some rows."""
    for i in range(len(rows)):
        row, line = rows[i], part(out, i * n_units, n_units)
        for j in range(table.bins.shape[1]):
            upper_share = table.share[row, j]
            lower_share = _ONE - upper_share
            at = (j * n_edges + table.bins[row, j]) * n_units
            lower, upper = part(tables, at, n_units), part(tables, at + n_units, n_units)
            for u in range(n_units):
                line[u] += lower_share * lower[u] + upper_share * upper[u]


@helper(**VECTOR)
def column_gradient(table, rows, column, used, n_units, slopes, gradient):
    """Write the gradient of the weights of a column's bins, from that of the first layer; unused bins have none."""
    n_edges = len(gradient) // n_units - 1
    fill_zero(gradient)
    for i in range(len(rows)):
        upper_share = table.share[rows[i], column]
        lower_share = _ONE - upper_share
        at = table.bins[rows[i], column] * n_units
        lower, upper = part(gradient, at, n_units), part(gradient, at + n_units, n_units)
        own = part(slopes, i * n_units, n_units)
        for u in range(n_units):
            lower[u] += lower_share * own[u]
            upper[u] += upper_share * own[u]
    # From edges to bins, whose codes are -1/2 at the edges below them and 1/2 above: half of the sum over all edges,
    # less the sum over those below.
    rest = part(gradient, n_edges * n_units, n_units)
    for k in range(n_edges):
        line = part(gradient, k * n_units, n_units)
        for u in range(n_units):
            rest[u] += _HALF * line[u]
    for k in range(n_edges - 1):
        line = part(gradient, k * n_units, n_units)
        if k >= used:
            fill_zero(line)
        else:
            for u in range(n_units):
                rest[u] -= line[u]
                line[u] = rest[u]


# -- rows: forward, loss, back ----------------------------------------------------------------------------------------


@helper(**VECTOR)
def _activate(values, slopes):
    """Apply x / 2 (1 + x / sqrt(4 + x²)), and write its derivative."""
    four, eight = np.float32(4.0), np.float32(8.0)
    for i in range(len(values)):
        x = values[i]
        inverse = _ONE / np.sqrt(four + x * x)
        ratio = x * inverse
        slopes[i] = _HALF + _HALF * ratio * (eight + x * x) * inverse * inverse
        values[i] = _HALF * x * (_ONE + ratio)


@helper(**VECTOR)
def _fill(line, n_rows, out):
    """Write a line to every row."""
    n = len(line)
    for i in range(n_rows):
        row = part(out, i * n, n)
        for u in range(n):
            row[u] = line[u]


@helper(**VECTOR)
def _multiply(values, factors):
    for i in range(len(values)):
        values[i] *= factors[i]


@helper()
def is_dropped(seed, step, number, share):
    """Whether something is dropped in a step: a hash of all three numbers (splitmix64) is below the share."""
    z = np.uint64(seed) + np.uint64(step) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(number) * np.uint64(0xD1B54A32D192ED03)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53 < share


@helper()
def read_plain(net, table, rows, plain):
    """Copy the inputs that are not encoded, and the guides."""
    limit, n_kept = np.float32(net.limit), len(net.kept)
    for i in range(len(rows)):
        row, line = rows[i], part(plain, i * net.n_plain, net.n_plain)
        for c in range(n_kept):
            line[c] = _clipped(table.inputs[row, net.kept[c]], limit)
        for c in range(table.guides.shape[1]):
            line[n_kept + c] = _clipped(table.guides[row, c], limit)


@helper()
def _drop_guides(net, table, rows, step, rates, plain):
    """Set the guides of a share of the rows to 0."""
    n_guides = table.guides.shape[1]
    for i in range(len(rows)):
        if n_guides > 0 and is_dropped(rates.seed, step, rows[i], rates.guide_dropout):
            for c in range(net.n_plain - n_guides, net.n_plain):
                plain[i * net.n_plain + c] = _ZERO


@helper()
def _forward(net, weights, work, table, rows, first):
    """Outputs of all layers for some rows, which take the places from ``first`` on in the memory of a batch."""
    n = len(rows)
    for layer in range(len(net.sizes)):
        n_units = net.sizes[layer]
        begin = work.starts[layer] + first * n_units
        out = part(work.outputs, begin, n * n_units)
        _fill(part(weights, net.bias[layer], n_units), n, out)
        if layer == 0:
            add_columns(table, rows, work.tables, net.n_bins + 1, n_units, out)
        before, n_inputs = (work.plain, net.n_plain) if layer == 0 else (work.outputs, net.sizes[layer - 1])
        at = first * n_inputs if layer == 0 else work.starts[layer - 1] + first * n_inputs
        if n_inputs > 0:
            product(
                False, False, n, n_units, n_inputs, before, at, n_inputs, weights, net.weight[layer], n_units,
                _ONE, work.outputs, begin, n_units,
            )  # fmt: skip
        if layer < len(net.sizes) - 1:
            _activate(out, part(work.slopes, begin, n * n_units))


@helper()
def _pinball(outputs, table, rows, factor, loss, gradient):
    """Sum of the weighted `usnrt.experts.refine.pinball_losses` of some rows, and its gradient by the outputs."""
    n_positions = len(loss.levels)
    median, n_outputs = n_positions // 2, n_positions + 1
    steps, slopes = np.empty(n_positions - 1, np.float32), np.empty(n_positions, np.float32)
    quantiles, total = np.empty(n_positions, np.float32), 0.0
    scale_limit, stretch_limit = np.float32(loss.scale_limit), np.float32(loss.stretch_limit)
    for i in range(len(rows)):
        target, weight = table.target[rows[i]], np.float32(table.weight[rows[i]] * factor)
        own, out = part(outputs, i * n_outputs, n_outputs), part(gradient, i * n_outputs, n_outputs)
        scale = np.exp(_clipped(own[1], scale_limit))
        for k in range(n_positions - 1):
            steps[k] = scale * loss.gaps[k] * np.exp(_clipped(own[k + 2], stretch_limit))
        quantiles[median] = scale * own[0]
        for k in range(median, n_positions - 1):
            quantiles[k + 1] = quantiles[k] + steps[k]
        for k in range(median, 0, -1):
            quantiles[k - 1] = quantiles[k] - steps[k - 1]
        value, of_median = _ZERO, _ZERO
        for k in range(n_positions):
            distance = target - quantiles[k]
            slope = loss.levels[k] if distance > 0 else loss.levels[k] - _ONE
            value += loss.shares[k] * slope * distance
            slopes[k] = -weight * loss.shares[k] * slope
            of_median += slopes[k]
        total += np.float64(value) * np.float64(weight)
        # a step moves all quantiles on its side of the median, from itself on
        beyond = _ZERO
        for k in range(n_positions - 2, median - 1, -1):
            beyond += slopes[k + 1]
            out[k + 2] = steps[k] * beyond
        beyond = _ZERO
        for k in range(median):
            beyond += slopes[k]
            out[k + 2] = -steps[k] * beyond
        of_scale = quantiles[median] * of_median
        for k in range(n_positions - 1):
            of_scale += out[k + 2]
            if abs(own[k + 2]) > stretch_limit:
                out[k + 2] = _ZERO
        out[0] = scale * of_median
        out[1] = of_scale if abs(own[1]) <= scale_limit else _ZERO
    return total


@helper()
def _back(net, weights, work, first, n, spare):
    """Turn the derivatives of all layers but the last one into gradients, from the last layer back."""
    for layer in range(len(net.sizes) - 1, 0, -1):
        n_units, n_inputs = net.sizes[layer], net.sizes[layer - 1]
        product(
            False, True, n, n_inputs, n_units, work.slopes, work.starts[layer] + first * n_units, n_units,
            weights, net.weight[layer], n_units, _ZERO, spare, 0, n_inputs,
        )  # fmt: skip
        begin = work.starts[layer - 1] + first * n_inputs
        _multiply(part(work.slopes, begin, n * n_inputs), spare)


# -- weights ----------------------------------------------------------------------------------------------------------


@helper()
def _pace(rates, step):
    """Step size, weight decay, decay of the average, and corrections of both moments of Adam in a step."""
    rate = rates.learning_rate
    if rates.decays_to_zero:
        rate *= 0.5 * (1.0 + np.cos(np.pi * step / rates.n_total))
    # Early in training the decay is smaller, so that the initial weights are forgotten faster.
    average = min(rates.average, (1.0 + step) / (10.0 + step))
    first = 1.0 / (1.0 - np.float64(BETA1) ** (step + 1))
    second = 1.0 / (1.0 - np.float64(BETA2) ** (step + 1))
    return np.float32(rate), np.float32(rates.weight_decay), np.float32(average), np.float32(first), np.float32(second)


@helper(**VECTOR)
def scale(state, start, gradient, pace):
    """Update both moments of Adam of consecutive weights, and turn the gradient into an update."""
    n, size = len(gradient), len(state) // 4
    first, second = part(state, FIRST * size + start, n), part(state, SECOND * size + start, n)
    _, _, _, correct_first, correct_second = pace
    for i in range(n):
        first[i] = BETA1 * first[i] + (_ONE - BETA1) * gradient[i]
        second[i] = BETA2 * second[i] + (_ONE - BETA2) * gradient[i] * gradient[i]
        gradient[i] = first[i] * correct_first / (np.sqrt(second[i] * correct_second) + EPSILON)


@helper(**VECTOR)
def apply(state, start, update, pace):
    """Subtract an update and the decay from consecutive weights; the averaged weights follow."""
    n, size = len(update), len(state) // 4
    weights, averaged = part(state, WEIGHTS * size + start, n), part(state, AVERAGE * size + start, n)
    rate, decay, keep, _, _ = pace
    for i in range(n):
        weights[i] -= rate * (update[i] + decay * weights[i])
        averaged[i] = keep * averaged[i] + (_ONE - keep) * weights[i]


@helper(**VECTOR)
def _sum_rows(values, n_rows, out):
    n = len(out)
    fill_zero(out)
    for i in range(n_rows):
        row = part(values, i * n, n)
        for u in range(n):
            out[u] += row[u]


@helper()
def _update(net, state, work, table, rows, pace, spare, thread, n_threads):
    """Update every ``n_threads``-th block of weights: some inputs of a layer, a bias, or the bins of a column."""
    n, number, n_units = len(rows), 0, net.sizes[0]
    is_turned = len(work.components) > 0
    for layer in range(len(net.sizes)):
        n_out, slopes = net.sizes[layer], work.starts[layer]
        n_inputs = net.n_plain if layer == 0 else net.sizes[layer - 1]
        for start in range(0, n_inputs + 1, BLOCK):  # the bias is one more input, which is always 1
            number += 1
            if number % n_threads != thread:
                continue
            n_here = min(BLOCK, n_inputs - start)
            before, begin = (work.plain, start) if layer == 0 else (work.outputs, work.starts[layer - 1] + start)
            gradient, at = part(spare, 0, n_here * n_out), net.weight[layer] + start * n_out
            if n_here > 0:
                product(
                    True, False, n_here, n_out, n, before, begin, n_inputs, work.slopes, slopes, n_out,
                    _ZERO, gradient, 0, n_out,
                )  # fmt: skip
                _learn(state, work, at, gradient, layer == 0 and is_turned, pace)
            if start + BLOCK > n_inputs:
                gradient = part(spare, 0, n_out)
                _sum_rows(part(work.slopes, slopes, n * n_out), n, gradient)
                _learn(state, work, net.bias[layer], gradient, False, pace)
    for column in range(net.n_columns):
        number += 1
        if number % n_threads != thread:
            continue
        gradient = part(spare, 0, (net.n_bins + 2) * n_units)
        column_gradient(table, rows, column, net.used[column], n_units, work.slopes, gradient)
        at = (net.n_plain + column * net.n_bins) * n_units
        _learn(state, work, at, part(gradient, 0, net.n_bins * n_units), is_turned, pace)
        if not is_turned:
            _write_table(net, state, column, work.tables)


@helper()
def _learn(state, work, at, gradient, is_turned, pace):
    """A step of AdamW for consecutive weights, or keep their gradient, which is to be turned first."""
    if is_turned:
        kept = part(work.gradient, at, len(gradient))
        for i in range(len(gradient)):
            kept[i] = gradient[i]
    else:
        scale(state, at, gradient, pace)
        apply(state, at, gradient, pace)


@helper()
def _write_table(net, weights, column, tables):
    """What a column adds to the first layer with these weights."""
    n_units = net.sizes[0]
    at, size = (net.n_plain + column * net.n_bins) * n_units, (net.n_bins + 1) * n_units
    tabulate(part(weights, at, net.n_bins * n_units), net.used[column], n_units, part(tables, column * size, size))


@helper()
def _update_along(net, state, work, pace, spare, thread, n_threads):
    """Update the weights of some units of the first layer: Adam scales their gradient along the components."""
    n_units, n_lines = net.sizes[0], net.n_plain + net.n_columns * net.n_bins
    for number in range(-(-n_units // BLOCK)):
        if number % n_threads != thread:
            continue
        start = number * BLOCK
        n_here = min(BLOCK, n_units - start)
        turned, update = part(spare, 0, n_lines * n_here), part(spare, n_lines * n_here, n_lines * n_here)
        product(
            True, False, n_lines, n_here, n_lines, work.components, 0, n_lines, work.gradient, start, n_units,
            _ZERO, turned, 0, n_here,
        )  # fmt: skip
        for line in range(n_lines):
            scale(state, line * n_units + start, part(turned, line * n_here, n_here), pace)
        product(
            False, False, n_lines, n_here, n_lines, work.components, 0, n_lines, turned, 0, n_here,
            _ZERO, update, 0, n_here,
        )  # fmt: skip
        for line in range(n_lines):
            apply(state, line * n_units + start, part(update, line * n_here, n_here), pace)


# -- batches ----------------------------------------------------------------------------------------------------------


@kernel()
def run_batches(net, state, table, order, trains, sizes, rates, loss, work, gate, thread, n_threads):
    """The sum of the losses of rows by their weights, batch by batch; with ``trains``, a step follows each batch.

    All threads call it with the same arguments but their number. ``sizes`` are the rows of a batch, and of its groups
    that go forward and back together. In a step the weights of a batch sum to the number of its rows. Without steps,
    only the weights of the state count.
    """
    spare, total, last = work.spare[thread], 0.0, len(net.sizes) - 1
    n_outputs, (batch_size, group_size) = net.sizes[last], sizes
    for column in range(thread, net.n_columns, n_threads):
        _write_table(net, state, column, work.tables)
    for begin in range(0, len(order), batch_size):
        n, step = min(batch_size, len(order) - begin), rates.n_before + begin // batch_size
        rows, n_groups = part(order, begin, n), -(-n // group_size)
        factor = 1.0
        if trains:
            sum_of_weights = 0.0
            for i in range(n):
                sum_of_weights += table.weight[rows[i]]
            factor = 1.0 / sum_of_weights
        wait_for_all(gate, n_threads)
        for group in range(thread, n_groups, n_threads):
            first = group * group_size
            n_here = min(group_size, n - first)
            own, out = part(rows, first, n_here), work.starts[last] + first * n_outputs
            plain = part(work.plain, first * net.n_plain, n_here * net.n_plain)
            read_plain(net, table, own, plain)
            if trains:
                _drop_guides(net, table, own, step, rates, plain)
            _forward(net, state, work, table, own, first)
            slopes = part(work.slopes, out, n_here * n_outputs)
            work.loss[group] = _pinball(part(work.outputs, out, n_here * n_outputs), table, own, factor, loss, slopes)
            if trains:
                _back(net, state, work, first, n_here, spare)
        wait_for_all(gate, n_threads)
        for group in range(n_groups):
            total += (n if trains else 1.0) * work.loss[group]
        if not trains:
            continue
        pace = _pace(rates, step)
        _update(net, state, work, table, rows, pace, spare, thread, n_threads)
        if len(work.components) > 0:
            wait_for_all(gate, n_threads)
            _update_along(net, state, work, pace, spare, thread, n_threads)
            wait_for_all(gate, n_threads)
            for column in range(thread, net.n_columns, n_threads):
                _write_table(net, state, column, work.tables)
    return total
