"""Sorted interval plot: targets and their intervals, misses marked."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike

from usnrt.distributions.base import check_levels
from usnrt.metrics.forecast import Given, as_forecast, check_truth
from usnrt.metrics.intervals import contains, is_infinite
from usnrt.metrics.models import distribution_and_interval
from usnrt.metrics.registry import AnyForecast, evaluated_rows
from usnrt.plotting._style import BLUE, RED, Display, legend, name_of, percent
from usnrt.utils.constraints import check_choice, check_whole
from usnrt.utils.notices import share_text
from usnrt.utils.types import Floats, TableLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SORTS = ("median", "width", "outcome")


@dataclass(eq=False, repr=False)
class IntervalDisplay(Display):
    """Sorted intervals with the targets: hits in grey, misses in colour.

    Parameters
    ----------
    y_true : ndarray of shape (n,)
    median : ndarray of shape (n,)
    interval : ndarray of shape (n, 2)
    coverage : float
        Nominal coverage of the intervals.
    target_name : str
        For the vertical axis.
    name : str or None
        Title.

    Attributes
    ----------
    rows_ : ndarray of int
        Rows drawn, in order.
    hits_, misses_ : matplotlib Line2D
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.plotting import IntervalDisplay
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=500)
    >>> display = IntervalDisplay.from_predictions(rng.normal(mean), mean=mean, std=np.ones(500), max_rows=100)
    >>> display.ax_.get_title()
    '90 % intervals contain 91 % of 500 targets'
    """

    y_true: Floats
    median: Floats
    interval: Floats
    coverage: float
    target_name: str = "target"
    name: str | None = None

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        forecast: AnyForecast = None,
        *,
        coverage: float = 0.9,
        target_name: str | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
        sort_by: str = "median",
        max_rows: int = 200,
        **given: Unpack[Given],
    ) -> Self:
        """Draw the intervals of a forecast, given as in :func:`usnrt.metrics.as_forecast`; options as in :meth:`plot`.

        ``target_name`` is by default the name of ``y_true``, if it is a column of a data frame.
        """
        check_levels(coverage, "coverage")
        rows = replace(evaluated_rows(y_true, forecast, **given), coverage=coverage)
        median = rows.forecast.quantile(np.array([0.5]))[:, 0]
        target = name_of(y_true, "target") if target_name is None else target_name
        made = cls(rows.y, median, rows.interval, coverage, target, name)
        return made.plot(ax, sort_by=sort_by, max_rows=max_rows)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: TableLike, y: ArrayLike, *, coverage: float = 0.9, **options: Any
    ) -> Self:
        """Draw the intervals of a fitted model: those of its ``predict_interval``, if it has the method.

        Options as in :meth:`from_predictions`; the title starts with ``name``, by default the name of the class.
        """
        plot = {key: options.pop(key) for key in ("ax", "sort_by", "max_rows") if key in options}
        target = options.pop("target_name", None)
        name = options.pop("name", type(estimator).__name__)
        if options:
            raise TypeError(f"options must be those of from_predictions, got {sorted(options)[0]}=")
        check_levels(coverage, "coverage")
        dist, bounds = distribution_and_interval(estimator, X, [coverage])
        target = name_of(y, "target") if target is None else target
        truth = check_truth(y, as_forecast(dist))
        return cls(truth, dist.ppf(0.5), bounds[:, :, 0], coverage, target, name).plot(**plot)

    def plot(self, ax: "Axes | None" = None, *, sort_by: str = "median", max_rows: int = 200) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            By default those of a new figure.
        sort_by : {"median", "width", "outcome"}, default="median"
            Order of the rows from left to right.
        max_rows : int, default=200
            Maximum number of rows to show, evenly spaced; the title counts all rows.
        """
        check_choice("sort_by", sort_by, _SORTS)
        check_whole("max_rows", max_rows, 1)
        ax = self._start(ax, (6.4, 3.6))
        low, high = self.interval[:, 0], self.interval[:, 1]
        key = {"median": self.median, "width": high - low, "outcome": self.y_true}[sort_by]
        order = np.argsort(key, kind="stable")
        if order.size > max_rows:
            order = order[np.linspace(0, order.size - 1, max_rows).round().astype(int)]
        self.rows_ = order
        position = np.arange(order.size)
        inside = contains(self.interval, self.y_true)
        hit = inside[order]
        ax.vlines(
            position,
            low[order],
            high[order],
            color=BLUE,
            alpha=0.3,
            linewidth=max(1.0, 330 / order.size),
            label="interval",
        )
        # A line through medians in another order would be unreadable.
        style = {"linewidth": 1.2} if sort_by == "median" else {"linestyle": "", "marker": "_", "markersize": 5}
        ax.plot(position, self.median[order], color=BLUE, label="median", **style)
        size = 4.0 if order.size > 60 else 5.5
        target = self.y_true[order]
        (self.hits_,) = ax.plot(
            position[hit], target[hit], "o", color="#444444", markersize=size - 1, label="inside", mew=0
        )
        (self.misses_,) = ax.plot(position[~hit], target[~hit], "D", color=RED, markersize=size, label="outside", mew=0)
        ax.set_xlim(-1, order.size)
        _limit_to_finite(ax, low[order], high[order], target)
        shown = f"{order.size} of {key.size} rows" if order.size < key.size else f"{key.size} rows"
        ax.set_xlabel(f"{shown}, by {sort_by}")
        ax.set_ylabel(self.target_name)
        title = f"{percent(self.coverage)} intervals contain {percent(float(inside.mean()))} of {key.size} targets"
        infinite = float(is_infinite(self.interval).mean())
        if infinite:
            title += f"; {share_text(infinite)} are infinite"
        ax.set_title(f"{self.name}: {title}" if self.name else title, fontsize=10)
        ax.grid(False, axis="x")
        legend(ax, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=4)
        return self


def _limit_to_finite(ax: "Axes", *values: Floats) -> None:
    """Limit the axis to finite values; infinite ends occur with too few calibration rows."""
    finite = np.concatenate([v[np.isfinite(v)] for v in values])
    room = 0.06 * (finite.max() - finite.min()) or 1.0
    ax.set_ylim(finite.min() - room, finite.max() + room)
