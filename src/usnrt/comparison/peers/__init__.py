"""Thin adapters to other libraries for probabilistic regression, with the same interface (extra ``compare``).

The boosting libraries use a fifth of the rows for early stopping and are not refitted.
"""

from usnrt.comparison.peers.boosting import (
    CatBoostQuantileRegressor,
    CatBoostRegressor,
    LightGBMQuantileRegressor,
    NGBoostRegressor,
)
from usnrt.comparison.peers.conformal_booster import ConformalBoosterRegressor
from usnrt.comparison.peers.forest import QuantileForestRegressor
from usnrt.comparison.quantiles import InterpolatedQuantiles

__all__ = [
    "CatBoostQuantileRegressor",
    "CatBoostRegressor",
    "ConformalBoosterRegressor",
    "InterpolatedQuantiles",
    "LightGBMQuantileRegressor",
    "NGBoostRegressor",
    "QuantileForestRegressor",
]
