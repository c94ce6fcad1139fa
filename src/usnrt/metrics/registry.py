"""The registry of metrics, which `evaluate`, the scorers, the report and the comparison of models read."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from usnrt.distributions import Distribution
from usnrt.metrics.forecast import Forecast, Given, UndefinedMetricError, as_forecast, check_truth, tail_levels
from usnrt.utils.types import Floats

AnyForecast = Distribution | Forecast | ArrayLike | None

#: A metric as a function of row weights: those of a bootstrap draw, of one group, or None for all rows alike.
OfWeights = Callable[[Floats | None], float]

Orientation = Literal["lower", "higher", "nominal", "none"]
Page = Literal["report", "compare"]


@dataclass(frozen=True)
class EvaluatedRows:
    """Observed targets and their forecast: what a metric is a function of.

    Attributes
    ----------
    y : ndarray of shape (n,)
    forecast : Forecast
    coverage : float
        Of the interval.
    given_interval : ndarray of shape (n, 2) or None
        Intervals that differ from the central ones of the forecast, e.g. conformal ones.
    point : ndarray of shape (n,) or None
        Point forecasts that differ from the mean of the forecast.
    """

    y: Floats
    forecast: Forecast
    coverage: float = 0.9
    given_interval: Floats | None = None
    point: Floats | None = None

    @cached_property
    def error(self) -> Floats:
        """Target minus point forecast, shape ``(n,)``."""
        return self.y - (self.forecast.mean() if self.point is None else self.point)

    @cached_property
    def interval(self) -> Floats:
        """The interval of each row, shape ``(n, 2)``."""
        if self.given_interval is not None:
            return self.given_interval
        return self.forecast.quantile(np.concatenate(tail_levels(np.array([self.coverage]))))


@dataclass(frozen=True)
class Metric:
    """A metric: a mean over rows, or a function of the whole table.

    Attributes
    ----------
    name : str
        In `evaluate`; the scorer is called "neg_" and this name if lower values are better.
    label, meaning : str
        On pages; ``{coverage}`` in the meaning stands for the coverage of the intervals.
    orientation : {"lower", "higher", "nominal", "none"}
        Which values are better: lower ones, higher ones, those near the coverage; "none" if the metric alone does not
        tell. Only the first two have scorers.
    per_row : callable or None
        Values of shape (n,) of :class:`EvaluatedRows`, to be averaged.
    root : bool
        Whether the metric is the root of that average.
    per_table : callable or None
        Instead of `per_row`: a function of :class:`EvaluatedRows` that returns a function of row weights.
    of_interval : bool
        Whether it is a metric of the intervals, which is evaluated for every coverage.
    text : {"number", "percent", "decimals"}
        How pages write it: with three significant digits, in percent, or with three decimals.
    pages : tuple of {"report", "compare"}
        Which pages show it. A comparison shows means over rows only.
    """

    name: str
    label: str
    meaning: str
    orientation: Orientation
    per_row: Callable[[EvaluatedRows], Floats] | None = None
    root: bool = False
    per_table: Callable[[EvaluatedRows], OfWeights] | None = None
    of_interval: bool = False
    text: Literal["number", "percent", "decimals"] = "number"
    pages: tuple[Page, ...] = ("report", "compare")

    def __post_init__(self) -> None:
        if (self.per_row is None) == (self.per_table is None):
            raise ValueError(f"the metric {self.name!r} must have either per_row or per_table")

    def of_weights(self, rows: EvaluatedRows) -> OfWeights:
        """The metric as a function of row weights; what it needs per row is computed once.

        Raises `UndefinedMetricError` if the forecast does not define it.
        """
        if self.per_table is not None:
            return self.per_table(rows)
        assert self.per_row is not None
        return partial(self.average, self.per_row(rows))

    def average(self, values: Floats, weights: Floats | None = None) -> float:
        """The metric from its values per row."""
        average = mean(values, weights)
        return float(np.sqrt(average) if self.root else average)

    def value(self, rows: EvaluatedRows) -> float:
        """The metric of all rows."""
        return self.of_weights(rows)(None)

    def oriented_loss(self, values: Floats, coverage: float) -> Floats:
        """Values of the metric, transformed so that larger is worse."""
        if self.orientation == "nominal":
            return np.abs(values - coverage)
        return -values if self.orientation == "higher" else values


METRICS: dict[str, Metric] = {}


def register_metric(metric: Metric) -> Metric:
    """Add a metric to what `evaluate`, the scorers, reports and comparisons show; returns it.

    Parameters
    ----------
    metric : Metric
        Its name must be new. ``extension_templates/metric.py`` is an example to copy.

    Examples
    --------
    >>> from usnrt.metrics import METRICS
    >>> METRICS["crps"].orientation
    'lower'
    """
    if metric.name in METRICS:
        raise ValueError(f"name must be new, got {metric.name!r}, which is one of {sorted(METRICS)}")
    METRICS[metric.name] = metric
    return metric


def on_page(page: Page) -> list[Metric]:
    """The metrics that a page shows."""
    return [metric for metric in METRICS.values() if page in metric.pages]


def defined_values(rows: EvaluatedRows) -> dict[str, float]:
    """The value of each metric that the forecast defines."""
    values = {}
    for name, metric in METRICS.items():
        try:
            values[name] = metric.value(rows)
        except UndefinedMetricError:
            continue
    return values


def evaluated_rows(y_true: ArrayLike, forecast: AnyForecast = None, **given: Unpack[Given]) -> EvaluatedRows:
    """Checked targets and their forecast, however it is given (see :func:`usnrt.metrics.as_forecast`)."""
    f = as_forecast(forecast, **given)
    return EvaluatedRows(check_truth(y_true, f), f)


def mean(rows: Floats, weights: Floats | None) -> Floats:
    """Weighted mean over the first axis.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.metrics.registry import mean
    >>> float(mean(np.array([1.0, 3.0, np.inf]), np.array([1.0, 3.0, 0.0])))
    2.5
    """
    if weights is None:
        return np.asarray(rows.mean(axis=0))
    if not np.isfinite(rows).all():
        # A row without weight must not change the sum: 0 * inf is NaN.
        rows = np.where(weights > 0, rows, 0.0)
    return np.asarray(weights @ rows / weights.sum())
