"""The tree of regions: split search, structure and rules. The names load numba when first used."""

from importlib import import_module
from typing import Any

_HOME = {
    "CRITERIA": "criteria",
    "Criterion": "criteria",
    "Split": "split",
    "best_split": "split",
    "log10_p": "pvalue",
    "Tree": "structure",
    "TreeBuilder": "structure",
    "export_graphviz": "rules",
    "export_text": "rules",
    "rules_table": "rules",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"usnrt.tree.{_HOME[name]}"), name)
    raise AttributeError(f"module 'usnrt.tree' has no attribute {name!r}")
