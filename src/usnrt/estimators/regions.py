"""The regions of a fitted tree: their table, the ratio of their uncertainties, and missing calibration rows.

A region is a leaf of the tree; its id is the node number that ``apply`` returns.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from usnrt.calibration.calibration import Calibration
from usnrt.calibration.conformal import rows_needed
from usnrt.nn.quantiles import POSITIONS
from usnrt.tree.rules import rules_table


def region_rows(model: object) -> list[dict[str, Any]]:
    """The rows of ``model.rules()``, the least certain region first.

    Parameters
    ----------
    model : fitted model
        The list is empty for a model without a tree.

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
    if not hasattr(model, "tree_") or not hasattr(model, "columns_"):
        return []
    weights = getattr(model, "expert_weights_", None)
    rows = rules_table(model.tree_, model.columns_, expert_weights=weights).rows()
    return sorted(rows, key=lambda row: -np.nan_to_num(row["residual_std"]))


def uncertainty_ratio(model: object) -> float:
    """Residual standard deviation of the least certain region, divided by that of the most certain one.

    Parameters
    ----------
    model : fitted model

    Returns
    -------
    float
        NaN for fewer than two regions, or if the smallest standard deviation is 0 or unknown.

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
    """A sentence with the ratio of `uncertainty_ratio`; empty if it is NaN.

    Examples
    --------
    >>> from usnrt.estimators.regions import ratio_sentence
    >>> ratio_sentence(7.1234)
    'The residual std of the least certain region is 7.12 times that of the most certain one.'
    """
    if np.isnan(ratio):
        return ""
    text = f"{ratio:,.0f}" if ratio >= 1000 else f"{ratio:.3g}"
    return f"The residual std of the least certain region is {text} times that of the most certain one."


@dataclass(frozen=True)
class Shortage:
    """Regions with too few calibration rows for intervals with guaranteed coverage.

    Attributes
    ----------
    coverage : float
        Nominal coverage.
    regions, n_regions : int
        Number of regions with too few rows, and of all regions.
    fewest, most : int
        Smallest and largest effective number of calibration rows in these regions.
    needed : int
        Number of calibration rows that a region needs.
    weighted : bool
        Whether the weights of the rows differ, so that their effective number is smaller than their number.
    """

    coverage: float
    regions: int
    n_regions: int
    fewest: int
    most: int
    needed: int
    weighted: bool = False

    def __str__(self) -> str:
        """The message of the warning.

        Examples
        --------
        >>> from usnrt.estimators.regions import Shortage
        >>> print(Shortage(0.999, 2, 3, 120, 160, 1999))
        the 99.9 % interval is infinite in 2 of 3 regions, which have 120 to 160 calibration rows; 1,999 are needed
        """
        return f"the {100 * self.coverage:g} % interval is infinite {self.where}; {self.needed:,} are needed"

    @property
    def unguaranteed(self) -> str:
        """The message if the intervals of these regions are taken from the distribution.

        Examples
        --------
        >>> from usnrt.estimators.regions import Shortage
        >>> Shortage(0.9, 1, 1, 12, 12, 19).unguaranteed[:68]
        'the 90 % interval is not guaranteed in 1 of 1 regions, which has 12 '
        """
        return (
            f"the {100 * self.coverage:g} % interval is not guaranteed {self.where}; {self.needed:,} are needed. "
            "It is that of the predicted distribution there"
        )

    @property
    def where(self) -> str:
        """In how many regions, and how many calibration rows they have."""
        rows = f"{self.fewest:,}" if self.fewest == self.most else f"{self.fewest:,} to {self.most:,}"
        verb = "has" if self.regions == 1 else "have"
        kind = "effective calibration rows, by their weights or groups" if self.weighted else "calibration rows"
        return f"in {self.regions} of {self.n_regions} regions, which {verb} {rows} {kind}"


def shortage(calibration: Calibration | None, coverage: float) -> Shortage | None:
    """Find regions with too few calibration rows for intervals of a coverage.

    Parameters
    ----------
    calibration : Calibration or None
        Of a fitted model (``model.calibration_``).
    coverage : float
        In (0, 1).

    Returns
    -------
    Shortage or None
        None if all regions have enough.
    """
    if calibration is None:
        return None
    leaves = np.arange(calibration.n_leaves)
    # intervals of one row per region, so that only `Calibration` defines when bounds are infinite
    bounds = calibration.interval(np.tile(POSITIONS, (len(leaves), 1)), leaves, coverage)
    short = ~np.isfinite(bounds).all(axis=1)
    if not short.any():
        return None
    rows = [calibration_rows(calibration, int(leaf)) for leaf in leaves[short]]
    weighted = sum(rows) < sum(len(calibration.scores[int(calibration.group_of_leaf[leaf])]) for leaf in leaves[short])
    return Shortage(coverage, int(short.sum()), len(leaves), min(rows), max(rows), rows_needed(coverage), weighted)


def calibration_rows(calibration: Calibration, leaf: int) -> int:
    """How many independent calibration rows a region has, by weights and groups; rounded down.

    Parameters
    ----------
    calibration : Calibration
    leaf : int
        The region's index among the leaves (``tree.leaf_index``).
    """
    group = int(calibration.group_of_leaf[leaf])
    if calibration.weights is None:
        return len(calibration.scores[group])
    return int(calibration.weights[group].sum() + 1e-9)
