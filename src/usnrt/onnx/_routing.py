"""The second step of the graph: the leaf of each row in each tree.

All splits of all trees are decided at once, each with 1 for left and 0 for right. A row is in a leaf if the answer is 1
at all splits above that the leaf is left of, and 0 at all that it is right of. So the sum over the former, minus the
sum over the latter, minus the number of the former is 0 in the row's leaf and -1 or less in all others: one product and
one argmax instead of a walk.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from usnrt.onnx._columns import EncodedColumns
from usnrt.onnx._graph import Graph, whole
from usnrt.tree.structure import Tree

NO_LEAF = -1e6  # at places where a tree has fewer leaves than another

# A split is known by the number of its tree and that of its node.
Split = tuple[int, int]


def find_leaves(graph: Graph, columns: EncodedColumns, trees: Sequence[Tree], n_categories: NDArray[np.int64]) -> str:
    """Leaves of the rows, counted from 0, left to right.

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
    for position in columns.places:
        splits = [(t, node) for t, node in inner if trees[t].feature[node] == position]
        if splits:
            sides = np.stack([_sides(trees[t], node, n_categories[position]) for t, node in splits], axis=1)
            decisions.append(graph.op("Gather", sides, columns.places[position], axis=0))
            order = order + splits
    if not order:
        n_rows = graph.op("Shape", columns.first, start=0, end=1)
        shape = graph.op("Concat", n_rows, whole(len(trees)), axis=0)
        return graph.op("Expand", np.int64(0), shape)
    went_left = decisions[0] if len(decisions) == 1 else graph.op("Concat", *decisions, axis=1)
    reached = graph.op("Gemm", went_left, *_paths(trees, order))
    width = max(tree.n_leaves for tree in trees)
    return graph.op("ArgMax", graph.op("Reshape", reached, whole(-1, len(trees), width)), axis=2, keepdims=0)


def _by_numbers(graph: Graph, columns: EncodedColumns, trees: Sequence[Tree], splits: list[Split]) -> str:
    """1 where numbers go left, shape (n, n_splits), float32."""
    where = [columns.positions.index(trees[t].feature[node]) for t, node in splits]
    values = graph.op("Gather", columns.numbers, whole(*where), axis=1)
    # In float64 as in training: a row on a threshold goes left here too. NaN is at most nothing.
    left = graph.op("LessOrEqual", values, np.array([trees[t].threshold[node] for t, node in splits]))
    missing_left = np.array([trees[t].missing_left[node] for t, node in splits])
    if missing_left.any():
        left = graph.op("Or", left, graph.op("And", graph.op("IsNaN", values), missing_left))
    return graph.cast(left, np.float32)


def _sides(tree: Tree, node: int, n_categories: int) -> NDArray[np.float32]:
    """1 for the places of categories that go left: those training saw, one it did not see, a missing one."""
    seen = tree.left_categories[tree.category_row[node], :n_categories]
    return np.array([*seen, tree.larger_left[node], tree.missing_left[node]], dtype=np.float32)


def _paths(trees: Sequence[Tree], order: list[Split]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The matrix and the vector that turn decisions into 0 at the leaves that are reached."""
    width = max(tree.n_leaves for tree in trees)
    column_of = {split: place for place, split in enumerate(order)}
    paths = np.zeros((len(order), len(trees), width), dtype=np.float32)
    less = np.full((len(trees), width), NO_LEAF, dtype=np.float32)
    for t, tree in enumerate(trees):
        for place, leaf in enumerate(tree.leaves):
            way = tree.path(leaf)
            left_of = [tree.left[above] == below for above, below in pairwise(way)]
            for above, left in zip(way, left_of):
                paths[column_of[t, above], t, place] = 1.0 if left else -1.0
            less[t, place] = -sum(left_of)
    return paths.reshape(len(order), -1), less.reshape(-1)
