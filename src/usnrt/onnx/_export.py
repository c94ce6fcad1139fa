"""Conversion of a fitted model to an ONNX model, with its metadata."""

import json
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from usnrt._version import __version__
from usnrt.calibration.groups import GroupCalibration
from usnrt.distributions.base import check_levels
from usnrt.model.ensembles import TreeEnsemble
from usnrt.model.fitted import FittedModel
from usnrt.onnx._columns import EncodedColumns, find_leaves, input_names, read_columns
from usnrt.onnx._distributions import (
    combined_quantiles,
    location_scale_outputs,
    mixture_moments,
    mixture_outputs,
    quantile_outputs,
)
from usnrt.onnx._experts import expert_functions
from usnrt.onnx._graph import IR_VERSION, ML_DOMAIN, ML_OPSET, OPSET, Graph, Tensor
from usnrt.onnx._networks import all_networks, network_inputs, network_moments
from usnrt.onnx._support import (
    MeasuredSupport,
    first_rows,
    measure,
    widened_quantiles,
)
from usnrt.tables import TableEncoder
from usnrt.tree.model import ExpertTree, TreeModel, VarianceTree
from usnrt.utils.atomic_write import atomic_write
from usnrt.utils.notices import ResultWarning

if TYPE_CHECKING:
    from onnx import ModelProto

    from usnrt.estimators.tree_regressor import TreeRegressor

# Protocol buffers are limited to 2 GiB; the rest of a graph is far below 16 MiB.
MAX_WEIGHTS = 2**31 - 2**24


def to_onnx(
    model: "TreeRegressor",
    path: str | os.PathLike[str] | None = None,
    *,
    levels: Sequence[float] = (0.05, 0.5, 0.95),
) -> "ModelProto":
    """Export a tree or an ensemble as one ONNX graph; see `USNRTRegressor.to_onnx`.

    The graph of a model with a memory contains training data: the targets and a transformation of the features of up to
    65,536 rows per tree. Fit with ``memory=False`` if it must not.

    Parameters
    ----------
    model : USNRTRegressor or USNRTEnsemble
        Fitted.
    path : path-like, optional
        File to write, by convention with the suffix ``.onnx``; None to write no file.
    levels : sequence of k floats, default=(0.05, 0.5, 0.95)
        Levels of the quantiles, each in (0, 1).

    Returns
    -------
    onnx.ModelProto

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt import USNRTRegressor
    >>> from usnrt.onnx import to_onnx
    >>> X = np.random.default_rng(0).uniform(size=(60, 2))
    >>> model = USNRTRegressor(max_epochs=1, random_state=0).fit(X, X.sum(axis=1))
    >>> [output.name for output in to_onnx(model).graph.output]
    ['mean', 'std', 'region', 'quantiles', 'supported']
    """
    try:
        from onnx import helper
    except ImportError as error:
        raise ImportError("to_onnx needs onnx: pip install 'usnrt[onnx]'") from error
    check_is_fitted(model)
    level_array = np.atleast_1d(check_levels(levels, "levels"))
    if level_array.size == 0:
        raise ValueError(f"levels must hold at least one level, got {levels!r}")
    if not isinstance(model.model_.calibration, GroupCalibration | None):
        raise ValueError(f"to_onnx does not know the calibration of class {type(model.model_.calibration).__name__}")
    _check_size(model.model_.members)
    if model.model_.calibration is not None and model.model_.calibration.has_seen:
        warnings.warn(
            "an ONNX graph does not recognise rows whose features were seen in training; it treats them as new rows, "
            "for which this model predicts wider distributions",
            ResultWarning,
            stacklevel=3,
        )
    graph = _build(model.encoder_, model.model_, level_array)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML_DOMAIN, ML_OPSET)]
    proto = helper.make_model(graph.make(), opset_imports=opsets, ir_version=IR_VERSION)
    _add_metadata(proto, model, level_array)
    if path is not None:
        with atomic_write(path) as file:
            file.write(proto.SerializeToString())
    return proto


class GraphRows(NamedTuple):
    """Rows in a graph, up to the inputs of the networks.

    Attributes
    ----------
    leaf, region : Tensor of shape (n,)
        In the tree of the first member, which defines the regions: the number of the leaf, and its id.
    widening : MeasuredSupport or None
        None if the model does not widen: then the networks are evaluated at the rows themselves.
    evaluated_numbers : Tensor or None
        The numbers at which the networks are evaluated.
    leaves, inputs : Tensor
        Of the rows at which the networks are evaluated.
    """

    columns: EncodedColumns
    leaf: Tensor
    region: Tensor
    found: MeasuredSupport
    widening: MeasuredSupport | None
    evaluated_numbers: Tensor | None
    leaves: Tensor
    inputs: Tensor


def read_rows(graph: Graph, encoder: TableEncoder, model: FittedModel) -> GraphRows:
    """Declare the inputs, encode them, measure support, and find leaves and network inputs."""
    columns, n_categories = read_columns(graph, encoder), encoder.n_categories_
    trees = [member.tree for member in model.members]
    leaf = first_member(find_leaves(graph, columns, trees[:1], n_categories))
    found, clamped = measure(graph, model.support, columns, n_categories, leaf)
    widening, evaluated = (found, clamped) if model.support.widens else (None, columns)
    leaves = find_leaves(graph, evaluated, trees, n_categories)
    inputs = network_inputs(graph, evaluated, model.inputs)
    region = graph.gather(trees[0].leaves, leaf)
    return GraphRows(columns, leaf, region, found, widening, evaluated.numbers, leaves, inputs)


def _build(encoder: TableEncoder, model: FittedModel, levels: NDArray[np.float64]) -> Graph:
    """The complete graph."""
    graph = Graph("usnrt")
    rows = read_rows(graph, encoder, model)
    mean, std, quantiles = _distribution(graph, model, rows, levels)
    graph.output("mean", mean, np.float64, ["n"], "mean")
    graph.output("std", std, np.float64, ["n"], "standard deviation")
    graph.output("region", rows.region, np.int64, ["n"], "id of the region, as from apply")
    doc = f"quantiles at the levels {', '.join(f'{level:g}' for level in levels)}"
    graph.output("quantiles", quantiles, np.float64, ["n", len(levels)], doc)
    graph.output("supported", rows.found.supported, np.bool_, ["n"], "whether the row resembles the training rows")
    return graph


def _distribution(graph: Graph, model: FittedModel, rows: GraphRows, levels: NDArray[np.float64]) -> list[Tensor]:
    """Mean, std and quantiles, by the type of the predictive distribution."""
    leaf = first_member(rows.leaves)  # of the n + m rows that the networks are evaluated at
    if isinstance(model.members[0], ExpertTree):
        row_leaf = first_rows(graph, rows.found, leaf) if rows.widening else leaf
        quantiles = quantile_functions(graph, model, rows.inputs, rows.leaves, rows.widening)
        return quantile_outputs(graph, model, quantiles, row_leaf, levels)
    variance_trees = [member for member in model.members if isinstance(member, VarianceTree)]
    means, variance = network_moments(graph, variance_trees, rows.inputs, rows.leaves)
    if len(variance_trees) == 1:
        mean, scale = means.squeeze(1), graph.op("Sqrt", variance).squeeze(1)
    elif model.calibration is None:
        return mixture_outputs(graph, model, means, variance, levels)
    else:
        mean, scale = mixture_moments(graph, means, variance)
    return location_scale_outputs(graph, model, mean, scale, leaf, levels)


def quantile_functions(
    graph: Graph, model: FittedModel, inputs: Tensor, leaves: Tensor, found: MeasuredSupport | None
) -> Tensor:
    """Quantile functions of models of experts, shape (n, J), before calibration.

    If support was found, rows are widened where they lack it; the inputs and leaves are then those of n + m rows.
    """
    experts = [member for member in model.members if isinstance(member, ExpertTree)]
    quantiles = expert_functions(graph, experts, inputs, leaves)
    if isinstance(model.trees, TreeEnsemble):
        quantiles = combined_quantiles(graph, model.trees, quantiles, first_member(leaves))
    else:
        quantiles = quantiles.squeeze(1)
    return widened_quantiles(graph, model.support, found, quantiles) if found else quantiles


def first_member(leaves: Tensor) -> Tensor:
    """Leaves in the tree of the first member, shape (n,)."""
    return leaves.graph.gather(leaves, 0, axis=1)


def _check_size(members: Sequence[TreeModel]) -> None:
    networks = [params for member in members for params in all_networks(member)]
    size = sum(np.asarray(array).nbytes for net in networks for layer in net for array in layer)
    if size > MAX_WEIGHTS:
        raise ValueError(f"an ONNX file must be smaller than 2 GB, but the networks have {size / 1e9:.1f} GB")


def _add_metadata(proto: "ModelProto", model: "TreeRegressor", levels: NDArray[np.float64]) -> None:
    """Add producer, documentation and metadata to the ONNX model."""
    from onnx import helper

    proto.producer_name, proto.producer_version = "usnrt", __version__
    proto.doc_string = (
        f"A {type(model).__name__} of usnrt. Inputs are the columns of a table; outputs are mean, std, region (its id, "
        "as from apply), quantiles and supported (whether a row resembles the training rows). The documentation of "
        "each input describes the encoding of missing values."
    )
    encoder = model.encoder_
    metadata = {
        "levels": levels.tolist(),
        "features": encoder.source_names_,
        "types": encoder.source_types_,
        "inputs": input_names(encoder),
    }
    helper.set_model_props(proto, {name: json.dumps(value) for name, value in metadata.items()})
