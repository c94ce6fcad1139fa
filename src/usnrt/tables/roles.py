"""The role of a row in a fit, by a hash of its content: training, validation or calibration.

Which role a row has depends on its content and the seed only, not on the other rows, on their order or on the machine.
So a row that validates is known wherever it is met, and copies of a row have one role.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TRAINING, VALIDATION, CALIBRATION = 0, 1, 2
_STEP = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class RowRoles:
    """The shares of validation and calibration rows, and the seed that draws them.

    Attributes
    ----------
    seed : int
    validation : float
        Share of validation rows among the rows that are not calibration rows.
    calibration : float
        Share of calibration rows.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables.roles import VALIDATION, RowRoles
    >>> hashes = np.random.default_rng(0).integers(2**64, size=100_000, dtype=np.uint64)
    >>> roles = RowRoles(seed=0, validation=0.2, calibration=0.0).of(hashes)
    >>> round(float((roles == VALIDATION).mean()), 2)
    0.2
    """

    seed: int
    validation: float
    calibration: float = 0.0

    def of(self, hashes: NDArray[np.uint64]) -> NDArray[np.int8]:
        """Role of each row.

        Parameters
        ----------
        hashes : ndarray of uint64 of shape (n,)
            From `usnrt.tables.rows.row_hashes`.

        Returns
        -------
        ndarray of int8 of shape (n,)
            ``TRAINING``, ``VALIDATION`` or ``CALIBRATION``.
        """
        place = uniform(hashes, self.seed)
        # validation rows are a share of what the calibration rows leave
        last = self.calibration + (1.0 - self.calibration) * self.validation
        roles = np.where(place < last, VALIDATION, TRAINING)
        return np.where(place < self.calibration, CALIBRATION, roles).astype(np.int8)


def uniform(hashes: NDArray[np.uint64], seed: int) -> NDArray[np.float64]:
    """A number in [0, 1) per hash, as good as random, and another one for another seed.

    The hashes themselves order the rows of a store. Mixed with the seed (the finaliser of splitmix64) they are
    independent of that order.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables.roles import uniform
    >>> uniform(np.arange(3, dtype=np.uint64), seed=1).round(3)
    array([0.432, 0.746, 0.749])
    """
    with np.errstate(over="ignore"):
        mixed = np.asarray(hashes, dtype=np.uint64) + np.uint64((int(seed) + 1) * _STEP % 2**64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def shard_of(hashes: NDArray[np.uint64], n_shards: int) -> NDArray[np.int64]:
    """The logical shard of each row: consecutive ranges of hashes, of about the same number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables.roles import shard_of
    >>> shard_of(np.array([0, 2**62, 2**63, 2**64 - 1], dtype=np.uint64), 4)
    array([0, 1, 2, 3])
    """
    return ((hashes >> np.uint64(32)) * np.uint64(n_shards) >> np.uint64(32)).astype(np.int64)
