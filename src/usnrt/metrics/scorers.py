"""Scorers for cross-validation and searches: larger is better, as in scikit-learn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from usnrt.distributions import Distribution
from usnrt.metrics.calibration import ece, tce
from usnrt.metrics.models import distribution_of, interval_of
from usnrt.metrics.scores import crps, interval_score, nll, pinball, rmse

_LOSSES: dict[str, Callable[[ArrayLike, Distribution], float]] = {
    "neg_crps": crps,
    "neg_nll": nll,
    "neg_interval_score": interval_score,
    "neg_pinball": pinball,
    "neg_ece": ece,
    "neg_tce": tce,
    "neg_rmse": rmse,
}


@dataclass(frozen=True)
class DistributionScorer:
    """A negated loss of a fitted estimator's predictions; called as ``scorer(estimator, X, y)``.

    The interval score is that of the estimator's ``predict_interval``, the others are of its distribution.
    """

    name: str

    def __call__(self, estimator: Any, X: Any, y: ArrayLike) -> float:
        if self.name == "neg_interval_score":
            return -interval_score(y, interval=interval_of(estimator, X, 0.9), coverage=0.9)
        return -_LOSSES[self.name](y, distribution_of(estimator, X))


def get_scorer(name: str) -> DistributionScorer:
    """A scorer for ``cross_val_score`` or ``GridSearchCV(scoring=...)``.

    Parameters
    ----------
    name : str
        One of :func:`get_scorer_names`: "neg_crps", "neg_nll", "neg_interval_score", "neg_pinball", "neg_ece",
        "neg_tce", "neg_rmse".

    Examples
    --------
    >>> from usnrt.metrics import get_scorer
    >>> get_scorer("neg_crps")
    DistributionScorer(name='neg_crps')
    """
    if name not in _LOSSES:
        raise ValueError(f"name must be one of {get_scorer_names()}, got {name!r}")
    return DistributionScorer(name)


def get_scorer_names() -> list[str]:
    """Names accepted by :func:`get_scorer`."""
    return sorted(_LOSSES)
