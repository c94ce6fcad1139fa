"""Training and test rows by the paper's protocol, drawn exactly as in its code."""

import math
import random

import numpy as np
from numpy.typing import NDArray

SEEDS = (42, 142, 242, 342, 442)
LARGE = 100_000


def seeds_for(n_rows: int) -> tuple[int, ...]:
    """Split seeds of the protocol: five below 100,000 rows, else one.

    Examples
    --------
    >>> from usnrt.paper.datasets import seeds_for
    >>> seeds_for(10_000), seeds_for(241_600)
    ((42, 142, 242, 342, 442), (42,))
    """
    return SEEDS if n_rows < LARGE else SEEDS[:1]


def train_test_rows(n_rows: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Training and test rows of one split: 80 % drawn by ``random.sample``; test rows keep their order.

    Parameters
    ----------
    n_rows : int
        Rows of the whole table, at least 2.
    seed : int
        Seed of the split.

    Returns
    -------
    train, test : ndarray of shape (floor(0.8 n_rows),) and (n_rows - floor(0.8 n_rows),)

    Examples
    --------
    >>> from usnrt.paper.datasets import train_test_rows
    >>> train_test_rows(10, seed=42)
    (array([1, 0, 4, 9, 6, 5, 8, 2]), array([3, 7]))
    """
    if n_rows < 2:
        raise ValueError(f"n_rows must be at least 2, got {n_rows}")
    # A separate generator gives the same numbers as random.seed(seed) and leaves the global one unchanged.
    train = np.array(random.Random(seed).sample(range(n_rows), math.floor(0.8 * n_rows)), dtype=np.intp)
    is_test = np.ones(n_rows, dtype=bool)
    is_test[train] = False
    return train, np.flatnonzero(is_test)
