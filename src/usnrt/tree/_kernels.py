"""Numba kernels of the split search; all arrays are contiguous float64, int64 or bool.

The scan along one feature keeps running means and sums of squares of both sides (Welford, from both ends). The sum of
absolute deviations from a centre, and the median, are updated by moving a cursor along the sorted values, with a
Fenwick tree over the ranks for large moves, at O(log n) per cut: all cuts of a feature are tested exactly in
O(n log n).

The tested values are standardised over the node beforehand (`usnrt.tree.split_column.standardise`), so that the
constants below are in units of the node's standard deviation. The kernels share one file because numba's disk cache
does not detect changes in other files.
"""

from math import inf, sqrt

import numpy as np

from usnrt.utils.jit import kernel

# Values that the two-sample t-test compares between the sides.
CENTRE_MEAN = 0  # |value - the side's mean|: Levene
CENTRE_MEDIAN = 1  # |value - the side's median|: Brown-Forsythe
RAW_VALUES = 2  # the values themselves
CENTRE_FAR_MEDIAN = 3  # Brown-Forsythe; between two middle values, the median that is farther from the side's mean

# Relative tolerance of weights, since sums of fractional weights are rounded.
SAME_WEIGHT = 1e-9
# Relative tolerance of statistics: within it the first one wins, independently of rounding.
TIE = 1e-9
# A side whose variance is below this, relative to the node's, is constant up to rounding.
NO_SPREAD = 1e-20
# A pooled sum of squares below this share of its terms is zero up to rounding.
CANCELLED = 1e-12
# Relative tolerance of deviations that are constant on both sides.
DIFFERENT = 1e-5
# Ranks per leaf of the Fenwick trees: few values are summed directly faster than in a deeper tree.
BUCKET = 64
# Maximal number of cursor steps before a lookup in the tree.
MAX_STEPS = 32


@kernel()
def deviations(weight, mean, squares, centre, weight_below, sum_below):  # type: ignore[no-untyped-def]
    """Mean of |value - centre| and sum of (value - centre)^2 of one side."""
    sum_above = weight * mean - sum_below
    weight_above = weight - weight_below
    absolute = (sum_above - centre * weight_above) - (sum_below - centre * weight_below)
    return max(absolute, 0.0) / weight, squares + weight * (mean - centre) ** 2


@kernel()
def _choose_median(lower, upper, mean, kind):  # type: ignore[no-untyped-def]
    """The centre between two middle values, which are equal where the median is unique.

    The sum of absolute deviations is the same from every point between them, but their variance is not. Of two
    separate modes with exactly half the rows each, the midpoint gives all rows the same deviation, a variance of 0;
    with one more row in a mode it is the square of half their distance. So the midpoint rejects too often.
    """
    if kind == CENTRE_FAR_MEDIAN:
        return lower if mean - lower > upper - mean else upper
    return lower + (upper - lower) / 2


@kernel()
def _pooled_t(weight_l, mean_l, weight_r, mean_r, within):  # type: ignore[no-untyped-def]
    df = weight_l + weight_r - 2.0
    if df <= 0.0:
        return 0.0
    return (mean_l - mean_r) / sqrt(within / df * (1.0 / weight_l + 1.0 / weight_r))


@kernel()
def t_of_deviations(weight_l, mean_l, squares_l, weight_r, mean_r, squares_r):  # type: ignore[no-untyped-def]
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


@kernel()
def t_of_values(weight_l, mean_l, squares_l, weight_r, mean_r, squares_r):  # type: ignore[no-untyped-def]
    """Pooled t of the values themselves, from each side's mean and sum of squares about it."""
    within = squares_l + squares_r
    if within > NO_SPREAD * (weight_l + weight_r):
        return _pooled_t(weight_l, mean_l, weight_r, mean_r, within)
    if abs(mean_l - mean_r) <= DIFFERENT or weight_l + weight_r <= 2.0:
        return 0.0
    return inf if mean_l > mean_r else -inf


@kernel()
def fenwick(values_by_rank, weight_by_rank):  # type: ignore[no-untyped-def]
    """Fenwick tree over buckets of ranks, of weights and weighted values, shape (n_buckets + 1, 2)."""
    n = values_by_rank.shape[0]
    n_buckets = (n + BUCKET - 1) // BUCKET
    tree = np.zeros((n_buckets + 1, 2))
    for r in range(n):
        tree[r // BUCKET + 1, 0] += weight_by_rank[r]
        tree[r // BUCKET + 1, 1] += weight_by_rank[r] * values_by_rank[r]
    for i in range(1, n_buckets + 1):
        parent = i + (i & -i)
        if parent <= n_buckets:
            tree[parent, 0] += tree[i, 0]
            tree[parent, 1] += tree[i, 1]
    return tree


# Columns of the scan's table, shape (n, 4), one row per rank: value, weight on the left side, weight on the right side.
VALUE, LEFT, RIGHT = 0, 1, 2

# A `cursor` in a side is a rank, with the weight and the weighted sum of the side's values below that rank. Centres
# move little from cut to cut, so that a cursor moves step by step. For large moves it is looked up in the side's
# Fenwick tree, base + sign * tree: zeros + tree for the left side, total - tree for the right one.


@kernel()
def _look_up_value(centre, side, cells, base, sign, tree, first_step):  # type: ignore[no-untyped-def]
    """The cursor after the last value that is at most `centre`."""
    n, n_buckets = cells.shape[0], tree.shape[0] - 1
    bucket, weight, value = 0, 0.0, 0.0
    step = first_step
    while step > 0:
        i = bucket + step
        if i <= n_buckets and cells[min(i * BUCKET, n) - 1, VALUE] <= centre:
            bucket = i
            weight += base[i, 0] + sign * tree[i, 0]
            value += base[i, 1] + sign * tree[i, 1]
        step >>= 1
    r = bucket * BUCKET
    while r < n and cells[r, VALUE] <= centre:
        weight += cells[r, side]
        value += cells[r, side] * cells[r, VALUE]
        r += 1
    return r, weight, value


@kernel()
def _look_up_weight(limit, side, cells, base, sign, tree, first_step):  # type: ignore[no-untyped-def]
    """The last cursor whose weight is at most `limit`."""
    n, n_buckets = cells.shape[0], tree.shape[0] - 1
    bucket, weight, value = 0, 0.0, 0.0
    step = first_step
    while step > 0:
        i = bucket + step
        if i <= n_buckets and weight + (base[i, 0] + sign * tree[i, 0]) <= limit:
            bucket = i
            weight += base[i, 0] + sign * tree[i, 0]
            value += base[i, 1] + sign * tree[i, 1]
        step >>= 1
    r = min(bucket * BUCKET, n - 1)
    while r < n - 1 and weight + cells[r, side] <= limit:
        weight += cells[r, side]
        value += cells[r, side] * cells[r, VALUE]
        r += 1
    return r, weight, value


@kernel(inline="always")
def _move_to_value(cursor, centre, side, cells, base, sign, tree, first_step):  # type: ignore[no-untyped-def]
    """The cursor after the last value that is at most `centre`, starting from a cursor nearby."""
    n = cells.shape[0]
    r, weight, value = cursor
    for _ in range(MAX_STEPS):
        if r < n and cells[r, VALUE] <= centre:
            weight += cells[r, side]
            value += cells[r, side] * cells[r, VALUE]
            r += 1
        elif r > 0 and cells[r - 1, VALUE] > centre:
            r -= 1
            weight -= cells[r, side]
            value -= cells[r, side] * cells[r, VALUE]
        else:
            return r, weight, value
    return _look_up_value(centre, side, cells, base, sign, tree, first_step)


@kernel(inline="always")
def _move_to_median(cursor, half, side, cells, base, sign, tree, first_step):  # type: ignore[no-untyped-def]
    """The two middle values of one side, and the cursor after its lower half.

    `half` is half the side's weight; the values differ if the lower half ends exactly between them.
    """
    n = cells.shape[0]
    r, weight, value = cursor
    limit = half * (1.0 + SAME_WEIGHT)
    steps = 0
    while steps < MAX_STEPS:
        if weight > limit and r > 0:
            r -= 1
            weight -= cells[r, side]
            value -= cells[r, side] * cells[r, VALUE]
        elif r < n - 1 and weight + cells[r, side] <= limit:
            weight += cells[r, side]
            value += cells[r, side] * cells[r, VALUE]
            r += 1
        else:
            break
        steps += 1
    if steps == MAX_STEPS:
        r, weight, value = _look_up_weight(limit, side, cells, base, sign, tree, first_step)
    low, high = cells[r, VALUE], cells[r, VALUE]
    if weight >= half * (1.0 - SAME_WEIGHT):
        lower = r - 1
        while lower > 0 and lower > r - MAX_STEPS and cells[lower, side] == 0.0:
            lower -= 1
        if cells[lower, side] == 0.0:
            below = half * (1.0 - SAME_WEIGHT)
            lower = _look_up_weight(below, side, cells, base, sign, tree, first_step)[0]
        low = cells[lower, VALUE]
    return low, high, (r, weight, value)


@kernel()
def scan_cuts(order, allowed, rank, values_by_rank, weight_by_rank, total, min_weight, limit, kind, every):  # type: ignore[no-untyped-def]
    """Test every allowed cut along an order of the rows.

    Parameters
    ----------
    order : (n,) int64, the rows in the order of the scan.
    allowed : (n - 1,) bool, whether a cut after position i is allowed.
    rank : (n,) int64, the position of each row among the sorted values.
    values_by_rank, weight_by_rank : (n,) float64, the sorted values and their weights.
    total : (n_buckets + 1, 2) float64, `fenwick` of all rows.
    min_weight : float, the minimal weight of a side.
    limit : float, |T| from here on are equal, so that the first of them wins.
    kind : int, one of the constants above.
    every : float64 array of length n - 1 for the statistic of each cut, or of length 0.

    Returns
    -------
    position, statistic, n_candidates : the first cut with the largest |T|; position is -1 without candidates.
    """
    n = order.shape[0]
    cells = np.zeros((n, 4))
    for r in range(n):  # assigning columns would compile a message about their shapes, which takes seconds
        cells[r, VALUE], cells[r, RIGHT] = values_by_rank[r], weight_by_rank[r]
    # Weights, means and sums of squares of the rows after each cut.
    after = np.empty((n, 3))
    w_r, mean_r, squares_r = 0.0, 0.0, 0.0
    for i in range(n - 1, 0, -1):
        cell = cells[rank[order[i]]]
        w_r += cell[RIGHT]
        delta = cell[VALUE] - mean_r
        mean_r += delta * (cell[RIGHT] / w_r)
        squares_r += cell[RIGHT] * delta * (cell[VALUE] - mean_r)
        after[i - 1, 0], after[i - 1, 1], after[i - 1, 2] = w_r, mean_r, squares_r

    n_buckets = total.shape[0] - 1
    tree, zeros = np.zeros((n_buckets + 1, 2)), np.zeros((n_buckets + 1, 2))
    first_step = 1
    while first_step * 2 <= n_buckets:
        first_step *= 2
    cursor_l, cursor_r = (0, 0.0, 0.0), (0, 0.0, 0.0)
    w_l, mean_l, squares_l = 0.0, 0.0, 0.0
    best, best_t, n_candidates = -1, 0.0, 0
    for i in range(n - 1):
        r = rank[order[i]]
        w, value = cells[r, RIGHT], cells[r, VALUE]
        w_l += w
        delta = value - mean_l
        mean_l += delta * (w / w_l)
        squares_l += w * delta * (value - mean_l)
        cells[r, LEFT], cells[r, RIGHT] = w, 0.0
        if kind != RAW_VALUES:
            j = r // BUCKET + 1
            while j <= n_buckets:
                tree[j, 0] += w
                tree[j, 1] += w * value
                j += j & -j
            if r < cursor_l[0]:
                cursor_l = cursor_l[0], cursor_l[1] + w, cursor_l[2] + w * value
            if r < cursor_r[0]:
                cursor_r = cursor_r[0], cursor_r[1] - w, cursor_r[2] - w * value
        w_r, mean_r, squares_r = after[i, 0], after[i, 1], after[i, 2]
        if w_r < min_weight:
            break
        if not allowed[i] or w_l < min_weight:
            continue
        if kind == RAW_VALUES:
            t = t_of_values(w_l, mean_l, squares_l, w_r, mean_r, squares_r)
        else:
            if kind == CENTRE_MEAN:
                centre_l, centre_r = mean_l, mean_r
                cursor_l = _move_to_value(cursor_l, mean_l, LEFT, cells, zeros, 1.0, tree, first_step)
                cursor_r = _move_to_value(cursor_r, mean_r, RIGHT, cells, total, -1.0, tree, first_step)
            else:
                low, high, cursor_l = _move_to_median(cursor_l, w_l / 2, LEFT, cells, zeros, 1.0, tree, first_step)
                centre_l = _choose_median(low, high, mean_l, kind)
                low, high, cursor_r = _move_to_median(cursor_r, w_r / 2, RIGHT, cells, total, -1.0, tree, first_step)
                centre_r = _choose_median(low, high, mean_r, kind)
            dev_l, dev2_l = deviations(w_l, mean_l, squares_l, centre_l, cursor_l[1], cursor_l[2])
            dev_r, dev2_r = deviations(w_r, mean_r, squares_r, centre_r, cursor_r[1], cursor_r[2])
            t = t_of_deviations(w_l, dev_l, dev2_l, w_r, dev_r, dev2_r)
        n_candidates += 1
        if every.shape[0] > 0:
            every[i] = t
        if best < 0 or min(abs(t), limit) > abs(best_t) * (1.0 + TIE):
            best, best_t = i, t
    return best, best_t, n_candidates


@kernel()
def _sums_below_rank(mask, rank, start, ranks, weight_before, sum_before):  # type: ignore[no-untyped-def]
    """Weight and weighted sum of the rows of the groups in `mask` whose rank is below `rank`."""
    weight, value = 0.0, 0.0
    for g in range(start.shape[0] - 1):
        if mask >> g & 1:
            low, high = start[g], start[g + 1]
            while low < high:
                middle = (low + high) // 2
                if ranks[middle] < rank:
                    low = middle + 1
                else:
                    high = middle
            weight += weight_before[low] - weight_before[start[g]]
            value += sum_before[low] - sum_before[start[g]]
    return weight, value


@kernel()
def _middle_of_groups(mask, half, start, ranks, weight_before, sum_before, values_by_rank):  # type: ignore[no-untyped-def]
    """The two middle values of the rows of the groups in `mask`."""
    n = values_by_rank.shape[0]
    # smallest number of ranks with at least, and with more than, half the weight
    low, high = 1, n
    while low < high:
        middle = (low + high) // 2
        if _sums_below_rank(mask, middle, start, ranks, weight_before, sum_before)[0] >= half * (1.0 - SAME_WEIGHT):
            high = middle
        else:
            low = middle + 1
    lower = values_by_rank[low - 1]
    high = n
    while low < high:
        middle = (low + high) // 2
        if _sums_below_rank(mask, middle, start, ranks, weight_before, sum_before)[0] > half * (1.0 + SAME_WEIGHT):
            high = middle
        else:
            low = middle + 1
    return lower, values_by_rank[low - 1]


@kernel()
def _moments_of_groups(mask, group_weight, group_mean, group_squares):  # type: ignore[no-untyped-def]
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


@kernel()
def scan_subsets(masks, group, row_by_rank, values_by_rank, weight, min_weight, limit, kind):  # type: ignore[no-untyped-def]
    """Test partitions of groups of rows into two sides, one per bit mask of left groups.

    `group` (n,) int64 is the group of each row, `row_by_rank` (n,) int64 the rows sorted by value. |T| from `limit` on
    are equal, and ties go to the first mask. Returns the index of the best mask (-1 for none), its statistic and the
    number of candidates.
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

    all_groups = (1 << n_groups) - 1
    best, best_t, n_candidates = -1, 0.0, 0
    deviation, squared = np.empty(2), np.empty(2)
    for m in range(masks.shape[0]):
        w_l, mean_l, squares_l = _moments_of_groups(masks[m], group_weight, group_mean, group_squares)
        w_r, mean_r, squares_r = _moments_of_groups(all_groups ^ masks[m], group_weight, group_mean, group_squares)
        if w_l < min_weight or w_r < min_weight:
            continue
        if kind == RAW_VALUES:
            t = t_of_values(w_l, mean_l, squares_l, w_r, mean_r, squares_r)
        else:
            for side in range(2):
                mask = masks[m] if side == 0 else all_groups ^ masks[m]
                w = w_l if side == 0 else w_r
                mean = mean_l if side == 0 else mean_r
                centre = mean
                if kind != CENTRE_MEAN:
                    low, high = _middle_of_groups(mask, w / 2, start, ranks, weight_before, sum_before, values_by_rank)
                    centre = _choose_median(low, high, mean, kind)
                rank = np.searchsorted(values_by_rank, centre, side="right")
                below_w, below_s = _sums_below_rank(mask, rank, start, ranks, weight_before, sum_before)
                deviation[side], squared[side] = deviations(
                    w, mean, squares_l if side == 0 else squares_r, centre, below_w, below_s
                )
            t = t_of_deviations(w_l, deviation[0], squared[0], w_r, deviation[1], squared[1])
        n_candidates += 1
        if best < 0 or min(abs(t), limit) > abs(best_t) * (1.0 + TIE):
            best, best_t = m, t
    return best, best_t, n_candidates
