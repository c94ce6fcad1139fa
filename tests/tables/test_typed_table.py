"""One reader: every source and every size understands the same formats, from Python as from the command line."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import usnrt
from usnrt.persistence import load
from usnrt.tables import streaming
from usnrt.tables.find_source import as_source, training_source, whole_table
from usnrt.tables.read_options import ReadOptions
from usnrt.tables.streaming import build_store

N = 120
FAST = {"max_epochs": 2, "memory": False, "random_state": 0}
RNG = np.random.default_rng(0)
SIZE = RNG.uniform(0, 3000, N).round(2)
COLUMNS = {
    "größe": SIZE,
    "farbe": RNG.choice(["rot", "grün", "blau"], N),
    "verkauft": np.datetime64("2013-12-20") + RNG.integers(0, 800, N),
    "preis": (2 * SIZE + RNG.normal(size=N) * 50).round(1),
}


def number(value):
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def german(only=slice(None), sep=";"):
    """Rows of the table as a German program writes them."""
    rows = [sep.join(COLUMNS)]
    for size, colour, day, price in list(zip(*COLUMNS.values()))[only]:
        rows.append(sep.join([number(size), colour, f"{day.astype(object):%d.%m.%Y}", number(price)]))
    return ("\n".join(rows) + "\n").encode("latin-1")


@pytest.fixture
def small_blocks(monkeypatch):
    """Tables of more than 50 rows are too large for memory."""
    monkeypatch.setattr(streaming, "BLOCK_ROWS", 50)
    monkeypatch.setattr(streaming, "PASS_BYTES", 1)
    monkeypatch.setattr(streaming, "MIN_PASS_ROWS", 37)


@pytest.fixture
def folder(tmp_path):
    """The table in one file and in a folder of three, each with a format of its own."""
    (tmp_path / "de.csv").write_bytes(german())
    (tmp_path / "many").mkdir()
    for n, (start, sep) in enumerate([(0, ";"), (40, "\t"), (80, "|")]):
        (tmp_path / "many" / f"{n}.csv").write_bytes(german(slice(start, start + 40), sep))
    return tmp_path


def features():
    return pa.table({name: values.tolist() if name == "farbe" else values for name, values in COLUMNS.items()})


def test_python_reads_a_german_file_as_the_command_line_does(folder, monkeypatch):
    from usnrt.cli._run import run

    monkeypatch.chdir(folder)
    options = ["--preset", "fast", "--set", "max_epochs=2", "--set", "memory=False", "-q"]
    assert run(["fit", "de.csv", "-t", "preis", *options]) == 0
    one = load(folder / "de.usnrt")
    other = usnrt.USNRTRegressor.fast(**FAST).fit("de.csv", y="preis")
    assert other.encoder_.reading_ == one.encoder_.reading_
    assert other.encoder_.date_formats_ == one.encoder_.date_formats_ == {"verkauft": "%d.%m.%Y"}
    assert other.encoder_.columns_ == one.encoder_.columns_
    expected = one.predict_table("de.csv")
    assert other.predict_table("de.csv").equals(expected)
    assert other.predict_table("many").equals(expected)
    assert other.predict(features().drop_columns(["preis"])).tolist() == expected["mean"].to_pylist()


@pytest.mark.parametrize("name", ["de.csv", "many", "many/*.csv"])
def test_one_file_and_many_hold_the_same_table(name, folder):
    table = whole_table(as_source(folder / name))
    for column, values in COLUMNS.items():
        found = table[column].to_numpy()
        np.testing.assert_array_equal(found.astype(values.dtype), values)


@pytest.mark.parametrize("name", ["de.csv", "many"])
def test_a_large_table_has_the_columns_of_memory(name, folder, small_blocks):
    source = as_source(folder / name)
    (folder / "store").mkdir()
    stored = build_store(training_source(source, "preis"), folder / "store")
    from usnrt.tables import TableEncoder

    expected = TableEncoder().fit(features().drop_columns(["preis"]))
    assert stored.encoder.columns_ == expected.columns_
    assert stored.encoder.source_types_ == ["number", "text", "date"]
    rows = stored.store.sample(N)
    assert sorted(rows.target) == sorted(COLUMNS["preis"])


def test_options_apply_to_large_files(folder, small_blocks, monkeypatch):
    from usnrt.cli._run import run

    (folder / "odd.csv").write_bytes(german(sep="~"))
    monkeypatch.chdir(folder)
    told = ["--sep", "~", "--decimal", ",", "--thousands", ".", "--encoding", "latin-1", "--dates", "dmy", "-q"]
    options = ["--preset", "fast", "--set", "max_epochs=2", "--set", "memory=False"]
    assert run(["fit", "odd.csv", "-t", "preis", *options, *told]) == 0
    assert run(["predict", "odd.usnrt", "odd.csv", "-o", "p.parquet", *told]) == 0
    model = load(folder / "odd.usnrt")
    assert model.encoder_.reading_["delimiter"] == "~"
    assert model.encoder_.source_types_ == ["number", "text", "date"]
    expected = model.predict_table(features().drop_columns(["preis"]))
    assert pq.read_table("p.parquet").equals(expected)


@pytest.mark.filterwarnings("ignore::usnrt.utils.notices.UnreadCellsWarning")  # of one cell among numbers
def test_types_of_a_large_file_are_those_of_memory(tmp_path, monkeypatch):
    """What decides is in one row only, the last; whatever the size of a block."""
    last = {
        "thousands": ["1,234", "1,234", "950"],
        "decimals": ["1,234", "1,234", "1,5"],
        "truth": ["1", "0", "true"],
        "text": ["1", "2", "x"],
        "day": ["01/02/2015", "03/04/2015", "31/04/2015"],
        "month": ["01/02/2015", "03/04/2015", "03/31/2015"],
        "times": ["2015-01-02", "2015-01-02", "2015-01-03 12:00"],
        "zone": ["2015-01-02T10:00+02:00", "2015-01-02T10:00Z", "2015-01-03T12:00+02:00"],
        "compact": ["20150102", "20150103", "20150144"],
        "large": ["1", "2", "123456789012345678901"],
        "empty": ["", "NA", ""],
    }
    lines = [";".join(last), *(";".join(row) for row in zip(*last.values()))]
    (tmp_path / "d.csv").write_text("\n".join([lines[0], *lines[1:3] * 20, lines[3]]))
    whole = whole_table(as_source(tmp_path / "d.csv"))
    monkeypatch.setattr("usnrt.tables.text_files.READ_BYTES", 512)
    source = as_source(tmp_path / "d.csv")
    blocks = list(source.pieces(7))
    assert len(blocks) > 3
    assert pa.concat_tables([table for table, _ in blocks]).equals(whole)
    kinds = {field.name: str(field.type) for field in whole.schema}
    assert kinds == {
        "thousands": "double", "decimals": "double", "truth": "bool", "text": "string", "day": "string",
        "month": "timestamp[us]", "times": "timestamp[us]", "zone": "timestamp[us]", "compact": "int64",
        "large": "string", "empty": "null",
    }  # fmt: skip
    assert str(whole["zone"][0]) == "2015-01-02 10:00:00", "wall time"
    assert whole["decimals"].to_pylist()[-1] == 1.5


@pytest.mark.filterwarnings("ignore::usnrt.utils.notices.IgnoredColumnWarning")
def test_the_target_of_an_iterator_may_be_text(tmp_path, small_blocks):
    (tmp_path / "de.csv").write_bytes(german())
    chunks = pd.read_csv(tmp_path / "de.csv", sep=";", encoding="latin-1", dtype=str, chunksize=30)
    (tmp_path / "store").mkdir()
    stored = build_store(training_source(as_source(iter(chunks)), "preis"), tmp_path / "store")
    assert sorted(stored.store.sample(N).target) == sorted(COLUMNS["preis"])
    assert stored.encoder.source_types_ == ["empty", "text", "date"], "features are as in a data frame"


def test_options_of_python(tmp_path):
    (tmp_path / "d.csv").write_text("a;b\n1,234;01/02/2015\n2,345;03/04/2015\n")
    table = whole_table(as_source(tmp_path / "d.csv", ReadOptions(thousands=",", dates="mdy", types={"b": "date"})))
    assert table["a"].to_pylist() == [1234, 2345]
    assert [f"{day:%d %m}" for day in table["b"].to_pylist()] == ["02 01", "04 03"]
    with pytest.raises(ValueError, match=r"^sep must be one character, got ';;'$"):
        ReadOptions(sep=";;")
