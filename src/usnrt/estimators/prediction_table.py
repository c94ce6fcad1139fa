"""Predictions beside each other in a table of the library that the input came in."""

from typing import Any

import narwhals as nw
import numpy as np

from usnrt.utils.result_table import Table


def prediction_table(model: Any, X: Any, coverage: float = 0.9) -> Any:
    """Mean, standard deviation, interval, region and support of every row.

    Parameters
    ----------
    model : DistributionalRegressor
        A fitted model. Its ``apply(X)``, if it has one, gives the regions.
    X : array-like or data frame of shape (n_rows, n_features)
    coverage : float, default=0.9
        Probability that the interval from ``lower`` to ``upper`` should hold the target.

    Returns
    -------
    data frame or Table of n_rows rows
        Columns ``mean``, ``std``, ``lower``, ``upper``, for models with regions ``region``, and for models that know
        their support ``supported``: whether a row resembles the training rows. A pandas, polars
        or pyarrow input gives the same kind of frame, with the index of a pandas frame kept; anything
        else gives a `usnrt.utils.result_table.Table`.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.distributions import Normal
    >>> from usnrt.estimators.prediction_table import prediction_table
    >>> class Model:
    ...     def predict_dist(self, X):
    ...         return Normal(np.zeros(len(X)), np.ones(len(X)))
    ...     def predict_interval(self, X, coverage):
    ...         return self.predict_dist(X).interval(coverage)
    >>> prediction_table(Model(), np.ones((2, 1)))
       mean  std   lower  upper
    0     0    1  -1.645  1.645
    1     0    1  -1.645  1.645
    """
    if np.ndim(coverage) or not 0 < coverage < 1:
        raise ValueError(f"coverage must be in (0, 1), got {coverage!r}")
    dist = model.predict_dist(X)
    # Asked from the model, not from the distribution: calibrated models have intervals with a guarantee.
    lower, upper = np.asarray(model.predict_interval(X, float(coverage))).T
    columns = {"mean": dist.mean(), "std": dist.std(), "lower": lower, "upper": upper}
    if hasattr(model, "apply"):
        regions = np.asarray(model.apply(X))
        if regions.ndim == 1:  # other ensembles have a leaf in each of their trees
            columns["region"] = regions
    if getattr(model, "support_", None) is not None:
        columns["supported"] = model.predict_support(X)["supported"]
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    if not isinstance(frame, nw.DataFrame):
        return Table(columns)
    result = nw.from_dict(columns, backend=frame.implementation).to_native()
    if frame.implementation.is_pandas():
        result.index = X.index
    return result
