"""The scikit-learn contract, checked by scikit-learn itself, without exceptions."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from usnrt import USNRTRegressor

# Few epochs: the checks fit hundreds of tiny tables and look at the interface, not at how good the fit is.
QUICK = {"max_epochs": 5, "random_state": 0}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([USNRTRegressor(**QUICK), USNRTRegressor.paper(min_samples_leaf=5, **QUICK)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
