"""The second step of the graph: the leaf of each row in each tree.

All splits of all trees are evaluated at once, with 1 for left and 0 for right. A row is in a leaf if the decision is 1
at all ancestors of which the leaf is a left descendant, and 0 at all others. So the sum over the former, minus the sum
over the latter, minus the number of the former is 0 for the row's leaf and at most -1 for all other leaves: a matrix
product and an argmax replace the traversal.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from usnrt.onnx._columns import EncodedColumns
from usnrt.onnx._graph import Graph, ints
from usnrt.tree.structure import Tree

NO_LEAF = -1e6  # for the surplus columns of trees with fewer leaves than others

# A split is identified by its tree and its node.
Split = tuple[int, int]


def find_leaves(graph: Graph, columns: EncodedColumns, trees: Sequence[Tree], n_categories: NDArray[np.int64]) -> str:
    """Leaves of the rows, counted from 0 from left to right.

    Parameters
    ----------
    graph : Graph
    columns : EncodedColumns
    trees : sequence of Tree
    n_categories : ndarray of int of shape (n_encoded,)
        0 for numeric columns.

    Returns
    -------
    str
        Name of the leaves, shape (n, n_trees), int64.
    """
    inner = [(t, int(node)) for t, tree in enumerate(trees) for node in np.flatnonzero(tree.feature >= 0)]
    numeric = [(t, node) for t, node in inner if trees[t].category_row[node] < 0]
    decisions = [_by_numbers(graph, columns, trees, numeric)] if numeric else []
    order = numeric
    for position, index in columns.categories.items():
        splits = [(t, node) for t, node in inner if trees[t].feature[node] == position]
        if splits:
            sides = np.stack([_sides(trees[t], node, n_categories[position]) for t, node in splits], axis=1)
            decisions.append(graph.op("Gather", sides, index, axis=0))
            order = order + splits
    if not order:
        n_rows = graph.op("Shape", columns.first, start=0, end=1)
        shape = graph.op("Concat", n_rows, ints(len(trees)), axis=0)
        return graph.op("Expand", np.int64(0), shape)
    went_left = decisions[0] if len(decisions) == 1 else graph.op("Concat", *decisions, axis=1)
    reached = graph.op("Gemm", went_left, *_paths(trees, order))
    width = max(tree.n_leaves for tree in trees)
    return graph.op("ArgMax", graph.op("Reshape", reached, ints(-1, len(trees), width)), axis=2, keepdims=0)


def _by_numbers(graph: Graph, columns: EncodedColumns, trees: Sequence[Tree], splits: list[Split]) -> str:
    """Decisions of numeric splits, 1 for left, shape (n, n_splits), float32."""
    where = [columns.positions.index(trees[t].feature[node]) for t, node in splits]
    values = graph.op("Gather", columns.numbers, ints(*where), axis=1)
    # In float64 as in training, so that a value equal to the threshold goes left. Comparisons with NaN are false.
    left = graph.op("LessOrEqual", values, np.array([trees[t].threshold[node] for t, node in splits]))
    missing_left = np.array([trees[t].missing_left[node] for t, node in splits])
    if missing_left.any():
        left = graph.op("Or", left, graph.op("And", graph.op("IsNaN", values), missing_left))
    return graph.cast(left, np.float32)


def _sides(tree: Tree, node: int, n_categories: int) -> NDArray[np.float32]:
    """Decisions by category index, 1 for left: the categories of training, an unseen one, a missing value."""
    known = tree.left_categories[tree.category_row[node], :n_categories]
    return np.array([*known, tree.larger_left[node], tree.missing_left[node]], dtype=np.float32)


def _paths(trees: Sequence[Tree], order: list[Split]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Matrix and offset of the linear map from decisions to scores of the leaves, 0 for the leaf of a row."""
    width = max(tree.n_leaves for tree in trees)
    row_of = {split: row for row, split in enumerate(order)}
    matrix = np.zeros((len(order), len(trees), width), dtype=np.float32)
    offset = np.full((len(trees), width), NO_LEAF, dtype=np.float32)
    for t, tree in enumerate(trees):
        for index, leaf in enumerate(tree.leaves):
            path = tree.path(leaf)
            goes_left = [tree.left[node] == child for node, child in pairwise(path)]
            for node, left in zip(path, goes_left):
                matrix[row_of[t, node], t, index] = 1.0 if left else -1.0
            offset[t, index] = -sum(goes_left)
    return matrix.reshape(len(order), -1), offset.reshape(-1)
