"""Regression on tables that says how sure it is, and where it is unsure.

The public names load when first used, so that ``import usnrt`` stays quick.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# public name -> the module it lives in
_HOME = {
    "USNRTEnsemble": "usnrt.ensemble",
    "USNRTRegressor": "usnrt.regressor",
    "load": "usnrt.persistence",
    "export_text": "usnrt.tree.rules",
    "export_graphviz": "usnrt.tree.rules",
    "plot_tree": "usnrt.plotting",
    "evaluate": "usnrt.metrics",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in ("baselines", "bench", "datasets", "distributions", "metrics", "plotting", "report"):
        return import_module(f"usnrt.{name}")
    raise AttributeError(f"module 'usnrt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
