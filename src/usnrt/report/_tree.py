"""The tree as SVG: splits above, regions below, each region a link to its details."""

from html import escape
from typing import Any

import numpy as np

from usnrt.report._numbers import number, percent

LEAF_WIDTH, LEAF_GAP, LEVEL_HEIGHT, LEAF_HEIGHT, MARGIN = 104, 14, 84, 66, 12
TEXT_WIDTH = 6.4  # of a character, for shortening


def draw_tree(model: Any, std_of_region: dict[int, float]) -> str:
    """Draw a model's tree.

    Parameters
    ----------
    model : fitted model with ``tree_`` and ``columns_``
    std_of_region : dict of int to float
        Residual standard deviation of each region, by its id; the colour says which are large.

    Returns
    -------
    str
        SVG. Regions are links to ``#region-<id>``.
    """
    tree = model.tree_
    x = _places(tree)
    depth = tree.depth.max()
    width = tree.n_leaves * (LEAF_WIDTH + LEAF_GAP) - LEAF_GAP + 2 * MARGIN
    height = depth * LEVEL_HEIGHT + LEAF_HEIGHT + 2 * MARGIN
    shades = _shades(std_of_region)
    y = MARGIN + tree.depth * LEVEL_HEIGHT
    edges, nodes = [], []
    for node in range(tree.n_nodes):
        if tree.feature[node] < 0:
            nodes.append(_leaf(tree, node, x[node], y[node], std_of_region[node], shades[node]))
            continue
        nodes.append(_split(model, node, x[node], y[node]))
        for child, to_left in ((tree.left[node], True), (tree.right[node], False)):
            edges.append(_edge(model, node, to_left, (x[node], y[node] + 24), (x[child], y[child])))
    return (
        f'<svg class="tree" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'role="group" aria-label="Tree of {tree.n_leaves} regions">{"".join(edges)}{"".join(nodes)}</svg>'
    )


def _places(tree: Any) -> np.ndarray:
    """Leaves stand side by side, every split above the middle of its children."""
    x = np.zeros(tree.n_nodes)
    for node in range(tree.n_nodes - 1, -1, -1):  # children have larger numbers than their parents
        if tree.feature[node] < 0:
            x[node] = MARGIN + LEAF_WIDTH / 2 + tree.leaf_index[node] * (LEAF_WIDTH + LEAF_GAP)
        else:
            x[node] = (x[tree.left[node]] + x[tree.right[node]]) / 2
    return x


def _shades(std_of_region: dict[int, float]) -> dict[int, int]:
    """1 (sure) to 5 (unsure), on a logarithmic scale between the smallest and the largest."""
    logs = {region: float(np.log(max(np.nan_to_num(std), 1e-300))) for region, std in std_of_region.items()}
    low, high = min(logs.values()), max(logs.values())
    if high - low < 0.05:
        return dict.fromkeys(logs, 2)
    return {region: 1 + round(4 * (value - low) / (high - low)) for region, value in logs.items()}


def _leaf(tree: Any, node: int, x: float, y: float, std: float, shade: int) -> str:
    share = percent(float(tree.n_rows[node] / tree.n_rows[0]), 0)
    label = f"Region {node}: residual standard deviation {number(std)}, {share} of the training rows"
    return (
        f'<a href="#region-{node}" class="leaf" data-region="{node}" aria-label="{escape(label)}">'
        f"<title>{escape(label)}</title>"
        f'<rect class="shade-{shade}" x="{x - LEAF_WIDTH / 2:g}" y="{y:g}" width="{LEAF_WIDTH}" '
        f'height="{LEAF_HEIGHT}" rx="7"/>'
        f'<text class="leaf-rows on-{shade}" x="{x:g}" y="{y + 18:g}" text-anchor="middle">region {node}</text>'
        f'<text class="leaf-std on-{shade}" x="{x:g}" y="{y + 37:g}" text-anchor="middle">± {number(std)}</text>'
        f'<text class="leaf-rows on-{shade}" x="{x:g}" y="{y + 55:g}" text-anchor="middle">{share} of rows</text></a>'
    )


def _split(model: Any, node: int, x: float, y: float) -> str:
    from usnrt.tree.rules import split_text

    tree, name = model.tree_, model.columns_[int(model.tree_.feature[node])].name
    tip = f"{split_text(tree, node, model.columns_)}, or not? T = {tree.statistic[node]:.2f}"
    text = _short(f"{name}?", LEAF_WIDTH + LEAF_GAP + 20)
    half = max(30, len(text) * TEXT_WIDTH / 2 + 10)
    return (
        f'<g class="split"><title>{escape(tip)}</title>'
        f'<rect x="{x - half:g}" y="{y:g}" width="{2 * half:g}" height="24" rx="12"/>'
        f'<text x="{x:g}" y="{y + 16:g}" text-anchor="middle">{escape(text)}</text></g>'
    )


def _edge(model: Any, node: int, to_left: bool, start: tuple[float, float], end: tuple[float, float]) -> str:
    from usnrt.tree.rules import split_text

    tree = model.tree_
    rule = split_text(tree, node, model.columns_, to_left=to_left)
    name = model.columns_[int(tree.feature[node])].name
    answer = rule.removeprefix(f"{name} ").removeprefix("= ").removeprefix("in ").strip("{}")
    room = max(abs(end[0] - start[0]) * 1.6, LEAF_WIDTH - 8)
    (x0, y0), (x1, y1) = start, end
    middle = (y0 + y1) / 2
    return (
        f'<path class="edge" d="M{x0:g} {y0:g} C{x0:g} {middle:g} {x1:g} {middle:g} {x1:g} {y1:g}"/>'
        f'<text class="answer" x="{x1:g}" y="{y1 - 9:g}" text-anchor="middle"><title>{escape(rule)}</title>'
        f"{escape(_short(answer, room))}</text>"
    )


def _short(text: str, width: float) -> str:
    most = max(int(width / TEXT_WIDTH), 4)
    return text if len(text) <= most else text[: most - 1] + "…"
