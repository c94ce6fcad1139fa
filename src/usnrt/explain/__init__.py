"""Explanations: why a row is predicted as it is, and which features the uncertainty of a model depends on."""

from usnrt.explain.explanation import Explanation, RowExplanation
from usnrt.explain.importance import uncertainty_importance

__all__ = ["Explanation", "RowExplanation", "uncertainty_importance"]
