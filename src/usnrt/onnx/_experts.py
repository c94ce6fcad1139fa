"""Trees whose regions combine experts: networks, the memory of training rows, and further ones.

Experts without weight in all regions are left out.

The search for similar rows follows `usnrt.memory.Retrieval.predict`. A loop processes a few rows at a time, because
each row is compared with hundreds of embedded rows. Distances are sums of squared differences rather than matrix
products: near rows have most of the weight, and products lose the digits of small distances. Ties are broken as in the
library: cells and rows are in the order of the memory, and TopK keeps the first of equal values.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from usnrt.experts.builtin import TOGETHER
from usnrt.experts.weights import GUIDED, MEMORY, NETWORK
from usnrt.memory.retrieval import EMBEDDING_LIMIT, MIN_SPREAD, N_GUIDES, SPREAD_POSITIONS, Retrieval
from usnrt.nn.quantiles import LEVELS
from usnrt.onnx._graph import Graph, Tensor, ints
from usnrt.onnx._networks import MEAN_WEIGHTS, grouped_networks, piecewise_linear, refined, to_quantiles, weighted
from usnrt.tree.model import ExpertTree

# Rows per iteration: few enough that the rows that they are compared with stay in the processor's cache.
BLOCK = 16
MIN_SQUARE = np.float32(1e-6)


class Summaries(NamedTuple):
    """The mean, shape (n, 1), the quantiles, shape (n, J), and the log density, shape (n, 1), float64."""

    mean: Tensor
    quantiles: Tensor
    log_density: Tensor


def expert_functions(graph: Graph, members: Sequence[ExpertTree], inputs: Tensor, leaves: Tensor) -> Tensor:
    """Quantile functions of M members, see `ExpertTree.quantile_functions`; shape (n, M, J)."""
    each = []
    for number, member in enumerate(members):
        leaf = graph.gather(leaves, number, axis=1)
        each.append(_combined(graph, number, member, inputs, leaf).unsqueeze(1))
    quantiles = graph.concat(each, axis=1)
    return refined(graph, members, leaves, weighted(quantiles, MEAN_WEIGHTS), quantiles)


def _combined(graph: Graph, number: int, member: ExpertTree, inputs: Tensor, leaf: Tensor) -> Tensor:
    """Weighted sum of the experts' quantile functions, shape (n, J)."""
    used = np.flatnonzero(member.expert_weights.any(axis=0)).tolist()
    found = None
    if member.memory is not None and set(used) & {GUIDED, MEMORY}:
        found = _retrieve(graph, f"memory {number}", member.memory, inputs)
    networks = [expert for expert in used if expert in (NETWORK, GUIDED)]
    quantiles = dict(zip(networks, _network_quantiles(graph, number, member, networks, inputs, leaf, found)))
    if found is not None:
        quantiles[MEMORY] = found.quantiles
    for expert in used[len(networks) + (MEMORY in used) :]:
        further = member.further[expert - len(TOGETHER)]
        quantiles[expert] = Tensor(graph, str(further.to_onnx(graph, {"inputs": str(inputs), "leaf": str(leaf)})))
    if len(used) == 1:
        return quantiles[used[0]]
    weights = {e: graph.gather(member.expert_weights[:, [e]], leaf) for e in used}
    return graph.op("Sum", *(weights[expert] * quantiles[expert] for expert in used))


def _network_quantiles(
    graph: Graph, number: int, member: ExpertTree, experts: list[int], inputs: Tensor, leaf: Tensor,
    found: Summaries | None,
) -> list[Tensor]:  # fmt: skip
    """Quantile functions of the network, with and without guides, each of shape (n, J)."""
    if not experts:
        return []
    tables = [inputs]
    if member.memory is not None:
        without = graph.op("Pad", inputs, ints(0, 0, 0, N_GUIDES))
        with_guides = found and graph.concat([inputs, _guides(graph, member.memory, found)], axis=1)
        tables = [with_guides if expert == GUIDED and with_guides else without for expert in experts]
    # All at once, so that there is one loop over the networks.
    x = graph.concat(tables, axis=0)
    group = graph.concat([graph.gather(member.network_of, leaf)] * len(tables), axis=0)
    outputs = grouped_networks(graph, f"network {number}", member, x, group)
    quantiles = to_quantiles(graph, outputs.cast(np.float64))
    return [quantiles] if len(tables) == 1 else graph.ops("Split", len(tables), quantiles, axis=0)


def _retrieve(graph: Graph, name: str, memory: Retrieval, inputs: Tensor) -> Summaries:
    """Distributions of the targets of rows similar to the network inputs, float32; ``name`` is that of the loop."""
    # In float64: quantiles of few similar rows depend on the last digits of distances.
    encoded = piecewise_linear(graph, memory.encoding, inputs).cast(np.float64)
    embedded = (encoded @ memory.metric.astype(np.float64)).cast(np.float32)
    limit, n_dims = np.float32(EMBEDDING_LIMIT), memory.metric.shape[1]
    # The row of zeros at the end fills up the last block; the loop has an iteration even if there are no rows.
    padding = np.zeros((1, n_dims), dtype=np.float32)
    queries = graph.op("Concat", graph.op("Clip", embedded, -limit, limit), padding, axis=0)
    n_rows = graph.op("Squeeze", graph.op("Shape", inputs, start=0, end=1))
    size = graph.op("Max", graph.op("Min", n_rows, BLOCK), 1)
    n_blocks = graph.op("Max", (n_rows + size - 1) / size, 1)

    def block(body: Graph, iteration: Tensor) -> list[Tensor]:
        own = body.op("Range", 0, size, 1) + iteration * size
        query = body.gather(queries, body.op("Min", own, n_rows))
        return [body.concat(_summaries(body, memory, *_nearest(body, memory, query)), axis=1)]

    width = len(LEVELS) + 2
    (blocks,) = graph.loop(name, n_blocks, block, {}, {"summaries": (np.float64, ["rows", width])})
    rows = graph.op("Slice", graph.op("Reshape", blocks, ints(-1, width)), ints(0), graph.op("Shape", inputs, end=1))
    return Summaries(*graph.ops("Split", 3, rows, ints(1, len(LEVELS), 1), axis=1))


def _guides(graph: Graph, memory: Retrieval, found: Summaries) -> Tensor:
    """Inputs of a guided network, see `Retrieval.guides`; shape (n, 3), float32."""
    low, high = (graph.gather(found.quantiles, ints(position), axis=1) for position in SPREAD_POSITIONS)
    spread = graph.op("Max", high - low, np.float64(MIN_SPREAD))
    raw = graph.concat([found.mean, graph.op("Log", spread), found.log_density], axis=1)
    return ((raw - memory.guide_mean) / memory.guide_std).cast(np.float32)


def _nearest(body: Graph, memory: Retrieval, query: Tensor) -> tuple[Tensor, Tensor]:
    """Places and distances of the nearest rows, shape (rows, k); infinity where a cell has no row."""
    n_probes, size = _n_probes(memory), memory.cells.shape[2]
    to_centres = query.unsqueeze(1) - memory.centres.T
    squares = body.op("ReduceSumSquare", to_centres, axes=[2], keepdims=0)
    _, nearest_cells = body.ops("TopK", 2, squares, ints(n_probes), largest=0, axis=1)
    cells, _ = body.ops("TopK", 2, nearest_cells, ints(n_probes), largest=0, axis=1)
    # float16 as in the model file, with the dimensions last, so that sums are over adjacent numbers
    rows = body.gather(memory.cells.transpose(0, 2, 1), cells).cast(np.float32)
    squares = body.op("ReduceSumSquare", query.unsqueeze(1, 2) - rows, axes=[3], keepdims=0)
    squares = body.op("Reshape", squares, ints(-1, n_probes * size))
    nearest, at = body.ops("TopK", 2, squares, ints(_n_neighbors(memory)), largest=0, axis=1)
    nearest, at = _in_order(body, memory, nearest, at)
    cell = body.op("GatherElements", cells, at / size, axis=1)
    places = cell * size + at % size
    return places, body.op("Sqrt", body.op("Max", nearest, MIN_SQUARE))


def _in_order(body: Graph, memory: Retrieval, nearest: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest rows in the order of cells and places, with empty places at the end."""
    key = body.op("Where", body.op("IsInf", nearest), np.int64(np.iinfo(np.int64).max), at)
    _, order = body.ops("TopK", 2, key, ints(_n_neighbors(memory)), largest=0, axis=1)
    return body.op("GatherElements", nearest, order, axis=1), body.op("GatherElements", at, order, axis=1)


def _summaries(body: Graph, memory: Retrieval, places: Tensor, distances: Tensor) -> Summaries:
    """Weighted mean, quantiles and log density of the targets at these places."""
    is_empty, smallest = body.op("IsInf", distances), np.float64(np.nanmin(memory.target))
    value = body.gather(np.where(memory.row < 0, smallest, memory.target), places)
    logit = body.gather(memory.log_weight, places) - distances.cast(np.float64)
    largest = body.op("ReduceMax", logit, axes=[1], keepdims=1)
    weight = body.op("Exp", logit - largest)
    total = weight.sum(1, keepdims=1)
    mean = (weight * value).sum(1, keepdims=1) / total
    # Empty places repeat the largest target, with weight 0, so that they do not change quantiles.
    value = body.op("Where", is_empty, body.op("ReduceMax", value, axes=[1], keepdims=1), value)
    quantiles = _quantiles(body, _n_neighbors(memory), value, weight, total)
    return Summaries(mean, quantiles, body.op("Log", total) + largest)


def _quantiles(body: Graph, n_values: int, value: Tensor, weight: Tensor, total: Tensor) -> Tensor:
    """Quantiles at `LEVELS`, interpolated between the midpoints of the cumulative weights; shape (rows, J)."""
    ordered, order = body.ops("TopK", 2, value, ints(n_values), largest=0, axis=1)
    share = body.op("GatherElements", weight, order, axis=1)
    middle = (body.op("CumSum", share, 1, exclusive=1) + share * 0.5) / total
    is_below = middle.unsqueeze(1) < LEVELS[:, None]  # (rows, J, k)
    n_below = is_below.cast(np.int64).sum(2)
    low = body.op("Max", n_below - 1, 0)
    high = body.op("Min", n_below, np.int64(n_values - 1))
    (start, start_at), (end, end_at) = (
        [body.op("GatherElements", table, at, axis=1) for table in (ordered, middle)] for at in (low, high)
    )
    width = body.op("Max", end_at - start_at, 1e-300)
    return start + (LEVELS - start_at) / width * (end - start)


def _n_probes(memory: Retrieval) -> int:
    return min(memory.n_probes, len(memory.cells))


def _n_neighbors(memory: Retrieval) -> int:
    n_searched: int = _n_probes(memory) * memory.cells.shape[2]
    return min(memory.n_neighbors, n_searched)
