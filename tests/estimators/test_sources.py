"""Fits and predictions of tables outside memory: equal to those in memory, and nothing is left behind."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import usnrt
from usnrt.distributions import Normal
from usnrt.estimators.base import DistributionalRegressor
from usnrt.model.target import TargetScale
from usnrt.paper.baselines import HNNRegressor
from usnrt.tables import streaming
from usnrt.tables.find_source import as_source, whole_table
from usnrt.utils.notices import MissingTargetWarning

N = 600


class Stored(DistributionalRegressor):
    """Keeps the rows that it was fitted to, from memory or from a store."""

    _TAKES_STORES = True

    def __init__(self, categorical_features=None, fail=None, verbose=0):
        self.categorical_features = categorical_features
        self.fail = fail
        self.verbose = verbose

    def _fit(self, rows):
        self.rows_, self.n_buckets_ = rows, 0
        self.target_scale_ = TargetScale(float(np.mean(rows.target)), 1.0)

    def _fit_store(self, store, checkpoint):
        if self.fail is not None:
            raise self.fail
        self._fit(store.sample(store.n_rows))
        self.n_buckets_ = store.n_buckets

    def _renumber(self, kept):
        self.kept_ = kept

    def _distribution(self, raw):
        return Normal(np.nan_to_num(raw[:, 0]), np.ones(len(raw)))


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    area = rng.uniform(20, 200, N).round(1)
    columns = {"area": area, "district": rng.choice(["north", "south"], N).tolist(), "count": rng.integers(0, 3, N)}
    return pa.table({**columns, "price": (area + rng.normal(size=N)).round(1)})


@pytest.fixture
def folder(table, tmp_path):
    for number in range(3):
        pq.write_table(table[200 * number : 200 * (number + 1)], tmp_path / f"part-{number}.parquet")
    return tmp_path


@pytest.fixture
def scratch(tmp_path):
    place = tmp_path / "scratch"
    place.mkdir()
    return place


@pytest.fixture
def small_blocks(monkeypatch):
    """Tables of more than 100 rows are too large for memory."""
    monkeypatch.setattr(streaming, "BLOCK_ROWS", 100)
    monkeypatch.setattr(streaming, "PASS_BYTES", 1)
    monkeypatch.setattr(streaming, "MIN_PASS_ROWS", 37)


def assert_equal_rows(one, other):
    for name in ("raw", "target", "weight"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def as_sources(table, folder):
    pa_csv.write_csv(table, folder / "all.csv")
    return {
        "path": folder / "part-*.parquet",
        "text": str(folder / "part-*.parquet"),
        "csv": str(folder / "all.csv"),
        "dataset": ds.dataset([folder / f"part-{number}.parquet" for number in (2, 0, 1)]),
        "reader": table.to_reader(max_chunksize=7),
        "frames": (batch.to_pandas() for batch in table.to_batches(max_chunksize=300)),
    }


@pytest.mark.parametrize("kind", ["path", "text", "csv", "dataset", "reader", "frames"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_small_source_is_the_table_in_memory(kind, weighted, table, folder):
    names = ["price", "count"] if weighted else ["price"]
    weight = table["count"].to_numpy() if weighted else None
    expected = Stored().fit(table.drop_columns(names), table["price"].to_numpy(), weight)
    model = Stored().fit(as_sources(table, folder)[kind], "price", "count" if weighted else None)
    assert_equal_rows(model.rows_, expected.rows_)
    assert model.encoder_.columns_ == expected.encoder_.columns_
    assert (model.target_name_, model.n_buckets_) == ("price", 0)
    assert model.feature_names_in_.tolist() == expected.feature_names_in_.tolist()


@pytest.mark.parametrize("kind", ["path", "csv", "dataset", "reader", "frames"])
def test_a_large_source_becomes_a_store(kind, table, folder, scratch, small_blocks):
    expected = Stored().fit(table.drop_columns(["price"]), table["price"].to_numpy())
    model = Stored().fit(as_sources(table, folder)[kind], y="price", scratch=scratch)
    assert model.n_buckets_ == 1
    assert_equal_rows(model.rows_, expected.rows_)
    np.testing.assert_array_equal(model.fingerprint_.hashes, expected.fingerprint_.hashes)
    assert model.feature_names_in_.tolist() == ["area", "district", "count"]
    assert (model.n_features_in_, model.target_name_) == (3, "price")
    assert not list(scratch.iterdir())


def with_holes(table):
    """The table without some prices, as missing values and as NaN, and its rows that have one."""
    price = table["price"].to_numpy().copy()
    price[[0, 201, 202, 599]] = np.nan
    column = pa.chunked_array([pa.array(price[:300]), pa.array(price[300:], from_pandas=True)])
    return table.set_column(table.column_names.index("price"), "price", column), ~np.isnan(price)


@pytest.mark.parametrize("kind", ["path", "csv", "dataset", "reader", "frames"])
@pytest.mark.parametrize("size", ["small", "large"])
def test_rows_without_a_target_are_left_out(kind, size, table, folder, scratch, request):
    if size == "large":
        request.getfixturevalue("small_blocks")
    gaps, known = with_holes(table)
    for number in range(3):
        pq.write_table(gaps[200 * number : 200 * (number + 1)], folder / f"part-{number}.parquet")
    rest = table.filter(pa.array(known))
    expected = Stored().fit(rest.drop_columns(["price"]), rest["price"].to_numpy())
    with pytest.warns(MissingTargetWarning, match="^4 rows without a target were left out$") as caught:
        model = Stored().fit(as_sources(gaps, folder)[kind], "price", scratch=scratch)
    assert [warning.filename for warning in caught] == [__file__]
    assert_equal_rows(model.rows_, expected.rows_)
    if size == "small":
        in_order = np.roll(known, 200) if kind == "dataset" else known  # whose last file comes first
        np.testing.assert_array_equal(model.kept_, np.flatnonzero(in_order))


def test_a_source_without_any_target(table, folder, scratch):
    empty = table.set_column(table.column_names.index("price"), "price", pa.nulls(len(table), pa.float64()))
    with pytest.raises(ValueError, match="^the iterator has no row with a target$"):
        Stored().fit(iter(empty.to_batches()), "price", scratch=scratch)


def test_memory_maps(tmp_path, small_blocks):
    rng = np.random.default_rng(0)
    X = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=(N, 3))
    X[:] = rng.normal(size=X.shape)
    y, weight = rng.normal(size=N), rng.integers(0, 3, N)
    expected = Stored().fit(np.array(X), y, weight)
    model = Stored().fit(X, y, weight)
    assert model.n_buckets_ == 1
    assert_equal_rows(model.rows_, expected.rows_)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match=r"^y must be 600 numbers, one per row of X, got float64 of \(599,\)$"):
        Stored().fit(X, y[1:])
    with pytest.raises(ValueError, match="^y must be an array of one number per row, got None$"):
        Stored().fit(X, None)
    with pytest.raises(ValueError, match="^the target must be finite, got a missing value in row 600 of X$"):
        Stored().fit(X, np.append(y[1:], np.nan))
    predictions = model.predict_table(X)
    np.testing.assert_array_equal(predictions["mean"], model.predict_table(np.array(X))["mean"])


def test_a_real_model_from_files_has_the_bits_of_memory(table, folder):
    options = {"max_epochs": 2, "hidden": (8,), "memory": False, "random_state": 0, "n_jobs": 1}
    one = usnrt.USNRTRegressor(**options).fit(table.drop_columns(["price"]), table["price"].to_numpy())
    other = usnrt.USNRTRegressor(**options).fit(folder / "*.parquet", y="price")
    np.testing.assert_array_equal(one.predict(table.drop_columns(["price"])), other.predict_table(folder)["mean"])


def test_the_index_of_pandas_in_a_parquet_file_is_no_feature(table, tmp_path):
    frame = table.to_pandas().sample(frac=1, random_state=0)  # its index is not 0, 1, 2 ...: pandas stores it
    path = tmp_path / "shuffled.parquet"
    frame.to_parquet(path)
    assert "__index_level_0__" in pq.read_schema(path).names
    for source in (path, ds.dataset(path)):
        model = Stored().fit(source, y="price")
        assert model.feature_names_in_.tolist() == ["area", "district", "count"]
    assert whole_table(as_source(path)).column_names == table.column_names


def test_models_that_need_memory_say_so(folder, small_blocks):
    message = r"^HNNRegressor needs a table in memory, of at most 1,048,576 rows; fit USNRTRegressor, or a sample"
    with pytest.raises(ValueError, match=message):
        HNNRegressor().fit(folder, y="price")


def test_types_that_differ_between_files_become_one(tmp_path):
    first = pa.table({"a": [1, 2], "b": pa.nulls(2, pa.float64()), "c": [True, False], "price": [1, 2]})
    second = pa.table({"a": [0.5], "b": ["x"], "c": [3], "price": [0.5]})
    pq.write_table(first, tmp_path / "1.parquet")
    pq.write_table(second, tmp_path / "2.parquet")
    model = Stored().fit(tmp_path, y="price")
    assert model.encoder_.source_types_ == ["number", "text", "number"]
    assert sorted(model.rows_.raw[:, 0]) == [0.5, 1.0, 2.0]
    assert sorted(model.rows_.raw[:, 2]) == [0.0, 1.0, 3.0]
    pq.write_table(second.set_column(0, "a", pa.array(["half"])), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"^column 'a' must hold numbers as in .*1\.parquet, but it holds text in"):
        Stored().fit(tmp_path, y="price")


# --------------------------------------------------------------------------------------- predictions


def test_predictions_of_a_source_are_those_of_the_table(table, folder, small_blocks):
    model = Stored().fit(table.drop_columns(["price"]), table["price"].to_numpy())
    expected = model.predict_table(table.drop_columns(["price"]), coverage=0.5)
    blocks = list(model.predict_blocks(folder, coverage=0.5))
    assert [block.num_rows for block in blocks[:6]] == [37, 37, 37, 37, 37, 15]
    assert pa.concat_tables(blocks).equals(expected)
    assert model.predict_table(ds.dataset(folder, format="parquet"), coverage=0.5).equals(expected)
    assert next(model.predict_blocks(table.drop_columns(["price"]), 0.5)).equals(expected)


def test_predictions_of_files_that_do_not_match(table, folder):
    model = Stored().fit(table.drop_columns(["price"]), table["price"].to_numpy())
    pq.write_table(table.drop_columns(["area"]), folder / "bad.parquet")
    with pytest.raises(ValueError, match=r"bad\.parquet must have .* that the model was fitted on, but 'area'"):
        model.predict_table(folder / "bad.parquet")
    with pytest.raises(ValueError, match=r"^coverage must be in \(0, 1\), got 2$"):
        model.predict_blocks(folder, coverage=2)
    with pytest.raises(TypeError, match="^predict_table and predict_blocks take files, this takes a table in memory"):
        model.predict(str(folder / "bad.parquet"))


def test_files_for_models_without_names_have_as_many_columns(tmp_path):
    rows = np.random.default_rng(0).normal(size=(30, 2))
    model = Stored().fit(rows, rows[:, 0])
    np.savetxt(tmp_path / "new.csv", rows, delimiter=",", header="a,b", comments="")
    with pytest.warns(UserWarning, match="^X has feature names, but Stored was fitted without"):  # taken by position
        found = model.predict_table(tmp_path / "new.csv")["mean"]
    np.testing.assert_array_equal(found, model.predict_table(rows)["mean"])
    np.savetxt(tmp_path / "one.csv", rows[:, :1], header="a", comments="")
    with pytest.raises(ValueError, match=r"one\.csv must have 2 columns, because .* without names, got 1$"):
        model.predict_table(tmp_path / "one.csv")
    (tmp_path / "none.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match=r"none\.csv has no rows$"):
        model.predict_table(tmp_path / "none.csv")


def test_text_that_looks_like_numbers_stays_text_in_predictions(tmp_path):
    (tmp_path / "train.csv").write_text("zip,price\n" + "0123,1\nx9,2\n" * 5)
    (tmp_path / "new.csv").write_text("zip\n0123\n0123\n")
    model = Stored().fit(tmp_path / "train.csv", y="price")
    assert model.predict_table(tmp_path / "new.csv")["mean"].to_pylist() == [1.5, 1.5], "the first category"


# ------------------------------------------------------------------------------ the scratch folder


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("broken")])
def test_nothing_is_left_when_a_fit_fails(error, folder, scratch, small_blocks):
    model = Stored().fit(folder / "*.parquet", "price")
    before = dict(model.__dict__)
    model.fail = error
    with pytest.raises(type(error)):
        model.fit(folder / "part-0.parquet", y="price", scratch=scratch)
    model.fail = None
    assert model.__dict__ == before
    assert not list(scratch.iterdir())


def test_nothing_is_left_when_a_file_is_bad(table, folder, scratch, small_blocks):
    values = table["price"].to_numpy().copy()
    values[-1] = np.inf
    pq.write_table(table.set_column(3, "price", pa.array(values)), folder / "part-3.parquet")
    with pytest.raises(ValueError, match=r"^the target 'price' must be .* in row 600 of .*part-3\.parquet$"):
        Stored().fit(folder / "*.parquet", y="price", scratch=scratch)
    assert not list(scratch.iterdir())


def test_the_place_and_size_of_scratch_files_are_stated(folder, scratch, small_blocks, capsys):
    Stored(verbose=1).fit(folder / "*.parquet", y="price", scratch=scratch)
    lines = capsys.readouterr().err.splitlines()
    place = re.escape(str(scratch))
    assert re.fullmatch(rf"read 600 rows; they take up to 24 kB in {place}/usnrt-\w+ until the fit has ended", lines[0])
    assert re.fullmatch(rf"599 distinct rows, 24 kB in {place}/usnrt-\w+", lines[1])


@pytest.fixture
def mounted(tmp_path):
    """A function that mounts a file system in memory."""
    places = []

    def mount(options):
        place = tmp_path / f"mount-{len(places)}"
        place.mkdir()
        run = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, check=False
        )
        if run.returncode:
            pytest.skip("file systems cannot be mounted here")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(os.name != "posix", reason="tmpfs")
@pytest.mark.parametrize("known", [True, False])
def test_a_disk_of_10_mb(known, mounted, tmp_path, small_blocks, monkeypatch):
    scratch = mounted("size=10m")
    monkeypatch.setattr(streaming, "MIN_PASS_ROWS", 50_000)
    if not known:  # something else fills the disk meanwhile
        monkeypatch.setattr(streaming, "check_space", lambda folder, n_bytes: None)
    rng = np.random.default_rng(0)
    wide = pa.table({f"x{j}": rng.normal(size=100_000) for j in range(15)} | {"price": np.arange(100_000.0)})
    pq.write_table(wide, tmp_path / "wide.parquet")
    message = (
        rf"^the table needs 14 MB of scratch space, but the disk of {scratch} has \d+ MB free; scratch= names another"
        if known
        else rf"^the disk of the scratch folder {scratch} is full; scratch= names another folder$"
    )
    with pytest.raises(OSError, match=message):
        Stored().fit(tmp_path / "wide.parquet", y="price", scratch=scratch)
    assert not list(scratch.iterdir())
    with pytest.raises(OSError, match=rf"^the disk of the scratch folder {scratch} is full"):
        Stored().fit(wide.to_reader(max_chunksize=10_000), y="price", scratch=scratch)
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("place", ["missing", "read-only"])
def test_a_scratch_folder_that_cannot_be_written(place, mounted, folder, small_blocks):
    scratch = folder / "absent" if place == "missing" else mounted("ro")
    reason = "no such file or directory" if place == "missing" else "read-only file system"
    with pytest.raises(OSError, match=rf"^the scratch folder {scratch} cannot be written: {reason}$"):
        Stored().fit(folder / "*.parquet", y="price", scratch=scratch)


def test_a_scratch_file_that_was_cut_off_is_noticed(folder, scratch, small_blocks):
    class Vandal(Stored):
        def _fit_store(self, store, checkpoint):
            for file in scratch.glob("usnrt-*/rows-*"):
                Path(file).write_bytes(Path(file).read_bytes()[:-1])
            super()._fit_store(store, checkpoint)

    with pytest.raises(OSError, match=r"^the scratch file .*rows-0000 is truncated: it was changed"):
        Vandal().fit(folder / "*.parquet", y="price", scratch=scratch)
    assert not list(scratch.iterdir())
