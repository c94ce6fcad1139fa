"""Support of rows: detection of outside, unseen, missing and far rows, and wider distributions for them."""

from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

from usnrt import USNRTEnsemble, USNRTRegressor, load
from usnrt.calibration.landmarks import Landmarks, _principal_directions
from usnrt.calibration.support import RowSupport, Support, needed_variance, robust_variance, widened
from usnrt.datasets import make_heteroscedastic
from usnrt.experts.refine import half_widths
from usnrt.nn.quantiles import MEDIAN, POSITIONS

NUMBERS = np.zeros(2, dtype=bool)


def one_region(raw, categorical=None):
    categorical = np.zeros(raw.shape[1], dtype=bool) if categorical is None else np.asarray(categorical)
    return Support.fit(np.asfortranarray(raw), categorical, np.zeros(len(raw), dtype=int), 1)


def measured(support, rows, leaf=0):
    rows = np.atleast_2d(np.asarray(rows, dtype=float))
    return support.measure(rows, np.full(len(rows), leaf))


@pytest.fixture
def square():
    return one_region(np.random.default_rng(0).uniform(size=(2000, 2)))


# -- measuring -----------------------------------------------------------------------------------------------


def test_ranges_have_a_margin_of_a_tenth(square):
    found = measured(square, [[0.5, 1.09], [0.5, 1.15], [-0.09, 0.5], [-0.15, 0.5]])
    assert found.outside.tolist() == [False, True, False, True]
    assert found.supported.tolist() == [True, False, True, False]


def test_ranges_are_those_of_the_region():
    rng = np.random.default_rng(1)
    raw = rng.uniform(size=(3000, 2))
    raw[:, 1] = np.where(raw[:, 0] <= 0.5, raw[:, 1], 5.0 + raw[:, 1])
    support = Support.fit(raw, NUMBERS, (raw[:, 0] > 0.5).astype(int), 2)
    rows = np.array([[0.2, 0.5], [0.2, 5.5], [0.8, 5.5], [0.8, 0.5]])
    assert support.measure(rows, np.array([0, 0, 1, 1])).outside.tolist() == [False, True, False, True]


def test_unknown_columns_have_the_ranges_of_the_whole_table():
    rng = np.random.default_rng(1)
    raw = rng.uniform(size=(3000, 2))
    raw[:, 1] = np.where(raw[:, 0] <= 0.5, raw[:, 1], 5.0 + raw[:, 1])
    support = Support.fit(raw, NUMBERS, (raw[:, 0] > 0.5).astype(int), 2)
    found = measured(support, [[np.nan, 5.5], [np.nan, 9.0]])
    assert found.missing.tolist() == [True, True]
    assert found.outside.tolist() == [False, True]


def test_unseen_categories_and_missing_values():
    rng = np.random.default_rng(2)
    raw = np.stack([rng.uniform(size=500), rng.integers(0, 3, 500), rng.uniform(size=500)], axis=1)
    raw[::10, 2] = np.nan
    support = one_region(raw, [False, True, False])
    found = measured(support, [[0.5, 1, 0.5], [0.5, -1, 0.5], [np.nan, 1, 0.5], [0.5, 1, np.nan], [0.5, np.nan, 0.5]])
    assert found.unseen.tolist() == [False, True, False, False, False]
    assert found.missing.tolist() == [False, False, True, False, True]  # training had missing values in the last column
    assert found.supported.tolist() == [True, False, False, True, False]


def test_columns_that_are_constant_empty_or_missing_in_a_region():
    rng = np.random.default_rng(3)
    raw = rng.uniform(size=(600, 5))
    leaf = (raw[:, 0] > 0.5).astype(int)
    raw[:, 1], raw[:, 2] = 7.0, np.nan
    raw[leaf == 0, 3] = 0.0  # constant in one region only
    raw[leaf == 1, 4] = np.nan  # without a value in one region
    support = Support.fit(raw, np.zeros(5, dtype=bool), leaf, 2)
    harmless = [[0.2, 7.0 + 1e-9, 3.0, 1e-3, 0.5], [0.2, 7.0, np.nan, 0.0, 0.5]]
    assert measured(support, harmless).supported.all()
    assert measured(support, [[0.2, 8.0, np.nan, 0.0, 0.5], [0.2, 7.0, np.nan, 0.9, 0.5]]).outside.all()
    # no value in this region: the range of the whole table counts
    found = measured(support, [[0.8, 7.0, np.nan, 0.5, 0.5], [0.8, 7.0, np.nan, 0.5, 2.0]], leaf=1)
    assert found.outside.tolist() == [False, True]


def test_a_hole_in_a_ring_is_far():
    angle = np.random.default_rng(4).uniform(0, 2 * np.pi, 3000)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.05 * np.random.default_rng(5).normal(size=(3000, 2))
    found = measured(one_region(ring), [[0.0, 0.0], [0.3, 0.3], [1.0, 0.0], [0.0, -1.0]])
    assert found.far.tolist() == [True, True, False, False]
    assert not found.outside.any()


def test_an_unusual_combination_of_correlated_columns_is_far():
    rng = np.random.default_rng(6)
    x = rng.normal(size=4000)
    raw = np.stack([x, x + 0.1 * rng.normal(size=4000), rng.normal(size=4000)], axis=1)
    found = measured(one_region(raw), [[1.5, -1.5, 0.0], [1.5, 1.5, 0.0]])
    assert found.far.tolist() == [True, False]
    assert not found.outside.any()


@pytest.mark.parametrize("kind", ["uniform", "normal", "lognormal", "factors", "piecewise"])
def test_ordinary_rows_are_supported(kind):
    def draw(n, seed):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(n, 8))
        return {
            "uniform": rng.uniform(size=(n, 8)),
            "normal": z,
            "lognormal": np.exp(z),
            "factors": z[:, :2] @ np.random.default_rng(0).normal(size=(2, 8)) + 0.3 * rng.normal(size=(n, 8)),
            "piecewise": make_heteroscedastic("piecewise", n, random_state=seed).data,
        }[kind]

    train, new = draw(4000, 1), draw(20_000, 2)
    cuts = np.quantile(train[:, 0], [0.25, 0.5, 0.75])
    support = Support.fit(train, np.zeros(train.shape[1], dtype=bool), np.searchsorted(cuts, train[:, 0]), 4)
    own = support.measure(train, np.searchsorted(cuts, train[:, 0]))
    assert not own.outside.any()
    assert own.far.mean() <= 0.001
    assert 1 - support.measure(new, np.searchsorted(cuts, new[:, 0])).supported.mean() < 0.005


def test_distances_are_those_to_the_nearest_landmark():
    rng = np.random.default_rng(7)
    train, new = rng.normal(size=(2000, 3)), 3.0 * rng.normal(size=(300, 3))
    landmarks = Landmarks.fit(train)
    units = (new - landmarks.centre) / landmarks.scale
    at = (np.sign(units) * np.log1p(np.abs(units)) - landmarks.offset) @ landmarks.whitening
    distance = np.sqrt(((at[:, None] - landmarks.points) ** 2).sum(axis=2)).min(axis=1)
    np.testing.assert_allclose(
        landmarks.excess(new), np.maximum(distance / landmarks.threshold - 1.0, 0.0), rtol=1e-3, atol=1e-4
    )
    assert (landmarks.excess(new) > 0).any()


def test_a_row_is_measured_alike_in_any_company():
    rng = np.random.default_rng(8)
    support = one_region(rng.normal(size=(3000, 5)))
    rows = 2.0 * rng.normal(size=(5000, 5))
    together = support.measure(rows, np.zeros(5000, dtype=int))
    assert not together.supported.all()
    for some in (slice(0, 1), slice(700, 1300), slice(4999, 5000)):
        alone = support.measure(rows[some], np.zeros(len(rows[some]), dtype=int))
        for name in RowSupport.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(alone, name), getattr(together, name)[some])


def test_tables_without_numbers_and_without_rows():
    raw = np.random.default_rng(9).integers(0, 3, (200, 2)).astype(float)
    support = one_region(raw, [True, True])
    assert support.landmarks is None
    assert measured(support, [[0, 1], [0, -1]]).supported.tolist() == [True, False]
    assert support.measure(np.zeros((0, 2)), np.zeros(0, dtype=int)).supported.shape == (0,)


def test_two_rows_are_enough_to_fit():
    support = one_region(np.array([[0.0, 1.0], [1.0, 3.0]]))
    assert measured(support, [[0.5, 2.0], [0.5, 90.0]]).supported.tolist() == [True, False]


# -- the nearest supported row ---------------------------------------------------------------------------------


def test_clamping_supported_rows_returns_the_same_array(square):
    rows = np.array([[0.5, 0.5], [np.nan, 0.1]])
    assert square.clamp(rows, measured(square, rows)) is rows


def test_clamping_goes_to_the_border_or_one_unit_beyond(square):
    rows = np.array([[0.5, 0.5], [0.5, 9.0], [-9.0, np.nan], [0.5, 1.2]])
    found = measured(square, rows)
    before = rows.copy()
    near = square.clamp(rows, found)
    np.testing.assert_array_equal(rows, before)
    np.testing.assert_allclose(near, [[0.5, 0.5], [0.5, 1.1], [-0.1, np.nan], [0.5, 1.1]], atol=0.005)
    std = 12**-0.5
    beyond = square.clamp(rows, found, reach=1.0)
    np.testing.assert_allclose(beyond, [[0.5, 0.5], [0.5, 1.1 + std], [-0.1 - std, np.nan], [0.5, 1.2]], atol=0.01)
    assert square.measure(near, np.zeros(4, dtype=int)).outside.tolist() == [False] * 4


# -- widening --------------------------------------------------------------------------------------------------


def quantile_functions(n, seed=0):
    steps = np.random.default_rng(seed).exponential(size=(n, len(POSITIONS)))
    return np.cumsum(steps, axis=1) - 3.0


def test_supported_rows_keep_their_quantiles_bit_for_bit(square):
    rows = np.random.default_rng(1).uniform(size=(100, 2))
    quantiles = quantile_functions(100)
    assert square.widen(quantiles, measured(square, rows)) is quantiles
    rows[7, 0], rows[8, 1] = 4.0, np.nan
    wider = square.widen(quantiles, measured(square, rows))
    touched = (wider != quantiles).any(axis=1)
    assert np.flatnonzero(touched).tolist() == [7, 8]


def test_widened_quantiles_rise_and_are_nowhere_narrower():
    quantiles = quantile_functions(200)
    quantiles[0] = 0.0  # a point mass
    wider = widened(quantiles, np.random.default_rng(2).exponential(size=200))
    assert (np.diff(wider, axis=1) > 0).all()
    np.testing.assert_array_equal(wider[:, MEDIAN], quantiles[:, MEDIAN])
    assert (np.abs(wider - wider[:, [MEDIAN]]) >= np.abs(quantiles - quantiles[:, [MEDIAN]])).all()
    np.testing.assert_allclose(widened(quantiles, np.zeros(200)), quantiles, atol=1e-12)


def test_the_spread_grows_from_nothing_along_every_ray(square):
    quantiles = np.tile(0.1 * POSITIONS, (400, 1))
    for direction in np.random.default_rng(3).normal(size=(20, 2)):
        rows = 0.5 + np.linspace(0, 20, 400)[:, None] * direction
        found = measured(square, rows)
        wider = square.widen(quantiles, found)
        width = wider[:, -1] - wider[:, 0]
        assert (np.diff(width) >= -1e-9).all()
        first = int(np.argmin(found.supported))
        assert width[first] < 20 * width[0]  # one step of 0.05 stds beyond
        assert width[-1] > 5.0 * np.sqrt(1.0 + 0.1**2)  # more than the target's own


def test_the_border_of_the_support_is_no_jump(square):
    edge = square.high[0, 0]
    quantiles = np.tile(0.1 * POSITIONS, (3, 1))
    rows = np.array([[edge, 0.5], [edge + 1e-9, 0.5], [edge + 1e-3, 0.5]])
    width = np.ptp(square.widen(quantiles, measured(square, rows)), axis=1)
    np.testing.assert_allclose(width[1] / width[0], 1.0, atol=1e-5)
    assert width[2] < 1.2 * width[0]


def test_far_away_the_typical_spread_of_the_region_counts():
    raw = np.random.default_rng(4).uniform(size=(500, 2))
    support = Support.fit(raw, NUMBERS, np.zeros(500, dtype=int), 1)
    y = 5.0 * ndtri((np.random.default_rng(5).permutation(500) + 0.5) / 500)
    support = support.with_missing_value_variances(
        lambda rows: np.tile(5.0 * POSITIONS, (len(rows), 1)), raw, raw[:, 0] > 9, y
    )
    np.testing.assert_allclose(support.typical_variance, 25.0)
    wider = support.widen(np.tile(0.1 * POSITIONS, (1, 1)), measured(support, [[50.0, 50.0]]))
    assert np.ptp(wider) > 25.0


def test_sentinels_do_not_overflow(square):
    rows = np.array([[1e308, -1e308], [-9999.0, 0.5], [0.5, np.finfo(float).max]])
    found = measured(square, rows)
    assert not found.supported.any()
    wider = square.widen(np.tile(POSITIONS, (3, 1)), found)
    assert np.isfinite(wider).all()
    assert np.isfinite(square.clamp(rows, found, reach=1.0)).all()


def test_huge_training_values_do_not_overflow():
    raw = 1.7e308 * np.random.default_rng(6).uniform(-1, 1, (300, 2))
    support = one_region(raw)
    assert measured(support, raw).supported.all()


# -- missing-value variances -----------------------------------------------------------------------------------


def test_needed_variance_is_none_for_good_quantiles():
    y = ndtri((np.arange(2000) + 0.5) / 2000)
    usual = ndtri([0.75, 0.9, 0.95, 0.975])
    assert needed_variance(np.tile(POSITIONS, (2000, 1)), y, usual) < 0.01
    assert needed_variance(np.tile(2.0 * POSITIONS, (2000, 1)), y, usual) == 0.0
    assert needed_variance(np.tile(POSITIONS, (2000, 1)), 2.0 * y, usual) == pytest.approx(3.0, rel=0.02)


def linear_model(rows):
    """Depends on the first column and on a category, and ignores the last column."""
    effect = np.array([-1.0, 0.0, 1.0, 0.0])[rows[:, 1].astype(int)]  # unseen: -1, the last entry
    return (np.nan_to_num(rows[:, 0]) + effect)[:, None] + 0.2 * POSITIONS


def test_missing_value_variances_find_what_matters():
    rng = np.random.default_rng(7)
    raw = np.stack([rng.normal(size=4000), rng.integers(0, 3, 4000), rng.normal(size=4000)], axis=1)
    y = raw[:, 0] + raw[:, 1] - 1.0 + 0.2 * rng.normal(size=4000)
    support = one_region(raw, [False, True, False])
    np.testing.assert_array_equal(support.missing_value_variance, 1.0)
    support = support.with_missing_value_variances(linear_model, raw, np.zeros(4000, dtype=int), y)
    # The variance of a normal column is 1; that of the category is 2/3, with lighter tails. Largest of four levels.
    assert support.missing_value_variance[0] == pytest.approx(1.0, rel=0.15)
    assert 0.5 < support.missing_value_variance[1] < 2.5
    assert support.missing_value_variance[2] < 1e-6
    incomplete = raw.copy()
    incomplete[:, 0] = np.nan
    quantiles = linear_model(incomplete)
    found = measured(support, incomplete)
    for judged, least, most in ((quantiles, 0.0, 0.4), (support.widen(quantiles, found), 0.88, 0.96)):
        edge = 1.5 + 0.145  # 1.645 lies between two of the positions
        low, high = (np.array([np.interp(z, POSITIONS, row) for row in judged]) for z in (-edge, edge))
        assert least <= np.mean((low <= y) & (y <= high)) <= most


def test_unknown_columns_widen_up_to_the_target_only():
    """However many columns are unknown; rows that are wider already stay as they are."""
    raw = np.random.default_rng(0).integers(0, 3, size=(200, 6)).astype(float)
    support = replace(one_region(raw, np.ones(6, dtype=bool)), target_variance=0.25)
    unknown = measured(support, np.full((1, 6), -1.0))
    assert unknown.unknown_variance == 6.0
    assert half_widths(support.widen(0.3 * POSITIONS[None], unknown)) == pytest.approx(0.5)
    np.testing.assert_allclose(support.widen(2.0 * POSITIONS[None], unknown), 2.0 * POSITIONS[None])


@pytest.mark.parametrize("n", [5, 12, 40, 1000])
def test_an_outlier_does_not_widen_the_target(n):
    y = np.random.default_rng(n).normal(size=n)
    assert robust_variance(np.append(y, 1e6)) < 10.0
    assert robust_variance(np.append(np.zeros(n), 1.0)) == pytest.approx(n / (n + 1) ** 2)
    assert robust_variance(np.zeros(n)) == 1.0


@pytest.mark.filterwarnings("ignore:the target of row 7")
def test_unseen_categories_of_a_table_with_an_outlier():
    """The middle half of the target is 1.3 wide; one row has 5,000."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({f"c{j}": rng.choice(list("abc"), 120) for j in range(4)})
    y = rng.normal(size=120)
    y[7] = 5000.0
    fitted = USNRTRegressor(hidden=(8,), max_epochs=5, memory=False, n_jobs=1, random_state=0).fit(X, y)
    support = fitted.model_.support
    assert np.sqrt(support.target_variance) * fitted.target_scale_.std < 2.0
    found = support.measure(fitted._encode(pd.DataFrame({name: ["new"] for name in X})), np.zeros(1, dtype=int))
    assert found.unseen.all()
    assert support.added_variance(np.zeros(1), found) <= support.target_variance


def test_few_validation_rows_keep_missing_value_variances(square):
    raw = np.random.default_rng(8).uniform(size=(10, 2))
    assert square.with_missing_value_variances(linear_model, raw, np.zeros(10, dtype=int), raw[:, 0]) is square


# -- models ----------------------------------------------------------------------------------------------------

SMALL = {"hidden": (16,), "memory": False, "max_epochs": 15, "min_samples_leaf": 150}


def houses(n, seed):
    rng = np.random.default_rng(seed)
    a, b, c = rng.uniform(-1, 1, (3, n))
    kind = rng.integers(0, 5, n)
    y = 3.0 * a + np.array([-2.0, -1.0, 0.0, 1.0, 2.0])[kind] + b + np.where(c > 0, 0.5, 0.1) * rng.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "c": c, "kind": np.array(list("uvwxy"))[kind]}), y


@pytest.fixture(scope="module", params=["tree", "ensemble"])
def model(request):
    X, y = houses(900, 0)
    if request.param == "tree":
        return USNRTRegressor(**SMALL, random_state=0, n_jobs=1).fit(X, y)
    return USNRTEnsemble(USNRTRegressor(**SMALL), n_estimators=3, random_state=0, n_jobs=1).fit(X, y)


def without_support(model):
    """A model that predicts all rows as if they were supported."""
    plain = copy(model)
    plain.model_ = replace(model.model_, support=replace(model.model_.support, widens=False))
    return plain


def test_in_support_rows_are_the_same_bit_for_bit(model):
    X, _ = houses(500, 1)
    X.loc[7, "a"] = 40.0
    supported = model.predict_support(X)["supported"]
    assert supported.mean() > 0.99
    assert not supported[7]
    plain = without_support(model)
    for name, args in (("predict", ()), ("predict_quantiles", ([0.1, 0.9],)), ("predict_interval", ())):
        ours, theirs = getattr(model, name)(X, *args), getattr(plain, name)(X, *args)
        np.testing.assert_array_equal(ours[supported], theirs[supported])
    ours, theirs = model.predict_dist(X), plain.predict_dist(X)
    np.testing.assert_array_equal(ours.std()[supported], theirs.std()[supported])
    np.testing.assert_allclose(ours.aleatoric[supported], theirs.aleatoric[supported], rtol=1e-12)
    assert (ours.std() != theirs.std()).any()


def test_predict_support_names_the_cause(model):
    X, _ = houses(5, 2)
    X.loc[0, "a"], X.loc[1, "b"], X.loc[2, "kind"] = 9.0, np.nan, "new"
    X.loc[3, "kind"] = None
    table = model.predict_support(X)
    reasons = ["outside_range", "unseen_category", "unexpected_missing", "far", "unlike_subjects"]
    assert table.columns == ["supported", *reasons, "widening"]
    assert table["supported"].tolist() == [False] * 4 + [True]
    assert table["outside_range"].tolist() == [True] + [False] * 4
    assert table["unexpected_missing"].tolist() == [False, True, False, True, False]
    assert table["unseen_category"].tolist() == [False, False, True, False, False]
    assert (table["widening"][:4] > 1.2).all()
    assert table["widening"][4] == 1.0
    assert model.predict_table(X)["supported"].tolist() == table["supported"].tolist()


@pytest.mark.parametrize(("column", "value"), [("a", np.nan), ("kind", "new")])
def test_intervals_without_a_column_hold_the_target(model, column, value):
    X, y = houses(1000, 3)
    X[column] = value

    def coverage(of):
        low, high = of.predict_interval(X, 0.9).T
        return np.mean((low <= y) & (y <= high))

    assert coverage(without_support(model)) < 0.6
    assert coverage(model) > 0.85


def test_what_lack_of_support_adds_is_not_noise(model):
    X, _ = houses(2, 4)
    X.loc[0, "a"] = 9.0
    parts = model.predict_variance(X)
    assert parts["aleatoric"][0] < 0.2 * parts["total"][0]


def test_the_trend_goes_on_for_a_while_only(model):
    X = pd.DataFrame({"a": [1.0, 1.3, 30.0, 31.0], "b": 0.0, "c": 0.0, "kind": "w"})
    predicted = model.model_.predict(model._encode(X))
    median = predicted.narrow[:, MEDIAN]
    assert median[1] > median[0]
    assert median[3] == median[2]
    np.testing.assert_array_equal(predicted.quantiles[:, MEDIAN], median)


def test_support_is_saved_with_the_model(model, tmp_path):
    model.save(tmp_path / "model.usnrt")
    X, _ = houses(50, 5)
    X.loc[:9, "a"] = 7.0
    again = load(tmp_path / "model.usnrt")
    for name, column in model.predict_support(X).items():
        np.testing.assert_array_equal(again.predict_support(X)[name], column)
    np.testing.assert_array_equal(again.predict_dist(X).std(), model.predict_dist(X).std())


def test_row_order_and_threads_do_not_matter():
    X, y = houses(300, 7)
    order = np.random.default_rng(0).permutation(300)
    recipe = {**SMALL, "max_epochs": 3}
    one = USNRTRegressor(**recipe, random_state=0, n_jobs=1).fit(X, y)
    other = USNRTRegressor(**recipe, random_state=0, n_jobs=2).fit(X.iloc[order].reset_index(drop=True), y[order])
    for name in ("low", "high", "missing_value_variance", "typical_variance"):
        np.testing.assert_array_equal(getattr(one.model_.support, name), getattr(other.model_.support, name))
    np.testing.assert_array_equal(one.model_.support.landmarks.points, other.model_.support.landmarks.points)


def test_the_paper_is_followed_to_the_letter():
    X, y = houses(400, 8)
    model = USNRTRegressor.paper(max_epochs=3, random_state=0, n_jobs=1).fit(X, y)
    X.loc[:9, "a"] = 7.0
    table = model.predict_support(X)
    assert not table["supported"][:10].any()
    assert (table["widening"] == 1.0).all()
    np.testing.assert_array_equal(model.predict(X), without_support(model).predict(X))
    np.testing.assert_array_equal(model.predict_dist(X).std(), without_support(model).predict_dist(X).std())


def test_onnx_measures_and_widens_alike(model):
    ort = pytest.importorskip("onnxruntime")
    from usnrt.onnx import feeds

    X, y = houses(200, 10)
    X.loc[0, "a"], X.loc[1, "b"], X.loc[2, "kind"], X.loc[3, "c"] = 1.6, np.nan, "new", 1e300
    X.loc[4, ["a", "b", "c"]] = 30.0, -20.0, 5.0
    X.loc[5, ["a", "kind"]] = -3.0, None
    session = ort.InferenceSession(model.to_onnx(levels=[0.05, 0.95]).SerializeToString())
    names = ["mean", "std", "quantiles", "supported"]
    mean, std, quantiles, supported = session.run(names, feeds(model, X))
    table = model.predict_table(X)
    assert (~supported).sum() >= 6
    np.testing.assert_array_equal(supported, table["supported"])
    np.testing.assert_allclose(std, table["std"], rtol=1e-4)
    np.testing.assert_allclose(mean, table["mean"], atol=1e-4 * y.std())
    np.testing.assert_allclose(quantiles, model.predict_quantiles(X, [0.05, 0.95]), rtol=1e-4, atol=1e-4 * y.std())


# -- more columns than rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_columns", [120, 150])
def test_landmarks_of_many_columns_have_rank_below_rows(n_columns):
    rng = np.random.default_rng(0)
    train, new = rng.normal(size=(60, n_columns)), rng.normal(size=(40, n_columns))
    landmarks = Landmarks.fit(train)
    assert landmarks.whitening.shape == (n_columns, 59)
    assert landmarks.points.shape == (60, 59)
    # ordinary rows are not far, though no training row differs from the mean in most of their directions
    assert not (landmarks.excess(new) > 0).any()
    assert (landmarks.excess(new * 20.0) > 0).all()


def test_directions_of_the_covariance_are_those_of_all_columns():
    train = np.random.default_rng(1).normal(size=(8, 12))
    train -= train.mean(axis=0)
    values, vectors = _principal_directions(train)
    expected = np.linalg.eigvalsh(train.T @ train / 8)[::-1]
    np.testing.assert_allclose(values, expected[: len(values)], rtol=1e-9)
    np.testing.assert_allclose(vectors * values @ vectors.T, train.T @ train / 8, atol=1e-12)


def test_landmarks_of_more_constant_columns_than_rows():
    landmarks = Landmarks.fit(np.ones((4, 9)))
    assert landmarks.whitening.shape == (9, 1)
    np.testing.assert_array_equal(landmarks.excess(np.full((2, 9), [[1.0], [5.0]])), 0.0)
