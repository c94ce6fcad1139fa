"""Thin adapters to what users would pick instead, under the same interface (extra ``bench``).

The boosting libraries stop early on a fifth of the rows and are not fitted again.
"""

from usnrt.bench.peers.boosting import CatBoostRegressor, LightGBMQuantileRegressor, NGBoostRegressor
from usnrt.bench.peers.forest import QuantileForestRegressor
from usnrt.bench.peers.quantiles import QuantileDistribution

__all__ = [
    "CatBoostRegressor",
    "LightGBMQuantileRegressor",
    "NGBoostRegressor",
    "QuantileDistribution",
    "QuantileForestRegressor",
]
