"""The picture of the study: the worst group of each method on every data set, beside what chance gives."""

from typing import TYPE_CHECKING

import numpy as np

from usnrt_experiments.coverage.cell import OURS
from usnrt_experiments.coverage.table import LABELS, WAYS, CoverageStudy
from usnrt_experiments.grid import title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours of the Okabe-Ito palette and shapes, so that methods can be told apart without colour.
STYLES = {
    OURS: ("#0072B2", "o"),
    "mapie-split": ("#D55E00", "s"),
    "mapie-cqr": ("#E69F00", "^"),
    "crepes-normalised": ("#009E73", "D"),
    "crepes-mondrian": ("#CC79A7", "v"),
}


def draw_coverage(study: CoverageStudy) -> "Figure | None":
    """Two panels, regions and neutral groups; None without records."""
    from matplotlib.figure import Figure

    names = study.datasets
    if not names:
        return None
    figure = Figure(figsize=(11, 0.36 * len(names) + 2.2), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(WAYS), sharey=True, sharex=True))
    for ax, (way, what) in zip(axes, WAYS.items()):
        for place, dataset in enumerate(names):
            first = study.groups(dataset, OURS, way)
            if first is None:
                continue
            ax.barh(place, first.chance.worst_95, height=0.8, color="0.88", zorder=1)
            ax.plot([first.chance.worst] * 2, [place - 0.4, place + 0.4], color="0.55", lw=1.5, zorder=2)
            for offset, (name, (colour, shape)) in zip(np.linspace(-0.26, 0.26, len(STYLES)), STYLES.items()):
                found = study.groups(dataset, name, way)
                if found is not None:
                    size = 7.5 if name == OURS else 5.5
                    ax.plot(found.worst, place + offset, shape, color=colour, ms=size, mec="white", mew=0.6, zorder=3)
        ax.set_title(what[0].upper() + what[1:], fontsize=11)
        ax.set_xlabel("largest deviation from 90 % coverage, percentage points")
        ax.grid(axis="x", color="0.93", zorder=0)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_xlim(left=0)
    axes[0].set_yticks(range(len(names)), [title_of(name) for name in names])
    axes[0].set_ylim(len(names) - 0.4, -0.6)
    _legend(figure)
    return figure


def _legend(figure: "Figure") -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Line2D([], [], marker=shape, color=colour, ls="", ms=7, mec="white", label=LABELS[name])
        for name, (colour, shape) in STYLES.items()
    ]
    extra = [
        Line2D([], [], color="0.55", lw=1.5, label="expected by chance"),
        Patch(color="0.88", label="95 % of chance"),
    ]
    figure.legend(handles=[*handles, *extra], loc="outside lower center", ncols=7, frameon=False, fontsize=9)
