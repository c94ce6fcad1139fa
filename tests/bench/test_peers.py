"""The adapters to other libraries: the scikit-learn contract, the libraries' own answers, and quantile distributions."""

import builtins

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from usnrt.bench import peers
from usnrt.datasets import make_heteroscedastic

QUICK = {"random_state": 0, "n_jobs": 1}
MODELS = [
    peers.CatBoostRegressor(n_estimators=30, learning_rate=0.2, **QUICK),
    peers.NGBoostRegressor(n_estimators=30, learning_rate=0.2, **QUICK),
    peers.LightGBMQuantileRegressor(n_estimators=30, learning_rate=0.2, levels=(0.1, 0.5, 0.9), **QUICK),
    peers.QuantileForestRegressor(n_estimators=20, **QUICK),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(MODELS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
