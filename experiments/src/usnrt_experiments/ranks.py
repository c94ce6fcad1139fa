"""Tests over data sets: signed ranks, Holm's correction, Friedman's ranks and Nemenyi's critical difference.

As in Demšar, *Statistical comparisons of classifiers over multiple data sets* (2006).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc
from scipy.stats import rankdata, studentized_range

from usnrt.utils.types import Floats

ALPHA = 0.05


def signed_rank_p(differences: ArrayLike) -> float:
    """Two-sided p-value of Wilcoxon's signed-rank test, exact also with ties; zeros are dropped.

    Parameters
    ----------
    differences : array-like of shape (n,)
        One per data set.

    Returns
    -------
    float
        1 without a difference other than zero.

    Examples
    --------
    >>> from usnrt_experiments.ranks import signed_rank_p
    >>> signed_rank_p([-1.0, -2.0, -3.0, -4.0, -5.0, -6.0])
    0.03125
    """
    values = np.asarray(differences, dtype=float)
    values = values[values != 0]
    if len(values) == 0:
        return 1.0
    # Ranks of ties are halves, so that twice the rank is a whole number: the sums have an exact distribution.
    ranks = np.rint(2 * rankdata(np.abs(values))).astype(int)
    ways = np.zeros(ranks.sum() + 1)
    ways[0] = 1.0
    for rank in ranks:
        moved = np.zeros_like(ways)
        moved[rank:] = ways[: len(ways) - rank]
        ways = (ways + moved) / 2
    positive = int(ranks[values > 0].sum())
    return float(min(1.0, 2 * min(ways[: positive + 1].sum(), ways[positive:].sum())))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for their number by Holm's method.

    Examples
    --------
    >>> from usnrt_experiments.ranks import holm
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    corrected = np.empty(len(p_values))
    largest = 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = largest
    return [float(p) for p in corrected]


@dataclass(frozen=True)
class Ranking:
    """Average ranks of models over data sets.

    Attributes
    ----------
    models, datasets : tuple of str
    ranks : ndarray of shape (n_models,)
        1 is best.
    statistic, p_value : float
        Of Friedman's test that all models are equal.
    critical_difference : float
        Of Nemenyi's test: models whose ranks differ by less are not distinguished at the 5 % level.
    """

    models: tuple[str, ...]
    datasets: tuple[str, ...]
    ranks: Floats
    statistic: float
    p_value: float
    critical_difference: float

    def cliques(self) -> list[tuple[int, int]]:
        """Longest runs of models, by rank, that are not distinguished: first and last place of each, from 0."""
        ordered = np.sort(self.ranks)
        # A little more than the difference, so that rounding does not part equal ranks.
        ends = np.searchsorted(ordered, ordered + self.critical_difference * (1 + 1e-9)) - 1
        found: list[tuple[int, int]] = []
        for start, end in enumerate(ends.tolist()):
            if end > start and (not found or end > found[-1][1]):
                found.append((start, end))
        return found


def ranking(table: Mapping[str, Mapping[str, float]], models: Sequence[str]) -> Ranking:
    """Friedman's test of a complete table.

    Parameters
    ----------
    table : mapping of data set to mapping of model to float
        Lower is better.
    models : sequence of str
        At least 2.

    Examples
    --------
    >>> from usnrt_experiments.ranks import ranking
    >>> found = ranking({name: {"a": 1.0, "b": 2.0, "c": 3.0} for name in "wxyz"}, ["a", "b", "c"])
    >>> found.ranks, round(found.p_value, 4)
    (array([1., 2., 3.]), 0.0183)
    """
    values = np.array([[row[model] for model in models] for row in table.values()])
    n_sets, n_models = values.shape
    by_row = rankdata(values, axis=1)
    # Ties within a row reduce the variance of its ranks.
    spread = np.sum((by_row - (n_models + 1) / 2) ** 2)
    deviation = np.sum((by_row.sum(axis=0) - n_sets * (n_models + 1) / 2) ** 2)
    statistic = float((n_models - 1) * deviation / spread) if spread > 0 else 0.0
    p_value = float(chdtrc(n_models - 1, statistic))
    return Ranking(
        tuple(models), tuple(table), by_row.mean(axis=0), statistic, p_value, critical_difference(n_models, n_sets)
    )


@lru_cache(maxsize=64)
def critical_difference(n_models: int, n_sets: int) -> float:
    """Nemenyi's critical difference of average ranks at the 5 % level.

    Examples
    --------
    >>> from usnrt_experiments.ranks import critical_difference
    >>> round(critical_difference(4, 14), 2)  # Demšar's example: 2.569 times 0.488
    1.25
    """
    q = studentized_range.ppf(1 - ALPHA, n_models, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_models * (n_models + 1) / (6 * n_sets)))


def largest_complete(known: Mapping[str, set[str]], required: str) -> tuple[list[str], list[str]]:
    """The models and data sets with the most complete cells.

    Parameters
    ----------
    known : mapping of model to set of data sets
        On which it has been run.
    required : str
        A model that must be in.

    Returns
    -------
    models, datasets : list of str
        Every model was run on every data set; data sets times models is the largest possible number. Empty if
        ``required`` was not run, or alone.

    Examples
    --------
    >>> from usnrt_experiments.ranks import largest_complete
    >>> largest_complete({"a": {"x", "y", "z"}, "b": {"x", "y", "z"}, "c": {"x"}}, "a")
    (['a', 'b'], ['x', 'y', 'z'])
    """
    # Only intersections of what models were run on can be largest.
    closed: set[frozenset[str]] = set()
    for sets in known.values():
        here = frozenset(sets & known.get(required, set()))
        closed |= {here} | {here & other for other in closed}
    best: tuple[list[str], list[str]] = ([], [])
    for datasets in sorted(closed, key=sorted):
        models = [model for model, sets in known.items() if datasets <= sets]
        size = len(models) * len(datasets)
        if len(models) > 1 and (size, len(datasets)) > (len(best[0]) * len(best[1]), len(best[1])):
            best = models, sorted(datasets)
    return best
