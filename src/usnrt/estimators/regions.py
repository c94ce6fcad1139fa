"""The regions of a fitted tree: their table, how far they differ, and which have too few calibration rows.

A region is a leaf of the tree, and its id is the node number that ``apply`` returns, everywhere.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from usnrt.calibration.calibration import Calibration


def region_rows(model: Any) -> list[dict[str, Any]]:
    """The rows of ``model.rules()``, the least certain region first.

    Parameters
    ----------
    model : fitted model
        One without a tree has no regions.

    Returns
    -------
    list of dict
        With the keys of `usnrt.tree.rules.rules_table`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from usnrt.estimators.regions import region_rows
    >>> region_rows(SimpleNamespace())
    []
    """
    from usnrt.tree.rules import rules_table

    tree = getattr(model, "tree_", None)
    if tree is None:
        return []
    rows = rules_table(tree, model.columns_).rows()
    return sorted(rows, key=lambda row: -np.nan_to_num(row["residual_std"]))


def uncertainty_ratio(model: Any) -> float:
    """Residual standard deviation of the least certain region over that of the most certain one.

    Parameters
    ----------
    model : fitted model

    Returns
    -------
    float
        NaN if there are no two regions, or if the smallest standard deviation is 0 or unknown.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> from usnrt.estimators.regions import uncertainty_ratio
    >>> tree = SimpleNamespace(leaves=np.array([1, 2]), residual_std=np.array([2.0, 0.5, 3.0]))
    >>> uncertainty_ratio(SimpleNamespace(tree_=tree))
    6.0
    """
    tree = getattr(model, "tree_", None)
    stds = np.empty(0) if tree is None else tree.residual_std[tree.leaves]
    if len(stds) < 2 or not stds.min() > 0:
        return float("nan")
    return float(stds.max() / stds.min())


def ratio_sentence(ratio: float) -> str:
    """The ratio of `uncertainty_ratio` in words; empty if it is NaN.

    Examples
    --------
    >>> from usnrt.estimators.regions import ratio_sentence
    >>> ratio_sentence(7.1234)
    'The residuals spread 7.12 times as widely in the least certain region as in the most certain.'
    """
    if np.isnan(ratio):
        return ""
    return f"The residuals spread {ratio:.3g} times as widely in the least certain region as in the most certain."


@dataclass(frozen=True)
class Shortage:
    """Regions whose calibration rows are too few for a finite interval.

    Attributes
    ----------
    coverage : float
        What was asked for.
    regions, n_regions : int
        How many regions are short, of how many.
    fewest, most : int
        Calibration rows that these regions have.
    needed : int
        Calibration rows that a region needs.
    """

    coverage: float
    regions: int
    n_regions: int
    fewest: int
    most: int
    needed: int

    def __str__(self) -> str:
        """One sentence, without a full stop.

        Examples
        --------
        >>> from usnrt.estimators.regions import Shortage
        >>> print(Shortage(0.999, 2, 3, 120, 160, 1999))
        the 99.9 % interval is infinite in 2 of 3 regions, which have 120 to 160 calibration rows; 1,999 are needed
        """
        return f"the {100 * self.coverage:g} % interval is infinite {self.where}; {self.needed:,} are needed"

    @property
    def where(self) -> str:
        """Which regions, and how many calibration rows they have."""
        rows = f"{self.fewest:,}" if self.fewest == self.most else f"{self.fewest:,} to {self.most:,}"
        verb = "has" if self.regions == 1 else "have"
        return f"in {self.regions} of {self.n_regions} regions, which {verb} {rows} calibration rows"


def shortage(calibration: "Calibration | None", coverage: float) -> Shortage | None:
    """Which regions have too few calibration rows for intervals of a coverage.

    Parameters
    ----------
    calibration : Calibration or None
        Of a fitted model (``model.calibration_``).
    coverage : float
        In (0, 1).

    Returns
    -------
    Shortage or None
        None if all intervals are finite.
    """
    from usnrt.calibration.conformal import rows_needed
    from usnrt.nn.quantiles import POSITIONS

    if calibration is None:
        return None
    leaves = np.arange(calibration.n_leaves)
    # one row per region, asked in the way that predictions are: the calibration alone knows when bounds are infinite
    bounds = calibration.interval(np.tile(POSITIONS, (len(leaves), 1)), leaves, coverage)
    short = ~np.isfinite(bounds).all(axis=1)
    if not short.any():
        return None
    rows = [calibration_rows(calibration, int(leaf)) for leaf in leaves[short]]
    return Shortage(coverage, int(short.sum()), len(leaves), min(rows), max(rows), rows_needed(coverage))


def calibration_rows(calibration: "Calibration", leaf: int) -> int:
    """Number of calibration rows behind the intervals of a region.

    Parameters
    ----------
    calibration : Calibration
    leaf : int
        The region's place among the leaves (``tree.leaf_index``).
    """
    return len(calibration.scores[int(calibration.group_of_leaf[leaf])])
