"""The paper's figures, drawn from the records that are there."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.bench.aggregate import Means
from usnrt.bench.grid import Cell
from usnrt.bench.recipes import ALPHAS, LEAVES, STRUCTURES
from usnrt.bench.store import Record, Store
from usnrt.datasets import SEEDS, get_spec, list_datasets

MARKERS = "osD^v<>pPX*hdosD^v"


@dataclass(frozen=True)
class Picture:
    """A figure: its title, what it shows, and the function that draws it or gives None without records."""

    title: str
    caption: str
    draw: Callable[[Store], Any]


def draw(name: str, store: Store, folder: str | Path) -> Path | None:
    """Draw a figure by name into a folder.

    Parameters
    ----------
    name : str
        One of ``FIGURES``.
    store : Store
    folder : path
        Made when it does not exist.

    Returns
    -------
    Path of the PNG file, or None when there are no records to draw from
    """
    if name not in FIGURES:
        raise ValueError(f"figure must be one of {list(FIGURES)}, however: figure={name!r}")
    figure = FIGURES[name].draw(store)
    if figure is None:
        return None
    path = Path(folder) / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the date of drawing, equal records give equal bytes.
    figure.savefig(path, dpi=120, metadata={"Software": None})
    return path


def _stability(store: Store) -> Any:
    means = Means(store.records())
    studies: list[tuple[str, list[str], list[str]]] = [
        ("network structure", list(STRUCTURES), [f"usnrt-paper-{name}" for name in STRUCTURES]),
        ("number of leaves at most", [str(n) for n in LEAVES], [f"usnrt-paper-leaves{n}" for n in LEAVES]),
        ("significance level", [f"{a:g}" for a in ALPHAS], [f"usnrt-paper-alpha{a}" for a in ALPHAS]),
    ]
    names = [n for n in list_datasets() if any(means.metric(n, r, "ece") for _, _, recipes in studies for r in recipes)]
    if not names:
        return None
    figure = _figure(12, 10.5)
    axes = figure.subplots(3, 3)
    for row, (label, ticks, recipes) in zip(axes, studies):
        for ax, metric in zip(row, ("ece", "tce", "sharpness")):
            for name in names:
                found = [means.metric(name, recipe, metric) for recipe in recipes]
                values = [mean.value if mean else np.nan for mean in found]
                ax.plot(range(len(ticks)), values, color=_colour(name), marker=_marker(name), markersize=4, lw=1.2)
            ax.set_xticks(range(len(ticks)), ticks)
            ax.set_xlabel(label)
            ax.set_title(metric.upper() if metric != "sharpness" else "Sharpness", fontsize=11)
            ax.set_ylim(bottom=0)
            _clean(ax)
    _legend(figure, names)
    return figure


def _variance_functions(store: Store) -> Any:
    curves = {
        name: {recipe: _drawn(store, name, recipe, "curve_x", "curve_std") for recipe in ("usnrt-paper", "usnrt")}
        for name in list_datasets()
    }
    names = [name for name, found in curves.items() if any(found.values())]
    if not names:
        return None
    figure, axes = _panels(len(names), columns=4, width=3.2, height=2.6)
    labels = {"usnrt-paper": "paper's recipe", "usnrt": "default"}
    for ax, name in zip(axes, names):
        for recipe, colour in (("usnrt-paper", "tab:blue"), ("usnrt", "tab:orange")):
            if found := curves[name][recipe]:
                meta, arrays = found
                ax.plot(arrays["curve_x"], arrays["curve_std"], color=colour, lw=1.5, label=labels[recipe])
                ax.set_xlabel(meta["curve_feature"])
        ax.set_title(get_spec(name).title, fontsize=11)
        ax.set_ylim(bottom=0)
        _clean(ax)
    axes[0].set_ylabel("predicted std")
    handles, shown = max((ax.get_legend_handles_labels() for ax in axes[: len(names)]), key=lambda pair: len(pair[0]))
    figure.legend(handles, shown, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _root_partitions(store: Store) -> Any:
    from scipy.stats import rankdata

    found = {
        name: _drawn(store, name, "usnrt-paper", "root_x", "root_other", "root_residual") for name in list_datasets()
    }
    planes = {name: plane for name, plane in found.items() if plane}
    if not planes:
        return None
    figure, axes = _panels(len(planes), columns=3, width=4.2, height=3.4)
    for ax, (name, (meta, arrays)) in zip(axes, planes.items()):
        x, other, residual = (arrays[key].astype(float) for key in ("root_x", "root_other", "root_residual"))
        depth = rankdata(residual**2) / len(residual)
        points = ax.scatter(x, other, c=depth, cmap="viridis_r", s=7, linewidths=0, alpha=0.8)
        cut = meta["root_threshold"]
        ax.axvline(cut, color="crimson", linestyle="--", lw=1.5)
        left = x <= cut
        spread = [f"{residual[side].std():.2f}" if side.any() else "none" for side in (left, ~left)]
        ax.set_title(f"{get_spec(name).title}: std {spread[0]} | {spread[1]}", fontsize=10)
        ax.set_xlabel(meta["root_feature"])
        ax.set_ylabel(meta["root_other"])
        for which, values in (("x", x), ("y", other)):
            _quantile_limits(ax, which, values)
        _clean(ax)
    bar = figure.colorbar(points, ax=axes.tolist(), shrink=0.5, aspect=40, pad=0.01)
    bar.set_label("rank of the squared residual")
    return figure


def _leaf_std(store: Store) -> Any:
    trees = {}
    for name in list_datasets():
        meta = _meta(store, name, "usnrt-paper")
        if meta and meta.get("tree"):
            trees[name] = meta["tree"]["leaf_residual_std"]
    if not trees:
        return None
    figure = _figure(max(5.0, 0.85 * len(trees) + 1.5), 4.2)
    ax = figure.subplots()
    for place, (name, spread) in enumerate(trees.items()):
        ax.vlines(place, min(spread), max(spread), color="0.8", lw=1, zorder=1)
        ax.scatter([place] * len(spread), spread, marker=_marker(name), color=_colour(name), s=34, zorder=2)
    ax.set_xticks(range(len(trees)), [get_spec(name).title for name in trees], rotation=35, ha="right")
    ax.set_yscale("log")
    ax.set_ylabel("residual std of a leaf")
    _clean(ax)
    return figure


FIGURES = {
    "stability": Picture(
        "Stability",
        "ECE, TCE and sharpness (times 100) of USNRT with the paper's recipe, seed 42, over five network structures, "
        "the largest number of leaves and the significance level; a line is a data set.",
        _stability,
    ),
    "variance_functions": Picture(
        "Variance functions",
        "Predicted standard deviation along the feature that the root splits, the others held at their mean "
        "(categories at the most frequent), seed 42.",
        _variance_functions,
    ),
    "root_partitions": Picture(
        "Root partitions",
        "Test rows in the plane of the root's feature and another, coloured by the rank of their squared residual; "
        "dashed is the cut at the root (paper's recipe, seed 42), and titles give the residuals' standard deviation "
        "on either side. Axes leave out the outermost per cent of rows.",
        _root_partitions,
    ),
    "leaf_std": Picture(
        "Leaf standard deviations",
        "Standard deviation of the residuals in each leaf (paper's recipe, seed 42).",
        _leaf_std,
    ),
}


def _meta(store: Store, dataset: str, recipe: str) -> dict[str, Any] | None:
    try:
        record: Record = store.read(Cell(dataset, recipe, SEEDS[0]))
    except (KeyError, ValueError):
        return None
    return record.meta if record.status == "done" else None


def _drawn(
    store: Store, dataset: str, recipe: str, *keys: str
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
    """What a cell's record says of its tree, with the named arrays; None when any is missing."""
    meta = _meta(store, dataset, recipe)
    if not meta or not meta.get("tree"):
        return None
    try:
        arrays = store.predictions(Cell(dataset, recipe, SEEDS[0]))
    except KeyError:
        return None
    return (meta["tree"], arrays) if all(key in arrays for key in keys) else None


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'usnrt[plot]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def _panels(count: int, columns: int, width: float, height: float) -> tuple[Any, NDArray[Any]]:
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = _figure(width * columns, height * rows + 0.4)
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for ax in axes[count:]:
        ax.set_axis_off()
    return figure, axes


def _colour(name: str) -> Any:
    from matplotlib import colormaps

    return colormaps["tab20"](list_datasets().index(name) % 20)


def _marker(name: str) -> str:
    return MARKERS[list_datasets().index(name)]


def _legend(figure: Any, names: list[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=_colour(n), marker=_marker(n), label=get_spec(n).title) for n in names]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(6, len(names)), frameon=False)


def _quantile_limits(ax: Any, which: str, values: NDArray[np.float64]) -> None:
    low, high = np.quantile(values, [0.01, 0.99])
    if high > low:
        margin = 0.03 * (high - low)
        getattr(ax, f"set_{which}lim")(low - margin, high + margin)


def _clean(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25)
