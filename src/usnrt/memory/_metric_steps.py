"""Kernel of learning a metric: steps of Adam on blocks of similar rows.

In a block each row is predicted by the others. Its rows are sorted by their targets, so the predicted probability up to
a threshold is a running sum. All threads share the work of a step, in fixed pieces, so bits do not depend on their
number; see `usnrt.nn._steps`, whose first layer the metric is.
"""

# mypy: disable-error-code="no-untyped-def"

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usnrt.nn._machine import float_of_bits, part, product, wait_for_all
from usnrt.nn._steps import (
    VECTOR,
    add_columns,
    apply,
    column_gradient,
    fill_zero,
    is_dropped,
    read_plain,
    scale,
    tabulate,
)
from usnrt.utils.jit import helper, kernel

_ZERO, _HALF, _ONE, _TWO = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(2.0)
# Squared distances are at least this: the square root has no derivative at 0.
MIN_SQUARE = np.float32(1e-6)
MIN_DISTANCE = np.float32(1.0001e-3)
# Logarithm of a weight that does not count.
NEVER = np.float32(-1e30)
# Sums in any order, which the compiler chooses once and for all; numbers are finite.
SUMS = {"error_model": "numpy", "fastmath": True}
# Numbers between rows of pairs: in columns of 2^k numbers the rows of a tile would share few places of the cache.
PADDING = 16
# Rows of a block that are compared with all of it at a time.
TILE = 64


class Blocks(NamedTuple):
    """Rows of a step that predict each other.

    Attributes
    ----------
    rows : ndarray of int64 of shape (n_steps, n_blocks, size)
        Sorted by the target in each block; -1 fills up short ones.
    own : ndarray of int64 of shape (n,)
        Rows with the same number do not predict each other.
    log_weight : ndarray of shape (n,), float32
    at, gaps : ndarray of shape (n_thresholds,), float32
        Thresholds, and the length of the interval around each.
    """

    rows: NDArray[np.int64]
    own: NDArray[np.int64]
    log_weight: NDArray[np.float32]
    at: NDArray[np.float32]
    gaps: NDArray[np.float32]


class MetricWork(NamedTuple):
    """Memory of the steps, for all rows of a step.

    Attributes
    ----------
    masked, tables : ndarray
        The metric without dropped inputs, and what each column adds to the embedding at the edges of its bins.
    plain, embedded, squares, slopes : ndarray
    pairs : ndarray of shape (n_blocks * size * (size + PADDING),)
        Products of embedded rows, then the derivatives by squared distances.
    spare : ndarray of shape (n_threads, size)
    rows, groups, log_weight : ndarray of shape (n_threads, n_blocks * size), int64, int32 and float32
        Of the rows of a step.
    """

    masked: NDArray[np.float32]
    tables: NDArray[np.float32]
    plain: NDArray[np.float32]
    embedded: NDArray[np.float32]
    squares: NDArray[np.float32]
    slopes: NDArray[np.float32]
    pairs: NDArray[np.float32]
    spare: NDArray[np.float32]
    rows: NDArray[np.int64]
    groups: NDArray[np.int32]
    log_weight: NDArray[np.float32]


@helper(**SUMS)
def _distances(products, square, squares, out):
    """Distances of a row to the rows of its block."""
    for j in range(len(out)):
        out[j] = np.sqrt(max(square + squares[j] - _TWO * products[j], MIN_SQUARE))


@helper(**SUMS)
def _logits(distances, own, group, log_weight, out):
    """Logarithms of the weights of the rows of a block, which are not those of the row itself and its group."""
    for j in range(len(out)):
        value = log_weight[j] - distances[j]
        out[j] = value if group[j] != own else NEVER


@helper(**SUMS)
def _largest(values):
    largest = NEVER
    for j in range(len(values)):
        largest = max(largest, values[j])
    return largest


@helper(**SUMS)
def _exponentials(logits, largest):
    """Write exp(logits - largest), and return the sum."""
    total = _ZERO
    for j in range(len(logits)):
        power = max((logits[j] - largest) * np.float32(1.44269504), np.float32(-120.0))  # of 2
        whole = np.int32(power - _HALF)
        x = (power - np.float32(whole)) * np.float32(0.69314718)
        value = np.float32(1 / 720)
        for factor in (1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0):
            value = value * x + np.float32(factor)
        logits[j] = value * float_of_bits((whole + np.int32(127)) << np.int32(23))
        total += logits[j]
    return total


@helper(**SUMS)
def _part_sum(values, start, stop):
    total = _ZERO
    for j in range(start, stop):
        total += values[j]
    return total


@helper(**SUMS)
def _derivatives(differences, shares, distances, products):
    """Write the derivatives by squared distances."""
    for j in range(len(products)):
        value = differences[j] * shares[j] / distances[j]
        products[j] = value if distances[j] > MIN_DISTANCE else _ZERO


@helper()
def _compare(blocks, i, square, block, ends, weight, products, scratch):
    """Loss of a row that the others of its block predict; its products become derivatives by squared distances.

    ``block`` are the squares, groups and logarithms of weights of its rows, ``ends`` the numbers of rows whose targets
    are at most each threshold. Returns the loss.
    """
    squares, group, log_weight = block
    n, n_thresholds = len(squares), len(blocks.at)
    distances, shares, differences = part(scratch, 0, n), part(scratch, n, n), part(scratch, 2 * n, n)
    _distances(products, square, squares, distances)
    _logits(distances, group[i], group, log_weight, shares)
    largest = _largest(shares)
    if largest == NEVER:  # no other row
        fill_zero(products)
        return _ZERO
    inverse = _ONE / _exponentials(shares, largest)
    slopes, masses = part(scratch, 3 * n, n_thresholds + 1), part(scratch, 3 * n + n_thresholds + 1, n_thresholds + 1)
    below, loss, start = _ZERO, _ZERO, 0
    for k in range(n_thresholds):
        masses[k] = inverse * _part_sum(shares, start, ends[k])
        below, start = below + masses[k], ends[k]
        error = below - (_ONE if i < ends[k] else _ZERO)
        loss += blocks.gaps[k] * error * error
        slopes[k] = _TWO * weight * blocks.gaps[k] * error
    masses[n_thresholds], slopes[n_thresholds] = _ONE - below, _ZERO
    # the probability of a row counts for its own threshold and all later ones
    mean = _ZERO
    for k in range(n_thresholds - 1, -1, -1):
        slopes[k] += slopes[k + 1]
        mean += slopes[k] * masses[k]
    start = 0
    for k in range(n_thresholds + 1):
        stop = ends[k] if k < n_thresholds else n
        difference = _HALF * inverse * (mean - slopes[k])
        for j in range(start, stop):
            differences[j] = difference
        start = stop
    _derivatives(differences, shares, distances, products)
    return weight * loss


@helper(**VECTOR)
def _add_turned(pairs, n, width, first):
    """Add the transpose of a square matrix to the matrix, for some rows and the columns from there on."""
    stop = min(first + TILE, n)
    for low in range(first, n, TILE):
        for i in range(first, stop):
            for j in range(max(low, i + 1), min(low + TILE, n)):
                value = pairs[i * width + j] + pairs[j * width + i]
                pairs[i * width + j] = value
                pairs[j * width + i] = value
    for i in range(first, stop):
        pairs[i * width + i] += pairs[i * width + i]


@helper()
def _embed(net, table, rows, work, first):
    """Embed some rows of a step, which take the places from ``first`` on."""
    n, n_dims = len(rows), net.sizes[0]
    plain = part(work.plain, first * net.n_plain, n * net.n_plain)
    out = part(work.embedded, first * n_dims, n * n_dims)
    read_plain(net, table, rows, plain)
    fill_zero(out)
    add_columns(table, rows, work.tables, net.n_bins + 1, n_dims, out)
    if net.n_plain > 0:
        product(
            False, False, n, n_dims, net.n_plain, plain, 0, net.n_plain, work.masked, 0, n_dims, _ONE, out, 0, n_dims
        )
    for i in range(n):
        total = _ZERO
        for d in range(n_dims):
            total += out[i * n_dims + d] * out[i * n_dims + d]
        work.squares[first + i] = total


@helper()
def _mask(net, state, step, dropout, seed, work, thread, n_threads):
    """The metric without the inputs that a step drops; each thread masks the lines that it updates."""
    n_dims, n_lines = net.sizes[0], net.n_plain + net.n_columns * net.n_bins
    for line in range(n_lines):
        piece = 0 if line < net.n_plain else 1 + (line - net.n_plain) // net.n_bins
        if piece % n_threads == thread:
            factor = _ZERO if is_dropped(seed, step, line, dropout) else _ONE
            for d in range(line * n_dims, (line + 1) * n_dims):
                work.masked[d] = factor * state[d]
    size = (net.n_bins + 1) * n_dims
    for column in range(net.n_columns):
        if (1 + column) % n_threads == thread:
            at = (net.n_plain + column * net.n_bins) * n_dims
            tabulate(
                part(work.masked, at, net.n_bins * n_dims), net.used[column], n_dims,
                part(work.tables, column * size, size),
            )  # fmt: skip


@helper()
def _update(net, state, table, rows, step, rate, dropout, seed, work, thread, n_threads):
    """A step of Adam for some lines: inputs that are not encoded, or the bins of every ``n_threads``-th column."""
    n, n_dims = len(rows), net.sizes[0]
    pace = (
        rate, _ZERO, _ZERO,
        np.float32(1.0 / (1.0 - 0.9 ** (step + 1))), np.float32(1.0 / (1.0 - 0.999 ** (step + 1))),
    )  # fmt: skip
    spare = work.spare[thread]
    for piece in range(thread, net.n_columns + 1, n_threads):
        n_lines = net.n_plain if piece == 0 else net.n_bins
        at = 0 if piece == 0 else net.n_plain + (piece - 1) * net.n_bins
        gradient = part(spare, 0, n_lines * n_dims)
        if piece == 0:
            if n_lines == 0:
                continue
            product(
                True, False, n_lines, n_dims, n, work.plain, 0, n_lines, work.slopes, 0, n_dims,
                _ZERO, gradient, 0, n_dims,
            )  # fmt: skip
        else:
            wider = part(spare, 0, (n_lines + 2) * n_dims)
            column_gradient(table, rows, piece - 1, net.used[piece - 1], n_dims, work.slopes, wider)
        for line in range(n_lines):
            if is_dropped(seed, step, at + line, dropout):
                fill_zero(part(gradient, line * n_dims, n_dims))
        scale(state, at * n_dims, gradient, pace)
        apply(state, at * n_dims, gradient, pace)


@kernel()
def learn_steps(net, state, table, blocks, done, n_total, learning_rate, dropout, seed, work, gate, thread, n_threads):
    """Take one step for each group of blocks; all threads call it. Returns the sum of the losses of all steps."""
    n_steps, n_blocks, size = blocks.rows.shape
    n_dims, n_tiles, width, result = net.sizes[0], -(-size // TILE), size + PADDING, 0.0
    scratch, rows, groups, log_weight = (
        work.spare[thread],
        work.rows[thread],
        work.groups[thread],
        work.log_weight[thread],
    )
    for number in range(n_steps):
        step, n_rows, sum_of_weights = done + number, 0, 0.0
        first = np.zeros(n_blocks + 1, np.int64)
        ends = np.zeros((n_blocks, len(blocks.at)), np.int64)
        for b in range(n_blocks):
            for i in range(size):
                row = blocks.rows[number, b, i]
                if row >= 0:
                    rows[n_rows], groups[n_rows], log_weight[n_rows] = row, blocks.own[row], blocks.log_weight[row]
                    n_rows += 1
                    sum_of_weights += np.exp(np.float64(blocks.log_weight[row]))
                    for k in range(len(blocks.at)):
                        ends[b, k] += table.target[row] <= blocks.at[k]
            first[b + 1] = n_rows
        _mask(net, state, step, dropout, seed, work, thread, n_threads)
        wait_for_all(gate, n_threads)
        for tile in range(thread, -(-n_rows // TILE), n_threads):
            n = min(TILE, n_rows - tile * TILE)
            _embed(net, table, part(rows, tile * TILE, n), work, tile * TILE)
        wait_for_all(gate, n_threads)
        loss = 0.0
        for tile in range(thread, n_blocks * n_tiles, n_threads):
            b, start = tile // n_tiles, first[tile // n_tiles]
            n, low = first[b + 1] - start, (tile % n_tiles) * TILE
            block = part(work.squares, start, n), part(groups, start, n), part(log_weight, start, n)
            pairs = part(work.pairs, b * size * width, n * width)
            if low >= n:
                continue
            n_here = min(TILE, n - low)
            product(
                False, True, n_here, n, n_dims, work.embedded, (start + low) * n_dims, n_dims,
                work.embedded, start * n_dims, n_dims, _ZERO, pairs, low * width, width,
            )  # fmt: skip
            for i in range(low, low + n_here):
                weight = np.float32(np.exp(np.float64(log_weight[start + i])) / sum_of_weights)
                loss += _compare(
                    blocks, i, work.squares[start + i], block, ends[b], weight, part(pairs, i * width, n), scratch
                )
        wait_for_all(gate, n_threads)
        for tile in range(thread, n_blocks * n_tiles, n_threads):
            b = tile // n_tiles
            n = first[b + 1] - first[b]
            _add_turned(part(work.pairs, b * size * width, n * width), n, width, (tile % n_tiles) * TILE)
        wait_for_all(gate, n_threads)
        for tile in range(thread, n_blocks * n_tiles, n_threads):
            b, start = tile // n_tiles, first[tile // n_tiles]
            n, low = first[b + 1] - start, (tile % n_tiles) * TILE
            if low >= n:
                continue
            n_here, at = min(TILE, n - low), (start + low) * n_dims
            product(
                False, False, n_here, n_dims, n, work.pairs, b * size * width + low * width, width,
                work.embedded, start * n_dims, n_dims, _ZERO, work.slopes, at, n_dims,
            )  # fmt: skip
            for i in range(n_here):
                # the derivative of a squared distance is twice the difference
                begin, row = (b * size + low + i) * width, at + i * n_dims
                total = _part_sum(work.pairs, begin, begin + n)
                for d in range(row, row + n_dims):
                    work.slopes[d] = _TWO * (total * work.embedded[d] - work.slopes[d])
        wait_for_all(gate, n_threads)
        rate = np.float32(learning_rate * 0.5 * (1.0 + np.cos(np.pi * step / n_total)))
        _update(net, state, table, part(rows, 0, n_rows), step, rate, dropout, seed, work, thread, n_threads)
        result += loss
    return result
