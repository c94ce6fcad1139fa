"""Metrics of forecasts and their uncertainty: pure functions of observed targets and forecasts."""

from usnrt.metrics.calibration import coverage, ece, mean_width, pit, reliability, sharpness, tce
from usnrt.metrics.evaluate import evaluate
from usnrt.metrics.forecast import as_forecast
from usnrt.metrics.groups import calibration_by_group, ece_by_chance, quantile_bins
from usnrt.metrics.scorers import get_scorer, get_scorer_names
from usnrt.metrics.scores import crps, interval_score, mae, nll, pinball, r2, rmse

__all__ = [
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
    "reliability",
    "rmse",
    "sharpness",
    "tce",
]
