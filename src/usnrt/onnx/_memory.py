"""Search for similar training rows in the graph, and the distributions of their targets.

The operators follow `usnrt.memory.Retrieval.predict`. A loop processes a few rows at a time, because each row is
compared with hundreds of embedded rows. Distances are sums of squared differences rather than matrix products: near
rows have most of the weight, and products lose the digits of small distances. Ties are broken as in the library: cells
and rows are in the order of the memory, and TopK keeps the first of equal values.
"""

from typing import NamedTuple

import numpy as np

from usnrt.memory.retrieval import EMBEDDING_LIMIT, MIN_SPREAD, SPREAD_POSITIONS, Retrieval
from usnrt.nn.quantiles import LEVELS
from usnrt.onnx._graph import Graph, ints
from usnrt.onnx._networks import piecewise_linear

# Rows per iteration: few enough that the rows that they are compared with stay in the processor's cache.
BLOCK = 16
MIN_SQUARE = np.float32(1e-6)


class Summaries(NamedTuple):
    """Names of the mean, shape (n, 1), the quantiles, shape (n, J), and the log density, shape (n, 1), float64."""

    mean: str
    quantiles: str
    log_density: str


def retrieve(graph: Graph, name: str, memory: Retrieval, inputs: str) -> Summaries:
    """Distributions of the targets of similar rows.

    Parameters
    ----------
    name : str
        Of the loop; distinct from that of other loops in the graph.
    inputs : str
        Name of the network inputs, shape (n, p), float32.
    """
    encoded = graph.cast(piecewise_linear(graph, memory.encoding, inputs), np.float64)
    # In float64: quantiles of few similar rows depend on the last digits of distances.
    embedded = graph.cast(graph.op("MatMul", encoded, memory.metric.astype(np.float64)), np.float32)
    limit, n_dims = np.float32(EMBEDDING_LIMIT), memory.metric.shape[1]
    # The row of zeros at the end fills up the last block; the loop has an iteration even if there are no rows.
    padding = np.zeros((1, n_dims), dtype=np.float32)
    queries = graph.op("Concat", graph.op("Clip", embedded, -limit, limit), padding, axis=0)
    n_rows = graph.op("Squeeze", graph.op("Shape", inputs, start=0, end=1))
    size = graph.op("Max", graph.op("Min", n_rows, np.int64(BLOCK)), np.int64(1))
    last = graph.op("Sub", graph.op("Add", n_rows, size), np.int64(1))
    n_blocks = graph.op("Max", graph.op("Div", last, size), np.int64(1))

    body = graph.inner(name)
    iteration = body.input(f"{body.prefix}/iteration", np.int64, [])
    condition = body.input(f"{body.prefix}/condition", np.bool_, [])
    own = body.op("Add", body.op("Range", np.int64(0), size, np.int64(1)), body.op("Mul", iteration, size))
    query = body.op("Gather", queries, body.op("Min", own, n_rows), axis=0)
    summaries = _summaries(body, memory, *_nearest(body, memory, query))
    width = len(LEVELS) + 2
    body.output(f"{body.prefix}/condition out", condition, np.bool_, [])
    body.output(f"{body.prefix}/summaries", body.op("Concat", *summaries, axis=1), np.float64, ["rows", width])

    (blocks,) = graph.loop(n_blocks, body, n_scans=1)
    rows = graph.op("Slice", graph.op("Reshape", blocks, ints(-1, width)), ints(0), graph.op("Shape", inputs, end=1))
    return Summaries(*graph.ops("Split", 3, rows, ints(1, len(LEVELS), 1), axis=1))


def guides(graph: Graph, memory: Retrieval, found: Summaries) -> str:
    """Inputs of a guided network, see `Retrieval.guides`; name, shape (n, 3), float32."""
    low, high = (graph.op("Gather", found.quantiles, ints(position), axis=1) for position in SPREAD_POSITIONS)
    spread = graph.op("Max", graph.op("Sub", high, low), np.float64(MIN_SPREAD))
    raw = graph.op("Concat", found.mean, graph.op("Log", spread), found.log_density, axis=1)
    scaled = graph.op("Div", graph.op("Sub", raw, memory.guide_mean), memory.guide_std)
    return graph.cast(scaled, np.float32)


def _nearest(body: Graph, memory: Retrieval, query: str) -> tuple[str, str]:
    """Places and distances of the nearest rows, shape (rows, k); infinity where a cell has no row."""
    n_probes, size = _n_probes(memory), memory.cells.shape[2]
    to_centres = body.op("Sub", body.op("Unsqueeze", query, ints(1)), memory.centres.T)
    squares = body.op("ReduceSumSquare", to_centres, axes=[2], keepdims=0)
    _, nearest_cells = body.ops("TopK", 2, squares, ints(n_probes), largest=0, axis=1)
    cells, _ = body.ops("TopK", 2, nearest_cells, ints(n_probes), largest=0, axis=1)
    # float16 as in the model file, with the dimensions last, so that sums are over adjacent numbers
    rows = body.cast(body.op("Gather", memory.cells.transpose(0, 2, 1), cells, axis=0), np.float32)
    to_rows = body.op("Sub", body.op("Unsqueeze", query, ints(1, 2)), rows)
    squares = body.op("ReduceSumSquare", to_rows, axes=[3], keepdims=0)
    squares = body.op("Reshape", squares, ints(-1, n_probes * size))
    nearest, at = body.ops("TopK", 2, squares, ints(_n_neighbors(memory)), largest=0, axis=1)
    nearest, at = _in_order(body, memory, nearest, at)
    cell = body.op("GatherElements", cells, body.op("Div", at, np.int64(size)), axis=1)
    places = body.op("Add", body.op("Mul", cell, np.int64(size)), body.op("Mod", at, np.int64(size)))
    return places, body.op("Sqrt", body.op("Max", nearest, MIN_SQUARE))


def _in_order(body: Graph, memory: Retrieval, nearest: str, at: str) -> tuple[str, str]:
    """The nearest rows in the order of cells and places, with empty places at the end."""
    key = body.op("Where", body.op("IsInf", nearest), np.int64(np.iinfo(np.int64).max), at)
    _, order = body.ops("TopK", 2, key, ints(_n_neighbors(memory)), largest=0, axis=1)
    return body.op("GatherElements", nearest, order, axis=1), body.op("GatherElements", at, order, axis=1)


def _summaries(body: Graph, memory: Retrieval, places: str, distances: str) -> Summaries:
    """Weighted mean, quantiles and log density of the targets at these places."""
    is_empty, smallest = body.op("IsInf", distances), np.float64(np.nanmin(memory.target))
    value = body.op("Gather", np.where(memory.row < 0, smallest, memory.target), places, axis=0)
    logit = body.op("Sub", body.op("Gather", memory.log_weight, places, axis=0), body.cast(distances, np.float64))
    largest = body.op("ReduceMax", logit, axes=[1], keepdims=1)
    weight = body.op("Exp", body.op("Sub", logit, largest))
    total = body.op("ReduceSum", weight, ints(1), keepdims=1)
    mean = body.op("Div", body.op("ReduceSum", body.op("Mul", weight, value), ints(1), keepdims=1), total)
    # Empty places repeat the largest target, with weight 0, so that they do not change quantiles.
    value = body.op("Where", is_empty, body.op("ReduceMax", value, axes=[1], keepdims=1), value)
    quantiles = _quantiles(body, _n_neighbors(memory), value, weight, total)
    return Summaries(mean, quantiles, body.op("Add", body.op("Log", total), largest))


def _quantiles(body: Graph, n_values: int, value: str, weight: str, total: str) -> str:
    """Quantiles at `LEVELS`, interpolated between the midpoints of the cumulative weights; name, shape (rows, J)."""
    ordered, order = body.ops("TopK", 2, value, ints(n_values), largest=0, axis=1)
    share = body.op("GatherElements", weight, order, axis=1)
    passed = body.op("CumSum", share, np.int64(1), exclusive=1)
    middle = body.op("Div", body.op("Add", passed, body.op("Mul", share, np.float64(0.5))), total)
    is_below = body.op("Less", body.op("Unsqueeze", middle, ints(1)), LEVELS[:, None])  # (rows, J, k)
    n_below = body.op("ReduceSum", body.cast(is_below, np.int64), ints(2), keepdims=0)
    low = body.op("Max", body.op("Sub", n_below, np.int64(1)), np.int64(0))
    high = body.op("Min", n_below, np.int64(n_values - 1))
    (start, start_at), (end, end_at) = (
        [body.op("GatherElements", table, at, axis=1) for table in (ordered, middle)] for at in (low, high)
    )
    width = body.op("Max", body.op("Sub", end_at, start_at), np.float64(1e-300))
    fraction = body.op("Div", body.op("Sub", LEVELS, start_at), width)
    return body.op("Add", start, body.op("Mul", fraction, body.op("Sub", end, start)))


def _n_probes(memory: Retrieval) -> int:
    return min(memory.n_probes, len(memory.cells))


def _n_neighbors(memory: Retrieval) -> int:
    n_searched: int = _n_probes(memory) * memory.cells.shape[2]
    return min(memory.n_neighbors, n_searched)
