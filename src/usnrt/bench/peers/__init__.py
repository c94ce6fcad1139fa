"""Thin adapters to other libraries for probabilistic regression, with the same interface (extra ``bench``).

The boosting libraries use a fifth of the rows for early stopping and are not refitted.
"""

from usnrt.bench.peers.boosting import CatBoostRegressor, LightGBMQuantileRegressor, NGBoostRegressor
from usnrt.bench.peers.conformal import CrepesRegressor
from usnrt.bench.peers.conformal_booster import ConformalBoosterRegressor
from usnrt.bench.peers.forest import QuantileExtraTreesRegressor, QuantileForestRegressor
from usnrt.bench.peers.neural import RealMLPRegressor, TabMRegressor
from usnrt.bench.peers.quantiles import InterpolatedQuantiles
from usnrt.bench.peers.tuned import (
    CatBoostQuantileRegressor,
    CatBoostTunedRegressor,
    LightGBMTunedRegressor,
    XGBoostQuantileRegressor,
)

__all__ = [
    "CatBoostQuantileRegressor",
    "CatBoostRegressor",
    "CatBoostTunedRegressor",
    "ConformalBoosterRegressor",
    "CrepesRegressor",
    "InterpolatedQuantiles",
    "LightGBMQuantileRegressor",
    "LightGBMTunedRegressor",
    "NGBoostRegressor",
    "QuantileExtraTreesRegressor",
    "QuantileForestRegressor",
    "RealMLPRegressor",
    "TabMRegressor",
    "XGBoostQuantileRegressor",
]
