"""Calibration by group: a forecast may be calibrated on average and miscalibrated in every region."""

from contextlib import suppress
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.metrics.calibration import ECE, ECE_LEVELS, TCE, comparison_levels
from usnrt.metrics.forecast import Given, UndefinedMetricError
from usnrt.metrics.intervals import COVERAGE, WIDTH, check_interval
from usnrt.metrics.registry import AnyForecast, OfWeights, evaluated_rows
from usnrt.utils.constraints import check_whole
from usnrt.utils.result_table import Table
from usnrt.utils.types import Floats


def calibration_by_group(
    y_true: ArrayLike,
    forecast: AnyForecast = None,
    groups: ArrayLike = (),
    *,
    interval: ArrayLike | None = None,
    **given: Unpack[Given],
) -> Table:
    """Calibration of each group of rows, the worst group first.

    The ECE of few rows is not 0 even without miscalibration: ``ece_by_chance`` is its expectation for a perfectly
    calibrated forecast with as many rows.

    Parameters
    ----------
    y_true : array-like of shape (n,)
    forecast : Distribution or None
        Or the keywords of :func:`usnrt.metrics.as_forecast`, but not a mean alone.
    groups : array-like of shape (n,)
        A label for each row: the region (``model.apply(X)``), a category, or the bin of a feature
        (:func:`quantile_bins`).
    interval : array-like of shape (n, 2), default=None
        The 90 % intervals behind coverage_90 and width_90, e.g. ``model.predict_interval(X, 0.9)``, which differ from
        those of its distribution if the model is calibrated; by default those of the forecast.

    Returns
    -------
    Table
        Columns group, rows, ece, ece_by_chance, tce, coverage_90, width_90, sorted by ece, largest first. Columns
        that the forecast does not define (quantiles at too few levels) are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.distributions import Normal
    >>> from usnrt.metrics import calibration_by_group
    >>> rng = np.random.default_rng(0)
    >>> noisy = np.repeat([False, True], 500)
    >>> y = rng.normal(scale=np.where(noisy, 3.0, 1.0))
    >>> calibration_by_group(y, Normal(np.zeros(1000), 1.0), np.where(noisy, "noisy", "calm"))
       group  rows      ece  ece_by_chance    tce  coverage_90  width_90
    0  noisy   500   0.1421        0.01414  0.414        0.458      3.29
    1   calm   500  0.01079        0.01414  0.012        0.918      3.29
    """
    rows = evaluated_rows(y_true, forecast, **given)
    if interval is not None:
        rows = replace(rows, given_interval=check_interval(interval, rows.y))
    names, group = check_groups(groups, rows.y.size)
    size = np.bincount(group)
    columns: dict[str, NDArray[Any]] = {
        "group": names,
        "rows": size,
        "ece": by_group(ECE.of_weights(rows), group),
        "ece_by_chance": ece_by_chance(size, comparison_levels(rows.forecast)),
    }
    for name, metric in {"tce": TCE, "coverage_90": COVERAGE, "width_90": WIDTH}.items():
        with suppress(UndefinedMetricError):
            columns[name] = by_group(metric.of_weights(rows), group)
    order = np.argsort(-columns["ece"], kind="stable")
    return Table({name: values[order] for name, values in columns.items()})


def by_group(metric: OfWeights, group: NDArray[np.intp]) -> Floats:
    """A metric of the rows of each group, numbered from 0 on."""
    return np.array([metric((group == g).astype(float)) for g in range(group.max() + 1)])


def ece_by_chance(n_rows: ArrayLike, levels: Floats = ECE_LEVELS) -> Floats:
    r"""Expected ECE of a perfectly calibrated forecast with n rows.

    .. math:: \tfrac1K \sum_k \sqrt{2 \tau_k (1 - \tau_k) / (\pi n)}

    Parameters
    ----------
    n_rows : int or array-like of int
    levels : ndarray of shape (K,)

    Examples
    --------
    >>> from usnrt.metrics import ece_by_chance
    >>> float(ece_by_chance(10_000).round(4))
    0.0032
    """
    spread = np.sqrt(2.0 * levels * (1.0 - levels) / np.pi).mean()
    return np.asarray(spread / np.sqrt(np.asarray(n_rows, dtype=np.float64)))


def quantile_bins(x: ArrayLike, n: int = 10) -> NDArray[np.intp]:
    """Index of the quantile bin of each value, 0 for the lowest: groups of about equal size along a feature.

    Equal values share a bin, so there may be fewer than ``n`` bins.

    Parameters
    ----------
    x : array-like of shape (n_rows,)
        Numbers without NaN.
    n : int, default=10
        Number of bins.

    Examples
    --------
    >>> from usnrt.metrics import quantile_bins
    >>> quantile_bins([5.0, 1.0, 2.0, 9.0], n=2)
    array([1, 0, 0, 1])
    """
    values = np.asarray(x, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"x must have shape (n_rows,) with at least one row, got {values.shape}")
    if np.isnan(values).any():
        raise ValueError("x must not contain NaN")
    check_whole("n", n, 1)
    edges = np.unique(np.quantile(values, np.arange(1, n) / n, method="inverted_cdf"))
    return np.unique(np.searchsorted(edges, values, side="left"), return_inverse=True)[1]


def check_groups(groups: ArrayLike, n: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The distinct labels and the index of each row's label among them."""
    labels = np.asarray(groups)
    if labels.ndim != 1 or labels.size != n:
        raise ValueError(f"groups must have one label per row ({n}), got {labels.shape}")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError("groups must not contain NaN")
    names, group = np.unique(labels, return_inverse=True)
    return names, group
