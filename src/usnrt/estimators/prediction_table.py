"""Predictions of all kinds for a table that is encoded once, and as a table of the library that it came from."""

import warnings
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from usnrt.distributions import Distribution
from usnrt.estimators.base import DistributionalRegressor
from usnrt.estimators.calibrated import CalibratedRegressor
from usnrt.estimators.regions import shortage
from usnrt.estimators.supported import SupportedRegressor
from usnrt.utils.notices import InfiniteIntervalWarning
from usnrt.utils.result_table import Table
from usnrt.utils.types import Floats


@dataclass(frozen=True)
class EncodedPredictions:
    """What a model predicts for n encoded rows, in units of the target.

    Attributes
    ----------
    distribution : Distribution
        Without the parts of its variance (aleatoric, epistemic) if the model is calibrated.
    bounds : ndarray of shape (n, 2, k)
        As from ``predict_interval`` with k coverages.
    region : ndarray of int of shape (n,) or None
        As from ``apply``; None for models without regions.
    supported : ndarray of bool of shape (n,) or None
        As from ``predict_support``; None for models without support.
    """

    distribution: Distribution
    bounds: Floats
    region: NDArray[np.int64] | None
    supported: NDArray[np.bool_] | None


def predict_encoded(model: DistributionalRegressor, raw: Floats, coverages: list[float]) -> EncodedPredictions:
    """Predict encoded rows; the networks run once and the support is measured once.

    Parameters
    ----------
    model : DistributionalRegressor
        A fitted model.
    raw : ndarray of shape (n, n_columns)
        Encoded rows, ``model._encode(X)``.
    coverages : list of k floats
        In (0, 1).

    Returns
    -------
    EncodedPredictions
    """
    region = model.tree_.apply(raw) if hasattr(model, "tree_") else None
    if isinstance(model, CalibratedRegressor) and model.calibration_ is not None:
        predicted = model._predicted(raw)
        leaf, found = predicted.leaf, predicted.found
        scaled: Distribution = model._from_quantiles(leaf, predicted.mean, predicted.quantiles)
        ends = [model.calibration_.interval(predicted.quantiles, leaf, coverage) for coverage in coverages]
        bounds = np.stack([model.target_mean_ + model.target_std_ * end for end in ends], axis=2)
        dist = scaled.scaled(model.target_mean_, model.target_std_)
    else:
        found = None
        dist = model._distribution(raw).scaled(model.target_mean_, model.target_std_)
        bounds = dist.interval(coverages)
    if found is None and isinstance(model, SupportedRegressor) and model.support_ is not None:
        found = model.support_.measure(raw, model.tree_.leaf_of(raw))
    return EncodedPredictions(dist, bounds, region, None if found is None else found.supported)


def prediction_table(model: DistributionalRegressor, X: Any, coverage: float = 0.9) -> Any:
    """Mean, standard deviation, interval, region and support of every row.

    Parameters
    ----------
    model : DistributionalRegressor
        A fitted model.
    X : array-like or data frame of shape (n_rows, n_features)
    coverage : float, default=0.9
        Nominal coverage of the interval from ``lower`` to ``upper``.

    Returns
    -------
    data frame or Table of n_rows rows
        Columns ``mean``, ``std``, ``lower``, ``upper``, for models with regions ``region``, and for models with
        support ``supported``: whether a row resembles the training rows. A pandas, polars or pyarrow input gives the
        same kind of frame, with the index of a pandas frame kept; anything else gives a
        `usnrt.utils.result_table.Table`.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.distributions import Normal
    >>> from usnrt.estimators.base import DistributionalRegressor
    >>> from usnrt.estimators.prediction_table import prediction_table
    >>> class StandardNormal(DistributionalRegressor):
    ...     def _fit(self, rows):
    ...         self.target_mean_, self.target_std_ = 5.0, 1.0
    ...     def _distribution(self, raw):
    ...         return Normal(np.zeros(len(raw)), np.ones(len(raw)))
    >>> model = StandardNormal().fit([[0.0], [1.0]], [4.0, 6.0])
    >>> prediction_table(model, [[0.0], [1.0]])
       mean  std  lower  upper
    0     5    1  3.355  6.645
    1     5    1  3.355  6.645
    """
    if np.ndim(coverage) or not 0 < coverage < 1:
        raise ValueError(f"coverage must be in (0, 1), got {coverage!r}")
    found = predict_encoded(model, model._encode(X), [float(coverage)])
    lower, upper = found.bounds[:, 0, 0], found.bounds[:, 1, 0]
    if not np.isfinite(found.bounds).all():
        lack = shortage(getattr(model, "calibration_", None), float(coverage))
        if lack is not None:
            warnings.warn(str(lack), InfiniteIntervalWarning, stacklevel=3)
    dist = found.distribution
    columns: dict[str, NDArray[Any]] = {"mean": dist.mean(), "std": dist.std(), "lower": lower, "upper": upper}
    if found.region is not None:
        columns["region"] = found.region
    if found.supported is not None:
        columns["supported"] = found.supported
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    if not isinstance(frame, nw.DataFrame):
        return Table(columns)
    result = nw.from_dict(columns, backend=frame.implementation).to_native()
    if frame.implementation.is_pandas():
        result.index = X.index
    return result
