"""Bounded targets, logarithms and point masses, from the fit to predictions, files and ONNX."""

import functools

import numpy as np
import onnxruntime
import pytest
from sklearn.base import clone

import usnrt
from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.distributions import TargetMap, TransformedDistribution
from usnrt.model.target import candidate_maps, with_point_masses
from usnrt.onnx import feeds
from usnrt.persistence import ModelFileError, load, save

QUICK = {"hidden": (32, 16), "max_epochs": 15, "random_state": 0, "n_jobs": 1}


def hourly_counts(n, seed):
    """Counts by hour of the day, few at night: 29 % of them are 0."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 24, n), rng.normal(size=(n, 2))])
    rate = np.exp(0.5 + 1.5 * np.sin(X[:, 0] / 24 * 2 * np.pi) + 0.4 * X[:, 1])
    return X, rng.poisson(rate).astype(float), rate


def lognormal(n, seed):
    """Skewed prices: the noise is in proportion to the median, and the mean three times the median."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    log_median = 3.0 + X[:, 0] + np.sin(3 * X[:, 1])
    return X, np.exp(log_median + 1.5 * rng.normal(size=n)), np.exp(log_median + 1.5**2 / 2)


def normal(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return X, 30.0 + 5.0 * X[:, 0] + rng.normal(size=n), 30.0 + 5.0 * X[:, 0]


@functools.cache
def fitted(make, kind="tree", **parameters):
    X, y, _ = make(1500, 0)
    tree = USNRTRegressor(**QUICK, **parameters)
    if kind == "tree":
        return tree.fit(X, y)
    member = clone(tree).set_params(n_jobs=-1)
    return USNRTEnsemble(member, n_estimators=2, random_state=0, n_jobs=1).fit(X, y)


# -- bounds -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tree", "ensemble"])
@pytest.mark.parametrize("transform", [None, "log"])
def test_nothing_outside_the_bounds(kind, transform):
    model = fitted(hourly_counts, kind, target_bounds=(0, None), target_transform=transform)
    X, y, _ = hourly_counts(1500, 1)
    X = np.vstack([X, [[12.0, 40.0, -50.0]]])  # unlike all training rows
    dist = model.predict_dist(X)
    table = model.predict_table(X)
    for values in (
        model.predict(X), dist.mean(), model.predict_quantiles(X, [0.001, 0.5]), model.predict_interval(X, 0.95),
        table["mean"], table["lower"], dist.rvs(20, 0),
    ):  # fmt: skip
        assert np.min(values) >= 0
    np.testing.assert_array_equal(dist.pdf(-0.5), np.zeros(len(X)))
    np.testing.assert_array_equal(dist.cdf(-1e-9), np.zeros(len(X)))
    bounds = model.predict_interval(X[:-1], 0.9)
    covered = ((y >= bounds[:, 0]) & (y <= bounds[:, 1])).mean()
    # at least nominal but for 3 standard errors of validation and test rows; zeros can only add
    assert covered > 0.9 - 3 * np.sqrt(0.09 / 300 + 0.09 / 1500)


def test_without_bounds_there_is_something_outside():
    X, _, _ = hourly_counts(1500, 1)
    assert (fitted(hourly_counts).predict_interval(X)[:, 0] < 0).mean() > 0.1


def test_bounds_on_both_sides():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 3))
    y = np.clip(0.5 + 0.6 * X[:, 0] + 0.2 * rng.normal(size=1500), 0.0, 1.0)
    model = USNRTRegressor(**QUICK, target_bounds=(0, 1)).fit(X, y)
    values = model.predict_quantiles(X, [0.001, 0.5, 0.999])
    assert values.min() == 0.0
    assert values.max() == 1.0
    dist = model.predict_dist(X)
    at_one = 1.0 - dist.cdf_left(1.0)
    assert abs(at_one.mean() - (y == 1).mean()) < 0.03
    assert at_one[X[:, 0] > 0.8].mean() > 0.4 > 0.05 > at_one[X[:, 0] < 0].mean()


@pytest.mark.parametrize("kind", ["tree", "ensemble"])
def test_zeros_keep_their_point_mass(kind):
    """The predicted probability of 0 has the size and nearly the skill of the true one."""
    X, y, rate = hourly_counts(4000, 1)

    def log_loss(p):
        p = np.clip(p, 1e-6, 1 - 1e-6)
        return -np.mean(np.where(y == 0, np.log(p), np.log1p(-p)))

    ideal, constant = log_loss(np.exp(-rate)), log_loss(np.full(len(y), (y == 0).mean()))
    bounded = fitted(hourly_counts, kind, target_bounds=(0, None)).predict_dist(X).cdf(0.0)
    assert abs(bounded.mean() - (y == 0).mean()) < 4 * np.sqrt(0.2 / 300 + 0.2 / 4000)
    assert log_loss(bounded) - ideal < 0.3 * (constant - ideal)
    if kind == "tree":  # seen failing without bounds: predicted values near 0 are not 0
        unbounded = fitted(hourly_counts).predict_dist(X)
        assert log_loss(unbounded.cdf(0.0)) - ideal > 0.5 * (constant - ideal)


def test_point_masses_match_the_share_of_the_rows():
    y, weight = np.array([0.0] * 30 + [1.0] * 50 + [2.0] * 20), np.ones(100)

    def cdf(value):
        return np.full(100, 0.2 + 0.2 * value)  # 30 % at 0.5

    found = with_point_masses(TargetMap(low=0.0, high=2.0), y, weight, cdf)
    assert found.low_end == pytest.approx(0.5)
    assert found.high_end == 2.0  # the predicted share is above 20 % anyway
    far = with_point_masses(TargetMap(high=2.0), y, weight, lambda value: np.full(100, 0.85 + 0.05 * value))
    assert far.high_end == pytest.approx(2.0 - 0.99)  # the gap does not suffice
    assert with_point_masses(TargetMap(low=-1.0), y, weight, cdf).low_end == -1.0


@pytest.mark.parametrize("y_bad", [-0.5, 3.5])
def test_targets_outside_the_bounds_are_named(y_bad):
    X, y = np.zeros((10, 1)), np.ones(10)
    y[7] = y_bad
    model = USNRTRegressor(target_bounds=(0, 3))
    with pytest.raises(ValueError, match=rf"y must be within target_bounds=\(0, 3\), got y\[7\]={y_bad}"):
        model.fit(X, y)
    assert not hasattr(model, "encoder_")
    with pytest.raises(ValueError, match=r"target_bounds=\(0, None\), got y\[2\]=-1"):
        fitted(hourly_counts, target_bounds=(0, None)).calibrate(hourly_counts(30, 0)[0], [1.0, 1.0, -1.0] * 10)
    with pytest.raises(ValueError, match=r"at least 0 for target_transform='log', got y\[7\]=-0.5"):
        USNRTRegressor(target_transform="log").fit(X, np.where(np.arange(10) == 7, -0.5, 1.0))


@pytest.mark.parametrize("bad", [(1, 0), (0,), "positive", (None, None), (0, "a"), (0, 0)])
def test_bounds_that_are_none(bad):
    with pytest.raises(ValueError, match=r"target_bounds must be a pair \(low, high\) of numbers or None, with low"):
        USNRTRegressor(target_bounds=bad).fit(np.zeros((10, 1)), np.ones(10))


def test_calibration_fits_point_masses_anew():
    X, y, _ = hourly_counts(1500, 2)
    model = USNRTRegressor(**QUICK, target_bounds=(0, None)).fit(*hourly_counts(1500, 0)[:2])
    before = model.target_map_.low_end
    model.calibrate(X, y)
    assert model.target_map_.low_end != before
    assert model.predict_dist(X).cdf(0.0).mean() == pytest.approx((y == 0).mean(), abs=1e-6)


# -- logarithm --------------------------------------------------------------------------------------------------


def test_log_gains_on_lognormal_targets():
    X, y, mean = lognormal(40_000, 1)
    plain, log = (fitted(lognormal, target_transform=transform) for transform in (None, "log"))
    gain = plain.predict_dist(X).crps(y) - log.predict_dist(X).crps(y)
    assert gain.mean() > 3 * gain.std() / np.sqrt(len(y))
    assert isinstance(log.predict_dist(X), TransformedDistribution)
    # the mean of the target, not exp of the mean of the logarithm, which is 68 % smaller; as well as the mean of 300
    # validation targets is known
    ratio = log.predict(X) / mean
    assert abs(np.median(ratio) - 1.0) < 3 * np.sqrt((np.exp(1.5**2) - 1) / 300)
    bounds = log.predict_interval(X, 0.9)
    covered = ((y >= bounds[:, 0]) & (y <= bounds[:, 1])).mean()
    assert abs(covered - 0.9) < 4 * np.sqrt(0.09 / 300 + 0.09 / len(y))
    # residuals of regions are in units of the target
    assert 0.3 < log.rules()["residual_std"].max() / np.std(y - mean) < 3.0


@pytest.mark.parametrize(("make", "is_log"), [(lognormal, True), (normal, False)])
def test_auto_chooses_by_validation_rows(make, is_log):
    model = fitted(make, target_transform="auto")
    assert (model.target_map_ is not None) == is_log
    X = make(50, 1)[0]
    same = fitted(make, target_transform="log" if is_log else None)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))


def test_auto_without_a_logarithm():
    _, y, _ = normal(300, 0)
    assert len(candidate_maps(y, None, "auto")) == 2
    assert candidate_maps(y - 30.0, None, "auto") == [None]  # negative targets
    assert candidate_maps(np.ones(300), None, "auto") == [None]
    assert len(candidate_maps(y - 30.0, (-40, None), "auto")) == 2


def test_shift_of_the_logarithm():
    """None without zeros; 1 for small counts; always in units of the target."""
    y = np.array([0.0, 1.0, 1.0, 3.0])
    assert TargetMap.logarithm(y, 0.0).shift == 1.0
    assert TargetMap.logarithm(100.0 * y, 0.0).shift == 100.0
    assert TargetMap.logarithm(y + 0.5, 0.0).shift == 0.0
    target_map = TargetMap.logarithm(y, 0.0)
    np.testing.assert_allclose(target_map.to_target(target_map.to_model(y)), y, atol=1e-12)
    beyond = np.array([4.0, 40.0])
    np.testing.assert_allclose(target_map.to_target(target_map.to_model(beyond)), beyond)


def test_many_equal_targets_just_above_the_bound_count_as_at_it():
    """The bound of a user may be rounded; what is learnt must not depend on it."""
    counts = np.repeat([0.0, 1.0, 3.0, 20.0], [50, 20, 20, 10])
    exact, rounded = (TargetMap.logarithm(counts, low) for low in (0.0, -1e-6))
    assert rounded.shift == pytest.approx(exact.shift)
    np.testing.assert_allclose(rounded.scale(counts), exact.scale(counts), atol=1e-5)
    assert TargetMap.logarithm(counts, -0.5).shift == 0.0  # as far from the bound as the others
    alone = np.append(1e-6, np.linspace(1.0, 3.0, 200))  # one small target is no point mass
    assert TargetMap.logarithm(alone, 0.0).shift == 0.0


def test_values_that_round_to_the_bound_are_the_bound():
    """So that cdf and ppf are inverse to each other: both have a point mass there."""
    target_map = TargetMap(low=0.0, log=True, knee=100.0)
    z = np.array([-40.0, target_map.low_at - 1e-3, target_map.low_at + 1e-3])
    y = target_map.to_target(z)
    np.testing.assert_array_equal(y > 0, [False, False, True])
    assert target_map.scale(y)[2] == pytest.approx(z[2])


@pytest.mark.slow
def test_weights_are_repetitions():
    X, y, _ = hourly_counts(400, 0)
    twice = USNRTRegressor(**QUICK, target_transform="auto").fit(np.tile(X, (2, 1)), np.tile(y, 2))
    weighted = USNRTRegressor(**QUICK, target_transform="auto").fit(X, y, sample_weight=np.full(400, 2.0))
    np.testing.assert_array_equal(twice.predict(X), weighted.predict(X))
    assert twice.target_map_ == weighted.target_map_


def test_ensembles_take_the_parameters_of_their_estimator():
    own, inner = USNRTEnsemble(target_bounds=(0, 5)), USNRTEnsemble(USNRTRegressor(target_bounds=(0, 5)))
    assert own._parameter("target_bounds") == inner._parameter("target_bounds") == (0, 5)
    both = USNRTEnsemble(USNRTRegressor(target_bounds=(0, 5)), target_bounds=(0, 6))
    with pytest.raises(ValueError, match="target_bounds and estimator.target_bounds must be equal if both are given"):
        both.fit(np.zeros((10, 1)), np.ones(10))


def test_explanations_are_in_units_of_the_target():
    from usnrt.explain.shapley import Moments

    model, X = fitted(lognormal, target_transform="log"), lognormal(50, 1)[0]
    moments = Moments(model)(model._encode(X))
    supported = model.predict_support(X)["supported"]
    np.testing.assert_allclose(moments[supported, 0], model.predict(X)[supported], rtol=1e-9)


# -- files and ONNX ---------------------------------------------------------------------------------------------

MODELS = {
    "bounds": (hourly_counts, "tree", {"target_bounds": (0, None)}),
    "log": (lognormal, "tree", {"target_transform": "log"}),
    "log of counts": (hourly_counts, "tree", {"target_transform": "log", "target_bounds": (0, 100)}),
    "ensemble": (hourly_counts, "ensemble", {"target_bounds": (0, None)}),
}


@pytest.mark.parametrize("name", MODELS)
def test_files(name, tmp_path):
    make, kind, parameters = MODELS[name]
    model, X = fitted(make, kind, **parameters), make(200, 1)[0]
    model.save(tmp_path / "model.usnrt")
    loaded = usnrt.load(tmp_path / "model.usnrt")
    assert loaded.target_map_ == model.target_map_
    np.testing.assert_array_equal(loaded.predict_table(X)["lower"], model.predict_table(X)["lower"])
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("name", MODELS)
def test_onnx(name):
    make, kind, parameters = MODELS[name]
    model, X = fitted(make, kind, **parameters), make(300, 1)[0]
    session = onnxruntime.InferenceSession(model.to_onnx(levels=(0.05, 0.5, 0.95)).SerializeToString())
    mean, std, region, quantiles, _ = session.run(None, feeds(model, X))
    dist = model.predict_dist(X)
    np.testing.assert_allclose(quantiles, dist.ppf([0.05, 0.5, 0.95]), rtol=1e-4, atol=1e-4 * y_scale(dist))
    np.testing.assert_array_equal(region, model.apply(X))
    # closed forms in the library, 241 nodes in the graph
    np.testing.assert_allclose((mean - dist.mean()) / dist.std(), 0.0, atol=0.01)
    np.testing.assert_allclose(std / dist.std(), 1.0, atol=0.02)
    assert mean.min() >= 0
    assert quantiles.min() >= 0


def y_scale(dist):
    return float(np.median(dist.std()))


@pytest.mark.parametrize(
    "changes", [{"low": 3.0}, {"knee": -1.0}, {"shift": -1.0}, {"log": 1}, {"low_end": float("nan")}, {"high": "a"}]
)
def test_invalid_maps_in_files(changes, tmp_path):
    target_map = TargetMap(low=0.0, high=2.0, log=True, shift=0.5)
    save(target_map, tmp_path / "map.usnrt")
    assert load(tmp_path / "map.usnrt") == target_map
    for name, value in changes.items():
        object.__setattr__(target_map, name, value)
    save(target_map, tmp_path / "map.usnrt")
    with pytest.raises(ModelFileError, match=r"of class TargetMap do not fit together$|of class TargetMap is invalid$"):
        load(tmp_path / "map.usnrt")


def test_point_masses_at_both_bounds_do_not_overlap(tmp_path):
    """Targets at the two bounds only: found by the soak, a model that could be saved but not loaded."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    y = (X[:, 0] + 0.1 * rng.normal(size=300) > 0).astype(float)
    model = USNRTRegressor(hidden=(8,), max_epochs=3, memory=False, target_bounds=(0, 1), random_state=0).fit(X, y)
    assert model.target_map_.low_end < model.target_map_.high_end
    model.save(tmp_path / "m.usnrt")
    np.testing.assert_array_equal(usnrt.load(tmp_path / "m.usnrt").predict(X), model.predict(X))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_the_ends_of_point_masses_stay_in_order(share):
    y = (np.arange(100) < 100 * share).astype(float)
    levels = np.sort(np.random.default_rng(0).normal(0.5, 0.2, 100))

    def cdf(value):
        return np.full(100, np.searchsorted(levels, value) / 100)

    found = with_point_masses(TargetMap(0.0, 1.0), y, np.ones(100), cdf)
    assert 0.0 <= found.low_end < found.high_end <= 1.0


def test_a_constant_target_can_be_calibrated_on_other_targets():
    """Found by the soak: the unit of the scaled target was so small that squares of conformity scores overflowed."""
    X = np.random.default_rng(0).normal(size=(60, 1))
    model = USNRTRegressor(hidden=(8,), max_epochs=2, memory=False, random_state=0).fit(X[:30], np.zeros(30))
    assert np.abs(model.predict(X)).max() < 1e-40
    model.calibrate(X[30:], np.arange(30) == 7)
    dist = model.predict_dist(X)
    assert np.isfinite(dist.mean()).all()
    assert np.isfinite(dist.var()).all()
    lower, upper = model.predict_interval(X, 0.8).T
    assert (upper < 1).all()
    assert (lower < 1e-40).all()  # zero in units of the target
