"""Trees grown from given residuals, without any network: every fifth row is tested, the others are not."""

from types import SimpleNamespace

import numpy as np

from usnrt.estimators.regressor import MIN_TESTED
from usnrt.tree.grow import TreeRows, grow
from usnrt.tree.recipe import SplitRule
from usnrt.utils.context import FitContext


class GivenResiduals:
    """A strategy with given residuals; validation rows are tested, or all rows if ``is_validation`` is None."""

    def __init__(self, residuals, is_validation):
        self.residuals, self.is_validation = residuals, is_validation

    def compute_residuals(self, node, rng):
        rows = node.rows if self.is_validation is None else node.rows[self.is_validation[node.rows]]
        node.residuals = rows, self.residuals[rows]

    def untested_residuals(self, node):
        if self.is_validation is None:
            return None
        rows = node.rows[~self.is_validation[node.rows]]
        return rows, self.residuals[rows]

    def finish_leaf(self, node, rng):
        pass


def grow_given(
    X, residuals, n_categories=None, weight=None, *, part=5, alpha=0.01, min_samples_leaf=1, max_depth=1,
    bonferroni=True, criterion="levene",
):  # fmt: skip
    """Grow a tree; every ``part``-th row is tested, all rows if it is 1."""
    n, d = X.shape
    weight = np.ones(n) if weight is None else weight
    table = SimpleNamespace(raw=np.asfortranarray(X), y=residuals, weight=weight, group=None, n_rows=n)
    kinds = np.zeros(d, np.int64) if n_categories is None else np.asarray(n_categories)
    min_tested = 0.0 if part == 1 else MIN_TESTED
    rule = SplitRule(alpha, 10, min_samples_leaf, max_depth, bonferroni, criterion, min_tested=min_tested)
    is_validation = None if part == 1 else np.arange(n) % part == 0
    # the strategy has validation rows of its own
    rows = TreeRows(table, np.arange(d), kinds, np.zeros(n, dtype=bool))
    return grow(rows, rule, GivenResiduals(residuals, is_validation), FitContext(0))
