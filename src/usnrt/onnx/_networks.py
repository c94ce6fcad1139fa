"""The third step of the graph: evaluation of the networks of the rows' leaves.

A loop iterates over the leaves that contain rows, and evaluates the networks of a leaf for all of its rows at once. A
single row then needs one iteration with the weights of one leaf, and many rows need few large products.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.encoding import INPUT_LIMIT, PiecewiseLinear
from usnrt.nn.mlp import LOG_LIMIT, MIN_VARIANCE, MLP, Params
from usnrt.nn.quantiles import MEDIAN, POSITIONS, SCALE_LIMIT, STRETCH_LIMIT, quantile_function_mean
from usnrt.onnx._columns import EncodedColumns
from usnrt.onnx._graph import Graph, Value, ints
from usnrt.tables.inputs import MAX_SCALED, NetworkInputs
from usnrt.tree.model import ExpertTree, TreeModel, VarianceTree

# Weights of the quantiles in the mean of a quantile function.
MEAN_WEIGHTS: NDArray[np.float64] = quantile_function_mean(np.eye(len(POSITIONS)))
# Weights of the quantiles in the half width: half the distance between the quantiles at -1 and 1.
HALF_WIDTH: NDArray[np.float64] = np.isclose(POSITIONS, 1.0) / 2.0 - np.isclose(POSITIONS, -1.0) / 2.0


def network_inputs(graph: Graph, columns: EncodedColumns, inputs: NetworkInputs) -> str:
    """Scaled numbers, missing-value indicators and one-hot categories; name, shape (n, p), float32."""
    parts: list[str] = []
    sources: list[int] = []  # position of the encoded column of each column of the parts
    if columns.positions:
        where = columns.positions
        numbers = _ranked(graph, columns.numbers, [inputs.knots_[position] for position in where])
        centred = graph.op("Sub", numbers, inputs.mean_[where])
        scaled = graph.op("Mul", centred, inputs.factor_[where])
        bounded = graph.op("Clip", scaled, np.float64(-MAX_SCALED), np.float64(MAX_SCALED))
        filled = graph.op("Where", graph.op("IsNaN", bounded), np.float64(0), bounded)
        parts.append(graph.cast(filled, np.float32))
        sources += where
        with_indicator = [j for j, position in enumerate(where) if inputs.indicator_[position]]
        if with_indicator:
            missing = graph.op("IsNaN", graph.op("Gather", columns.numbers, ints(*with_indicator), axis=1))
            parts.append(graph.cast(missing, np.float32))
            sources += [where[j] for j in with_indicator]
    for position, index in columns.categories.items():
        table = _one_hot(inputs.level_[position], inputs.indicator_[position])
        parts.append(graph.op("Gather", table, index, axis=0))
        sources += [position] * table.shape[1]
    matrix = parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=1)
    # A stable sort keeps a number before its indicator, as in the network inputs.
    order = np.argsort(sources, kind="stable")
    return matrix if (order == np.arange(len(order))).all() else graph.op("Gather", matrix, order, axis=1)


def _ranked(graph: Graph, numbers: str, knots: Sequence[NDArray[np.float64]]) -> str:
    """Numbers, shape (n, k), of which those with knots become ranks, see `NetworkInputs`; name, shape (n, k)."""
    skewed = [j for j, own in enumerate(knots) if len(own)]
    if not skewed:
        return numbers
    width = max(len(knots[j]) for j in skewed) - 1  # segments; unused ones begin at infinity
    value, rank, slope = np.full((len(skewed), width), np.inf), *np.zeros((2, len(skewed), width))
    for line, j in enumerate(skewed):
        n = len(knots[j]) - 1
        value[line, :n], rank[line, :n] = knots[j][:-1].T
        slope[line, :n] = np.diff(knots[j][:, 1]) / np.diff(knots[j][:, 0])
    own = graph.op("Gather", numbers, ints(*skewed), axis=1)
    is_above = graph.op("GreaterOrEqual", graph.op("Unsqueeze", own, ints(2)), value[:, 1:])
    at = graph.op("ReduceSum", graph.cast(is_above, np.int64), ints(2), keepdims=0)
    at = graph.op("Add", at, width * np.arange(len(skewed)))
    of_segment = [graph.op("Gather", part.ravel(), at, axis=0) for part in (value, rank, slope)]
    ranked = graph.op("Add", of_segment[1], graph.op("Mul", graph.op("Sub", own, of_segment[0]), of_segment[2]))
    everything = graph.op("Concat", numbers, ranked, axis=1)
    order = np.arange(len(knots))
    order[skewed] = len(knots) + np.arange(len(skewed))
    return graph.op("Gather", everything, order, axis=1)


def _one_hot(level: NDArray[np.int64], indicator: bool) -> NDArray[np.float32]:
    """Network inputs by category index, shape (K + 2, n_levels + indicator)."""
    n, width = len(level), int(level.max()) + 1
    table = np.zeros((n + 2, width + indicator), dtype=np.float32)
    table[np.arange(n), level] = 1.0
    table[n + 1, width:] = 1.0
    return table


def network_moments(graph: Graph, members: Sequence[VarianceTree], inputs: str, leaves: str) -> tuple[str, str]:
    """Means and variances of each member, in units of the scaled target.

    Parameters
    ----------
    members : sequence of VarianceTree
        All of one architecture.
    inputs : str
        Name of the network inputs, shape (n, p), float32.
    leaves : str
        Name of the leaves, shape (n, n_members), int64.

    Returns
    -------
    mean, variance : str
        Names, shape (n, n_members), float64.
    """
    n_members, first = len(members), members[0]
    first_leaf = np.cumsum([0] + [member.tree.n_leaves for member in members])
    # Leaves are numbered consecutively over all members; a query is a pair of a row and a member.
    leaf = graph.op("Reshape", graph.op("Add", leaves, first_leaf[:-1]), ints(-1))
    mean_params = [[params] for member in members for params in member.mean_params]
    variance_params = [[params] for member in members for params in member.variance_params]

    def evaluate(body: Graph, this: str, queries: str) -> str:
        rows = queries if n_members == 1 else body.op("Div", queries, np.int64(n_members))
        x = piecewise_linear(body, first.encoding, body.op("Gather", inputs, rows, axis=0))
        networks = (first.mean_network, mean_params), (first.variance_network, variance_params)
        values = [body.op("Squeeze", _forward(body, *network, x, this), ints(0)) for network in networks]
        return body.op("Concat", *values, axis=1)

    result = _by_group(graph, "leaf", leaf, 2, evaluate)
    mean, variance = graph.ops("Split", 2, graph.cast(result, np.float64), ints(1, 1), axis=1)
    return graph.op("Reshape", mean, ints(-1, n_members)), graph.op("Reshape", variance, ints(-1, n_members))


def grouped_networks(graph: Graph, name: str, member: ExpertTree, x: str, group: str) -> str:
    """Outputs of the network of each row.

    Parameters
    ----------
    name : str
        Of the loop over networks; distinct from that of other loops in the graph.
    x : str
        Name of the inputs, with guides if there is a memory, shape (n, p), float32.
    group : str
        Name of the numbers of the networks, shape (n,), int64.

    Returns
    -------
    str
        Name, shape (n, n_outputs), float32.
    """
    params = [[own] for own in member.params]

    def outputs(body: Graph, this: Value, rows: str) -> str:
        encoded = piecewise_linear(body, member.encoding, rows)
        return body.op("Squeeze", _forward(body, member.network, params, encoded, this), ints(0))

    if len(params) == 1:
        return outputs(graph, np.int64(0), x)
    return _by_group(
        graph, name, group, member.network.sizes[-1],
        lambda body, this, rows: outputs(body, this, body.op("Gather", x, rows, axis=0)),
    )  # fmt: skip


def _by_group(graph: Graph, name: str, group: str, width: int, evaluate: Callable[[Graph, str, str], str]) -> str:
    """Values of rows, computed in a loop over the groups that have rows.

    Parameters
    ----------
    group : str
        Name, shape (n,), int64.
    evaluate : callable
        ``evaluate(body, group, rows)`` returns the values of the rows of one group, shape (n_rows, width), float32.

    Returns
    -------
    str
        Name, shape (n, width), float32.
    """
    used = graph.op("Unique", group, sorted=1)
    # In float32, the type of the outputs.
    zeros = graph.op("ConstantOfShape", graph.op("Concat", graph.op("Shape", group), ints(width), axis=0))
    body = graph.inner(name)
    iteration = body.input(f"{body.prefix}/iteration", np.int64, [])
    condition = body.input(f"{body.prefix}/condition", np.bool_, [])
    outputs = body.input(f"{body.prefix}/outputs", np.float32, ["queries", width])
    this = body.op("Gather", used, iteration, axis=0)
    rows = body.op("Squeeze", body.op("NonZero", body.op("Equal", group, this)), ints(0))
    of_group = evaluate(body, this, rows)
    body.output(f"{body.prefix}/condition out", condition, np.bool_, [])
    updated = body.op("ScatterND", outputs, body.op("Unsqueeze", rows, ints(1)), of_group)
    body.output(f"{body.prefix}/outputs out", updated, np.float32, ["queries", width])
    (result,) = graph.loop(graph.op("Size", used), body, zeros)
    return result


def all_networks(member: TreeModel) -> list[Params]:
    """Parameters of all networks of a tree."""
    if isinstance(member, ExpertTree):
        return list(member.params)
    assert isinstance(member, VarianceTree)
    return [*member.mean_params, *member.variance_params]


def to_quantiles(graph: Graph, outputs: str) -> str:
    """Quantile functions from outputs of quantile networks, shape (n, N_OUTPUTS), float64; name, shape (n, J)."""
    shift, *logs = graph.ops("Split", 3, outputs, ints(1, 1, len(POSITIONS) - 1), axis=1)
    limits = np.float64(SCALE_LIMIT), np.float64(STRETCH_LIMIT)
    bounded = [graph.op("Clip", name, -limit, limit) for name, limit in zip(logs, limits)]
    scale, stretches = (graph.op("Exp", name) for name in bounded)
    distances = graph.op("MatMul", stretches, _distances_from_median())
    return graph.op("Mul", graph.op("Add", shift, distances), scale)


def refined(graph: Graph, members: Sequence[ExpertTree], leaves: str, means: str, member_quantiles: str) -> str:
    """Refined quantile functions, see `usnrt.experts.refine`; name, shape (n, n_members, J)."""
    refinements = [member.refinement for member in members]
    first_leaf = np.cumsum([0, *(member.tree.n_leaves for member in members)])[:-1]
    index = graph.op("Add", leaves, first_leaf)
    spread_share, log_half_width, location_share = (
        graph.op("Gather", np.concatenate([getattr(refinement, name) for refinement in refinements]), index, axis=0)
        for name in ("spread_share", "log_half_width", "location_share")
    )
    width = graph.op("Max", weighted(graph, member_quantiles, HALF_WIDTH), np.float64(1e-30))
    to_typical = graph.op("Sub", log_half_width, graph.op("Log", width))
    stretch = graph.op("Exp", graph.op("Mul", spread_share, to_typical))
    median = graph.op("Gather", member_quantiles, ints(MEDIAN), axis=2)
    distance = graph.op("Sub", member_quantiles, median)
    stretched = graph.op("Add", median, graph.op("Mul", distance, graph.op("Unsqueeze", stretch, ints(2))))
    shift = graph.op("Mul", location_share, graph.op("Sub", means, weighted(graph, stretched, MEAN_WEIGHTS)))
    return graph.op("Add", stretched, graph.op("Unsqueeze", shift, ints(2)))


def weighted(graph: Graph, member_quantiles: str, weights: NDArray[np.float64]) -> str:
    """Weighted sum of the quantiles, shape (n, n_members, J), of each member; name, shape (n, n_members)."""
    # Not MatMul with a vector, nor -1 for the axis: onnxruntime fails at both if there are no rows.
    return graph.op("ReduceSum", graph.op("Mul", member_quantiles, weights), ints(2), keepdims=0)


def _distances_from_median() -> NDArray[np.float64]:
    """Matrix from the stretches of the segments to the distances of the quantiles from the median, shape (J - 1, J)."""
    segment, knot = np.arange(len(POSITIONS) - 1)[:, None], np.arange(len(POSITIONS))
    above, below = (segment >= MEDIAN) & (segment < knot), (knot <= segment) & (segment < MEDIAN)
    matrix: NDArray[np.float64] = np.diff(POSITIONS)[:, None] * (above.astype(np.float64) - below)
    return matrix


def piecewise_linear(graph: Graph, encoding: PiecewiseLinear | None, x: str) -> str:
    """Piecewise linear encoding of inputs, see `PiecewiseLinear`; without one, the inputs.

    Parameters
    ----------
    x : str
        Name, shape (n, n_inputs), float32.

    Returns
    -------
    str
        Name, shape (n, n_outputs), float32.
    """
    if encoding is None:
        return x
    is_all = len(encoding.kept) == encoding.n_inputs
    plain = x if is_all else graph.op("Gather", x, encoding.kept, axis=1)
    bounded = graph.op("Clip", plain, np.float32(-INPUT_LIMIT), np.float32(INPUT_LIMIT))
    n_bins = encoding.slope.size
    if n_bins == 0:
        return bounded
    numbers = graph.op("Unsqueeze", graph.op("Gather", x, encoding.columns, axis=1), ints(2))
    linear = graph.op("Add", graph.op("Mul", numbers, encoding.slope), encoding.offset)
    bins = graph.op("Clip", linear, np.float32(-0.5), np.float32(0.5))
    return graph.op("Concat", bounded, graph.op("Reshape", bins, ints(-1, n_bins)), axis=1)


def _forward(body: Graph, network: MLP, params: Sequence[Sequence[Params]], x: str, leaf: Value) -> str:
    """Outputs of the networks of one leaf; name, shape (n_networks, rows, n_outputs).

    ``params`` holds the parameters by leaf and network.
    """
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
    if activation != "algebraic":
        return body.op({"relu": "Relu", "tanh": "Tanh"}[activation], x)
    root = body.op("Sqrt", body.op("Add", body.op("Mul", x, x), np.float32(4)))
    share = body.op("Add", body.op("Div", x, root), np.float32(1))
    return body.op("Mul", body.op("Mul", x, np.float32(0.5)), share)
