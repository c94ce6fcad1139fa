"""Options about target and time, and `usnrt calibrate`."""

import csv
import json
import random

import pytest

import usnrt
from usnrt.cli._run import run

FAST = ["--preset", "fast", "--set", "max_epochs=2", "--set", "hidden=(8,)", "--quiet"]


def write(path, n, start, seed):
    draw = random.Random(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["day", "x", "sold"])
        for i in range(start, start + n):
            x = draw.random()
            writer.writerow([f"2020-{1 + i // 28 % 12:02d}-{1 + i % 28:02d}", f"{x:.4f}", max(0, round(3 * x - 0.5))])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "old.csv", 260, 0, 0)
    write(tmp_path / "new.csv", 60, 260, 1)
    return tmp_path


def test_fit_and_calibrate(folder, capsys):
    options = ["--lower", "0", "--transform", "log", "--time-column", "day", "--holdout", "0.1"]
    assert run(["fit", "old.csv", "--target", "sold", "-o", "m.usnrt", *FAST, *options]) == 0
    model = usnrt.load(folder / "m.usnrt")
    assert (model.target_bounds, model.target_transform, model.time_column) == ((0.0, None), "log", "day")
    assert model.target_map_.log
    capsys.readouterr()
    assert run(["calibrate", "m.usnrt", "new.csv", "-o", "new.usnrt", "--window", "40", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"model": "new.usnrt", "rows": 40}
    recent = usnrt.load(folder / "new.usnrt")
    assert sum(len(scores) for scores in recent.calibration_.scores) <= 40
    assert run(["calibrate", "m.usnrt", "new.csv", "-o", "new.usnrt"]) == 1
    assert "exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["fit", "old.csv", "-t", "sold", "--lower", "1", *FAST], 1, "y must be within target_bounds=(1.0, None), got"),
        (["fit", "old.csv", "-t", "sold", "--paper", "--lower", "0"], 1, "do not apply to --paper"),
        (["fit", "old.csv", "-t", "sold", "--time-column", "date", *FAST], 1, "has no column 'date' for --time-column"),
        (["calibrate", "m.usnrt", "new.csv"], 2, "--output"),
    ],
)
def test_errors(folder, capsys, arguments, code, message):
    assert run(arguments) == code
    assert message in capsys.readouterr().err
