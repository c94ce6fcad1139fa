"""Bounds, logarithms and point masses of the target in the graph; see `usnrt.distributions.TargetMap`."""

import numpy as np

from usnrt.distributions.target_map import TargetMap
from usnrt.distributions.transformed import NODE_LEVELS, NODE_WEIGHTS
from usnrt.onnx._graph import Graph, ints


def mapped_outputs(graph: Graph, target_map: TargetMap, nodes: str, quantiles: str) -> list[str]:
    """Mean, std and quantiles of the target, from quantiles on the model's scale.

    Mean and std are integrals of the quantile function over the nodes, also where the library has closed forms.

    Parameters
    ----------
    graph : Graph
    target_map : TargetMap
    nodes : str
        Quantiles at ``NODE_LEVELS``, shape (n, n_nodes).
    quantiles : str
        Quantiles at the levels of the graph, shape (n, k).

    Returns
    -------
    list of str
        Names of mean, std and quantiles, shapes (n,), (n,) and (n, k).
    """
    values = _unbounded(graph, target_map, nodes)
    inside = graph.op("Min", graph.op("Max", values, _number(target_map.low_end)), _number(target_map.high_end))
    centre = _expectation(graph, inside)
    deviation = graph.op("Sub", inside, centre)
    square = _expectation(graph, graph.op("Mul", deviation, deviation))
    offset = graph.op("Mul", centre, np.float64(0))
    low, high = (target_map.low, target_map.low_end), (target_map.high, target_map.high_end)
    for bound, end in (low, high):
        if bound != end:
            mass = _mass_below(graph, values, end)
            if bound > end:
                mass = graph.op("Sub", np.float64(1), mass)
            offset = graph.op("Add", offset, graph.op("Mul", mass, np.float64(bound - end)))
            to_bound, to_end = (graph.op("Sub", np.float64(value), centre) for value in (bound, end))
            change = graph.op("Sub", graph.op("Mul", to_bound, to_bound), graph.op("Mul", to_end, to_end))
            square = graph.op("Add", square, graph.op("Mul", mass, change))
    variance = graph.op("Max", graph.op("Sub", square, graph.op("Mul", offset, offset)), np.float64(0))
    mean = graph.op("Squeeze", graph.op("Add", centre, offset), ints(1))
    std = graph.op("Squeeze", graph.op("Sqrt", variance), ints(1))
    return [mean, std, _bounded(graph, target_map, _unbounded(graph, target_map, quantiles))]


def _unbounded(graph: Graph, target_map: TargetMap, z: str) -> str:
    """The map without bounds."""
    if not target_map.log:
        return z
    top = np.float64(np.log(target_map.knee))
    inside = graph.op("Exp", graph.op("Min", z, top))
    beyond = graph.op("Mul", graph.op("Max", graph.op("Sub", z, top), np.float64(0)), np.float64(target_map.knee))
    return graph.op("Add", graph.op("Add", inside, beyond), np.float64(target_map.low - target_map.shift))


def _bounded(graph: Graph, target_map: TargetMap, values: str) -> str:
    """Values with the ends mapped to the bounds."""
    if np.isfinite(target_map.low):
        is_low = graph.op("LessOrEqual", values, np.float64(target_map.low_end))
        values = graph.op("Where", is_low, np.float64(target_map.low), values)
    if np.isfinite(target_map.high):
        is_high = graph.op("GreaterOrEqual", values, np.float64(target_map.high_end))
        values = graph.op("Where", is_high, np.float64(target_map.high), values)
    return values


def _expectation(graph: Graph, values: str) -> str:
    """Sum over the nodes with their weights; name, shape (n, 1)."""
    return graph.op("ReduceSum", graph.op("Mul", values, NODE_WEIGHTS), ints(1), keepdims=1)


def _mass_below(graph: Graph, values: str, end: float) -> str:
    """Probability of values up to an end, by linear interpolation between the nodes; name, shape (n, 1)."""
    last = len(NODE_LEVELS) - 1
    left = graph.op("Gather", values, np.arange(last), axis=1)
    right = graph.op("Gather", values, np.arange(1, last + 1), axis=1)
    step = graph.op("Max", graph.op("Sub", right, left), np.float64(np.finfo(float).tiny))
    share = graph.op("Div", graph.op("Sub", np.float64(end), left), step)
    share = graph.op("Min", graph.op("Max", share, np.float64(0)), np.float64(1))
    return graph.op("ReduceSum", graph.op("Mul", share, np.diff(NODE_LEVELS)), ints(1), keepdims=1)


def _number(value: float) -> np.float64:
    """A bound; the largest float instead of infinity."""
    limit = np.finfo(np.float64).max
    return np.float64(np.clip(value, -limit, limit))
