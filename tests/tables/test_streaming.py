"""Tables outside memory: every source gives the same store, byte for byte, and failures one sentence."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from usnrt.tables import TableEncoder, survey
from usnrt.tables.find_source import as_source, training_source
from usnrt.tables.rows import counted_weight, fingerprint, merged_rows
from usnrt.tables.store import MemoryStore
from usnrt.tables.streaming import build_store
from usnrt.tables.training import DistinctRows
from usnrt.utils.notices import IgnoredColumnWarning

N = 900


def houses(n=N, seed=0):
    """A table with every kind of column, and with copies of rows."""
    rng = np.random.default_rng(seed)
    day = np.datetime64("2023-01-01") + rng.integers(0, 700, n)
    area = rng.uniform(20, 200, n).round(1)
    columns = {
        "area": [None if i % 50 == 0 else value for i, value in enumerate(area.tolist())],
        "rooms": rng.integers(1, 7, n),
        "district": [None if i % 70 == 3 else label for i, label in enumerate(rng.choice(["n", "s", "old"], n))],
        "garden": rng.random(n) < 0.3,
        "sold": day.astype("datetime64[us]"),
        "nothing": pa.nulls(n, pa.float64()),
        "count": rng.integers(1, 4, n),
        "price": rng.normal(size=n).round(2),
    }
    table = pa.table(columns)
    return pa.concat_tables([table, table[: n // 5]])


def stored(X, tmp_path, y="price", sample_weight=None, block_rows=100, **options):
    """The store that a source gives, with 64 rows per bucket at most."""
    folder = tmp_path / f"store-{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    rows = training_source(as_source(X), y, sample_weight)
    return build_store(rows, folder, block_rows=block_rows, bucket_rows=64, **options)


def content(table):
    """Everything that a store holds, as bytes."""
    store = table.store
    buckets = [store.read(bucket) for bucket in range(store.n_buckets)]
    arrays = [array for rows in buckets for array in (rows.raw, rows.target, rows.weight, rows.position)]
    hashes = [store.hashes(bucket).tobytes() for bucket in range(store.n_buckets)]
    facts = (store.n_rows, store.n_features, store.weight_sum, store.starts.tolist(), store.fingerprint.repeated)
    return table.encoder.columns_, table.encoder.source_types_, facts, hashes, [a.tobytes("A") for a in arrays]


def write_parts(table, folder, cuts, write=pq.write_table, ending="parquet"):
    folder.mkdir(parents=True)
    bounds = [0, *cuts, table.num_rows]
    for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
        write(table[start:stop], folder / f"part-{number}.{ending}")
    return folder


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("expected")
    table = houses()
    pq.write_table(table, folder / "one.parquet")
    return content(stored(folder / "one.parquet", folder))


def sources(table, tmp_path):
    """The same rows from every kind of source, in other orders, files and blocks."""
    shuffled = table.take(np.random.default_rng(1).permutation(table.num_rows))
    backwards = shuffled.select(table.column_names[::-1])
    many = write_parts(table, tmp_path / "many", [7, 7, 400])
    pq.write_table(shuffled, tmp_path / "s.parquet", row_group_size=33)
    csv = write_parts(shuffled, tmp_path / "csv", [1, 500], pa_csv.write_csv, "csv")
    with pa.CompressedOutputStream(str(tmp_path / "z.csv.gz"), "gzip") as stream:
        pa_csv.write_csv(table, stream)
    return {
        "folder": many,
        "pattern": str(tmp_path / "many" / "*.parquet"),
        "shuffled": tmp_path / "s.parquet",
        "csv": csv,
        "compressed": str(tmp_path / "z.csv.gz"),
        "dataset": ds.dataset(many),
        "in-memory dataset": ds.dataset(shuffled),
        "reader": shuffled.to_reader(max_chunksize=101),
        "batches": iter(shuffled.to_batches(max_chunksize=50)),
        "pandas": (part.to_pandas() for part in (shuffled[:300], shuffled[300:])),
        "polars": (pl.from_arrow(part) for part in (shuffled[300:], shuffled[:300])),
        "other order of columns": iter([shuffled[:10], backwards[10:]]),
    }


KINDS = [
    *("folder", "pattern", "shuffled", "csv", "compressed", "dataset", "in-memory dataset"),
    *("reader", "batches", "pandas", "polars", "other order of columns"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block_rows", [41, 5000])
def test_every_source_gives_the_same_store_byte_for_byte(kind, block_rows, tmp_path, expected):
    table = stored(sources(houses(), tmp_path)[kind], tmp_path, block_rows=block_rows)
    assert content(table) == expected


@pytest.mark.parametrize("weight", [None, "count", "share"])
def test_the_store_is_that_of_the_table_in_memory(weight, tmp_path):
    table = houses()
    if weight == "share":
        table = table.append_column("share", pa.array(np.random.default_rng(3).random(table.num_rows)))
    pq.write_table(table, tmp_path / "a.parquet")
    features = table.drop_columns(["price"] if weight is None else ["price", weight])
    y = table["price"].to_numpy()
    weights = np.ones(len(y)) if weight is None else counted_weight(table[weight].to_numpy().astype(float))
    encoder = TableEncoder().fit(features)
    raw = encoder.transform(features)
    rows, merged = merged_rows(raw, y, weights)
    store = MemoryStore(DistinctRows(raw[rows], y[rows], merged, rows), bucket_rows=64)
    found = stored(tmp_path / "a.parquet", tmp_path, sample_weight=weight)
    assert found.encoder.columns_ == encoder.columns_
    assert found.encoder.source_types_ == encoder.source_types_
    assert found.store.starts.tolist() == store.starts.tolist()
    assert store.n_buckets == 16
    for bucket in range(store.n_buckets):
        one, other = found.store.read(bucket), store.read(bucket)
        np.testing.assert_array_equal(one.raw, other.raw)
        np.testing.assert_array_equal(one.target, other.target)
        np.testing.assert_allclose(one.weight, other.weight, rtol=1e-14)  # the mean of fractions is rounded otherwise
        np.testing.assert_array_equal(found.store.hashes(bucket), store.hashes(bucket))
    np.testing.assert_allclose(found.store.weight_sum, store.weight_sum)
    sketch = fingerprint(raw[rows], y[rows], merged)
    np.testing.assert_array_equal(found.store.fingerprint.hashes, sketch.hashes)
    assert found.store.fingerprint.repeated == sketch.repeated
    np.testing.assert_array_equal(found.store.sample(70).raw, store.sample(70).raw)


@pytest.mark.parametrize("weight", ["count", "share"])
def test_weights_do_not_depend_on_blocks_and_order(weight, tmp_path):
    table = houses()
    table = table.append_column("share", pa.array(np.random.default_rng(3).random(table.num_rows)))
    order = np.random.default_rng(5).permutation(table.num_rows)
    one = stored(iter([table]), tmp_path, sample_weight=weight, block_rows=5000)
    other = stored(iter(table.take(order).to_batches(max_chunksize=13)), tmp_path, sample_weight=weight)
    assert content(one) == content(other)


def test_a_memory_map_is_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("usnrt.tables.streaming.BLOCK_ROWS", 500)
    rng = np.random.default_rng(0)
    X = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=(1000, 3))
    y = np.memmap(tmp_path / "y", dtype=np.float64, mode="w+", shape=1000)
    X[:], y[:] = rng.normal(size=(1000, 3)), rng.normal(size=1000)
    X[:, 1] = rng.integers(0, 3, 1000)
    one = content(stored(X, tmp_path, y, categorical_features=[1]))
    other = content(stored(X, tmp_path, y, block_rows=999, categorical_features=[1]))
    table = pa.table({f"x{j}": np.array(X[:, j]) for j in range(3)} | {"price": np.array(y)})
    assert one == other == content(stored(iter([table]), tmp_path, categorical_features=["x1"]))
    assert as_source(X[:400]) is None, "a small map is a table in memory"


def test_copies_in_different_files_are_one_row_of_total_weight(tmp_path):
    table = houses()
    once = content(stored(iter([table]), tmp_path))
    thrice = stored(itertools.repeat(table, 3), tmp_path)
    assert thrice.store.weight_sum == 3 * table.num_rows
    assert content(thrice)[3] == once[3]
    assert thrice.store.n_buckets == len(once[3]), "the number of buckets follows from the distinct rows"


# ---------------------------------------------------------------------------------------- columns


def test_types_are_decided_by_all_blocks(tmp_path):
    late = pa.table({"a": [1, 2], "b": pa.nulls(2), "c": [None, None], "d": [1, 2], "price": [1.0, 2.0]})
    last = pa.table({"a": [0.5], "b": ["new"], "c": [np.datetime64("2024-02-01", "us")], "d": [True], "price": [3.0]})
    encoder = stored(iter([late, last]), tmp_path, block_rows=1).encoder
    assert encoder.source_types_ == ["number", "text", "date", "number"]
    assert encoder.columns_[1].categories == ("new",)
    assert not encoder.columns_[3].boolean, "whole numbers in the first file, truth values in the second"
    assert [column.has_missing for column in encoder.columns_] == [False, True, True, False]


def test_csv_types_are_decided_by_all_files(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("a;b;c;price\n1;007;;1\n2;008;;2\n")
    (tmp_path / "in" / "2.csv").write_text("price;c;b;a\n3;2024-01-05;x9;2.5\n")
    encoder = stored(tmp_path / "in", tmp_path).encoder
    assert encoder.source_types_ == ["number", "text", "date"]
    assert encoder.columns_[1].categories == ("007", "008", "x9"), "text keeps its zeros"


def test_the_most_frequent_categories_are_kept_the_rest_is_one(tmp_path, monkeypatch):
    monkeypatch.setattr(survey, "MAX_CATEGORIES", 3)
    labels = ["d"] * 4 + ["b"] * 3 + ["a", "(other)"] * 2 + ["c"]
    codes = [float(ord(label[0])) for label in labels]
    table = pa.table({"label": labels, "code": codes, "price": np.arange(len(labels))})
    found = stored(iter(table.to_batches(max_chunksize=2)), tmp_path, categorical_features=["code"])
    label, code = found.encoder.columns_
    assert label.categories == ("b", "d", "(other)")
    assert (code.categories, code.codes) == (("98", "100", "(other)"), (98.0, 100.0))
    assert label.rest
    assert code.rest
    new = pa.table({"label": ["d", "unseen", None, "a", "b"], "code": [100.0, 5.0, None, 97.0, 98.0]})
    np.testing.assert_array_equal(found.encoder.transform(new), np.array([[1.0, 2, np.nan, 2, 0]] * 2).T)


def test_too_many_labels_are_ignored_or_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(survey, "MAX_LABELS", 10)
    table = pa.table({"id": [f"h{i}" for i in range(11)], "code": [*range(11)], "price": np.arange(11.0)})
    with pytest.warns(
        IgnoredColumnWarning, match="^column 'id' is ignored: it has more than 10 different texts$"
    ) as caught:
        found = stored(iter(table.to_batches(max_chunksize=4)), tmp_path)
    assert caught[0].filename == __file__
    assert found.encoder.source_types_ == ["empty", "number"]
    for column in ("id", "code"):
        with pytest.raises(ValueError, match=f"^column '{column}' has more than 10 different values, too many for"):
            stored(iter(table.to_batches(max_chunksize=4)), tmp_path, categorical_features=[column])


@pytest.mark.filterwarnings("ignore::usnrt.utils.notices.IgnoredColumnWarning")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_merged_surveys_know_what_either_knows(order, monkeypatch):
    monkeypatch.setattr(survey, "MAX_LABELS", 10)
    few = {"id": ["h0"], "kept": pa.array(["01.02.2019"])}
    many = {"id": [f"h{i}" for i in range(11)], "kept": pa.array(["02.02.2019"] * 11).dictionary_encode()}
    surveys = [survey.TableSurvey(["id", "kept"]) for _ in order]
    for own, columns in zip(surveys, (few, many)):
        own.add(pa.table(columns), "X")
    first, second = (surveys[number] for number in order)
    first.merge(second)
    first.understand()
    assert first.types() == ["empty", "text"]


@pytest.mark.filterwarnings("ignore::usnrt.utils.notices.IgnoredColumnWarning")
def test_text_is_understood_as_in_memory(tmp_path):
    """Dates written as text become dates, ids are ignored; but not in columns of a categorical type."""
    rng = np.random.default_rng(0)
    days = [f"{day:02d}.{month:02d}.2019" for day, month in rng.integers(1, [29, 13], (200, 2))]
    columns = {"sold": days, "id": [f"h{i}" for i in range(200)], "almost": ["h0", *(f"h{i}" for i in range(199))]}
    table = pa.table(columns | {"kept": pa.array(days).dictionary_encode(), "price": rng.normal(size=200)})
    encoder = TableEncoder().fit(table.drop_columns(["price"]))
    found = stored(iter(table.to_batches(max_chunksize=30)), tmp_path)
    assert found.encoder.source_types_ == encoder.source_types_ == ["date", "empty", "text", "text"]
    assert found.encoder.date_formats_ == encoder.date_formats_ == {"sold": "%d.%m.%Y"}
    assert found.encoder.columns_ == encoder.columns_
    raw, y = encoder.transform(table.drop_columns(["price"])), table["price"].to_numpy()
    rows, _ = merged_rows(raw, y, np.ones(200))
    np.testing.assert_array_equal(found.store.sample(200).raw, raw[rows])


@pytest.mark.parametrize("values", [[16777217.0, 1.0], [0.1, 2.0], [1e300, 1.0]])
def test_numbers_that_float32_cannot_hold_are_kept(values, tmp_path):
    tables = [pa.table({"a": [2.0], "price": [5.0]}), pa.table({"a": values, "price": [1.0, 2.0]})]
    rows = stored(iter(tables), tmp_path).store.read(0)
    assert sorted(rows.raw[:, 0]) == sorted([2.0, *values])


def test_minus_zero_and_zero_are_one_row(tmp_path):
    plus = pa.table({"a": [0.0, np.nan], "price": [0.0, 1.0]})
    minus = pa.table({"a": [-0.0, -np.nan], "price": [-0.0, 1.0]})
    assert content(stored(iter([plus, minus]), tmp_path)) == content(stored(iter([minus, plus]), tmp_path))


# ----------------------------------------------------------------------------------------- failures


def failing(tmp_path, change, ending="parquet"):
    """Three files of which the last one was changed."""
    table = houses(60)
    write = pq.write_table if ending == "parquet" else pa_csv.write_csv
    folder = write_parts(table, tmp_path / "in", [20, 40], write, ending)
    last = folder / f"part-2.{ending}"
    changed = change(table[40:], last)
    if isinstance(changed, pa.Table):
        write(changed, last)
    return folder


def set_column(table, name, values):
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def with_infinity(table, _):
    values = table["price"].to_numpy().copy()
    values[-1] = np.inf
    return set_column(table, "price", values)


def cut_off(_, file):
    file.write_bytes(file.read_bytes()[:-20])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (cut_off, r"part-2\.parquet cannot be read: Parquet magic bytes not found"),
        (lambda table, file: file.write_bytes(b""), r"part-2\.parquet is empty$"),
        (
            lambda table, file: table.drop_columns(["rooms"]),
            r"part-2\.parquet must .*part-0\.parquet, but 'rooms' is",
        ),
        (lambda table, file: table.append_column("new", table["rooms"]), r"part-0\.parquet, but it also has 'new'$"),
        (
            lambda table, file: set_column(table, "rooms", ["two"] * 32),
            r"^column 'rooms' must hold numbers as in .*part-0\.parquet, but it holds text in .*part-2\.parquet$",
        ),
        (with_infinity, r"^the target 'price' must be finite, got inf in row 32 of .*part-2\.parquet$"),
        (
            lambda table, file: set_column(table, "price", ["12"] * 31 + ["cheap"]),
            r"^the target 'price' must hold numbers, got 'cheap' in row 32 of .*part-2\.parquet$",
        ),
        (
            lambda table, file: set_column(table, "area", [1.0] * 31 + [np.inf]),
            r"^X must be finite, but column 'area' holds infinity in .*part-2\.parquet$",
        ),
        (
            lambda table, file: set_column(table, "area", [[1.0]] * 32),
            r"^X must hold numbers, text, booleans or dates, but column 'area' is List.* in .*part-2\.parquet$",
        ),
    ],
)
def test_a_bad_file_is_named_in_one_sentence(change, message, tmp_path):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        stored(failing(tmp_path, change), tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_infinity, r"^the target 'price' must be finite, got inf in row 32 of .*part-2\.csv$"),
        (lambda table, file: file.write_bytes(b""), r"part-2\.csv is empty$"),
        (lambda table, file: table.drop_columns(["rooms"]), r"part-2\.csv must .*part-0\.csv, but 'rooms' is missing$"),
        (
            lambda table, file: file.write_text("a,a\n1,2\n"),
            r"part-2\.csv must have unique .*, got 'a' twice$",
        ),
    ],
)
def test_a_bad_csv_file_is_named_in_one_sentence(change, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        stored(failing(tmp_path, change, "csv"), tmp_path)


def test_files_without_rows_are_left_out(tmp_path, expected):
    table = houses()
    folder = write_parts(table, tmp_path / "in", [0, 500])
    assert content(stored(folder, tmp_path)) == expected
    pq.write_table(table[:0], tmp_path / "none.parquet")
    with pytest.raises(ValueError, match=r"none\.parquet has no rows$"):
        stored(tmp_path / "none.parquet", tmp_path)


def test_paths_that_stand_for_no_table(tmp_path):
    (tmp_path / "year=2024").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("...")
    with pytest.raises(FileNotFoundError, match=r"^no file matches '.*/\*\.parquet'$"):
        as_source(tmp_path / "*.parquet")
    with pytest.raises(FileNotFoundError, match=r"a\.parquet does not exist$"):
        as_source(str(tmp_path / "a.parquet"))
    with pytest.raises(FileNotFoundError, match=r"notes has no \.parquet, \.csv or \.tsv file$"):
        as_source(tmp_path / "notes")
    with pytest.raises(ValueError, match=r"a\.md must be a \.csv, .* file .*, got the ending '\.md'$"):
        as_source(tmp_path / "notes" / "a.md")
    pq.write_table(houses(5), tmp_path / "year=2024" / "a.parquet")
    with pytest.raises(ValueError, match=r"is partitioned \(year=2024\); give pyarrow\.dataset\.dataset"):
        as_source(tmp_path)
    (tmp_path / "year=2024").rename(tmp_path / "2024")
    (tmp_path / "b.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match=r"must stand for files of one format, got csv and parquet$"):
        as_source(tmp_path)


def test_a_partitioned_dataset_has_its_column(tmp_path):
    table = houses().append_column("year", pa.array(["a", "b"] * 540))
    ds.write_dataset(table, tmp_path / "in", format="parquet", partitioning=["year"], partitioning_flavor="hive")
    dataset = ds.dataset(tmp_path / "in", partitioning="hive")
    assert stored(dataset, tmp_path).encoder.columns_[-1].categories == ("a", "b")
    filtered = dataset.filter(ds.field("year") == "b")
    assert stored(filtered, tmp_path).encoder.columns_[-1].categories == ("b",)


@pytest.mark.parametrize(
    ("y", "weight", "message"),
    [
        ("prize", None, r"a\.parquet has no column 'prize'; did you mean 'price'\?$"),
        ("price", "counts", r"a\.parquet has no column 'counts'; did you mean 'count'\?$"),
        ("price", "price", "^y and sample_weight must be different columns, got 'price' for both$"),
        (np.zeros(3), None, r"^y must be the name of a column of .*a\.parquet, got ndarray$"),
        ("price", "rooms", r"^weights must be at least 0, got -1 in row 2 of .*a\.parquet$"),
        ("price", "garden", "^sample_weight must be positive for at least one row, got only zeros$"),
    ],
)
def test_targets_and_weights_are_columns(y, weight, message, tmp_path):
    table = set_column(houses(5), "rooms", [1, -1, 2, 3, 4, 5])
    pq.write_table(set_column(table, "garden", [False] * 6), tmp_path / "a.parquet")
    with pytest.raises((ValueError, TypeError), match=message):
        stored(tmp_path / "a.parquet", tmp_path, y, weight)


def test_an_iterator_must_yield_tables(tmp_path):
    with pytest.raises(
        TypeError, match="^table 2 of the iterator must be a record batch, a table or a data frame, got int$"
    ):
        stored(iter([houses(5), 3]), tmp_path)
    frame = pd.DataFrame({"a": [1, "x"], "price": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"^table 1 of the iterator cannot be read: .*column a"):
        stored(iter([frame]), tmp_path)
