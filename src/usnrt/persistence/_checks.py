"""Validation of objects read from a file, before compiled code, which has no bounds checks, uses them."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from usnrt.distributions.target_map import TargetMap
from usnrt.estimators.calibrated import CalibratedRegressor
from usnrt.estimators.neighbors import memories
from usnrt.memory.retrieval import N_GUIDES, Retrieval
from usnrt.nn.mlp import MLP
from usnrt.nn.quantiles import N_OUTPUTS
from usnrt.persistence._calibration_checks import (
    check_calibration,
    check_fits_tree,
    check_landmarks,
    check_subjects,
    check_support,
)
from usnrt.persistence._errors import ModelFileError
from usnrt.tables.csv_format import CsvFormat
from usnrt.tables.dates import compile_format
from usnrt.tree.experts import EXPERTS, GUIDED
from usnrt.tree.model import ExpertTree, TreeModel
from usnrt.tree.structure import Tree

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


def check_column(column: Any) -> None:
    """Check that codes of categories and categories match, so that no code is beyond them."""
    is_valid = (
        type(column.categories) is tuple
        and type(column.codes) is tuple
        and type(column.rest) is bool
        and (bool(column.categories) or not column.rest)
        and len(column.codes) in (0, len(column.categories) - column.rest)
    )
    if not is_valid:
        raise ModelFileError("the categories of a column are inconsistent")


def check_encoder(encoder: Any) -> None:
    """Check the date formats and the format of the file, which regular expressions are made of."""
    for texts in (encoder.date_formats_, {} if encoder.reading_ is None else encoder.reading_):
        if type(texts) is not dict or not all(type(item) is str for pair in texts.items() for item in pair):
            raise ModelFileError("the formats of the columns are invalid")
    try:
        for format in encoder.date_formats_.values():
            compile_format(format[:100])
        if encoder.reading_ is not None:
            format_of_file = CsvFormat(**encoder.reading_)
            if any(len(mark) > 1 for mark in (format_of_file.decimal, format_of_file.thousands)):
                raise ValueError
    except (TypeError, ValueError):
        raise ModelFileError("the formats of the columns are invalid") from None


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


def check_familiar(familiar: Any) -> None:
    """Check that the hashes are sorted and not empty, and that there is one finite target per hash, or none."""
    hashes, target = familiar.hashes, familiar.target
    is_valid = (
        isinstance(hashes, np.ndarray)
        and hashes.ndim == 1
        and hashes.dtype == np.uint64
        and len(hashes) > 0
        and bool((hashes[1:] > hashes[:-1]).all())
        and (target is None or (_is_array(target, "f", 1) and len(target) == len(hashes) and _is_finite(target)))
        and type(familiar.weight) is float
        and 0 <= familiar.weight < 1
    )
    if not is_valid:
        raise ModelFileError("the features of the training rows are invalid")


def check_encoding(encoding: Any) -> None:
    """Check that an encoding refers to existing columns and has a slope and an offset for each bin."""
    columns, n_inputs = encoding.columns, encoding.n_inputs
    is_valid = (
        type(n_inputs) is int
        and _is_array(columns, "i", 1)
        and ((columns >= 0) & (columns < n_inputs)).all()
        and _is_array(encoding.slope, "f", 2)
        and _is_array(encoding.offset, "f", 2)
        and encoding.slope.shape == encoding.offset.shape
        and len(encoding.slope) == len(columns)
        and _is_finite(encoding.slope, encoding.offset)
    )
    if not is_valid:
        raise ModelFileError("the encoding of the network inputs is invalid")


def check_retrieval(memory: Any) -> None:
    """Check that the arrays of a memory fit together, and that exactly the places of cells with a row are finite."""
    names = {
        "metric": "f4 2", "cells": "f2 3", "centres": "f4 2", "row": "i8 1", "target": "f8 1", "log_weight": "f8 1",
        "guide_mean": "f8 1", "guide_std": "f8 1",
    }  # fmt: skip
    for name, kind in names.items():
        array = getattr(memory, name)
        if not isinstance(array, np.ndarray) or f"{array.dtype.str[1:]} {array.ndim}" != kind:
            raise ModelFileError(f"the memory's array {name!r} has the wrong shape or type")
    n_cells, n_dims, size = memory.cells.shape
    is_held = memory.row >= 0
    is_valid = (
        memory.row.shape == memory.target.shape == memory.log_weight.shape == (n_cells * size,)
        and memory.guide_mean.shape == memory.guide_std.shape == (N_GUIDES,)
        and memory.centres.shape == (n_dims, n_cells)
        and memory.metric.shape == (_n_encoded(memory.encoding, len(memory.metric)), n_dims)
        and all(type(number) is int and 0 < number <= 1000 for number in (memory.n_probes, memory.n_neighbors))
        and is_held.any()
        and (memory.row >= -1).all()
        and (np.isfinite(memory.cells) == is_held.reshape(n_cells, 1, size)).all()
        and not np.isnan(memory.cells).any()
        and _is_finite(memory.target[is_held], memory.log_weight, memory.metric, memory.centres)
        and _is_finite(memory.guide_mean, memory.guide_std)
        and (memory.guide_std > 0).all()
    )
    if not is_valid:
        raise ModelFileError("the memory of training rows is invalid")


def check_expert_tree(model: Any) -> None:
    """Check that every region has a network and weights of the experts, and that all fit to the inputs."""
    n_leaves, weights, network_of = model.tree.n_leaves, model.expert_weights, model.network_of
    _check_networks(model, model.network, model.params, len(model.params))
    is_valid = (
        isinstance(model.tree, Tree)
        and model.network.sizes[-1] == N_OUTPUTS
        and _is_array(network_of, "i", 1)
        and len(network_of) == n_leaves
        and ((network_of >= 0) & (network_of < len(model.params))).all()
        and _is_array(weights, "f", 2)
        and weights.shape == (n_leaves, len(EXPERTS))
        and (weights >= 0).all()
        and np.allclose(weights.sum(axis=1), 1.0)
        and (isinstance(model.memory, Retrieval) if weights[:, GUIDED:].any() else True)
        and (model.memory is None or n_inputs(model) == model.memory.n_inputs)
    )
    if not is_valid:
        raise ModelFileError("the experts of the tree are invalid")
    _check_refinement(model)


def check_quantile_tree(model: Any) -> None:
    """Check that every region has two networks that fit to the inputs."""
    _check_networks(model, model.mean_network, model.mean_params, model.tree.n_leaves)
    _check_networks(model, model.quantile_network, model.quantile_params, model.tree.n_leaves)
    if type(model.blend) not in (float, np.float64) or model.quantile_network.sizes[-1] != N_OUTPUTS:
        raise ModelFileError("the networks of the tree are invalid")
    _check_refinement(model)


def check_variance_tree(model: Any) -> None:
    """Check that every region has networks that fit to the inputs."""
    _check_networks(model, model.mean_network, model.mean_params, model.tree.n_leaves)
    for params in model.variance_params:
        _check_networks(model, model.variance_network, params, model.tree.n_leaves)


def check_regressor(regressor: Any) -> None:
    """Check that the trees of a regressor take its columns and its network inputs."""
    attributes = vars(regressor)
    members = attributes.get("members_", [attributes["model_"]] if "model_" in attributes else [])
    for member in members:
        if (
            not isinstance(member, TreeModel)
            or n_inputs(member) != attributes["inputs_"].n_outputs_
            or member.tree.n_features != len(attributes["encoder_"].columns_)
        ):
            raise ModelFileError("the trees do not fit to the columns of the table")
    if not isinstance(attributes.get("target_map_"), TargetMap | None):
        raise ModelFileError("the map of the target is invalid")
    weights, positions = attributes.get("expert_weights_"), attributes.get("row_positions_")
    n_numbered = 1 + max((memory.row.max() for memory in memories(regressor)), default=-1)
    is_valid = (
        weights is None or (_is_array(weights, "f", 2) and weights.shape == (regressor.tree_.n_leaves, len(EXPERTS)))
    ) and (positions is None or (_is_array(positions, "i", 1) and len(positions) >= n_numbered))
    if not is_valid:
        raise ModelFileError("the experts or the rows of the memory do not fit to the trees")
    if members:
        check_fits_tree(attributes, regressor.tree_.n_leaves, len(attributes["encoder_"].columns_))
    _check_explanations(regressor, attributes)


def _check_explanations(regressor: Any, attributes: dict[str, Any]) -> None:
    """Check that background and examples, which explanations use, fit to the columns and to the memory."""
    background, examples = attributes.get("background_"), attributes.get("examples_")
    positions, encoder = attributes.get("row_positions_"), attributes.get("encoder_")
    is_valid = background is None or (
        _is_array(background, "f", 3)
        and len(background) == regressor.tree_.n_leaves + 1
        and background.shape[1] >= 1
        and background.shape[2] == len(encoder.columns_)  # type: ignore[union-attr]
    )
    is_valid = is_valid and (
        examples is None
        or (
            positions is not None
            and isinstance(examples, list)
            and len(examples) == len(encoder.source_names_)  # type: ignore[union-attr]
            and all(isinstance(values, np.ndarray) and values.shape == positions.shape for values in examples)
        )
    )
    if not is_valid:
        raise ModelFileError("the background or the examples of explanations do not fit to the table")


def n_inputs(model: Any) -> int:
    """Number of network inputs of a tree before the encoding, without guides."""
    network = model.network if isinstance(model, ExpertTree) else model.mean_network
    number: int = network.sizes[0] if model.encoding is None else model.encoding.n_inputs
    return number - N_GUIDES if isinstance(model, ExpertTree) and model.memory is not None else number


def _check_networks(model: Any, network: Any, params: Any, number: int) -> None:
    """Check the number of networks, and the shapes and types of their weights."""
    sizes = network.sizes
    shapes = [[(n, m), (m,)] for n, m in pairwise(sizes)]
    is_valid = (
        isinstance(network, MLP)
        and sizes[0] == _n_encoded(model.encoding, sizes[0])
        and network.activation in ("relu", "tanh", "algebraic")
        and len(params) == number >= 1
        and all([[np.shape(array) for array in layer] for layer in one] == shapes for one in params)
        and all(np.asarray(array).dtype == np.float32 for one in params for layer in one for array in layer)
    )
    if not is_valid:
        raise ModelFileError("the networks of the tree are invalid")


def _check_refinement(model: Any) -> None:
    refinement, shape = model.refinement, (model.tree.n_leaves,)
    if refinement is None:
        return
    arrays = (refinement.spread_share, refinement.log_half_width, refinement.location_share)
    if not all(_is_array(array, "f", 1) and array.shape == shape for array in arrays) or not _is_finite(*arrays):
        raise ModelFileError("the refinement of the tree is invalid")


def _n_encoded(encoding: Any, n_without: int) -> int:
    """Number of inputs after the encoding; ``n_without`` if there is none."""
    if encoding is None:
        return n_without
    number: int = encoding.n_outputs
    return number


def _is_array(value: Any, kind: str, n_dims: int) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == kind and value.ndim == n_dims


def _is_finite(*arrays: Any) -> bool:
    return all(bool(np.isfinite(array).all()) for array in arrays)


def check_target_map(target_map: Any) -> None:
    """Check that a target map has its bounds in order and can be evaluated."""
    numbers = [getattr(target_map, name) for name in ("low", "high", "shift", "knee", "low_end", "high_end")]
    is_valid = (
        all(type(number) in (float, int) and not np.isnan(number) for number in numbers)
        and type(target_map.log) is bool
        and target_map.low <= target_map.low_end < target_map.high_end <= target_map.high
        and all(type(at) is float and not np.isnan(at) for at in (target_map.low_at, target_map.high_at))
        and 0 <= target_map.shift < np.inf
        and 0 < target_map.knee < np.inf
        and (np.isfinite(target_map.low) or not target_map.log)
    )
    if not is_valid:
        raise ModelFileError("the map of the target is invalid")


def check_online(online: Any) -> None:
    """Check that an online calibrator has a model, and a finite surplus for each of its regions."""
    model, surplus, by_region = online.model, online.surplus_, online.region_surplus_
    is_valid = (
        isinstance(model, CalibratedRegressor)
        and type(online.coverage) is float
        and 0 < online.coverage < 1
        and _is_array(surplus, "f", 1)
        and surplus.shape == (2,)
        and _is_array(by_region, "f", 2)
        and by_region.shape == (model.n_leaves_, 2)
        and _is_finite(surplus, by_region)
        and type(online.n_rows_) is int
        and type(online.n_covered_) is int
    )
    if not is_valid:
        raise ModelFileError("the online calibrator is invalid")


CHECKS: dict[str, Callable[[Any], None]] = {
    "Tree": check_tree,
    "MLP": check_network,
    "DropoutMLP": check_network,
    "ConcreteDropoutMLP": check_network,
    "Column": check_column,
    "TableEncoder": check_encoder,
    "NetworkInputs": check_inputs,
    "PiecewiseLinear": check_encoding,
    "Retrieval": check_retrieval,
    "TargetMap": check_target_map,
    "OnlineCalibrator": check_online,
    "ExpertTree": check_expert_tree,
    "QuantileTree": check_quantile_tree,
    "VarianceTree": check_variance_tree,
    "USNRTRegressor": check_regressor,
    "USNRTEnsemble": check_regressor,
    "PaperUSNRTRegressor": check_regressor,
    "PaperUSNRTEnsemble": check_regressor,
    "Support": check_support,
    "Landmarks": check_landmarks,
    "Subjects": check_subjects,
    "Calibration": check_calibration,
    "Familiar": check_familiar,
    "Fingerprint": check_fingerprint,
    "FlatForest": check_forest,
    "RandomForestVarianceRegressor": check_forest_model,
    "ExtraTreesVarianceRegressor": check_forest_model,
}
