"""All metrics of a model or a distribution as one table, with error bars and worst groups when asked."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from usnrt.distributions import Distribution
from usnrt.distributions.base import Floats, as_generator
from usnrt.metrics.calibration import TCE_COVERAGES, comparison_levels, share_below
from usnrt.metrics.forecast import Forecast, PointForecast, as_forecast, check_truth
from usnrt.metrics.groups import check_groups
from usnrt.metrics.scores import central_interval, interval_score_of_rows, pinball_of_rows
from usnrt.table import Table

# A metric that can be computed again for other weights of the rows: of a bootstrap draw, of one group.
Metric = Callable[[Floats], float]

HIGHER_IS_BETTER = {"r2"}


def evaluate(
    model_or_dist: Any,
    X: Any = None,
    y: ArrayLike = (),
    *,
    groups: ArrayLike | None = None,
    coverage: float = 0.9,
    bootstrap: int = 0,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
    percent: bool = False,
) -> Table:
    """All metrics of a fitted model or of a predictive distribution.

    Parameters
    ----------
    model_or_dist : fitted estimator with ``predict_dist``, Distribution, or Forecast
        A pipeline that ends in such an estimator works too. What a forecast cannot give (no density from samples)
        is left out.
    X : array-like or data frame of n rows
        Features for the model; a distribution does not need them.
    y : array-like of shape (n,)
        What happened.
    groups : array-like of shape (n,), default=None
        Labels of the rows; adds the worst group of each metric.
    coverage : float, default=0.9
        Of the interval behind interval_score, coverage and width.
    bootstrap : int, default=0
        Number of draws of the rows, with replacement, for the error bars; 0 for none.
    confidence : float, default=0.95
        Of the error bars.
    random_state : int, Generator, RandomState or None
        Of the bootstrap.
    percent : bool, default=False
        Everything times 100, as in the paper's tables.

    Returns
    -------
    Table
        Columns metric and value; with ``bootstrap`` also lower, upper and std_error; with ``groups`` also
        worst_group and worst_value. Only ``r2`` is better when larger; ``coverage`` should equal its nominal value,
        ``sharpness`` and ``width`` should be small among the calibrated.

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
        raise ValueError(f"bootstrap must be 0 or an integer of 2 or more, however: bootstrap={bootstrap!r}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), however: confidence={confidence}")
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must be in (0, 1), however: coverage={coverage}")
    forecast = as_forecast(_forecast_of(model_or_dist, X))
    truth = check_truth(y, forecast)
    group_names, group = (None, None) if groups is None else check_groups(groups, truth.size)
    metrics = dict(_metrics(truth, forecast, coverage))
    factor = 100.0 if percent else 1.0
    ones = np.ones(truth.size)
    values = np.array([metric(ones) for metric in metrics.values()])
    columns: dict[str, Any] = {"metric": list(metrics), "value": factor * values}
    if bootstrap:
        draws = _bootstrap(list(metrics.values()), truth.size, bootstrap, as_generator(random_state))
        tail = (1.0 - confidence) / 2.0
        # Without interpolation, and quietly: draws may be infinite (a log-likelihood of 0).
        ends = np.quantile(draws, [tail, 1.0 - tail], axis=0, method="inverted_cdf")
        columns["lower"], columns["upper"] = factor * ends
        with np.errstate(invalid="ignore"):
            columns["std_error"] = factor * draws.std(axis=0, ddof=1)
    if group_names is not None and group is not None:
        each = [[metric((group == g).astype(float)) for metric in metrics.values()] for g in range(group_names.size)]
        badness = _badness(np.array(each), list(metrics), coverage)
        worst = np.argmax(np.where(np.isnan(badness), -np.inf, badness), axis=0)
        columns["worst_group"] = group_names[worst]
        columns["worst_value"] = factor * np.array(each)[worst, np.arange(len(metrics))]
    return Table(columns)


def distribution_of(model: Any, X: Any) -> Distribution:
    """The predictive distribution of a fitted model, also of one at the end of a pipeline or inside a search."""
    if hasattr(model, "predict_dist"):
        return model.predict_dist(X)
    if hasattr(model, "best_estimator_"):
        return distribution_of(model.best_estimator_, X)
    steps = getattr(model, "steps", None)
    if steps and hasattr(steps[-1][1], "predict_dist"):
        return steps[-1][1].predict_dist(model[:-1].transform(X) if len(steps) > 1 else X)
    raise TypeError(
        f"model must be a Distribution or an estimator with predict_dist, however: it is a {type(model).__name__}"
    )


def _forecast_of(model_or_dist: Any, X: Any) -> Distribution | Forecast:
    if isinstance(model_or_dist, Distribution | Forecast):
        return model_or_dist
    return distribution_of(model_or_dist, X)


def _metrics(y: Floats, f: Forecast, coverage: float) -> Iterator[tuple[str, Metric]]:
    """The metrics that this forecast can give; each reuses the numbers of the rows, computed here once."""
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
    yield "ece", lambda w: float(np.abs(share_below(counts, levels.size, w) - levels).mean())
    if f.covers(0.9):
        inside = f.inside(y, tails).astype(float)
        yield "tce", lambda w: float(np.abs(w @ inside / w.sum() - tails).mean())
    if f.own_levels is None:
        yield "sharpness", _mean_of(f.std())
    if f.covers(coverage):
        ends = central_interval(f, coverage)
        yield f"coverage_{100 * coverage:g}", _mean_of(((ends[:, 0] <= y) & (y <= ends[:, 1])).astype(float))
        yield f"width_{100 * coverage:g}", _mean_of(ends[:, 1] - ends[:, 0])
        yield "interval_score", _mean_of(interval_score_of_rows(y, ends, coverage))


def _mean(rows: Floats, weights: Floats) -> float:
    if not np.isfinite(rows).all():
        # A row without weight must not spoil the sum: 0 * inf is NaN.
        rows = np.where(weights > 0, rows, 0.0)
    return float(weights @ rows / weights.sum())


def _mean_of(rows: Floats) -> Metric:
    return lambda weights: _mean(rows, weights)


def _r2(y: Floats, error: Floats, weights: Floats) -> float:
    total = _mean((y - _mean(y, weights)) ** 2, weights)
    return 1.0 - _mean(error**2, weights) / total if total > 0 else float("nan")


def _bootstrap(metrics: list[Metric], n: int, draws: int, rng: np.random.Generator) -> Floats:
    """Metrics of rows drawn with replacement, shape ``(draws, metrics)``: a draw is a weight for each row."""
    answer = np.empty((draws, len(metrics)))
    for b in range(draws):
        weights = np.bincount(rng.integers(0, n, n), minlength=n).astype(float)
        answer[b] = [metric(weights) for metric in metrics]
    return answer


def _badness(values: Floats, names: list[str], coverage: float) -> Floats:
    """Turn each column so that larger is worse: r2 by its sign, coverage by its distance from the nominal one."""
    signs = np.array([-1.0 if name in HIGHER_IS_BETTER else 1.0 for name in names])
    nominal = np.array([coverage if name.startswith("coverage_") else np.nan for name in names])
    return np.where(np.isnan(nominal), signs * values, np.abs(values - nominal))
