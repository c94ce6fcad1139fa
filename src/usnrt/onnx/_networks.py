"""The third step of the graph: the networks of the leaves that rows are in.

Only those leaves are asked that some row is in, one after the other in a loop, each with all of its rows at once. One
row costs one round with one leaf's weights, and many rows are large products.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.encoding import INPUT_LIMIT
from usnrt.nn.mlp import LOG_LIMIT, MIN_VARIANCE, MLP
from usnrt.nn.quantiles import MEDIAN, POSITIONS, SCALE_LIMIT, STRETCH_LIMIT, quantile_function_mean
from usnrt.onnx._columns import EncodedColumns
from usnrt.onnx._graph import Graph, whole
from usnrt.tables.inputs import MAX_SCALED, NetworkInputs
from usnrt.tree.model import TreeModel

# What each quantile counts in the mean of a quantiles.
MEAN_WEIGHTS: NDArray[np.float64] = quantile_function_mean(np.eye(len(POSITIONS)))
# ... and half of the distance between the quantiles one standard deviation either way.
HALF_WIDTH: NDArray[np.float64] = np.isclose(POSITIONS, 1.0) / 2.0 - np.isclose(POSITIONS, -1.0) / 2.0


def network_inputs(graph: Graph, columns: EncodedColumns, inputs: NetworkInputs) -> str:
    """Scaled numbers, marks of missing ones and one-hot categories; returns the name, shape (n, p), float32."""
    parts: list[str] = []
    sources: list[int] = []  # the encoded column that each column of the parts comes from
    if columns.positions:
        where = columns.positions
        centred = graph.op("Sub", columns.numbers, inputs.mean_[where])
        scaled = graph.op("Mul", centred, inputs.factor_[where])
        bounded = graph.op("Clip", scaled, np.float64(-MAX_SCALED), np.float64(MAX_SCALED))
        filled = graph.op("Where", graph.op("IsNaN", bounded), np.float64(0), bounded)
        parts.append(graph.cast(filled, np.float32))
        sources += where
        marked = [place for place, position in enumerate(where) if inputs.indicator_[position]]
        if marked:
            missing = graph.op("IsNaN", graph.op("Gather", columns.numbers, whole(*marked), axis=1))
            parts.append(graph.cast(missing, np.float32))
            sources += [where[place] for place in marked]
    for position, places in columns.places.items():
        table = _one_hot(inputs.level_[position], inputs.indicator_[position])
        parts.append(graph.op("Gather", table, places, axis=0))
        sources += [position] * table.shape[1]
    beside = parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=1)
    # Stable: a number stands before its mark among our parts as in the networks' inputs.
    order = np.argsort(sources, kind="stable")
    return beside if (order == np.arange(len(order))).all() else graph.op("Gather", beside, order, axis=1)


def _one_hot(level: NDArray[np.int64], marked: bool) -> NDArray[np.float32]:
    """What networks see of each place of a category, shape (K + 2, n_levels + marked)."""
    n, width = len(level), int(level.max()) + 1
    table = np.zeros((n + 2, width + marked), dtype=np.float32)
    table[np.arange(n), level] = 1.0
    table[n + 1, width:] = 1.0
    return table


def answers(graph: Graph, members: Sequence[TreeModel], inputs: str, leaves: str) -> tuple[str, str]:
    """What the networks of each member say, in units of the scaled target.

    Parameters
    ----------
    graph : Graph
    members : sequence of TreeModel
        All of one architecture.
    inputs : str
        Name of the network inputs, shape (n, p), float32.
    leaves : str
        Name of the leaves, shape (n, n_members), int64.

    Returns
    -------
    first : str
        Name of the mean networks' answers, shape (n, n_members), float64.
    second : str
        Name of the outputs of the second networks, shape (n * n_members * n_networks, n_outputs), float64.
    """
    n_members = len(members)
    mean_network, second_network = members[0].mean_network, members[0].variance_network
    n_networks, n_outputs = len(members[0].variance_params), second_network.sizes[-1]
    width = 1 + n_networks * n_outputs
    first_leaf = np.cumsum([0] + [member.tree.n_leaves for member in members])
    # Leaves of all members are numbered through; a question is a row and a member.
    leaf = graph.op("Reshape", graph.op("Add", leaves, first_leaf[:-1]), whole(-1))
    asked = graph.op("Unique", leaf, sorted=1)
    # Zeros in float32, which the answers are: half the memory, and nothing is lost.
    nothing = graph.op("ConstantOfShape", graph.op("Concat", graph.op("Shape", leaf), whole(width), axis=0))
    body = Graph(f"{graph.prefix}/leaf")
    round_ = body.input(f"{body.prefix}/round", np.int64, [])
    go_on = body.input(f"{body.prefix}/condition", np.bool_, [])
    known = body.input(f"{body.prefix}/known", np.float32, ["questions", width])

    this = body.op("Gather", asked, round_, axis=0)
    questions = body.op("Squeeze", body.op("NonZero", body.op("Equal", leaf, this)), whole(0))
    rows = questions if n_members == 1 else body.op("Div", questions, np.int64(n_members))
    x = _encoded(body, members, body.op("Gather", inputs, rows, axis=0), this, first_leaf)
    stacked_firsts = [[params] for member in members for params in member.mean_params]
    stacked_seconds = [list(params) for member in members for params in zip(*member.variance_params)]
    mean = body.op("Squeeze", _answer(body, mean_network, stacked_firsts, x, this), whole(0))
    second = _answer(body, second_network, stacked_seconds, x, this)
    if n_networks > 1:
        second = body.op("Transpose", second, perm=[1, 0, 2])
    both = body.op("Concat", mean, body.op("Reshape", second, whole(-1, width - 1)), axis=1)
    body.output(f"{body.prefix}/go on", go_on, np.bool_, [])
    more = body.op("ScatterND", known, body.op("Unsqueeze", questions, whole(1)), both)
    body.output(f"{body.prefix}/more known", more, np.float32, ["questions", width])

    (found,) = graph.loop(graph.op("Size", asked), body, nothing)
    said = graph.ops("Split", 2, graph.cast(found, np.float64), whole(1, width - 1), axis=1)
    shapes = whole(-1, n_members), whole(-1, n_outputs)
    first, second = (graph.op("Reshape", name, shape) for name, shape in zip(said, shapes))
    return first, second


def variances(graph: Graph, members: Sequence[TreeModel], second: str) -> str:
    """The geometric mean of the variances that the second networks state; name, shape (n, n_members)."""
    n_networks = len(members[0].variance_params)
    if n_networks == 1:
        return graph.op("Reshape", second, whole(-1, len(members)))
    logs = graph.op("Reshape", graph.op("Log", second), whole(-1, len(members), n_networks))
    return graph.op("Exp", graph.op("ReduceMean", logs, axes=[2], keepdims=0))


def quantile_functions(
    graph: Graph, members: Sequence[TreeModel], leaves: str, first: str, second: str
) -> tuple[str, str]:
    """Means and quantiles of networks that say quantiles, see `usnrt.nn.quantiles.quantiles`.

    Parameters
    ----------
    graph : Graph
    members : sequence of TreeModel
    leaves : str
        Name, shape (n, n_members).
    first, second : str
        What the networks say, from `answers`.

    Returns
    -------
    means, member_quantiles : str
        Names, shapes (n, n_members) and (n, n_members, J), where J is the number of positions.
    """
    outputs = graph.ops("Split", 3, second, whole(1, 1, len(POSITIONS) - 1), axis=1)
    limits = np.float64(SCALE_LIMIT), np.float64(STRETCH_LIMIT)
    bounded = [graph.op("Clip", name, -limit, limit) for name, limit in zip(outputs[1:], limits)]
    scale, stretches = (graph.op("Exp", name) for name in bounded)
    ways = graph.op("MatMul", stretches, _ways_from_median())
    each = graph.op("Mul", graph.op("Add", outputs[0], ways), scale)
    n_networks = len(members[0].variance_params)
    if n_networks == 1:
        joint = graph.op("Reshape", each, whole(-1, len(members), len(POSITIONS)))
    else:
        each = graph.op("Reshape", each, whole(-1, len(members), n_networks, len(POSITIONS)))
        joint = graph.op("ReduceMean", each, axes=[2], keepdims=0)
    blend = np.array([member.blend for member in members])
    if blend.any():
        others = graph.op("Mul", weighted(graph, joint, MEAN_WEIGHTS), blend)
        first = graph.op("Add", graph.op("Mul", first, 1.0 - blend), others)
    return first, _refined(graph, members, leaves, first, joint)


def _refined(graph: Graph, members: Sequence[TreeModel], leaves: str, means: str, joint: str) -> str:
    """Refined quantile functions, see `usnrt.tree.refine`; name, shape (n, n_members, J)."""
    refinements = [member.refinement for member in members]
    if any(refinement is None for refinement in refinements):  # files of format 1
        return joint
    first_leaf = np.cumsum([0, *(member.tree.n_leaves for member in members)])[:-1]
    place = graph.op("Add", leaves, first_leaf)
    spread_share, log_half_width, location_share = (
        graph.op("Gather", np.concatenate([getattr(refinement, name) for refinement in refinements]), place, axis=0)
        for name in ("spread_share", "log_half_width", "location_share")
    )
    width = graph.op("Max", weighted(graph, joint, HALF_WIDTH), np.float64(1e-30))
    to_typical = graph.op("Sub", log_half_width, graph.op("Log", width))
    stretch = graph.op("Exp", graph.op("Mul", spread_share, to_typical))
    median = graph.op("Gather", joint, whole(MEDIAN), axis=2)
    off = graph.op("Mul", graph.op("Sub", joint, median), graph.op("Unsqueeze", stretch, whole(2)))
    stretched = graph.op("Add", median, off)
    shift = graph.op("Mul", location_share, graph.op("Sub", means, weighted(graph, stretched, MEAN_WEIGHTS)))
    return graph.op("Add", stretched, graph.op("Unsqueeze", shift, whole(2)))


def weighted(graph: Graph, member_quantiles: str, weights: NDArray[np.float64]) -> str:
    """Sums of the quantiles of each quantiles, shape (n, n_members, J), times weights; name, shape (n, n_members)."""
    # Not MatMul with a vector, nor -1 for the axis: onnxruntime fails at both when there is no row at all.
    return graph.op("ReduceSum", graph.op("Mul", member_quantiles, weights), whole(2), keepdims=0)


def _ways_from_median() -> NDArray[np.float64]:
    """What turns stretches of the pieces into ways from the median to all quantiles, shape (J - 1, J)."""
    piece, knot = np.arange(len(POSITIONS) - 1)[:, None], np.arange(len(POSITIONS))
    above, below = (piece >= MEDIAN) & (piece < knot), (knot <= piece) & (piece < MEDIAN)
    ways: NDArray[np.float64] = np.diff(POSITIONS)[:, None] * (above.astype(np.float64) - below)
    return ways


def _encoded(body: Graph, members: Sequence[TreeModel], x: str, leaf: str, first: NDArray[np.int64]) -> str:
    """Numbers in bins beside the inputs themselves, with the bins of the leaf's member."""
    encoding = members[0].encoding
    if encoding is None:
        return x
    bounded = body.op("Clip", x, np.float32(-INPUT_LIMIT), np.float32(INPUT_LIMIT))
    n_bins = encoding.slope.size
    if n_bins == 0:
        return bounded
    lines: list[Any] = [np.stack([getattr(m.encoding, name) for m in members]) for name in ("slope", "offset")]
    if len(members) == 1:
        slope, offset = (stack[0] for stack in lines)
    else:
        member = body.op("Gather", np.repeat(np.arange(len(members)), np.diff(first)), leaf, axis=0)
        slope, offset = (body.op("Gather", stack, member, axis=0) for stack in lines)
    numbers = body.op("Unsqueeze", body.op("Gather", x, encoding.columns, axis=1), whole(2))
    way = body.op("Add", body.op("Mul", numbers, slope), offset)
    bins = body.op("Clip", way, np.float32(-0.5), np.float32(0.5))
    return body.op("Concat", bounded, body.op("Reshape", bins, whole(-1, n_bins)), axis=1)


def _answer(body: Graph, network: MLP, params: Sequence[Sequence[Any]], x: str, leaf: str) -> str:
    """What the networks of one leaf say, shape (n_networks, rows, n_outputs); ``params`` has theirs for each leaf."""
    n_layers = len(network.sizes) - 1
    for layer in range(n_layers):
        weights = np.stack([[np.asarray(one[layer][0]) for one in networks] for networks in params])
        biases = np.stack([[np.asarray(one[layer][1])[None] for one in networks] for networks in params])
        product = body.op("MatMul", x, body.op("Gather", weights, leaf, axis=0))
        x = body.op("Add", product, body.op("Gather", biases, leaf, axis=0))
        if layer < n_layers - 1:
            x = _activated(body, network.activation, x)
    if network.output == "linear":
        return x
    if network.output == "softplus":
        positive = body.op("Softplus", x)
    else:
        positive = body.op("Exp", body.op("Clip", x, np.float32(-LOG_LIMIT), np.float32(LOG_LIMIT)))
    return body.op("Add", positive, np.float32(MIN_VARIANCE))


def _activated(body: Graph, activation: str, x: str) -> str:
    if activation == "silu":
        return body.op("Mul", x, body.op("Sigmoid", x))
    return body.op({"relu": "Relu", "tanh": "Tanh"}[activation], x)
