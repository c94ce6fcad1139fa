"""Predictions of all kinds for a table, as a table of the same library."""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from usnrt.calibration.groups import insufficient_calibration
from usnrt.distributions import Distribution
from usnrt.utils.notices import UnguaranteedIntervalWarning
from usnrt.utils.result_table import Table
from usnrt.utils.types import Floats, TableLike

if TYPE_CHECKING:
    from usnrt.estimators.base import DistributionalRegressor


@dataclass(frozen=True)
class EncodedPredictions:
    """Predictions for n encoded rows, in units of the target.

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
    guaranteed : ndarray of bool of shape (n, k) or None
        Whether there are enough calibration rows for intervals with guaranteed coverage; None if not calibrated.
    """

    distribution: Distribution
    bounds: Floats
    region: NDArray[np.int64] | None
    supported: NDArray[np.bool_] | None
    guaranteed: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class FurtherColumns:
    """What a table of predictions has beside its usual columns.

    Attributes
    ----------
    quantiles : tuple of float
        Levels of the columns ``q<level>``.
    above : float or None
        The limit of the column ``probability_above``.

    Examples
    --------
    >>> from usnrt.distributions import Normal
    >>> from usnrt.estimators.prediction_table import FurtherColumns
    >>> FurtherColumns((0.5,), 0.0).of(Normal([0.0], [1.0]))
    {'q0.5': array([0.]), 'probability_above': array([0.5])}
    """

    quantiles: tuple[float, ...] = ()
    above: float | None = None

    def of(self, dist: Distribution) -> dict[str, NDArray[Any]]:
        """The columns."""
        columns: dict[str, NDArray[Any]] = {}
        if self.quantiles:
            levels = dist.ppf(list(self.quantiles)).T
            columns |= {f"q{level:g}": values for level, values in zip(self.quantiles, levels)}
        return columns if self.above is None else {**columns, "probability_above": dist.sf(self.above)}


NOTHING_FURTHER = FurtherColumns()


def prediction_table(
    model: "DistributionalRegressor", X: TableLike, coverage: float = 0.9, further: FurtherColumns = NOTHING_FURTHER
) -> Any:
    """Mean, standard deviation, interval, region and support of every row.

    Parameters
    ----------
    model : DistributionalRegressor
        A fitted model.
    X : array-like or data frame of shape (n_rows, n_features)
    coverage : float, default=0.9
        Nominal coverage of the interval from ``lower`` to ``upper``.
    further : FurtherColumns, optional

    Returns
    -------
    data frame or Table of n_rows rows
        Columns ``mean``, ``std``, ``lower``, ``upper``, for models with regions ``region``, and for models with
        support ``supported``: whether a row resembles the training rows. For calibrated models ``guaranteed``: False
        where the calibration rows are too few, so that the interval is that of the distribution. A pandas, polars or
        pyarrow input gives the same kind of frame, with the index of a pandas frame kept; anything else gives a
        `usnrt.utils.result_table.Table`.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.distributions import Normal
    >>> from usnrt.estimators.base import DistributionalRegressor
    >>> from usnrt.estimators.prediction_table import prediction_table
    >>> from usnrt.model.target import TargetScale
    >>> class StandardNormal(DistributionalRegressor):
    ...     def _fit(self, rows):
    ...         self.target_scale_ = TargetScale(5.0, 1.0)
    ...     def _distribution(self, raw):
    ...         return Normal(np.zeros(len(raw)), np.ones(len(raw)))
    >>> model = StandardNormal().fit([[0.0], [1.0]], [4.0, 6.0])
    >>> prediction_table(model, [[0.0], [1.0]])
       mean  std  lower  upper
    0     5    1  3.355  6.645
    1     5    1  3.355  6.645
    """
    check_coverage(coverage)
    predicted = model._predict_encoded(model._encode(X), [float(coverage)])
    if predicted.guaranteed is not None and not predicted.guaranteed.all():
        insufficient = insufficient_calibration(getattr(model, "calibration_", None), float(coverage))
        if insufficient is not None:
            warnings.warn(insufficient.unguaranteed, UnguaranteedIntervalWarning, stacklevel=3)
    return like_frame(prediction_columns(predicted) | further.of(predicted.distribution), X)


def like_frame(columns: dict[str, NDArray[Any]], X: TableLike) -> Any:
    """Columns as a frame of the library that X came from, with its index, or as a `Table` if X is no frame.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.estimators.prediction_table import like_frame
    >>> like_frame({"mean": np.array([1.0])}, [[0.0]])
       mean
    0     1
    """
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    if not isinstance(frame, nw.DataFrame):
        return Table(columns)
    result = nw.from_dict(columns, backend=frame.implementation).to_native()
    if frame.implementation.is_pandas():
        result.index = X.index
    return result


def prediction_columns(predicted: EncodedPredictions) -> dict[str, NDArray[Any]]:
    """The columns of a table of predictions with one coverage."""
    dist, bounds = predicted.distribution, predicted.bounds
    columns: dict[str, NDArray[Any]] = {"mean": dist.mean(), "std": dist.std()}
    columns |= {"lower": bounds[:, 0, 0], "upper": bounds[:, 1, 0]}
    if predicted.region is not None:
        columns["region"] = predicted.region
    if predicted.supported is not None:
        columns["supported"] = predicted.supported
    if predicted.guaranteed is not None:
        columns["guaranteed"] = predicted.guaranteed[:, 0]
    return columns


def check_coverage(coverage: float) -> None:
    """Raise a ValueError unless the coverage is one number in (0, 1)."""
    if np.ndim(coverage) or not 0 < coverage < 1:
        raise ValueError(f"coverage must be in (0, 1), got {coverage!r}")
