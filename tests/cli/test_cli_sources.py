"""Folders, patterns and tables larger than memory on the command line."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from usnrt.cli._output import UserError
from usnrt.cli._tables import default_output, fit_large
from usnrt.estimators.base import DistributionalRegressor
from usnrt.tables import streaming
from usnrt.tables.find_source import as_source


@pytest.fixture
def small_blocks(monkeypatch):
    """Tables of more than 100 rows are too large for memory."""
    monkeypatch.setattr(streaming, "BLOCK_ROWS", 100)
    monkeypatch.setattr(streaming, "PASS_BYTES", 1)
    monkeypatch.setattr(streaming, "MIN_PASS_ROWS", 70)


@pytest.fixture
def parts(tmp_path, fitted, houses):
    """A folder with test.csv of the fitted model, and the same rows in several files."""
    table = houses(300, 1)
    for ending, write in (("csv", pa_csv.write_csv), ("parquet", pq.write_table)):
        folder = tmp_path / ending
        folder.mkdir()
        for number in range(3):
            write(table[100 * number : 100 * (number + 1)], folder / f"part-{number}.{ending}")
    return tmp_path


@pytest.mark.parametrize(
    ("data", "output"),
    [("csv", "p.parquet"), ("csv/*.csv", "p.csv"), ("parquet/*.parquet", "p.csv.gz"), ("parquet", None)],
)
def test_predictions_are_the_same_in_files_and_blocks(data, output, parts, fitted, inside, monkeypatch):
    model = fitted[0] / "model.usnrt"
    files = [parts / "parquet" / f"part-{number}.parquet" for number in range(3)]
    pq.write_table(pa.concat_tables(map(pq.read_table, files)), parts / "all.parquet")
    arguments = ["--keep", "id", *([] if output is None else ["-o", output, "--force"])]
    results = []
    for source, small in (("all.parquet", False), (data, False), (data, True)):
        if small:
            monkeypatch.setattr(streaming, "BLOCK_ROWS", 100)
            monkeypatch.setattr(streaming, "MIN_PASS_ROWS", 70)
            monkeypatch.setattr(streaming, "PASS_BYTES", 1)
        run = inside("predict", model, source, *arguments, cwd=parts)
        assert run.returncode == 0, run.stderr
        if output is None:
            results.append(run.stdout)
        else:
            results.append(pq.read_table(parts / output) if output == "p.parquet" else pa_csv.read_csv(parts / output))
            assert f"wrote {output}, 300 rows" in run.stderr
    assert results[0] == results[1] == results[2]


def test_a_model_of_a_pattern_is_that_of_the_table(parts, inside):
    options = ["--target", "price", "--drop", "id", "--set", "max_epochs=2", "--set", "memory=False", "--json"]
    assert inside("fit", "parquet/*.parquet", *options, cwd=parts).returncode == 0
    pq.write_table(pq.ParquetFile(parts / "parquet" / "part-0.parquet").read(), parts / "one.parquet")
    run = inside("fit", "csv", *options, "-o", "csv.usnrt", cwd=parts)
    assert run.returncode == 0, run.stderr
    one, other = (inside("predict", name, "one.parquet", cwd=parts) for name in ("parquet.usnrt", "csv.usnrt"))
    assert one.stdout == other.stdout


def test_the_default_name_of_a_model():
    names = {"a/b.csv": "a/b.usnrt", "a/*.csv": "a.usnrt", "*.csv": "model.usnrt", "a/*/b/*.csv": "b.usnrt"}
    assert {name: str(default_output(Path(name))) for name in names} == names


class Counted(DistributionalRegressor):
    """Knows how many rows it was fitted to."""

    _TAKES_STORES = True

    def _fit_store(self, store, checkpoint):
        self.weight_sum_ = store.weight_sum


class Grouped(DistributionalRegressor):
    """Is fitted to rows whose groups were given."""

    _TAKES_GROUPS = _TAKES_STORES = True

    def _fit_store(self, store, checkpoint):
        assert store.sample(store.n_rows).has_groups
        assert self.feature_names_in_.tolist() == ["area", "garden", "sold", "nothing"]


def test_large_tables_are_fitted_from_blocks(parts, small_blocks):
    model = Counted()
    assert fit_large(model, as_source(parts / "parquet"), "price", ["id", "id"], holdout=0.0) == 300
    assert model.weight_sum_ == 300
    assert model.feature_names_in_.tolist() == ["area", "district", "garden", "sold", "nothing"]
    fit_large(Grouped(), as_source(parts / "parquet"), "price", ["id"], holdout=0.0, group_column="district")
    source = as_source(parts / "parquet")
    with pytest.raises(UserError, match="^'price' is the target and cannot be --group-column$"):
        fit_large(model, source, "price", [], holdout=0.0, group_column="price")
    with pytest.raises(ValueError, match="has no column 'distrit'; did you mean 'district'"):
        fit_large(model, source, "price", [], holdout=0.0, group_column="distrit")
    with pytest.raises(UserError, match="^--holdout applies to tables that fit in memory"):
        fit_large(model, source, "price", [], holdout=0.1)
    with pytest.raises(UserError, match="^'price' is the target and cannot be left out$"):
        fit_large(model, source, "price", ["price"], holdout=0.0)
    with pytest.raises(ValueError, match="has no column 'prise'; did you mean 'price'"):
        fit_large(model, source, "prise", [], holdout=0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "MODEL", "none/*.csv"], "no file matches 'none/*.csv'"),
        (["fit", "none/*.csv", "-t", "price", "-o", "m.usnrt"], "no file matches 'none/*.csv'"),
        (["predict", "MODEL", "parquet", "--json"], "--json applies to tables that fit in memory"),
        (
            ["predict", "MODEL", "parquet", "--keep", "name", "-o", "p.csv"],
            "has no column 'name' to keep",
        ),
        (["evaluate", "MODEL", "parquet"], "parquet has too many rows for this command; give it some of the files"),
        (["fit", "parquet", "-t", "price", "--paper"], "PaperUSNRTRegressor needs a table in memory"),
    ],
)
def test_one_sentence_and_nothing_written(arguments, message, parts, fitted, inside, small_blocks):
    before = sorted(parts.iterdir())
    model = fitted[0] / "model.usnrt"
    run = inside(*(model if argument == "MODEL" else argument for argument in arguments), cwd=parts)
    assert run.returncode == 1
    assert message in run.stderr
    assert sorted(parts.iterdir()) == before
    assert run.stdout == ""


@pytest.mark.slow
def test_a_model_of_a_large_table_does_not_depend_on_its_files(tmp_path, inside, small_blocks):
    """Equal model files, byte for byte, for other orders of the rows and other files."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 4000)
    price = x + np.where(x > 0, 1.0, 0.1) * rng.normal(size=4000)
    table = pa.table({"x": x, "district": rng.choice(["a", "b"], 4000).tolist(), "price": price})
    shuffled = table.take(rng.permutation(4000))
    for name, rows, cut in (("one", table, 2000), ("two", shuffled, 77)):
        (tmp_path / name).mkdir()
        pq.write_table(rows[:cut], tmp_path / name / "a.parquet")
        pq.write_table(rows[cut:], tmp_path / name / "b.parquet")
    options = ["--target", "price", "--set", "max_epochs=3", "--set", "hidden=(16,)", "--quiet"]
    for data in ("one", "two/*.parquet"):
        assert inside("fit", data, *options, cwd=tmp_path).returncode == 0
    assert (tmp_path / "one.usnrt").read_bytes() == (tmp_path / "two.usnrt").read_bytes()
