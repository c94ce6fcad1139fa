"""The compiled loops of the split search; all arrays are contiguous float64, int64 or bool.

The walk along one feature keeps running means and sums of squares (Welford, from both ends) for each side's mean and
spread. The sum of absolute deviations from any centre, and the median, come from following the centre's place among
the sorted values, with a Fenwick tree over the ranks for far jumps, so never more than O(log n) a cut: all cuts of a
feature take O(n log n), each exact.

The tested values are standardised over the node before they come here (`usnrt.tree.split_column.standardise`), so the
constants below are in units of the node's standard deviation. All of it is in one file because numba's cache on disk
does not notice changes in other files.
"""

from math import inf, sqrt

import numpy as np

from usnrt.utils.jit import kernel

# What the two-sample t-test compares between the sides.
CENTRE_MEAN = 0  # |value - the side's mean|: Levene
CENTRE_MEDIAN = 1  # |value - the side's median|: Brown-Forsythe
RAW_VALUES = 2  # the values themselves

# Weights this close (relatively) are the same: sums of fractional weights round.
SAME_WEIGHT = 1e-9
# Two statistics this close (relatively) are a tie and the first one stays, whatever the rounding of the sums.
TIE = 1e-9
# A side whose spread is below 1e-10 of the node's is constant but for rounding.
NO_SPREAD = 1e-20
# A pooled sum of squares below this share of the sum it is the difference of is zero but for rounding.
CANCELLED = 1e-12
# Deviations that are constant on both sides differ between the sides when they differ by more than this share.
DIFFERENT = 1e-5
# Ranks that a leaf of the Fenwick trees stands for; so few are quicker summed one by one than in a deeper tree.
BUCKET = 64
# Steps to follow a centre before it is looked up in the tree.
WALK = 32


@kernel()
def deviations(weight, mean, squares, centre, weight_below, sum_below):
    """Mean of |value - centre| and sum of (value - centre)^2 of one side."""
    sum_above = weight * mean - sum_below
    weight_above = weight - weight_below
    absolute = (sum_above - centre * weight_above) - (sum_below - centre * weight_below)
    return max(absolute, 0.0) / weight, squares + weight * (mean - centre) ** 2


@kernel()
def _pooled_t(weight_l, mean_l, weight_r, mean_r, within):
    df = weight_l + weight_r - 2.0
    if df <= 0.0:
        return 0.0
    return (mean_l - mean_r) / sqrt(within / df * (1.0 / weight_l + 1.0 / weight_r))


@kernel()
def t_of_deviations(weight_l, mean_l, squares_l, weight_r, mean_r, squares_r):
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
def t_of_values(weight_l, mean_l, squares_l, weight_r, mean_r, squares_r):
    """Pooled t of the values themselves, from each side's mean and sum of squares about it."""
    within = squares_l + squares_r
    if within > NO_SPREAD * (weight_l + weight_r):
        return _pooled_t(weight_l, mean_l, weight_r, mean_r, within)
    if abs(mean_l - mean_r) <= DIFFERENT or weight_l + weight_r <= 2.0:
        return 0.0
    return inf if mean_l > mean_r else -inf


@kernel()
def fenwick(values_by_rank, weight_by_rank):
    """Fenwick tree over buckets of ranks: their weights and weighted values, shape (n_buckets + 1, 2)."""
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


# The walk keeps one line of memory a rank, (n, 4): the value, its weight on the left side, and that on the right side.
VALUE, LEFT, RIGHT = 0, 1, 2

# A `place` in a side is a number of ranks, and the weight and the weighted sum of the side's values below that rank.
# Centres move little from cut to cut, so that a place is followed step by step. A far one is looked up in the side's
# Fenwick tree, base + sign * tree: nothing + tree for the left side, total - tree for the right one.


@kernel()
def _look_up_value(centre, side, cells, base, sign, tree, first_step):
    """The place behind the last value that is at most `centre`."""
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
def _look_up_weight(limit, side, cells, base, sign, tree, first_step):
    """The last place whose weight is at most `limit`."""
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
def _follow_value(place, centre, side, cells, base, sign, tree, first_step):
    """The place behind the last value that is at most `centre`, starting from a place that may be near."""
    n = cells.shape[0]
    r, weight, value = place
    for _ in range(WALK):
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
def _follow_median(place, half, side, cells, base, sign, tree, first_step):
    """Median of one side, each row counted `weight` times, and the place behind the lower half.

    `half` is half the side's weight; where the lower half ends exactly between two values, their mean is the median.
    """
    n = cells.shape[0]
    r, weight, value = place
    limit = half * (1.0 + SAME_WEIGHT)
    steps = 0
    while steps < WALK:
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
    if steps == WALK:
        r, weight, value = _look_up_weight(limit, side, cells, base, sign, tree, first_step)
    median = cells[r, VALUE]
    if weight >= half * (1.0 - SAME_WEIGHT):
        lower = r - 1
        while lower > 0 and lower > r - WALK and cells[lower, side] == 0.0:
            lower -= 1
        if cells[lower, side] == 0.0:
            below = half * (1.0 - SAME_WEIGHT)
            lower = _look_up_weight(below, side, cells, base, sign, tree, first_step)[0]
        median = cells[lower, VALUE] + (median - cells[lower, VALUE]) / 2
    return median, (r, weight, value)


@kernel()
def scan_cuts(order, allowed, rank, values_by_rank, weight_by_rank, total, min_weight, kind, every):
    """Test every allowed cut along an order of the rows.

    Parameters
    ----------
    order : (n,) int64, the rows in the order of the walk.
    allowed : (n - 1,) bool, whether rows up to position i may be cut from the rest.
    rank : (n,) int64, the position of each row among the sorted values.
    values_by_rank, weight_by_rank : (n,) float64, the sorted values and how often each counts.
    total : (n_buckets + 1, 2) float64, `fenwick` of all rows.
    min_weight : float, the least weight of a side.
    kind : int, one of the constants above.
    every : float64 array of length n - 1 that receives each cut's statistic, or of length 0.

    Returns
    -------
    position, statistic, n_candidates : the first cut of the largest |T|; position is -1 without candidates.
    """
    n = order.shape[0]
    cells = np.zeros((n, 4))
    cells[:, VALUE] = values_by_rank
    cells[:, RIGHT] = weight_by_rank
    # Weights, means and sums of squares of the rows behind each cut.
    behind = np.empty((n, 3))
    w_r, mean_r, squares_r = 0.0, 0.0, 0.0
    for i in range(n - 1, 0, -1):
        cell = cells[rank[order[i]]]
        w_r += cell[RIGHT]
        delta = cell[VALUE] - mean_r
        mean_r += delta * (cell[RIGHT] / w_r)
        squares_r += cell[RIGHT] * delta * (cell[VALUE] - mean_r)
        behind[i - 1, 0], behind[i - 1, 1], behind[i - 1, 2] = w_r, mean_r, squares_r

    n_buckets = total.shape[0] - 1
    tree, nothing = np.zeros((n_buckets + 1, 2)), np.zeros((n_buckets + 1, 2))
    first_step = 1
    while first_step * 2 <= n_buckets:
        first_step *= 2
    place_l, place_r = (0, 0.0, 0.0), (0, 0.0, 0.0)
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
            if r < place_l[0]:
                place_l = place_l[0], place_l[1] + w, place_l[2] + w * value
            if r < place_r[0]:
                place_r = place_r[0], place_r[1] - w, place_r[2] - w * value
        w_r, mean_r, squares_r = behind[i, 0], behind[i, 1], behind[i, 2]
        if w_r < min_weight:
            break
        if not allowed[i] or w_l < min_weight:
            continue
        if kind == RAW_VALUES:
            t = t_of_values(w_l, mean_l, squares_l, w_r, mean_r, squares_r)
        else:
            if kind == CENTRE_MEAN:
                centre_l, centre_r = mean_l, mean_r
                place_l = _follow_value(place_l, mean_l, LEFT, cells, nothing, 1.0, tree, first_step)
                place_r = _follow_value(place_r, mean_r, RIGHT, cells, total, -1.0, tree, first_step)
            else:
                centre_l, place_l = _follow_median(place_l, w_l / 2, LEFT, cells, nothing, 1.0, tree, first_step)
                centre_r, place_r = _follow_median(place_r, w_r / 2, RIGHT, cells, total, -1.0, tree, first_step)
            dev_l, dev2_l = deviations(w_l, mean_l, squares_l, centre_l, place_l[1], place_l[2])
            dev_r, dev2_r = deviations(w_r, mean_r, squares_r, centre_r, place_r[1], place_r[2])
            t = t_of_deviations(w_l, dev_l, dev2_l, w_r, dev_r, dev2_r)
        n_candidates += 1
        if every.shape[0] > 0:
            every[i] = t
        if best < 0 or abs(t) > abs(best_t) * (1.0 + TIE):
            best, best_t = i, t
    return best, best_t, n_candidates


@kernel()
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


@kernel()
def _median_of_groups(mask, half, start, ranks, weight_before, sum_before, values_by_rank):
    n = values_by_rank.shape[0]
    # smallest number of ranks that hold at least, and more than, half the weight
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
    return lower + (values_by_rank[low - 1] - lower) / 2


@kernel()
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


@kernel()
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
            t = t_of_values(w_l, mean_l, squares_l, w_r, mean_r, squares_r)
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
                deviation[side], squared[side] = deviations(
                    w, mean, squares_l if side == 0 else squares_r, centre, below_w, below_s
                )
            t = t_of_deviations(w_l, deviation[0], squared[0], w_r, deviation[1], squared[1])
        n_candidates += 1
        if best < 0 or abs(t) > abs(best_t) * (1.0 + TIE):
            best, best_t = m, t
    return best, best_t, n_candidates
