"""Tabular regression with calibrated predictive distributions.

The method is that of W. Ma, X. Yan and K. Zhang, "Improving Uncertainty Quantification of Variance Networks by
Tree-Structured Learning"; docs/recipe.md describes how the default recipe differs.

The public names load when first used, so that ``import usnrt`` stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from usnrt._version import __version__

if TYPE_CHECKING:  # what users' type checkers see
    from usnrt.comparison.run import compare
    from usnrt.estimators.ensemble import PaperUSNRTEnsemble, USNRTEnsemble
    from usnrt.estimators.online import OnlineCalibrator
    from usnrt.estimators.paper import PaperUSNRTRegressor
    from usnrt.estimators.pipeline import in_pipeline
    from usnrt.estimators.regressor import USNRTRegressor
    from usnrt.explain.importance import uncertainty_importance
    from usnrt.metrics.evaluate import evaluate
    from usnrt.persistence import load
    from usnrt.plotting import plot_tree
    from usnrt.reporting import write_report as report
    from usnrt.tree.rules import export_graphviz, export_text
    from usnrt.whatif import write_what_if as what_if

# public name -> the module it lives in, and its name there if it is another one
_HOME = {
    "OnlineCalibrator": "usnrt.estimators.online",
    "PaperUSNRTEnsemble": "usnrt.estimators.ensemble",
    "PaperUSNRTRegressor": "usnrt.estimators.paper",
    "USNRTEnsemble": "usnrt.estimators.ensemble",
    "USNRTRegressor": "usnrt.estimators.regressor",
    "load": "usnrt.persistence",
    "export_text": "usnrt.tree.rules",
    "export_graphviz": "usnrt.tree.rules",
    "plot_tree": "usnrt.plotting",
    "compare": "usnrt.comparison.run",
    "evaluate": "usnrt.metrics.evaluate",
    "in_pipeline": "usnrt.estimators.pipeline",
    "report": "usnrt.reporting:write_report",
    "uncertainty_importance": "usnrt.explain.importance",
    "what_if": "usnrt.whatif:write_what_if",
}

__all__ = [
    "OnlineCalibrator",
    "PaperUSNRTEnsemble",
    "PaperUSNRTRegressor",
    "USNRTEnsemble",
    "USNRTRegressor",
    "__version__",
    "compare",
    "evaluate",
    "export_graphviz",
    "export_text",
    "in_pipeline",
    "load",
    "plot_tree",
    "report",
    "uncertainty_importance",
    "what_if",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        module, _, other_name = _HOME[name].partition(":")
        return getattr(import_module(module), other_name or name)
    if name in ("datasets", "decide", "distributions", "metrics", "paper", "plotting", "reporting"):
        return import_module(f"usnrt.{name}")
    raise AttributeError(f"module 'usnrt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
