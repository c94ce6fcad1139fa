"""Reliability diagram: share of targets below each predicted quantile."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike

from usnrt.metrics.calibration import mean_gap, reliability
from usnrt.metrics.forecast import Given
from usnrt.metrics.models import distribution_of
from usnrt.metrics.registry import AnyForecast
from usnrt.plotting._style import GREY, Display, legend, next_colour, percent, percent_axis
from usnrt.utils.types import Floats, TableLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(Display):
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
    >>> import matplotlib
    >>> matplotlib.use("Agg")
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
        """Draw the diagram of a forecast, given as in :func:`usnrt.metrics.as_forecast`.

        Parameters
        ----------
        y_true : array-like of shape (n,)
        forecast : Distribution or None
        name : str, default=None
        ax, difference, band
            As in :meth:`plot`.
        """
        levels, observed = reliability(y_true, forecast, **given)
        return cls(levels, observed, len(np.asarray(y_true)), name).plot(ax, difference=difference, band=band)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: TableLike, y: ArrayLike, *, name: str | None = None, **options: Any
    ) -> Self:
        """Draw the diagram of a fitted model with ``predict_dist``; options as in :meth:`from_predictions`."""
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, distribution_of(estimator, X), name=name, **options)

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
