"""Plot of a tree: splits from left to right, one box per region."""

from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from usnrt.plotting._style import import_pyplot, new_axes
from usnrt.tree.rules import ModelWithTree, count_text, number_text, region_text, split_text
from usnrt.tree.structure import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar

Colour = str | tuple[float, float, float, float]

_FONT_SIZE = 9.0
_LINE = 1.35  # height of a line of text, in font sizes
_PAD = 0.6  # around the text of a box, in font sizes
_GAP = 3.2  # between columns of boxes, for the branches, in font sizes
_BETWEEN_LEAVES = 0.7  # in font sizes
_COLOUR_MAP = "cividis"  # perceptually uniform, also for colour-blind readers


def plot_tree(model: ModelWithTree, ax: "Axes | None" = None, *, decimals: int = 3) -> "Axes":
    """Draw a fitted tree: its splits, and the id, rule, rows and residual standard deviation of every region.

    The root is on the left. Rows that meet the condition of a split go up, the others down. The colour of a region
    shows the logarithm of its residual standard deviation, darker for smaller ones.

    Parameters
    ----------
    model : fitted estimator
        With ``tree_`` and ``columns_``, e.g. a `usnrt.USNRTRegressor`.
    ax : matplotlib.axes.Axes, optional
        By default those of a new figure of suitable size. In given axes the font size is reduced to fit.
    decimals : int, default=3
        Decimals of thresholds and standard deviations.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from usnrt.tables import Column
    >>> from usnrt.plotting.tree import plot_tree
    >>> from usnrt.tree import Split, TreeBuilder
    >>> builder = TreeBuilder(n_features=1)
    >>> split = Split(0, 2.5, None, True, -7.0, -11.2, 30, 10, 25)
    >>> for node, std in zip((builder.add_root(40), *builder.add_children(0, split)), (2.0, 1.0, 4.0)):
    ...     builder.set_residuals(node, 0.0, std)
    >>> model = SimpleNamespace(tree_=builder.build()[0], columns_=[Column("load", "numeric", "load")])
    >>> ax = plot_tree(model)
    >>> ax.texts[-1].get_text()
    'region 2: load > 2.5\\n10 rows (25.0 %), std 4'
    """
    import_pyplot()  # or one sentence that names what to install
    layout = _Layout(model, decimals)
    if ax is None:
        ax = new_axes(((layout.width + 60) / 72, (layout.height + 12) / 72))
    colours, bar = _leaf_colours(model.tree_, ax)
    font_size = layout.draw(ax, colours)
    if bar is not None:
        bar.ax.tick_params(labelsize=0.9 * font_size)
        bar.set_label("residual std", fontsize=font_size)
    return ax


class _Layout:
    """Positions of the boxes, in points at the full font size; x from the left, y from the top."""

    def __init__(self, model: ModelWithTree, decimals: int) -> None:
        tree = self.tree = model.tree_
        self.texts = [_box_text(model, node, decimals) for node in range(tree.n_nodes)]
        sizes = np.array([_size(text) for text in self.texts])
        is_leaf = tree.feature < 0
        # One column per depth for the splits, then one for all leaves; as wide as their widest text.
        column = np.where(is_leaf, tree.max_depth, tree.depth)
        widths = np.array([sizes[column == c, 0].max(initial=0.0) for c in range(tree.max_depth + 1)])
        starts = np.concatenate([[0.0], np.cumsum(widths + _GAP * _FONT_SIZE)])
        self.x, self.box_width = starts[column], widths[column]
        self.box_height = np.where(is_leaf, sizes[is_leaf, 1].max(), sizes[:, 1])
        # Splits of the same depth are at least two rows apart, so they may be higher than a row.
        row = max(sizes[is_leaf, 1].max(), sizes[:, 1].max() / 1.7) + _BETWEEN_LEAVES * _FONT_SIZE
        self.y = np.zeros(tree.n_nodes)
        for node in reversed(range(tree.n_nodes)):  # children have higher numbers
            if is_leaf[node]:
                self.y[node] = (tree.leaf_index[node] + 0.5) * row
            else:
                self.y[node] = (self.y[tree.left[node]] + self.y[tree.right[node]]) / 2
        self.width = float(starts[tree.max_depth] + widths[-1])
        self.height = float(tree.n_leaves * row)

    def draw(self, ax: "Axes", colours: list[Colour]) -> float:
        """Draw everything; returns the font size that fits."""
        from matplotlib.patches import Rectangle

        ax.set_xlim(-1, self.width + 1)
        ax.set_ylim(self.height, 0)
        ax.axis("off")
        font_size = _FONT_SIZE * min(1.0, self._room(ax))
        pad = _PAD * _FONT_SIZE
        for node, text in enumerate(self.texts):
            x, y, height = self.x[node], self.y[node], self.box_height[node]
            fill = colours[node] if self.tree.feature[node] < 0 else "white"
            ax.add_patch(
                Rectangle(
                    (x, y - height / 2), self.box_width[node], height, facecolor=fill, edgecolor="0.45", linewidth=0.8
                )
            )
            ax.text(
                x + pad, y, text, fontsize=font_size, va="center", color=_ink(fill), linespacing=1.15, parse_math=False
            )
            for child, label in ((self.tree.left[node], "yes"), (self.tree.right[node], "no")):
                if child >= 0:
                    self._branch(ax, node, int(child), label, font_size)
        return font_size

    def _branch(self, ax: "Axes", node: int, child: int, label: str, font_size: float) -> None:
        start = self.x[node] + self.box_width[node]
        bend = start + 0.3 * _GAP * _FONT_SIZE
        y, child_y = self.y[node], self.y[child]
        ax.plot([start, bend, bend, self.x[child]], [y, y, child_y, child_y], color="0.45", linewidth=0.8, zorder=0)
        alignment = "bottom" if label == "yes" else "top"
        ax.text(bend + 2, child_y, label, fontsize=0.8 * font_size, color="0.35", va=alignment)

    def _room(self, ax: "Axes") -> float:
        """Size of the axes relative to what the full font size needs."""
        figure = ax.get_figure(root=True)
        assert figure is not None
        figure.draw_without_rendering()  # computes the layout of the figure
        box = ax.get_window_extent()
        points = 72 / figure.dpi
        return min(box.width * points / (self.width + 2), box.height * points / self.height)


def _box_text(model: ModelWithTree, node: int, decimals: int) -> str:
    tree, columns = model.tree_, model.columns_
    if tree.feature[node] >= 0:
        condition = wrap(split_text(tree, node, columns, decimals=decimals), 26)
        return "\n".join([*condition, f"T = {tree.statistic[node]:.1f}"])
    rule = wrap(f"region {node}: {region_text(tree, node, columns, decimals=decimals)}", 52)
    share = tree.n_rows[node] / tree.n_rows[0]
    size = f"{count_text(tree.n_rows[node])} rows ({100 * share:.1f} %)"
    return "\n".join([*rule, f"{size}, std {number_text(tree.residual_std[node], decimals)}"])


def _size(text: str) -> tuple[float, float]:
    """Width and height of a box around a text, in points."""
    from matplotlib.textpath import TextPath

    lines = text.split("\n")
    # TextPath would interpret a pair of dollar signs as mathematics
    width = max(TextPath((0, 0), line.replace("$", "S"), size=_FONT_SIZE).get_extents().width for line in lines)
    # text is rendered a little wider than its path
    return 1.08 * width + 2 * _PAD * _FONT_SIZE, (len(lines) * _LINE + _PAD) * _FONT_SIZE


def _leaf_colours(tree: Tree, ax: "Axes") -> tuple[list[Colour], "Colorbar | None"]:
    """A colour for each node by the log residual standard deviation, and the scale beside the axes."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm

    colour_map = colormaps[_COLOUR_MAP]
    stds = tree.residual_std
    positive = stds[(tree.feature < 0) & np.isfinite(stds) & (stds > 0)]
    if len(positive) == 0 or positive.min() == positive.max():
        return ["0.9"] * tree.n_nodes, None
    norm = LogNorm(positive.min(), positive.max(), clip=True)
    bar = ax.figure.colorbar(ScalarMappable(norm, colour_map), ax=ax, fraction=0.03, pad=0.02, aspect=30)
    ticks = np.geomspace(positive.min(), positive.max(), 3)
    bar.set_ticks(ticks.tolist(), labels=[f"{tick:.3g}" for tick in ticks])
    bar.ax.minorticks_off()
    # a std of 0 gets the colour of the smallest, an unknown one is white
    return [colour_map(norm(std) if std > 0 else 0.0) if std >= 0 else "white" for std in stds.tolist()], bar


def _ink(fill: Colour) -> str:
    """Black or white, whichever has more contrast to a colour."""
    from matplotlib.colors import to_rgb

    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(fill))
    return "white" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.179 else "black"
