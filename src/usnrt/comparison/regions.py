"""Regions to evaluate all models in: those of one tree that belongs to none of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold

from usnrt.tables import TableEncoder
from usnrt.tables.training import TrainingTable, TreeRows
from usnrt.tree.grow import Node, Residuals, grow
from usnrt.tree.recipe import SplitRule
from usnrt.tree.rules import region_text
from usnrt.utils.context import FitContext
from usnrt.utils.sklearn_trees import MAX_CATEGORIES, boosting_threads, without_empty_columns
from usnrt.utils.types import Floats, Rows

# Test rows that a region should have, so that its coverage says something.
MIN_TEST_ROWS = 50
# Regions with fewer test rows do not count.
FEWEST_COUNTED = 20
MAX_REGIONS = 10


@dataclass(frozen=True)
class Regions:
    """The region of each row, and the rule of each region; one, "all rows", if the table was not split."""

    region: NDArray[np.intp]
    rules: list[str]


class _GivenResiduals:
    """Strategy of a tree that is grown from given residuals: every second row is tested."""

    def __init__(self, residuals: Floats) -> None:
        self.residuals = residuals
        self.is_tested = np.arange(len(residuals)) % 2 == 0

    def compute_residuals(self, node: Node, rng: np.random.Generator) -> None:
        rows = node.rows[self.is_tested[node.rows]]
        node.residuals = rows, self.residuals[rows]

    def untested_residuals(self, node: Node) -> Residuals | None:
        rows = node.rows[~self.is_tested[node.rows]]
        return rows, self.residuals[rows]

    def finish_leaf(self, node: Node, rng: np.random.Generator) -> None:
        """Nothing is trained."""


def find_regions(
    encoder: TableEncoder, raw: Floats, y: Floats, train: Rows, n_test: int, seed: int, n_jobs: int | None = 1
) -> Regions:
    """Regions with different noise, by the default estimator's test of the residuals of a neutral booster.

    The tree is grown from the training rows; each region is to have enough of the ``n_test`` test rows.
    """
    n = len(train)
    smallest = max(int(np.ceil(n * MIN_TEST_ROWS / max(n_test, 1))), -(-n // MAX_REGIONS))
    if n < 2 * smallest or np.ptp(y[train]) == 0:
        return Regions(np.zeros(len(y), dtype=np.intp), ["all rows"])
    residuals = _cross_fitted_residuals(encoder, raw[train], y[train], seed, n_jobs)
    table = TrainingTable(np.asfortranarray(raw[train]), np.empty((n, 0), dtype=np.float32), residuals, np.ones(n))
    rule = SplitRule(0.01, MAX_REGIONS, smallest, None, criterion="conservative-brown-forsythe")
    strategy = _GivenResiduals(residuals)
    rows = TreeRows(table, np.zeros(0, dtype=np.int64), encoder.n_categories_, np.zeros(n, dtype=bool))
    tree = grow(rows, rule, strategy, FitContext(seed)).tree
    if tree.n_leaves == 1:
        return Regions(np.zeros(len(y), dtype=np.intp), ["all rows"])
    rules = [region_text(tree, int(leaf), encoder.columns_) for leaf in tree.leaves]
    return Regions(tree.leaf_of(raw).astype(np.intp), rules)


def _cross_fitted_residuals(encoder: TableEncoder, raw: Floats, y: Floats, seed: int, n_jobs: int | None) -> Floats:
    """Residuals of rows that the booster was not trained on."""
    n_categories = encoder.n_categories_
    categorical = (n_categories > 0) & (n_categories <= MAX_CATEGORIES)
    residuals = np.empty(len(y))
    for fitted, left in KFold(3, shuffle=True, random_state=seed).split(raw):
        booster = HistGradientBoostingRegressor(max_iter=50, categorical_features=categorical, random_state=seed)
        with boosting_threads(n_jobs, len(y)):
            booster.fit(without_empty_columns(raw[fitted]), y[fitted])
            residuals[left] = y[left] - booster.predict(raw[left])
    return residuals


def worst_gap(inside: NDArray[np.bool_] | Floats, region: NDArray[np.intp], coverage: float) -> tuple[float, int]:
    """Largest deviation of a region's coverage from the nominal one, negative if too few are inside, and the region.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.comparison.regions import worst_gap
    >>> inside = np.repeat([True, False, True], [30, 10, 40])
    >>> gap, region = worst_gap(inside, np.repeat([0, 1], 40), 0.9)
    >>> round(gap, 2), region
    (-0.15, 0)
    """
    rows = np.bincount(region)
    counted = rows >= min(FEWEST_COUNTED, rows.max())
    gaps = np.bincount(region, inside) / np.maximum(rows, 1) - coverage
    worst = int(np.argmax(np.where(counted, np.abs(gaps), -1.0)))
    return float(gaps[worst]), worst


def gap_by_chance(region: NDArray[np.intp], coverage: float) -> float:
    """Expected largest deviation, without its sign, of a perfectly calibrated forecast in these regions.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.comparison.regions import gap_by_chance
    >>> round(gap_by_chance(np.zeros(100, dtype=int), 0.9), 3)
    0.024
    """
    rows = np.bincount(region)
    rows = rows[rows >= min(FEWEST_COUNTED, rows.max())]
    draws = np.random.default_rng(0).binomial(rows, coverage, size=(4000, len(rows)))
    return float(np.abs(draws / rows - coverage).max(axis=1).mean())
