"""Training rows in a fitted model: how many there are, and which ones are similar to given rows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from usnrt.memory.retrieval import N_NEIGHBORS, Neighbors, Retrieval
from usnrt.utils.types import Floats


def rows_in_memory(model: object) -> int:
    """Number of training rows that a fitted model contains: in its memory, or as targets that it recalls.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from usnrt.estimators.neighbors import rows_in_memory
    >>> rows_in_memory(SimpleNamespace())
    0
    """
    return int(getattr(getattr(model, "model_", None), "rows_in_memory", 0))


def memory_sentence(n_rows: int, unmodified: bool = False) -> str:
    """A sentence with the number of training rows that a model contains; empty for 0.

    Parameters
    ----------
    n_rows : int
    unmodified : bool, default=False
        Whether it contains them as they were given, with ``memory="examples"``.

    Examples
    --------
    >>> from usnrt.estimators.neighbors import memory_sentence
    >>> memory_sentence(3000)
    'The model contains training data: the targets and transformed features of 3,000 rows.'
    >>> memory_sentence(3000, unmodified=True)
    'The model contains unmodified training rows: 3,000 rows with their targets, as they were given.'
    """
    if n_rows == 0:
        return ""
    if unmodified:
        return f"The model contains unmodified training rows: {n_rows:,} rows with their targets, as they were given."
    return f"The model contains training data: the targets and transformed features of {n_rows:,} rows."


def has_examples(model: object) -> bool:
    """Whether a fitted model contains training rows as they were given."""
    kept = getattr(getattr(model, "model_", None), "kept", None)
    return kept is not None and kept.examples is not None


def similar_rows(
    memories: Sequence[Retrieval], inputs: NDArray[np.float32], n_neighbors: int, n_threads: int = 1
) -> Neighbors:
    """The rows with the largest weights, averaged over several memories of one table.

    Parameters
    ----------
    memories : sequence of Retrieval
        At least one.
    inputs : ndarray of shape (n, p), float32
    n_neighbors : int
        At most ``N_NEIGHBORS``.
    n_threads : int

    Returns
    -------
    Neighbors
        The largest weight first.
    """
    found = [memory.neighbors(inputs, N_NEIGHBORS, n_threads) for memory in memories]
    row, target = (np.concatenate([getattr(part, name) for part in found], axis=1) for name in ("row", "target"))
    weight: Floats = np.concatenate([part.weight for part in found], axis=1) / len(memories)
    # Sorted by row, so that the copies that several memories found are adjacent: the first one gets the sum.
    order = np.argsort(row, axis=1, kind="stable")
    row, weight, target = (np.take_along_axis(values, order, axis=1) for values in (row, weight, target))
    is_first = np.ones(row.shape, dtype=bool)
    is_first[:, 1:] = row[:, 1:] != row[:, :-1]
    distinct = np.cumsum(is_first.ravel()) - 1
    weight = np.where(is_first, np.bincount(distinct, weight.ravel())[distinct].reshape(row.shape), -1.0)
    is_row = is_first & (row >= 0)
    best = np.argsort(np.where(is_row, -weight, 1.0), axis=1, kind="stable")[:, :n_neighbors]
    row, weight, target, is_row = (np.take_along_axis(part, best, axis=1) for part in (row, weight, target, is_row))
    return Neighbors(np.where(is_row, row, -1), np.where(is_row, weight, 0.0), np.where(is_row, target, np.nan))
