"""Plots of calibration: PIT histograms, reliability diagrams, and sharpness against calibration."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike

from usnrt.distributions import Distribution
from usnrt.metrics.calibration import mean_gap, pit, reliability
from usnrt.metrics.evaluate import evaluate
from usnrt.metrics.forecast import Given
from usnrt.metrics.groups import ece_by_chance
from usnrt.metrics.models import distribution_of
from usnrt.metrics.registry import AnyForecast
from usnrt.plotting._style import (
    BLUE,
    COLOURS,
    GREY,
    MARKERS,
    Display,
    legend,
    name_of,
    next_colour,
    percent,
    percent_axis,
)
from usnrt.utils.constraints import check_whole
from usnrt.utils.types import Floats, TableLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ForecastDisplay(Display):
    """Base of the displays of one distribution per row."""

    from_predictions: ClassVar[Callable[..., Any]]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: TableLike, y: ArrayLike, *, name: str | None = None, **options: Any
    ) -> Self:
        """Draw a fitted model with ``predict_dist``; options as in :meth:`from_predictions`."""
        name = type(estimator).__name__ if name is None else name
        made: Self = cls.from_predictions(y, distribution_of(estimator, X), name=name, **options)
        return made


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(ForecastDisplay):
    """Observed against nominal probability, with the sampling variation of a calibrated forecast.

    Parameters
    ----------
    levels : ndarray of shape (K,)
        Nominal probabilities.
    observed : ndarray of shape (K,)
        Share of targets below the quantile of each level.
    n_rows : int
        Rows behind ``observed``, for the band.
    name : str or None
        For the legend.

    Attributes
    ----------
    line_ : matplotlib Line2D
    band_ : matplotlib PolyCollection, or None
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.plotting import ReliabilityDisplay
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> display = ReliabilityDisplay.from_predictions(y, mean=np.zeros(500), std=np.full(500, 0.5), name="too narrow")
    >>> display.line_.get_label()
    'too narrow (ECE 10.9 %)'
    """

    levels: Floats
    observed: Floats
    n_rows: int
    name: str | None = None

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        forecast: AnyForecast = None,
        *,
        name: str | None = None,
        ax: "Axes | None" = None,
        difference: bool = False,
        band: float | None = 0.95,
        **given: Unpack[Given],
    ) -> Self:
        """Draw the diagram of a forecast, given as in :func:`usnrt.metrics.as_forecast`; options as in :meth:`plot`."""
        levels, observed = reliability(y_true, forecast, **given)
        return cls(levels, observed, len(np.asarray(y_true)), name).plot(ax, difference=difference, band=band)

    def plot(self, ax: "Axes | None" = None, *, difference: bool = False, band: float | None = 0.95) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            By default those of a new figure. Several displays can share Axes.
        difference : bool, default=False
            Draw observed minus nominal, which shows small deviations.
        band : float or None, default=0.95
            Probability of a calibrated forecast to stay in the grey band, at each level; None for no band.
        """
        ax = self._start(ax, (4.6, 4.2))
        base = self.levels if difference else np.zeros(self.levels.size)
        colour = next_colour(ax)
        self.band_ = None
        if band is not None:
            low, high = chance_band(self.levels, self.n_rows, band)
            self.band_ = ax.fill_between(
                self.levels,
                low - base,
                high - base,
                color=GREY,
                alpha=0.2,
                linewidth=0,
                label=f"{percent(band)} chance",
            )
        ax.plot(self.levels, self.levels - base, color=GREY, linewidth=0.8, linestyle="--")
        ece = float(mean_gap(self.observed, self.levels))
        label = f"{self.name} (ECE {percent(ece)})" if self.name else f"ECE {percent(ece)}"
        (self.line_,) = ax.plot(self.levels, self.observed - base, color=colour, linewidth=1.8, label=label)
        ax.set_xlim(0, 1)
        if not difference:
            ax.set_ylim(0, 1)
            ax.set_aspect("equal")
        ax.set_xlabel("nominal probability")
        ax.set_ylabel("observed minus nominal" if difference else "observed share below the quantile")
        percent_axis(ax.xaxis)
        percent_axis(ax.yaxis)
        _legend_once(ax)
        return self


def chance_band(levels: Floats, n_rows: int, probability: float) -> tuple[Floats, Floats]:
    """Binomial interval of this probability for the share of ``n_rows`` targets below a calibrated quantile."""
    from scipy.stats import binom

    tail = (1.0 - probability) / 2.0
    return binom.ppf(tail, n_rows, levels) / n_rows, binom.ppf(1.0 - tail, n_rows, levels) / n_rows


def _legend_once(ax: "Axes") -> None:
    """A legend with one entry for the band, for any number of displays."""
    handles, labels = ax.get_legend_handles_labels()
    first = {label: handle for handle, label in reversed(list(zip(handles, labels)))}
    names = [label for label in dict.fromkeys(labels) if "chance" not in label]
    names += [label for label in dict.fromkeys(labels) if "chance" in label]
    legend(ax, handles=[first[label] for label in names], labels=names, loc="best")


@dataclass(eq=False, repr=False)
class PITDisplay(ForecastDisplay):
    """Histogram of the probability integral transform, with the sampling variation of a calibrated forecast.

    Parameters
    ----------
    pit : ndarray of shape (n,)
        Values of :func:`usnrt.metrics.pit`.
    name : str or None
        Title.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.plotting import PITDisplay
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> display = PITDisplay.from_predictions(y, mean=np.zeros(500), std=np.full(500, 0.5))
    >>> [round(float(bar.get_height()), 2) for bar in display.bars_[:2]]
    [4.16, 1.28]
    """

    pit: Floats
    name: str | None = None

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        forecast: AnyForecast = None,
        *,
        name: str | None = None,
        ax: "Axes | None" = None,
        bins: int = 20,
        band: float | None = 0.95,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        **given: Unpack[Given],
    ) -> Self:
        """Draw the histogram of a forecast, given as in :func:`usnrt.metrics.as_forecast`; options as in :meth:`plot`.

        ``random_state`` randomises point masses, as in :func:`usnrt.metrics.pit`.
        """
        values = pit(y_true, forecast, random_state=random_state, **given)
        return cls(values, name).plot(ax, bins=bins, band=band)

    def plot(self, ax: "Axes | None" = None, *, bins: int = 20, band: float | None = 0.95) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            By default those of a new figure.
        bins : int, default=20
        band : float or None, default=0.95
            Probability of each bar of a calibrated forecast to end in the grey band; None for no band.
        """
        check_whole("bins", bins, 1)
        ax = self._start(ax, (5.0, 3.4))
        counts, edges = np.histogram(self.pit, bins=bins, range=(0.0, 1.0))
        height = counts * bins / self.pit.size
        self.bars_ = ax.bar(edges[:-1], height, width=1.0 / bins, align="edge", color=BLUE, edgecolor="white", lw=0.8)
        if band is not None:
            low, high = chance_band(np.array([1.0 / bins]), self.pit.size, band)
            ax.axhspan(low[0] * bins, high[0] * bins, color=GREY, alpha=0.35, lw=0, label=f"{percent(band)} chance")
        ax.axhline(1.0, color="black", linewidth=1.0, linestyle="--", label="calibrated")
        ax.set_xlim(0, 1)
        ax.set_ylim(0, max(1.6, 1.18 * float(height.max())))
        ax.set_xlabel("PIT: predicted probability below the target")
        ax.set_ylabel("density")
        ax.grid(False, axis="x")
        if self.name:
            ax.set_title(self.name, fontsize=10)
        legend(ax, loc="upper center", ncols=2)
        return self


@dataclass(eq=False, repr=False)
class SharpnessCalibrationDisplay(Display):
    """Mean predicted standard deviation against the expected calibration error of several models.

    Parameters
    ----------
    names : list of m names
    sharpness, ece : ndarray of shape (m,)
    n_rows : int
        Number of rows, for the expected ECE of a calibrated forecast.
    sharpness_error, ece_error : ndarray of shape (2, m), or None
        Distances to the lower and upper ends of error bars.
    target_name : str

    Attributes
    ----------
    points_ : list of matplotlib ErrorbarContainer
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.distributions import Normal
    >>> from usnrt.plotting import SharpnessCalibrationDisplay
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> models = {"right": Normal(np.zeros(500), 1.0), "narrow": Normal(np.zeros(500), 0.5)}
    >>> display = SharpnessCalibrationDisplay.from_predictions(y, models)
    >>> display.ece.round(3)
    array([0.011, 0.109])
    """

    names: list[str]
    sharpness: Floats
    ece: Floats
    n_rows: int
    _: KW_ONLY
    sharpness_error: Floats | None = None
    ece_error: Floats | None = None
    target_name: str = "target"

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        forecasts: Mapping[str, Distribution],
        *,
        bootstrap: int = 0,
        random_state: int | np.random.Generator | np.random.RandomState | None = 0,
        target_name: str | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw several forecasts of the same targets.

        Parameters
        ----------
        y_true : array-like of shape (n,)
        forecasts : mapping of name to Distribution
            At least one.
        bootstrap : int, default=0
            Bootstrap draws for 95 % error bars; 0 for none.
        random_state, target_name, ax
            Of the bootstrap; of the axis; to draw on.
        """
        if not forecasts:
            raise ValueError("forecasts must name at least one forecast, got none")
        tables = [
            evaluate(dist, None, y_true, bootstrap=bootstrap, random_state=random_state) for dist in forecasts.values()
        ]
        columns = ["value", "lower", "upper"] if bootstrap else ["value"]
        columns_of = {
            metric: np.array([[t[c][list(t["metric"]).index(metric)] for c in columns] for t in tables]).T
            for metric in ("sharpness", "ece")
        }
        errors = {}
        if bootstrap:
            for metric, (value, lower, upper) in columns_of.items():
                errors[f"{metric}_error"] = np.maximum(np.array([value - lower, upper - value]), 0.0)
        target = name_of(y_true, "target") if target_name is None else target_name
        rows = len(np.asarray(y_true))
        made = cls(
            list(forecasts), columns_of["sharpness"][0], columns_of["ece"][0], rows, target_name=target, **errors
        )
        return made.plot(ax)

    @classmethod
    def from_estimators(cls, estimators: Mapping[str, Any], X: TableLike, y: ArrayLike, **options: Any) -> Self:
        """Draw several fitted models; options as in :meth:`from_predictions`."""
        return cls.from_predictions(y, {name: distribution_of(e, X) for name, e in estimators.items()}, **options)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on ``ax``, by default on a new figure."""
        ax = self._start(ax, (5.2, 3.8))
        self.points_ = []
        for k, name in enumerate(self.names):
            self.points_.append(
                ax.errorbar(
                    self.sharpness[k],
                    self.ece[k],
                    xerr=None if self.sharpness_error is None else self.sharpness_error[:, k : k + 1],
                    yerr=None if self.ece_error is None else self.ece_error[:, k : k + 1],
                    fmt=MARKERS[k % len(MARKERS)],
                    color=COLOURS[k % (len(COLOURS) - 1)],
                    markersize=8,
                    linewidth=1.0,
                    label=name,
                )
            )
            ax.annotate(name, (self.sharpness[k], self.ece[k]), (7, 6), textcoords="offset points", fontsize=9)
        chance = float(ece_by_chance(self.n_rows))
        ax.axhline(chance, color=GREY, linestyle="--", linewidth=0.8)
        ax.annotate(
            "calibrated, by chance", (1.0, chance), (-2, 3), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="right", fontsize=8, color=GREY,
        )  # fmt: skip
        ax.set_ylim(bottom=0)
        ax.margins(x=0.2, y=0.15)
        ax.set_xlabel(f"sharpness: mean predicted std of {self.target_name}")
        ax.set_ylabel("calibration error (ECE)")
        percent_axis(ax.yaxis)
        return self
