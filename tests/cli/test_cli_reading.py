"""One table in many formats: each is read as its owner meant it, by every command, and by a model in Python."""

import csv
import gzip
import io
import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from usnrt.cli._tables import in_memory, open_table
from usnrt.persistence import load
from usnrt.tables.csv_format import CsvFormat
from usnrt.tables.read_options import ModelColumns, ReadOptions

N = 120
FAST = ("--preset", "fast", "--set", "max_epochs=2", "--set", "memory=False")
RNG = np.random.default_rng(0)
SIZE = RNG.uniform(0, 3000, N).round(2)
COLUMNS = {
    "größe": np.where(np.arange(N) % 3 == 0, np.nan, SIZE),  # a third is missing
    "farbe": RNG.choice(['rot; "hell"', "grün, hell", "blau"], N),  # quotes, and both separators inside
    "verkauft": np.datetime64("2013-12-20") + RNG.integers(0, 800, N),
    "preis": (2 * SIZE + RNG.normal(size=N) * 50).round(1),
}


def number(value, decimal=".", thousands=""):
    if np.isnan(value):
        return ""
    return f"{value:,.2f}".replace(",", "_").replace(".", decimal).replace("_", thousands)


def text_of(sep=",", decimal=".", thousands="", dates="%Y-%m-%d", only=slice(None)):
    """The table as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=sep, lineterminator="\n")
    writer.writerow(COLUMNS)
    marks = (decimal, thousands)
    for a, b, c, d in list(zip(*COLUMNS.values()))[only]:
        writer.writerow([number(a, *marks), b, f"{c.astype(object):{dates}}", number(d, *marks)])
    return out.getvalue()


GERMAN = {"sep": ";", "decimal": ",", "thousands": ".", "dates": "%d.%m.%Y"}
# name of the file, its bytes, what is said of it
VARIANTS = {
    "plain": ("d.csv", text_of().encode(), ""),
    "german": (
        "d.csv", text_of(**GERMAN).encode("latin-1"),
        "separator ';', decimal mark ',', thousands mark '.', encoding latin-1 and dates 'verkauft' as day/month/year "
        "(--sep, --decimal, --thousands, --encoding, --dates overrule this)",
    ),
    "excel": ("d.csv", ("sep=;\n" + text_of(**GERMAN)).encode("utf-8-sig"), "separator ';', decimal mark"),
    "latin-1": ("d.csv", text_of().encode("latin-1"), "encoding latin-1 (--encoding overrules this)"),
    "utf-16": ("d.txt", text_of(sep="\t").encode("utf-16"), "separator tab and encoding utf-16 ("),
    "BOM": ("d.csv", text_of().encode("utf-8-sig"), ""),
    "CRLF": ("d.csv", text_of().replace("\n", "\r\n").encode(), ""),
    "tsv": ("d.tsv", text_of(sep="\t").encode(), ""),
    "pipes": ("d.csv", text_of(sep="|").encode(), "separator '|' (--sep overrules this)"),
    "thousands": ("d.csv", text_of(thousands=",").encode(), "thousands mark ',' (--thousands overrules this)"),
    "swiss": ("d.csv", text_of(thousands="'").encode(), 'thousands mark "\'" ('),
    "french": (
        "d.csv", text_of(sep=";", decimal=",", thousands="\u202f").encode(),
        "separator ';', decimal mark ',' and thousands mark ' ' (",
    ),
    "gz": ("d.csv.gz", gzip.compress(text_of().encode()), ""),
    "day first": ("d.csv", text_of(dates="%d/%m/%Y").encode(), "dates 'verkauft' as day/month/year (--dates overrules"),
    "month first": ("d.csv", text_of(dates="%m/%d/%Y").encode(), "dates 'verkauft' as month/day/year ("),
    "compact": ("d.csv", text_of(dates="%Y%m%dT%H%M%S").encode(), ""),
    "digits": ("d.csv", text_of(dates="%Y%m%d").encode(), ""),
    "month names": ("d.csv", text_of(dates="%d %B %Y").encode(), ""),
    "slashes": ("d.csv", text_of(dates="%Y/%m/%d").encode(), ""),
}  # fmt: skip


def write(folder, variant):
    name, data, _ = VARIANTS[variant]
    (folder / name).write_bytes(data)
    return folder / name


def read_file(path, notify, options=None, model=None):
    return in_memory(open_table(path, notify, options, model))


def assert_right(table):
    """The table holds what it was made of."""
    assert table.column_names == list(COLUMNS)
    np.testing.assert_array_equal(table["größe"].to_numpy(), COLUMNS["größe"])
    np.testing.assert_array_equal(table["preis"].to_numpy(), COLUMNS["preis"])
    assert table["farbe"].to_pylist() == COLUMNS["farbe"].tolist()
    np.testing.assert_array_equal(table["verkauft"].to_numpy().astype("datetime64[D]"), COLUMNS["verkauft"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_format_is_found_and_said_in_one_line(tmp_path, variant):
    path, said = write(tmp_path, variant), []
    assert_right(read_file(path, said.append))
    sentence = VARIANTS[variant][2]
    assert len(said) == (sentence != "")
    if sentence:
        assert said[0].startswith(f"{path} was read with {sentence}")


def test_parquet_with_dates_as_text(tmp_path):
    columns = {**COLUMNS, "verkauft": [f"{day:%d/%m/%Y}" for day in COLUMNS["verkauft"].astype(object)]}
    pq.write_table(pa.table(columns), tmp_path / "d.parquet")
    said = []
    assert_right(read_file(tmp_path / "d.parquet", said.append))
    assert len(said) == 1


def test_a_folder_of_files(tmp_path):
    for name, only in (("1.csv", slice(50)), ("2.csv", slice(50, None))):
        (tmp_path / name).write_bytes(text_of(**GERMAN, only=only).encode("latin-1"))
    said = []
    assert_right(read_file(tmp_path, said.append))
    assert said[0].startswith(f"{tmp_path} was read with separator ';', decimal mark ',', thousands mark '.', encoding")
    (tmp_path / "2.csv").write_text("a;b\n1;2\n3\n")
    with pytest.raises(ValueError, match=r"2.csv cannot be read: line 3 has 1 value"):
        read_file(tmp_path, said.append)


def reads(tmp_path, text, options=None, known=None, name="d.csv"):
    """A text as a table in Python, and what was said."""
    (tmp_path / name).write_text(text)
    said = []
    return read_file(tmp_path / name, said.append, options, known).to_pydict(), said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b\n1,234;x\n2,345;x\n", [1.234, 2.345]),  # semicolons are for decimal commas
        ("a;b\n1,234;0.5\n2,345;1.5\n", [1234, 2345]),  # another column has points
        ("a;b\n1,234;0,5\n2,345;1,5\n", [1.234, 2.345]),  # another column has commas
        ('a,b\n"1,234",x\n"2,345",x\n', [1234, 2345]),  # quoted in a file with commas
        ("a;b\n1,234;x\n950;x\n", [1234, 950]),  # small numbers have no mark: thousands
        ("a;b\n1,234;x\n1234;x\n", [1.234, 1234]),  # large ones have none either: decimals
        ("a;b\n1.234;x\n2.345;x\n", [1.234, 2.345]),
        ("a;b\n1.234;0,5\n2.345;1,5\n", [1234, 2345]),
        ("a;b\n1.234.567;x\n1;x\n", [1234567, 1]),
        ("a;b\n0,123;x\n0,456;x\n", [0.123, 0.456]),
        ("a;b\n+1,5;x\n-,5;x\n", [1.5, -0.5]),
        ('a,b\n" 60",x\n 7 ,x\n', [60, 7]),
        ("a,b\n 6.5,x\n7 ,x\n", [6.5, 7]),
        ("a;b\n 6,5;x\n7 ;x\n", [6.5, 7]),
        ("a;b\n1,5;x\n2.5;x\n", ["1,5", "2.5"]),  # mixed marks are no numbers
        ("a;b\n1,5;x\nrot;x\n", ["1,5", "rot"]),
        ("a;b\n12,34,56;x\n1;x\n", ["12,34,56", "1"]),
    ],
)
def test_ambiguous_marks(tmp_path, text, expected):
    assert reads(tmp_path, text)[0]["a"] == expected


def test_one_column_and_ragged_lines(tmp_path):
    assert reads(tmp_path, "a\n1,5\n2,5\n") == ({"a": [1.5, 2.5]}, [f"{tmp_path}/d.csv was read with decimal mark ',' "
                                                                   "(--decimal overrules this)"])  # fmt: skip
    assert reads(tmp_path, "a\n1\n2\n") == ({"a": [1, 2]}, [])
    sentence = r"line 4 has 3 values, but the first line has 2 column names \(separator ';'\)$"
    with pytest.raises(ValueError, match=sentence):
        reads(tmp_path, 'a;b\n"x\ny";1\n1;2;3\n')


def test_the_options_overrule_what_was_found(tmp_path):
    text = "a;b\n1,234;01/02/2015\n2,345;03/04/2015\n"
    found, said = reads(tmp_path, text)
    assert (found["a"], [f"{day:%d %m}" for day in found["b"]]) == ([1.234, 2.345], ["01 02", "03 04"])
    assert "dates 'b' as day/month/year" in said[0]  # as in countries with decimal commas
    found, said = reads(tmp_path, text, ReadOptions(sep=";", thousands=",", dates="mdy"))
    assert (found["a"], [f"{day:%d %m}" for day in found["b"]], said) == ([1234, 2345], ["02 01", "04 03"], [])
    found, _ = reads(tmp_path, text, ReadOptions(decimal=".", types={"b": "text"}))
    assert (found["a"], found["b"]) == ([1234, 2345], ["01/02/2015", "03/04/2015"])
    found, _ = reads(tmp_path, text, ReadOptions(sep="|"))
    assert list(found) == ["a;b"]
    found, _ = reads(tmp_path, "a,b\n20150102,7\n20150103,8\n", ReadOptions(types={"a": "date", "b": "text"}))
    assert [f"{day:%d %m %Y}" for day in found["a"]] == ["02 01 2015", "03 01 2015"]
    assert found["b"] == ["7", "8"]
    found, _ = reads(tmp_path, "a,b\n2015w03,7\n2015w04,8\n", ReadOptions(dates="%Yw%m"))
    assert [f"{day:%Y %m}" for day in found["a"]] == ["2015 03", "2015 04"]
    (tmp_path / "d.csv").write_bytes("a,b\nПривет,1\n".encode("cp1251"))
    assert read_file(tmp_path / "d.csv", print, ReadOptions(encoding="cp1251"))["a"].to_pylist() == ["Привет"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"types": {"a": "number"}}, "column 'a' must hold numbers (types), got 'x' in row 2 of "),
        ({"types": {"a": "date"}}, "column 'a' must hold dates of one format (types), got '1' in "),
        ({"types": {"z": "date"}}, "types must name columns of "),
        ({"encoding": "utf-16"}, " cannot be read"),
    ],
)
def test_options_that_do_not_fit_the_file(tmp_path, options, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        reads(tmp_path, "a,b\n1,2\nx,3\n", ReadOptions(**options))


def test_an_ambiguous_file_is_read_like_the_one_of_the_fit(tmp_path):
    known = ModelColumns(CsvFormat(";", ",", ".", "utf-8"), {"a": "number", "b": "text"})
    assert reads(tmp_path, "a;b\n1.234;7\n", known=known)[0] == {"a": [1234], "b": ["7"]}
    assert reads(tmp_path, "a;b\n1,234;7\n", known=known)[0] == {"a": [1.234], "b": ["7"]}
    assert reads(tmp_path, "a;b\n1.2345;7\n", known=known)[0] == {"a": [1.2345], "b": ["7"]}  # cannot be thousands
    assert reads(tmp_path, "a,b\n1.234,7\n", known=known)[0] == {"a": [1.234], "b": ["7"]}  # another kind of file


def test_integers_of_more_than_64_bits_stay_exact(tmp_path):
    found, said = reads(tmp_path, "a,b\n123456789012345678901,1\n123456789012345678902,2\n")
    assert found["a"] == ["123456789012345678901", "123456789012345678902"]
    assert said == ["'a' holds integers of more than 64 bits and was read as text (--types a=number overrules)"]
    assert reads(tmp_path, "a,b\n123456789012345678901,1\n", ReadOptions(types={"a": "number"}))[0]["a"] == [
        123456789012345678901.0
    ]


# ------------------------------------------------------------------------------------------ models and commands


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with the model of the German file."""
    from usnrt.cli._run import run

    folder = tmp_path_factory.mktemp("models")
    path = write(folder, "german")
    path.rename(folder / "german.csv")
    assert run(["fit", str(folder / "german.csv"), "-t", "preis", "-q", *FAST]) == 0
    return folder


def predictions(inside, folder, *arguments):
    run = inside("predict", "german.usnrt", *arguments, "-q", cwd=folder)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def test_the_model_remembers_how_its_file_was_read(models, inside):
    encoder = load(models / "german.usnrt").encoder_
    assert encoder.source_types_ == ["number", "text", "date"]
    assert encoder.reading_ == {"delimiter": ";", "decimal": ",", "thousands": ".", "encoding": "latin-1"}
    assert encoder.date_formats_ == {"verkauft": "%d.%m.%Y"}
    about = json.loads(inside("info", "german.usnrt", "--json", cwd=models).stdout)
    assert about["file format"]["decimal"] == ","


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_rows_have_the_same_predictions_in_every_format(models, tmp_path, variant, inside):
    expected = predictions(inside, models, "german.csv")
    assert predictions(inside, models, write(tmp_path, variant)) == expected


@pytest.mark.parametrize("variant", ["plain", "german", "utf-16", "BOM", "gz", "month first", "month names", "compact"])
def test_evaluate_and_report_in_every_format(models, tmp_path, variant, inside):
    path, expected = write(tmp_path, variant), inside("evaluate", "german.usnrt", "german.csv", "-q", cwd=models).stdout
    run = inside("evaluate", "german.usnrt", path, "-q", cwd=models)
    assert (run.returncode, run.stdout) == (0, expected)
    run = inside("report", "german.usnrt", path, "-o", tmp_path / "r.html", "--time", "verkauft", "-q", cwd=models)
    assert (run.returncode, run.stdout) == (0, f"wrote {tmp_path / 'r.html'}\n")
    page = (tmp_path / "r.html").read_text()
    assert "Uncertainty of predicting preis" in page
    assert "2013-12-2" in page  # when the first window starts


@pytest.mark.parametrize("variant", ["plain", "utf-16", "day first", "gz"])
def test_fit_in_every_format(models, tmp_path, variant, inside):
    """The same table gives the same model, whatever the format of its file."""
    path = write(tmp_path, variant)
    run = inside("fit", path, "-t", "preis", "-o", "m.usnrt", "-q", *FAST, cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    run = inside("predict", "m.usnrt", path, "-q", cwd=tmp_path)
    assert run.stdout == predictions(inside, models, "german.csv")


def test_a_model_of_one_column(tmp_path, inside):
    rows = "".join(f"{i % 9},5;{i}\n" for i in range(60))
    (tmp_path / "d.csv").write_text("x;y\n" + rows)
    assert inside("fit", "d.csv", "-t", "y", "-q", *FAST, cwd=tmp_path).returncode == 0
    (tmp_path / "one.csv").write_text("x\n0,5\n3,5\n")
    run, expected = (inside("predict", "d.usnrt", name, "-q", cwd=tmp_path) for name in ("one.csv", "d.csv"))
    lines = expected.stdout.splitlines()
    assert run.stdout.splitlines() == [lines[0], lines[1], lines[4]]


def test_models_of_the_command_line_take_files_read_by_pandas(models, inside):
    expected = np.genfromtxt(io.StringIO(predictions(inside, models, "german.csv")), delimiter=",", names=True)["mean"]
    model, options = load(models / "german.usnrt"), {"sep": ";", "encoding": "latin-1"}
    text = {"verkauft": str}  # or pandas would take the dots of the dates for thousands marks
    told = pd.read_csv(models / "german.csv", decimal=",", thousands=".", dtype=text, **options)
    untold = pd.read_csv(models / "german.csv", **options)  # its numbers are text
    dates = told.assign(verkauft=pd.to_datetime(told["verkauft"], format="%d.%m.%Y"))
    for frame in (told, untold, dates):
        assert model.predict(frame.drop(columns="preis")).tolist() == expected.tolist()


def test_models_of_python_take_files_read_by_the_command_line(models, tmp_path, inside):
    from usnrt import USNRTRegressor

    frame = pd.read_csv(write(tmp_path, "day first"))
    model = USNRTRegressor.fast(max_epochs=2, memory=False, random_state=0)
    model.fit(frame.drop(columns="preis"), frame["preis"]).save(tmp_path / "m.usnrt")
    run = inside("predict", "m.usnrt", "d.csv", "-q", cwd=tmp_path)
    means = [float(line.split(",")[0]) for line in run.stdout.splitlines()[1:]]
    assert means == model.predict(frame.drop(columns="preis")).tolist()
    assert run.stdout == predictions(inside, models, "german.csv")  # the same table gives the same model


def test_one_row_with_ambiguous_numbers_and_dates(models, tmp_path, inside):
    lines = [";".join(COLUMNS), "1.234;blau;01.02.2014;0", "1234;blau;01.02.2014;0", "1234;blau;2014-02-01;0"]
    means = []
    for line in lines[1:]:
        (tmp_path / "row.csv").write_bytes(f"{lines[0]}\n{line}\n".encode("latin-1"))
        means.append(predictions(inside, models, tmp_path / "row.csv"))
    assert means[0] == means[1] == means[2]


@pytest.mark.parametrize("variant", ["german", "utf-16", "gz", "parquet"])
def test_standard_input(models, tmp_path, variant, inside):
    if variant == "parquet":
        pq.write_table(pa.table(COLUMNS), tmp_path / "d.parquet")
        data = (tmp_path / "d.parquet").read_bytes()
    else:
        data = VARIANTS[variant][1]
    run = inside("predict", "german.usnrt", "-", "-q", cwd=models, stdin=data)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == predictions(inside, models, "german.csv")
    run = inside("evaluate", "german.usnrt", "-", "--json", "-q", cwd=models, stdin=data)
    assert json.loads(run.stdout)["rows"] == N


def test_every_command_in_a_pipe(models, tmp_path, usnrt):
    """From a file to a model to predictions, through standard input and output of real processes."""
    run = usnrt(
        *("fit", "-", "-t", "preis", "-o", "-", *FAST), cwd=models,
        stdin=None, input=VARIANTS["german"][1], text=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert b"standard input was read with separator ';', decimal mark ','" in run.stderr
    assert run.stdout == (models / "german.usnrt").read_bytes()
    run = usnrt("predict", "-", "german.csv", "-o", "-", cwd=models, stdin=None, input=run.stdout, text=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count(b"\n") == N + 1


def test_standard_output_and_other_inputs(models, inside):
    model = (models / "german.usnrt").read_bytes()
    run = inside("report", "german.usnrt", "german.csv", "-o", "-", "-q", cwd=models)
    assert (run.returncode, run.stderr) == (0, "wrote -\n")
    assert run.stdout.startswith("<!DOCTYPE html>")
    for arguments in (["info", "-", "--json"], ["explain", "-"], ["export", "-", "--text", "-"]):
        run = inside(*arguments, cwd=models, stdin=model)
        assert run.returncode == 0, run.stderr
        assert run.stdout == inside(*[a if a != "-" or i != 1 else "german.usnrt" for i, a in enumerate(arguments)],
                                    cwd=models).stdout.replace("german.usnrt", "standard input")  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "data", "sentence"),
    [
        (["predict", "-", "-"], b"", "only one input can be standard input (-)"),
        (["predict", "german.usnrt", "-"], b"", "standard input is empty"),
        (["fit", "-", "-t", "preis"], b"a,preis\n1,2\n", "the model of standard input needs a file to write: --output"),
        (
            ["fit", "-", "-t", "price", "-o", "m"], b"a,b\n1,2\n",
            "standard input has no column 'price'; its columns are a, b",
        ),
        (["info", "-"], b"x", "standard input is not a model file that can be loaded: it is not a zip archive"),
        (["export", "german.usnrt", "--text", "-", "--dot", "-"], b"", "only one output can be standard output (-)"),
        (["predict", "german.usnrt", "german.csv", "--sep", "ab"], b"", "--sep must be one character, got 'ab'"),
        (["evaluate", "german.usnrt", "german.csv", "--decimal", "x"], b"", "--decimal must be . or , got 'x'"),
        (
            ["report", "german.usnrt", "german.csv", "--thousands", "x"], b"",
            "--thousands must be one of , . ' _ space and none, got 'x'",
        ),
        (
            ["fit", "german.csv", "-t", "preis", "-f", "--dates", "iso"], b"",
            "--dates must be dmy, mdy, ymd or a format such as %d.%m.%Y, got 'iso'",
        ),
        (
            ["predict", "german.usnrt", "german.csv", "--encoding", "x"], b"",
            "--encoding must be one that Python knows, got 'x'",
        ),
        (
            ["predict", "german.usnrt", "german.csv", "--types", "a=b"], b"",
            "--types must be name=type with a type of number, text, date, category, got 'a=b'",
        ),
    ],
)  # fmt: skip
def test_sentences(models, arguments, data, sentence, inside):
    run = inside(*arguments, cwd=models, stdin=data)
    assert (run.stderr, run.stdout, run.returncode) == (f"usnrt: {sentence}\n", "", 1)


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "report"])
def test_every_command_that_reads_tables_has_the_options(command, inside, tmp_path):
    text = inside(command, "--help", cwd=tmp_path).stdout
    assert [o for o in ("sep", "decimal", "thousands", "encoding", "dates", "types") if f"--{o} " not in text] == []


def test_options_of_prediction(models, tmp_path, inside):
    """A file that cannot be understood without help is understood with it."""
    (tmp_path / "d.csv").write_text(text_of(sep="~", decimal=",", thousands=".", dates="%d:%m:%Y"))
    run = inside("predict", "german.usnrt", tmp_path / "d.csv", "-q", cwd=models)
    assert run.returncode == 1
    told = ["--sep", "~", "--decimal", ",", "--thousands", ".", "--encoding", "utf-8", "--dates", "%d:%m:%Y"]
    assert predictions(inside, models, tmp_path / "d.csv", *told) == predictions(inside, models, "german.csv")


def test_predictions_of_a_large_file(models, inside, monkeypatch):
    from usnrt.tables import streaming

    monkeypatch.setattr(streaming, "BLOCK_ROWS", 50)
    blocks = inside("predict", "german.usnrt", "german.csv", "-o", "-", "-q", "--decimal", ",", cwd=models)
    monkeypatch.undo()
    assert blocks.stdout == predictions(inside, models, "german.csv")
