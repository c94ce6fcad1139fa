"""Residual standard deviations of the regions of several trees."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from usnrt.plotting._style import COLOURS, GREY, MARKERS, Display
from usnrt.tree.rules import ModelWithTree
from usnrt.utils.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LeafStdDisplay(Display):
    """One column of markers per data set, one marker per region; below each name the heterogeneity std(log std).

    Parameters
    ----------
    stds : mapping of name to array-like of shape (n_regions,)
        Residual standard deviations of the regions, positive.
    rows : mapping of name to array-like of shape (n_regions,), or None
        Rows of the regions: larger markers for larger regions.
    label : str
        For the vertical axis.

    Attributes
    ----------
    points_ : list of matplotlib PathCollection
    heterogeneity_ : ndarray of shape (n_data_sets,)
        Standard deviation of the logarithms, the paper's measure.
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from usnrt.plotting import LeafStdDisplay
    >>> display = LeafStdDisplay.from_predictions({"power": [0.2, 0.5, 1.1], "wave": [0.7, 0.8]})
    >>> display.heterogeneity_.round(2)
    array([0.7 , 0.07])
    """

    def __init__(
        self,
        stds: Mapping[str, ArrayLike],
        rows: Mapping[str, ArrayLike] | None = None,
        label: str = "residual std of the region",
    ) -> None:
        self.stds = {name: np.asarray(values, dtype=np.float64) for name, values in stds.items()}
        self.rows = None if rows is None else {name: np.asarray(values, float) for name, values in rows.items()}
        self.label = label

    @classmethod
    def from_predictions(
        cls,
        stds: Mapping[str, ArrayLike],
        rows: Mapping[str, ArrayLike] | None = None,
        *,
        label: str = "residual std of the region",
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw given standard deviations; arguments as in the class."""
        return cls(stds, rows, label).plot(ax)

    @classmethod
    def from_estimators(
        cls, estimators: Mapping[str, ModelWithTree], *, relative: bool = True, ax: "Axes | None" = None
    ) -> Self:
        """Draw the regions of fitted models with a ``tree_``.

        Parameters
        ----------
        estimators : mapping of name to fitted model
        relative : bool, default=True
            Divide by the residual std of the root, so that targets of different units share an axis.
        ax : matplotlib.axes.Axes, default=None
        """
        stds, rows = {}, {}
        for name, estimator in estimators.items():
            tree = estimator.tree_
            is_region = tree.feature < 0
            stds[name] = tree.residual_std[is_region] / (tree.residual_std[0] if relative else 1.0)
            rows[name] = tree.n_rows[is_region]
        label = "residual std of the region / of all rows" if relative else "residual std of the region"
        return cls(stds, rows, label).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on ``ax``, by default on a new figure."""
        if not self.stds:
            raise ValueError("stds must name at least one data set, got none")
        for name, values in self.stds.items():
            if values.ndim != 1 or values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
                raise ValueError(f"stds must be positive, at least one per data set, got {values} for {name}")
        ax = self._start(ax, (max(4.6, 0.62 * len(self.stds) + 1.6), 3.6))
        self.points_ = []
        for k, (name, values) in enumerate(self.stds.items()):
            self.points_.append(
                ax.scatter(
                    np.full(values.size, k), values, s=self._sizes(name), marker=MARKERS[k % len(MARKERS)],
                    color=COLOURS[k % (len(COLOURS) - 1)], alpha=0.75, linewidths=0.6, edgecolors="white", zorder=3,
                )
            )  # fmt: skip
            ax.plot([k, k], [values.min(), values.max()], color=GREY, linewidth=0.8, zorder=1)
        self.heterogeneity_ = np.array([np.log(values).std() for values in self.stds.values()])
        many = len(self.stds) > 6
        text = "{} ({:.2f})" if many else "{}\n({:.2f})"
        names = [text.format(name, h) for name, h in zip(self.stds, self.heterogeneity_)]
        slant: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if many else {}
        ax.set_xticks(range(len(names)), names, **slant)
        ax.set_xlim(-0.6, len(names) - 0.4)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("data set (heterogeneity: std of log std)")
        ax.set_ylabel(self.label)
        ax.grid(False, axis="x")
        return self

    def _sizes(self, name: str) -> Floats | float:
        if self.rows is None:
            return 60.0
        rows = self.rows[name]
        return np.asarray(25.0 + 130.0 * rows / rows.max())
