"""Running one cell: load, fit, predict, and collect what is stored."""

import os
import platform
import socket
import subprocess
import time
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.metrics.models import PredictsDistribution, interval_of
from usnrt.utils.result_table import json_value
from usnrt_experiments.grid import Cell, TrainTestSplit, load_split
from usnrt_experiments.jackknife import leave_out_blocks
from usnrt_experiments.recipes import get_recipe
from usnrt_experiments.scores import score
from usnrt_experiments.trees import describe_tree

QUANTILE_LEVELS = (0.05, 0.1, 0.15, 0.2, 0.8, 0.85, 0.9, 0.95)
_PACKAGES = (
    *("usnrt", "numpy", "scipy", "scikit-learn", "jax", "optax", "catboost", "lightgbm", "ngboost", "quantile-forest"),
    *("xgboost", "xgboost-cpu", "crepes", "mapie", "statsmodels", "pytabkit", "torch"),
)

Arrays = dict[str, NDArray[Any]]


def run_cell(cell: Cell, n_jobs: int = 1) -> tuple[dict[str, Any], Arrays]:
    """Fit and evaluate one cell.

    Parameters
    ----------
    cell : Cell
    n_jobs : int, default=1
        Number of threads of the model.

    Returns
    -------
    meta : dict
        Settings, versions, times, metrics and facts about the tree, as values that JSON can hold.
    arrays : dict of str to ndarray of shape (n_test, ...)
        Per-row predictions for the scaled target, see :func:`predict_rows`, and for a tree the data of its figures.

    Examples
    --------
    >>> from usnrt_experiments import Cell
    >>> from usnrt_experiments.cells import run_cell
    >>> meta, arrays = run_cell(Cell("generated-piecewise-100", "constant-normal", 42))
    >>> meta["n_test"], arrays["mean"].shape
    (20, (20,))
    """
    split = load_split(cell.dataset, cell.seed)
    model = get_recipe(cell.recipe).build(random_state=cell.seed, n_jobs=n_jobs)
    start, start_cpu = time.perf_counter(), time.process_time()
    model.fit(split.X_train, split.y_train)
    fitted, fitted_cpu = time.perf_counter(), time.process_time()
    arrays = _distribution_rows(model, split)
    predicted = time.perf_counter()
    arrays |= _interval_rows(model, split)
    metrics = score(arrays)
    blocks = leave_out_blocks(arrays)
    tree, figure_arrays = describe_tree(model, split)
    arrays |= figure_arrays
    meta = {
        "n_train": len(split.y_train),
        "n_test": len(split.y_test),
        "n_features": int(split.X_train.shape[1]),
        "target_mean": split.target_mean,
        "target_std": split.target_std,
        "metrics": metrics,
        "leave_out_blocks": blocks,
        "fit_seconds": round(fitted - start, 3),
        "fit_cpu_seconds": round(fitted_cpu - start_cpu, 3),
        "predict_seconds": round(predicted - fitted, 3),
        "n_jobs": n_jobs,
        "settings": settings_of(model),
        "tree": tree,
        **provenance(),
    }
    return meta, arrays


def provenance() -> dict[str, Any]:
    """Versions, commit, machine, process and time of a record."""
    return {
        "versions": {"python": platform.python_version(), **_versions()},
        "revision": _revision(),
        "host": socket.gethostname(),
        "process": os.getpid(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def predict_rows(model: PredictsDistribution, split: TrainTestSplit) -> Arrays:
    """Predictions for the test rows in a compact form.

    Quantiles are stored in standard deviations from the mean, at half precision: for a normal distribution they are the
    same in every row and compress well. ``leaf`` is the region's id, and ``inside90`` whether the target is in the
    model's own 90 % interval, which differs from that of its distribution if the model is calibrated.
    """
    return _distribution_rows(model, split) | _interval_rows(model, split)


def _interval_rows(model: PredictsDistribution, split: TrainTestSplit) -> Arrays:
    lower, upper = np.asarray(interval_of(model, split.X_test, 0.9)).T
    return {"inside90": (lower <= split.y_test) & (split.y_test <= upper)}


def _distribution_rows(model: PredictsDistribution, split: TrainTestSplit) -> Arrays:
    y = split.y_test
    dist = model.predict_dist(split.X_test)
    mean, std = dist.mean(), dist.std()
    with np.errstate(invalid="ignore", divide="ignore", over="ignore", under="ignore"):
        z = (dist.ppf(np.array(QUANTILE_LEVELS)) - mean[:, None]) / std[:, None]
        arrays: Arrays = {
            "y": y.astype(np.float32),
            "mean": mean.astype(np.float32),
            "std": std.astype(np.float32),
            "pit": dist.cdf(y).astype(np.float32),
            "logpdf": dist.logpdf(y).astype(np.float32),
            "crps": dist.crps(y).astype(np.float32),
            "z_quantiles": z.astype(np.float16),
        }
    if hasattr(model, "apply"):
        leaf = np.asarray(model.apply(split.X_test))
        if leaf.ndim == 1:
            arrays["leaf"] = leaf.astype(np.int16)
    return arrays


def settings_of(model: Any) -> dict[str, Any]:
    """A model's parameters as values that JSON can hold."""
    settings = dict(sorted(model.get_params(deep=False).items()))
    return {name: json_value(value, nonfinite="text", other=repr) for name, value in settings.items()}


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@lru_cache(maxsize=1)
def _revision() -> str | None:
    """The git commit of this code; None if it is not run from a checkout."""
    folder = Path(__file__).parent
    try:
        words = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
