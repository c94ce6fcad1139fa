"""The history of the benchmarks, and the page that is made from it."""

import json
import sys
from pathlib import Path

import pytest

import usnrt

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "benchmarks"
sys.path.insert(0, str(FOLDER))

import history  # noqa: E402
import speed_page  # noqa: E402


def test_the_page_is_that_of_the_history():
    made = speed_page.page(history.runs())
    assert (ROOT / "docs" / "speed.md").read_text() == made, "run: python experiments/benchmarks/speed_page.py"


def test_a_run_appends_a_line(tmp_path, monkeypatch):
    path = tmp_path / "history.jsonl"
    monkeypatch.setenv("USNRT_HISTORY", str(path))
    history.record("split", {"exact": 2.34567})
    history.record("split", {"exact": 30})
    first, second = history.runs(path)
    assert (first["benchmark"], first["ratios"], second["ratios"]) == ("split", {"exact": 2.346}, {"exact": 30.0})
    assert first["versions"]["usnrt"] == usnrt.__version__
    assert first["machine"]["cores"] >= 1
    assert "| split: exact | 30x | 2.3x to 2.3x (1) |" in speed_page.page([first, second])


def test_the_history_can_be_left_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(history, "PATH", tmp_path / "history.jsonl")
    monkeypatch.setenv("USNRT_HISTORY", "off")
    history.record("split", {"exact": 2.0})
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""


def test_lines_of_the_history_are_complete():
    for line in history.PATH.read_text().splitlines():
        run = json.loads(line)
        assert set(run) == {"date", "commit", "benchmark", "ratios", "machine", "versions"}
        assert run["ratios"]
        assert all(ratio > 0 for ratio in run["ratios"].values())
        assert (FOLDER / f"{run['benchmark']}.py").exists()


@pytest.mark.parametrize(("ratio", "text"), [(0.123, "0.12x"), (2.345, "2.3x"), (26.4, "26x"), (1234.5, "1,234x")])
def test_ratios_have_two_digits(ratio, text):
    assert speed_page.shown(ratio) == text
