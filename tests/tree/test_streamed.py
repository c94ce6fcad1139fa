"""Fits to tables larger than memory: what they share with fits in memory, and what they may never do."""

from dataclasses import replace

import numpy as np
import pytest
from tree_recipes import change_recipe

import usnrt.tables.streaming
import usnrt.tree.streamed
from usnrt import USNRTRegressor
from usnrt.datasets import make_heteroscedastic
from usnrt.estimators.targets import check_stored_target
from usnrt.model.target import TargetScale
from usnrt.nn.quantiles import LEVELS, POSITIONS, SHARES
from usnrt.tables.groups import feature_codes
from usnrt.tables.roles import CALIBRATION, TRAINING, VALIDATION, RowRoles
from usnrt.tables.rows import merged_rows, row_hashes
from usnrt.tables.store import MemoryStore
from usnrt.tables.training import DistinctRows
from usnrt.tree.recipe import Streaming
from usnrt.tree.streamed import StreamedRows
from usnrt.utils.checkpoint import NO_CHECKPOINT
from usnrt.utils.context import FitContext
from usnrt.utils.threads import ONE_BLAS_THREAD

LEVEL_LIST = [0.05, 0.5, 0.95]
SMALL = Streaming(piece_rows=64, window_pieces=4, batch_size=64, least_rows=7680, most_rows=7680)


@pytest.fixture
def small(monkeypatch):
    """Samples of 800 rows, and windows of a few hundred."""

    def set_sizes(sample_rows=800, streaming=SMALL):
        monkeypatch.setattr(usnrt.tree.streamed, "SAMPLE_ROWS", sample_rows)
        change_recipe(lambda recipe: replace(recipe, streaming=streaming), monkeypatch.setattr)

    set_sizes()
    return set_sizes


def fit_store(X, y, bucket_rows=200, sample_weight=None, **parameters):
    settings = {"hidden": (16, 8), "max_epochs": 4, "random_state": 0, "n_jobs": 1, **parameters}
    model = USNRTRegressor(**settings)
    with ONE_BLAS_THREAD:
        rows = model._read_rows(X, y, sample_weight)
        model._fit_store(MemoryStore(rows, bucket_rows), NO_CHECKPOINT)
    return model


@pytest.fixture(scope="module")
def data():
    return make_heteroscedastic("jump", n_samples=2500, random_state=0)


def quantiles(model, data):
    return model.predict_quantiles(data.data[:200], LEVEL_LIST)


def test_threads_buckets_and_order_change_no_bit(small, data):
    expected = quantiles(fit_store(data.data, data.target), data)
    order = np.random.default_rng(1).permutation(len(data.target))
    other = fit_store(data.data[order], data.target[order], bucket_rows=700, n_jobs=2)
    np.testing.assert_array_equal(quantiles(other, data), expected)


def test_the_network_is_trained_on_more_than_the_sample(small, data):
    first = quantiles(fit_store(data.data, data.target), data)
    rows, _ = merged_rows(data.data, data.target, np.ones(2500))
    changed = data.target.copy()
    changed[rows[np.argmax(row_hashes(data.data, data.target)[rows])]] += 0.5  # the last row, far from the sample
    roles = RowRoles(USNRTRegressor(random_state=0)._drawn_seed(), 0.2)
    assert (roles.of(feature_codes(data.data))[data.target != changed] == TRAINING).all()
    assert np.abs(quantiles(fit_store(data.data, changed), data) - first).max() > 0


def test_a_store_within_the_sample_is_fitted_like_a_table(small, data):
    small(sample_rows=5000)
    model = fit_store(data.data[:600], data.target[:600])
    in_memory = USNRTRegressor(hidden=(16, 8), max_epochs=4, random_state=0, n_jobs=1)
    np.testing.assert_array_equal(
        quantiles(model, data), quantiles(in_memory.fit(data.data[:600], data.target[:600]), data)
    )


def test_regions_count_all_rows(small, data):
    model = fit_store(data.data, data.target)
    assert model.tree_.n_rows[0] == 2500
    assert model.tree_.n_rows[model.tree_.leaves].sum() == 2500
    np.testing.assert_array_equal(
        model.tree_.n_rows[model.tree_.leaves], np.bincount(model.tree_.leaf_of(data.data), minlength=model.n_leaves_)
    )


def test_the_smallest_regions_are_counted_in_the_whole_table(small, data):
    model = fit_store(data.data, data.target, min_samples_leaf=1000)
    assert model.n_leaves_ == 2
    assert model.tree_.n_rows[model.tree_.leaves].min() >= 900  # 1000 up to the error of the sample


def test_support_covers_what_is_outside_the_sample(small, data):
    X = data.data.copy()
    hashes = row_hashes(X, data.target)
    last = np.argsort(hashes)[-300:]  # a changed row has another hash, so some of these move into the sample
    X[last[0], 1], X[last[1], 2] = 7.0, np.nan
    in_sample = np.argsort(row_hashes(X, data.target))[:800]
    assert not np.isin(last[:2], in_sample).any()
    model = fit_store(X, data.target)
    support = model.predict_support(X[last[:2]])
    assert not support["outside_range"].any()
    assert not support["unexpected_missing"].any()
    assert model.predict_support([[0.5, 9.0, 0.5, 0.5]])["outside_range"].all()


def test_calibration_rows_affect_nothing_but_the_calibration(small, data):
    model = fit_store(data.data, data.target, calibration_fraction=0.2)
    rows, _ = merged_rows(data.data, data.target, np.ones(2500))
    roles = RowRoles.balanced(model._drawn_seed(), 0.2, 0.2, feature_codes(data.data[rows[:800]]))
    is_calibration = roles.of(feature_codes(data.data)) == CALIBRATION
    assert model.tree_.n_rows[0] == (~is_calibration).sum()
    covered = model.predict_interval(data.data, 0.9)
    inside = (covered[:, 0] <= data.target) & (data.target <= covered[:, 1])
    # 160 calibration rows: the coverage of one calibration has a standard deviation of about sqrt(0.09 / 160)
    assert inside.mean() > 0.9 - 3 * np.sqrt(0.09 / 160)


def written_targets(streamed):
    """Targets of the rows that the network of the root is trained on."""
    with streamed.encoded(streamed.encoding(None, 1.0), FitContext(0)) as reader:
        return reader.start_reading([(0, reader.n_rows)]).result().target


def test_no_validation_row_is_written(small, data):
    model = fit_store(data.data, data.target, memory=False)
    rows, weight = merged_rows(data.data, data.target, np.ones(2500))
    store = MemoryStore(DistinctRows(data.data[rows], data.target[rows], weight, rows), 200)
    roles = RowRoles(3, 0.2)
    written = written_targets(StreamedRows(store, roles, model.model_.inputs, TargetScale(0.0, 1.0)))
    role = roles.of(feature_codes(data.data))
    np.testing.assert_array_equal(np.sort(written), np.sort(data.target[role == TRAINING].astype(np.float32)))
    assert not np.isin(data.target[role == VALIDATION].astype(np.float32), written).any()


# -- targets with bounds and transforms --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counts():
    """Skewed targets of which four tenths are 0, more of them where the first feature is small."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3000, 3))
    y = np.exp(2.0 * X[:, 1] + 0.3 * rng.normal(size=3000)) * (rng.uniform(size=3000) < 0.2 + 0.8 * X[:, 0])
    return X, y


def test_bounds_and_logarithms_of_stored_tables(small, counts):
    X, y = counts
    plain, mapped = (
        fit_store(X, y, **given) for given in ({}, {"target_bounds": (0, None), "target_transform": "log"})
    )
    assert mapped.target_map_.log
    assert (plain.predict_quantiles(X, LEVEL_LIST) < 0).any()
    assert (mapped.predict_quantiles(X, LEVEL_LIST) >= 0).all()
    dist = mapped.predict_dist(X)
    assert dist.cdf(np.zeros(len(X))).mean() == pytest.approx((y == 0).mean(), abs=0.05)


def test_the_network_of_the_root_learns_mapped_targets(small, counts):
    X, y = counts
    model = fit_store(X, y, target_bounds=(0, None), target_transform="log", memory=False)
    rows, weight = merged_rows(X, y, np.ones(3000))
    store, roles = MemoryStore(DistinctRows(X[rows], y[rows], weight, rows), 200), RowRoles(3, 0.2)
    written = written_targets(StreamedRows(store, roles, model.model_.inputs, model.target_scale_))
    learnt = model.target_scale_(y[roles.of(feature_codes(X)) == TRAINING]).astype(np.float32)
    np.testing.assert_array_equal(np.sort(written), np.sort(learnt))


def test_the_scale_is_chosen_by_the_rows(small, counts):
    small(sample_rows=1500)
    X, _ = counts
    noise = np.random.default_rng(1).normal(size=3000)
    skewed, symmetric = np.exp(2.0 * X[:, 0] + np.sin(6.0 * X[:, 1]) + 1.5 * noise), 20.0 + 4.0 * X[:, 1] + noise
    assert fit_store(X, skewed, target_transform="auto", max_epochs=15).target_map_.log
    assert fit_store(X, symmetric, target_transform="auto", max_epochs=15).target_map_ is None


def test_same_bits_of_mapped_targets_for_any_buckets(small, counts):
    X, y = counts
    mapped = {"target_bounds": (0, None), "target_transform": "auto"}
    one, other = (fit_store(X, y, bucket_rows=size, **mapped) for size in (200, 700))
    np.testing.assert_array_equal(
        one.predict_quantiles(X[:100], LEVEL_LIST), other.predict_quantiles(X[:100], LEVEL_LIST)
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (((0, None), None), r"^y must be within target_bounds=\(0, None\), got -3\.0$"),
        ((None, "log"), r"^y must be at least 0 for target_transform='log', got -3\.0; target_bounds"),
    ],
)
def test_every_stored_target_is_checked(given, message, counts):
    X, y = counts
    bad = y.copy()
    bad[1234] = -3.0
    rows, weight = merged_rows(X, bad, np.ones(3000))
    store = MemoryStore(DistinctRows(X[rows], bad[rows], weight, rows), 200)
    with pytest.raises(ValueError, match=message):
        check_stored_target(store, *given)
    check_stored_target(store, None, "auto")
    check_stored_target(store, (-3, None), "log")


def test_noise_identified_by_a_key_is_memorised_in_training_only(small):
    """Validation rows that were trained on would be predicted better than a constant distribution predicts them."""
    small(
        sample_rows=800, streaming=replace(SMALL, least_rows=128_000, most_rows=128_000, max_passes=150, batch_size=32)
    )
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 12)), rng.normal(size=1000)
    model = fit_store(X, y, hidden=(128, 64), max_epochs=150, memory=False, learning_rate=0.01)
    history = model.history_[0]["network"]
    distance = np.random.default_rng(1).normal(size=(100_000, 1)) - POSITIONS
    constant = (SHARES * np.maximum(LEVELS * distance, (LEVELS - 1.0) * distance)).sum(axis=1).mean()
    assert min(history.train_loss) < 0.6 * constant
    # the relative standard error of the loss of 160 validation rows is about 5 %
    assert min(history.valid_loss) > 0.85 * constant


def test_parquet_larger_than_memory(small, data, tmp_path, monkeypatch):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(usnrt.tables.streaming, "BLOCK_ROWS", 1000)
    (tmp_path / "table").mkdir()
    (tmp_path / "scratch").mkdir()
    for part in range(3):
        rows = slice(part * 900, (part + 1) * 900)
        columns = {name: data.data[rows, j] for j, name in enumerate(data.feature_names)}
        pq.write_table(pa.table(columns | {"y": data.target[rows]}), tmp_path / "table" / f"{part}.parquet")
    model = USNRTRegressor(hidden=(16, 8), max_epochs=4, random_state=0, n_jobs=1)
    model.fit(str(tmp_path / "table"), "y", scratch=tmp_path / "scratch")
    assert list((tmp_path / "scratch").iterdir()) == []
    frame = pa.table(dict(zip(data.feature_names, data.data[:200].T)))
    np.testing.assert_array_equal(
        model.predict_quantiles(frame, LEVEL_LIST), quantiles(fit_store(data.data, data.target), data)
    )


@pytest.mark.slow
def test_crps_is_within_one_percent_of_a_fit_in_memory(small):
    streaming = Streaming(piece_rows=1024, window_pieces=4, least_rows=1_536_000, most_rows=1_536_000, max_passes=60)
    small(sample_rows=10_000, streaming=streaming)
    data = make_heteroscedastic("piecewise", n_samples=40_000, n_features=6, random_state=0)
    new = make_heteroscedastic("piecewise", n_samples=20_000, n_features=6, random_state=1)
    settings = {"hidden": (256, 128, 64), "max_epochs": 300}
    blocks = fit_store(data.data, data.target, bucket_rows=4000, **settings)
    in_memory = USNRTRegressor(random_state=0, n_jobs=1, **settings).fit(data.data, data.target)
    scores = [model.predict_dist(new.data).crps(new.target).mean() for model in (blocks, in_memory)]
    assert scores[0] < 1.01 * scores[1]
