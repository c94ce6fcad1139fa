"""What each command does when all is well, in a process of its own as users run it."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import usnrt as library
from usnrt.cli._fit import Preset, make_model
from usnrt.estimators.regions import memory_sentence, rows_in_memory
from usnrt.persistence import load


def test_fit_says_what_it_understood_and_found(fitted):
    _, run = fitted
    assert "usnrt: categories: district (3)" in run.stderr
    assert "usnrt: the date 'sold' became year, month, day, weekday" in run.stderr
    assert "usnrt: missing values in area, nothing" in run.stderr
    assert "district = old town" in run.stdout
    assert "On 90 held-out rows" in run.stdout
    assert run.stdout.endswith("wrote model.usnrt\n")


def test_fit_says_that_a_model_contains_training_data(fitted):
    folder, run = fitted
    sentence = memory_sentence(rows_in_memory(load(folder / "model.usnrt")))  # empty if no region uses the memory
    assert [line for line in run.stderr.splitlines() if "training data" in line] == [f"usnrt: {sentence}"] * bool(
        sentence
    )


def test_progress_in_a_log_is_plain_lines(fitted):
    _, run = fitted
    assert "\r" not in run.stderr
    assert "\x1b" not in run.stderr
    assert re.search(r"^fitted \d regions? in [\d.]+ s$", run.stderr, re.MULTILINE)


def test_the_same_seed_gives_the_same_model_in_any_file_format(fitted, tmp_path, usnrt):
    folder, _ = fitted
    pq.write_table(pa_csv.read_csv(folder / "train.csv"), tmp_path / "train.parquet")
    run = usnrt(
        *("fit", "train.parquet", "-t", "price", "--drop", "id", "--quiet", "--holdout", "0.1"),
        *("--set", "min_samples_leaf=200", "--set", "max_epochs=15", "--force"),
        cwd=tmp_path,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert (tmp_path / "train.usnrt").read_bytes() == (folder / "model.usnrt").read_bytes()


def test_a_fit_goes_on_from_its_checkpoint(tmp_path, inside, houses, monkeypatch):
    pa_csv.write_csv(houses(300, 0), tmp_path / "train.csv")
    command = [*("fit", "train.csv", "-t", "price", "--drop", "id", "--preset", "fast", "--set", "max_epochs=3")]
    command += ["--set", "hidden=(8,)", "--force", "--quiet"]
    assert inside(*command, "-o", "plain.usnrt", cwd=tmp_path).returncode == 0

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("usnrt.model.fit._widening_support", stop)
    run = inside(*command, "-o", "resumed.usnrt", "--checkpoint", "fit", cwd=tmp_path)
    assert run.returncode == 130
    assert run.stderr == (
        "usnrt: the same command resumes from the checkpoint in fit\nusnrt: stopped; nothing was written\n"
    )
    assert sorted(path.name for path in (tmp_path / "fit").iterdir()) == ["checkpoint.json", "tree.entry.safetensors"]
    monkeypatch.undo()
    run = inside(*command, "-o", "other.usnrt", "--checkpoint", "fit", "--seed", "1", cwd=tmp_path)
    assert (run.returncode, run.stderr.splitlines()) == (
        1,
        [
            "usnrt: checkpoint fit is of another fit: it was written with random_state=0, got random_state=1; "
            "use another folder or delete this one"
        ],
    )
    assert inside(*command, "-o", "resumed.usnrt", "--checkpoint", "fit", cwd=tmp_path).returncode == 0
    assert (tmp_path / "resumed.usnrt").read_bytes() == (tmp_path / "plain.usnrt").read_bytes()
    assert not (tmp_path / "fit").exists()
    run = inside(*command, "-o", "other.usnrt", "--checkpoint", ".", cwd=tmp_path)
    assert run.returncode == 1
    assert re.fullmatch(
        r"usnrt: checkpoint must be a new or empty folder or one of a fit, got . with plain.usnrt\n", run.stderr
    )


def test_predict_writes_the_columns_it_promises(fitted, tmp_path, inside):
    folder, _ = fitted
    run = inside("predict", "model.usnrt", "test.csv", "-o", tmp_path / "out.csv", cwd=folder)
    assert (run.returncode, run.stdout) == (0, "")
    assert run.stderr == f"usnrt: wrote {tmp_path / 'out.csv'}, 300 rows\n"
    out = pa_csv.read_csv(tmp_path / "out.csv")
    assert out.column_names == ["mean", "std", "lower", "upper", "region", "supported", "guaranteed"]
    model = load(folder / "model.usnrt")
    features = pa_csv.read_csv(folder / "test.csv").drop_columns(["id", "price"])
    mean, std = model.predict(features, return_std=True)
    assert out["mean"].to_numpy().tolist() == mean.tolist()  # to the last bit, through text
    assert out["std"].to_numpy().tolist() == std.tolist()
    assert out["region"].to_numpy().tolist() == model.apply(features).tolist()


@pytest.mark.parametrize("name", ["out.parquet", "out.tsv", "out.csv.gz", "out.csv.zst"])
def test_predict_writes_every_format(fitted, tmp_path, name, inside):
    folder, _ = fitted
    run = inside("predict", "model.usnrt", "test.csv", "-o", tmp_path / name, "--keep", "id", "-q", cwd=folder)
    assert (run.returncode, run.stderr) == (0, "")
    if name.endswith("parquet"):
        out = pq.read_table(tmp_path / name)
    else:
        with pa.input_stream(str(tmp_path / name), compression="detect") as stream:
            delimiter = "\t" if ".tsv" in name else ","
            out = pa_csv.read_csv(stream, parse_options=pa_csv.ParseOptions(delimiter=delimiter))
    assert out.column_names == ["id", "mean", "std", "lower", "upper", "region", "supported", "guaranteed"]
    assert out["id"].to_pylist() == [f"h{i}" for i in range(300)]


def test_predict_gives_notice_of_rows_unlike_training_rows(fitted, tmp_path, inside):
    folder, _ = fitted
    data = pa_csv.read_csv(folder / "test.csv")
    name = next(n for n in data.column_names if n not in ("id", "price") and pa.types.is_floating(data[n].type))
    far = pa.array([1e6] * 3 + data[name].to_pylist()[3:])
    pa_csv.write_csv(data.set_column(data.column_names.index(name), name, far), tmp_path / "far.csv")
    run = inside("predict", folder / "model.usnrt", tmp_path / "far.csv", "-o", tmp_path / "out.csv", cwd=folder)
    found = re.search(r"^usnrt: (\d+) of 300 rows do not resemble the training rows", run.stderr, re.MULTILINE)
    supported = pa_csv.read_csv(tmp_path / "out.csv")["supported"].to_pylist()
    assert int(found[1]) == supported.count(False) >= 3
    assert supported[:3] == [False] * 3


def test_predict_to_the_terminal_and_as_json(fitted, inside):
    folder, _ = fitted
    run = inside("predict", "model.usnrt", "test.csv", cwd=folder)
    assert run.stdout.splitlines()[0] == '"mean","std","lower","upper","region","supported","guaranteed"'
    assert len(run.stdout.splitlines()) == 301
    rows = json.loads(inside("predict", "model.usnrt", "test.csv", "--json", "--coverage", "0.5", cwd=folder).stdout)
    assert len(rows) == 300
    assert rows[0]["lower"] < rows[0]["mean"] < rows[0]["upper"]


def test_columns_in_any_order_beside_others_are_found_by_name(fitted, tmp_path, inside):
    folder, _ = fitted
    data = pa_csv.read_csv(folder / "test.csv")
    shuffled = data.select(data.column_names[::-1]).append_column("more", pa.array([1] * 300))
    pa_csv.write_csv(shuffled, tmp_path / "other.csv")
    first, second = (
        inside("predict", folder / "model.usnrt", path, cwd=folder).stdout
        for path in (folder / "test.csv", tmp_path / "other.csv")
    )
    assert first == second


def test_text_that_looks_like_numbers_stays_text(tmp_path, inside, houses):
    table = houses(60, 0).select(["area", "price"]).append_column("code", pa.array(["1", "2", "x"] * 20))
    pa_csv.write_csv(table, tmp_path / "train.csv")
    pa_csv.write_csv(table.slice(0, 2), tmp_path / "two.csv")  # only "1" and "2" here
    run = inside("fit", "train.csv", "-t", "price", "--set", "max_epochs=2", "-q", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    run = inside("predict", "train.usnrt", "two.csv", cwd=tmp_path)
    assert (run.returncode, len(run.stdout.splitlines())) == (0, 3)


def test_an_ensemble_and_codes_of_categories(tmp_path, inside, houses):
    table = houses(60, 0).select(["area", "price"]).append_column("code", pa.array([10, 2, 7] * 20))
    pa_csv.write_csv(table, tmp_path / "train.csv")
    arguments = ["--members", "2", "--categorical", "code", "--set", "max_epochs=2", "--set", "max_depth=0"]
    run = inside("fit", "train.csv", "-t", "price", "--json", "-q", *arguments, cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout)["columns"][0] == "categories: code (3)"
    model = load(tmp_path / "train.usnrt")
    assert type(model).__name__ == "USNRTEnsemble"
    assert (model.n_estimators, model.estimator.max_depth, model.random_state) == (2, 0, 0)
    assert inside("report", "train.usnrt", "train.csv", "-q", cwd=tmp_path).stdout == "wrote report.html\n"


def test_a_kept_column_is_never_lost_among_the_predictions(fitted, inside, tmp_path):
    folder, _ = fitted
    table = pa_csv.read_csv(folder / "test.csv")
    pa_csv.write_csv(table.append_column("region", pa.array(["south"] * table.num_rows)), tmp_path / "t.csv")
    run = inside("predict", folder / "model.usnrt", "t.csv", "--keep", "region", "-o", "p.csv", "-q", cwd=tmp_path)
    assert run.returncode == 1
    assert run.stderr == "usnrt: --keep must name columns that predictions do not have, got 'region'\n"
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize(
    ("preset", "paper", "members", "settings", "expected"),
    [
        ("balanced", False, None, [], library.USNRTRegressor()),
        ("fast", False, None, [], library.USNRTRegressor.fast()),
        ("fast", False, None, ["max_epochs=3"], library.USNRTRegressor.fast(max_epochs=3)),
        ("ensemble", False, None, [], library.USNRTEnsemble(library.USNRTRegressor())),
        ("balanced", False, 3, [], library.USNRTEnsemble(library.USNRTRegressor(), n_estimators=3)),
        ("fast", False, 3, [], library.USNRTEnsemble(library.USNRTRegressor.fast(), n_estimators=3)),
        ("ensemble", True, None, [], library.USNRTEnsemble.paper()),
    ],
)
def test_presets(preset, paper, members, settings, expected):
    model = make_model(Preset(preset), paper, members, settings, {"random_state": 0, "verbose": 0})
    assert repr(model) == repr(expected.set_params(random_state=0))


def test_a_fit_without_memory(tmp_path, inside, houses):
    pa_csv.write_csv(houses(300, 0).select(["area", "price"]), tmp_path / "train.csv")
    run = inside(
        "fit",
        "train.csv",
        "-t",
        "price",
        "-q",
        "--preset",
        "fast",
        "--set",
        "max_epochs=2",
        "--set",
        "memory=False",
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert re.search(r"(network|linear model) alone", run.stdout)
    assert "similar rows" not in run.stdout
    assert "contains training data" not in inside("explain", "train.usnrt", cwd=tmp_path).stdout
    assert json.loads(inside("info", "train.usnrt", "--json", cwd=tmp_path).stdout)["training rows in memory"] == 0


def test_evaluate(fitted, inside):
    folder, _ = fitted
    result = json.loads(inside("evaluate", "model.usnrt", "test.csv", "--json", cwd=folder).stdout)
    assert result["rows"] == 300
    assert 0 < result["rmse"] < 150
    assert 0.5 < result["coverage_90"] <= 1
    shown = inside("evaluate", "model.usnrt", "test.csv", "--target", "price", cwd=folder)
    assert shown.returncode == 0
    assert re.search(r"^ rmse +[\d.]+ *$", shown.stdout, re.MULTILINE)


def test_explain(fitted, inside):
    folder, _ = fitted
    result = json.loads(inside("explain", "model.usnrt", "--json", cwd=folder).stdout)
    assert result["target"] == "price"
    worst, *_, best = result["regions"]
    assert worst["rule"].startswith("district = old town")
    assert worst["residual_std"] > 2 * best["residual_std"]
    assert sum(region["rows"] for region in result["regions"]) == 810
    shown = inside("explain", "model.usnrt", cwd=folder)
    assert "Regions, the least certain first" in shown.stdout
    assert "times that of the most certain one." in shown.stdout
    # the experts of a region in words, and that the file contains training data
    experts = ("network", "guided", "memory", "forest", "linear")
    assert all(sum(row.get(name, 0.0) for name in experts) == pytest.approx(1) for row in result["regions"])
    assert all(row["experts"] in shown.stdout for row in result["regions"])
    n_rows = result["training rows in memory"]
    assert ("The model contains training data" in shown.stdout) == (n_rows > 0)
    assert json.loads(inside("info", "model.usnrt", "--json", cwd=folder).stdout)["training rows in memory"] == n_rows


def test_info(fitted, inside):
    folder, _ = fitted
    about = json.loads(inside("info", "model.usnrt", "--json", cwd=folder).stdout)
    assert about["class"] == "USNRTRegressor"
    assert about["target"] == "price"
    assert about["features"][:2] == ["area (number)", "district (text)"]
    assert about["parameters that differ from the defaults"]["max_epochs"] == 15
    shown = inside("info", cwd=folder)
    assert shown.returncode == 0
    assert "numpy" in shown.stdout


def test_report(fitted, tmp_path, inside):
    folder, _ = fitted
    run = inside("report", "model.usnrt", "test.csv", "-o", tmp_path / "r.html", "--coverage", "0.8", cwd=folder)
    assert (run.returncode, run.stdout) == (0, f"wrote {tmp_path / 'r.html'}\n")
    page = (tmp_path / "r.html").read_text()
    assert "Uncertainty of predicting price" in page
    assert "Evaluated on 300 rows of test.csv." in page
    assert f"usnrt report model.usnrt test.csv -o {tmp_path / 'r.html'}" in page


def test_export(fitted, tmp_path, inside):
    folder, _ = fitted
    run = inside("export", "model.usnrt", "--dot", tmp_path / "t.dot", "--text", tmp_path / "t.txt", cwd=folder)
    assert run.stdout == f"wrote {tmp_path / 't.dot'}\nwrote {tmp_path / 't.txt'}\n"
    assert (tmp_path / "t.dot").read_text().startswith("digraph tree {")
    assert "region 1: " in (tmp_path / "t.txt").read_text()


def test_version_help_and_completion(usnrt):
    assert usnrt("--version").stdout == f"usnrt {library.__version__}\n"
    text = usnrt("--help").stdout
    for command in ("demo", "fit", "predict", "evaluate", "explain", "report", "export", "info"):
        assert re.search(rf"^  {command} ", text, re.MULTILINE)
    assert "--install-completion" in text
    script = usnrt(env={"_USNRT_COMPLETE": "source_bash"})
    assert script.returncode == 0
    assert "complete" in script.stdout


def test_the_script_is_installed():
    script = shutil.which("usnrt", path=os.path.dirname(sys.executable))
    if script is None:
        pytest.skip("the package is not installed with its script")
    assert subprocess.run([script, "--version"], capture_output=True, text=True, check=True).stdout.startswith("usnrt ")


def test_explain_rows_of_a_table(inside, fitted):
    folder, _ = fitted
    run = inside("explain", "model.usnrt", "test.csv", "--rows", "2", "--id", "id", cwd=folder)
    assert run.returncode == 0, run.stderr
    assert "the first 2 of 300 rows are explained" in run.stderr
    assert run.stdout.startswith("Rows are counted from 1, the first one below the header.\n\nid h0, row 1: ")
    for words in ("standard deviation: average of the region", "district = ", "what would narrow the interval:"):
        assert words in run.stdout
    run = inside("explain", "model.usnrt", "test.csv", "--row", "7", "--row", "3", "--json", "--table", cwd=folder)
    result = json.loads(run.stdout)
    assert [row["row"] for row in result["rows"]] == [7, 3]
    predicted = json.loads(inside("predict", "model.usnrt", "test.csv", "--json", cwd=folder).stdout)
    for row in result["rows"]:
        assert row["std"] == predicted[row["row"] - 1]["std"]
        total = row["base_std"] + sum(row["std_contributions"].values()) + row["std_adjustment"]
        assert total == pytest.approx(row["std"], rel=1e-9)
        assert set(row["std_contributions"]) == {"area", "district", "garden", "sold", "nothing"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--row", "301"), "--row must be at most 300, the number of rows of test.csv, got 301"),
        (("--id", "nr"), "test.csv has no column 'nr' to name the rows"),
        (("--coverage", "2"), "--coverage must be in (0, 1), got 2"),
    ],
)
def test_explain_refuses(inside, fitted, arguments, sentence):
    run = inside("explain", "model.usnrt", "test.csv", *arguments, cwd=fitted[0])
    assert (run.returncode, run.stderr) == (1, f"usnrt: {sentence}\n")


def test_report_with_ids_time_and_training_rows(inside, fitted):
    folder, _ = fitted
    lines = (folder / "test.csv").read_text().splitlines()
    lines[1] = lines[1].rsplit(",", 1)[0] + ","  # the first row has no target
    (folder / "gaps.csv").write_text("\n".join(lines) + "\n")
    options = ("--id", "id", "--time", "sold", "--train", "train.csv", "--group-column", "district", "--force")
    run = inside("report", "model.usnrt", "gaps.csv", "-o", "grown.html", *options, cwd=folder)
    assert run.returncode == 0, run.stderr
    text = (folder / "grown.html").read_text()
    assert '<th scope="col">id</th>' in text
    assert "Does it change with time?" in text
    assert "The booster was trained on 900 training rows" in text
    assert "gaps.csv -o grown.html --id id --time sold --train train.csv" in text
    assert "which come in " in text
    run = inside("report", "model.usnrt", "gaps.csv", "-o", "grown.html", "--force", "--no-booster", cwd=folder)
    text = (folder / "grown.html").read_text()
    ids = re.findall(r'data:text/csv;base64,([^"]*)"', text)
    rows = base64.b64decode(ids[0]).decode().splitlines()
    assert rows[0].startswith("row (from 1),price,mean")
    assert rows[1].startswith("2,")  # the number in the file
    assert rows[-1].startswith("300,")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--id", "nr"), "test.csv has no column 'nr' to name the rows"),
        (("--time", "day"), "test.csv has no column 'day' to order the rows"),
        (("--group-column", "shop"), "test.csv has no column 'shop' to group the rows"),
        (("--time", "id"), "the time column 'id' must hold numbers or dates, got 'h"),
        (("--target", "cost"), "test.csv has no column 'cost'; "),
    ],
)
def test_report_refuses(inside, fitted, arguments, sentence):
    run = inside("report", "model.usnrt", "test.csv", "-o", "refused.html", *arguments, cwd=fitted[0])
    assert run.returncode == 1
    assert run.stderr.startswith(f"usnrt: {sentence}")
    assert not (fitted[0] / "refused.html").exists()
