"""Drawings of the report: charts, and the tree."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from usnrt.reporting._drift import Window
from usnrt.reporting._facts import LEVELS, CalibrationFacts, Facts
from usnrt.reporting._numbers import axis_labels, number, percent, wilson
from usnrt.reporting._svg import Chart, escape, nice_ticks, shortened
from usnrt.tree.rules import ModelWithTree, n_categories, split_text
from usnrt.tree.structure import Tree
from usnrt.utils.types import Floats

PERCENT_TICKS = [(level, f"{100 * level:.0f}") for level in (0, 0.2, 0.4, 0.6, 0.8, 1.0)]
N_BINS = 20
# Rows in the chart of intervals, for screens and for phones.
MAX_STROKES, FEW_STROKES = 80, 28


def reliability(calibration: CalibrationFacts, coverage: float, small: bool = False) -> str:
    """Nominal against observed coverage; a calibrated model follows the diagonal."""
    chart = Chart(
        (0, 1),
        (0, 1),
        "nominal coverage, %",
        "observed coverage, %",
        f"Reliability: {percent(coverage)} intervals contain the target in {percent(calibration.inside)} of the rows",
        *((300, 240) if small else (420, 340)),
    )
    chart.ticks(PERCENT_TICKS, PERCENT_TICKS)
    bounds = [calibration.confidence(level) for level in LEVELS]
    low, high = np.array(bounds).T
    chart.band(LEVELS.tolist(), low.tolist(), high.tolist(), "chance", "sampling variation of a calibrated model")
    chart.line([0, 1], [0, 1], "ideal", "nominal = observed")
    finite = calibration.infinite_at == 0  # the coverage of infinite intervals carries no information
    chart.line([0, *LEVELS[finite]], [0, *calibration.observed[finite]], "line")
    for level, share in zip(LEVELS[finite], calibration.observed[finite]):
        tip = f"{percent(level)} intervals contain the target in {percent(share)} of the rows"
        chart.dot(level, share, "dot", tip, 2.5 if small else 3.5)
    return chart.svg()


def pit_histogram(pit: NDArray[np.float64], evidence: int) -> str:
    """Histogram of the PIT values, which count as so many independent ones; flat for a calibrated model."""
    counts, edges = np.histogram(pit, N_BINS, (0, 1))
    shares = counts / len(pit) * N_BINS  # 1 is the expected share
    low, high = wilson(round(evidence / N_BINS), evidence)
    top = max(1.5, float(shares.max()) * 1.08, high * N_BINS * 1.08)
    chart = Chart(
        (0, 1),
        (0, top),
        "predicted probability below the target (PIT), %",
        "rows relative to expected",
        "Histogram of the PIT values, the predicted probabilities below the targets; flat is good",
        420,
        340,
    )
    chart.ticks(PERCENT_TICKS, [(value, f"{value:g}") for value in nice_ticks(0, top, 4)])
    for left, right, share, count in zip(edges[:-1], edges[1:], shares, counts):
        tip = f"{count:,} rows between {percent(left)} and {percent(right)}"
        chart.bar(left + 0.003, right - 0.003, share, "bar", tip)
    chart.band([0, 1], [low * N_BINS] * 2, [high * N_BINS] * 2, "chance", "sampling variation of a calibrated model")
    chart.line([0, 1], [1, 1], "ideal")
    return chart.svg()


def intervals(facts: Facts, target: str) -> tuple[str, str]:
    """Intervals of some rows, by predicted mean, with the target as a dot, hollow if outside.

    There is one for screens, and one for phones with fewer rows.
    """
    return _intervals(facts, target, MAX_STROKES, 880, 360), _intervals(facts, target, FEW_STROKES, 340, 300)


def _intervals(facts: Facts, target: str, most: int, width: int, height: int) -> str:
    order = np.argsort(facts.mean, kind="stable")
    if len(order) > most:
        order = order[np.linspace(0, len(order) - 1, most).astype(int)]
    low, high = visible_range(facts.lower[order], facts.upper[order], facts.y[order])
    ticks = nice_ticks(low, high, 6)
    labels, power = axis_labels(ticks)
    chart = Chart(
        (-1, len(order)),
        (low, high),
        f"{len(order)} rows, by predicted mean",
        shortened(target, height - 130) + (f" (× {power})" if power else ""),
        f"{percent(facts.coverage)} intervals of {len(order)} rows with the targets",
        width,
        height,
        labels,
    )
    chart.ticks(y=zip(ticks, labels))
    for position, i in enumerate(order):
        inside = facts.lower[i] <= facts.y[i] <= facts.upper[i]
        mean, lower, upper, y = facts.texts(i)
        tip = (
            f"{facts.labels.name} {facts.labels.texts[i]}: predicted {mean}, {lower} to {upper}, "
            f"target {y}{'' if inside else ', outside'}"
        )
        bounds = np.clip([facts.lower[i], facts.upper[i]], low, high)
        chart.stroke(position, bounds[0], bounds[1], "interval", tip)
        if low <= facts.y[i] <= high:
            chart.dot(position, facts.y[i], "truth" if inside else "truth outside", tip, 3.2)
        else:
            chart.arrow(position, bool(facts.y[i] > high), "beyond" if inside else "beyond outside", tip)
    return chart.svg()


def visible_range(lower: Floats, upper: Floats, y: Floats) -> tuple[float, float]:
    """The range of an axis for intervals and targets, in which a few extreme values do not flatten all others.

    Values beyond twice the distance between the 5 % and the 95 % quantile, on either side of them, are left out.
    """
    values = np.concatenate([lower, upper, y])
    values = values[np.isfinite(values)]
    first, last = np.quantile(values, [0.05, 0.95])
    room = 2.0 * (last - first)
    kept = values[(values >= first - room) & (values <= last + room)] if room > 0 else values
    low, high = float(kept.min()), float(kept.max())
    margin = 0.04 * (high - low) or max(abs(high), 1e-300)
    return low - margin, high + margin


def over_time(windows: Sequence[Window], coverage: float) -> tuple[str, str]:
    """Coverage in windows of time, with confidence intervals; for screens and for phones."""
    return _over_time(windows, coverage, 880, 260), _over_time(windows, coverage, 340, 240)


def _over_time(windows: Sequence[Window], coverage: float, width: int, height: int) -> str:
    low = min(min(window.low for window in windows), coverage - 0.05)
    low, high = max(0.0, low - 0.02), 1.0
    chart = Chart(
        (-0.6, len(windows) - 0.4),
        (low, high),
        "windows of time, the earliest first",
        "coverage, %",
        f"Coverage of {percent(coverage)} intervals in {len(windows)} windows of time",
        width,
        height,
    )
    chart.ticks(
        [(place, str(place + 1)) for place in range(len(windows))],
        [(value, f"{100 * value:g}") for value in nice_ticks(low, high, 4)],
    )
    chart.line([-0.6, len(windows) - 0.4], [coverage, coverage], "ideal", "nominal coverage")
    for place, window in enumerate(windows):
        tip = (
            f"{window.label}: {percent(window.coverage)} of {window.n:,} rows inside "
            f"(95 % confidence interval {percent(window.low)} to {percent(window.high)})"
        )
        chart.stroke(place, window.low, window.high, "interval", tip)
        chart.dot(place, window.coverage, "dot", tip)
    return chart.svg()


BOX_WIDTH, BOX_GAP, LEVEL_HEIGHT, BOX_HEIGHT, MARGIN = 104, 14, 84, 66, 12
TEXT_WIDTH = 7.0  # of a character, for shortening
LONG = 9  # characters of a number that is printed smaller


def draw_tree(model: ModelWithTree) -> str:
    """Draw a tree, its regions shaded by their residual standard deviations; they link to ``#region-<id>``."""
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
