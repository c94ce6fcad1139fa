"""Trees grown from given residuals, without any network: every fifth row is tested, the others are not."""

from types import SimpleNamespace

import numpy as np

from usnrt.tree.grow import grow
from usnrt.tree.recipe import SplitRule
from usnrt.utils.progress import Progress


class GivenResiduals:
    """A strategy whose residuals are known beforehand; ``held_out`` rows are tested, or all if it is None."""

    def __init__(self, residuals, held_out):
        self.residuals, self.held_out = residuals, held_out

    def study(self, node, rng):
        rows = node.rows if self.held_out is None else node.rows[self.held_out[node.rows]]
        node.residuals = rows, self.residuals[rows]

    def untested(self, node):
        if self.held_out is None:
            return None
        rows = node.rows[~self.held_out[node.rows]]
        return rows, self.residuals[rows]

    def finish(self, node, rng):
        pass


def grow_given(
    X, residuals, n_categories=None, weight=None, *, part=5, alpha=0.01, min_samples_leaf=1, max_depth=1,
    bonferroni=True, criterion="levene",
):  # fmt: skip
    """Grow a tree; every ``part``-th row is tested, all rows if it is 1."""
    n, d = X.shape
    table = SimpleNamespace(
        raw=np.asfortranarray(X), y=residuals, weight=np.ones(n) if weight is None else weight, n_rows=n
    )
    kinds = np.zeros(d, np.int64) if n_categories is None else np.asarray(n_categories)
    rule = SplitRule(alpha, 10, min_samples_leaf, max_depth, bonferroni, criterion)
    held_out = None if part == 1 else np.arange(n) % part == 0
    return grow(table, kinds, rule, GivenResiduals(residuals, held_out), 0, 1, Progress(0, None, n))
