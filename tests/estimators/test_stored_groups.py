"""Rows that belong together in tables larger than memory: groups are whole, whatever files and blocks there are."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from tree_recipes import change_recipe

pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")
pa_csv = pytest.importorskip("pyarrow.csv")

import usnrt.tables.streaming  # noqa: E402
import usnrt.tree.streamed  # noqa: E402
from usnrt import USNRTEnsemble, USNRTRegressor  # noqa: E402
from usnrt.tables.groups import feature_codes  # noqa: E402
from usnrt.tables.roles import CALIBRATION, TRAINING, VALIDATION, RowRoles, units_of  # noqa: E402
from usnrt.tree.recipe import Streaming  # noqa: E402
from usnrt.utils.notices import GroupedRowsWarning  # noqa: E402

SMALL = Streaming(piece_rows=128, window_pieces=8, batch_size=64, least_rows=115_200, most_rows=115_200)
QUICK = {"hidden": (8,), "max_epochs": 2, "random_state": 0, "n_jobs": 1}
LEVELS = [0.05, 0.5, 0.95]


@pytest.fixture
def small(monkeypatch):
    """Tables of more than 500 rows are too large for memory, and samples have 1500 rows."""
    monkeypatch.setattr(usnrt.tables.streaming, "BLOCK_ROWS", 500)
    monkeypatch.setattr(usnrt.tree.streamed, "SAMPLE_ROWS", 1500)
    change_recipe(lambda recipe: replace(recipe, streaming=SMALL), monkeypatch.setattr)


def subjects(seed, n_subjects, n_rows, n_own=0):
    """Rows of subjects: three features of the subject, others of the row, an effect of the subject, little noise."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n_subjects), n_rows)
    X = np.column_stack([rng.normal(size=(n_subjects, 3))[who], rng.normal(size=(len(who), n_own))])
    y = 0.3 * X[:, 0] + rng.normal(size=n_subjects)[who] + 0.1 * rng.normal(size=len(who))
    return X, y, who


def table_of(X, y, who=None):
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"y": y}
    return pa.table(columns if who is None else columns | {"who": who})


def parquet(table, folder, cuts=()):
    folder.mkdir()
    bounds = [0, *cuts, table.num_rows]
    for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
        pq.write_table(table[start:stop], folder / f"{number}.parquet")
    return str(folder)


def quantiles(model, X):
    return model.predict_quantiles(table_of(X, X[:, 0]).drop_columns(["y"]), LEVELS)


def coverage(model, X, y):
    low, high = model.predict_interval(table_of(X, y).drop_columns(["y"])).T
    return float(np.mean((low <= y) & (y <= high)))


@pytest.fixture
def seen(monkeypatch):
    """The rows of each bucket that was encoded for training, and the roles that were used."""
    found = []
    of = usnrt.tree.streamed.RowEncoding.of

    def keeping(self, rows, hashes, n_before, n_threads=1):
        found.append((rows, self.roles.of(units_of(rows, hashes)), self))
        return of(self, rows, hashes, n_before, n_threads)

    monkeypatch.setattr(usnrt.tree.streamed.RowEncoding, "of", keeping)
    return found


# -- intervals of new groups -------------------------------------------------------------------------------------------


def test_given_groups_make_intervals_those_of_new_subjects(small, tmp_path):
    # 400 subjects: coverage of one calibration on 80 of them has a standard deviation of 0.034; without groups it is
    # below 0.6.
    X, y, who = subjects(1, 600, 8, n_own=2)
    old = who < 400
    path = parquet(table_of(X[old], y[old], who[old]), tmp_path / "in")
    model = USNRTRegressor(hidden=(64, 32), max_epochs=30, random_state=0, n_jobs=1)
    assert coverage(model.fit(path, "y", groups="who"), X[~old], y[~old]) > 0.78
    counted = model.calibration_.weights[0]
    assert counted.sum() < len(counted) / 2  # groups, not rows
    unaware = pq.ParquetDataset(path).read().drop_columns(["who"])
    with pytest.warns(GroupedRowsWarning, match=r"'x0', 'x1', 'x2' have only \d+ combinations in 1,500 rows"):
        model.fit(iter([unaware]), "y")
    assert coverage(model, X[~old], y[~old]) < 0.65


def test_replicates_on_disk_are_covered_for_new_design_points(small, tmp_path):
    X, y, who = subjects(0, 600, 8)
    old = who < 400
    path = parquet(table_of(X[old], y[old]), tmp_path / "in")
    model = USNRTRegressor(hidden=(64, 32), max_epochs=30, random_state=0, n_jobs=1).fit(path, "y")
    assert coverage(model, X[~old], y[~old]) > 0.78


# -- whole groups on one side ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False])
def test_roles_go_by_whole_groups(named, small, seen, tmp_path):
    X, y, who = subjects(2, 300, 8, n_own=1 if named else 0)
    path = parquet(table_of(X, y, np.char.add("id", who.astype(str)) if named else None), tmp_path / "in")
    model = USNRTRegressor(**QUICK, calibration_fraction=0.2).fit(path, "y", groups="who" if named else None)
    raw, target, role = (
        np.concatenate(parts) for parts in zip(*[(rows.raw, rows.target, role) for rows, role, _ in seen])
    )
    subject = np.unique(raw[:, 0], return_inverse=True)[1]  # a feature of the subject
    for own in range(300):
        assert len(set(role[subject == own])) == 1
    shares = np.bincount(role) / len(role)
    np.testing.assert_allclose(shares[[VALIDATION, CALIBRATION]], [0.16, 0.2], atol=0.03)
    assert len(target) == 2400
    assert model.tree_.n_rows[0] == (role != CALIBRATION).sum()


def test_the_memory_leaves_out_groups_outside_the_sample(small, seen, tmp_path, monkeypatch):
    asked = []
    guides_of = usnrt.memory.retrieval.Retrieval.guides_of

    def keeping(self, inputs, without=None, n_threads=1, without_group=None):
        asked.append((self, without_group))
        return guides_of(self, inputs, without, n_threads, without_group)

    monkeypatch.setattr(usnrt.memory.retrieval.Retrieval, "guides_of", keeping)
    X, y, who = subjects(3, 300, 8, n_own=1)
    USNRTRegressor(**QUICK).fit(parquet(table_of(X, y, who), tmp_path / "in"), "y", groups="who")
    for (rows, role, _), (memory, without) in zip(seen, asked[-len(seen) :]):
        np.testing.assert_array_equal(without, rows.group[role == TRAINING])
        held = memory._groups[memory.row[memory.row >= 0]]
        assert np.isin(without, held).mean() > 0.9  # most subjects have rows in the sample, too


def test_copies_of_different_groups_stay_apart(small, seen, tmp_path):
    X, y, who = subjects(4, 300, 4)
    twice = table_of(np.tile(X, (2, 1)), np.tile(y, 2), np.concatenate([who, who + 1000]))
    path = parquet(pa.concat_tables([twice, twice]), tmp_path / "in")
    USNRTRegressor(**QUICK).fit(path, "y", groups="who")
    assert sum(rows.n_rows for rows, _, _ in seen) == 2400
    assert all((rows.weight == 2).all() for rows, _, _ in seen)
    assert len(np.unique(np.concatenate([rows.group for rows, _, _ in seen]))) == 600


def test_few_different_features_are_not_grouped(small, seen, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (2000, 2)).astype(float)
    USNRTRegressor(**QUICK).fit(parquet(table_of(X, rng.normal(size=2000)), tmp_path / "in"), "y")
    rows, role, _ = seen[0]
    assert rows.group is None
    assert len(np.unique(feature_codes(rows.raw)[role == VALIDATION])) > 20


@pytest.mark.parametrize("seed", range(4))
def test_few_and_large_groups_have_both_roles(seed):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, rng.integers(3, 6), 2000)
    role = RowRoles.balanced(seed, 0.2, 0.2, group).of(group)
    assert set(role) == {TRAINING, VALIDATION, CALIBRATION}


def test_too_few_groups_for_all_roles():
    with pytest.raises(ValueError, match="^groups must have at least 3 different labels among 60 rows .*, got 2$"):
        RowRoles.balanced(0, 0.2, 0.2, np.repeat([1, 2], 30))


def test_shares_of_many_groups_are_those_asked_for():
    group = np.repeat(np.arange(10_000), 3)
    role = RowRoles.balanced(5, 0.2, 0.1, group).of(group)
    np.testing.assert_allclose(np.bincount(role) / len(role), [0.72, 0.18, 0.1], atol=2e-4)


# -- the same bits ---------------------------------------------------------------------------------------------------


def test_same_bits_for_any_order_files_blocks_threads_and_types(small, tmp_path, monkeypatch):
    X, y, who = subjects(5, 250, 8, n_own=1)
    table = table_of(X, y, who)
    model = USNRTRegressor(**QUICK).fit(parquet(table, tmp_path / "one"), "y", groups="who")
    assert list(model.feature_names_in_) == ["x0", "x1", "x2", "x3"]
    expected = quantiles(model, X[:100])
    order = np.random.default_rng(0).permutation(len(y))
    monkeypatch.setattr(usnrt.tables.streaming, "PASS_BYTES", 1)
    monkeypatch.setattr(usnrt.tables.streaming, "MIN_PASS_ROWS", 371)
    shuffled = table.take(order)
    path = parquet(shuffled, tmp_path / "two", cuts=[300, 1999])
    as_floats = shuffled.set_column(5, "who", shuffled["who"].cast(pa.float64()))
    pa_csv.write_csv(shuffled, tmp_path / "three.csv")
    X_map = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", shape=X.shape)
    X_map[:] = X[order]
    sources = [
        (path, "y", "who"),
        (ds.dataset(path), "y", "who"),
        (iter(as_floats.to_batches(max_chunksize=400)), "y", "who"),
        (str(tmp_path / "three.csv"), "y", "who"),
    ]
    for source, target, groups in sources:
        other = USNRTRegressor(**{**QUICK, "n_jobs": 2}).fit(source, target, groups=groups)
        np.testing.assert_array_equal(quantiles(other, X[:100]), expected)
    other = USNRTRegressor(**QUICK).fit(X_map, y[order], groups=who[order])
    np.testing.assert_array_equal(other.predict_quantiles(X[:100], LEVELS), expected)


@pytest.mark.parametrize("labels", ["numbers", "text"])
def test_a_small_file_is_the_table_in_memory(labels, tmp_path):
    X, y, who = subjects(6, 60, 5)
    who = who if labels == "numbers" else np.char.add("p", who.astype(str))
    table = table_of(X, y, who)
    expected = quantiles(USNRTRegressor(**QUICK).fit(table.drop_columns(["y"]), y, groups="who"), X)
    pq.write_table(table, tmp_path / "a.parquet")
    model = USNRTRegressor(**QUICK).fit(str(tmp_path / "a.parquet"), "y", groups="who")
    np.testing.assert_array_equal(quantiles(model, X), expected)
    ensemble = USNRTEnsemble(USNRTRegressor(hidden=(8,), max_epochs=2), n_estimators=2, random_state=0, n_jobs=1)
    assert ensemble.fit(str(tmp_path / "a.parquet"), "y", groups="who").feature_names_in_.tolist() == ["x0", "x1", "x2"]


def test_a_store_within_the_sample_is_fitted_like_a_table(small, tmp_path):
    X, y, who = subjects(7, 120, 8)
    for groups in ("who", None):
        table = table_of(X, y, who if groups else None)
        in_memory = USNRTRegressor(**QUICK).fit(table.drop_columns(["y"]), y, groups=groups)
        stored = USNRTRegressor(**QUICK).fit(parquet(table, tmp_path / f"{groups}"), "y", groups=groups)
        np.testing.assert_array_equal(quantiles(stored, X), quantiles(in_memory, X))
        np.testing.assert_array_equal(stored.fingerprint_.hashes, in_memory.fingerprint_.hashes)


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "groups", "message"),
    [
        ({}, "whom", r"has no column 'whom'; did you mean 'who'\?$"),
        ({}, "y", "^y and groups must be different columns, got 'y' for both$"),
        (
            {"who": pa.nulls(1200, pa.string())},
            "who",
            r"^groups must have a label for every row, got a missing one in row 1 of",
        ),
        ({"who": [1.0] * 700 + [None] + [2.0] * 499}, "who", r"got a missing one in row 1 of .*1\.parquet$"),
        ({"who": ["a"] * 1200}, "who", "^groups must have at least 2 different labels, got 1$"),
    ],
)
@pytest.mark.parametrize("is_large", [True, False])
def test_bad_groups_of_files_get_one_sentence(change, groups, message, is_large, tmp_path, monkeypatch):
    monkeypatch.setattr(usnrt.tables.streaming, "BLOCK_ROWS", 500 if is_large else 5000)
    X, y, who = subjects(8, 150, 8)
    table = table_of(X, y, who)
    for name, values in change.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    with pytest.raises(ValueError, match=message):
        USNRTRegressor(**QUICK).fit(parquet(table, tmp_path / "in", cuts=[700]), "y", groups=groups)


def test_labels_of_one_kind_in_all_files(small, tmp_path):
    X, y, who = subjects(8, 150, 8)
    path = parquet(table_of(X, y, who), tmp_path / "in")
    pq.write_table(table_of(X, y, who.astype(str)), tmp_path / "in" / "1.parquet")
    with pytest.raises(ValueError, match="^groups must be all text or all numbers, got numbers and text$"):
        USNRTRegressor(**QUICK).fit(path, "y", groups="who")


def test_groups_need_rows_with_a_weight(small, tmp_path):
    X, y, who = subjects(8, 150, 8)
    table = table_of(X, y, who).append_column("w", pa.array((who == 3).astype(int)))
    with pytest.raises(ValueError, match="^groups must have at least 2 different labels, got 1$"):
        USNRTRegressor(**QUICK).fit(parquet(table, tmp_path / "in"), "y", "w", groups="who")
    with pytest.raises(ValueError, match="^groups must have at least 2 different labels, got 1$"):
        USNRTRegressor(**QUICK).fit(X, y, (who == 3).astype(int), groups=who)


def test_labels_of_a_memory_map_are_an_array(small, tmp_path):
    X, y, who = subjects(8, 150, 8)
    X_map = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", shape=X.shape)
    with pytest.raises(ValueError, match=r"^groups must have one label per row, shape \(1200,\), got shape \(3,\)$"):
        USNRTRegressor(**QUICK).fit(X_map, y, groups=who[:3])
