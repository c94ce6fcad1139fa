"""The ensemble: equal bits, calibration as a whole, parts of the variance."""

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.datasets import make_heteroscedastic

TINY = USNRTRegressor(hidden=(8,), memory=False, max_epochs=15, validation=1, min_samples_leaf=300)


@pytest.fixture(scope="module")
def data():
    return make_heteroscedastic("piecewise", n_samples=1600, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return USNRTEnsemble(TINY, n_estimators=4, random_state=0).fit(data.data, data.target)


def test_every_row_has_a_score(model, data):
    assert sum(len(scores) for scores in model.calibration_.scores) == len(data.target)


def test_same_seed_gives_the_same_bits_whatever_n_jobs(model, data):
    """Also where BLAS has threads of its own, which the test command does not allow it otherwise."""
    for n_jobs in (1, 3):
        with threadpool_limits(limits=2):
            again = clone(model).set_params(n_jobs=n_jobs).fit(data.data, data.target)
        np.testing.assert_array_equal(again.predict(data.data), model.predict(data.data))
        np.testing.assert_array_equal(again.predict_interval(data.data), model.predict_interval(data.data))
        found, wanted = (m.predict_quantiles(data.data, [0.01, 0.5, 0.9]) for m in (again, model))
        np.testing.assert_array_equal(found, wanted)


def members_means(model, X):
    raw = model._encode(X)
    return np.column_stack(
        [member.quantile_functions(raw, model.model_.inputs.transform(raw))[1] for member in model.model_.trees.members]
    )


def test_members_differ(model, data):
    assert (members_means(model, data.data).std(axis=1) > 0).all()


def test_the_mean_is_better_than_a_members(data, model):
    fresh = make_heteroscedastic("piecewise", n_samples=4000, random_state=1)
    members = model.target_scale_.mean + model.target_scale_.std * members_means(model, fresh.data)
    truth = fresh.truth.mean(fresh.data)
    together = np.mean((members.mean(axis=1) - truth) ** 2)
    assert together < np.mean((members - truth[:, None]) ** 2)


def test_the_epistemic_part_grows_away_from_the_data(model, data):
    parts = model.predict_variance(data.data)
    np.testing.assert_allclose(parts["aleatoric"] + parts["epistemic"], parts["total"])
    far = model.predict_variance(data.data * 6)
    assert np.median(far["epistemic"]) > 5 * np.median(parts["epistemic"])


def test_the_epistemic_part_is_the_jackknife_of_the_members(model, data):
    parts = model.predict_variance(data.data)
    variance = model.model_.trees.epistemic_factor * model.model_.predict(model._encode(data.data)).disagreement
    np.testing.assert_allclose(parts["epistemic"] / parts["aleatoric"], variance)
    assert model.model_.trees.epistemic_factor == pytest.approx(1.5 + 0.25, abs=0.4)


def test_rows_set_aside_calibrate_the_ensemble_and_nothing_else(data):
    aside = clone(TINY).set_params(calibration_fraction=0.3)
    model = USNRTEnsemble(aside, n_estimators=3, random_state=0).fit(data.data, data.target)
    assert sum(len(scores) for scores in model.calibration_.scores) == round(0.3 * len(data.target))
    assert model.tree_.n_rows[0] == round(0.7 * len(data.target))


def test_fresh_rows_calibrate_exactly(model, data):
    model = clone(model).fit(data.data, data.target)
    fresh = make_heteroscedastic("piecewise", n_samples=2000, random_state=7)
    model.calibrate(fresh.data, fresh.target)
    test = make_heteroscedastic("piecewise", n_samples=4000, random_state=8)
    interval = model.predict_interval(test.data, 0.8)
    inside = np.mean((interval[:, 0] < test.target) & (test.target <= interval[:, 1]))
    assert inside == pytest.approx(0.8, abs=4 * np.sqrt(0.16 * (1 / 2000 + 1 / 4000)))


def test_the_targets_of_test_rows_leave_no_trace(data):
    """Models fitted before and after the test target was poisoned are the same: nothing leaks."""
    X, y = data.data, data.target.copy()
    first = clone(TINY).set_params(random_state=0).fit(X[:1000], y[:1000]).predict(X[1000:])
    y[1000:] = 1e9
    second = clone(TINY).set_params(random_state=0).fit(X[:1000], y[:1000]).predict(X[1000:])
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_estimators": 1}, ValueError, "n_estimators must be an int >= 2, got 1"),
        ({"estimator": USNRTRegressor(alpha=2)}, ValueError, "alpha must be in (0, 1), got 2"),
    ],
)
def test_bad_parameters(data, parameters, error, message):
    model = USNRTEnsemble(**parameters)
    with pytest.raises(error) as caught:
        model.fit(data.data, data.target)
    assert str(caught.value) == message
    assert not hasattr(model, "model_")


def test_other_estimators_are_refused(data):
    from sklearn.linear_model import LinearRegression

    with pytest.raises(TypeError) as caught:
        USNRTEnsemble(LinearRegression()).fit(data.data, data.target)
    assert str(caught.value) == "estimator must be a USNRTRegressor or None, got LinearRegression()"
