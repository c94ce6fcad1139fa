"""Compiled growth and traversal of the trees of the forest expert."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from usnrt.utils.jit import kernel

# Nodes that wait for their turn, one per level: deeper nodes are not split.
MAX_STACK = 4096

# Random numbers are made of 20 or 22 bits.
BITS, UNIT = np.uint64(2**22 - 1), np.float32(2.0**-22)


@kernel()
def next_random(state):
    """64 random bits, which are also the next state: Marsaglia's xorshift, which never multiplies, hence overflows."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    return state ^ (state << np.uint64(17))


@kernel()
def _threshold(low, high, state):
    """A uniform number from the smallest value of a column up to the largest one, which it never is; from 22 bits."""
    at = low + np.float32(state & BITS) * UNIT * (high - low)
    return at if at < high else low


@kernel()
def _ranges(x, order, start, stop, low, high):
    """Smallest and largest value of each column among some rows; four rows at a time, which is twice as fast."""
    last = stop - 1
    for k in range(x.shape[1]):
        low[k] = x[order[start], k]
        high[k] = low[k]
    for i in range(start + 1, stop, 4):
        one, two = x[order[i]], x[order[min(i + 1, last)]]
        three, four = x[order[min(i + 2, last)]], x[order[min(i + 3, last)]]
        for k in range(len(one)):
            a, b, c, d = one[k], two[k], three[k], four[k]
            smaller, other = a if a < b else b, c if c < d else d
            smallest = smaller if smaller < other else other
            low[k] = smallest if smallest < low[k] else low[k]
            larger, other = a if a > b else b, c if c > d else d
            largest = larger if larger > other else other
            high[k] = largest if largest > high[k] else high[k]


@kernel()
def _sums_below(x, y, weight, order, start, stop, mean, thresholds, sums):
    """Weight of the rows up to the two thresholds of each column, and the weighted sum of their targets less a mean."""
    own, target = np.zeros(4, np.float32), np.zeros(4, np.float32)
    for t in range(4):
        for k in range(x.shape[1]):
            sums[t, k] = np.float32(0)
    last = stop - 1
    for i in range(start, stop, 4):
        for j in range(4):
            row = order[min(i + j, last)]
            own[j] = weight[row] if i + j < stop else 0.0
            target[j] = own[j] * np.float32(y[row] - mean)
        one, two = x[order[i]], x[order[min(i + 1, last)]]
        three, four = x[order[min(i + 2, last)]], x[order[min(i + 3, last)]]
        w0, w1, w2, w3 = own[0], own[1], own[2], own[3]
        t0, t1, t2, t3 = target[0], target[1], target[2], target[3]
        for t in range(2):
            for k in range(len(one)):
                at = thresholds[t, k]
                a, b = np.float32(one[k] <= at), np.float32(two[k] <= at)
                c, d = np.float32(three[k] <= at), np.float32(four[k] <= at)
                sums[t, k] += (a * w0 + b * w1) + (c * w2 + d * w3)
                sums[t + 2, k] += (a * t0 + b * t1) + (c * t2 + d * t3)


@kernel()
def _draw(state, low, high, n_tried, columns, thresholds):
    """Columns that differ between the rows, as many as are tried, in random order, with two thresholds each."""
    n_columns = 0
    for k in range(len(low)):
        thresholds[0, k] = low[k]
        thresholds[1, k] = low[k]
        columns[n_columns] = k
        n_columns += low[k] < high[k]
    n_drawn = min(n_tried, n_columns)
    for j in range(n_drawn):
        state = next_random(state)
        other = j + np.int64(((state >> np.uint64(44)) * np.uint64(n_columns - j)) >> np.uint64(20))
        k = columns[other]
        columns[other] = columns[j]
        columns[j] = k
        thresholds[0, k] = _threshold(low[k], high[k], state)
        thresholds[1, k] = _threshold(low[k], high[k], state >> np.uint64(22))
    return state, n_drawn


@kernel(error_model="numpy")
def _best(columns, n_drawn, thresholds, sums, total, least):
    """The drawn column and threshold that reduce the squared error most, and by how much; column -1 if there is none.

    Both sides have at least some weight.
    """
    best, column, threshold, weight = np.float32(-1.0), -1, np.float32(0.0), np.float32(total)
    for j in range(n_drawn):
        k = columns[j]
        for t in range(2):
            # the targets of all rows sum to 0, so that the sums of both sides differ by their sign only
            below, target = sums[t, k], sums[t + 2, k]
            gain = target * target / (below * (weight - below))
            if gain > best and below >= least and weight - below >= least:
                best, column, threshold = gain, k, thresholds[t, k]
    return column, threshold, best * weight


@kernel()
def _split_pair(state, x, first, second):
    """A random column in which two rows differ, and a threshold between them; column -1 if there is none."""
    n_columns = x.shape[1]
    state = next_random(state)
    k = np.int64(((state >> np.uint64(44)) * np.uint64(n_columns)) >> np.uint64(20))
    for _ in range(n_columns):
        low, high = min(x[first, k], x[second, k]), max(x[first, k], x[second, k])
        if low < high:
            return state, k, _threshold(low, high, state)
        k = (k + 1) % n_columns
    return state, -1, np.float32(0.0)


@kernel()
def _partition(x, column, threshold, order, start, stop, buffer):
    """Move the rows up to the threshold to the front, both parts in their order; where the second part begins."""
    middle, n_above = start, 0
    for i in range(start, stop):
        if x[order[i], column] <= threshold:
            order[middle] = order[i]
            middle += 1
        else:
            buffer[n_above] = order[i]
            n_above += 1
    for i in range(n_above):  # slices would take two seconds to compile
        order[middle + i] = buffer[i]
    return middle


@kernel()
def _mean_target(y, weight, order, start, stop):
    """Sum of the weights of some rows, their mean target, and whether their targets are all equal."""
    total, target, first, is_pure = 0.0, 0.0, y[order[start]], True
    for i in range(start, stop):
        row = order[i]
        total += weight[row]
        target += weight[row] * y[row]
        is_pure &= y[row] == first
    return total, first if is_pure else target / total, is_pure


@kernel()
def grow_tree(x, y, weight, rows, n_tried, least, seed, feature, right, value, gains):
    """Grow an extremely randomised tree until nodes have equal targets or equal inputs; number of nodes, depth first.

    A split tries two random thresholds of ``n_tried`` random columns among those that are not constant in its node;
    both its sides have at least the weight ``least``. `feature`, `right` and `value` have room for twice as many nodes
    as there are rows. To `gains` the squared error is added by which splits of each column reduce it, apart from splits
    of two rows.
    """
    width, order, buffer = x.shape[1], rows.copy(), np.empty(len(rows), rows.dtype)
    low, high, columns = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.int64)
    thresholds, sums = np.empty((2, width), np.float32), np.empty((4, width), np.float32)
    stack = np.empty((MAX_STACK, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, len(rows), -1
    top, n_nodes, state = 1, 0, seed | np.uint64(1)  # never 0
    while top > 0:
        top -= 1
        start, stop, parent = stack[top, 0], stack[top, 1], stack[top, 2]
        node = n_nodes
        n_nodes += 1
        if parent >= 0:
            right[parent] = node
        total, mean, is_pure = _mean_target(y, weight, order, start, stop)
        feature[node], right[node], value[node] = -1, -1, mean
        if is_pure or total < 2.0 * least or top + 2 > MAX_STACK:
            continue
        if stop - start == 2:
            state, column, threshold = _split_pair(state, x, order[start], order[start + 1])
        else:
            _ranges(x, order, start, stop, low, high)
            state, n_drawn = _draw(state, low, high, n_tried, columns, thresholds)
            _sums_below(x, y, weight, order, start, stop, mean, thresholds, sums)
            column, threshold, gain = _best(columns, n_drawn, thresholds, sums, total, least)
            if column >= 0:
                gains[column] += gain
        if column < 0:
            continue
        middle = _partition(x, column, threshold, order, start, stop, buffer)
        feature[node], value[node] = column, threshold
        # the left child is the next node, the right one comes after all below it
        stack[top, 0], stack[top, 1], stack[top, 2] = middle, stop, node
        top += 1
        stack[top, 0], stack[top, 1], stack[top, 2] = start, middle, -1
        top += 1
    return n_nodes


@kernel()
def sorted_leaves(root, feature, right, value, x, result):
    """Fill `result` (n, n_trees) with the sorted values of the leaves that each row reaches."""
    for row in range(x.shape[0]):
        for tree in range(len(root)):
            node = root[tree]
            while feature[node] >= 0:
                node = node + 1 if x[row, feature[node]] <= value[node] else right[node]
            result[row, tree] = value[node]
        result[row].sort()
