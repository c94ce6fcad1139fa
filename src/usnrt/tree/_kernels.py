"""The compiled loops of the split search and of the routing; every array is contiguous float64, int64 or bool.

The search walks the rows of a node in the order of one feature. Running means and sums of squares (Welford, from
both ends) give each side's mean and spread; a Fenwick tree over the ranks of the tested values gives the sum of
absolute deviations from any centre, and the median, in O(log n). So every cut is exact in O(n log n) a feature.

The tested values are standardised over the node before they come here (`usnrt.tree.column.standardise`), so the
constants below are in units of the node's standard deviation.
"""

from math import inf, sqrt

import numpy as np
from numba import njit

# What the two-sample t-test compares between the sides.
CENTRE_MEAN = 0  # |value - the side's mean|: Levene
CENTRE_MEDIAN = 1  # |value - the side's median|: Brown-Forsythe
RAW_VALUES = 2  # the values themselves

# Two statistics this close (relatively) are a tie and the first one stays, whatever the rounding of the sums.
TIE = 1e-9
# A side whose spread is below 1e-10 of the node's is constant but for rounding.
NO_SPREAD = 1e-20
# A pooled sum of squares below this share of the sum it is the difference of is zero but for rounding.
CANCELLED = 1e-12
# Deviations that are constant on both sides differ between the sides when they differ by more than this share.
DIFFERENT = 1e-5


@njit(cache=True, nogil=True)
def fenwick(values_by_rank, weight_by_rank):
    """Fenwick tree of the weights and the weighted values, shape (n + 1, 2)."""
    n = values_by_rank.shape[0]
    tree = np.zeros((n + 1, 2))
    for i in range(1, n + 1):
        tree[i, 0] += weight_by_rank[i - 1]
        tree[i, 1] += weight_by_rank[i - 1] * values_by_rank[i - 1]
        parent = i + (i & -i)
        if parent <= n:
            tree[parent, 0] += tree[i, 0]
            tree[parent, 1] += tree[i, 1]
    return tree


@njit(cache=True, nogil=True, inline="always")
def _sums_up_to(left, total, on_left, values_by_rank, centre, top):
    """Weight and weighted sum of one side's values that are at most `centre`; `top` is the first step down."""
    n = values_by_rank.shape[0]
    position, weight, value = 0, 0.0, 0.0
    step = top
    while step > 0:
        i = position + step
        if i <= n and values_by_rank[i - 1] <= centre:
            position = i
            if on_left:
                weight += left[i, 0]
                value += left[i, 1]
            else:  # the right side is all rows without the left side
                weight += total[i, 0] - left[i, 0]
                value += total[i, 1] - left[i, 1]
        step >>= 1
    return weight, value


@njit(cache=True, nogil=True, inline="always")
def _median(left, total, on_left, values_by_rank, half, top):
    """Median of one side, each row counted `weight` times; `half` is half the side's weight."""
    n = values_by_rank.shape[0]
    lower, lower_weight = 0, 0.0  # ranks whose cumulated weight stays below half
    upper, upper_weight = 0, 0.0  # ranks whose cumulated weight is at most half
    step = top
    while step > 0:
        i = lower + step
        if i <= n:
            weight = left[i, 0] if on_left else total[i, 0] - left[i, 0]
            if lower_weight + weight < half:
                lower, lower_weight = i, lower_weight + weight
        i = upper + step
        if i <= n:
            weight = left[i, 0] if on_left else total[i, 0] - left[i, 0]
            if upper_weight + weight <= half:
                upper, upper_weight = i, upper_weight + weight
        step >>= 1
    low = values_by_rank[min(lower, n - 1)]
    high = values_by_rank[min(upper, n - 1)]
    return low + (high - low) / 2


@njit(cache=True, nogil=True, inline="always")
def _deviations(weight, mean, squares, centre, weight_below, sum_below):
    """Mean of |value - centre| and sum of (value - centre)^2 of one side."""
    sum_above = weight * mean - sum_below
    weight_above = weight - weight_below
    absolute = (sum_above - centre * weight_above) - (sum_below - centre * weight_below)
    return max(absolute, 0.0) / weight, squares + weight * (mean - centre) ** 2


@njit(cache=True, nogil=True, inline="always")
def _pooled_t(weight_l, mean_l, weight_r, mean_r, within):
    df = weight_l + weight_r - 2.0
    if df <= 0.0:
        return 0.0
    return (mean_l - mean_r) / sqrt(within / df * (1.0 / weight_l + 1.0 / weight_r))


@njit(cache=True, nogil=True, inline="always")
def _t_of_deviations(weight_l, mean_l, squares_l, weight_r, mean_r, squares_r):
    """Pooled t of the absolute deviations, from each side's mean deviation and sum of squared deviations."""
    squares = squares_l + squares_r
    if squares <= NO_SPREAD * (weight_l + weight_r):
        return 0.0
    within = max(squares_l - weight_l * mean_l**2, 0.0) + max(squares_r - weight_r * mean_r**2, 0.0)
    if within > CANCELLED * squares:
        return _pooled_t(weight_l, mean_l, weight_r, mean_r, within)
    if abs(mean_l - mean_r) <= DIFFERENT * (mean_l + mean_r) or weight_l + weight_r <= 2.0:
        return 0.0
    return inf if mean_l > mean_r else -inf


@njit(cache=True, nogil=True, inline="always")
def _t_of_values(weight_l, mean_l, squares_l, weight_r, mean_r, squares_r):
    """Pooled t of the values themselves, from each side's mean and sum of squares about it."""
    within = squares_l + squares_r
    if within > NO_SPREAD * (weight_l + weight_r):
        return _pooled_t(weight_l, mean_l, weight_r, mean_r, within)
    if abs(mean_l - mean_r) <= DIFFERENT or weight_l + weight_r <= 2.0:
        return 0.0
    return inf if mean_l > mean_r else -inf


@njit(cache=True, nogil=True)
def scan_cuts(order, allowed, values, weight, rank, values_by_rank, total, min_weight, kind, every):
    """Test every allowed cut along an order of the rows.

    Parameters
    ----------
    order : (n,) int64, the rows in the order of the walk.
    allowed : (n - 1,) bool, whether rows up to position i may be cut from the rest.
    values, weight : (n,) float64, what is tested, and how often each row counts.
    rank : (n,) int64, the position of each row among the sorted values.
    values_by_rank : (n,) float64, the sorted values.
    total : (n + 1, 2) float64, `fenwick` of all rows.
    min_weight : float, the least weight of a side.
    kind : int, one of the constants above.
    every : float64 array of length n - 1 that receives each cut's statistic, or of length 0.

    Returns
    -------
    position, statistic, n_candidates : the first cut of the largest |T|; position is -1 without candidates.
    """
    n = order.shape[0]
    # Means and sums of squares of the rows behind each cut.
    weight_behind = np.empty(n)
    mean_behind = np.empty(n)
    squares_behind = np.empty(n)
    w_r, mean_r, squares_r = 0.0, 0.0, 0.0
    for i in range(n - 1, 0, -1):
        row = order[i]
        w_r += weight[row]
        delta = values[row] - mean_r
        mean_r += delta * (weight[row] / w_r)
        squares_r += weight[row] * delta * (values[row] - mean_r)
        weight_behind[i - 1] = w_r
        mean_behind[i - 1] = mean_r
        squares_behind[i - 1] = squares_r

    top = 1
    while top * 2 <= n:
        top *= 2
    left = np.zeros((n + 1, 2))
    w_l, mean_l, squares_l = 0.0, 0.0, 0.0
    best, best_t, n_candidates = -1, 0.0, 0
    for i in range(n - 1):
        row = order[i]
        w, value = weight[row], values[row]
        w_l += w
        delta = value - mean_l
        mean_l += delta * (w / w_l)
        squares_l += w * delta * (value - mean_l)
        if kind != RAW_VALUES:
            j = rank[row] + 1
            while j <= n:
                left[j, 0] += w
                left[j, 1] += w * value
                j += j & -j
        w_r = weight_behind[i]
        if w_r < min_weight:
            break
        if not allowed[i] or w_l < min_weight:
            continue
        mean_r, squares_r = mean_behind[i], squares_behind[i]
        if kind == RAW_VALUES:
            t = _t_of_values(w_l, mean_l, squares_l, w_r, mean_r, squares_r)
        else:
            centre_l, centre_r = mean_l, mean_r
            if kind == CENTRE_MEDIAN:
                centre_l = _median(left, total, True, values_by_rank, w_l / 2, top)
                centre_r = _median(left, total, False, values_by_rank, w_r / 2, top)
            below_w, below_s = _sums_up_to(left, total, True, values_by_rank, centre_l, top)
            dev_l, dev2_l = _deviations(w_l, mean_l, squares_l, centre_l, below_w, below_s)
            below_w, below_s = _sums_up_to(left, total, False, values_by_rank, centre_r, top)
            dev_r, dev2_r = _deviations(w_r, mean_r, squares_r, centre_r, below_w, below_s)
            t = _t_of_deviations(w_l, dev_l, dev2_l, w_r, dev_r, dev2_r)
        n_candidates += 1
        if every.shape[0] > 0:
            every[i] = t
        if best < 0 or abs(t) > abs(best_t) * (1.0 + TIE):
            best, best_t = i, t
    return best, best_t, n_candidates


@njit(cache=True, nogil=True, inline="always")
def _sums_below_rank(mask, limit, start, ranks, weight_before, sum_before):
    """Weight and weighted sum of the rows of the groups in `mask` whose rank is below `limit`."""
    weight, value = 0.0, 0.0
    for g in range(start.shape[0] - 1):
        if mask >> g & 1:
            low, high = start[g], start[g + 1]
            while low < high:
                middle = (low + high) // 2
                if ranks[middle] < limit:
                    low = middle + 1
                else:
                    high = middle
            weight += weight_before[low] - weight_before[start[g]]
            value += sum_before[low] - sum_before[start[g]]
    return weight, value


@njit(cache=True, nogil=True, inline="always")
def _median_of_groups(mask, half, start, ranks, weight_before, sum_before, values_by_rank):
    n = values_by_rank.shape[0]
    # smallest number of ranks that hold at least, and more than, half the weight
    low, high = 1, n
    while low < high:
        middle = (low + high) // 2
        if _sums_below_rank(mask, middle, start, ranks, weight_before, sum_before)[0] >= half:
            high = middle
        else:
            low = middle + 1
    lower = values_by_rank[low - 1]
    high = n
    while low < high:
        middle = (low + high) // 2
        if _sums_below_rank(mask, middle, start, ranks, weight_before, sum_before)[0] > half:
            high = middle
        else:
            low = middle + 1
    return lower + (values_by_rank[low - 1] - lower) / 2


@njit(cache=True, nogil=True, inline="always")
def _moments_of_groups(mask, group_weight, group_mean, group_squares):
    weight, mean, squares = 0.0, 0.0, 0.0
    for g in range(group_weight.shape[0]):
        if mask >> g & 1:
            weight += group_weight[g]
            mean += group_weight[g] * group_mean[g]
    mean /= weight
    for g in range(group_weight.shape[0]):
        if mask >> g & 1:
            squares += group_squares[g] + group_weight[g] * (group_mean[g] - mean) ** 2
    return weight, mean, squares


@njit(cache=True, nogil=True)
def scan_subsets(masks, group, row_by_rank, values_by_rank, weight, min_weight, kind):
    """Test the division of groups of rows into two sides, for every bit mask of left groups.

    `group` (n,) int64 is each row's group, `row_by_rank` (n,) int64 the rows sorted by value. The order of `masks`
    decides ties. Returns the index of the best mask (-1 for none), its statistic and the number of candidates.
    """
    n = group.shape[0]
    n_groups = 0
    for i in range(n):
        n_groups = max(n_groups, group[i] + 1)
    # Rows sorted by group and, within it, by rank, with running sums.
    start = np.zeros(n_groups + 1, np.int64)
    for i in range(n):
        start[group[i] + 1] += 1
    for g in range(n_groups):
        start[g + 1] += start[g]
    fill = start[:-1].copy()
    ranks = np.empty(n, np.int64)
    group_weight, group_mean, group_squares = np.zeros(n_groups), np.zeros(n_groups), np.zeros(n_groups)
    for r in range(n):
        row = row_by_rank[r]
        g, w, value = group[row], weight[row], values_by_rank[r]
        ranks[fill[g]] = r
        fill[g] += 1
        group_weight[g] += w
        delta = value - group_mean[g]
        group_mean[g] += delta * (w / group_weight[g])
        group_squares[g] += w * delta * (value - group_mean[g])
    weight_before, sum_before = np.zeros(n + 1), np.zeros(n + 1)
    for i in range(n):
        w = weight[row_by_rank[ranks[i]]]
        weight_before[i + 1] = weight_before[i] + w
        sum_before[i + 1] = sum_before[i] + w * values_by_rank[ranks[i]]

    everyone = (1 << n_groups) - 1
    best, best_t, n_candidates = -1, 0.0, 0
    deviation, squared = np.empty(2), np.empty(2)
    for m in range(masks.shape[0]):
        w_l, mean_l, squares_l = _moments_of_groups(masks[m], group_weight, group_mean, group_squares)
        w_r, mean_r, squares_r = _moments_of_groups(everyone ^ masks[m], group_weight, group_mean, group_squares)
        if w_l < min_weight or w_r < min_weight:
            continue
        if kind == RAW_VALUES:
            t = _t_of_values(w_l, mean_l, squares_l, w_r, mean_r, squares_r)
        else:
            for side in range(2):
                mask = masks[m] if side == 0 else everyone ^ masks[m]
                w = w_l if side == 0 else w_r
                mean = mean_l if side == 0 else mean_r
                centre = mean
                if kind == CENTRE_MEDIAN:
                    centre = _median_of_groups(mask, w / 2, start, ranks, weight_before, sum_before, values_by_rank)
                limit = np.searchsorted(values_by_rank, centre, side="right")
                below_w, below_s = _sums_below_rank(mask, limit, start, ranks, weight_before, sum_before)
                deviation[side], squared[side] = _deviations(
                    w, mean, squares_l if side == 0 else squares_r, centre, below_w, below_s
                )
            t = _t_of_deviations(w_l, deviation[0], squared[0], w_r, deviation[1], squared[1])
        n_candidates += 1
        if best < 0 or abs(t) > abs(best_t) * (1.0 + TIE):
            best, best_t = m, t
    return best, best_t, n_candidates


@njit(cache=True, nogil=True)
def route(table, n_rows, row_step, column_step, feature, threshold, left, right, missing_left, category_row,
          left_categories, larger_left, out):  # fmt: skip
    """Walk every row from the root to its leaf; `table` is the raw memory of an (n_rows, n_features) array."""
    n_codes = left_categories.shape[1]
    for i in range(n_rows):
        node = 0
        while feature[node] >= 0:
            x = table[i * row_step + feature[node] * column_step]
            if x != x:
                goes_left = missing_left[node]
            elif category_row[node] < 0:
                goes_left = x <= threshold[node]
            elif 0.0 <= x < n_codes:
                goes_left = left_categories[category_row[node], int(x)]
            else:  # a category that training never saw
                goes_left = larger_left[node]
            node = left[node] if goes_left else right[node]
        out[i] = node
