"""Drawings of several data sets on one Axes: a metric against a hyperparameter, and spreads of regions."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from usnrt.plotting._style import COLOURS, GREY, LINE_STYLES, MARKERS, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


def draw_stability(
    ax: "Axes", values: Sequence[str | float], results: Mapping[str, Sequence[float]], parameter: str, metric: str
) -> "list[Line2D]":
    """Draw a metric against a hyperparameter, one line per data set; returns the lines.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    values : sequence of k numbers or names
        Values of the hyperparameter.
    results : mapping of data set to sequence of k float
    parameter, metric : str
        Names for the axes.
    """
    tidy(ax)
    position, lines = _positions(ax, values), []
    for k, (name, result) in enumerate(results.items()):
        lines += ax.plot(
            position, result, color=COLOURS[k % (len(COLOURS) - 1)], marker=MARKERS[k % len(MARKERS)], markersize=4.5,
            linestyle=LINE_STYLES[k // (len(COLOURS) - 1) % len(LINE_STYLES)], linewidth=1.4, label=name,
        )  # fmt: skip
    ax.set_xlabel(parameter)
    ax.set_ylabel(metric)
    return lines


def _positions(ax: "Axes", values: Sequence[str | float]) -> list[float]:
    """Positions of the values: names side by side, numbers to scale, on a log axis if they span a wide range."""
    if any(isinstance(value, str) for value in values):
        ax.set_xticks(range(len(values)), [str(value) for value in values])
        return [float(position) for position in range(len(values))]
    position = [float(value) for value in values]
    if min(position) > 0 and max(position) / min(position) >= 8:
        ax.set_xscale("log")
        ax.set_xticks(position, [f"{value:g}" for value in position])
        ax.minorticks_off()
    return position


def draw_region_stds(ax: "Axes", stds: Mapping[str, ArrayLike], rows: Mapping[str, ArrayLike]) -> None:
    """Draw one column of markers per data set, one marker per region; below each name the heterogeneity.

    The heterogeneity is the standard deviation of the logarithms, the paper's measure.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    stds : mapping of data set to array-like of shape (n_regions,)
        Residual standard deviations of the regions, positive.
    rows : mapping of data set to array-like of shape (n_regions,)
        Rows of the regions: larger markers for larger regions.
    """
    tidy(ax)
    names, many = [], len(stds) > 6
    for k, (name, values) in enumerate((name, np.asarray(values, dtype=np.float64)) for name, values in stds.items()):
        count = np.asarray(rows[name], dtype=np.float64)
        ax.scatter(
            np.full(values.size, k), values, s=25.0 + 130.0 * count / count.max(), marker=MARKERS[k % len(MARKERS)],
            color=COLOURS[k % (len(COLOURS) - 1)], alpha=0.75, linewidths=0.6, edgecolors="white", zorder=3,
        )  # fmt: skip
        ax.plot([k, k], [values.min(), values.max()], color=GREY, linewidth=0.8, zorder=1)
        names.append(f"{name}{' ' if many else chr(10)}({np.log(values).std():.2f})")
    slant: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if many else {}
    ax.set_xticks(range(len(names)), names, **slant)
    ax.set_xlim(-0.6, len(names) - 0.4)
    ax.set_xlabel("data set (heterogeneity: std of log std)")
    ax.set_ylabel("residual std of the region")
    ax.grid(False, axis="x")
