"""The scikit-learn contract: checked by scikit-learn itself without exceptions, and in the company it will keep."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from usnrt import USNRTRegressor
from usnrt.datasets import make_heteroscedastic

# Few epochs: the checks fit hundreds of tiny tables and look at the interface, not at how good the fit is.
QUICK = {"max_epochs": 5, "random_state": 0}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([USNRTRegressor(**QUICK), USNRTRegressor.paper(min_samples_leaf=5, **QUICK)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    bunch = make_heteroscedastic("jump", 300, 3, random_state=0)
    return bunch.data, bunch.target


def quick(**changes):
    return USNRTRegressor.paper(**{**QUICK, "min_samples_leaf": 100, **changes})


def test_clone_has_the_parameters_and_nothing_fitted(data):
    model = quick(alpha=0.02).fit(*data)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert {name for name in vars(twin) if name.endswith("_")} == set()
    np.testing.assert_array_equal(twin.fit(*data).predict(data[0]), model.predict(data[0]))


def test_parameters_are_kept_as_given():
    hidden = ["4d", 7]
    assert USNRTRegressor(hidden=hidden).get_params()["hidden"] is hidden


def test_repr_shows_what_is_not_default():
    assert repr(USNRTRegressor(alpha=0.5)) == "USNRTRegressor(alpha=0.5)"


def test_grid_search_chooses_and_refits(data):
    search = GridSearchCV(quick(), {"learning_rate": [1e-9, 0.01]}, cv=2, error_score="raise").fit(*data)
    assert search.best_params_ == {"learning_rate": 0.01}
    assert search.best_score_ == pytest.approx(search.cv_results_["mean_test_score"][1])
    np.testing.assert_array_equal(search.predict(data[0]), quick(learning_rate=0.01).fit(*data).predict(data[0]))


def test_cross_validation_also_in_processes(data):
    one = cross_val_score(quick(max_epochs=30), *data, cv=2)
    assert (one > 0.5).all()
    np.testing.assert_array_equal(one, cross_val_score(quick(max_epochs=30), *data, cv=2, n_jobs=2))
    assert cross_val_predict(quick(), *data, cv=2).shape == data[1].shape


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
def test_pipelines_with_any_output(data, output):
    pipeline = make_pipeline(StandardScaler(), quick()).set_output(transform=output)
    pipeline.fit(*data, paperusnrtregressor__sample_weight=np.ones(300))
    mean, std = pipeline.predict(data[0], return_std=True)
    assert mean.shape == std.shape == (300,)
    named = hasattr(pipeline[-1], "feature_names_in_")
    assert named == (output != "default")
    assert pipeline.score(*data) == pytest.approx(pipeline[-1].score(pipeline[:-1].transform(data[0]), data[1]))


def test_columns_of_mixed_kinds_through_a_column_transformer(data):
    import pandas as pd

    frame = pd.DataFrame(data[0], columns=["a", "b", "c"]).assign(kind=np.where(data[0][:, 0] > 0.5, "high", "low"))
    scaled = make_column_transformer(
        (StandardScaler(), ["a", "b", "c"]), remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    model = make_pipeline(scaled, quick()).fit(frame, data[1])
    assert [column.kind for column in model[-1].columns_] == ["numeric"] * 3 + ["categorical"]


def test_other_tools_of_scikit_learn_work(data):
    model = quick(max_epochs=30).fit(*data)
    importance = permutation_importance(model, *data, n_repeats=2, random_state=0).importances_mean
    assert np.argmax(importance) == 0, "the mean jumps along the first feature"
    in_tens = TransformedTargetRegressor(quick(max_epochs=30), func=lambda y: y / 10, inverse_func=lambda y: 10 * y)
    assert in_tens.fit(*data).score(*data) == pytest.approx(model.score(*data), abs=0.1)
