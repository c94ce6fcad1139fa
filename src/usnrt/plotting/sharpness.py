"""Sharpness against calibration: better forecasts are at the lower left."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from usnrt.distributions import Distribution
from usnrt.metrics.evaluate import evaluate
from usnrt.metrics.groups import ece_by_chance
from usnrt.metrics.models import distribution_of
from usnrt.plotting._style import COLOURS, GREY, MARKERS, Display, name_of, percent_axis
from usnrt.utils.types import Floats, TableLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    >>> import matplotlib
    >>> matplotlib.use("Agg")
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
        random_state : int, Generator or None, default=0
        target_name : str, default=None
        ax : matplotlib.axes.Axes, default=None
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
