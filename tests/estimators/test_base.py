"""The shared base of all models: what it asks of tables and targets, and that every answer is one distribution's."""

import numpy as np
import pytest

from usnrt.distributions import Normal
from usnrt.estimators.base import DistributionalRegressor
from usnrt.estimators.targets import read_target


class Constant(DistributionalRegressor):
    """The smallest model: the target's mean and spread everywhere."""

    def __init__(self, broken=False):
        self.broken = broken

    def _fit(self, rows):
        table = self.table_ = self._scaled_table(rows)
        if self.broken:
            raise RuntimeError("broken on purpose")
        self.scale_ = float(np.sqrt(np.average(table.y**2, weights=table.weight)))

    def _distribution(self, raw):
        zeros = np.zeros(len(raw))
        return Normal(zeros, zeros + self.scale_).with_parts(zeros + self.scale_**2, None)


@pytest.fixture
def fitted():
    X = np.arange(12.0).reshape(6, 2)
    return Constant().fit(X, [1.0, 2.0, 3.0, 4.0, 5.0, 9.0])


def test_a_model_answers_in_the_targets_units(fitted):
    mean, std = fitted.predict(np.zeros((3, 2)), return_std=True)
    np.testing.assert_allclose(mean, [4.0, 4.0, 4.0])
    np.testing.assert_allclose(std, np.full(3, np.std([1, 2, 3, 4, 5, 9])))
    np.testing.assert_array_equal(fitted.predict(np.zeros((3, 2))), mean)


def test_every_answer_is_the_distributions(fitted):
    X = np.zeros((3, 2))
    dist = fitted.predict_dist(X)
    np.testing.assert_array_equal(fitted.predict_interval(X), dist.interval(0.9))
    np.testing.assert_array_equal(fitted.predict_interval(X, [0.5, 0.9]), dist.interval([0.5, 0.9]))
    assert fitted.predict_interval(X, [0.5, 0.9]).shape == (3, 2, 2)
    np.testing.assert_array_equal(fitted.predict_quantiles(X, [0.1, 0.5, 0.9]), dist.ppf(np.array([0.1, 0.5, 0.9])))
    assert fitted.predict_quantiles(X, [0.5]).shape == (3, 1)


def test_variance_has_named_parts_and_nan_for_what_is_not_known(fitted):
    parts = fitted.predict_variance(np.zeros((2, 2)))
    assert parts.columns == ["aleatoric", "epistemic", "total"]
    variance = np.var([1, 2, 3, 4, 5, 9])
    np.testing.assert_allclose(parts["aleatoric"], [variance, variance])
    np.testing.assert_allclose(parts["total"], [variance, variance])
    assert np.isnan(parts["epistemic"]).all()


@pytest.mark.parametrize(
    ("method", "value", "message"),
    [
        ("predict_interval", 1.5, r"^coverage must be in \(0, 1\), got 1\.5$"),
        ("predict_interval", 0.0, r"^coverage must be in \(0, 1\), got 0\.0$"),
        ("predict_quantiles", [0.5, 1.0], r"must be in \(0, 1\), got "),
    ],
)
def test_probabilities_outside_of_0_and_1_are_refused(fitted, method, value, message):
    with pytest.raises(ValueError, match=message):
        getattr(fitted, method)(np.zeros((1, 2)), value)


def test_a_training_table_is_scaled_and_merges_copies():
    X = [[1.0, 5.0], [1.0, 5.0], [2.0, 5.0], [3.0, 5.0]]
    table = Constant().fit(X, [1.0, 1.0, 2.0, 4.0], sample_weight=[1, 2, 1, 0]).table_
    assert dict(zip(table.raw[:, 0], table.weight)) == {1.0: 3.0, 2.0: 1.0}
    # mean 0 and std 1
    assert table.weight @ table.y == pytest.approx(0.0, abs=1e-12)
    assert table.weight @ table.y**2 / 4 == pytest.approx(1.0)
    assert table.weight @ table.inputs[:, 0] == pytest.approx(0.0, abs=1e-6)
    assert not table.inputs[:, 1].any(), "a constant column is scaled to 0"
    assert table.inputs.dtype == np.float32


@pytest.mark.parametrize("constant", [0.0, 1.0, -3e-300, 7e149])
def test_a_constant_target_has_a_tiny_standard_deviation(constant):
    model = Constant().fit(np.arange(6.0).reshape(3, 2), np.full(3, constant))
    mean, std = model.predict(np.zeros((2, 2)), return_std=True)
    np.testing.assert_array_equal(mean, [constant, constant])
    assert (std >= 0).all()
    assert (std <= 1e-11 * abs(constant) + 1e-90).all()


def test_a_fit_that_fails_leaves_the_model_as_it_was(fitted):
    before = dict(vars(fitted))
    fitted.broken = True
    with pytest.raises(RuntimeError, match="^broken on purpose$"):
        fitted.fit(np.ones((4, 3)), np.arange(4.0))
    assert vars(fitted) == {**before, "broken": True}
    assert fitted.n_features_in_ == 2
    fresh = Constant(broken=True)
    with pytest.raises(RuntimeError, match="^broken on purpose$"):
        fresh.fit(np.ones((4, 3)), np.arange(4.0))
    assert vars(fresh) == {"broken": True}


def test_a_model_must_define_both_hooks():
    class Empty(DistributionalRegressor):
        pass

    with pytest.raises(NotImplementedError, match="^Empty must define _fit$"):
        Empty().fit([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(NotImplementedError, match="^Empty must define _distribution$"):
        Empty()._distribution(np.zeros((1, 1)))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.0, np.nan], "y must be finite, got y[1]=nan"),
        ([-np.inf, 1.0], "y must be finite, got y[0]=-inf"),
        (["a", "b"], "y must hold numbers, got y[0]='a'"),
        ([1.0, None], "y must be finite, got y[1]=nan"),
        ([1.0, "b"], "y must hold numbers, got y[1]='b'"),
        ([1j, 2.0], "Complex data not supported"),
        ([[1.0, 2.0], [3.0, 4.0]], "y should be a 1d array, got an array of shape (2, 2): for several targets"),
    ],
)
def test_bad_targets(y, message):
    with pytest.raises(ValueError) as caught:
        read_target(np.array(y, dtype=object) if None in np.ravel(y) else y)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("y", [[1, 2], np.array([1, 2], dtype=np.int8), np.array([True, False]), ["1", "2"]])
def test_good_targets(y):
    assert read_target(y).dtype == np.float64
