"""Metrics of forecasts and their uncertainty: pure functions of observed targets and forecasts.

A metric is registered in the module that defines it; `evaluate` shows them in the order of these imports.
"""

from usnrt.metrics.accuracy import crps, mae, nll, pinball, r2, rmse
from usnrt.metrics.calibration import ece, pit, reliability, sharpness, tce
from usnrt.metrics.evaluate import evaluate
from usnrt.metrics.forecast import UndefinedMetricError, as_forecast
from usnrt.metrics.groups import calibration_by_group, ece_by_chance, quantile_bins
from usnrt.metrics.intervals import coverage, interval_score, mean_width
from usnrt.metrics.models import get_scorer, get_scorer_names
from usnrt.metrics.registry import METRICS, EvaluatedRows, Metric, register_metric

__all__ = [
    "METRICS",
    "EvaluatedRows",
    "Metric",
    "UndefinedMetricError",
    "as_forecast",
    "calibration_by_group",
    "coverage",
    "crps",
    "ece",
    "ece_by_chance",
    "evaluate",
    "get_scorer",
    "get_scorer_names",
    "interval_score",
    "mae",
    "mean_width",
    "nll",
    "pinball",
    "pit",
    "quantile_bins",
    "r2",
    "register_metric",
    "reliability",
    "rmse",
    "sharpness",
    "tce",
]
