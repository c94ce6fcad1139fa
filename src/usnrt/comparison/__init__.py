"""Comparison of models on a table: ``usnrt.compare``."""

from usnrt.comparison.models import installed_models
from usnrt.comparison.result import Comparison
from usnrt.comparison.run import compare

__all__ = ["Comparison", "compare", "installed_models"]
