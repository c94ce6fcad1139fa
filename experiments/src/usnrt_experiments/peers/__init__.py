"""Adapters to other libraries that only the experiments compare with; those of ``usnrt compare`` are in usnrt.

The boosting libraries use a fifth of the rows for early stopping and are not refitted.
"""

from usnrt_experiments.peers.conformal import CrepesRegressor
from usnrt_experiments.peers.extra_trees import QuantileExtraTreesRegressor
from usnrt_experiments.peers.neural import RealMLPRegressor, TabMRegressor
from usnrt_experiments.peers.tuned import CatBoostTunedRegressor, LightGBMTunedRegressor, XGBoostQuantileRegressor

__all__ = [
    "CatBoostTunedRegressor",
    "CrepesRegressor",
    "LightGBMTunedRegressor",
    "QuantileExtraTreesRegressor",
    "RealMLPRegressor",
    "TabMRegressor",
    "XGBoostQuantileRegressor",
]
