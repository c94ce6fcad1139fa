"""Plots of forecasts and trees; matplotlib is imported with the first plot."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from usnrt.plotting.calibration import PITDisplay, ReliabilityDisplay, SharpnessCalibrationDisplay
    from usnrt.plotting.intervals import IntervalDisplay
    from usnrt.plotting.partition import RootPartitionDisplay
    from usnrt.plotting.tree import plot_tree
    from usnrt.plotting.variance import VarianceFunctionDisplay

# public name -> its module
_HOME = {
    "IntervalDisplay": "intervals",
    "PITDisplay": "calibration",
    "ReliabilityDisplay": "calibration",
    "RootPartitionDisplay": "partition",
    "SharpnessCalibrationDisplay": "calibration",
    "VarianceFunctionDisplay": "variance",
    "plot_tree": "tree",
}

__all__ = [
    "IntervalDisplay",
    "PITDisplay",
    "ReliabilityDisplay",
    "RootPartitionDisplay",
    "SharpnessCalibrationDisplay",
    "VarianceFunctionDisplay",
    "plot_tree",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"usnrt.plotting.{_HOME[name]}"), name)
    raise AttributeError(f"module 'usnrt.plotting' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
