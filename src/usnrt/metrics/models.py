"""Forecasts of models, whatever library they are from, and scorers."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from usnrt.distributions import Distribution
from usnrt.metrics.intervals import is_infinite, rows_of_intervals
from usnrt.metrics.registry import METRICS, evaluated_rows
from usnrt.utils.notices import InfiniteIntervalWarning, UnguaranteedIntervalWarning, share_text
from usnrt.utils.types import Floats, TableLike


class PredictsDistribution(Protocol):
    """A fitted estimator with predictive distributions."""

    def predict_dist(self, X: TableLike) -> Distribution:
        """Predictive distributions, one per row."""


def resolve(model: Any, X: TableLike) -> tuple[PredictsDistribution, Any]:
    """The estimator with ``predict_dist`` inside a pipeline or a search, and the features as it sees them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from usnrt import USNRTRegressor
    >>> from usnrt.metrics.models import resolve
    >>> pipeline = make_pipeline(FunctionTransformer(np.log1p), USNRTRegressor())
    >>> estimator, X = resolve(pipeline, np.zeros((1, 1)))
    >>> type(estimator).__name__, X.tolist()
    ('USNRTRegressor', [[0.0]])
    """
    # Pipelines first, also those with predict_dist: the estimator knows its training rows.
    steps = getattr(model, "steps", None)
    if isinstance(steps, list) and steps and hasattr(steps[-1][1], "predict_dist"):
        return steps[-1][1], model[:-1].transform(X) if len(steps) > 1 else X
    if hasattr(model, "predict_dist"):
        return model, X
    if hasattr(model, "best_estimator_"):
        return resolve(model.best_estimator_, X)
    raise TypeError(f"model must be a Distribution or an estimator with predict_dist, got a {type(model).__name__}")


def distribution_of(model: Any, X: TableLike) -> Distribution:
    """The predictive distribution of a fitted model, also of one at the end of a pipeline or inside a search."""
    estimator, rows = resolve(model, X)
    return estimator.predict_dist(rows)


def interval_of(model: Any, X: TableLike, coverage: float | Sequence[float] = 0.9) -> Floats:
    """The intervals that a model is evaluated by, shape (n, 2), or (n, 2, k) for a sequence of k coverages.

    They are those of ``predict_interval``, which differ from those of the distribution of a calibrated model; without
    it the central intervals of the distribution. No warning about infinite intervals (see `infinite_sentence`), or
    about those that are not guaranteed (see `unguaranteed_sentence`).
    """
    estimator, rows = resolve(model, X)
    if not hasattr(estimator, "predict_interval"):
        return estimator.predict_dist(rows).interval(coverage)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteIntervalWarning)
        warnings.simplefilter("ignore", UnguaranteedIntervalWarning)
        return np.asarray(estimator.predict_interval(rows, coverage))


def distribution_and_interval(model: Any, X: TableLike, coverages: Sequence[float]) -> tuple[Distribution, Floats]:
    """`distribution_of` and `interval_of`, from one prediction where the model is one of this library."""
    from usnrt.estimators.base import DistributionalRegressor

    estimator, rows = resolve(model, X)
    if not isinstance(estimator, DistributionalRegressor):
        # one by one: other libraries need not take several coverages
        bounds = [interval_of(estimator, rows, coverage) for coverage in coverages]
        return distribution_of(estimator, rows), np.stack(bounds, axis=2)
    found = estimator._predict_encoded(estimator._encode(rows), list(coverages))
    return found.distribution, found.bounds


def infinite_sentence(model: object, ends: Floats, coverage: float) -> str:
    """Message that intervals are infinite, for how many rows, and why; empty if all are finite.

    For a calibrated model it states how many calibration rows are needed.
    """
    from usnrt.calibration.groups import insufficient_calibration

    share = float(is_infinite(ends).mean())
    if share == 0:
        return ""
    insufficient = insufficient_calibration(getattr(model, "calibration_", None), coverage)
    why = "" if insufficient is None else f" ({insufficient.where}; {insufficient.needed:,} are needed)"
    return (
        f"the {100 * coverage:g} % interval is infinite for {share_text(share)} of the rows{why}: "
        "such an interval holds every value, so its coverage carries no information"
    )


def unguaranteed_sentence(model: object, coverage: float) -> str:
    """Message that intervals are not guaranteed, and how many calibration rows are needed; empty if all are."""
    from usnrt.calibration.groups import insufficient_calibration

    insufficient = insufficient_calibration(getattr(model, "calibration_", None), coverage)
    return "" if insufficient is None else insufficient.unguaranteed


def training_share(model: Any, X: TableLike, y: Floats) -> float:
    """The share of rows that the model was trained on, if it is more than half; else 0.

    It is 0 for a model without a fingerprint of its training rows.
    """
    return encoded_training_share(model, model._encode(X), y) if hasattr(model, "fingerprint_") else 0.0


def encoded_training_share(model: object, raw: Floats, y: Floats) -> float:
    """`training_share` of encoded rows, ``model._encode(X)``."""
    fingerprint = getattr(model, "fingerprint_", None)
    return 0.0 if fingerprint is None else float(fingerprint.share_of(raw, y))


def training_sentence(share: float) -> str:
    """Message about the share of `training_share`; empty for 0.

    Examples
    --------
    >>> from usnrt.metrics.models import training_sentence
    >>> training_sentence(0.98)
    '98 % of these rows are training rows: metrics on them are too optimistic; evaluate on new rows'
    """
    if share == 0:
        return ""
    return (
        f"{share_text(share)} of these rows are training rows: metrics on them are too optimistic; evaluate on new rows"
    )


@dataclass(frozen=True)
class DistributionScorer:
    """A metric of a fitted estimator's predictions, negated if lower is better.

    Called as ``scorer(estimator, X, y)``. Metrics of intervals are those of the estimator's ``predict_interval``, the
    others are of its distribution.
    """

    name: str

    def __call__(self, estimator: Any, X: TableLike, y: ArrayLike) -> float:
        metric = METRICS[self.name.removeprefix("neg_")]
        if metric.of_interval:
            rows = rows_of_intervals(y, interval_of(estimator, X, 0.9), 0.9)
        else:
            rows = evaluated_rows(y, distribution_of(estimator, X))
        return -metric.value(rows) if metric.orientation == "lower" else metric.value(rows)


def get_scorer(name: str) -> DistributionScorer:
    """A scorer for ``cross_val_score`` or ``GridSearchCV(scoring=...)``.

    Parameters
    ----------
    name : str
        One of :func:`get_scorer_names`, with or without "neg_": "neg_crps" and "crps" are the same scorer.

    Examples
    --------
    >>> from usnrt.metrics import get_scorer
    >>> get_scorer("crps")
    DistributionScorer(name='neg_crps')
    """
    names = get_scorer_names()
    if name in names:
        return DistributionScorer(name)
    if f"neg_{name}" in names:
        return DistributionScorer(f"neg_{name}")
    raise ValueError(f"name must be one of {names}, got {name!r}")


def get_scorer_names() -> list[str]:
    """Names accepted by :func:`get_scorer`: metrics of which lower values are better begin with "neg_".

    Examples
    --------
    >>> from usnrt.metrics import get_scorer_names
    >>> get_scorer_names()[:4]
    ['neg_crps', 'neg_ece', 'neg_interval_score', 'neg_mae']
    """
    prefix = {"lower": "neg_", "higher": ""}
    return sorted(prefix[m.orientation] + m.name for m in METRICS.values() if m.orientation in prefix)
