"""Validation of objects read from a file, before compiled code, which has no bounds checks, uses them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from usnrt.persistence._errors import ModelFileError

_TREE_ARRAYS = {
    "feature": "i", "threshold": "f", "left": "i", "right": "i", "parent": "i", "depth": "i", "missing_left": "b",
    "larger_left": "b", "category_row": "i", "n_rows": "f", "statistic": "f", "log10_p": "f", "residual_mean": "f",
    "residual_std": "f", "leaf_index": "i",
}  # fmt: skip


def check_tree(tree: Any) -> None:
    """Check that all arrays have one length, children follow their parents (no cycles), and indices are in bounds."""
    n = len(tree.feature)
    for name, kind in _TREE_ARRAYS.items():
        array = getattr(tree, name)
        if not isinstance(array, np.ndarray) or array.shape != (n,) or array.dtype.kind != kind:
            raise ModelFileError(f"the tree's array {name!r} has the wrong shape or type")
    numbers = np.arange(n)
    inner = tree.feature >= 0
    categories = tree.left_categories
    is_valid = (
        n >= 1
        and type(tree.n_features) is int
        and isinstance(categories, np.ndarray)
        and categories.ndim == 2
        and categories.dtype == bool
        and (tree.feature >= -1).all()
        and (tree.feature < tree.n_features).all()
        and all(((c > numbers) & (c < n))[inner].all() and (c == -1)[~inner].all() for c in (tree.left, tree.right))
        and (tree.parent < np.maximum(numbers, 1)).all()
        and (tree.parent[1:] >= 0).all()
        and ((tree.category_row >= -1) & (tree.category_row < len(categories))).all()
        and (tree.leaf_index == np.where(inner, -1, np.cumsum(~inner) - 1)).all()
        and ((tree.depth >= 0) & (tree.depth < n)).all()
    )
    if not is_valid:
        raise ModelFileError("the tree is invalid")


def check_network(network: Any) -> None:
    """Check the layer sizes of a network: at least two positive integers, none so large that no file holds weights."""
    sizes = network.sizes
    if type(sizes) is not tuple or not all(type(size) is int and 0 < size <= 10**6 for size in sizes) or len(sizes) < 2:
        raise ModelFileError("the layer sizes of a network are invalid")


def check_inputs(inputs: Any) -> None:
    """Check that the number of network inputs is that of their names, so that no table of a declared width is made."""
    if not inputs.n_outputs_ == len(inputs.names_) == len(inputs.source_):
        raise ModelFileError("the network inputs are inconsistent")


def check_forest(forest: Any) -> None:
    """Check that all arrays have one length, children follow their parents (no cycles), and indices are in bounds."""
    n = len(forest.feature)
    kinds = {"feature": "i", "left": "i", "right": "i", "threshold": "f", "mean": "f", "variance": "f"}
    for name, kind in kinds.items():
        array = getattr(forest, name)
        if not isinstance(array, np.ndarray) or array.shape != (n,) or array.dtype.kind != kind:
            raise ModelFileError(f"the forest's array {name!r} has the wrong shape or type")
    inner, numbers = forest.feature >= 0, np.arange(n)
    is_valid = (
        forest.root.ndim == 1
        and forest.root.dtype.kind == "i"
        and ((forest.root >= 0) & (forest.root < n)).all()
        and all(((child > numbers) & (child < n))[inner].all() for child in (forest.left, forest.right))
    )
    if not is_valid:
        raise ModelFileError("the forest is invalid")


def check_forest_model(model: Any) -> None:
    """Check that the trees split on existing columns."""
    if (model.forest_.feature >= model.inputs_.n_outputs_).any():
        raise ModelFileError("the forest splits on columns that do not exist")


def check_fingerprint(fingerprint: Any) -> None:
    """Check the type of the hashes of training rows, and that the share of repeated rows is in [0, 1]."""
    hashes = fingerprint.hashes
    if not (
        isinstance(hashes, np.ndarray)
        and hashes.ndim == 1
        and hashes.dtype == np.uint64
        and type(fingerprint.repeated) is float
        and 0 <= fingerprint.repeated <= 1
    ):
        raise ModelFileError("the fingerprint of the training rows is invalid")


CHECKS: dict[str, Callable[[Any], None]] = {
    "Tree": check_tree,
    "MLP": check_network,
    "DropoutMLP": check_network,
    "ConcreteDropoutMLP": check_network,
    "NetworkInputs": check_inputs,
    "Fingerprint": check_fingerprint,
    "FlatForest": check_forest,
    "RandomForestVarianceRegressor": check_forest_model,
    "ExtraTreesVarianceRegressor": check_forest_model,
}
