"""Plots of forecasts and trees; matplotlib is imported with the first plot."""

from importlib import import_module
from typing import Any

# public name -> its module
_HOME = {
    "IntervalDisplay": "intervals",
    "LeafStdDisplay": "leaves",
    "PITDisplay": "pit",
    "ReliabilityDisplay": "reliability",
    "RootPartitionDisplay": "partition",
    "SharpnessCalibrationDisplay": "sharpness",
    "StabilityDisplay": "stability",
    "VarianceFunctionDisplay": "variance",
    "plot_tree": "tree",
}

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"usnrt.plotting.{_HOME[name]}"), name)
    raise AttributeError(f"module 'usnrt.plotting' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
