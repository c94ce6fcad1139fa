"""Critical-difference pictures: average ranks of the models, joined where they are not distinguished."""

from typing import TYPE_CHECKING

import numpy as np

from usnrt_experiments.aggregate import Means
from usnrt_experiments.models import OURS
from usnrt_experiments.ranks import Ranking, largest_complete, ranking
from usnrt_experiments.versus import METRICS, comparison_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Nemenyi's test needs several data sets to distinguish anything.
MIN_SETS = 4
REQUIRED = "USNRT fast"


def complete_ranking(means: Means, metric: str, collection: str) -> Ranking | None:
    """Ranks of the models with complete records: the most models times data sets on which all were run.

    Values are means over the splits that all of these models share on a data set.

    Parameters
    ----------
    means : Means
    metric : {"crps", "nll", "rmse", "ece"}
    collection : {"peers", "small"}

    Returns
    -------
    Ranking, or None with fewer than 3 models or 4 data sets
    """
    table = comparison_of(metric, collection)
    known = {
        model.label: {name for name in table.datasets if means.seeds(name, model.default_recipe, metric)}
        for model in table.models
    }
    models, datasets = largest_complete(known, REQUIRED)
    rows = {name: table.fair_values(means, name, "default", among=models) for name in datasets}
    rows = {name: row for name, row in rows.items() if len(row) == len(models)}
    return ranking(rows, models) if len(models) >= 3 and len(rows) >= MIN_SETS else None


def draw_ranks(means: Means, collection: str) -> "Figure | None":
    """One critical-difference diagram per metric; None without enough complete records."""
    from matplotlib.figure import Figure

    found = {metric: complete_ranking(means, metric, collection) for metric in METRICS}
    known = {metric: each for metric, each in found.items() if each is not None}
    if not known:
        return None
    n_lines = max((len(each.models) + 1) // 2 for each in known.values())
    n_rows = (len(known) + 1) // 2
    figure = Figure(figsize=(14, n_rows * (0.25 * n_lines + 1.5)), layout="constrained")
    axes = np.atleast_1d(figure.subplots(n_rows, 2 if len(known) > 1 else 1)).ravel()
    for ax, (metric, each) in zip(axes, known.items()):
        _diagram(ax, each, metric.upper())
    for ax in axes[len(known) :]:
        ax.set_axis_off()
    return figure


def _diagram(ax: "Axes", found: Ranking, title: str) -> None:
    """The axis of ranks on top, names at both sides, bars over models that are not distinguished."""
    n_models, order = len(found.models), np.argsort(found.ranks, kind="stable")
    ranks = found.ranks[order]
    cliques = found.cliques()
    top = 0.55 * len(cliques) + 0.6  # where the first name is
    ax.set_axis_off()
    ax.set_xlim(1 - 0.5 * (n_models - 1), n_models + 0.5 * (n_models - 1))
    ax.set_ylim(top + (n_models + 1) // 2 + 0.1, -3.0)
    ax.plot([1, n_models], [0, 0], color="black", lw=1.2)
    for rank in range(1, n_models + 1):
        ax.plot([rank, rank], [0, -0.18], color="black", lw=1.0)
        ax.text(rank, -0.3, str(rank), ha="center", va="bottom", fontsize=8.5)
    for height, (start, end) in enumerate(cliques):
        y = 0.45 + 0.55 * height
        ax.plot([ranks[start] - 0.06, ranks[end] + 0.06], [y, y], color="0.3", lw=3.5, solid_capstyle="round")
    half = (n_models + 1) // 2
    for place, (index, rank) in enumerate(zip(order, ranks)):
        on_left = place < half
        y = top + (place if on_left else n_models - 1 - place)
        edge = 1 - 0.05 * n_models if on_left else n_models + 0.05 * n_models
        name = found.models[index]
        is_ours = name in OURS
        colour = "#0072B2" if is_ours else "0.25"
        ax.plot([rank, rank, edge], [0, y, y], color=colour, lw=1.5 if is_ours else 0.8)
        text = f"{name}  {rank:.1f}" if on_left else f"{rank:.1f}  {name}"
        side, shift = ("right", -0.08) if on_left else ("left", 0.08)
        weight = "bold" if is_ours else "normal"
        ax.text(edge + shift, y, text, ha=side, va="center", fontsize=8.8, color=colour, weight=weight)
    width = min(found.critical_difference, n_models - 1)
    ax.plot([1, 1 + width], [-1.35, -1.35], color="black", lw=1.5, marker="|", ms=7)
    ax.text(1 + width + 0.15, -1.35, f"critical difference {found.critical_difference:.1f}", va="center", fontsize=8.5)
    p = "p < 0.001" if found.p_value < 0.001 else f"p = {found.p_value:.3f}"
    facts = f"{title}: average ranks over {len(found.datasets)} data sets (Friedman {p})"
    ax.text((1 + n_models) / 2, -2.35, facts, ha="center", va="center", fontsize=10.5)
