"""What a model is judged by: its distribution, its own intervals, and whether the rows are new to it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.distributions import Distribution
from usnrt.utils.types import Floats


def resolve(model: Any, X: Any) -> tuple[Any, Any]:
    """The estimator with ``predict_dist`` inside a pipeline or a search, and the features as it sees them.

    Parameters
    ----------
    model : fitted estimator, pipeline or search
    X : array-like or data frame of n rows

    Returns
    -------
    estimator, X

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from usnrt import USNRTRegressor
    >>> from usnrt.metrics.judged import resolve
    >>> pipeline = make_pipeline(FunctionTransformer(np.log1p), USNRTRegressor())
    >>> estimator, X = resolve(pipeline, np.zeros((1, 1)))
    >>> type(estimator).__name__, X.tolist()
    ('USNRTRegressor', [[0.0]])
    """
    if hasattr(model, "predict_dist"):
        return model, X
    if hasattr(model, "best_estimator_"):
        return resolve(model.best_estimator_, X)
    steps = getattr(model, "steps", None)
    if steps and hasattr(steps[-1][1], "predict_dist"):
        return steps[-1][1], model[:-1].transform(X) if len(steps) > 1 else X
    raise TypeError(
        f"model must be a Distribution or an estimator with predict_dist, but it is a {type(model).__name__}"
    )


def distribution_of(model: Any, X: Any) -> Distribution:
    """The predictive distribution of a fitted model, also of one at the end of a pipeline or inside a search."""
    estimator, rows = resolve(model, X)
    return estimator.predict_dist(rows)


def interval_of(model: Any, X: Any, coverage: Any = 0.9) -> Floats:
    """The intervals that a model is judged by: those of ``predict_interval``.

    A calibrated model does not take them from its distribution. Models that have no ``predict_interval`` are judged by
    the central interval of their distribution. Infinite intervals do not warn here: see `infinite_sentence`.

    Parameters
    ----------
    model : fitted estimator, pipeline or search
    X : array-like or data frame of n rows
    coverage : float or sequence of k floats, default=0.9

    Returns
    -------
    ndarray of shape (n, 2), or (n, 2, k) for a sequence
    """
    import warnings

    from usnrt.utils.notices import InfiniteIntervalWarning

    estimator, rows = resolve(model, X)
    if not hasattr(estimator, "predict_interval"):
        return estimator.predict_dist(rows).interval(coverage)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteIntervalWarning)
        return np.asarray(estimator.predict_interval(rows, coverage))


def is_infinite(ends: Floats) -> NDArray[np.bool_]:
    """Whether intervals have an infinite end, shape (n,) or (n, k), for ends of shape (n, 2) or (n, 2, k).

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.metrics.judged import is_infinite
    >>> is_infinite(np.array([[0.0, 1.0], [0.0, np.inf]]))
    array([False,  True])
    """
    return np.asarray(np.isinf(ends).any(axis=1))


def infinite_sentence(model: Any, ends: Floats, coverage: float) -> str:
    """That intervals are infinite, for how many of the rows, and why; empty if all are finite.

    Parameters
    ----------
    model : fitted estimator
        As from `resolve`. A calibrated one knows how many calibration rows are missing.
    ends : ndarray of shape (n, 2)
    coverage : float
    """
    from usnrt.estimators.regions import shortage

    share = float(is_infinite(ends).mean())
    if share == 0:
        return ""
    lack = shortage(getattr(model, "calibration_", None), coverage)
    why = "" if lack is None else f" ({lack.where}; {lack.needed:,} are needed)"
    return (
        f"the {100 * coverage:g} % interval is infinite for {share_text(share)} of the rows{why}: "
        "such an interval holds every value, so its coverage says nothing"
    )


def training_share(model: Any, X: Any, y: Floats) -> float:
    """The share of rows that the model was trained on, if it is more than half; else 0.

    Parameters
    ----------
    model : fitted estimator
        As from `resolve`. One that keeps no fingerprint of its training rows gives 0.
    X : array-like or data frame of n rows
    y : ndarray of shape (n,)
    """
    fingerprint = getattr(model, "fingerprint_", None)
    return 0.0 if fingerprint is None else fingerprint.share_of(model._encode(X), y)


def training_sentence(share: float) -> str:
    """The share of `training_share` in words; empty for 0.

    Examples
    --------
    >>> from usnrt.metrics.judged import training_sentence
    >>> training_sentence(0.98)
    '98 % of these rows are training rows: a model looks better on them than it is, so judge it on new rows'
    """
    if share == 0:
        return ""
    return (
        f"{share_text(share)} of these rows are training rows: a model looks better on them than it is, "
        "so judge it on new rows"
    )


def share_text(share: float) -> str:
    """A share in whole percent, neither rounded to nothing nor to all.

    Examples
    --------
    >>> from usnrt.metrics.judged import share_text
    >>> share_text(0.345), share_text(0.0001), share_text(0.9999), share_text(1.0)
    ('34 %', '1 %', '99 %', '100 %')
    """
    if 0 < share < 1:
        share = min(max(share, 0.01), 0.99)
    return f"{100 * share:.0f} %"
