"""Metrics of stored per-row predictions, so that a new metric needs no refit; all times 100, as in the paper."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.metrics.calibration import ece_from_pit, tce_from_pit

Rows = Mapping[str, NDArray[Any]]

LOG_DENSITY_FLOOR = float(np.log(1e-16))


def ece(rows: Rows) -> float:
    """Expected calibration error, see `usnrt.metrics.ece`."""
    return 100 * ece_from_pit(rows["pit"])


def tce(rows: Rows) -> float:
    """Tail-interval calibration error, see `usnrt.metrics.tce`."""
    return 100 * tce_from_pit(rows["pit"])


def sharpness(rows: Rows) -> float:
    """Mean predicted standard deviation."""
    return float(100 * np.mean(rows["std"], dtype=float))


def rmse(rows: Rows) -> float:
    """Root mean squared error of the mean."""
    return float(100 * np.sqrt(np.mean((rows["y"].astype(float) - rows["mean"].astype(float)) ** 2)))


def nll(rows: Rows) -> float:
    """Mean negative log-likelihood; infinite if one row has a density of 0."""
    return float(-100 * np.mean(rows["logpdf"], dtype=float))


def nll_floored(rows: Rows) -> float:
    """`nll` with densities of the scaled target floored at 1e-16, as in the code of the paper's ensembles."""
    return float(-100 * np.mean(np.maximum(rows["logpdf"], LOG_DENSITY_FLOOR), dtype=float))


def crps(rows: Rows) -> float:
    """Mean continuous ranked probability score."""
    return float(100 * np.mean(rows["crps"], dtype=float))


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
    "ece": ece,
    "tce": tce,
    "sharpness": sharpness,
    "rmse": rmse,
    "nll": nll,
    "nll_floored": nll_floored,
    "crps": crps,
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
    >>> from usnrt_experiments.scores import rmse
    >>> rmse({"y": np.array([1.0, 2.0]), "mean": np.array([1.5, 2.5])})
    50.0
    """
    return {name: metric(rows) for name, metric in METRICS.items()}
