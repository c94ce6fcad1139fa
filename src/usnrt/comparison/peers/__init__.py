"""Thin adapters to other libraries for probabilistic regression, with the same interface (extra ``compare``).

The boosting libraries use a fifth of the rows for early stopping and are not refitted.

Examples
--------
>>> from usnrt.comparison.peers import QuantileForestRegressor
>>> from usnrt.datasets import make_heteroscedastic
>>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
>>> model = QuantileForestRegressor(n_estimators=50, random_state=0).fit(data.data, data.target)
>>> model.predict_dist(data.data)
<InterpolatedQuantiles of 500 rows>
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
