"""Metrics of stored per-row predictions, so that a new metric needs no refit; all times 100, as in the paper."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt import metrics
from usnrt.metrics.forecast import Forecast, tail_levels
from usnrt.utils.types import Floats

Rows = Mapping[str, NDArray[Any]]

LOG_DENSITY_FLOOR = float(np.log(1e-16))


class StoredForecast(Forecast):
    """The predictions of a cell, as its per-row arrays; what is not stored raises a KeyError."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def _floats(self, name: str) -> Floats:
        return self.rows[name].astype(np.float64)

    def mean(self) -> Floats:
        return self._floats("mean")

    def std(self) -> Floats:
        return self._floats("std")

    def logpdf(self, y: Floats) -> Floats:
        return self._floats("logpdf")

    def crps(self, y: Floats) -> Floats:
        return self._floats("crps")

    # y is below a quantile where the predicted probability of a value up to y is below its level

    def count_levels_below(self, y: Floats, levels: Floats) -> NDArray[np.intp]:
        return np.searchsorted(levels, self.rows["pit"], side="right")

    def inside(self, y: Floats, coverages: Floats) -> NDArray[np.bool_]:
        (low, high), pit = tail_levels(coverages), self.rows["pit"][:, None]
        return np.asarray((low < pit) & (pit < high))


def library_metric(name: str, rows: Rows) -> float:
    """A metric of `usnrt.metrics.METRICS`."""
    y = rows["y"].astype(np.float64) if "y" in rows else np.empty(0)
    return 100 * metrics.METRICS[name].value(metrics.EvaluatedRows(y, StoredForecast(rows)))


def nll_floored(rows: Rows) -> float:
    """NLL with densities of the scaled target floored at 1e-16, as in the code of the paper's ensembles."""
    return float(-100 * np.mean(np.maximum(rows["logpdf"], LOG_DENSITY_FLOOR), dtype=float))


def inside90(rows: Rows) -> NDArray[np.bool_]:
    """Whether the model's 90 % interval contains each target, shape (n,).

    For older records, without ``inside90``, that of the central interval of the distribution.
    """
    inside: NDArray[np.bool_] = rows["inside90"] if "inside90" in rows else (rows["pit"] > 0.05) & (rows["pit"] < 0.95)
    return inside


def coverage90(rows: Rows) -> float:
    """Coverage of the 90 % interval."""
    return float(100 * np.mean(inside90(rows)))


def worst_leaf_gap(rows: Rows) -> float:
    """Largest deviation of a region's coverage from 90 %; NaN for models without regions."""
    if "leaf" not in rows:
        return float("nan")
    inside = inside90(rows)
    return float(100 * max(abs(inside[rows["leaf"] == leaf].mean() - 0.9) for leaf in np.unique(rows["leaf"])))


METRICS: dict[str, Callable[[Rows], float]] = {
    **{name: partial(library_metric, name) for name in ("ece", "tce", "sharpness", "rmse", "nll")},
    "nll_floored": nll_floored,
    "crps": partial(library_metric, "crps"),
    "coverage90": coverage90,
    "worst_leaf_gap": worst_leaf_gap,
}


def score(rows: Rows) -> dict[str, float]:
    """All metrics of one cell's predictions.

    Parameters
    ----------
    rows : mapping of str to ndarray of shape (n,)
        ``y``, ``mean``, ``std``, ``pit`` (the predicted probability of a value up to ``y``), ``logpdf``, ``crps``,
        ``inside90`` (whether ``y`` is in the 90 % interval) and, for trees, ``leaf`` (the region).

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt_experiments.scores import METRICS
    >>> METRICS["rmse"]({"y": np.array([1.0, 2.0]), "mean": np.array([1.5, 2.5])})
    50.0
    """
    return {name: metric(rows) for name, metric in METRICS.items()}
