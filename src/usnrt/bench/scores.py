"""Metrics from stored per-row predictions, so that a new one needs no refit; all times 100, as in the paper."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = Mapping[str, NDArray[Any]]

CALIBRATION_LEVELS = np.arange(1, 100) / 100
TAIL_LEVELS = np.array([0.05, 0.1, 0.15, 0.2])


def ece(rows: Rows) -> float:
    """Expected calibration error: mean gap between 99 stated probabilities and how often they came true."""
    below = np.searchsorted(np.sort(rows["pit"]), CALIBRATION_LEVELS, side="left") / len(rows["pit"])
    return float(100 * np.mean(np.abs(below - CALIBRATION_LEVELS)))


def tce(rows: Rows) -> float:
    """Tail-interval calibration error: the same for the central 90, 80, 70 and 60 % intervals."""
    pit = rows["pit"][:, None]
    inside = np.mean((pit > TAIL_LEVELS) & (pit < 1 - TAIL_LEVELS), axis=0)
    return float(100 * np.mean(np.abs(inside - (1 - 2 * TAIL_LEVELS))))


def sharpness(rows: Rows) -> float:
    """Mean predicted standard deviation."""
    return float(100 * np.mean(rows["std"], dtype=float))


def rmse(rows: Rows) -> float:
    """Root mean squared error of the mean."""
    return float(100 * np.sqrt(np.mean((rows["y"].astype(float) - rows["mean"].astype(float)) ** 2)))


def nll(rows: Rows) -> float:
    """Mean negative log-likelihood; infinite when one row was held to be impossible."""
    return float(-100 * np.mean(rows["logpdf"], dtype=float))


def crps(rows: Rows) -> float:
    """Mean continuous ranked probability score."""
    return float(100 * np.mean(rows["crps"], dtype=float))


def inside90(rows: Rows) -> NDArray[np.bool_]:
    """Whether the model's 90 % interval held each target, shape (n,).

    Records from before ``inside90`` was stored have the central interval of the distribution instead.
    """
    return rows["inside90"] if "inside90" in rows else (rows["pit"] > 0.05) & (rows["pit"] < 0.95)


def coverage90(rows: Rows) -> float:
    """How often the 90 % interval held the target."""
    return float(100 * np.mean(inside90(rows)))


def worst_leaf_gap(rows: Rows) -> float:
    """Largest gap of the 90 % interval's coverage over the regions of a tree; NaN for models without regions."""
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
    "crps": crps,
    "coverage90": coverage90,
    "worst_leaf_gap": worst_leaf_gap,
}


def score(rows: Rows) -> dict[str, float]:
    """Every metric of one cell's predictions.

    Parameters
    ----------
    rows : mapping of str to ndarray of shape (n,)
        ``y``, ``mean``, ``std``, ``pit`` (the predicted probability of a value up to ``y``), ``logpdf``, ``crps``,
        ``inside90`` (whether ``y`` is in the 90 % interval) and, for trees, ``leaf`` (the region).

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.bench.scores import rmse
    >>> rmse({"y": np.array([1.0, 2.0]), "mean": np.array([1.5, 2.5])})
    50.0
    """
    return {name: metric(rows) for name, metric in METRICS.items()}
