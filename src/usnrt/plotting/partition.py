"""The root split as in the paper: two features, squared residuals in colour, the split dashed."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.metrics.models import distribution_of
from usnrt.plotting._style import Display, legend
from usnrt.utils.types import Floats, TableLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from usnrt.estimators.tree_regressor import TreeRegressor


# Features with more distinct values are drawn without jitter.
MAX_DISTINCT = 30


@dataclass(eq=False, repr=False)
class RootPartitionDisplay(Display):
    """Rows in the plane of the split feature and another one, dark where squared residuals are large.

    The colour is the rank of the squared residual among all (a quantile transformation, as in the paper); the
    legend shows the variance of the residuals on both sides of the split.

    Parameters
    ----------
    x : ndarray of shape (n,)
        The split feature; for a categorical one the position on the axis.
    other : ndarray of shape (n,)
        The other feature.
    residuals : ndarray of shape (n,)
    left : ndarray of bool of shape (n,)
        Rows on the left side of the split.
    threshold : float
        Position of the dashed line.
    feature_name, other_name : str
    ticks : list of str or None
        Labels of the categories, if the split feature is categorical.

    Attributes
    ----------
    points_ : matplotlib PathCollection
    colorbar_ : matplotlib Colorbar
    split_ : matplotlib Line2D
    variance_left_, variance_right_ : float
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.plotting import RootPartitionDisplay
    >>> x, other = np.random.default_rng(0).random((2, 400))
    >>> noise = np.random.default_rng(1).normal(scale=np.where(x <= 0.4, 1.0, 3.0))
    >>> display = RootPartitionDisplay.from_predictions(x, other, noise, threshold=0.4)
    >>> [text.get_text() for text in display.ax_.get_legend().get_texts()]
    ['split at 0.4', 'left variance 0.857', 'right variance 7.31']
    """

    x: Floats
    other: Floats
    residuals: Floats
    left: NDArray[np.bool_]
    threshold: float
    _: KW_ONLY
    feature_name: str = "split feature"
    other_name: str = "other feature"
    ticks: list[str] | None = None

    @classmethod
    def from_predictions(
        cls,
        x: ArrayLike,
        other: ArrayLike,
        residuals: ArrayLike,
        threshold: float,
        *,
        feature_name: str = "split feature",
        other_name: str = "other feature",
        max_rows: int = 5000,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw a split of a numeric feature; values up to ``threshold`` are on the left side.

        Arguments as in the class and in :meth:`plot`; ``x``, ``other`` and ``residuals`` are without NaN.
        """
        columns = [np.asarray(values, dtype=np.float64) for values in (x, other, residuals)]
        if columns[0].ndim != 1 or len({values.shape for values in columns}) > 1 or columns[0].size == 0:
            shapes = ", ".join(str(values.shape) for values in columns)
            raise ValueError(f"x, other and residuals must have one shape (n,), got {shapes}")
        if not all(np.isfinite(values).all() for values in columns):
            raise ValueError("x, other and residuals must be finite, got NaN or infinity")
        left = columns[0] <= threshold
        if left.all() or not left.any():
            raise ValueError(f"threshold must have rows on both sides, got {threshold}")
        at, over, errors = columns
        made = cls(at, over, errors, left, float(threshold), feature_name=feature_name, other_name=other_name)
        return made.plot(ax, max_rows=max_rows)

    @classmethod
    def from_estimator(
        cls,
        estimator: "TreeRegressor",
        X: TableLike,
        y: ArrayLike,
        other: int | str | None = None,
        *,
        max_rows: int = 5000,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw the root split of a fitted tree with the residuals of its predicted means.

        Parameters
        ----------
        other : int or str, default=None
            The other feature, by position or name among ``columns_``; by default the next feature that the tree
            splits on, else the first other feature.
        max_rows, ax
            As in :meth:`plot`. Rows with a missing value in one of the two features are left out.
        """
        tree, columns = estimator.tree_, estimator.columns_
        if tree.feature[0] < 0:
            raise ValueError("estimator must have split its root, got a tree of a single region")
        first = int(tree.feature[0])
        second = _other_column(other, first, tree.feature, [column.name for column in columns])
        raw = np.asarray(estimator.encoder_.transform(X), dtype=np.float64)
        residuals = np.asarray(y, dtype=np.float64) - distribution_of(estimator, X).mean()
        if columns[first].kind == "categorical":
            goes_left = tree.left_categories[tree.category_row[0]]
            categories = columns[first].categories
            order = np.argsort(~goes_left[: len(categories)], kind="stable")
            x, left = _category_positions(raw[:, first], goes_left, order)
            threshold, ticks = float(goes_left[: len(order)].sum()) - 0.5, [categories[k] for k in order]
        else:
            x, threshold, ticks = raw[:, first], float(tree.threshold[0]), None
            left = x <= threshold
        keep = np.isfinite(x) & np.isfinite(raw[:, second])
        made = cls(
            x[keep], raw[keep, second], residuals[keep], left[keep], threshold,
            feature_name=columns[first].name, other_name=columns[second].name, ticks=ticks,
        )  # fmt: skip
        return made.plot(ax, max_rows=max_rows)

    def plot(self, ax: "Axes | None" = None, *, max_rows: int = 5000) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            By default those of a new figure.
        max_rows : int, default=5000
            Maximum number of rows to draw, sampled at random; the variances are those of all rows.
        """
        ax = self._start(ax, (5.4, 4.2))
        rank = np.argsort(np.argsort(self.residuals**2, kind="stable"), kind="stable") / max(self.x.size - 1, 1)
        rows = np.arange(self.x.size)
        rng = np.random.default_rng(0)
        if rows.size > max_rows:
            rows = np.sort(rng.choice(rows, max_rows, replace=False))
        most = MAX_DISTINCT if self.ticks is None else len(self.ticks)
        x, other = _jitter(self.x[rows], rng, most), _jitter(self.other[rows], rng, MAX_DISTINCT)
        x = np.where((x <= self.threshold) == (self.x[rows] <= self.threshold), x, self.x[rows])
        size = float(np.clip(20_000 / rows.size, 4.0, 30.0))
        self.points_ = ax.scatter(x, other, c=rank[rows], cmap="cividis_r", vmin=0, vmax=1, s=size, lw=0)
        self.split_ = ax.axvline(
            self.threshold, color="#D55E00", linewidth=2.0, linestyle="--", label=self._split_text()
        )
        self.variance_left_ = float(self.residuals[self.left].var())
        self.variance_right_ = float(self.residuals[~self.left].var())
        for side, variance in (("left", self.variance_left_), ("right", self.variance_right_)):
            ax.plot([], [], " ", label=f"{side} variance {variance:.3g}")
        if self.ticks is not None:
            ax.set_xticks(range(len(self.ticks)), self.ticks, rotation=0 if len(self.ticks) <= 6 else 90)
        ax.set_xlabel(self.feature_name)
        ax.set_ylabel(self.other_name)
        ax.grid(False)
        bar = self.colorbar_ = self.figure_.colorbar(self.points_, ax=ax, pad=0.02, aspect=30)
        bar.set_label("squared residual, by rank", fontsize=9)
        bar.set_ticks([0, 0.5, 1], labels=["smallest", "median", "largest"])
        bar.ax.tick_params(labelsize=8)
        bar.outline.set_visible(False)
        compact = {"handlelength": 1.4, "columnspacing": 0.6, "handletextpad": 0.4, "borderaxespad": 0.2}
        legend(ax, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, **compact)
        return self

    def _split_text(self) -> str:
        if self.ticks is None:
            return f"split at {self.threshold:.4g}"
        left = self.ticks[: int(self.threshold + 0.5)]
        return f"left: {', '.join(left)}" if len(left) <= 3 else f"left: {left[0]} and {len(left) - 1} more"


def _jitter(values: Floats, rng: np.random.Generator, most: int) -> Floats:
    """Values with random noise if at most ``most`` of them are distinct, so that points do not overlap."""
    distinct, which = np.unique(values, return_inverse=True)
    if not 2 <= distinct.size <= most:
        return values
    gaps = np.diff(distinct)
    nearest = np.minimum(np.append(gaps, gaps[-1]), np.insert(gaps, 0, gaps[0]))
    return np.asarray(values + rng.uniform(-0.3, 0.3, values.size) * nearest[which])


def _other_column(other: int | str | None, first: int, splits: NDArray[np.int64], names: list[str]) -> int:
    if isinstance(other, str):
        if other not in names:
            raise ValueError(f"other must be one of {names}, got {other!r}")
        return names.index(other)
    if other is not None:
        if not 0 <= other < len(names):
            raise ValueError(f"other must be in [0, {len(names)}), got {other}")
        return int(other)
    candidates = [int(f) for f in splits if f >= 0 and f != first] + [k for k in range(len(names)) if k != first]
    return candidates[0] if candidates else first


def _category_positions(
    codes: Floats, goes_left: NDArray[np.bool_], order: NDArray[np.intp]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Positions of rows on an axis of ordered categories, and whether they are on the left side of the split."""
    n = len(order)
    position = np.empty(n)
    position[order] = np.arange(n)
    is_level = np.isfinite(codes) & (codes >= 0) & (codes < n)
    index = np.where(is_level, codes, 0).astype(int)
    x = np.where(is_level, position[index], np.nan)
    return x, goes_left[index]
