"""What determines a fit, so that a checkpoint is continued by the same fit only."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from usnrt.tables.store import RowStore
from usnrt.utils.json_values import json_value

# Parameters that do not affect the fitted model.
OF_THE_RUN = ("n_jobs", "verbose", "callbacks")


def check_resumable(estimator: Any, checkpoint: Any) -> None:
    """Refuse a checkpoint for an estimator that has none."""
    if checkpoint is not None and not estimator._RESUMABLE:
        raise ValueError(
            f"checkpoint must be None for {type(estimator).__name__}, which cannot continue a fit, got {checkpoint!r}"
        )


def identity_of(estimator: BaseEstimator, store: RowStore, n_categories: ArrayLike) -> dict[str, dict[str, Any]]:
    """Class, parameters and data of a fit as JSON values.

    Parameters
    ----------
    estimator : estimator
    store : RowStore
        The rows. Their order depends on their content only, so a table is the same in any order.
    n_categories : array-like of int
        Number of categories of each column, 0 for numbers.

    Returns
    -------
    dict of str to dict
        By topic: ``"estimator"``, ``"parameters"``, ``"data"``.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt import USNRTRegressor
    >>> from usnrt.estimators.fit_identity import identity_of
    >>> from usnrt.tables.store import MemoryStore
    >>> from usnrt.tables.training import DistinctRows
    >>> rows = DistinctRows(np.ones((1, 1)), np.ones(1), np.ones(1), np.zeros(1, dtype=int))
    >>> identity = identity_of(USNRTRegressor(alpha=0.02), MemoryStore(rows), [0])
    >>> identity["parameters"]["alpha"], identity["data"]["rows"]
    (0.02, 1)
    """
    parameters = {
        name: json_value(value, nonfinite="text", other=_described)
        for name, value in estimator.get_params(deep=True).items()
        if name.split("__")[-1] not in OF_THE_RUN and not hasattr(value, "get_params")
    }
    digest = hashlib.sha256(np.asarray(n_categories, dtype=np.int64).tobytes())
    for bucket in range(store.n_buckets):
        digest.update(store.hashes(bucket).tobytes())
    for bucket in range(store.n_buckets):
        digest.update(store.read(bucket).weight.tobytes())
    data = {"columns": store.n_features, "rows": store.n_rows, "hash of the data": digest.hexdigest()[:16]}
    return {"estimator": {"estimator": type(estimator).__name__}, "parameters": parameters, "data": data}


def _described(value: Any) -> str:
    """Text for a value that JSON does not have: the same for equal random generators."""
    if isinstance(value, np.random.RandomState):
        kind, keys, *position = value.get_state(legacy=True)
        return f"{kind} {hashlib.sha256(np.asarray(keys).tobytes()).hexdigest()[:16]} {position}"
    return repr(value)
