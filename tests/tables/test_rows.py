"""Distinct rows: merged, hashed, sketched."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import usnrt
import usnrt.tables.rows
from usnrt import USNRTRegressor
from usnrt.metrics.models import training_share
from usnrt.paper.baselines import RandomForestVarianceRegressor
from usnrt.tables.rows import SKETCH_SIZE, counted_weight, fingerprint, merged_rows
from usnrt.utils.notices import TrainingRowsWarning

cells = st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0, 1e300, np.nan])
tables = st.integers(1, 3).flatmap(
    lambda d: st.lists(
        st.tuples(st.lists(cells, min_size=d, max_size=d), st.sampled_from([0.0, 1.0, 7.0]), st.integers(0, 3)),
        min_size=1,
        max_size=25,
    )
)


def as_arrays(table):
    raw, y, weight = zip(*table)
    return np.array(raw), np.array(y), np.array(weight, dtype=float)


def key(raw_row, target):
    """What two equal rows share: NaN equals NaN, and -0.0 equals 0.0."""
    return (*("missing" if np.isnan(x) else x + 0.0 for x in raw_row), target)


def ordered(raw, y, weight):
    """The result as a list, in its order."""
    rows, kept = merged_rows(raw, y, weight)
    return [(key(raw[row], y[row]), w) for row, w in zip(rows, kept)]


@settings(deadline=None, max_examples=150)
@given(tables)
def test_equal_rows_become_one_of_their_total_weight(table):
    raw, y, weight = as_arrays(table)
    expected = Counter()
    for raw_row, target, w in zip(raw, y, weight):
        expected[key(raw_row, target)] += w
    found = ordered(raw, y, weight)
    assert dict(found) == dict(+expected)
    assert len(found) == len(+expected)


@settings(deadline=None, max_examples=100)
@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_the_result_depends_on_contents_only(table, random):
    before = ordered(*as_arrays(table))
    shuffled = list(table)
    random.shuffle(shuffled)
    assert ordered(*as_arrays(shuffled)) == before


@settings(deadline=None, max_examples=50)
@given(tables)
def test_a_weight_is_a_repetition(table):
    repeated = [(raw, y, 1) for raw, y, weight in table for _ in range(weight)]
    if repeated:
        assert ordered(*as_arrays(repeated)) == ordered(*as_arrays(table))


def test_fractional_weights_are_summed_in_an_order_of_their_own():
    rng = np.random.default_rng(0)
    raw, y, weight = np.zeros((40, 1)), np.zeros(40), rng.uniform(size=40)
    totals = {merged_rows(raw, y, weight[rng.permutation(40)])[1].item() for _ in range(20)}
    assert len(totals) == 1
    assert totals.pop() == pytest.approx(weight.sum(), rel=1e-14)


def test_rows_whose_hashes_collide_stay_apart(monkeypatch):
    monkeypatch.setattr(usnrt.tables.rows, "row_hashes", lambda raw, y, apart: np.zeros(len(y), dtype=np.uint64))
    rows, weight = merged_rows(np.array([[1.0], [2.0], [1.0]]), np.array([5.0, 6.0, 5.0]), np.ones(3))
    assert dict(zip(rows.tolist(), weight.tolist())) == {0: 2.0, 1: 1.0}
    rows, weight = merged_rows(np.ones((3, 1)), np.ones(3), np.ones(3), apart=np.array([7.0, 7.0, 8.0]))
    assert dict(zip(rows.tolist(), weight.tolist())) == {0: 2.0, 2: 1.0}


def test_whole_weights_count_as_they_are_and_others_average_one():
    np.testing.assert_array_equal(counted_weight(np.array([0.0, 1.0, 5.0])), [0, 1, 5])
    np.testing.assert_allclose(counted_weight(np.array([0.0, 0.5, 1.0])), [0, 2 / 3, 4 / 3])


def test_the_scale_of_weights_does_not_depend_on_row_order():
    """Found by the soak: the mean of permuted weights differs in its last bits, hence the whole fit."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        weight, order = 10.0 ** rng.uniform(-8, 8, 326), rng.permutation(326)
        np.testing.assert_array_equal(counted_weight(weight)[order], counted_weight(weight[order]))


def table(n, seed, d=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=n)


def coarse(n, seed, kinds=6):
    """Few distinct values: new rows equal training rows by chance."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, kinds, (n, 3)).astype(float), rng.integers(0, kinds, n).astype(float)


@pytest.mark.parametrize("n", [50, SKETCH_SIZE - 1, SKETCH_SIZE, SKETCH_SIZE + 1, 20_000])
def test_training_rows_are_known_and_new_ones_are_not(n):
    X, y = table(n, 0)
    sketch = fingerprint(X, y)
    assert len(sketch.hashes) == min(n, SKETCH_SIZE)
    assert sketch.share_of(X, y) == 1.0
    assert sketch.share_of(X[::-1], y[::-1]) == 1.0
    assert sketch.share_of(*table(n, 1)) == 0.0
    assert sketch.share_of(X, y + 1.0) == 0.0  # the same features with another truth are other rows
    assert sketch.share_of(X[:0], y[:0]) == 0.0


@pytest.mark.parametrize("n", [600, 20_000])
@pytest.mark.parametrize(("share", "found"), [(0.3, False), (0.8, True)])
def test_of_a_mixture_more_than_half_counts(n, share, found):
    X, y = table(n, 0)
    other, z = table(n, 1)
    old = np.arange(n) < share * n
    estimate = fingerprint(X, y).share_of(np.where(old[:, None], X, other), np.where(old, y, z))
    assert (estimate > 0) == found
    if found:  # a sample of about 1,024 rows, or all of them
        error = 0.0 if n < SKETCH_SIZE else 3.5 * np.sqrt(share * (1 - share) / SKETCH_SIZE)
        assert estimate == pytest.approx(share, abs=error + 1e-9)


@pytest.mark.parametrize("kinds", [2, 4, 6, 9])
@pytest.mark.parametrize("n", [300, 5000])
def test_new_rows_that_equal_training_rows_by_chance_are_new(n, kinds):
    """A table of few distinct values repeats itself; with 2 kinds every new row is in the training table."""
    X, y = coarse(n, 0, kinds)
    sketch = fingerprint(X, y)
    false_alarms = sum(sketch.share_of(*coarse(n, seed, kinds)) > 0 for seed in range(1, 41))
    assert false_alarms <= 1  # each has a chance of well below 1 %
    if 0.02 < sketch.repeated < 0.9:  # where rows differ enough to tell
        assert sketch.share_of(X, y) == 1.0


def test_a_table_given_twice_is_still_known():
    X, y = table(700, 0)
    twice = fingerprint(np.tile(X, (2, 1)), np.tile(y, 2))
    np.testing.assert_array_equal(twice.hashes, fingerprint(X, y).hashes)
    assert twice.repeated == 0.0
    assert twice.share_of(X, y) == 1.0
    assert fingerprint(X, y).share_of(np.tile(X, (2, 1)), np.tile(y, 2)) == 1.0
    assert twice.share_of(*table(700, 1)) == 0.0


@pytest.fixture(scope="module")
def forest():
    X, y = table(400, 0)
    return RandomForestVarianceRegressor(n_estimators=3, random_state=0).fit(X, y)


def test_evaluate_warns_on_training_rows_and_not_on_new_ones(forest, tmp_path):
    X, y = table(400, 0)
    forest.save(tmp_path / "model.usnrt")
    loaded = usnrt.load(tmp_path / "model.usnrt")
    np.testing.assert_array_equal(loaded.fingerprint_.hashes, forest.fingerprint_.hashes)
    other, z = table(100, 1)
    mixed = np.concatenate([X[:300], other]), np.concatenate([y[:300], z])
    for model in (forest, loaded):
        with pytest.warns(TrainingRowsWarning, match="^100 % of these rows are training rows"):
            usnrt.evaluate(model, X, y)
        with pytest.warns(TrainingRowsWarning, match="^75 % of these rows are training rows"):
            usnrt.evaluate(model, *mixed)
        usnrt.evaluate(model, *table(400, 1))  # a warning would be an error here


def test_weights_do_not_matter_but_rows_without_weight_are_new():
    X, y = table(400, 0)
    weight = np.random.default_rng(3).integers(1, 4, 400)
    weight[:100] = 0
    model = RandomForestVarianceRegressor(n_estimators=3, random_state=0).fit(X, y, sample_weight=weight)
    assert training_share(model, X[100:], y[100:]) == 1.0
    assert training_share(model, X[:100], y[:100]) == 0.0
    scaled = RandomForestVarianceRegressor(n_estimators=3, random_state=0).fit(X, y, sample_weight=weight / 7)
    assert training_share(scaled, X[100:], y[100:]) == 1.0


def test_a_model_from_before_fingerprints_does_not_warn(forest):
    X, y = table(400, 0)
    old = RandomForestVarianceRegressor()
    old.__dict__.update({name: value for name, value in vars(forest).items() if name != "fingerprint_"})
    usnrt.evaluate(old, X, y)


def test_scorers_are_silent_on_training_rows(forest):
    from usnrt.metrics import get_scorer

    assert get_scorer("neg_crps")(forest, *table(400, 0)) < 0
    assert get_scorer("neg_interval_score")(forest, *table(400, 0)) < 0


def test_a_fit_remembers_that_its_table_repeats_itself():
    """Rows are merged before a fit; new rows that equal training rows by chance must not look like training rows."""
    rng = np.random.default_rng(0)
    subjects = rng.normal(size=(300, 2))
    rows, new = rng.integers(0, 300, 1200), rng.integers(0, 300, 400)
    model = USNRTRegressor(max_epochs=2, random_state=0)
    model.fit(subjects[rows], subjects[rows, 0])
    assert model.fingerprint_.repeated == fingerprint(subjects[rows], subjects[rows, 0]).repeated > 0.8
    assert training_share(model, subjects[new], subjects[new, 0]) == 0.0
    counts = np.bincount(rows, minlength=300)
    weighted = USNRTRegressor(max_epochs=2, random_state=0).fit(subjects, subjects[:, 0], sample_weight=counts)
    assert weighted.fingerprint_.repeated == model.fingerprint_.repeated
