"""Baselines: the models that USNRT is compared with, with the same interface.

All but the forests are networks trained by `usnrt.nn`. Each has two recipes: its defaults, and ``.paper()``, the
settings of the comparison in the USNRT paper.
"""

from usnrt.paper.baselines.concrete_dropout import ConcreteDropoutRegressor
from usnrt.paper.baselines.ensemble import DeepEnsembleRegressor
from usnrt.paper.baselines.evidential import EvidentialRegressor
from usnrt.paper.baselines.forests import ExtraTreesVarianceRegressor, RandomForestVarianceRegressor
from usnrt.paper.baselines.hnn import HNNRegressor
from usnrt.paper.baselines.mc_dropout import MCDropoutRegressor

__all__ = [
    "ConcreteDropoutRegressor",
    "DeepEnsembleRegressor",
    "EvidentialRegressor",
    "ExtraTreesVarianceRegressor",
    "HNNRegressor",
    "MCDropoutRegressor",
    "RandomForestVarianceRegressor",
]
