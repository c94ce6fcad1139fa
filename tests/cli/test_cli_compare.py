"""``usnrt compare`` as a user runs it."""

import json

import pyarrow.csv as pa_csv
import pytest


@pytest.fixture
def folder(houses, tmp_path):
    pa_csv.write_csv(houses(300, 0).drop_columns(["id", "nothing"]), tmp_path / "houses.csv")
    return tmp_path


QUICK = ("--model", "constant", "--model", "quantile forest?n_estimators=10", "--jobs", 1)


def test_a_table_a_verdict_a_page_and_a_picture(inside, folder):
    run = inside("compare", "houses.csv", "-t", "price", *QUICK, "-o", "c.html", "--picture", "c.png", cwd=folder)
    assert run.returncode == 0, run.stderr
    assert "75 test rows, the best by CRPS first" in run.stdout
    assert run.stdout.rstrip().splitlines()[-1].startswith("quantile forest?n_estimators=10 is best by CRPS")
    assert "1/2 constant: CRPS" in run.stderr
    assert "usnrt: wrote c.html" in run.stderr
    page = (folder / "c.html").read_text()
    assert "Models compared on predicting price" in page
    assert "usnrt compare houses.csv -t price --model constant" in page
    assert (folder / "c.png").read_bytes().startswith(b"\x89PNG")


def test_json_with_folds_by_time(inside, folder):
    arguments = ("--time-column", "sold", "--folds", 2, "--drop", "sold", "--json", "--quiet")
    run = inside("compare", "houses.csv", "-t", "price", *QUICK, *arguments, cwd=folder)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    found = json.loads(run.stdout)
    assert found["split"] == "2 test blocks in time, each after its training rows"
    assert found["folds"] == 2
    assert {model["model"] for model in found["models"]} == {"constant", "quantile forest?n_estimators=10"}
    assert set(found["differences"]) == {"crps", "rmse", "interval_score"}


def test_groups_stay_together_and_are_no_feature(inside, folder):
    run = inside("compare", "houses.csv", "-t", "price", *QUICK, "--group-column", "district", "--json", cwd=folder)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["split"] == "one random split; groups stay together"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--time-column", "district"), "the time column 'district' must hold numbers or dates, got"),
        (("--time-column", "when"), "time must be a column of X, got 'when'; columns: area"),
        (("--test-size", 2), "--test-size must be in (0, 1), got 2"),
        (("--coverage", 90), "--coverage must be in (0, 1), got 90"),
        (("--model", "catbost"), "models must be among usnrt fast, usnrt balanced, usnrt ensemble, CatBoost"),
        (("-o", "nowhere/c.html"), "the folder nowhere does not exist"),
        (("--drop", "pirce"), "houses.csv has no column 'pirce'; did you mean 'price'?"),
    ],
)
def test_what_is_refused(inside, folder, arguments, message):
    run = inside("compare", "houses.csv", "-t", "price", "--model", "constant", *arguments, cwd=folder)
    assert run.returncode == 1
    assert f"usnrt: {message}" in run.stderr
    assert "Traceback" not in run.stderr


def test_ctrl_c_prints_what_is_done(inside, folder, monkeypatch):
    from usnrt.comparison.peers import QuantileForestRegressor

    def stop(self, X, y):
        raise KeyboardInterrupt

    monkeypatch.setattr(QuantileForestRegressor, "fit", stop)
    run = inside("compare", "houses.csv", "-t", "price", *QUICK, "-o", "c.html", cwd=folder)
    assert run.returncode == 130
    assert "constant has a CRPS of" in run.stdout
    assert (folder / "c.html").exists()
