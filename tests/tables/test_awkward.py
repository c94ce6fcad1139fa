"""Forty awkward files: each gives the table that was meant, the same in one block and in many, or one sentence."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import usnrt
from usnrt.cli._run import run
from usnrt.cli._tables import table_writer
from usnrt.tables import TableEncoder, streaming
from usnrt.tables.find_source import as_source, training_source, whole_table
from usnrt.tables.read_options import ReadOptions
from usnrt.tables.streaming import build_store
from usnrt.utils.notices import UnreadCellsWarning

spec = importlib.util.spec_from_file_location("awkward", Path(__file__).with_name("awkward.py"))
awkward = importlib.util.module_from_spec(spec)
spec.loader.exec_module(awkward)
FILES = awkward.files()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("awkward")
    awkward.write(place)
    return place


@pytest.mark.parametrize("name", [name for name, (_, given) in FILES.items() if not isinstance(given, str)])
@pytest.mark.parametrize("read_bytes", [None, 128])
def test_awkward_tables(name, read_bytes, folder, monkeypatch):
    if read_bytes:
        monkeypatch.setattr("usnrt.tables.text_files.READ_BYTES", read_bytes)
    given = FILES[name][1]
    ((column, values),) = (given if isinstance(given, dict) else {"a": given}).items()
    table = whole_table(as_source(folder / name, notify=lambda sentence: None))
    assert table.column_names == [column, "b"]
    assert table["b"].to_pylist() == [f"x{i % 3}" for i in range(len(values))]
    kind = table[column].type
    if isinstance(values[0], str):
        found = [None if value is None else str(value) for value in table[column].to_pylist()]
        assert found == values
        assert pa.types.is_timestamp(kind) == values[0].endswith(" 00:00:00")
    else:
        assert pa.types.is_floating(kind) or pa.types.is_integer(kind)
        np.testing.assert_allclose(table[column].to_numpy().astype(float), values)


@pytest.mark.parametrize("name", [name for name, (_, given) in FILES.items() if isinstance(given, str)])
def test_awkward_files_that_are_no_tables(name, folder):
    with pytest.raises(ValueError) as caught:
        whole_table(as_source(folder / name))
    assert name in str(caught.value)
    assert FILES[name][1] in str(caught.value)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------ what is said of it


def told(path, **options):
    sentences = []
    whole_table(as_source(path, notify=sentences.append, **options))
    return sentences


def test_odd_cells_are_said_once(folder, tmp_path):
    (tmp_path / "d.csv").write_text("a,b\nTBD,1\n2,-\n3,7\nunknown,8\n5,9\n")
    assert told(tmp_path / "d.csv") == [
        f"'TBD', 'unknown' in 'a' and '-' in 'b' of {tmp_path}/d.csv are missing values (--types a=text keeps them)"
    ]
    with pytest.warns(UnreadCellsWarning, match=r"^'TBD', 'unknown' in 'a' and '-' in 'b' of .* are missing values"):
        whole_table(as_source(tmp_path / "d.csv"))


def test_a_column_that_is_text_because_of_few_cells_is_said(tmp_path):
    cells = [*map(str, range(60)), "see note", "7 or 8", "see note"]
    (tmp_path / "d.csv").write_text(awkward.csv(cells))
    assert told(tmp_path / "d.csv") == [
        f"'a' of {tmp_path}/d.csv is text because of few cells such as 'see note'; --na 'see note' makes them missing"
    ]
    assert told(tmp_path / "d.csv", options=ReadOptions(na=("see note", "7 or 8"))) == []


def test_what_else_is_said(folder):
    assert told(folder / "title and gap.csv")[0].endswith("was read without its first 3 lines (--skip overrules this)")
    assert "and 'a' in CHF (--thousands, --types overrule this)" in told(folder / "francs.csv")[0]
    assert "'a' as durations, in seconds" in told(folder / "durations.csv")[0]


def test_words_of_the_user_and_lines_to_skip(tmp_path):
    (tmp_path / "d.csv").write_text("x\ny,z\na,b\n% no row\n-999,nobody\n7,u\n% no row\n")
    options = ReadOptions(na=("-999", "nobody"), skip=2, comment="%")
    assert whole_table(as_source(tmp_path / "d.csv", options)).to_pydict() == {"a": [None, 7], "b": [None, "u"]}
    pq.write_table(pa.table({"a": [-999.0, 7], "b": ["nobody", "u"], "c": [-999, 3]}), tmp_path / "d.parquet")
    table = whole_table(as_source(tmp_path / "d.parquet", ReadOptions(na=("-999", "nobody"))))
    assert table.to_pydict() == {"a": [None, 7], "b": [None, "u"], "c": [None, 3]}


# --------------------------------------------------------------------------------------------------- predictions


def houses(n=300):
    rng = np.random.default_rng(0)
    size = rng.uniform(20, 90, n).round(1)
    return pa.table({"size": size, "rooms": rng.integers(1, 6, n), "price": (3 * size + rng.normal(size=n)).round(2)})


@pytest.fixture(scope="module")
def model(folder):
    pa_csv.write_csv(houses(), folder / "houses.csv")
    model = usnrt.USNRTRegressor.fast(max_epochs=2, memory=False, random_state=0)
    return model.fit(folder / "houses.csv", y="price").save(folder / "m.usnrt") or model


BAD = "size,rooms\n50,3\nabout 60,3\n70,unknown\n80,4\n"


def test_a_bad_cell_in_predict_is_missing_without_support(model, tmp_path):
    (tmp_path / "new.csv").write_text(BAD)
    sentence = r"^row 2 of .*new\.csv has 'about 60' in 'size', which is no number: 2 such cells are missing values"
    with pytest.warns(UnreadCellsWarning, match=sentence):
        found = model.predict_table(tmp_path / "new.csv")
    assert found["supported"].to_pylist() == [True, False, False, True]
    means = model.predict(pa.table({"size": [50.0, None, 70, 80], "rooms": [3.0, 3, None, 4]}))
    np.testing.assert_array_equal(found["mean"].to_numpy(), means)


def test_bad_cells_on_the_command_line_in_one_block_and_in_many(model, folder, tmp_path, capfd, monkeypatch):
    (tmp_path / "new.csv").write_text(BAD)
    outputs = []
    for rows in (1000, 2):
        monkeypatch.setattr(streaming, "BLOCK_ROWS", rows)
        monkeypatch.setattr(streaming, "MIN_PASS_ROWS", rows)
        monkeypatch.setattr(streaming, "PASS_BYTES", 1)
        assert run(["predict", str(folder / "m.usnrt"), str(tmp_path / "new.csv"), "--keep", "size"]) == 0
        out, err = capfd.readouterr()
        assert f"usnrt: row 2 of {tmp_path}/new.csv has 'about 60' in 'size', which is no number: 2 such cells" in err
        outputs.append(out)
    assert outputs[0] == outputs[1]


def test_a_column_without_numbers_is_refused(model, tmp_path):
    (tmp_path / "new.csv").write_text("size,rooms\nlarge,3\nsmall,3\n")
    with pytest.raises(ValueError, match="^column 'size' must hold numbers as in fit, but it holds text"):
        model.predict_table(tmp_path / "new.csv")


# -------------------------------------------------------------------------------------------------- other formats


@pytest.mark.parametrize("ending", ["feather", "arrow", "jsonl", "ndjson", "jsonl.gz", "xlsx", "parquet", "tsv"])
def test_formats_in_and_out(ending, tmp_path):
    table = houses(30).append_column("day", pa.array(np.datetime64("2021-01-01", "us") + np.arange(30) * 86400_000_000))
    table = table.append_column("note", pa.array(["x", None, "ü"] * 10)).append_column("new", pa.array([True] * 30))
    path = tmp_path / f"d.{ending}"
    with table_writer(path) as write:
        write(table[:10])
        write(table[10:])
    assert whole_table(as_source(path)).to_pydict() == table.to_pydict()


def test_json_lines_may_lack_keys(tmp_path):
    (tmp_path / "d.jsonl").write_text('{"a": 1}\n{"b": "$5", "a": 2.5}\n\n{"a": null, "b": "7"}\n')
    assert whole_table(as_source(tmp_path / "d.jsonl")).to_pydict() == {"a": [1, 2.5, None], "b": [None, 5, 7]}
    (tmp_path / "d.jsonl").write_text('{"a": 1}\n[1]\n')
    with pytest.raises(ValueError, match=r"d\.jsonl cannot be read: line 2 must be a JSON object, got \[1\]$"):
        whole_table(as_source(tmp_path / "d.jsonl"))


def test_a_workbook_with_odd_cells_and_without_the_package(tmp_path, monkeypatch):
    book = openpyxl.Workbook()
    for row in (["a", "b", None], [1.5, "x", None], ["TBD", 7, None], [3, None, None], [None, None, None]):
        book.active.append(row)
    book.save(tmp_path / "d.xlsx")
    with pytest.warns(UnreadCellsWarning, match="^'TBD' in 'a' of"):
        table = whole_table(as_source(tmp_path / "d.xlsx"))
    assert table.to_pydict() == {"a": [1.5, None, 3], "b": ["x", "7", None]}
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        ImportError, match=r"^workbooks are read by openpyxl; install usnrt\[excel\], or save .* as CSV$"
    ):
        whole_table(as_source(tmp_path / "d.xlsx"))


# --------------------------------------------------------------------------------------------------------- dates


def test_months_have_no_weekday(tmp_path):
    months = np.arange("2010-01", "2015-01", dtype="datetime64[M]").astype("datetime64[us]")
    table = pa.table({"month": months, "price": np.arange(60.0)})
    encoder = TableEncoder().fit(table.select(["month"]))
    assert [column.part for column in encoder.columns_] == ["year", "month"]
    rows = training_source(as_source(iter(table.to_batches(max_chunksize=7))), "price")
    assert build_store(rows, tmp_path).encoder.columns_ == encoder.columns_


# ---------------------------------------------------------------------------------- a model and the file of its fit


def test_a_model_takes_the_file_of_its_fit_from_any_program(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["paid;pace;day;share;price"]
    for i in range(120):
        day = "unknown" if i % 40 == 7 else f"{1 + i % 28:02d}.{1 + i % 12:02d}.2021"
        paid = "TBD" if i % 50 == 3 else f"{1000 + 13 * i:,} €".replace(",", ".")
        lines.append(f"{paid};{4 + i % 3}:{i % 60:02d};{day};{i % 90},5 %;{rng.normal():.2f}".replace("nan", ""))
    (tmp_path / "d.csv").write_text("\n".join(lines))
    model = usnrt.USNRTRegressor.fast(max_epochs=2, memory=False, random_state=0)
    with pytest.warns(UnreadCellsWarning):
        model.fit(tmp_path / "d.csv", y="price")
    assert model.encoder_.source_types_ == ["number", "number", "date", "number"]
    # such cells are missing in the training rows too, but a new row that has one is not to be trusted
    with pytest.warns(UnreadCellsWarning, match=r"^row 4 of .* has 'TBD' in 'paid', which is no number: 3 such cells"):
        expected = model.predict_table(tmp_path / "d.csv")
    frame = pd.read_csv(tmp_path / "d.csv", sep=";", dtype=str, keep_default_na=False)
    np.testing.assert_array_equal(model.predict(frame.drop(columns="price")), expected["mean"].to_numpy())
