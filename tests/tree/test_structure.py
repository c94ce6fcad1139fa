"""The flat-array tree: numbering, routing, paths."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse

from usnrt.tree.split import Split, best_split
from usnrt.tree.structure import Tree, TreeBuilder


def numeric(feature, threshold, n_left, n_right, missing_left=True):
    return Split(feature, threshold, None, missing_left, 1.5, -2.5, n_left, n_right, 7)


def categorical(feature, left, n_left, n_right, missing_left=True):
    return Split(feature, np.nan, left, missing_left, 1.5, -2.5, n_left, n_right, 7)


@pytest.fixture
def mixed():
    """Column 0 is a number, column 1 has the categories 0..3, column 2 the categories 0..1; split right to left."""
    builder = TreeBuilder(3, [0, 4, 2])
    root = builder.add_root(100, residual_mean=0.5, residual_std=2.0)
    left, right = builder.add_children(root, numeric(0, 1.0, 60, 40, missing_left=False))
    builder.add_children(right, categorical(2, (0,), 10, 30, missing_left=True))
    inner, _ = builder.add_children(left, categorical(1, (0, 2), 35, 25, missing_left=False))
    builder.add_children(inner, numeric(0, -1.0, 5, 30, missing_left=True))
    builder.set_residuals(inner, -0.25, 3.0)
    return builder.build()


def test_nodes_are_numbered_depth_first(mixed):
    tree, node_of = mixed
    np.testing.assert_array_equal(tree.feature, [0, 1, 0, -1, -1, -1, 2, -1, -1])
    np.testing.assert_array_equal(tree.left, [1, 2, 3, -1, -1, -1, 7, -1, -1])
    np.testing.assert_array_equal(tree.right, [6, 5, 4, -1, -1, -1, 8, -1, -1])
    np.testing.assert_array_equal(tree.parent, [-1, 0, 1, 2, 2, 1, 0, 6, 6])
    np.testing.assert_array_equal(tree.depth, [0, 1, 2, 3, 3, 2, 1, 2, 2])
    np.testing.assert_array_equal(tree.leaf_index, [-1, -1, -1, 0, 1, 2, -1, 3, 4])
    np.testing.assert_array_equal(tree.n_rows, [100, 60, 35, 5, 30, 25, 40, 10, 30])
    np.testing.assert_array_equal(tree.threshold, [1, np.nan, -1] + [np.nan] * 6)
    np.testing.assert_array_equal(tree.category_row, [-1, 0, -1, -1, -1, -1, 1, -1, -1])
    np.testing.assert_array_equal(tree.statistic[[0, 3]], [1.5, np.nan])
    np.testing.assert_array_equal(tree.log10_p[[0, 3]], [-2.5, np.nan])
    np.testing.assert_array_equal(tree.residual_mean[[0, 1, 2]], [0.5, np.nan, -0.25])
    np.testing.assert_array_equal(tree.residual_std[[0, 1, 2]], [2, np.nan, 3])
    np.testing.assert_array_equal(tree.leaves, [3, 4, 5, 7, 8])
    np.testing.assert_array_equal(node_of, [0, 1, 6, 7, 8, 2, 5, 3, 4])
    assert (tree.n_nodes, tree.n_leaves, tree.max_depth, tree.n_features) == (9, 5, 3, 3)
    assert repr(tree) == "Tree(n_nodes=9, n_leaves=5, max_depth=3)"
    assert tree.path(4) == [0, 1, 2, 4]


@pytest.mark.parametrize(
    ("row", "leaf"),
    [
        ([0.0, 0, 0], 4),
        ([1.0, 2, 1], 4),  # the threshold itself goes left
        ([-1.0, 2, 1], 3),
        ([0.0, 1, 1], 5),
        ([0.0, np.nan, 1], 5),  # missing goes right here
        ([0.0, -1, 1], 4),  # unseen: to the larger side, left (35 of 60), then 0 > -1
        ([0.0, 9, 1], 4),
        ([1.5, 0, 0], 7),
        ([1.5, 0, 1], 8),
        ([1.5, 0, np.nan], 7),
        ([1.5, 0, -1], 8),  # unseen: to the larger side, right
        ([1.5, 0, 3], 8),  # a code of column 1 only is unseen in column 2
        ([np.nan, 0, 1], 8),
        ([np.inf, 0, 1], 8),
        ([-np.inf, 0, 1], 3),
    ],
)
def test_routing_of_numbers_categories_missing_and_unseen(mixed, row, leaf):
    tree, _ = mixed
    assert tree.apply([row]).tolist() == [leaf]
    assert tree.leaf_of([row]).tolist() == [tree.leaf_index[leaf]]


def test_memory_order_and_type_of_the_table_do_not_matter(mixed):
    tree, _ = mixed
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), rng.integers(0, 4, 200), rng.integers(0, 2, 200)])
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    expected = tree.apply(X)
    np.testing.assert_array_equal(tree.apply(np.asfortranarray(X)), expected)
    np.testing.assert_array_equal(tree.apply(np.repeat(X, 2, axis=1)[:, ::2]), expected)
    np.testing.assert_array_equal(tree.apply(X[::-1])[::-1], expected)
    np.testing.assert_array_equal(tree.apply(X.astype(np.float32)), expected)
    assert len(set(expected)) == tree.n_leaves
    assert tree.apply(X[:0]).shape == (0,)


def test_rows_are_where_the_splits_sent_them():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(900, 2)), rng.integers(0, 5, 900), rng.integers(0, 14, 900)])
    X[rng.uniform(size=X.shape) < 0.05] = np.nan
    residuals = rng.normal(size=900) * np.exp(np.nan_to_num(X[:, 0]) + np.isin(X[:, 2], [1, 3]))
    kinds = [0, 0, 5, 14]
    builder = TreeBuilder(4, kinds)
    waiting = [(builder.add_root(900), np.arange(900))]
    leaf_rows = {}
    while waiting:
        handle, rows = waiting.pop(0)
        split = best_split(X, residuals[rows], rows=rows, n_categories=kinds, min_samples_leaf=60)
        if split is None:
            leaf_rows[handle] = rows
            continue
        left = split.goes_left(X[rows, split.feature])
        assert (left.sum(), (~left).sum()) == (split.n_left, split.n_right)
        waiting += list(zip(builder.add_children(handle, split), (rows[left], rows[~left])))
    tree, node_of = builder.build()
    assert tree.n_leaves > 6
    assert (tree.category_row >= 0).any()
    reached = tree.apply(X)
    for handle, rows in leaf_rows.items():
        np.testing.assert_array_equal(reached[rows], node_of[handle])
    np.testing.assert_array_equal(np.bincount(reached, minlength=tree.n_nodes)[tree.leaves], tree.n_rows[tree.leaves])


def test_decision_path(mixed):
    tree, _ = mixed
    path = tree.decision_path([[0.0, 0, 0], [1.5, 0, 1], [0.0, 1, 1]])
    assert sparse.issparse(path)
    assert path.format == "csr"
    expected = np.zeros((3, 9))
    expected[0, [0, 1, 2, 4]] = expected[1, [0, 6, 8]] = expected[2, [0, 1, 5]] = 1
    np.testing.assert_array_equal(path.toarray(), expected)


def test_a_tree_of_one_leaf():
    builder = TreeBuilder(2)
    builder.add_root(5)
    tree, node_of = builder.build()
    X = np.zeros((3, 2))
    assert (tree.n_nodes, tree.n_leaves, tree.max_depth) == (1, 1, 0)
    np.testing.assert_array_equal(tree.leaf_of(X), [0, 0, 0])
    np.testing.assert_array_equal(tree.decision_path(X).toarray(), np.ones((3, 1)))
    np.testing.assert_array_equal(node_of, [0])


def test_copies_route_alike(mixed):
    tree, _ = mixed
    X = np.random.default_rng(0).normal(size=(50, 3)).round()
    rebuilt = Tree(**vars(tree))
    for other in (copy.deepcopy(tree), pickle.loads(pickle.dumps(tree)), rebuilt):
        np.testing.assert_array_equal(other.apply(X), tree.apply(X))


def test_bad_use_is_named(mixed):
    tree, _ = mixed
    for X, shape in ((np.zeros((4, 2)), "(4, 2)"), (np.zeros(3), "(3,)")):
        with pytest.raises(ValueError) as error:
            tree.apply(X)
        assert str(error.value) == f"X must have shape (n, 3), got {shape}"
    builder = TreeBuilder(1)
    with pytest.raises(ValueError) as error:
        builder.build()
    assert str(error.value) == "the tree has no root yet"
    root = builder.add_root(4)
    with pytest.raises(ValueError) as error:
        builder.add_root(4)
    assert str(error.value) == "the tree already has a root"
    builder.add_children(root, numeric(0, 1.0, 2, 2))
    with pytest.raises(ValueError) as error:
        builder.add_children(root, numeric(0, 1.0, 2, 2))
    assert str(error.value) == "node 0 is already split"
    with pytest.raises(TypeError) as error:
        Tree(n_features=1, feature=np.array([-1]))
    assert str(error.value).startswith("Tree needs exactly the arrays ['category_row', 'depth', 'feature', ")
    assert str(error.value).endswith("got ['feature']")
