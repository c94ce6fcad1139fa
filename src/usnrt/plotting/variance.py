"""Predicted standard deviation along one feature, the others at their mean."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.metrics.models import distribution_of
from usnrt.plotting._style import BLUE, GREY, RED, Display
from usnrt.utils.constraints import check_whole
from usnrt.utils.types import Floats, TableLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Profile(NamedTuple):
    """Name and values of a feature, a grid over its range, and a function from values of it to rows."""

    name: str
    values: Floats
    grid: Floats
    rows_of: Callable[[Floats], Any]


def profile_rows(X: TableLike, feature: int | str, n_points: int) -> Profile:
    """Rows in which one feature varies over its range.

    Other numeric columns are fixed at their mean, other columns at their most frequent value.
    """
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        names = frame.columns
        position = _position(feature, names, len(names))
        if not frame.schema[names[position]].is_numeric():
            raise ValueError(f"feature must be numeric, got {names[position]} of type {frame.schema[names[position]]}")
        seen = frame[names[position]].to_numpy().astype(np.float64)
        return Profile(
            names[position], seen, _grid(seen, n_points), lambda values: _frame_rows(frame, names[position], values)
        )
    table = np.asarray(X)
    if table.ndim != 2:
        raise ValueError(f"X must have shape (n, d), got {table.shape}")
    position = _position(feature, [], table.shape[1])
    try:
        numbers = table.astype(np.float64)
    except ValueError as error:
        raise ValueError("X must be numeric or a data frame, got an array with text") from error
    center = np.nanmean(numbers, axis=0)

    def build(values: Floats) -> Floats:
        rows = np.tile(center, (values.size, 1))
        rows[:, position] = values
        return rows

    seen = numbers[:, position]
    return Profile(f"x{position}", seen, _grid(seen, n_points), build)


def _position(feature: int | str, names: list[str], d: int) -> int:
    if isinstance(feature, str):
        if feature not in names:
            raise ValueError(f"feature must be one of {names or 'the positions'}, got {feature!r}")
        return names.index(feature)
    if not 0 <= feature < d:
        raise ValueError(f"feature must be in [0, {d}), got {feature}")
    return int(feature)


def _grid(seen: Floats, n_points: int) -> Floats:
    finite = seen[np.isfinite(seen)]
    if finite.size == 0:
        raise ValueError("feature must have a finite value, got none")
    return np.linspace(finite.min(), finite.max(), n_points)


def _frame_rows(frame: "nw.DataFrame[Any]", name: str, values: Floats) -> Any:
    """Rows with the values of one column and constants in the others; column types are kept."""
    n, backend = values.size, frame.implementation
    changed = []
    for column in frame.columns:
        series = frame[column]
        if column == name:
            changed.append(nw.new_series(column, values, backend=backend))
        elif series.dtype.is_numeric():
            mean = float(np.nanmean(series.to_numpy().astype(np.float64)))
            changed.append(nw.new_series(column, np.full(n, mean), backend=backend))
        else:
            labels = series.to_list()
            present = [label for label in labels if label is not None]
            most_frequent = max(sorted(set(present), key=str), key=present.count) if present else None
            changed.append(series[[labels.index(most_frequent)] * n])
    # A new index from 0: pandas would otherwise align the columns by their index.
    columns = [nw.maybe_reset_index(series.to_frame()) for series in changed]
    return nw.concat(columns, how="horizontal").to_native()


@dataclass(eq=False, repr=False)
class VarianceFunctionDisplay(Display):
    """Predicted standard deviation along one feature; the line breaks where the region changes.

    Parameters
    ----------
    x : ndarray of shape (k,)
        Values of the feature, increasing.
    std : ndarray of shape (k,)
    region : ndarray of shape (k,), or None
        Id of the region at each value; the line breaks where it changes.
    data : ndarray of shape (n,), or None
        Values in the data, drawn as ticks along the axis.
    feature_name, target_name : str

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        One per region along the axis.
    jumps_ : list of float
        Where the region changes.
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.plotting import VarianceFunctionDisplay
    >>> x = np.linspace(0, 1, 101)
    >>> display = VarianceFunctionDisplay.from_predictions(x, np.where(x < 0.3, 1.0, 2.0), region=x < 0.3)
    >>> len(display.lines_), [round(jump, 3) for jump in display.jumps_]
    (2, [0.295])
    """

    x: Floats
    std: Floats
    region: NDArray[Any] | None = None
    data: Floats | None = None
    _: KW_ONLY
    feature_name: str = "feature"
    target_name: str = "target"

    @classmethod
    def from_predictions(
        cls,
        x: ArrayLike,
        std: ArrayLike,
        region: ArrayLike | None = None,
        data: ArrayLike | None = None,
        *,
        feature_name: str = "feature",
        target_name: str = "target",
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw a given function; arguments as in the class, in any order of ``x``."""
        at, spread = np.asarray(x, dtype=np.float64), np.asarray(std, dtype=np.float64)
        labels = None if region is None else np.asarray(region)
        if (
            at.ndim != 1
            or at.size == 0
            or at.shape != spread.shape
            or (labels is not None and labels.shape != at.shape)
        ):
            shapes = f"{at.shape}, {spread.shape}" + ("" if labels is None else f", {labels.shape}")
            raise ValueError(f"x, std and region must have one shape (k,), got {shapes}")
        if not (np.isfinite(at).all() and np.isfinite(spread).all()):
            raise ValueError("x and std must be finite, got NaN or infinity")
        order = np.argsort(at, kind="stable")
        seen = None if data is None else np.asarray(data, dtype=np.float64)
        made = cls(
            at[order], spread[order], None if labels is None else labels[order], seen,
            feature_name=feature_name, target_name=target_name,
        )  # fmt: skip
        return made.plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: TableLike,
        feature: int | str,
        *,
        n_points: int = 400,
        target_name: str = "target",
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw a fitted model's standard deviation along one numeric feature.

        Other numeric columns are fixed at their mean, categories at their most frequent value.

        Parameters
        ----------
        estimator : fitted model with ``predict_dist``
            With ``apply`` (a tree), changes of region are drawn.
        X : array-like or data frame of shape (n, d)
            Rows for the means and the range of the feature.
        feature : int or str
            Position or name of the column.
        """
        check_whole("n_points", n_points, 2)
        name, seen, grid, build = profile_rows(X, feature, n_points)
        has_regions = hasattr(estimator, "apply")
        if has_regions:
            grid = _refine(grid, lambda values: np.asarray(estimator.apply(build(values))))
        rows = build(grid)
        std = distribution_of(estimator, rows).std()
        region = np.asarray(estimator.apply(rows)) if has_regions else None
        return cls.from_predictions(grid, std, region, seen, feature_name=name, target_name=target_name, ax=ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on ``ax``, by default on a new figure."""
        ax = self._start(ax, (5.0, 3.2))
        breaks = np.array([], int) if self.region is None else np.flatnonzero(self.region[1:] != self.region[:-1]) + 1
        self.jumps_ = [float(self.x[b - 1] + self.x[b]) / 2 for b in breaks]
        self.lines_ = []
        for x, std in zip(np.split(self.x, breaks), np.split(self.std, breaks)):
            marker = "o" if x.size == 1 else ""
            self.lines_ += ax.plot(x, std, color=BLUE, linewidth=2.0, marker=marker, markersize=3)
        for jump in self.jumps_:
            ax.axvline(jump, color=RED, linewidth=1.0, linestyle=":", zorder=1)
        ax.set_ylim(0, 1.1 * float(self.std.max()) or 1.0)
        if self.data is not None:
            # 200 ticks suffice to show the distribution of the data.
            ticks = np.quantile(self.data[np.isfinite(self.data)], np.linspace(0, 1, 200))
            ax.plot(ticks, np.full(ticks.size, 0.02), "|", color=GREY, alpha=0.5, transform=ax.get_xaxis_transform())
        ax.set_xlabel(self.feature_name)
        ax.set_ylabel(f"predicted std of {self.target_name}")
        return self


def _refine(grid: Floats, region_of: Callable[[Floats], NDArray[Any]], rounds: int = 12) -> Floats:
    """Add points on both sides of each change of region by bisection, so that jumps are drawn exactly."""
    labels = region_of(grid)
    change = labels[1:] != labels[:-1]
    if not change.any():
        return grid
    low, high, below = grid[:-1][change], grid[1:][change], labels[:-1][change]
    for _ in range(rounds):
        middle = (low + high) / 2
        same = region_of(middle) == below
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return np.unique(np.concatenate([grid, low, high]))
