"""The tree as SVG: splits above, regions below; each region links to its details."""

import numpy as np

from usnrt.reporting._bidi import escape
from usnrt.reporting._numbers import number, percent
from usnrt.reporting._svg import shortened
from usnrt.tree.rules import ModelWithTree, n_categories, split_text
from usnrt.tree.structure import Tree
from usnrt.utils.types import Floats

BOX_WIDTH, BOX_GAP, LEVEL_HEIGHT, BOX_HEIGHT, MARGIN = 104, 14, 84, 66, 12
TEXT_WIDTH = 7.0  # of a character, for shortening
LONG = 9  # characters of a number that is printed smaller


def draw_tree(model: ModelWithTree) -> str:
    """Draw a model's tree, the regions shaded by their residual standard deviations.

    Parameters
    ----------
    model : fitted model with ``tree_`` and ``columns_``

    Returns
    -------
    str
        SVG. Regions link to ``#region-<id>``.
    """
    tree = model.tree_
    x = _horizontal_positions(tree)
    depth = tree.depth.max()
    width = tree.n_leaves * (BOX_WIDTH + BOX_GAP) - BOX_GAP + 2 * MARGIN
    height = depth * LEVEL_HEIGHT + BOX_HEIGHT + 2 * MARGIN
    shades = _shades(tree)
    y = MARGIN + tree.depth * LEVEL_HEIGHT
    edges, nodes = [], []
    for node in range(tree.n_nodes):
        if tree.feature[node] < 0:
            nodes.append(_region_box(tree, node, x[node], y[node], shades[node]))
            continue
        nodes.append(_split_box(model, node, x[node], y[node]))
        for child, to_left in ((tree.left[node], True), (tree.right[node], False)):
            edges.append(_edge(model, node, to_left, (x[node], y[node] + 24), (x[child], y[child])))
    return (
        f'<svg class="tree" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'role="group" aria-label="Tree of {tree.n_leaves} regions">{"".join(edges)}{"".join(nodes)}</svg>'
    )


def _horizontal_positions(tree: Tree) -> Floats:
    """Regions side by side, every split centred above its children."""
    x = np.zeros(tree.n_nodes)
    for node in range(tree.n_nodes - 1, -1, -1):  # children have larger numbers than their parents
        if tree.feature[node] < 0:
            x[node] = MARGIN + BOX_WIDTH / 2 + tree.leaf_index[node] * (BOX_WIDTH + BOX_GAP)
        else:
            x[node] = (x[tree.left[node]] + x[tree.right[node]]) / 2
    return x


def _shades(tree: Tree) -> dict[int, int]:
    """Shade of each region, 1 (certain) to 5 (uncertain), on a logarithmic scale."""
    stds = {int(region): tree.residual_std[region] for region in tree.leaves}
    logs = {region: float(np.log(max(np.nan_to_num(std), 1e-300))) for region, std in stds.items()}
    low, high = min(logs.values()), max(logs.values())
    if high - low < 0.05:
        return dict.fromkeys(logs, 2)
    return {region: 1 + round(4 * (value - low) / (high - low)) for region, value in logs.items()}


def _region_box(tree: Tree, node: int, x: float, y: float, shade: int) -> str:
    std = tree.residual_std[node]
    share = percent(float(tree.n_rows[node] / tree.n_rows[0]), 0)
    size = " long" if len(number(std)) > LONG else ""
    label = f"Region {node}: residual standard deviation {number(std)}, {share} of the training rows"
    return (
        f'<a href="#region-{node}" class="leaf" data-region="{node}" aria-label="{escape(label)}">'
        f"<title>{escape(label)}</title>"
        f'<rect class="shade-{shade}" x="{x - BOX_WIDTH / 2:g}" y="{y:g}" width="{BOX_WIDTH}" '
        f'height="{BOX_HEIGHT}" rx="7"/>'
        f'<text class="leaf-rows on-{shade}" x="{x:g}" y="{y + 18:g}" text-anchor="middle">region {node}</text>'
        f'<text class="leaf-std{size} on-{shade}" x="{x:g}" y="{y + 37:g}" text-anchor="middle">± {number(std)}</text>'
        f'<text class="leaf-rows on-{shade}" x="{x:g}" y="{y + 55:g}" text-anchor="middle">{share} of rows</text></a>'
    )


def _split_box(model: ModelWithTree, node: int, x: float, y: float) -> str:
    tree, name = model.tree_, model.columns_[int(model.tree_.feature[node])].name
    tip = f"{split_text(tree, node, model.columns_)}, or not? T = {tree.statistic[node]:.2f}"
    text = f"{shortened(name, BOX_WIDTH + BOX_GAP + 4, TEXT_WIDTH)}?"
    half = max(30, len(text) * TEXT_WIDTH / 2 + 12)
    return (
        f'<g class="split"><title>{escape(tip)}</title>'
        f'<rect x="{x - half:g}" y="{y:g}" width="{2 * half:g}" height="24" rx="12"/>'
        f'<text x="{x:g}" y="{y + 16:g}" text-anchor="middle">{escape(text)}</text></g>'
    )


def _edge(model: ModelWithTree, node: int, to_left: bool, start: tuple[float, float], end: tuple[float, float]) -> str:
    tree = model.tree_
    rule = split_text(tree, node, model.columns_, to_left=to_left)
    whole = split_text(tree, node, model.columns_, to_left=to_left, max_labels=None)
    name = model.columns_[int(tree.feature[node])].name
    branch = rule.removeprefix(f"{name} ").removeprefix("= ").removeprefix("in ").strip("{}")
    room = max(abs(end[0] - start[0]) * 1.6, BOX_WIDTH - 8)
    if len(branch) * TEXT_WIDTH > room and rule.startswith(f"{name} in {{"):  # a beginning would say nothing
        branch = f"{n_categories(tree, node, model.columns_, to_left)} categories"
    (x0, y0), (x1, y1) = start, end
    middle = (y0 + y1) / 2
    return (
        f'<path class="edge" d="M{x0:g} {y0:g} C{x0:g} {middle:g} {x1:g} {middle:g} {x1:g} {y1:g}"/>'
        f'<text class="branch" x="{x1:g}" y="{y1 - 9:g}" text-anchor="middle"><title>{escape(whole)}</title>'
        f"{escape(shortened(branch, room, TEXT_WIDTH))}</text>"
    )
