"""Validation of objects read from a file, before compiled code, which has no bounds checks, uses them."""

import inspect
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from usnrt.estimators.neighbors import memories
from usnrt.memory.retrieval import N_GUIDES, Retrieval
from usnrt.nn.dropout import ConcreteDropoutMLP
from usnrt.nn.quantiles import N_OUTPUTS
from usnrt.persistence._calibration_checks import (
    check_calibration,
    check_fits_tree,
    check_landmarks,
    check_residual,
    check_subjects,
    check_support,
)
from usnrt.persistence._errors import ModelFileError
from usnrt.persistence._schema import Absent, first_misfit
from usnrt.persistence._schemas import ESTIMATORS, PARTS, Schema
from usnrt.tables.csv_format import CsvFormat
from usnrt.tables.dates import compile_format
from usnrt.experts.weights import GUIDED
from usnrt.tree.model import ExpertTree
from usnrt.utils.constraints import check_parameters

# Parameters that predictions use: threads, passes of a row through a network, floors of evidential parameters.
MOST = {"n_jobs": 4096, "n_passes": 10**5, "min_evidence": 10**6, "min_alpha": 10**6}


def check_fields(name: str, kind: type, values: Mapping[str, Any]) -> None:
    """Check the fields of an object before it is made: no unknown ones, and none that is not what it must be.

    Parameters
    ----------
    name : str
        Of the class, in files.
    kind : type
    values : mapping of str to object
        The fields in the file.
    """
    schema, parameters = schema_of(name, kind)
    unknown = next((key for key in values if key not in schema and key not in parameters), None)
    if unknown is not None:
        raise ModelFileError(f"class {name} has no stored attribute {unknown[:40]!r}")
    misfit = first_misfit(schema, values)
    if misfit is not None:
        raise ModelFileError(f"attribute {misfit!r} of class {name} is invalid")


def check_object(name: str, instance: Any) -> None:
    """Check that an object has all its fields and that they fit together.

    An estimator without any fitted field is a member as it was before the fit; only its parameters are checked.
    """
    schema, parameters = schema_of(name, type(instance))
    if parameters:
        _check_parameters(name, instance)
        if not set(schema) & set(vars(instance)):
            return
    missing = [key for key, spec in schema.items() if not isinstance(spec, Absent) and not hasattr(instance, key)]
    if missing:
        raise ModelFileError(f"attribute {missing[0]!r} of class {name} is missing")
    if name in CHECKS:
        CHECKS[name](instance)


def schema_of(name: str, kind: type) -> tuple[Schema, frozenset[str]]:
    """The stored fields of a class, and its parameters if it is an estimator."""
    if name in PARTS:
        return PARTS[name], frozenset()
    return ESTIMATORS[name], frozenset(inspect.signature(kind).parameters)


def _check_parameters(name: str, estimator: Any) -> None:
    """Check parameters as `fit` does."""
    values = estimator.get_params(deep=False)
    try:
        check_parameters(values, estimator._CONSTRAINTS)
        if any(abs(values.get(parameter) or 1) > most for parameter, most in MOST.items()):
            raise ValueError
    except ValueError:
        raise ModelFileError(f"the parameters of class {name} are invalid") from None


def check_tree(tree: Any) -> None:
    """Check that children follow their parents and have no other one, and that indices are in bounds."""
    n = len(tree.feature)
    numbers, inner = np.arange(n), tree.feature >= 0
    below = tree.parent[1:]
    is_valid = (
        n >= 1
        and (tree.feature < tree.n_features).all()
        and all(((c > numbers) & (c < n))[inner].all() and (c == -1)[~inner].all() for c in (tree.left, tree.right))
        and tree.parent[0] == -1
        and ((below >= 0) & (below < numbers[1:])).all()
        and all((tree.parent[child[inner]] == numbers[inner]).all() for child in (tree.left, tree.right))
        and ((tree.left[below] == numbers[1:]) | (tree.right[below] == numbers[1:])).all()
        and (tree.left != tree.right)[inner].all()
        and tree.depth[0] == 0
        and (tree.depth[1:] == tree.depth[below] + 1).all()
        and (tree.category_row < len(tree.left_categories)).all()
        and not np.isnan(tree.threshold[inner & (tree.category_row < 0)]).any()
        and (tree.leaf_index == np.where(inner, -1, np.cumsum(~inner) - 1)).all()
    )
    if not is_valid:
        raise ModelFileError("the tree is invalid")


def check_network(network: Any) -> None:
    """Check that a network has inputs and outputs."""
    if len(network.sizes) < 2:
        raise ModelFileError("the layer sizes of a network are invalid")


def check_inputs(inputs: Any) -> None:
    """Check that each column has as many network inputs as its levels and its missing values need."""
    widths = [int(level.max(initial=0)) + 1 for level in inputs.level_] + inputs.indicator_
    if sum(widths.tolist()) != inputs.n_outputs_ or (np.repeat(np.arange(len(widths)), widths) != inputs.source_).any():
        raise ModelFileError("the network inputs are inconsistent")


def check_column(column: Any) -> None:
    """Check that codes of categories and categories match, so that no code is beyond them."""
    is_valid = (bool(column.categories) or not column.rest) and (
        len(column.codes) in (0, len(column.categories) - column.rest)
    )
    if not is_valid:
        raise ModelFileError("the categories of a column are inconsistent")


def check_encoder(encoder: Any) -> None:
    """Check that columns have their sources, and the formats, which regular expressions are made of."""
    sources, named = [column.source_index for column in encoder.columns_], dict(enumerate(encoder.source_names_))
    if (
        [column.n_categories for column in encoder.columns_] != encoder.n_categories_.tolist()
        or [column.source for column in encoder.columns_] != [named.get(source) for source in sources]
        or sources != sorted(sources)
    ):
        raise ModelFileError("the columns of the table are inconsistent")
    try:
        for format in getattr(encoder, "date_formats_", {}).values():
            compile_format(format[:100])
        if encoder.reading_ is not None:
            format_of_file = CsvFormat(**encoder.reading_)
            if any(len(mark) > 1 for mark in (format_of_file.decimal, format_of_file.thousands)):
                raise ValueError
    except (TypeError, ValueError):
        raise ModelFileError("the formats of the columns are invalid") from None


def check_forest(forest: Any) -> None:
    """Check that children follow their parents (no cycles), and that indices are in bounds."""
    n = len(forest.feature)
    inner, numbers = forest.feature >= 0, np.arange(n)
    is_valid = (
        len(forest.root) >= 1
        and (forest.root < n).all()
        and all(((child > numbers) & (child < n))[inner].all() for child in (forest.left, forest.right))
        and not np.isnan(forest.threshold[inner]).any()
    )
    if not is_valid:
        raise ModelFileError("the forest is invalid")


def check_forest_model(model: Any) -> None:
    """Check that the trees split on existing columns."""
    check_estimator(model)
    if (model.forest_.feature >= model.inputs_.n_outputs_).any():
        raise ModelFileError("the forest splits on columns that do not exist")


def check_familiar(familiar: Any) -> None:
    """Check that the hashes are sorted and not empty."""
    if not len(familiar.hashes) or not (familiar.hashes[1:] > familiar.hashes[:-1]).all() or familiar.weight >= 1:
        raise ModelFileError("the features of the training rows are invalid")


def check_encoding(encoding: Any) -> None:
    """Check that an encoding refers to existing columns."""
    if not (encoding.columns < encoding.n_inputs).all():
        raise ModelFileError("the encoding of the network inputs is invalid")


def check_retrieval(memory: Any) -> None:
    """Check that the arrays of a memory fit together, and that exactly the places of cells with a row are finite."""
    n_cells, _, size = memory.cells.shape
    is_held = memory.row >= 0
    is_valid = (
        len(memory.row) == n_cells * size
        and len(memory.metric) == _n_encoded(memory.encoding, len(memory.metric))
        and is_held.any()
        and (np.isfinite(memory.cells) == is_held.reshape(n_cells, 1, size)).all()
        and np.isfinite(memory.target[is_held]).all()
    )
    if not is_valid:
        raise ModelFileError("the memory of training rows is invalid")


def check_expert_tree(model: Any) -> None:
    """Check that every region has a network and weights of the experts, and that all fit to the inputs."""
    n_leaves, weights, network_of = model.tree.n_leaves, model.expert_weights, model.network_of
    _check_networks(model, model.network, model.params, len(model.params))
    is_valid = (
        model.network.sizes[-1] == N_OUTPUTS
        and len(network_of) == n_leaves
        and (network_of < len(model.params)).all()
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
    if model.quantile_network.sizes[-1] != N_OUTPUTS:
        raise ModelFileError("the networks of the tree are invalid")
    _check_refinement(model)


def check_variance_tree(model: Any) -> None:
    """Check that every region has networks that fit to the inputs."""
    _check_networks(model, model.mean_network, model.mean_params, model.tree.n_leaves)
    if not model.variance_params or model.variance_network.output == "linear":
        raise ModelFileError("the networks of the tree are invalid")
    for params in model.variance_params:
        _check_networks(model, model.variance_network, params, model.tree.n_leaves)


def check_estimator(estimator: Any) -> None:
    """Check that the network inputs are those of the columns."""
    columns, levels = estimator.encoder_.columns_, estimator.inputs_.level_
    if [len(level) for level in levels] != [column.n_categories for column in columns]:
        raise ModelFileError("the network inputs do not fit to the columns of the table")
    if estimator.n_features_in_ != len(estimator.encoder_.source_names_):
        raise ModelFileError("the columns of the table are inconsistent")


def check_regressor(regressor: Any) -> None:
    """Check that the trees of a regressor take its columns and its network inputs."""
    check_estimator(regressor)
    attributes = vars(regressor)
    members = attributes["members_"] if "members_" in attributes else [attributes["model_"]]
    n_columns = len(regressor.encoder_.columns_)
    n_networks = {len(getattr(member, "variance_params", ())) for member in members}
    if (
        len(n_networks) != 1
        or ("members_" in attributes and len(members) < 2)
        or any(
            n_inputs(member) != regressor.inputs_.n_outputs_ or not _splits_on(member.tree, regressor.encoder_)
            for member in members
        )
    ):
        raise ModelFileError("the trees do not fit to the columns of the table")
    n_leaves = regressor.tree_.n_leaves
    weights, positions = attributes.get("expert_weights_"), attributes.get("row_positions_")
    n_numbered = 1 + max((memory.row.max() for memory in memories(regressor)), default=-1)
    if (weights is not None and len(weights) != n_leaves) or (positions is not None and len(positions) < n_numbered):
        raise ModelFileError("the experts or the rows of the memory do not fit to the trees")
    if len(attributes.get("shared_", regressor.tree_.leaves)) != n_leaves:
        raise ModelFileError("the shared variance does not fit to the trees")
    check_fits_tree(attributes, n_leaves, n_columns)
    _check_explanations(attributes, (n_leaves + 1, n_columns), len(regressor.encoder_.source_names_))


def _splits_on(tree: Any, encoder: Any) -> bool:
    """Whether a tree splits on the columns of an encoder, on categories where these are."""
    if tree.n_features != len(encoder.columns_):
        return False
    inner = tree.feature >= 0
    n_categories = encoder.n_categories_[tree.feature[inner]]
    return bool(
        ((n_categories > 0) == (tree.category_row[inner] >= 0)).all()
        and n_categories.max(initial=0) <= tree.left_categories.shape[1]
    )


def _check_explanations(attributes: Mapping[str, Any], shape: tuple[int, int], n_sources: int) -> None:
    """Check that background and examples, which explanations use, fit to the columns and to the memory."""
    background, examples = attributes.get("background_"), attributes.get("examples_")
    is_valid = background is None or (background.shape[1] >= 1 and background.shape[::2] == shape)
    if examples is not None:
        is_valid = is_valid and attributes.get("row_positions_") is not None and len(examples) == n_sources
    if not is_valid:
        raise ModelFileError("the background or the examples of explanations do not fit to the table")


def check_networks(estimator: Any) -> None:
    """Check that the networks of a competing model take its inputs and have the weights of their sizes."""
    check_estimator(estimator)
    networks = getattr(estimator, "networks_", None)
    pairs = [(estimator.network_, estimator.params_)] if networks is None else _pairs(networks, estimator.params_)
    n = estimator.inputs_.n_outputs_
    encoding = estimator.encoding_
    if not pairs or (networks is not None and networks[1].output == "linear"):  # a variance is positive
        raise ModelFileError("the networks do not fit to the columns of the table")
    for network, params in pairs:
        if (
            network.sizes[0] != _n_encoded(encoding, n)
            or (encoding is not None and encoding.n_inputs != n)
            or [[array.shape for array in layer] for layer in params] != _shapes(network)
        ):
            raise ModelFileError("the networks do not fit to the columns of the table")


def _shapes(network: Any) -> list[list[tuple[int, ...]]]:
    """Shapes of the weights of a network, layer by layer."""
    layers = list(pairwise(network.sizes))
    if isinstance(network, ConcreteDropoutMLP) and network.separate_heads:
        layers[-1:] = [(network.sizes[-2], 1)] * network.sizes[-1]
    rate: list[tuple[int, ...]] = [()] if isinstance(network, ConcreteDropoutMLP) else []
    return [[(n, m), (m,), *rate] for n, m in layers]


def _pairs(networks: Any, params: Any) -> list[tuple[Any, Any]]:
    """Networks with their weights, of one member or of several."""
    members = params if isinstance(params, list) else [params]
    return [pair for member in members for pair in zip(networks, member)]


def n_inputs(model: Any) -> int:
    """Number of network inputs of a tree before the encoding, without guides."""
    network = model.network if isinstance(model, ExpertTree) else model.mean_network
    number: int = network.sizes[0] if model.encoding is None else model.encoding.n_inputs
    return number - N_GUIDES if isinstance(model, ExpertTree) and model.memory is not None else number


def _check_networks(model: Any, network: Any, params: Any, number: int) -> None:
    """Check the number of networks, and the shapes and types of their weights."""
    sizes = network.sizes
    is_valid = (
        sizes[0] == _n_encoded(model.encoding, sizes[0])
        and len(params) == number >= 1
        and all([[array.shape for array in layer] for layer in one] == _shapes(network) for one in params)
    )
    if not is_valid:
        raise ModelFileError("the networks of the tree are invalid")


def _check_refinement(model: Any) -> None:
    if model.refinement is not None and len(model.refinement.spread_share) != model.tree.n_leaves:
        raise ModelFileError("the refinement of the tree is invalid")


def _n_encoded(encoding: Any, n_without: int) -> int:
    """Number of inputs after the encoding; ``n_without`` if there is none."""
    if encoding is None:
        return n_without
    number: int = encoding.n_outputs
    return number


def check_target_map(target_map: Any) -> None:
    """Check that a target map has its bounds in order."""
    is_valid = target_map.low <= target_map.low_end < target_map.high_end <= target_map.high and (
        np.isfinite(target_map.low) or not target_map.log
    )
    if not is_valid:
        raise ModelFileError("the map of the target is invalid")


def check_online(online: Any) -> None:
    """Check that an online calibrator has a surplus for each region of its model, which is fitted."""
    if len(online.region_surplus_) != online.model.n_leaves_ or online.n_covered_ > online.n_rows_:
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
    "ResidualDistribution": check_residual,
    "SeenRows": check_familiar,
    "FlatForest": check_forest,
    **dict.fromkeys(
        (
            "HNNRegressor",
            "DeepEnsembleRegressor",
            "MCDropoutRegressor",
            "ConcreteDropoutRegressor",
            "EvidentialRegressor",
        ),
        check_networks,
    ),
    "RandomForestVarianceRegressor": check_forest_model,
    "ExtraTreesVarianceRegressor": check_forest_model,
}
