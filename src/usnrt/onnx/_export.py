"""From a fitted model to an ONNX model: the steps one after the other, and what readers should know."""

import json
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from usnrt.distributions.base import check_levels
from usnrt.onnx._answers import curved, joined, joined_quantiles, located, mixed
from usnrt.onnx._columns import input_names, read_columns
from usnrt.onnx._graph import IR_VERSION, ML_DOMAIN, ML_OPSET, OPSET, Graph, whole
from usnrt.onnx._networks import answers, network_inputs, quantile_functions, variances
from usnrt.onnx._routing import find_leaves
from usnrt.onnx._support import (
    MeasuredSupport,
    first_rows,
    measure,
    widened_quantiles,
    widened_scale,
    widened_variances,
)
from usnrt.tree.model import TreeModel
from usnrt.utils.notices import ResultWarning
from usnrt.utils.whole_file import whole_file

if TYPE_CHECKING:
    from onnx import ModelProto

# Protocol buffers end at 2 GiB; the rest of a graph is far below 16 MiB.
MAX_WEIGHTS = 2**31 - 2**24


def to_onnx(model: Any, path: Any = None, *, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> "ModelProto":
    """Write a tree or an ensemble as one ONNX graph; see `USNRTRegressor.to_onnx`.

    Parameters
    ----------
    model : USNRTRegressor or USNRTEnsemble
        Fitted.
    path : path-like, optional
        The file to write, by custom ending in ``.onnx``; None for none.
    levels : sequence of k floats, default=(0.05, 0.5, 0.95)
        Of the quantiles, each in (0, 1).

    Returns
    -------
    onnx.ModelProto

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt import USNRTRegressor
    >>> from usnrt.onnx import to_onnx
    >>> X = np.random.default_rng(0).uniform(size=(60, 2))
    >>> model = USNRTRegressor(max_epochs=1, random_state=0).fit(X, X[:, 0])
    >>> [output.name for output in to_onnx(model).graph.output]
    ['mean', 'std', 'region', 'quantiles', 'supported']
    """
    try:
        from onnx import helper
    except ImportError as error:
        raise ImportError("to_onnx needs onnx: pip install 'usnrt[onnx]'") from error
    check_is_fitted(model)
    asked = np.atleast_1d(check_levels(levels, "levels"))
    if asked.size == 0:
        raise ValueError(f"levels must hold at least one level, got {levels!r}")
    members: list[TreeModel] = model.members_ if hasattr(model, "members_") else [model.model_]
    _check_size(members)
    if model.calibration_ is not None and model.calibration_.has_familiar:
        warnings.warn(
            "an ONNX graph does not recognise rows whose features training has seen; it treats them as new rows, for "
            "which this model predicts wider distributions",
            ResultWarning,
            stacklevel=3,
        )
    graph = _write(model, members, asked)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML_DOMAIN, ML_OPSET)]
    made = helper.make_model(graph.make(), opset_imports=opsets, ir_version=IR_VERSION)
    _describe(made, model, asked)
    if path is not None:
        with whole_file(path) as file:
            file.write(made.SerializeToString())
    return made


def _write(model: Any, members: list[TreeModel], levels: NDArray[np.float64]) -> Graph:
    """The whole graph, step by step."""
    graph = Graph("usnrt")
    columns = read_columns(graph, model.encoder_)
    trees, n_categories = [member.tree for member in members], model.encoder_.n_categories_
    leaf = first_leaf(graph, find_leaves(graph, columns, trees[:1], n_categories))
    found, widening, asked = None, None, columns
    if model.support_ is not None:
        found, clamped = measure(graph, model.support_, columns, n_categories, leaf)
        if model.support_.widens:
            widening, asked = found, clamped
    leaves = find_leaves(graph, asked, trees, n_categories)
    said = answers(graph, members, network_inputs(graph, asked, model.inputs_), leaves)
    mean, std, quantiles = _distribution(graph, model, members, said, leaves, widening, levels)
    node = graph.op("Gather", trees[0].leaves, leaf, axis=0)
    graph.output("mean", mean, np.float64, ["n"], "mean")
    graph.output("std", std, np.float64, ["n"], "standard deviation")
    graph.output("region", node, np.int64, ["n"], "id of the region, as from apply")
    about = f"quantiles at the levels {', '.join(f'{level:g}' for level in levels)}"
    graph.output("quantiles", quantiles, np.float64, ["n", len(levels)], about)
    if found is not None:
        graph.output("supported", found.supported, np.bool_, ["n"], "whether the row resembles the training rows")
    return graph


def _distribution(
    graph: Graph,
    model: Any,
    members: list[TreeModel],
    said: tuple[str, str],
    leaves: str,
    found: MeasuredSupport | None,
    levels: NDArray[np.float64],
) -> list[str]:
    """Names of mean, std and quantiles, by the kind of distribution that the library answers with."""
    alone, support = len(members) == 1, model.support_
    asked = first_leaf(graph, leaves)
    leaf = first_rows(graph, found, asked) if found else asked
    if members[0].predicts_quantiles:
        each = quantile_functions(graph, members, leaves, *said)
        mean, quantiles = _only(graph, *each) if alone else joined_quantiles(graph, model, *each, asked)
        if found:
            mean, quantiles = widened_quantiles(graph, support, found, mean, quantiles)
        return curved(graph, model, mean, quantiles, leaf, levels)
    means, stated = said[0], variances(graph, members, said[1])
    if not alone and model.calibration_ is None:
        if found:
            means, stated = widened_variances(graph, support, found, means, stated)
        return mixed(graph, model, means, stated, levels)
    mean, scale = _only(graph, means, graph.op("Sqrt", stated)) if alone else joined(graph, model, means, stated, asked)
    if found:
        mean, scale = widened_scale(graph, support, found, mean, scale)
    return located(graph, model, mean, scale, leaf, levels)


def first_leaf(graph: Graph, leaves: str) -> str:
    """Leaf in the tree of the first member, whose regions are the model's; name, shape (n,)."""
    return graph.op("Gather", leaves, np.int64(0), axis=1)


def _only(graph: Graph, first: str, second: str) -> tuple[str, str]:
    """Answers of the only member."""
    return graph.op("Squeeze", first, whole(1)), graph.op("Squeeze", second, whole(1))


def _check_size(members: list[TreeModel]) -> None:
    networks = [m.mean_params for m in members] + [params for m in members for params in m.variance_params]
    size = sum(np.asarray(array).nbytes for leaves in networks for net in leaves for layer in net for array in layer)
    if size > MAX_WEIGHTS:
        raise ValueError(f"an ONNX file must be smaller than 2 GB, but the networks have {size / 1e9:.1f} GB")


def _describe(made: Any, model: Any, levels: NDArray[np.float64]) -> None:
    """What a reader of the file should know, in the places that ONNX has for it."""
    from onnx import helper

    from usnrt import __version__

    made.producer_name, made.producer_version = "usnrt", __version__
    made.doc_string = (
        f"A {type(model).__name__} of usnrt: rows of a table as they are go in, mean, std, region (its id, "
        "as from apply), quantiles and supported (whether a row resembles the training rows) come out. Every input "
        "says how a missing value is written."
    )
    encoder = model.encoder_
    facts = {
        "levels": levels.tolist(),
        "features": encoder.source_names_,
        "types": encoder.source_types_,
        "inputs": input_names(encoder),
    }
    helper.set_model_props(made, {name: json.dumps(value) for name, value in facts.items()})
