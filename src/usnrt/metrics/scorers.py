"""Scorers for cross-validation and searches: larger is better, as in scikit-learn."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from usnrt.metrics.intervals import rows_of_intervals
from usnrt.metrics.models import distribution_of, interval_of
from usnrt.metrics.registry import METRICS, evaluated_rows
from usnrt.utils.types import TableLike


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
