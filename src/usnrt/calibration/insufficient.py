"""Regions with too few calibration rows for intervals with guaranteed coverage."""

from dataclasses import dataclass

import numpy as np

from usnrt.calibration.conformal import rows_needed
from usnrt.calibration.groups import Calibration, GroupCalibration
from usnrt.nn.quantiles import POSITIONS


@dataclass(frozen=True)
class InsufficientCalibration:
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
        >>> from usnrt.calibration.insufficient import InsufficientCalibration
        >>> print(InsufficientCalibration(0.999, 2, 3, 120, 160, 1999))
        the 99.9 % interval is infinite in 2 of 3 regions, which have 120 to 160 calibration rows; 1,999 are needed
        """
        return f"the {100 * self.coverage:g} % interval is infinite {self.where}; {self.needed:,} are needed"

    @property
    def unguaranteed(self) -> str:
        """The message if the intervals of these regions are taken from the distribution.

        Examples
        --------
        >>> from usnrt.calibration.insufficient import InsufficientCalibration
        >>> InsufficientCalibration(0.9, 1, 1, 12, 12, 19).unguaranteed[:68]
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


def insufficient_calibration(calibration: Calibration | None, coverage: float) -> InsufficientCalibration | None:
    """Find regions with too few calibration rows for intervals of a coverage.

    Parameters
    ----------
    calibration : Calibration or None
        Of a fitted model (``model.calibration_``).
    coverage : float
        In (0, 1).

    Returns
    -------
    InsufficientCalibration or None
        None if all regions have enough.
    """
    if not isinstance(calibration, GroupCalibration):
        return None
    leaves = np.arange(calibration.n_leaves)
    # intervals of one row per region, so that only `Calibration` defines when bounds are infinite
    bounds = calibration.interval(np.tile(POSITIONS, (len(leaves), 1)), leaves, coverage)
    short = ~np.isfinite(bounds).all(axis=1)
    if not short.any():
        return None
    rows = [calibration_rows(calibration, int(leaf)) for leaf in leaves[short]]
    weighted = sum(rows) < sum(len(calibration.scores[int(calibration.group_of_leaf[leaf])]) for leaf in leaves[short])
    return InsufficientCalibration(
        coverage, int(short.sum()), len(leaves), min(rows), max(rows), rows_needed(coverage), weighted
    )


def calibration_rows(calibration: GroupCalibration, leaf: int) -> int:
    """How many independent calibration rows a region has, by weights and groups; rounded down.

    Parameters
    ----------
    calibration : GroupCalibration
    leaf : int
        The region's index among the leaves (``tree.leaf_index``).
    """
    group = int(calibration.group_of_leaf[leaf])
    return int(calibration.weights[group].sum() + 1e-9)
