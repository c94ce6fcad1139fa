"""Trees whose regions combine experts.

Experts without weight in all regions are left out.
"""

from collections.abc import Sequence

import numpy as np

from usnrt.experts.builtin import TOGETHER
from usnrt.experts.weights import GUIDED, MEMORY, NETWORK
from usnrt.memory.retrieval import N_GUIDES
from usnrt.onnx._graph import Graph, ints
from usnrt.onnx._memory import Summaries, guides, retrieve
from usnrt.onnx._networks import MEAN_WEIGHTS, grouped_networks, refined, to_quantiles, weighted
from usnrt.tree.model import ExpertTree


def expert_functions(graph: Graph, members: Sequence[ExpertTree], inputs: str, leaves: str) -> str:
    """Quantile functions of members, see `ExpertTree.quantile_functions`.

    Parameters
    ----------
    inputs : str
        Name of the network inputs, shape (n, p), float32.
    leaves : str
        Name of the leaves, shape (n, n_members), int64.

    Returns
    -------
    str
        Name, shape (n, n_members, J), where J is the number of positions.
    """
    each = []
    for number, member in enumerate(members):
        leaf = graph.op("Gather", leaves, np.int64(number), axis=1)
        each.append(graph.op("Unsqueeze", _combined(graph, number, member, inputs, leaf), ints(1)))
    quantiles = each[0] if len(each) == 1 else graph.op("Concat", *each, axis=1)
    return refined(graph, members, leaves, weighted(graph, quantiles, MEAN_WEIGHTS), quantiles)


def _combined(graph: Graph, number: int, member: ExpertTree, inputs: str, leaf: str) -> str:
    """Weighted sum of the experts' quantile functions; name, shape (n, J)."""
    used = np.flatnonzero(member.expert_weights.any(axis=0)).tolist()
    found = None
    if member.memory is not None and set(used) & {GUIDED, MEMORY}:
        found = retrieve(graph, f"memory {number}", member.memory, inputs)
    networks = [expert for expert in used if expert in (NETWORK, GUIDED)]
    quantiles = dict(zip(networks, _network_quantiles(graph, number, member, networks, inputs, leaf, found)))
    if found is not None:
        quantiles[MEMORY] = found.quantiles
    for expert in used[len(networks) + (MEMORY in used) :]:
        further = member.further[expert - len(TOGETHER)]
        quantiles[expert] = further.to_onnx(graph, {"inputs": inputs, "leaf": leaf})
    if len(used) == 1:
        return quantiles[used[0]]
    weights = {e: graph.op("Gather", member.expert_weights[:, [e]], leaf, axis=0) for e in used}
    return graph.op("Sum", *(graph.op("Mul", weights[expert], quantiles[expert]) for expert in used))


def _network_quantiles(
    graph: Graph, number: int, member: ExpertTree, experts: list[int], inputs: str, leaf: str, found: Summaries | None
) -> list[str]:
    """Quantile functions of the network, with and without guides; names, shape (n, J)."""
    if not experts:
        return []
    tables = [inputs]
    if member.memory is not None:
        without = graph.op("Pad", inputs, ints(0, 0, 0, N_GUIDES))
        with_guides = found and graph.op("Concat", inputs, guides(graph, member.memory, found), axis=1)
        tables = [with_guides if expert == GUIDED and with_guides else without for expert in experts]
    # All at once, so that there is one loop over the networks.
    x = tables[0] if len(tables) == 1 else graph.op("Concat", *tables, axis=0)
    group = graph.op("Gather", member.network_of, leaf, axis=0)
    group = group if len(tables) == 1 else graph.op("Concat", *[group] * len(tables), axis=0)
    outputs = grouped_networks(graph, f"network {number}", member, x, group)
    quantiles = to_quantiles(graph, graph.cast(outputs, np.float64))
    return [quantiles] if len(tables) == 1 else graph.ops("Split", len(tables), quantiles, axis=0)
