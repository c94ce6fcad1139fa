"""The paper's figures, drawn from the available records."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from usnrt.paper.datasets import SEEDS, get_spec, list_datasets
from usnrt_experiments.aggregate import Means
from usnrt_experiments.coverage.picture import draw_coverage
from usnrt_experiments.coverage.table import CoverageStudy
from usnrt_experiments.drawing import draw_region_stds, draw_stability
from usnrt_experiments.grid import Cell
from usnrt_experiments.rank_figure import draw_ranks
from usnrt_experiments.recipes import ALPHAS, LEAVES, STABILITY, STRUCTURES
from usnrt_experiments.store import Record, Store
from usnrt_experiments.trees import SPLIT_RESIDUALS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class FigureSpec:
    """A figure: title, caption, the function that draws it or returns None without records, and their recipes.

    Without recipes it is drawn from metrics alone, needs no predictions, and stands in a section of its own.
    """

    title: str
    caption: str
    draw: "Callable[[Store], Figure | None]"
    recipes: Sequence[str] = ("usnrt-paper",)


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
        raise ValueError(f"figure must be one of {list(FIGURES)}, got {name!r}")
    figure = FIGURES[name].draw(store)
    if figure is None:
        return None
    path = Path(folder) / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the date of drawing, equal records give equal bytes.
    figure.savefig(path, dpi=120, metadata={"Software": None})
    return path


STUDIES: tuple[tuple[str, Sequence[str | float], list[str]], ...] = (
    ("network architecture", list(STRUCTURES), [f"usnrt-paper-{name}" for name in STRUCTURES]),
    ("maximum number of regions", list(LEAVES), [f"usnrt-paper-leaves{n}" for n in LEAVES]),
    ("significance level", list(ALPHAS), [f"usnrt-paper-alpha{a}" for a in ALPHAS]),
)


def _stability(store: Store) -> "Figure | None":
    means = Means(store.records())
    names = [name for name in list_datasets() if any(means.metric(name, recipe, "ece") for recipe in STABILITY)]
    if not names:
        return None
    figure = _figure(12, 10)
    for row, (parameter, values, recipes) in zip(figure.subplots(3, 3), STUDIES):
        for ax, metric in zip(row, ("ece", "tce", "sharpness")):
            found = {name: [means.metric(name, recipe, metric) for recipe in recipes] for name in names}
            lines = {get_spec(n).title: [mean.value if mean else np.nan for mean in found[n]] for n in names}
            label = metric if metric == "sharpness" else metric.upper()
            drawn = draw_stability(ax, values, lines, parameter, label)
            ax.set_ylim(bottom=0)
    figure.legend(handles=drawn, loc="outside lower center", ncols=min(6, len(names)), frameon=False)
    return figure


def _variance_functions(store: Store) -> "Figure | None":
    from usnrt.plotting import VarianceFunctionDisplay

    keys = ("curve_x", "curve_std", "curve_leaf")
    known = _drawn(store, "usnrt-paper", *keys)
    if not known:
        return None
    figure, axes = _panels(len(known), columns=4, width=3.2, height=2.6)
    for index, (ax, (name, (tree, arrays))) in enumerate(zip(axes, known.items())):
        x, std, leaf = (arrays[key] for key in keys)
        VarianceFunctionDisplay.from_predictions(x, std, leaf, feature_name=tree["curve_feature"], ax=ax)
        ax.set_ylabel("predicted std" if index % 4 == 0 else "")
        ax.set_title(get_spec(name).title, fontsize=11)
    return figure


def _root_partitions(store: Store) -> "Figure | None":
    from usnrt.plotting import RootPartitionDisplay

    keys = ("root_x", "root_other", "root_residual")
    planes = _drawn(store, "usnrt-paper", *keys)
    known = {name: plane for name, plane in planes.items() if _has_both_sides(*plane)}
    if not known:
        return None
    figure, axes = _panels(len(known), columns=3, width=4.2, height=3.4)
    for ax, (name, (tree, arrays)) in zip(axes, known.items()):
        x, other, residual = (arrays[key].astype(float) for key in keys)
        shown = RootPartitionDisplay.from_predictions(
            x, other, residual, tree["root_threshold"], feature_name=tree["root_feature"],
            other_name=tree["root_other"], ax=ax,
        )  # fmt: skip
        # One colour bar for all panels, and the variances in the title instead of a legend: more room for the points.
        shown.colorbar_.remove()
        ax.get_legend().remove()
        spread = f"variance {shown.variance_left_:.2g} | {shown.variance_right_:.2g}"
        ax.set_title(f"{get_spec(name).title}: {spread}", fontsize=10.5)
        across, up = np.asarray(shown.points_.get_offsets()).T
        _leave_out_extremes(ax.set_xlim, across)
        _leave_out_extremes(ax.set_ylim, up)
    bar = figure.colorbar(shown.points_, ax=axes.tolist(), shrink=0.5, aspect=40, pad=0.01)
    bar.set_label("squared residual, by rank")
    return figure


def _has_both_sides(tree: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bool:
    left = arrays["root_x"] <= tree["root_threshold"]
    return bool(left.any() and not left.all())


def _leave_out_extremes(set_limits: Callable[[float, float], object], values: NDArray[np.float64]) -> None:
    low, high = np.quantile(values, [0.01, 0.99])
    if high > low:
        margin = 0.03 * (high - low)
        set_limits(low - margin, high + margin)


def _leaf_std(store: Store) -> "Figure | None":
    stds: dict[str, list[float]] = {}
    rows: dict[str, list[float]] = {}
    for name in list_datasets():
        meta = _meta(store, name, "usnrt-paper")
        tree = (meta or {}).get("tree") or {"leaf_residual_std": [], "leaf_rows": []}
        # A region without any error cannot be shown on a logarithmic axis.
        leaves = [pair for pair in zip(tree["leaf_residual_std"], tree["leaf_rows"]) if pair[0] > 0]
        if leaves:
            stds[get_spec(name).title], rows[get_spec(name).title] = map(list, zip(*leaves))
    if not stds:
        return None
    figure = _figure(max(5.0, 0.8 * len(stds) + 1.5), 4.2)
    ax = figure.subplots()
    draw_region_stds(ax, stds, rows)
    # The measure is of logarithms, and data sets differ by a factor of a thousand.
    ax.set_yscale("log")
    everything = [value for values in stds.values() for value in values]
    ax.set_ylim(min(everything) / 1.5, max(everything) * 1.5)
    return figure


def _ranks(store: Store) -> "Figure | None":
    return draw_ranks(Means(store.records()), "peers")


def _small_ranks(store: Store) -> "Figure | None":
    part = store.part("small")
    return draw_ranks(Means(part.records()), "small") if part else None


def _coverage(store: Store) -> "Figure | None":
    part = store.part("coverage")
    return draw_coverage(CoverageStudy(part.records())) if part else None


_RANKS = (
    "Average ranks of the models over data sets, 1 is best; ours in blue. Bars join models whose ranks differ by less "
    "than the critical difference of Nemenyi's test at the 5 % level."
)
FIGURES = {
    "stability": FigureSpec(
        "Stability",
        "ECE, TCE and sharpness (times 100) of USNRT with the paper's recipe, seed 42, over five network "
        "architectures, the maximum number of regions and the significance level; one line per data set.",
        _stability,
        STABILITY,
    ),
    "variance_functions": FigureSpec(
        "Variance functions",
        "Predicted standard deviation along the feature of the root's split, the others at their mean (categories at "
        "the most frequent); dotted lines: changes of region (paper's recipe, seed 42).",
        _variance_functions,
    ),
    "root_partitions": FigureSpec(
        "Root partitions",
        "Training rows in the plane of the root's feature and another, coloured by the rank of the squared residual "
        "of the root's splitting network; dashed: the split of the root (paper's recipe, seed 42); titles: variance of "
        "the residuals on either side. Axes omit the outermost per cent of rows; points of a feature with few values "
        "are spread sideways.",
        _root_partitions,
    ),
    "leaf_std": FigureSpec(
        "Standard deviations of the regions",
        "Standard deviation of the residuals in each region, on a logarithmic axis; larger marks for larger regions "
        "(paper's recipe, seed 42).",
        _leaf_std,
    ),
    "ranks": FigureSpec("Critical differences", _RANKS, _ranks, recipes=()),
    "small_ranks": FigureSpec("Critical differences on small tables", _RANKS, _small_ranks, recipes=()),
    "coverage": FigureSpec(
        "Coverage per group",
        "Largest deviation of a group's coverage from 90 %, per method and data set. Grey: up to the 95 % quantile of "
        "what exact coverage in every group would show with these numbers of test rows; line: its mean.",
        _coverage,
        recipes=(),
    ),
}


def caption_of(name: str, records: Iterable[Record]) -> str:
    """Caption of a figure, with what its records lack or have instead of what it describes."""
    more = {"root_partitions": _other_residuals, "stability": _sets_of_studies}.get(name)
    return FIGURES[name].caption + (more(list(records)) if more else "")


def _sets_of_studies(records: list[Record]) -> str:
    """On how many data sets every value of a parameter was run, and on how many only some."""
    means = Means(records)
    parts = []
    for parameter, _, recipes in STUDIES:
        run = [sum(means.metric(name, recipe, "ece") is not None for recipe in recipes) for name in list_datasets()]
        complete = sum(number == len(recipes) for number in run)
        some = sum(0 < number < len(recipes) for number in run)
        parts.append(f"{parameter} {complete}" + (f" (and {some} with some of the values)" if some else ""))
    return f" Data sets: {', '.join(parts)}."


def _other_residuals(records: list[Record]) -> str:
    trees = {
        record.cell.dataset: record.meta.get("tree") or {}
        for record in records
        if record.status == "done" and (record.cell.recipe, record.cell.seed) == ("usnrt-paper", SEEDS[0])
    }
    other = [
        get_spec(dataset).title
        for dataset in list_datasets()
        if "root_feature" in trees.get(dataset, {}) and trees[dataset].get("root_residuals_of") != SPLIT_RESIDUALS
    ]
    return f" Test rows and residuals of the predicted mean instead: {', '.join(other)}." if other else ""


def _meta(store: Store, dataset: str, recipe: str) -> dict[str, Any] | None:
    try:
        record: Record = store.read(Cell(dataset, recipe, SEEDS[0]))
    except (KeyError, ValueError):
        return None
    return record.meta if record.status == "done" else None


def _drawn(store: Store, recipe: str, *keys: str) -> dict[str, tuple[dict[str, Any], dict[str, NDArray[Any]]]]:
    """Facts about the tree of each data set's record, and its arrays, if they include those that are named.

    Empty if any record has lost its arrays, as in a clone of the results: the picture of all of them stays.
    """
    found = {}
    for name in list_datasets():
        meta = _meta(store, name, recipe)
        if meta and meta.get("tree"):
            try:
                arrays = store.predictions(Cell(name, recipe, SEEDS[0]))
            except KeyError:
                return {}
            if all(key in arrays for key in keys):
                found[name] = meta["tree"], arrays
    return found


def _figure(width: float, height: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'usnrt[plot]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def _panels(count: int, columns: int, width: float, height: float) -> tuple["Figure", NDArray[Any]]:
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = _figure(width * columns, height * rows + 0.4)
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for ax in axes[count:]:
        ax.set_axis_off()
    return figure, axes
