"""The tree as flat arrays, the routing of rows to its leaves, and its builder."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.tree.split import Split
from usnrt.utils.types import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class Tree:
    """A binary tree of regions, with nodes numbered depth first from the root (0), left before right.

    Built by `TreeBuilder`. All arrays except `left_categories` have shape (n_nodes,).

    Attributes
    ----------
    feature : ndarray of int64
        Position of the split feature, -1 at leaves.
    threshold : ndarray of float64
        Values up to this go left; NaN at leaves and at categorical splits.
    left, right, parent : ndarray of int64
        Node numbers, -1 if there is none.
    depth : ndarray of int64
        0 at the root.
    missing_left : ndarray of bool
        Whether missing values go left.
    larger_left : ndarray of bool
        Whether the left child has at least as many rows; categories unseen in training go to the larger child.
    category_row : ndarray of int64
        Row of the node in `left_categories`, -1 unless the split is categorical.
    left_categories : ndarray of bool of shape (n_categorical_splits, max_categories)
        Whether each code goes left.
    n_rows : ndarray of float64
        Total weight of the training rows.
    statistic, log10_p : ndarray of float64
        Test statistic and p-value of the node's split, NaN at leaves.
    residual_mean, residual_std : ndarray of float64
        Moments of the residuals of the node's training rows, NaN if unknown.
    leaf_index : ndarray of int64
        0, 1, ... for leaves from left to right, -1 at inner nodes.
    n_features : int

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tree.split import best_split
    >>> from usnrt.tree.structure import TreeBuilder
    >>> X = np.arange(8.0).reshape(-1, 1)
    >>> builder = TreeBuilder(n_features=1)
    >>> root = builder.add_root(n_rows=8)
    >>> left, right = builder.add_children(root, best_split(X, [0, 0, 0, 0, 3, -3, 4, -4], min_samples_leaf=2))
    >>> tree, node_of = builder.build()
    >>> tree
    Tree(n_nodes=3, n_leaves=2, max_depth=1)
    >>> tree.apply(X), tree.leaf_of(X)
    (array([1, 1, 1, 1, 2, 2, 2, 2]), array([0, 0, 0, 0, 1, 1, 1, 1]))
    """

    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    parent: NDArray[np.int64]
    depth: NDArray[np.int64]
    missing_left: NDArray[np.bool_]
    larger_left: NDArray[np.bool_]
    category_row: NDArray[np.int64]
    left_categories: NDArray[np.bool_]
    n_rows: NDArray[np.float64]
    statistic: NDArray[np.float64]
    log10_p: NDArray[np.float64]
    residual_mean: NDArray[np.float64]
    residual_std: NDArray[np.float64]
    leaf_index: NDArray[np.int64]
    n_features: int

    def __init__(self, *, n_features: int, **arrays: NDArray[Any]) -> None:
        expected = set(Tree.__annotations__) - {"n_features"}
        if set(arrays) != expected:
            raise TypeError(f"Tree needs exactly the arrays {sorted(expected)}, got {sorted(arrays)}")
        self.n_features = n_features
        for name, array in arrays.items():
            setattr(self, name, np.ascontiguousarray(array))

    @property
    def n_nodes(self) -> int:
        """Number of nodes, leaves included."""
        return len(self.feature)

    @property
    def leaves(self) -> NDArray[np.int64]:
        """Node numbers of the leaves, from left to right, shape (n_leaves,)."""
        return np.flatnonzero(self.feature < 0)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int((self.feature < 0).sum())

    @property
    def max_depth(self) -> int:
        """Largest depth of a leaf."""
        return int(self.depth.max())

    def path(self, node: int) -> list[int]:
        """Node numbers on the path from the root to `node`, both included."""
        path = [int(node)]
        while self.parent[path[-1]] >= 0:
            path.append(int(self.parent[path[-1]]))
        return path[::-1]

    def apply(self, X: ArrayLike) -> NDArray[np.int64]:
        """The region of each row: the node number of its leaf.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Float64, in C or Fortran order (others are copied), NaN for missing values, codes for categories, -1 for
            categories unseen in training.

        Returns
        -------
        ndarray of int64 of shape (n,)
        """
        from usnrt.tree._routing import route

        table = np.asarray(X, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != self.n_features:
            raise ValueError(f"X must have shape (n, {self.n_features}), got {table.shape}")
        n, d = table.shape
        if not (table.flags.c_contiguous or table.flags.f_contiguous):
            table = np.ascontiguousarray(table)
        row_step, column_step = (d, 1) if table.flags.c_contiguous else (1, n)
        out = np.empty(n, dtype=np.int64)
        route(
            table.reshape(-1, order="C" if table.flags.c_contiguous else "F"),
            n,
            row_step,
            column_step,
            self.feature,
            self.threshold,
            self.left,
            self.right,
            self.missing_left,
            self.category_row,
            self.left_categories,
            self.larger_left,
            out,
        )
        return out

    def leaf_of(self, X: ArrayLike) -> NDArray[np.int64]:
        """Index of each row's leaf, 0, 1, ... from left to right.

        It is the index of data stored per leaf (networks, calibration). The region id for users is that of `apply`.
        """
        index: NDArray[np.int64] = self.leaf_index[self.apply(X)]
        return index

    def with_leaf_residuals(self, leaf: NDArray[np.int64], residuals: Floats, weight: Floats) -> "Tree":
        """The tree with new residual moments of its leaves; leaves without residuals keep theirs.

        Parameters
        ----------
        leaf : ndarray of int of shape (n,)
            From `leaf_of`.
        residuals, weight : ndarray of shape (n,)
        """
        total = np.bincount(leaf, weights=weight, minlength=self.n_leaves)
        known = total > 0
        total = np.where(known, total, 1.0)
        mean = np.bincount(leaf, weights=weight * residuals, minlength=self.n_leaves) / total
        squares = np.bincount(leaf, weights=weight * (residuals - mean[leaf]) ** 2, minlength=self.n_leaves)
        nodes, new_mean, new_std = np.asarray(self.leaves)[known], self.residual_mean.copy(), self.residual_std.copy()
        new_mean[nodes], new_std[nodes] = mean[known], np.sqrt(squares / total)[known]
        return self._with(residual_mean=new_mean, residual_std=new_std)

    def with_residuals(self, X: ArrayLike, residuals: Floats, weight: Floats) -> "Tree":
        """The tree with new residual moments of all nodes; nodes without residuals keep theirs.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        residuals, weight : ndarray of shape (n,)
        """
        passed = self.decision_path(X).tocsc()
        new_mean, new_std = self.residual_mean.copy(), self.residual_std.copy()
        for node in range(len(self.feature)):
            rows = passed.indices[passed.indptr[node] : passed.indptr[node + 1]]
            if len(rows):
                mean = np.average(residuals[rows], weights=weight[rows])
                square = np.average((residuals[rows] - mean) ** 2, weights=weight[rows])
                new_mean[node], new_std[node] = mean, np.sqrt(square)
        return self._with(residual_mean=new_mean, residual_std=new_std)

    def with_residual_unit(self, unit: float) -> "Tree":
        """The tree with residual moments multiplied by a unit."""
        return self._with(residual_mean=self.residual_mean * unit, residual_std=self.residual_std * unit)

    def with_rows(self, n_rows: NDArray[np.float64]) -> "Tree":
        """The tree with new weighted numbers of rows of its nodes, shape (n_nodes,)."""
        return self._with(n_rows=n_rows)

    def with_leaf_rows(self, n_rows: NDArray[np.float64]) -> "Tree":
        """The tree with new weighted numbers of rows of its leaves, shape (n_leaves,), and their sums elsewhere."""
        total = np.zeros(self.n_nodes)
        total[self.leaves] = n_rows
        for node in range(self.n_nodes - 1, 0, -1):  # children have larger numbers than their parent
            total[self.parent[node]] += total[node]
        return self.with_rows(total)

    def _with(self, **arrays: NDArray[Any]) -> "Tree":
        return Tree(**{**vars(self), **arrays})

    def decision_path(self, X: ArrayLike) -> "csr_matrix":
        """The nodes on the path of each row.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n, n_nodes)
            1 for the nodes on the path of a row.
        """
        from scipy.sparse import csr_matrix

        paths = np.full((self.n_nodes, self.max_depth + 1), -1)
        for leaf in self.leaves:
            paths[leaf, : self.depth[leaf] + 1] = self.path(leaf)
        visited = paths[self.apply(X)]
        indices = visited[visited >= 0]
        starts = np.concatenate([[0], np.cumsum((visited >= 0).sum(axis=1))])
        shape = (len(visited), self.n_nodes)
        return csr_matrix((np.ones(len(indices), dtype=np.int64), indices, starts), shape=shape)

    def __repr__(self) -> str:
        return f"Tree(n_nodes={self.n_nodes}, n_leaves={self.n_leaves}, max_depth={self.max_depth})"


@dataclass
class _Node:
    """A node of a tree under construction; parent and children are handles."""

    parent: int
    n_rows: float
    residual_mean: float = np.nan
    residual_std: float = np.nan
    split: Split | None = None
    children: tuple[int, int] | None = None


class TreeBuilder:
    """Collects nodes in any order and finally numbers them depth first.

    Parameters
    ----------
    n_features : int
        Number of columns of the table.
    n_categories : array-like of int of shape (n_features,), optional
        Number of categories of each column, 0 for numeric ones.
    """

    def __init__(self, n_features: int, n_categories: ArrayLike | None = None) -> None:
        self.n_features = n_features
        self.n_categories = (
            np.zeros(n_features, np.int64) if n_categories is None else np.asarray(n_categories, np.int64)
        )
        self._nodes: list[_Node] = []

    def add_root(self, n_rows: float, residual_mean: float = np.nan, residual_std: float = np.nan) -> int:
        """Add the root and return its handle, 0."""
        if self._nodes:
            raise ValueError("the tree already has a root")
        return self._add(_Node(-1, n_rows, residual_mean, residual_std))

    def add_children(self, node: int, split: Split) -> tuple[int, int]:
        """Split a node and return the handles of the left and the right child."""
        if self._nodes[node].split is not None:
            raise ValueError(f"node {node} is already split")
        self._nodes[node].split = split
        children = self._add(_Node(node, split.n_left)), self._add(_Node(node, split.n_right))
        self._nodes[node].children = children
        return children

    def set_residuals(self, node: int, mean: float, std: float) -> None:
        """Set the mean and the standard deviation of the residuals in a node."""
        self._nodes[node].residual_mean, self._nodes[node].residual_std = mean, std

    def _add(self, node: _Node) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1

    def build(self) -> tuple[Tree, NDArray[np.int64]]:
        """Build the tree.

        Returns
        -------
        tree : Tree
        node_of : ndarray of int64 of shape (n_nodes,)
            ``node_of[handle]`` is the node number of a handle.
        """
        if not self._nodes:
            raise ValueError("the tree has no root yet")
        handles: list[int] = []
        stack = [0]
        while stack:
            handle = stack.pop()
            handles.append(handle)
            stack.extend(reversed(self._nodes[handle].children or ()))
        node_of = np.empty(len(handles), dtype=np.int64)
        node_of[handles] = np.arange(len(handles))
        nodes = [self._nodes[handle] for handle in handles]
        splits = [node.split for node in nodes]
        parent = np.array([node_of[node.parent] if node.parent >= 0 else -1 for node in nodes], dtype=np.int64)
        children = np.array([node_of[list(node.children)] if node.children else (-1, -1) for node in nodes])
        depth = np.zeros(len(nodes), dtype=np.int64)
        for number in range(1, len(nodes)):
            depth[number] = depth[parent[number]] + 1
        is_leaf = np.array([split is None for split in splits])
        category_row, left_categories = self._categories(splits)
        tree = Tree(
            n_features=self.n_features,
            feature=np.array([-1 if s is None else s.feature for s in splits], dtype=np.int64),
            threshold=np.array([np.nan if s is None else s.threshold for s in splits]),
            left=children[:, 0].astype(np.int64),
            right=children[:, 1].astype(np.int64),
            parent=parent,
            depth=depth,
            missing_left=np.array([s is not None and bool(s.missing_left) for s in splits]),
            larger_left=np.array([s is not None and s.n_left >= s.n_right for s in splits]),
            category_row=category_row,
            left_categories=left_categories,
            n_rows=np.array([node.n_rows for node in nodes], dtype=np.float64),
            statistic=np.array([np.nan if s is None else s.statistic for s in splits]),
            log10_p=np.array([np.nan if s is None else s.log10_p for s in splits]),
            residual_mean=np.array([node.residual_mean for node in nodes], dtype=np.float64),
            residual_std=np.array([node.residual_std for node in nodes], dtype=np.float64),
            leaf_index=np.where(is_leaf, np.cumsum(is_leaf) - 1, -1).astype(np.int64),
        )
        return tree, node_of

    def _categories(self, splits: list[Split | None]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        category_row = np.full(len(splits), -1, dtype=np.int64)
        tables: list[NDArray[np.bool_]] = []
        width = int(self.n_categories.max(initial=0))
        for number, split in enumerate(splits):
            if split is None or split.left_categories is None:
                continue
            category_row[number] = len(tables)
            # codes beyond those of the column are unseen and go to the larger side
            goes_left = np.full(width, split.n_left >= split.n_right)
            goes_left[: self.n_categories[split.feature]] = False
            goes_left[list(split.left_categories)] = True
            tables.append(goes_left)
        return category_row, np.array(tables, dtype=bool).reshape(len(tables), width)
