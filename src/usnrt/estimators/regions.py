"""Facts of a fitted model as tables and sentences: regions, and rows in the memory.

A region is a leaf of the tree; its id is the node number that ``apply`` returns.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.memory.retrieval import N_NEIGHBORS, Neighbors, Retrieval
from usnrt.tree.rules import rules_table
from usnrt.utils.types import Floats


def region_rows(model: object, max_labels: int | None = None) -> list[dict[str, Any]]:
    """The rows of ``model.rules()``, the least certain region first; none for a model without a tree.

    Rules list at most ``max_labels`` categories.
    """
    if not hasattr(model, "tree_") or not hasattr(model, "columns_"):
        return []
    weights = getattr(model, "expert_weights_", None)
    names = getattr(getattr(model, "model_", None), "expert_names", [])
    table = rules_table(model.tree_, model.columns_, expert_weights=weights, expert_names=names, max_labels=max_labels)
    return sorted(table.rows(), key=lambda row: -np.nan_to_num(row["residual_std"]))


def uncertainty_ratio(model: object) -> float:
    """Residual standard deviation of the least certain region, divided by that of the most certain one.

    NaN for fewer than two regions, or if the smallest standard deviation is 0 or unknown.
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
    >>> ratio_sentence(7.1234)
    'The residual std of the least certain region is 7.12 times that of the most certain one.'
    """
    if np.isnan(ratio):
        return ""
    text = f"{ratio:,.0f}" if ratio >= 1000 else f"{ratio:.3g}"
    return f"The residual std of the least certain region is {text} times that of the most certain one."


def rows_in_memory(model: object) -> int:
    """Number of training rows that a fitted model contains: in its memory, or as targets that it recalls."""
    return int(getattr(getattr(model, "model_", None), "rows_in_memory", 0))


def memory_sentence(n_rows: int, unmodified: bool = False) -> str:
    """A sentence with the number of training rows that a model contains; empty for 0.

    With ``memory="examples"`` it contains them unmodified.

    Examples
    --------
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
    """The rows with the largest weights, averaged over several memories of one table; the largest weight first."""
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
