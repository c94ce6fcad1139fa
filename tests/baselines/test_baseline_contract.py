"""Every competing model keeps the scikit-learn contract and the promises of the shared base."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from usnrt import baselines

# Small and short: the checks fit hundreds of tiny tables and look at the interface, not at how good the fit is.
QUICK = {"max_epochs": 20, "hidden": (16,), "learning_rate": 0.03, "random_state": 0, "n_jobs": 1}
MODELS = [
    baselines.HNNRegressor(**QUICK),
    baselines.DeepEnsembleRegressor(**QUICK, n_members=2),
    baselines.MCDropoutRegressor(**QUICK, n_passes=5),
    baselines.ConcreteDropoutRegressor(**QUICK, n_passes=5),
    baselines.EvidentialRegressor(**QUICK),
    baselines.RandomForestVarianceRegressor(n_estimators=5, random_state=0, n_jobs=1),
    baselines.ExtraTreesVarianceRegressor(n_estimators=5, random_state=0, n_jobs=1),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(MODELS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
