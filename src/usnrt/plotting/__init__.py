"""Plots of forecasts and trees; matplotlib is imported with the first plot."""

from usnrt.plotting.calibration import PITDisplay, ReliabilityDisplay, SharpnessCalibrationDisplay
from usnrt.plotting.intervals import IntervalDisplay
from usnrt.plotting.partition import RootPartitionDisplay
from usnrt.plotting.tree import plot_tree
from usnrt.plotting.variance import VarianceFunctionDisplay

__all__ = [
    "IntervalDisplay",
    "PITDisplay",
    "ReliabilityDisplay",
    "RootPartitionDisplay",
    "SharpnessCalibrationDisplay",
    "VarianceFunctionDisplay",
    "plot_tree",
]
