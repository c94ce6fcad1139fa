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
from usnrt.onnx._graph import Graph, Shape, Tensor, Value, ints
from usnrt.tables.inputs import MAX_SCALED, NetworkInputs
from usnrt.tree.model import ExpertTree, TreeModel, VarianceTree

# Weights of the quantiles in the mean of a quantile function.
MEAN_WEIGHTS: NDArray[np.float64] = quantile_function_mean(np.eye(len(POSITIONS)))
# Weights of the quantiles in the half width: half the distance between the quantiles at -1 and 1.
HALF_WIDTH: NDArray[np.float64] = np.isclose(POSITIONS, 1.0) / 2.0 - np.isclose(POSITIONS, -1.0) / 2.0


def network_inputs(graph: Graph, columns: EncodedColumns, inputs: NetworkInputs) -> Tensor:
    """Scaled numbers, missing-value indicators and one-hot categories; shape (n, p), float32."""
    parts: list[Tensor] = []
    sources: list[int] = []  # position of the encoded column of each column of the parts
    if columns.numbers is not None:
        where = columns.positions
        numbers = _ranked(graph, columns.numbers, [inputs.knots_[position] for position in where])
        scaled = (numbers - inputs.mean_[where]) * inputs.factor_[where]
        bounded = graph.op("Clip", scaled, float(-MAX_SCALED), float(MAX_SCALED))
        parts.append(graph.op("Where", graph.op("IsNaN", bounded), 0.0, bounded).cast(np.float32))
        sources += where
        with_indicator = [j for j, position in enumerate(where) if inputs.indicator_[position]]
        if with_indicator:
            missing = graph.op("IsNaN", graph.gather(columns.numbers, ints(*with_indicator), axis=1))
            parts.append(missing.cast(np.float32))
            sources += [where[j] for j in with_indicator]
    for position, index in columns.categories.items():
        table = _one_hot(inputs.level_[position], inputs.indicator_[position])
        parts.append(graph.gather(table, index))
        sources += [position] * table.shape[1]
    matrix = graph.concat(parts, axis=1)
    # A stable sort keeps a number before its indicator, as in the network inputs.
    order = np.argsort(sources, kind="stable")
    return matrix if (order == np.arange(len(order))).all() else graph.gather(matrix, order, axis=1)


def _ranked(graph: Graph, numbers: Tensor, knots: Sequence[NDArray[np.float64]]) -> Tensor:
    """Numbers, shape (n, k), of which those with knots become ranks, see `NetworkInputs`."""
    skewed = [j for j, own in enumerate(knots) if len(own)]
    if not skewed:
        return numbers
    width = max(len(knots[j]) for j in skewed) - 1  # segments; unused ones begin at infinity
    value, rank, slope = np.full((len(skewed), width), np.inf), *np.zeros((2, len(skewed), width))
    for line, j in enumerate(skewed):
        n = len(knots[j]) - 1
        value[line, :n], rank[line, :n] = knots[j][:-1].T
        slope[line, :n] = np.diff(knots[j][:, 1]) / np.diff(knots[j][:, 0])
    own = graph.gather(numbers, ints(*skewed), axis=1)
    at = (own.unsqueeze(2) >= value[:, 1:]).cast(np.int64).sum(2) + width * np.arange(len(skewed))
    start, start_rank, own_slope = (graph.gather(part.ravel(), at) for part in (value, rank, slope))
    everything = graph.concat([numbers, start_rank + (own - start) * own_slope], axis=1)
    order = np.arange(len(knots))
    order[skewed] = len(knots) + np.arange(len(skewed))
    return graph.gather(everything, order, axis=1)


def _one_hot(level: NDArray[np.int64], indicator: bool) -> NDArray[np.float32]:
    """Network inputs by category index, shape (K + 2, n_levels + indicator)."""
    n, width = len(level), int(level.max()) + 1
    table = np.zeros((n + 2, width + indicator), dtype=np.float32)
    table[np.arange(n), level] = 1.0
    table[n + 1, width:] = 1.0
    return table


def network_moments(
    graph: Graph, members: Sequence[VarianceTree], inputs: Tensor, leaves: Tensor
) -> tuple[Tensor, Tensor]:
    """Means and variances of M members of one architecture, shape (n, M), float64, in units of the scaled target."""
    n_members, first = len(members), members[0]
    first_leaf = np.cumsum([0] + [member.tree.n_leaves for member in members])
    # Leaves are numbered consecutively over all members; a query is a pair of a row and a member.
    leaf = graph.op("Reshape", leaves + first_leaf[:-1], ints(-1))
    mean_params = [[params] for member in members for params in member.mean_params]
    variance_params = [[params] for member in members for params in member.variance_params]

    def evaluate(body: Graph, this: Tensor, queries: Tensor) -> Tensor:
        rows = queries if n_members == 1 else queries / n_members
        x = piecewise_linear(body, first.encoding, body.gather(inputs, rows))
        networks = (first.mean_network, mean_params), (first.variance_network, variance_params)
        return body.concat([_forward(body, *network, x, this).squeeze(0) for network in networks], axis=1)

    result = _by_group(graph, "leaf", leaf, 2, evaluate).cast(np.float64)
    mean, variance = graph.ops("Split", 2, result, ints(1, 1), axis=1)
    return graph.op("Reshape", mean, ints(-1, n_members)), graph.op("Reshape", variance, ints(-1, n_members))


def grouped_networks(graph: Graph, name: str, member: ExpertTree, x: Tensor, group: Tensor) -> Tensor:
    """Outputs of the network of each row, shape (n, n_outputs), float32.

    ``name`` is that of the loop over networks, ``group`` the number of the network of each row; the inputs ``x`` are
    with guides if there is a memory.
    """
    params = [[own] for own in member.params]

    def outputs(body: Graph, this: Value, rows: Tensor) -> Tensor:
        return _forward(body, member.network, params, piecewise_linear(body, member.encoding, rows), this).squeeze(0)

    if len(params) == 1:
        return outputs(graph, 0, x)
    width = member.network.sizes[-1]
    return _by_group(graph, name, group, width, lambda body, this, rows: outputs(body, this, body.gather(x, rows)))


def _by_group(
    graph: Graph, name: str, group: Tensor, width: int, evaluate: Callable[[Graph, Tensor, Tensor], Tensor]
) -> Tensor:
    """Values of rows, shape (n, width), float32, computed in a loop over the groups that have rows.

    ``evaluate(body, group, rows)`` returns the values of the rows of one group, shape (n_rows, width).
    """
    used = graph.op("Unique", group, sorted=1)
    # In float32, the type of the outputs.
    zeros = graph.op("ConstantOfShape", graph.op("Concat", graph.op("Shape", group), ints(width), axis=0))

    def fill_in(body: Graph, iteration: Tensor, outputs: Tensor) -> list[Tensor]:
        this = body.gather(used, iteration)
        rows = body.op("NonZero", body.op("Equal", group, this)).squeeze(0)
        of_group = evaluate(body, this, rows)
        return [body.op("ScatterND", outputs, rows.unsqueeze(1), of_group)]

    shape: Shape = ["queries", width]
    return graph.loop(name, graph.op("Size", used), fill_in, {"outputs": (zeros, np.float32, shape)})[0]


def all_networks(member: TreeModel) -> list[Params]:
    """Parameters of all networks of a tree."""
    if isinstance(member, ExpertTree):
        return list(member.params)
    assert isinstance(member, VarianceTree)
    return [*member.mean_params, *member.variance_params]


def to_quantiles(graph: Graph, outputs: Tensor) -> Tensor:
    """Quantile functions (n, J) from outputs of quantile networks, shape (n, N_OUTPUTS), float64."""
    shift, *logs = graph.ops("Split", 3, outputs, ints(1, 1, len(POSITIONS) - 1), axis=1)
    limits = float(SCALE_LIMIT), float(STRETCH_LIMIT)
    bounded = [graph.op("Clip", log, -limit, limit) for log, limit in zip(logs, limits)]
    scale, stretches = (graph.op("Exp", log) for log in bounded)
    return (shift + stretches @ _distances_from_median()) * scale


def refined(
    graph: Graph, members: Sequence[ExpertTree], leaves: Tensor, means: Tensor, member_quantiles: Tensor
) -> Tensor:
    """Refined quantile functions, see `usnrt.experts.refine`; shape (n, n_members, J)."""
    refinements = [member.refinement for member in members]
    first_leaf = np.cumsum([0, *(member.tree.n_leaves for member in members)])[:-1]
    index = leaves + first_leaf
    spread_share, log_half_width, location_share = (
        graph.gather(np.concatenate([getattr(refinement, name) for refinement in refinements]), index)
        for name in ("spread_share", "log_half_width", "location_share")
    )
    width = graph.op("Max", weighted(member_quantiles, HALF_WIDTH), 1e-30)
    stretch = graph.op("Exp", spread_share * (log_half_width - graph.op("Log", width)))
    median = graph.gather(member_quantiles, ints(MEDIAN), axis=2)
    stretched = median + (member_quantiles - median) * stretch.unsqueeze(2)
    shift = location_share * (means - weighted(stretched, MEAN_WEIGHTS))
    low, high = (np.array([[float(getattr(own, end))] for own in refinements]) for end in ("low", "high"))
    return graph.op("Min", graph.op("Max", stretched + shift.unsqueeze(2), low), high)


def weighted(member_quantiles: Tensor, weights: NDArray[np.float64]) -> Tensor:
    """Weighted sum of the quantiles, shape (n, n_members, J), of each member; shape (n, n_members)."""
    # Not MatMul with a vector, nor -1 for the axis: onnxruntime fails at both if there are no rows.
    return (member_quantiles * weights).sum(2)


def _distances_from_median() -> NDArray[np.float64]:
    """Matrix from the stretches of the segments to the distances of the quantiles from the median, shape (J - 1, J)."""
    segment, knot = np.arange(len(POSITIONS) - 1)[:, None], np.arange(len(POSITIONS))
    above, below = (segment >= MEDIAN) & (segment < knot), (knot <= segment) & (segment < MEDIAN)
    matrix: NDArray[np.float64] = np.diff(POSITIONS)[:, None] * (above.astype(np.float64) - below)
    return matrix


def piecewise_linear(graph: Graph, encoding: PiecewiseLinear | None, x: Tensor) -> Tensor:
    """Piecewise linear encoding of inputs, float32, see `PiecewiseLinear`; without one, the inputs."""
    if encoding is None:
        return x
    is_all = len(encoding.kept) == encoding.n_inputs
    plain = x if is_all else graph.gather(x, encoding.kept, axis=1)
    bounded = graph.op("Clip", plain, np.float32(-INPUT_LIMIT), np.float32(INPUT_LIMIT))
    n_bins = encoding.slope.size
    if n_bins == 0:
        return bounded
    linear = graph.gather(x, encoding.columns, axis=1).unsqueeze(2) * encoding.slope + encoding.offset
    bins = graph.op("Clip", linear, np.float32(-0.5), np.float32(0.5))
    return graph.concat([bounded, graph.op("Reshape", bins, ints(-1, n_bins))], axis=1)


def _forward(body: Graph, network: MLP, params: Sequence[Sequence[Params]], x: Tensor, leaf: Value) -> Tensor:
    """Outputs of the networks of one leaf, shape (n_networks, rows, n_outputs); parameters are by leaf and network."""
    n_layers = len(network.sizes) - 1
    for layer in range(n_layers):
        weights = np.stack([[np.asarray(one[layer][0]) for one in networks] for networks in params])
        biases = np.stack([[np.asarray(one[layer][1])[None] for one in networks] for networks in params])
        x = x @ body.gather(weights, leaf) + body.gather(biases, leaf)
        if layer < n_layers - 1:
            x = _activated(body, network.activation, x)
    if network.output == "linear":
        return x
    if network.output == "softplus":
        positive = body.op("Softplus", x)
    else:
        positive = body.op("Exp", body.op("Clip", x, np.float32(-LOG_LIMIT), np.float32(LOG_LIMIT)))
    return positive + np.float32(MIN_VARIANCE)


def _activated(body: Graph, activation: str, x: Tensor) -> Tensor:
    if activation != "algebraic":
        return body.op({"relu": "Relu", "tanh": "Tanh"}[activation], x)
    root = body.op("Sqrt", x * x + np.float32(4))
    return x * np.float32(0.5) * (x / root + np.float32(1))
