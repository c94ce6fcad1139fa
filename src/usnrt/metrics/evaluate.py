"""All metrics of a model or a distribution as one table, optionally with error bars and worst groups."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from usnrt.distributions import Distribution
from usnrt.distributions.base import as_generator
from usnrt.metrics.calibration import TCE_COVERAGES, comparison_levels, mean_gap, share_below
from usnrt.metrics.forecast import Forecast, PointForecast, as_forecast, check_truth
from usnrt.metrics.groups import check_groups
from usnrt.metrics.models import (
    distribution_and_interval,
    infinite_sentence,
    is_infinite,
    resolve,
    training_sentence,
    training_share,
    unguaranteed_sentence,
)
from usnrt.metrics.scores import central_interval, check_interval, interval_score_of_rows, pinball_of_rows
from usnrt.utils.notices import InfiniteIntervalWarning, TrainingRowsWarning, UnguaranteedIntervalWarning
from usnrt.utils.result_table import Table
from usnrt.utils.types import Floats

# A metric as a function of row weights: those of a bootstrap draw, or of one group.
Metric = Callable[[Floats], float]

HIGHER_IS_BETTER = {"r2"}


def evaluate(
    model_or_dist: Any,
    X: Any = None,
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
    """All metrics of a fitted model or of a predictive distribution.

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
        Of the interval behind coverage, width and interval_score; with a sequence there are such rows for each, and
        the interval scores have names such as interval_score_50 too.
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
        worst_group and worst_value. Only ``r2`` is better when larger; ``coverage`` should equal its nominal value;
        ``sharpness`` and ``width`` compare calibrated forecasts, smaller being better. If intervals are infinite, a
        last row ``infinite`` has the share of rows with such intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.distributions import Normal
    >>> from usnrt.metrics import evaluate
    >>> y = np.random.default_rng(0).normal(size=2000)
    >>> evaluate(Normal(np.zeros(2000), 1.0), y=y)
                metric       value
    0             rmse       1.001
    1              mae       0.801
    2               r2  -0.0007851
    3              nll        1.42
    4             crps      0.5645
    5          pinball      0.3087
    6              ece    0.007551
    7              tce       0.004
    8        sharpness           1
    9      coverage_90       0.904
    10        width_90        3.29
    11  interval_score       4.118
    """
    if not isinstance(bootstrap, int | np.integer) or bootstrap < 0 or bootstrap == 1:
        raise ValueError(f"bootstrap must be 0 or an integer of 2 or more, got {bootstrap!r}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}")
    coverages = _check_coverages(coverage)
    forecast, truth, ends = _judged(model_or_dist, X, y, coverages, interval)
    group_names, group = (None, None) if groups is None else check_groups(groups, truth.size)
    metrics = dict(_metrics(truth, forecast, coverages, ends))
    factor = 100.0 if percent else 1.0
    ones = np.ones(truth.size)
    values = np.array([metric(ones) for metric in metrics.values()])
    columns: dict[str, Any] = {"metric": list(metrics), "value": factor * values}
    if bootstrap:
        draws = _bootstrap(list(metrics.values()), truth.size, bootstrap, as_generator(random_state))
        tail = (1.0 - confidence) / 2.0
        # Without interpolation or warnings: draws may be infinite (a density of 0).
        bars = np.quantile(draws, [tail, 1.0 - tail], axis=0, method="inverted_cdf")
        columns["lower"], columns["upper"] = factor * bars
        with np.errstate(invalid="ignore"):
            columns["std_error"] = factor * draws.std(axis=0, ddof=1)
    if group_names is not None and group is not None:
        each = [[metric((group == g).astype(float)) for metric in metrics.values()] for g in range(group_names.size)]
        badness = _badness(np.array(each), list(metrics), coverages)
        worst = np.argmax(np.where(np.isnan(badness), -np.inf, badness), axis=0)
        columns["worst_group"] = group_names[worst]
        columns["worst_value"] = factor * np.array(each)[worst, np.arange(len(metrics))]
    return Table(columns)


def _check_coverages(coverage: float | Sequence[float]) -> dict[float, str]:
    """Coverages, each with the name of its interval score."""
    values = np.atleast_1d(np.asarray(coverage, dtype=np.float64))
    if values.ndim != 1 or not values.size or not ((values > 0) & (values < 1)).all():
        raise ValueError(f"coverage must be in (0, 1), got {coverage}")
    if np.ndim(coverage) == 0:
        return {float(values[0]): "interval_score"}
    return {float(value): f"interval_score_{100 * value:g}" for value in values}


def _judged(
    model_or_dist: Any, X: Any, y: ArrayLike, coverages: Mapping[float, str], interval: ArrayLike | None
) -> tuple[Forecast, Floats, dict[float, Floats]]:
    """The forecast, the targets, and by coverage the intervals that are not those of the forecast; warns."""
    if isinstance(model_or_dist, Distribution | Forecast):
        forecast = as_forecast(model_or_dist)
        truth = check_truth(y, forecast)
        return forecast, truth, _given_intervals(interval, coverages, truth)
    model, X = resolve(model_or_dist, X)
    dist, bounds = distribution_and_interval(model, X, list(coverages))
    forecast = as_forecast(dist)
    truth = check_truth(y, forecast)
    ends = _given_intervals(interval, coverages, truth) or {c: bounds[:, :, k] for k, c in enumerate(coverages)}
    _warn(model, X, truth, ends)
    return forecast, truth, ends


def _given_intervals(interval: ArrayLike | None, coverages: Mapping[float, str], truth: Floats) -> dict[float, Floats]:
    """Intervals by coverage."""
    if interval is None:
        return {}
    ends = np.asarray(interval, dtype=np.float64)
    if (ends.shape[2] if ends.ndim == 3 else 1) != len(coverages):
        raise ValueError(f"interval must have shape (n, 2, {len(coverages)}), one per coverage, got {ends.shape}")
    return {c: check_interval(ends[:, :, k] if ends.ndim == 3 else ends, truth) for k, c in enumerate(coverages)}


def _warn(model: Any, X: Any, y: Floats, ends: Mapping[float, Floats]) -> None:
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


def _metrics(
    y: Floats, f: Forecast, coverages: Mapping[float, str], ends: Mapping[float, Floats]
) -> Iterator[tuple[str, Metric]]:
    """The metrics that this forecast defines; what they need per row is computed once."""
    if f.own_levels is None:
        error = y - f.mean()
        yield "rmse", lambda w: float(np.sqrt(_mean(error**2, w)))
        yield "mae", _mean_of(np.abs(error))
        yield "r2", lambda w: _r2(y, error, w)
    if isinstance(f, PointForecast):
        return
    if f.has_density:
        yield "nll", _mean_of(-f.logpdf(y))
    yield "crps", _mean_of(f.crps(y))
    yield "pinball", _mean_of(pinball_of_rows(y, f))
    levels, tails = comparison_levels(f), np.array(TCE_COVERAGES)
    counts = f.count_levels_below(y, levels)
    yield "ece", lambda w: float(mean_gap(share_below(counts, levels.size, w), levels))
    if f.covers(0.9):
        inside = f.inside(y, tails).astype(float)
        yield "tce", lambda w: float(mean_gap(w @ inside / w.sum(), tails))
    if f.own_levels is None:
        yield "sharpness", _mean_of(f.std())
    for coverage, score in coverages.items():
        bounds = ends.get(coverage)
        if bounds is None and f.covers(coverage):
            bounds = central_interval(f, coverage)
        if bounds is not None:
            yield from _interval_metrics(y, bounds, coverage, score)


def _interval_metrics(y: Floats, ends: Floats, coverage: float, score: str) -> Iterator[tuple[str, Metric]]:
    infinite = is_infinite(ends)
    yield f"coverage_{100 * coverage:g}", _mean_of(((ends[:, 0] <= y) & (y <= ends[:, 1])).astype(float))
    yield f"width_{100 * coverage:g}", _mean_of(ends[:, 1] - ends[:, 0])
    yield score, _mean_of(interval_score_of_rows(y, ends, coverage))
    if infinite.any():
        yield f"infinite_{100 * coverage:g}", _mean_of(infinite.astype(float))


def _mean(rows: Floats, weights: Floats) -> float:
    if not np.isfinite(rows).all():
        # A row without weight must not change the sum: 0 * inf is NaN.
        rows = np.where(weights > 0, rows, 0.0)
    return float(weights @ rows / weights.sum())


def _mean_of(rows: Floats) -> Metric:
    return lambda weights: _mean(rows, weights)


def _r2(y: Floats, error: Floats, weights: Floats) -> float:
    total = _mean((y - _mean(y, weights)) ** 2, weights)
    return 1.0 - _mean(error**2, weights) / total if total > 0 else float("nan")


def _bootstrap(metrics: list[Metric], n: int, draws: int, rng: np.random.Generator) -> Floats:
    """Metrics of rows drawn with replacement, shape ``(draws, metrics)``: a draw is a weight for each row."""
    values = np.empty((draws, len(metrics)))
    for draw in range(draws):
        weights = np.bincount(rng.integers(0, n, n), minlength=n).astype(float)
        values[draw] = [metric(weights) for metric in metrics]
    return values


def _badness(values: Floats, names: list[str], coverages: Mapping[float, str]) -> Floats:
    """Transform each column so that larger is worse: the negative r2, the distance of coverage from the nominal one."""
    signs = np.array([-1.0 if name in HIGHER_IS_BETTER else 1.0 for name in names])
    nominal_of = {f"coverage_{100 * coverage:g}": coverage for coverage in coverages}
    nominal = np.array([nominal_of.get(name, np.nan) for name in names])
    return np.where(np.isnan(nominal), signs * values, np.abs(values - nominal))
