"""Heterogeneity of the regions' noise beside the decrease of ECE by USNRT, and the sizes of the trees."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.paper.datasets import SEEDS, get_spec, list_datasets
from usnrt_experiments.aggregate import Means
from usnrt_experiments.comparisons import COMPARISONS
from usnrt_experiments.layout import Entry, Layout, number, words
from usnrt_experiments.paper import PAPER_SPEARMAN, paper_value
from usnrt_experiments.verdicts import CONFIRMED, IN_PART, NOT_CONFIRMED, UNKNOWN, Claim

FIRST_SPLIT = "paper's recipe, first split"
OVER_SPLITS = "paper's recipe, mean over splits"
DEFAULT = "default"
SOURCES = ("paper", FIRST_SPLIT, OVER_SPLITS, DEFAULT)
LEVEL = 0.05
# The exact test counts subsets of the ranks; beyond this number the t approximation is as good.
MAX_EXACT = 12
PICTURE = (
    "The paper shows the regions' standard deviations in a figure only, which the LaTeX source at hand lacks: numbers "
    "of regions and standard deviations cannot be compared with it set by set. All that is known of it is Real-time, "
    "with five regions from 0.0071 to 0.1311, and that values spread from 0 to 1.4."
)


def heterogeneity_table(means: Means) -> Layout:
    """Heterogeneity of the regions' noise and decrease of ECE by USNRT, with their rank correlation."""
    table = heterogeneity_values(means)
    order = sorted(table, key=lambda name: -(table[name]["paper"][0] or 0.0))
    decreases = {"paper": "paper", OVER_SPLITS: "paper's recipe", DEFAULT: DEFAULT}
    rows = [
        [
            words(get_spec(name).title),
            *(number(table[name][source][0]) for source in SOURCES),
            *(number(table[name][source][1], pattern="{:.1f}%") for source in decreases),
        ]
        for name in order
    ]
    header = ["Dataset", *(f"Measure ({s})" for s in SOURCES)]
    header += [f"Percentage Decrease ({s})" for s in decreases.values()]
    notes = [
        f"Spearman's rank correlation of the two, as reported in the paper: {PAPER_SPEARMAN}. The paper's measure is "
        "that of one split (seed 42 in the authors' code), its decrease that of means over splits."
    ]
    for source in SOURCES:
        if found := heterogeneity_correlation(means, source):
            notes.append(f"Spearman's rank correlation, {source}: {found}.")
    return Layout("Uncertainty heterogeneity and the decrease of ECE", header, rows, notes)


def heterogeneity_values(means: Means) -> dict[str, dict[str, tuple[float | None, float | None]]]:
    """Heterogeneity measure and percentage decrease of ECE of every data set, from each source."""
    ece = COMPARISONS["ece"]
    found: dict[str, dict[str, tuple[float | None, float | None]]] = {}
    for name in list_datasets():
        first, mean, default = (
            means.heterogeneity(name, recipe, seed)
            for recipe, seed in (("usnrt-paper", SEEDS[0]), ("usnrt-paper", None), ("usnrt", None))
        )
        decrease = ece.percentage(means, name, "paper's recipe")
        found[name] = {
            "paper": (paper_value("heterogeneity", name, "Measure Sorted"), ece.percentage(means, name, "paper")),
            FIRST_SPLIT: (first.value if first else None, decrease),
            OVER_SPLITS: (mean.value if mean else None, decrease),
            DEFAULT: (default.value if default else None, ece.percentage(means, name, DEFAULT)),
        }
    return found


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's correlation over some data sets, and its one-sided p-value.

    Examples
    --------
    >>> from usnrt_experiments.heterogeneity import RankCorrelation
    >>> print(RankCorrelation(0.44, 0.039, 17))
    0.44 over 17 data sets (one-sided p = 0.039)
    """

    value: float
    p_value: float
    n_sets: int
    approximate: float | None = None  # p by the t approximation, where that above is exact

    def __str__(self) -> str:
        other = "" if self.approximate is None else f", {self.approximate:.3f} by the t approximation"
        return f"{self.value:.2f} over {self.n_sets} data sets (one-sided p = {self.p_value:.3f}{other})"


def heterogeneity_correlation(means: Means, source: str, among: Sequence[str] | None = None) -> RankCorrelation | None:
    """Spearman's correlation of measure and decrease; None below four data sets, too few for a test.

    Parameters
    ----------
    means : Means
    source : str
        One of ``SOURCES``.
    among : sequence of str, default=None
        Only these data sets; all by default.
    """
    table = heterogeneity_values(means)
    pairs = [table[name][source] for name in (table if among is None else among)]
    return rank_correlation(
        [(measure, decrease) for measure, decrease in pairs if measure is not None and decrease is not None]
    )


def judged_sets(means: Means) -> list[str]:
    """Data sets for which measure and decrease are known here on the first split."""
    return [name for name, row in heterogeneity_values(means).items() if None not in row[FIRST_SPLIT]]


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> RankCorrelation | None:
    """Spearman's correlation with a one-sided p-value, exact up to 12 pairs; None below four.

    Examples
    --------
    >>> from usnrt_experiments.heterogeneity import rank_correlation
    >>> print(rank_correlation([(1, 1), (2, 2), (3, 3), (4, 4)]))  # one of 24 orders
    1.00 over 4 data sets (one-sided p = 0.042, 0.000 by the t approximation)
    """
    from scipy.stats import rankdata, spearmanr

    if len(pairs) < 4:
        return None
    found = spearmanr(*zip(*pairs), alternative="greater")
    if len(pairs) > MAX_EXACT:
        return RankCorrelation(float(found.statistic), float(found.pvalue), len(pairs))
    # Twice the ranks are whole numbers, also where values are equal.
    first, second = (tuple(round(2 * rank) for rank in rankdata(column)) for column in zip(*pairs))
    return RankCorrelation(float(found.statistic), _share_of_orders(first, second), len(pairs), float(found.pvalue))


@lru_cache(maxsize=16)
def _share_of_orders(first: tuple[int, ...], second: tuple[int, ...]) -> float:
    """The share of all orders of ``second`` whose sum of products with ``first`` is at least the one at hand."""
    n, observed = len(first), sum(one * other for one, other in zip(first, second))
    largest = sum(one * other for one, other in zip(sorted(first), sorted(second)))
    # Numbers of orders by their sums, for every set (bits) of values that the first positions have taken.
    counts = {0: np.eye(1, largest + 1, dtype=np.int64)[0]}
    for one in first:
        following: dict[int, NDArray[np.int64]] = defaultdict(lambda: np.zeros(largest + 1, dtype=np.int64))
        for taken, sums in counts.items():
            for j in range(n):
                if not taken >> j & 1:
                    step = one * second[j]
                    following[taken | 1 << j][step:] += sums[: len(sums) - step]
        counts = following
    return float(counts[2**n - 1][observed:].sum() / math.factorial(n))


def heterogeneity_finding(means: Means) -> str:
    """The paper's correlation beside ours: on the first split as in the paper, over all splits, and the paper's own."""
    first, mean = (heterogeneity_correlation(means, source) for source in (FIRST_SPLIT, OVER_SPLITS))
    stated = heterogeneity_correlation(means, "paper")
    if first is None or mean is None:
        return ""
    same = heterogeneity_correlation(means, "paper", judged_sets(means))
    wheres = {CONFIRMED: "both ways", NOT_CONFIRMED: "in neither way"}
    verdict = _verdict(first, mean)
    where = wheres.get(verdict, "on the first split only" if first.p_value < LEVEL else "over splits only")
    paper = f"{same}, {'' if same and same.p_value < LEVEL else 'not '}significant"
    return (
        "**Heterogeneity.** The paper reports a rank correlation between the heterogeneity of the regions' noise, on "
        f"one split, and the decrease of ECE by USNRT, {stated}; on the data sets run here its own columns give "
        f"{paper}. Here it is {first} with the measure of the first split, as in the paper, and {mean} with its mean "
        f"over splits. {verdict.capitalize()}: significant at the 5 % level {where}."
    )


def _verdict(first: RankCorrelation, mean: RankCorrelation) -> str:
    significant = sum(found.p_value < LEVEL for found in (first, mean))
    return (NOT_CONFIRMED, IN_PART, CONFIRMED)[significant]


def heterogeneity_claim(means: Means) -> Claim:
    """The same as a claim of the paper's text."""
    title = "The regions' heterogeneity is closely related to the decrease of ECE"
    first, mean = (heterogeneity_correlation(means, source) for source in (FIRST_SPLIT, OVER_SPLITS))
    paper = f"rank correlation {PAPER_SPEARMAN}; on the data sets run here "
    paper += str(heterogeneity_correlation(means, "paper", judged_sets(means)) or "too few")
    if first is None or mean is None:
        return Claim(title, paper, "fewer than four data sets", UNKNOWN)
    return Claim(title, paper, f"first split: {first}; mean over splits: {mean}", _verdict(first, mean))


def trees_table(means: Means) -> Layout:
    """Regions, depth and noise of the trees by the paper's recipe."""
    header = ["Dataset", "Splits", "Regions (first split)", "Regions (all)", "Depth (first split)", "Depth (all)"]
    header += ["Lowest std of a region", "Highest std of a region"]
    rows = []
    for name in list_datasets():
        trees = trees_of(means, name)
        if not trees:
            continue
        first = trees.get(SEEDS[0], {})
        cells = [number(len(trees), pattern="{:.0f}")]
        for key in ("n_leaves", "max_depth"):
            cells += [number(first.get(key), pattern="{:.0f}"), _span([tree[key] for tree in trees.values()])]
        stds = first.get("leaf_residual_std") or [None]
        rows.append(
            [words(get_spec(name).title), *cells, *(number(s, pattern="{:.4f}") for s in (min(stds), max(stds)))]
        )
    notes = [
        "Depth: cuts on the longest path. Standard deviations of the training residuals, on the first split.",
        PICTURE,
    ]
    return Layout("Trees by the paper's recipe", header, rows, notes)


def trees_of(means: Means, dataset: str, recipe: str = "usnrt-paper") -> dict[int, dict[str, Any]]:
    """Facts about the trees by a recipe, the paper's by default, by the seed of the split."""
    records = means.records_of(dataset, recipe)
    return {record.cell.seed: tree for record in records if (tree := record.meta.get("tree")) and "max_depth" in tree}


def _span(values: Sequence[int]) -> Entry:
    low, high = min(values), max(values)
    return words(str(low) if low == high else f"{low} to {high}")
