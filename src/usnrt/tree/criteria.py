"""Splitting criteria of the split search, and how to add one.

A criterion is a subclass of `Criterion`. ``prepare`` is called once per node with residuals, targets and weights;
``best_cut`` is then called per feature, given as a `SplitColumn`, and returns a `Cut`, or None if no cut leaves enough
rows on both sides. `SearchCriterion` is the base of the criteria that test every cut; others override ``best_cut``, as
`SupportSigns` does. A criterion in `CRITERIA` is available by name; `best_split` also takes an instance::

    class FirstCut(Criterion):                      # cuts each feature at its lowest admissible threshold
        def prepare(self, residuals, target, weight):
            return weight
        def category_values(self, node, group, n_groups, pseudo_count=0.0):
            return np.arange(n_groups, dtype=float)
        def best_cut(self, node, column, min_weight):
            for arrangement in column.arrangements():
                for position in arrangement.admissible(node, min_weight):
                    return Cut(arrangement.threshold(position), arrangement.missing_left, 0.0, 1.0, 0.0, 1)
            return None
"""

from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from usnrt.tree._kernels import (
    CENTRE_FAR_MEDIAN,
    CENTRE_MEAN,
    CENTRE_MEDIAN,
    DIFFERENT,
    NO_SPREAD,
    RAW_VALUES,
    TIE,
    fenwick,
    scan_cuts,
    scan_subsets,
)
from usnrt.tree._sorting import argsort
from usnrt.tree.pvalue import log10_p, underflow_limit
from usnrt.tree.split_column import Arrangement, FloatArray, IntArray, SplitColumn, between, standardise


class Cut(NamedTuple):
    """The best cut of one feature.

    Attributes
    ----------
    threshold : float
        Values at most this go left; +inf separates the missing values from all others.
    missing_left : bool
        Whether missing values go left.
    statistic, df : float
        The test statistic, and its degrees of freedom.
    merit : float
        The value that features are ranked by; larger is better.
    n_candidates : int
        Number of tests that this one was chosen from.
    """

    threshold: float
    missing_left: bool
    statistic: float
    df: float
    merit: float
    n_candidates: int


@dataclass(frozen=True)
class NodeValues:
    """The tested values of a node, standardised, sorted and summed once for all features.

    Candidates with |T| of at least ``limit`` are equally good.
    """

    values: FloatArray
    weight: FloatArray
    rank: IntArray
    row_by_rank: IntArray
    values_by_rank: FloatArray
    weight_by_rank: FloatArray
    total: FloatArray
    limit: float = inf

    @classmethod
    def of(cls, values: FloatArray, weight: FloatArray, limit: float = inf) -> "NodeValues":
        """From values and weights in the order of the node's rows, both of shape (n,)."""
        values = standardise(values, weight)
        row_by_rank = argsort(values)
        rank = np.empty_like(row_by_rank)
        rank[row_by_rank] = np.arange(len(values))
        by_rank = values[row_by_rank], weight[row_by_rank]
        return cls(values, weight, rank, row_by_rank, *by_rank, fenwick(*by_rank), limit)


class Criterion:
    """Interface of a splitting criterion, see the module's documentation."""

    #: whether `best_subset` tests all subsets of few categories; otherwise they are ordered by `category_values`
    tests_subsets = False
    #: whether the sides are compared by the spread of their residuals
    compares_spreads = False

    def prepare(self, residuals: FloatArray, target: FloatArray | None, weight: FloatArray) -> Any:
        """Compute what the other methods need about a node; all arrays have shape (n,)."""
        raise NotImplementedError

    def best_cut(self, node: Any, column: SplitColumn, min_weight: float) -> Cut | None:
        """The best cut of one feature with at least `min_weight` on both sides."""
        raise NotImplementedError

    def category_values(self, node: Any, group: IntArray, n_groups: int, pseudo_count: float = 0.0) -> FloatArray:
        """One number per category, (n_groups,), so that categories can be cut like a numeric feature.

        Parameters
        ----------
        node : object
            What `prepare` returned for the rows that order the categories; they may differ from the tested rows.
        group : ndarray of int of shape (n,)
            The category of each of these rows, -1 for missing. A category without rows gets the overall mean.
        pseudo_count : float
            Number of pseudo-rows at the overall mean that are added to each category, because means of few rows are
            noisy.
        """
        raise NotImplementedError

    def best_subset(self, node: Any, group: IntArray, masks: IntArray, min_weight: float) -> tuple[int, Cut] | None:
        """The best mask's index and cut; each mask is a bit set of the groups that go left."""
        raise NotImplementedError


class SearchCriterion(Criterion):
    """A two-sample t-test of every possible cut; the largest |T| wins.

    All cuts of a node have the same degrees of freedom, so the largest |T| has the smallest p, also where p underflows.
    """

    tests_subsets = True
    kind = CENTRE_MEAN
    #: whether candidates are compared by p in double precision: where p underflows, the first of them wins
    compares_p = False

    def prepare(self, residuals: FloatArray, target: FloatArray | None, weight: FloatArray) -> NodeValues:
        limit = underflow_limit(float(weight.sum()) - 2) if self.compares_p else inf
        return NodeValues.of(residuals, weight, limit)

    def best_cut(self, node: NodeValues, column: SplitColumn, min_weight: float) -> Cut | None:
        best: Cut | None = None
        n_candidates = 0
        for arrangement in column.arrangements():
            position, statistic, n_tests = self._scan(node, arrangement, min_weight, np.empty(0))
            n_candidates += n_tests
            if position < 0:
                continue
            cut = self._cut(node, arrangement.threshold(position), arrangement.missing_left, statistic)
            if best is None or _better(cut, best):
                best = cut
        return best._replace(n_candidates=n_candidates) if best else None

    def statistics(self, node: NodeValues, arrangement: Arrangement, min_weight: float) -> FloatArray:
        """T of every admissible cut of an arrangement, (n - 1,), NaN elsewhere."""
        every = np.full(len(arrangement.order) - 1, np.nan)
        self._scan(node, arrangement, min_weight, every)
        return every

    def best_subset(
        self, node: NodeValues, group: IntArray, masks: IntArray, min_weight: float
    ) -> tuple[int, Cut] | None:
        index, statistic, n_candidates = scan_subsets(
            masks, group, node.row_by_rank, node.values_by_rank, node.weight, float(min_weight), node.limit, self.kind
        )
        if index < 0:
            return None
        return index, self._cut(node, 0.0, False, statistic)._replace(n_candidates=n_candidates)

    def category_values(
        self, node: NodeValues, group: IntArray, n_groups: int, pseudo_count: float = 0.0
    ) -> FloatArray:
        # Ranks, so that categories with equal scores stay distinct; ties are ordered by category.
        scores = _group_means(self._score(node), node.weight, group, n_groups, pseudo_count)
        values = np.empty(n_groups)
        values[np.argsort(scores, kind="stable")] = np.arange(n_groups)
        return values

    def _score(self, node: NodeValues) -> FloatArray:
        return np.abs(node.values)  # standardised: the node's mean is 0

    def _scan(
        self, node: NodeValues, arrangement: Arrangement, min_weight: float, every: FloatArray
    ) -> tuple[int, float, int]:
        found: tuple[int, float, int] = scan_cuts(
            arrangement.order,
            arrangement.allowed,
            node.rank,
            node.values_by_rank,
            node.weight_by_rank,
            node.total,
            float(min_weight),
            node.limit,
            self.kind,
            every,
        )
        return found

    def _cut(self, node: NodeValues, threshold: float, missing_left: bool, statistic: float) -> Cut:
        merit = min(abs(statistic), node.limit)
        return Cut(threshold, missing_left, statistic, float(node.weight.sum()) - 2, merit, 1)


class Levene(SearchCriterion):
    """Levene's test for equal spread of the residuals, with absolute deviations from each side's mean (the paper)."""

    compares_spreads = True


class BrownForsythe(SearchCriterion):
    """Levene's test with absolute deviations from each side's median, more robust to skewed residuals."""

    kind = CENTRE_MEDIAN
    compares_spreads = True


class LeveneByP(SearchCriterion):
    """Levene's test, candidates compared by p in double precision, as in the code of the paper's authors."""

    compares_spreads = True
    compares_p = True


class BrownForsytheByP(SearchCriterion):
    """Brown-Forsythe, candidates compared by p in double precision, as in the code of the paper's authors."""

    kind = CENTRE_MEDIAN
    compares_spreads = True
    compares_p = True


class ConservativeBrownForsythe(SearchCriterion):
    """Brown-Forsythe, but of the points between two middle values, the one farther from the side's mean is the median.

    |T| is at most that of `BrownForsythe`, and the same if both sides have an odd number of rows. It differs where the
    residuals have two separate modes, which the midpoint would split far more often than alpha. A constant target is
    not split: its residuals are the errors of the network only, and these differ in spread from place to place.
    """

    kind = CENTRE_FAR_MEDIAN
    compares_spreads = True

    def prepare(self, residuals: FloatArray, target: FloatArray | None, weight: FloatArray) -> NodeValues:
        is_constant = target is not None and bool((target == target[:1]).all())
        return NodeValues.of(np.zeros_like(residuals) if is_constant else residuals, weight)


class Cart(SearchCriterion):
    """CART: the largest decrease of the target's sum of squares, equivalent to the largest |t| between the sides."""

    kind = RAW_VALUES

    def prepare(self, residuals: FloatArray, target: FloatArray | None, weight: FloatArray) -> NodeValues:
        if target is None:
            raise ValueError("target must be given for the criterion 'cart', got None")
        return NodeValues.of(target, weight)

    def _score(self, node: NodeValues) -> FloatArray:
        return node.values  # categories are ordered by their mean target


class SupportSigns(Criterion):
    """SUPPORT (Chaudhuri et al. 1994), which uses only the signs of the residuals.

    Rows with positive residuals are compared with the others in each feature, by a t-test of the means and by Levene's
    test of the spreads; the feature with the smallest p is cut halfway between the two means, or at the nearest
    admissible threshold. Missing values are excluded from the tests and go to the side with more rows, unless the other
    side allows a cut nearer to the midpoint. Categories are represented by their share of positive residuals. The
    statistic is that of the test with the smaller p, positive minus other residuals.
    """

    def prepare(
        self, residuals: FloatArray, target: FloatArray | None, weight: FloatArray
    ) -> tuple[NDArray[np.bool_], FloatArray]:
        return residuals > 0, weight

    def category_values(
        self, node: tuple[NDArray[np.bool_], FloatArray], group: IntArray, n_groups: int, pseudo_count: float = 0.0
    ) -> FloatArray:
        positive, weight = node
        return _group_means(positive.astype(float), weight, group, n_groups, pseudo_count)

    def best_cut(
        self, node: tuple[NDArray[np.bool_], FloatArray], column: SplitColumn, min_weight: float
    ) -> Cut | None:
        positive, weight = node
        present = ~np.isnan(column.values)
        first, second = present & positive, present & ~positive
        w_first, w_second = weight[first].sum(), weight[second].sum()
        if w_first == 0 or w_second == 0 or w_first + w_second <= 2:
            return None
        values = np.full(len(weight), np.nan)
        values[present] = standardise(column.values[present], weight[present])
        means = [np.average(values[rows], weights=weight[rows]) for rows in (first, second)]
        nearest = self._nearest_cut(column, values, (means[0] + means[1]) / 2, weight, min_weight)
        if nearest is None:
            return None
        deviations = np.abs(values - np.where(positive, means[0], means[1]))
        tests = [_t_test(sample, weight, first, second) for sample in (values, deviations)]
        statistic = max(tests, key=abs)
        df = float(w_first + w_second - 2)
        return Cut(*nearest, statistic, df, -log10_p(statistic, df), 2)

    def _nearest_cut(
        self, column: SplitColumn, values: FloatArray, wanted: float, weight: FloatArray, min_weight: float
    ) -> tuple[float, bool] | None:
        """Threshold and ``missing_left`` of the admissible cut nearest to a (standardised) value."""
        best: tuple[tuple[float, bool], float, bool] | None = None
        w_missing = weight[np.isnan(values)].sum()
        for arrangement in column.arrangements():
            scaled = values[arrangement.order]
            positions = arrangement.admissible(weight, min_weight)
            positions = positions[~np.isnan(scaled[positions + 1])]  # without the cut of missing from present values
            if len(positions) == 0:
                continue
            low, high = scaled[positions], scaled[positions + 1]
            distances = np.maximum(low - wanted, wanted - high)
            distances[(low <= wanted) & (wanted < high)] = -inf
            nearest = int(np.argmin(distances))
            position = int(positions[nearest])
            present_left = weight[arrangement.order[: position + 1]].sum() - w_missing * arrangement.missing_left
            missing_with_fewer = (present_left < (weight.sum() - w_missing) / 2) == arrangement.missing_left
            key = (float(distances[nearest]), bool(missing_with_fewer))
            if best is None or key < best[0]:
                threshold = arrangement.threshold(position)
                if distances[nearest] == -inf:  # exactly at the wanted value, in units of the column
                    share = (wanted - low[nearest]) / (high[nearest] - low[nearest])
                    exact = between(arrangement.values[position], arrangement.values[position + 1], share)
                    first, end = arrangement.gap(position)
                    threshold = exact if first <= exact < end else threshold
                best = key, threshold, arrangement.missing_left
        return best[1:] if best else None


CRITERIA: dict[str, type[Criterion]] = {
    "levene": Levene,
    "brown-forsythe": BrownForsythe,
    "levene-p": LeveneByP,
    "brown-forsythe-p": BrownForsytheByP,
    "conservative-brown-forsythe": ConservativeBrownForsythe,
    "support": SupportSigns,
    "cart": Cart,
}


def get_criterion(criterion: str | Criterion) -> Criterion:
    """The criterion with this name; an instance is returned unchanged."""
    if isinstance(criterion, Criterion):
        return criterion
    if criterion not in CRITERIA:
        names = ", ".join(repr(name) for name in CRITERIA)
        raise ValueError(f"criterion must be one of {names}, got {criterion!r}")
    return CRITERIA[criterion]()


def _better(cut: Cut, than: Cut) -> bool:
    """Whether a cut is better than another one of the same feature; of equal ones, the lower threshold is."""
    if cut.merit > than.merit * (1 + TIE):
        return True
    return cut.merit * (1 + TIE) >= than.merit and cut.threshold < than.threshold


def _group_means(
    values: FloatArray, weight: FloatArray, group: IntArray, n_groups: int, pseudo_count: float
) -> FloatArray:
    """Mean of each group with `pseudo_count` rows at the overall mean added; the overall mean for empty groups."""
    member = group >= 0
    overall = float(np.average(values, weights=weight))
    sums = np.bincount(group[member], (values * weight)[member], minlength=n_groups) + pseudo_count * overall
    weights = np.bincount(group[member], weight[member], minlength=n_groups) + pseudo_count
    return np.where(weights > 0, sums / np.where(weights > 0, weights, 1.0), overall)


def _t_test(values: FloatArray, weight: FloatArray, first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """Pooled two-sample t statistic of weighted rows."""
    w = [weight[rows].sum() for rows in (first, second)]
    means = [np.average(values[rows], weights=weight[rows]) for rows in (first, second)]
    squares = sum(weight[rows] @ (values[rows] - m) ** 2 for rows, m in zip((first, second), means))
    difference = means[0] - means[1]
    if squares <= NO_SPREAD * sum(w):
        return 0.0 if abs(difference) <= DIFFERENT else float(np.copysign(inf, difference))
    return float(difference / sqrt(squares / (sum(w) - 2) * (1 / w[0] + 1 / w[1])))
