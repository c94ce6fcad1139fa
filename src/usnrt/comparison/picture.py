"""The picture of a comparison: CRPS differences, coverage, and time, one row per model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from usnrt.comparison.models import OURS
from usnrt.metrics.differences import Z
from usnrt.plotting._style import BLUE, GREY, RED, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from usnrt.comparison.result import Comparison


def draw(comparison: "Comparison", ax: Sequence["Axes"] | None = None) -> "Figure":
    """Draw a comparison on three Axes, those of a new figure if none are given."""
    comparison._need_one()
    n = comparison.n_done
    if ax is None:
        ax = _new_axes(n)
    if len(ax) != 3:
        raise ValueError(f"ax must be 3 Axes, got {len(ax)}")
    names = [entry.name for entry in comparison.entries[:n]]
    for each in ax:
        tidy(each)
        each.grid(False, axis="y")
        each.set_ylim(n - 0.5, -0.5)
        each.set_yticks(range(n), labels=[])
    ax[0].set_yticks(range(n), labels=names)
    for label in ax[0].get_yticklabels():
        label.set_fontweight("bold" if label.get_text() in OURS else "normal")
    _draw_crps(ax[0], comparison)
    _draw_coverage(ax[1], comparison)
    _draw_seconds(ax[2], comparison)
    figure: Figure = ax[0].figure  # type: ignore[assignment]
    return figure


def _new_axes(n: int) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'usnrt[plot]'") from error
    figure = Figure(figsize=(11, 1.3 + 0.34 * n), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots(1, 3, width_ratios=(1.5, 1.2, 1))


def _draw_crps(ax: "Axes", comparison: "Comparison") -> None:
    table, rows = comparison.table, np.arange(comparison.n_done)
    crps, error, tie = (table[name][: comparison.n_done] for name in ("crps", "std_error", "tie"))
    for row in rows:
        colour = BLUE if tie[row] else GREY
        ax.errorbar(crps[row], row, xerr=Z * error[row], fmt="o", color=colour, capsize=3, lw=1.4, ms=5)
    ax.axvline(crps[0], color=BLUE, lw=0.8, ls=":")
    ax.set_xlabel("CRPS (smaller is better)")
    ax.set_title("bars: 95 % interval of the difference to the best; blue: best or tied", fontsize=9, loc="left")


def _draw_coverage(ax: "Axes", comparison: "Comparison") -> None:
    from matplotlib.ticker import PercentFormatter

    table, nominal = comparison.table, comparison.coverage
    for row in range(comparison.n_done):
        coverage, gap = float(table["coverage"][row]), float(table["worst_gap"][row])
        ax.plot([coverage, nominal + gap], [row, row], color=GREY, lw=1)
        ax.plot(coverage, row, "o", color=BLUE, ms=5, label="all rows" if row == 0 else None)
        ax.plot(nominal + gap, row, "d", color=RED, ms=4.5, label="worst region" if row == 0 else None)
    ax.axvline(nominal, color="0.3", lw=0.8, ls="--")
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    ax.set_xlabel(f"coverage of {100 * nominal:g} % intervals")
    ax.legend(frameon=False, fontsize=8, ncols=2, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.1)


def _draw_seconds(ax: "Axes", comparison: "Comparison") -> None:
    rows = np.arange(comparison.n_done)
    seconds = np.maximum(comparison.table["fit_seconds"][: comparison.n_done], 1e-3)
    ax.hlines(rows, 5e-4, seconds, color="0.85", lw=5)
    ax.plot(seconds, rows, "o", color=GREY, ms=5)
    ax.set_xscale("log")
    ax.set_xlim(5e-4, max(seconds.max() * 2, 1e-1))
    ax.set_xlabel("processor seconds to fit" + (", per fold" if len(comparison.splits.folds) > 1 else ""))
