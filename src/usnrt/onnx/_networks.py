"""The third step of the graph: the networks of the leaves that rows are in.

Only those leaves are asked that some row is in, one after the other in a loop, each with all of its rows at once. One
row costs one round with one leaf's weights, and many rows are large products.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.encode._inputs import MAX_SCALED, NetworkInputs
from usnrt.nn.encoding import FARTHEST
from usnrt.nn.mlp import LOG_LIMIT, MIN_VARIANCE, MLP
from usnrt.onnx._columns import EncodedColumns
from usnrt.onnx._graph import Graph, whole
from usnrt.tree.model import TreeModel


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


def moments(graph: Graph, members: Sequence[TreeModel], inputs: str, leaves: str) -> tuple[str, str]:
    """Mean and variance that each member states, in units of the scaled target.

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
    mean, variance : str
        Names, shape (n, n_members), float64.
    """
    n_members = len(members)
    first = np.cumsum([0] + [member.tree.n_leaves for member in members])
    # Leaves of all members are numbered through; a question is a row and a member.
    leaf = graph.op("Reshape", graph.op("Add", leaves, first[:-1]), whole(-1))
    asked = graph.op("Unique", leaf, sorted=1)
    nothing = graph.cast(graph.op("Mul", leaf, np.int64(0)), np.float64)
    body = Graph(f"{graph.prefix}/leaf")
    round_ = body.input(f"{body.prefix}/round", np.int64, [])
    go_on = body.input(f"{body.prefix}/condition", np.bool_, [])
    state = [body.input(f"{body.prefix}/{name}", np.float64, ["questions"]) for name in ("means", "variances")]

    this = body.op("Gather", asked, round_, axis=0)
    questions = body.op("Squeeze", body.op("NonZero", body.op("Equal", leaf, this)), whole(0))
    rows = questions if n_members == 1 else body.op("Div", questions, np.int64(n_members))
    x = _encoded(body, members, body.op("Gather", inputs, rows, axis=0), this, first)
    stacked_means = [[params] for member in members for params in member.mean_params]
    stacked_variances = [list(params) for member in members for params in zip(*member.variance_params)]
    mean = body.cast(_answer(body, members[0].mean_network, stacked_means, x, this), np.float64)
    variance = body.cast(_answer(body, members[0].variance_network, stacked_variances, x, this), np.float64)
    if len(stacked_variances[0]) > 1:  # their geometric mean
        variance = body.op("Exp", body.op("ReduceMean", body.op("Log", variance), axes=[0], keepdims=0))

    body.output(f"{body.prefix}/go on", go_on, np.bool_, [])
    for name, old, new in zip(("means", "variances"), state, (mean, variance)):
        known = body.op("ScatterElements", old, questions, body.op("Reshape", new, whole(-1)), axis=0)
        body.output(f"{body.prefix}/new {name}", known, np.float64, ["questions"])
    found = graph.loop(graph.op("Size", asked), body, nothing, nothing)
    mean, variance = (graph.op("Reshape", name, whole(-1, n_members)) for name in found)
    return mean, variance


def _encoded(body: Graph, members: Sequence[TreeModel], x: str, leaf: str, first: NDArray[np.int64]) -> str:
    """Numbers in bins beside the inputs themselves, with the bins of the leaf's member."""
    encoding = members[0].encoding
    if encoding is None:
        return x
    bounded = body.op("Clip", x, np.float32(-FARTHEST), np.float32(FARTHEST))
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
    """What the networks of one leaf say, shape (n_networks, rows, 1); ``params`` has theirs for each leaf."""
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
