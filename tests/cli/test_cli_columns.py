"""Columns that are left out, kept, renamed, too large, or no target."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from usnrt.cli._data import training_data
from usnrt.cli._left_out import reason_to_leave_out
from usnrt.cli._output import UserError
from usnrt.cli._tables import open_table
from usnrt.persistence import load

N = 60
FAST = ("--preset", "fast", "--set", "max_epochs=1", "--set", "memory=False")
ROWS = np.arange(N)
WORDS = ["the", "a", "house", "with", "garden", "near", "sea", "and", "sun", "old", "new", "big"]


def people(n=N, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "customer_id": rng.permutation(10**6)[:n],
            "row": np.arange(n),
            "name": [f"person {i}" for i in range(n)],
            "comment": [" ".join(rng.choice(WORDS, 6)) for _ in range(n)],
            "city": rng.choice(["Bonn", "Rome"], n),
            "size": rng.integers(0, 100, n),
            "price": rng.normal(size=n).round(3),
        }
    )


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("id", ROWS * 7, "a different number in every row"),
        ("customerId", ROWS * 7, "a different number in every row"),
        ("", ROWS * 7, "a different number in every row"),  # the index that pandas writes
        ("Unnamed: 0", ROWS, "a different number in every row"),
        ("t", ROWS[::-1] + 17, "a different number in every row"),  # in sequence, in any order
        ("house_id", [*ROWS[:-1], 3], "a different number in nearly every row"),
        ("name", [f"n{i}" for i in ROWS], "a different text in every row"),
        ("name", [f"n{i}" for i in ROWS[:-1]] + ["n0"], "a different text in nearly every row"),
        ("comment", [f"it is number {i // 2} here" for i in ROWS], "free text"),
        ("year", ROWS + 1950, ""),
        ("width", ROWS * 7, ""),  # integers that happen to differ
        ("paid", ROWS * 7, ""),
        ("grid", ROWS * 7, ""),
        ("idea", ROWS * 7, ""),
        ("group_id", ROWS % 20, ""),
        ("city", ["Bonn", "Rome"] * (N // 2), ""),
        ("code", [f"c{i // 2}" for i in ROWS], ""),
        ("id", ROWS[:10], ""),  # too few to tell
        ("id", ROWS / 7, ""),
        ("order_no", ROWS * 7, "a different number in every row"),
        ("invoice number", ROWS * 7, "a different number in every row"),
        ("zip code", ROWS * 7, ""),
        ("t", np.delete(np.arange(N + 7), [3, 5, 17, 30, 31, 40, 44]), "a different number in every row"),  # gaps
        ("t", [*ROWS[:-1], None], "a different number in nearly every row"),
        ("customer_id", ROWS // 2, ""),  # a customer has several rows: --group-column
    ],
)
def test_which_columns_are_left_out(name, values, reason):
    assert reason_to_leave_out(name, pa.chunked_array([pa.array(values)])) == reason


def test_left_out_with_one_notice_and_kept_on_demand(tmp_path, inside):
    pa_csv.write_csv(people(), tmp_path / "d.csv")
    run = inside("fit", "d.csv", "-t", "price", *FAST, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    notices = [line for line in run.stderr.splitlines() if "left out" in line]
    assert notices == [
        "usnrt: left out: 'customer_id' (a different number in every row), 'row' (a different number in every row), "
        "'name' (a different text in every row), 'comment' (free text); --keep brings a column back"
    ]
    assert load(tmp_path / "d.usnrt").encoder_.source_names_ == ["city", "size"]
    kept = [
        "--keep",
        "name",
        "--keep",
        "customer_id",
        "--types",
        "comment=text",
        "--categorical",
        "row",
        "--json",
        "-q",
    ]
    run = inside("fit", "d.csv", "-t", "price", *FAST, *kept, "-f", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout)["left out"] == {}
    encoder = load(tmp_path / "d.usnrt").encoder_
    assert encoder.source_types_ == ["number", "number", "text", "text", "text", "number"]
    assert encoder.columns_[encoder.source_names_.index("name")].n_categories == N
    assert encoder.columns_[encoder.source_names_.index("row")].n_categories == N
    assert inside("predict", "d.usnrt", "d.csv", "-q", cwd=tmp_path).returncode == 0


def test_a_table_of_ids_only_and_contradictions(tmp_path):
    pa_csv.write_csv(people().select(["row", "name", "price"]), tmp_path / "d.csv")
    with pytest.raises(UserError, match=r"has only columns to leave out: 'row' .*; --keep brings a column back$"):
        training_data(open_table(tmp_path / "d.csv", print), "price", [], print)
    with pytest.raises(UserError, match="^--drop and --keep must name different columns, got 'row' in both$"):
        training_data(open_table(tmp_path / "d.csv", print), "price", ["row"], print, ["row"])
    with pytest.raises(ValueError, match="has no column 'rows'; did you mean 'row'"):
        training_data(open_table(tmp_path / "d.csv", print), "price", [], print, ["rows"])


def test_types_of_columns(tmp_path, inside):
    text = "code,when,level,price\n" + "".join(f"{i % 3},{20150101 + i % 28},{i % 5},{i}\n" for i in range(N))
    (tmp_path / "d.csv").write_text(text)
    types = ["--types", "code=category", "--types", "when=date", "--types", "level=text"]
    run = inside("fit", "d.csv", "-t", "price", *FAST, *types, "-q", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    model = load(tmp_path / "d.usnrt")
    assert model.encoder_.source_types_ == ["number", "date", "text"]
    assert model.encoder_.date_formats_ == {"when": "%Y%m%d"}
    assert [c.n_categories for c in model.columns_ if c.is_categorical] == [3, 5]
    # read by another program, all three are integers
    table = pa_csv.read_csv(tmp_path / "d.csv")
    means = [
        float(line.split(",")[0])
        for line in inside("predict", "d.usnrt", "d.csv", "-q", cwd=tmp_path).stdout.splitlines()[1:]
    ]
    assert model.predict(table.drop_columns(["price"])).tolist() == means


def test_a_target_of_dates_and_one_too_large_for_a_feature(tmp_path, inside):
    (tmp_path / "d.csv").write_text("a,sold\n1,31/12/2015\n2,01/01/2016\n")
    run = inside("fit", "d.csv", "-t", "sold", "-q", cwd=tmp_path)
    assert run.stderr == "usnrt: the target 'sold' must hold numbers, got dates such as 2015-12-31 00:00:00 in d.csv\n"
    rows = "".join(f"{2**53 + 1 + i % 7},{i}\n" for i in range(N))
    (tmp_path / "d.csv").write_text("big,price\n" + rows)
    run = inside("fit", "d.csv", "-t", "price", *FAST, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert (
        "usnrt: column 'big' holds integers beyond 2**53, which are rounded: 9007199254740993 becomes "
        "9007199254740992; make it text if it is an identifier\n"
    ) in run.stderr
    run = inside("fit", "d.csv", "-t", "price", *FAST, "--types", "big=text", "-f", cwd=tmp_path)
    assert "2**53" not in run.stderr
    assert load(tmp_path / "d.usnrt").columns_[0].n_categories == 7


def test_a_renamed_column(tmp_path, inside):
    table = pa.table({"width": ROWS % 7, "height": ROWS % 5, "price": ROWS * 1.0})
    pa_csv.write_csv(table, tmp_path / "d.csv")
    assert inside("fit", "d.csv", "-t", "price", *FAST, "-q", cwd=tmp_path).returncode == 0
    pa_csv.write_csv(table.rename_columns(["Width", "height", "price"]), tmp_path / "e.csv")
    run = inside("predict", "d.usnrt", "e.csv", cwd=tmp_path)
    assert run.stderr == (
        "usnrt: e.csv must have the columns that the model was fitted on, "
        "but 'width' is missing; did you mean 'Width'?\n"
    )
    model = load(tmp_path / "d.usnrt")
    frame = table.drop_columns(["price"]).to_pandas().rename(columns={"width": "Width"})
    with pytest.raises(ValueError, match=r"^'width' is missing; did you mean 'Width'\? The feature names should match"):
        model.predict(frame)


def thousand_columns():
    rng = np.random.default_rng(0)
    columns = {f"x{j}": [f"{v:.3f}".replace(".", ",") for v in rng.normal(size=40)] for j in range(1000)}
    columns["mixed"] = ["1,5", "a", "7", ""] * 10
    columns["sparse"] = [f"{v:.1f}".replace(".", ",") if v > 0.3 else "" for v in rng.random(40)]
    columns["price"] = [f"{v:.2f}".replace(".", ",") for v in rng.normal(size=40)]
    lines = [";".join(columns), *map(";".join, zip(*columns.values()))]
    return columns, "\n".join(lines)


def test_a_thousand_columns_mixed_types_and_missing_values(tmp_path):
    columns, text = thousand_columns()
    (tmp_path / "d.csv").write_text(text)
    data = training_data(open_table(tmp_path / "d.csv", print), "price", [], print)
    types = data.features.schema.types
    assert types[:1000] == [pa.float64()] * 1000
    assert types[1000:] == [pa.string(), pa.float64()]
    assert data.features["sparse"].null_count == columns["sparse"].count("")
    assert data.features["x0"].to_pylist() == [float(v.replace(",", ".")) for v in columns["x0"]]


@pytest.mark.slow
def test_a_model_of_a_thousand_columns(tmp_path, usnrt):
    (tmp_path / "d.csv").write_text(thousand_columns()[1])
    run = usnrt("fit", "d.csv", "-t", "price", "-q", *FAST, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert len(usnrt("predict", "d.usnrt", "d.csv", "-q", cwd=tmp_path).stdout.splitlines()) == 41


def test_quantiles_and_the_probability_of_a_limit(inside, fitted):
    folder, _ = fitted
    arguments = ("predict", "model.usnrt", "test.csv", "--quantiles", "0.1,0.9", "--above", "300", "-q")
    rows = list(csv.DictReader(inside(*arguments, cwd=folder).stdout.splitlines()))
    model, table = load(folder / "model.usnrt"), pa_csv.read_csv(folder / "test.csv")
    dist = model.predict_dist(table)
    for name, values in {"q0.1": dist.ppf(0.1), "q0.9": dist.ppf(0.9), "probability_above": dist.sf(300)}.items():
        np.testing.assert_allclose([float(row[name]) for row in rows], values, rtol=1e-9, atol=1e-12)
    by_python = model.predict_table(table, quantiles=[0.1, 0.9], above=300)
    assert by_python.column_names == list(rows[0])
    refused = inside("predict", "model.usnrt", "test.csv", "--quantiles", "0.1;0.9", cwd=folder)
    sentence = "--quantiles must be levels in (0, 1) with commas, such as 0.1,0.9; got 0.1;0.9"
    assert refused.stderr == f"usnrt: {sentence}\n"
