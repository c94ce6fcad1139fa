"""All metrics of a model or a distribution as one table, optionally with error bars and worst groups."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from usnrt.distributions import Distribution
from usnrt.distributions.base import as_generator
from usnrt.metrics.forecast import Forecast, UndefinedMetricError, as_forecast, check_truth
from usnrt.metrics.groups import by_group, check_groups
from usnrt.metrics.intervals import check_interval
from usnrt.metrics.models import (
    distribution_and_interval,
    infinite_sentence,
    resolve,
    training_sentence,
    training_share,
    unguaranteed_sentence,
)
from usnrt.metrics.registry import METRICS, EvaluatedRows, Metric, OfWeights
from usnrt.utils.notices import InfiniteIntervalWarning, TrainingRowsWarning, UnguaranteedIntervalWarning
from usnrt.utils.result_table import Table
from usnrt.utils.types import Floats, TableLike


def evaluate(
    model_or_dist: Any,
    X: TableLike = None,
    y: ArrayLike = (),
    *,
    groups: ArrayLike | None = None,
    coverage: float | Sequence[float] = 0.9,
    interval: ArrayLike | None = None,
    bootstrap: int = 0,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
    percent: bool = False,
) -> Table:
    """All registered metrics of a fitted model or of a predictive distribution.

    For a model, coverage, width and interval score are those of its ``predict_interval``, all other metrics those of
    its distribution. Warns if more than half of the rows are training rows, and if intervals are infinite or not
    guaranteed.

    Parameters
    ----------
    model_or_dist : fitted estimator with ``predict_dist``, Distribution, or Forecast
        A pipeline that ends in such an estimator works too. Metrics that a forecast does not define (NLL from
        samples) are left out.
    X : array-like or data frame of n rows
        Features for the model; not needed for a distribution.
    y : array-like of shape (n,)
        The observed targets.
    groups : array-like of shape (n,), default=None
        Labels of the rows; adds the worst group of each metric.
    coverage : float or sequence of k floats, default=0.9
        Of the intervals: the rows coverage_90, width_90 and interval_score_90 are those of 0.9.
    interval : array-like of shape (n, 2), or (n, 2, k) for a sequence, default=None
        Intervals of that coverage; by default those of the model or the distribution.
    bootstrap : int, default=0
        Number of bootstrap draws of the rows for the error bars; 0 for none.
    confidence : float, default=0.95
        Of the error bars.
    random_state : int, Generator, RandomState or None
        Of the bootstrap.
    percent : bool, default=False
        Whether to multiply all values by 100, as in the paper's tables.

    Returns
    -------
    Table
        Columns metric and value; with ``bootstrap`` also lower, upper and std_error; with ``groups`` also
        worst_group and worst_value. :data:`usnrt.metrics.METRICS` holds label, meaning and orientation of each metric.
        If intervals are infinite, a row such as infinite_90 has the share of rows with such intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.distributions import Normal
    >>> from usnrt.metrics import evaluate
    >>> y = np.random.default_rng(0).normal(size=2000)
    >>> evaluate(Normal(np.zeros(2000), 1.0), y=y)
                   metric       value
    0                rmse       1.001
    1                 mae       0.801
    2                  r2  -0.0007851
    3                 nll        1.42
    4                crps      0.5645
    5             pinball      0.3087
    6                 ece    0.007551
    7                 tce       0.004
    8           sharpness           1
    9         coverage_90       0.904
    10           width_90        3.29
    11  interval_score_90       4.118
    """
    if not isinstance(bootstrap, int | np.integer) or bootstrap < 0 or bootstrap == 1:
        raise ValueError(f"bootstrap must be 0 or an int >= 2, got {bootstrap!r}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}")
    coverages = _check_coverages(coverage)
    forecast, truth, ends = _judged(model_or_dist, X, y, coverages, interval)
    rows = [EvaluatedRows(truth, forecast, c, ends.get(c)) for c in coverages]
    lines = list(_defined_metrics(rows))
    factor = 100.0 if percent else 1.0
    columns: dict[str, Any] = {
        "metric": [line.name for line in lines],
        "value": factor * np.array([line.of_weights(None) for line in lines]),
    }
    if bootstrap:
        draws = _bootstrap(lines, truth.size, bootstrap, as_generator(random_state))
        tail = (1.0 - confidence) / 2.0
        # Without interpolation or warnings: draws may be infinite (a density of 0).
        bars = np.quantile(draws, [tail, 1.0 - tail], axis=0, method="inverted_cdf")
        columns["lower"], columns["upper"] = factor * bars
        with np.errstate(invalid="ignore"):
            columns["std_error"] = factor * draws.std(axis=0, ddof=1)
    if groups is not None:
        names, group = check_groups(groups, truth.size)
        worst = [_worst_group(line, by_group(line.of_weights, group)) for line in lines]
        columns["worst_group"] = names[[g for g, _ in worst]]
        columns["worst_value"] = factor * np.array([value for _, value in worst])
    return Table(columns)


class _Line(NamedTuple):
    """A row of the table."""

    name: str
    metric: Metric
    coverage: float
    of_weights: OfWeights


def _defined_metrics(rows: Sequence[EvaluatedRows]) -> Iterator[_Line]:
    """The metrics that the forecast defines, those of intervals for each coverage."""
    for each in rows:
        for name, metric in METRICS.items():
            if each is not rows[0] and not metric.of_interval:
                continue
            full_name = f"{name}_{100 * each.coverage:g}" if metric.of_interval else name
            try:
                yield _Line(full_name, metric, each.coverage, metric.of_weights(each))
            except UndefinedMetricError:
                continue


def _worst_group(line: _Line, values: Floats) -> tuple[int, float]:
    """The group with the worst value, and this value."""
    loss = line.metric.oriented_loss(values, line.coverage)
    worst = int(np.argmax(np.where(np.isnan(loss), -np.inf, loss)))
    return worst, values[worst]


def _check_coverages(coverage: float | Sequence[float]) -> list[float]:
    values = np.atleast_1d(np.asarray(coverage, dtype=np.float64))
    if values.ndim != 1 or not values.size or not ((values > 0) & (values < 1)).all():
        raise ValueError(f"coverage must be in (0, 1), got {coverage}")
    return list(map(float, values))


def _judged(
    model_or_dist: Any, X: TableLike, y: ArrayLike, coverages: Sequence[float], interval: ArrayLike | None
) -> tuple[Forecast, Floats, dict[float, Floats]]:
    """The forecast, the targets, and by coverage the intervals that are not those of the forecast; warns."""
    if isinstance(model_or_dist, Distribution | Forecast):
        forecast = as_forecast(model_or_dist)
        truth = check_truth(y, forecast)
        return forecast, truth, _given_intervals(interval, coverages, truth)
    model, X = resolve(model_or_dist, X)
    dist, bounds = distribution_and_interval(model, X, coverages)
    forecast = as_forecast(dist)
    truth = check_truth(y, forecast)
    ends = _given_intervals(interval, coverages, truth) or {c: bounds[:, :, k] for k, c in enumerate(coverages)}
    _warn(model, X, truth, ends)
    return forecast, truth, ends


def _given_intervals(interval: ArrayLike | None, coverages: Sequence[float], truth: Floats) -> dict[float, Floats]:
    """Intervals by coverage."""
    if interval is None:
        return {}
    ends = np.asarray(interval, dtype=np.float64)
    if (ends.shape[2] if ends.ndim == 3 else 1) != len(coverages):
        raise ValueError(f"interval must have shape (n, 2, {len(coverages)}), one per coverage, got {ends.shape}")
    return {c: check_interval(ends[:, :, k] if ends.ndim == 3 else ends, truth) for k, c in enumerate(coverages)}


def _warn(model: Any, X: TableLike, y: Floats, ends: Mapping[float, Floats]) -> None:
    seen = training_sentence(training_share(model, X, y))
    if seen:
        warnings.warn(seen, TrainingRowsWarning, stacklevel=4)
    for coverage, bounds in ends.items():
        infinite = infinite_sentence(model, bounds, coverage)
        if infinite:
            warnings.warn(infinite, InfiniteIntervalWarning, stacklevel=4)
        unguaranteed = "" if infinite else unguaranteed_sentence(model, coverage)
        if unguaranteed:
            warnings.warn(unguaranteed, UnguaranteedIntervalWarning, stacklevel=4)


def _bootstrap(lines: Sequence[_Line], n: int, draws: int, rng: np.random.Generator) -> Floats:
    """Metrics of rows drawn with replacement, shape ``(draws, metrics)``: a draw is a weight for each row."""
    values = np.empty((draws, len(lines)))
    for draw in range(draws):
        weights = np.bincount(rng.integers(0, n, n), minlength=n).astype(float)
        values[draw] = [line.of_weights(weights) for line in lines]
    return values
