"""Baselines: the models that USNRT is compared with, with the same interface.

All but the forests are networks trained by `usnrt.nn`. Each has two recipes: its defaults, and ``.paper()``, the
settings of the comparison in the USNRT paper.
"""

from usnrt.paper.baselines.dropout import ConcreteDropoutRegressor, MCDropoutRegressor
from usnrt.paper.baselines.evidential import EvidentialRegressor
from usnrt.paper.baselines.forests import ExtraTreesVarianceRegressor, RandomForestVarianceRegressor
from usnrt.paper.baselines.hnn import DeepEnsembleRegressor, HNNRegressor

__all__ = [
    "ConcreteDropoutRegressor",
    "DeepEnsembleRegressor",
    "EvidentialRegressor",
    "ExtraTreesVarianceRegressor",
    "HNNRegressor",
    "MCDropoutRegressor",
    "RandomForestVarianceRegressor",
]
