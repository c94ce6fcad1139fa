"""PIT histogram: flat if the forecast is calibrated, U-shaped if too narrow, hump-shaped if too wide."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike

from usnrt.metrics.calibration import pit
from usnrt.metrics.forecast import Given
from usnrt.metrics.models import distribution_of
from usnrt.metrics.registry import AnyForecast
from usnrt.plotting._style import BLUE, GREY, Display, legend, percent
from usnrt.plotting.reliability import chance_band
from usnrt.utils.constraints import check_whole
from usnrt.utils.types import Floats, TableLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class PITDisplay(Display):
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
    >>> import matplotlib
    >>> matplotlib.use("Agg")
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
        """Draw the histogram of a forecast, given as in :func:`usnrt.metrics.as_forecast`.

        Parameters
        ----------
        y_true : array-like of shape (n,)
        forecast : Distribution or None
        name : str, default=None
        ax, bins, band
            As in :meth:`plot`.
        random_state : int, Generator or None
            Randomises point masses, as in :func:`usnrt.metrics.pit`.
        """
        values = pit(y_true, forecast, random_state=random_state, **given)
        return cls(values, name).plot(ax, bins=bins, band=band)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: TableLike, y: ArrayLike, *, name: str | None = None, **options: Any
    ) -> Self:
        """Draw the histogram of a fitted model with ``predict_dist``; options as in :meth:`from_predictions`."""
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, distribution_of(estimator, X), name=name, **options)

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
