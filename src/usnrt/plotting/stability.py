"""A metric against a hyperparameter, one line per data set."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from usnrt.plotting._style import COLOURS, LINE_STYLES, MARKERS, Display, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class StabilityDisplay(Display):
    """A metric against a hyperparameter, one line per data set.

    Parameters
    ----------
    values : sequence of k numbers or names
        Values of the hyperparameter.
    results : mapping of name to array-like of shape (k,) or (k, repeats)
        The metric of each data set; for repeats (seeds) the mean, with a band of one standard error.
    parameter, metric : str
        Names for the axes.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from usnrt.plotting import StabilityDisplay
    >>> sweep = {"power": [3.0, 2.0, 1.8, 1.9], "beijing": [4.0, 3.1, 3.0, 3.0]}
    >>> display = StabilityDisplay([1, 2, 4, 8], sweep, parameter="regions", metric="ECE (%)").plot()
    >>> display.ax_.get_xscale(), len(display.lines_)
    ('log', 2)
    """

    def __init__(
        self,
        values: Sequence[str | float],
        results: Mapping[str, ArrayLike],
        *,
        parameter: str = "parameter",
        metric: str = "metric",
    ) -> None:
        self.values = list(values)
        self.results = {name: np.asarray(result, dtype=np.float64) for name, result in results.items()}
        self.parameter = parameter
        self.metric = metric

    @classmethod
    def from_predictions(
        cls, values: Sequence[str | float], results: Mapping[str, ArrayLike], *, ax: "Axes | None" = None, **names: str
    ) -> Self:
        """Draw results; arguments as in the class."""
        return cls(values, results, **names).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on ``ax``, by default on a new figure."""
        if not self.results:
            raise ValueError("results must name at least one data set, got none")
        for name, result in self.results.items():
            if result.ndim not in (1, 2) or len(result) != len(self.values):
                count = len(self.values)
                raise ValueError(f"results must have one entry per value ({count}), got {result.shape} for {name}")
        ax = self._start(ax, (6.0, 3.8))
        position = self._scale(ax)
        self.lines_ = []
        for k, (name, result) in enumerate(self.results.items()):
            mean = result if result.ndim == 1 else result.mean(axis=1)
            colour = COLOURS[k % (len(COLOURS) - 1)]
            style = LINE_STYLES[k // (len(COLOURS) - 1) % len(LINE_STYLES)]
            (line,) = ax.plot(
                position, mean, color=colour, linestyle=style, marker=MARKERS[k % len(MARKERS)], markersize=4.5,
                linewidth=1.4, label=name,
            )  # fmt: skip
            self.lines_.append(line)
            if result.ndim == 2 and result.shape[1] > 1:
                error = result.std(axis=1, ddof=1) / np.sqrt(result.shape[1])
                ax.fill_between(position, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0)
        ax.set_xlabel(self.parameter)
        ax.set_ylabel(self.metric)
        if len(self.results) > 1:
            many = len(self.results) > 5
            legend_position = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)} if many else {"loc": "best"}
            legend(ax, **legend_position)
        return self

    def _scale(self, ax: "Axes") -> list[float]:
        """Positions of the values: names side by side, numbers to scale, on a log axis if they span a wide range."""
        numbers = all(isinstance(value, int | float | np.number) for value in self.values)
        if not numbers:
            ax.set_xticks(range(len(self.values)), [str(value) for value in self.values])
            return [float(position) for position in range(len(self.values))]
        position = [float(value) for value in self.values]
        if min(position) > 0 and max(position) / min(position) >= 8:
            ax.set_xscale("log")
            ax.set_xticks(position, [f"{value:g}" for value in position])
            ax.minorticks_off()
        return position
