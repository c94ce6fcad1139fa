"""Thin adapters to other libraries for probabilistic regression, with the same interface (extra ``bench``).

The boosting libraries use a fifth of the rows for early stopping and are not refitted.
"""

from usnrt.bench.peers.boosting import CatBoostRegressor, LightGBMQuantileRegressor, NGBoostRegressor
from usnrt.bench.peers.forest import QuantileExtraTreesRegressor, QuantileForestRegressor
from usnrt.bench.peers.quantiles import InterpolatedQuantiles

__all__ = [
    "CatBoostRegressor",
    "InterpolatedQuantiles",
    "LightGBMQuantileRegressor",
    "NGBoostRegressor",
    "QuantileExtraTreesRegressor",
    "QuantileForestRegressor",
]
