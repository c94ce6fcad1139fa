"""The ensemble: folds, calibration as a whole, parts of the variance, bits."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_limits
from usnrt.estimators.pairs import Pairs, capped_disagreement, level_factors, mean_error_factor, own_error_share

from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.datasets import make_heteroscedastic
from usnrt.distributions import Mixture
from usnrt.estimators.ensemble import draw_folds, mean_expert_weights
from usnrt.nn.quantiles import POSITIONS

TINY = USNRTRegressor(hidden=(8,), memory=False, max_epochs=15, min_samples_leaf=300)


@pytest.fixture(scope="module")
def data():
    return make_heteroscedastic("piecewise", n_samples=1600, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return USNRTEnsemble(TINY, n_estimators=4, random_state=0).fit(data.data, data.target)


@pytest.mark.parametrize("n_members", [2, 3, 5, 8])
def test_every_row_is_held_out_and_every_row_trains(n_members):
    held_out = draw_folds(1003, n_members, np.random.default_rng(1))
    times = held_out.sum(axis=0)
    assert set(times) == {1, 2}
    assert np.mean(times == 2) == pytest.approx(0.25, abs=0.001)
    if n_members > 2:
        assert (~held_out).any(axis=0).all()
    assert np.ptp(held_out.sum(axis=1)) <= n_members


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
        [member.quantile_functions(raw, model.inputs_.transform(raw))[1] for member in model.members_]
    )


def test_members_differ(model, data):
    assert (members_means(model, data.data).std(axis=1) > 0).all()


def test_the_mean_is_better_than_a_members(data, model):
    fresh = make_heteroscedastic("piecewise", n_samples=4000, random_state=1)
    members = model.target_mean_ + model.target_std_ * members_means(model, fresh.data)
    truth = fresh.truth.mean(fresh.data)
    together = np.mean((members.mean(axis=1) - truth) ** 2)
    assert together < np.mean((members - truth[:, None]) ** 2)


def test_parts_add_up_and_the_epistemic_part_grows_away_from_the_data(model, data):
    parts = model.predict_variance(data.data)
    np.testing.assert_allclose(parts["aleatoric"] + parts["epistemic"], parts["total"])
    far = model.predict_variance(data.data * 6)
    assert np.median(far["epistemic"]) > 5 * np.median(parts["epistemic"])


def known_members(n=40_000, shared=0.7, n_members=2, seed=0):
    """Members that err by common noise and by noise of their own, and state their variance of 1 rightly.

    Returns the pairs of the first two, scores of a single member, and scores of the mean of all.
    """
    rng = np.random.default_rng(seed)
    common = np.sqrt(shared) * rng.normal(size=n)
    own = np.sqrt(1 - shared) * rng.normal(size=(n_members, n))
    pairs = Pairs(
        np.arange(n), np.ones(n), capped_disagreement(POSITIONS - own[:2, :, None]), common + own[:2],
        common + own[:2].mean(axis=0),
    )  # fmt: skip
    return pairs, common + own[0], common + own.mean(axis=0)


@pytest.mark.parametrize("shared", [0.2, 0.7, 1.0])
def test_the_members_own_error_is_found_where_it_is_known(shared):
    pairs, *_ = known_members(shared=shared)
    assert own_error_share(pairs) == pytest.approx(1 - shared, abs=0.03)
    # the cap takes a little off where members differ most
    assert np.mean(pairs.disagreement) == pytest.approx(1 - shared, abs=0.05)


def test_both_members_of_a_pair_count():
    """A pair that is compared with its first member only looks better the worse that one happens to be."""
    pairs, *_ = known_members(shared=0.5)
    worse = replace(pairs, single=np.stack([1.2 * pairs.single[0], pairs.single[1]]))
    swapped = replace(worse, single=worse.single[::-1])
    assert own_error_share(worse) == pytest.approx(own_error_share(swapped))


@pytest.mark.parametrize("n_members", [2, 3, 5, 8])
def test_the_error_of_the_mean_follows_from_members_of_folds(n_members):
    """Members that are means of their training rows: the squared error of their mean is known."""
    rng = np.random.default_rng(n_members)
    estimated, true = [], []
    for _ in range(2000):
        is_training = ~draw_folds(200, n_members, rng)
        means = (is_training @ rng.normal(size=200)) / is_training.sum(axis=1)
        estimated.append(mean_error_factor(~is_training) * means.var(ddof=1))
        true.append(means.mean() ** 2)
    errors = np.std(estimated) + np.std(true)
    assert np.mean(estimated) == pytest.approx(np.mean(true), abs=4 * errors / np.sqrt(2000))


def test_members_of_equal_rows_reveal_nothing_about_them():
    assert mean_error_factor(np.tile(np.arange(10) < 3, (4, 1))) == 1.0
    assert mean_error_factor(np.zeros((3, 10), dtype=bool)) == 1.0


def test_the_epistemic_part_is_the_jackknife_of_the_members(model, data):
    parts = model.predict_variance(data.data)
    variance = model.epistemic_factor_ * model._predicted(model._encode(data.data)).disagreement
    np.testing.assert_allclose(parts["epistemic"] / parts["aleatoric"], variance)
    assert model.epistemic_factor_ == pytest.approx(1.5 + 0.25, abs=0.4)


@pytest.mark.parametrize("n_members", [3, 5, 10])
@pytest.mark.parametrize("shared", [0.3, 0.8, 1.0])
def test_scores_of_single_members_become_those_of_the_ensemble(n_members, shared):
    """At every level: narrowed by what is measured on pairs, single scores are distributed as those of the mean."""
    pairs, single, truth = known_members(shared=shared, n_members=n_members)
    own = own_error_share(pairs)
    remaining = 1.0 - own * (1.0 - 1.0 / n_members)  # what quantile functions are narrowed by, in squares
    expected = single * level_factors(pairs, single, own, n_members) * np.sqrt(remaining)
    levels = [0.1, 0.3, 0.5, 0.7, 0.9, 0.95]
    ratio = np.quantile(np.abs(expected), levels) / np.quantile(np.abs(truth), levels)
    np.testing.assert_allclose(ratio, 1.0, atol=0.06)


def test_levels_are_corrected_apart():
    """Large errors are common to all members, small ones are not: one factor would be wrong for both."""
    rng = np.random.default_rng(0)
    n, n_members = 60_000, 5
    common = np.where(rng.random(n) < 0.2, 3.0, 0.3) * rng.normal(size=n)
    own = 0.7 * rng.normal(size=(n_members, n))
    pairs = Pairs(np.arange(n), np.ones(n), np.full(n, 0.5), common + own[:2], common + own[:2].mean(axis=0))
    single, truth, share = common + own[0], common + own.mean(axis=0), own_error_share(pairs)
    one_factor = np.sqrt(1.0 - share * (1.0 - 1.0 / n_members))
    levels = [0.3, 0.5, 0.9]
    wanted = np.quantile(np.abs(truth), levels)
    factors = level_factors(pairs, single, share, n_members)
    np.testing.assert_allclose(np.quantile(np.abs(single * factors * one_factor), levels) / wanted, 1.0, atol=0.1)
    assert np.abs(np.quantile(np.abs(single * one_factor), levels) / wanted - 1.0).max() > 0.15


def test_rows_set_aside_calibrate_the_ensemble_and_nothing_else(data):
    aside = clone(TINY).set_params(calibration_fraction=0.3)
    model = USNRTEnsemble(aside, n_estimators=3, random_state=0).fit(data.data, data.target)
    assert sum(len(scores) for scores in model.calibration_.scores) == round(0.3 * len(data.target))
    assert model.tree_.n_rows[0] == round(0.7 * len(data.target))


def test_the_papers_ensemble_is_a_mixture_of_normals(data):
    model = USNRTEnsemble.paper(n_estimators=2, random_state=0)
    model.estimator.set_params(max_epochs=3)
    model.fit(data.data, data.target)
    dist = model.predict_dist(data.data[:10])
    assert isinstance(dist, Mixture)
    raw = model._encode(data.data[:10])
    answers = [member.moments(raw, model.inputs_.transform(raw)) for member in model.members_]
    means, variances = (np.column_stack([answer[k] for answer in answers]) for k in (1, 2))
    scale = model.target_std_
    np.testing.assert_allclose(dist.mean(), model.target_mean_ + scale * means.mean(axis=1))
    np.testing.assert_allclose(dist.var(), scale**2 * (variances.mean(axis=1) + means.var(axis=1)))


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
    assert not hasattr(model, "members_")


def test_other_estimators_are_refused(data):
    from sklearn.linear_model import LinearRegression

    with pytest.raises(TypeError) as caught:
        USNRTEnsemble(LinearRegression()).fit(data.data, data.target)
    assert str(caught.value) == "estimator must be a USNRTRegressor or None, got LinearRegression()"


def test_weights_of_experts_are_averaged_over_members_and_rows():
    """Regions are those of the first member; another member has other regions there."""

    def member(leaf, weights):
        tree = SimpleNamespace(n_leaves=len(weights), leaf_of=lambda raw: np.array(leaf))
        return SimpleNamespace(tree=tree, expert_weights=np.array(weights))

    members = [
        member([0, 0, 1, 1], [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
        member([0, 1, 1, 1], [[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]),
    ]
    table = SimpleNamespace(raw=np.zeros((4, 1)), weight=np.array([3.0, 1.0, 1.0, 1.0]))
    expected = [[0.5 + 0.5 * 0.25 * 0.5, 0.5 * (0.75 + 0.25 * 0.5), 0.0], [0.25, 0.25, 0.5]]
    np.testing.assert_allclose(mean_expert_weights(members, table), expected)


def test_the_former_name_of_the_number_of_members(data):
    quick = USNRTRegressor(max_epochs=1, hidden=(4,), memory=False)
    old = USNRTEnsemble(quick, n_members=2, random_state=0, n_jobs=1)
    with pytest.warns(FutureWarning, match=r"^n_members is deprecated since usnrt 0\.2\.0 .*: use n_estimators$"):
        old.fit(data.data[:200], data.target[:200])
    new = USNRTEnsemble(quick, n_estimators=2, random_state=0, n_jobs=1).fit(data.data[:200], data.target[:200])
    assert len(old.members_) == len(new.members_) == 2
    np.testing.assert_array_equal(old.predict(data.data[:9]), new.predict(data.data[:9]))


def test_the_former_name_keeps_the_contract_of_scikit_learn():
    model = clone(USNRTEnsemble(n_members=3))
    assert (model.n_members, model.n_estimators) == (3, 5)
    assert clone(USNRTEnsemble(n_estimators=4)).get_params()["n_estimators"] == 4
    assert USNRTEnsemble().set_params(n_members=2).n_members == 2
    assert repr(USNRTEnsemble(n_estimators=4)) == "USNRTEnsemble(n_estimators=4)"
    message = "n_members is the former name of n_estimators: give n_estimators only, got n_members=3 and n_estimators=4"
    with pytest.raises(ValueError, match=re.escape(message)):
        USNRTEnsemble(n_members=3, n_estimators=4).fit([[0.0], [1.0]], [0.0, 1.0])
