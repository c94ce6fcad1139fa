"""The role of a row in a fit, by the hash of its group: training, validation or calibration.

A group has the role that its hash, the seed and two limits give it. The limits follow from a sample of the rows, so
that roles have their shares of the rows even if groups are few or large. So a row that validates is known wherever it
is met, for any order of the rows and on every machine. Without groups, rows with equal features are one; where only few
different ones exist, each row is on its own (see `usnrt.tables.groups`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.groups import leading_groups
from usnrt.tables.rows import mix_bits
from usnrt.tables.training import DistinctRows
from usnrt.utils.types import Floats, Rows

TRAINING, VALIDATION, CALIBRATION = 0, 1, 2
_STEP = 0x9E3779B97F4A7C15
_Units = NDArray[np.uint64] | Rows


@dataclass(frozen=True)
class RowRoles:
    """The shares of validation and calibration rows, and the seed that draws them.

    Examples
    --------
    >>> hashes = np.random.default_rng(0).integers(2**64, size=100_000, dtype=np.uint64)
    >>> roles = RowRoles(seed=0, validation=0.2, calibration=0.0).of(hashes)
    >>> round(float((roles == VALIDATION).mean()), 2)
    0.2
    """

    seed: int
    validation: float  # share of validation rows among the rows that are not calibration rows
    calibration: float = 0.0  # share of calibration rows

    @classmethod
    def balanced(cls, seed: int, validation: float, calibration: float, units: _Units) -> "RowRoles":
        """Roles of whole groups, as near to the shares of the rows of a sample as the groups allow.

        ``units`` are those of the sample, from `units_of`.
        """
        place, sizes = np.unique(uniform(units, seed), return_counts=True)
        n_calibration = leading_groups(sizes, calibration * len(units))
        rest = sizes[n_calibration:]
        n_validation = leading_groups(rest, validation * int(rest.sum()))
        if validation and not n_validation:
            needed = 3 if calibration else 2
            raise ValueError(
                f"groups must have at least {needed} different labels among {len(units):,} rows drawn from the table, "
                f"got {len(sizes)}"
            )
        ends = n_calibration, n_calibration + n_validation
        first, last = (float(place[end - 1 : end + 1].mean()) if end else 0.0 for end in ends)
        return cls(seed, (last - first) / (1.0 - first), first)

    def of(self, units: _Units) -> NDArray[np.int8]:
        """Role of each row, by its unit from `units_of`: ``TRAINING``, ``VALIDATION`` or ``CALIBRATION``."""
        place = uniform(units, self.seed)
        # validation rows are a share of what the calibration rows leave
        last = self.calibration + (1.0 - self.calibration) * self.validation
        roles = np.where(place < last, VALIDATION, TRAINING)
        return np.where(place < self.calibration, CALIBRATION, roles).astype(np.int8)


def units_of(rows: DistinctRows, hashes: NDArray[np.uint64]) -> _Units:
    """What has a role: the group of each row, or the row itself."""
    return hashes if rows.group is None else rows.group


def uniform(hashes: _Units, seed: int) -> Floats:
    """A number in [0, 1) per hash, as good as random, and another one for another seed.

    The hashes themselves order the rows of a store. Mixed with the seed they are independent of that order.
    """
    mixed = mix_bits(np.asarray(hashes, dtype=np.uint64) + np.uint64((int(seed) + 1) * _STEP % 2**64))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def is_latest(time: Floats, n_latest: int) -> NDArray[np.bool_]:
    """Mark the most recent rows, as close to ``n_latest`` of them as possible, shape (n,).

    Rows of one instant stay together, so that no row is older than an unmarked one; at least one row is not marked.
    """
    ordered = np.sort(time)
    if n_latest <= 0 or ordered[0] == ordered[-1]:
        return np.zeros(len(time), dtype=bool)
    cut = ordered[max(len(time) - n_latest, 0)]
    latest: NDArray[np.bool_] = time >= cut
    later: NDArray[np.bool_] = time > cut
    is_closer = latest.sum() - n_latest <= n_latest - later.sum()
    return latest if cut > ordered[0] and (is_closer or not later.any()) else later
