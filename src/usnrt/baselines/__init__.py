"""Baselines: the models that USNRT is compared with, with the same interface.

All but the forests are networks trained by `usnrt.nn`. Each has two recipes: its defaults, and ``.paper()``, the
settings of the comparison in the USNRT paper.
"""

from usnrt.baselines.concrete_dropout import ConcreteDropoutRegressor
from usnrt.baselines.ensemble import DeepEnsembleRegressor
from usnrt.baselines.evidential import EvidentialRegressor
from usnrt.baselines.forests import ExtraTreesVarianceRegressor, RandomForestVarianceRegressor
from usnrt.baselines.hnn import HNNRegressor
from usnrt.baselines.mc_dropout import MCDropoutRegressor

__all__ = [
    "ConcreteDropoutRegressor",
    "DeepEnsembleRegressor",
    "EvidentialRegressor",
    "ExtraTreesVarianceRegressor",
    "HNNRegressor",
    "MCDropoutRegressor",
    "RandomForestVarianceRegressor",
]
