"""``usnrt.compare``: fit and evaluate several models on the same rows."""

import sys
import time as clock
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from usnrt.comparison.forecasts import Forecasts, fit_clone, forecasts_of, take
from usnrt.comparison.models import Contender, contenders
from usnrt.comparison.regions import find_regions
from usnrt.comparison.result import Comparison, Entry, RowMetrics
from usnrt.comparison.splits import Splits, copies, random_splits, read_time, time_splits
from usnrt.comparison.words import shown_metrics
from usnrt.estimators.targets import read_target
from usnrt.metrics.accuracy import CRPS
from usnrt.metrics.forecast import as_forecast
from usnrt.metrics.registry import EvaluatedRows
from usnrt.tables import TableEncoder
from usnrt.tables.groups import feature_groups, groups_and_table, read_groups
from usnrt.utils.constraints import check_number, check_whole
from usnrt.utils.names import escaped
from usnrt.utils.types import Floats, Rows, TableLike


def compare(
    X: TableLike,
    y: ArrayLike,
    models: Mapping[str, Any] | Iterable[Any] | None = None,
    *,
    folds: int = 1,
    test_size: float = 0.25,
    time: Any = None,
    groups: ArrayLike | str | None = None,
    coverage: float = 0.9,
    categorical_features: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = -1,
    verbose: int = 0,
) -> Comparison:
    """Fit several models to the same training rows and compare them on the same test rows.

    A model that fails is reported and does not stop the others. Ctrl-C ends the comparison and keeps the models that
    are done.

    Parameters
    ----------
    X : array-like or data frame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    models : mapping of str to estimator, list of names, or None
        None: our fast, balanced and ensemble models, and what is installed of CatBoost, LightGBM, NGBoost and
        quantile-forest, a conformalised booster, and the distribution of the training targets. A mapping gives models
        by name: any scikit-learn regressor, or anything with ``fit`` and ``predict_dist`` or
        ``predict_quantiles(X, levels)``, or the name of a built-in model such as ``"fast"`` or ``"catboost"``.
        Regressors that predict points only get split conformal intervals, calibrated on a fifth of their training
        rows.
    folds : int, default=1
        1: one split. More: cross-validation, whose errors also cover the variation of the training rows.
    test_size : float, default=0.25
        Fraction of the test rows of a single split.
    time : str or array-like of shape (n_rows,), default=None
        Name of a column of X, or times: test rows are then later than their training rows.
    groups : array-like of shape (n_rows,), or str, default=None
        Labels, or the name of a column of X that is then no feature: rows of one label are on one side of every split,
        also inside the models that take groups. By default rows with equal features are.
    coverage : float, default=0.9
        Of the intervals.
    categorical_features : list of names or positions, or bool mask, default=None
        Columns of category codes, for the built-in models. Text is categorical anyway.
    random_state : int, RandomState or None, default=0
        Seed of the splits and of all models that have none of their own.
    n_jobs : int or None, default=-1
        Number of threads of the built-in models.
    verbose : int, default=0
        1 reports each model on stderr.

    Returns
    -------
    Comparison
        A table with ``verdict``, ``differences()``, ``plot()`` and ``to_html(path)``.

    Examples
    --------
    >>> import numpy as np
    >>> import usnrt
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 2))
    >>> y = 3 * X[:, 0] + 0.1 * rng.normal(size=400)
    >>> result = usnrt.compare(X, y, {"linear": LinearRegression(), "constant": "constant"})
    >>> result.best
    'linear'
    """
    check_whole("folds", folds, 1)
    check_number("test_size", test_size, 0, 1)
    check_number("coverage", coverage, 0, 1)
    X, groups = groups_and_table(X, groups)
    target = read_target(y)
    if len(target) != np.shape(X)[0]:
        raise ValueError(f"y must have one value per row of X ({np.shape(X)[0]}), got {len(target)}")
    seed = int(random_state) if isinstance(random_state, int | np.integer) else _drawn(random_state)
    entered = contenders(models, seed, n_jobs, categorical_features, len(target))
    encoder = TableEncoder().fit(X, categorical_features=categorical_features)
    raw = encoder.transform(X)
    group = None if groups is None else read_groups(groups, len(target))
    splits = _splits(X, raw, target, folds, test_size, time, group, seed)
    regions = find_regions(encoder, raw, target, splits.folds[0][0], len(splits.test_rows), seed, n_jobs)
    report = _Reporter(verbose, len(entered))
    entries: list[Entry] = []
    interrupted = False
    for number, contender in enumerate(entered):
        report.start(number, contender.name)
        try:
            entry = _evaluated(contender, X, target, group, splits, coverage, report)
        except KeyboardInterrupt:
            interrupted = True
            if not any(entry.metrics for entry in entries):
                raise
            entries += [Entry(left.name, None, error="stopped before it was done") for left in entered[number:]]
            report.line("stopped; the models that are done are compared")
            break
        entries.append(entry)
        report.done(number, entry)
    name = getattr(y, "name", None)
    return Comparison(
        entries, splits, regions, coverage, interrupted=interrupted, seed=seed,
        target=name if isinstance(name, str) else None,
    )  # fmt: skip


def _drawn(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1))


def _splits(
    X: TableLike, raw: Floats, y: Floats, folds: int, test_size: float, time: Any, groups: Rows | None, seed: int
) -> Splits:
    if time is not None and groups is not None:
        raise ValueError("time and groups must not both be given, got both")
    if time is not None:
        return time_splits(read_time(time, X), folds, test_size)
    if groups is not None:
        return random_splits(groups, folds, test_size, seed, "groups")
    same, what = feature_groups(raw), "rows with equal features"
    if same is None:
        same = copies(raw, y)
        what = "copies of a row" if same.max() + 1 < len(y) else ""
    return random_splits(same, folds, test_size, seed, what)


def _evaluated(
    contender: Contender,
    X: TableLike,
    y: Floats,
    groups: Rows | None,
    splits: Splits,
    coverage: float,
    report: "_Reporter",
) -> Entry:
    """Fit and evaluate a model on all folds; its error becomes part of the entry."""
    parts: list[RowMetrics] = []
    seconds = np.zeros(2)
    for fold, (train, test) in enumerate(splits.folds):
        report.fold(contender.name, fold, len(splits.folds))
        try:
            begin = clock.process_time()
            model = fit_clone(contender.make(), take(X, train), y[train], None if groups is None else groups[train])
            fitted = clock.process_time()
            forecasts = forecasts_of(model, take(X, test), coverage)
            seconds += fitted - begin, clock.process_time() - fitted
            parts.append(_row_metrics(y[test], forecasts, coverage))
        except Exception as error:
            return Entry(contender.name, None, contender.note, error=_sentence(error))
    fit_seconds, predict_seconds = seconds / len(splits.folds)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Entry(contender.name, joined, contender.note, float(fit_seconds), float(predict_seconds))


def _row_metrics(y: Floats, forecasts: Forecasts, coverage: float) -> RowMetrics:
    rows = EvaluatedRows(y, as_forecast(forecasts.distribution), coverage, forecasts.interval, forecasts.point)
    metrics = {metric.name: metric.per_row(rows) for metric in shown_metrics() if metric.per_row is not None}
    for name, values in (("CRPS", metrics["crps"]), ("point forecasts", forecasts.point)):
        if len(values) != len(y) or not np.isfinite(values).all():
            raise ValueError(f"the {name} must be one finite number per row, got NaN or infinity")
    return metrics


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text[:300]}"


class _Reporter:
    """Progress on stderr: a line per model, and on a terminal what is running."""

    def __init__(self, verbose: int, n_models: int) -> None:
        self.verbose, self.n_models = verbose, n_models
        self.live = bool(verbose) and sys.stderr.isatty()
        self.running = ""

    def start(self, number: int, name: str) -> None:
        self.running = f"{number + 1}/{self.n_models} {name}"
        self._show(f"{self.running} ...")

    def fold(self, name: str, fold: int, n_folds: int) -> None:
        if n_folds > 1:
            self._show(f"{self.running}, fold {fold + 1} of {n_folds} ...")

    def done(self, number: int, entry: Entry) -> None:
        if entry.metrics is None:
            return self.line(f"{self.running}: failed, {entry.error}")
        crps = CRPS.average(entry.metrics["crps"])
        self.line(f"{self.running}: CRPS {crps:.4g}, fitted in {entry.fit_seconds:.1f} s of processor time")

    def line(self, text: str) -> None:
        if self.verbose:
            print(("\r\x1b[K" if self.live else "") + escaped(text), file=sys.stderr, flush=True)

    def _show(self, text: str) -> None:
        if self.live:
            print(f"\r\x1b[K{escaped(text)}", end="", file=sys.stderr, flush=True)
