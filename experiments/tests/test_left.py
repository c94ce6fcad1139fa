"""What is left of the presets in hours, and `make paper`, which stops and resumes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from usnrt_experiments import Cell, Store
from usnrt_experiments.grid import n_features_of, n_rows_of, preset
from usnrt_experiments.left import CostModel, left_lines
from usnrt_experiments.status import status_text
from usnrt_experiments.store import Record

ROOT = Path(__file__).parents[2]
DATASETS = ("electrical", "conditional", "appliances", "power", "gpu", "facebook1")


def done(dataset, recipe, seed=42, seconds=10.0, predict=0.0):
    return Record(Cell(dataset, recipe, seed), "done", {"fit_cpu_seconds": seconds, "predict_seconds": predict})


def law(dataset, factor=1.0):
    """Seconds that grow with rows and, more slowly, with features."""
    return factor * 1e-3 * n_rows_of(dataset) * np.sqrt(n_features_of(dataset))


def test_other_splits_of_a_data_set_decide():
    costs = CostModel(
        [done("power", "hnn", 42, 10.0, predict=2.0), done("power", "hnn", 142, 20.0), done("gpu", "hnn")]
    )
    found = costs.estimate(Cell("power", "hnn", 242))
    assert (found.seconds, found.basis) == (16.0, "splits")


def test_a_planted_law_is_found_by_the_regression():
    records = [done(name, "hnn", seconds=law(name)) for name in DATASETS[:5]]
    records += [done(name, "usnrt-paper", seconds=law(name, 3.0)) for name in DATASETS[1:]]
    costs = CostModel(records)
    found = costs.estimate(Cell("facebook1", "hnn", 42))
    assert found.basis == "regression"
    assert found.seconds == pytest.approx(law("facebook1"), rel=0.05)
    assert costs.estimate(Cell("electrical", "usnrt-paper", 42)).seconds == pytest.approx(
        law("electrical", 3), rel=0.05
    )
    assert costs.factor == pytest.approx(1.0, abs=0.05)


def test_noise_shows_in_the_factor():
    rng = np.random.default_rng(0)
    noisy = [done(n, f"r{k}", seconds=law(n) * 2.0 ** rng.choice([-1, 1])) for n in DATASETS for k in range(20)]
    assert 1.9 < CostModel(noisy).factor < 2.2
    assert CostModel(noisy[:2]).factor == np.inf


def test_a_recipe_without_records_costs_what_its_neighbour_does():
    records = [done("power", "usnrt-paper-leaves8", seconds=30.0), done("power", "hnn", seconds=300.0)]
    found = CostModel(records).estimate(Cell("power", "usnrt-paper-leaves6", 42))
    assert found.basis == "neighbours"
    assert found.seconds == pytest.approx(30.0, rel=0.05)
    assert CostModel([]).estimate(Cell("power", "hnn", 42)) is None


@pytest.fixture
def started(tmp_path, monkeypatch):
    """A store with two of the six cells of the preset "stability" and none of the others."""
    cells = [Cell("power", f"usnrt-paper-leaves{n}", 42) for n in (1, 2, 4, 6, 8, 10)]
    monkeypatch.setattr("usnrt_experiments.left.preset", lambda name: cells if name == "stability" else [])
    store = Store(tmp_path)
    for cell in cells[:2]:
        store.finish(store.claim(cell), {"metrics": {}, "fit_cpu_seconds": 1800.0, "predict_seconds": 0.0}, {})
    return store


def test_status_ends_with_the_hours_left_and_their_basis(started):
    assert status_text(started).splitlines()[-2:] == [
        "left of preset stability: 4 of 6 cells, about 2.0 processor hours",
        "estimated from 2 records: 0 cells by other splits of their data set, 0 by a regression on rows, features and "
        "recipe (too few to know its error), 4 by that of the recipe with the most similar name",
    ]


def test_failed_cells_are_not_left(started):
    cell = Cell("power", "usnrt-paper-leaves4", 42)
    started.fail(started.claim(cell), "ValueError: no")
    assert left_lines(started)[0].startswith("left of preset stability: 3 of 6 cells")


def test_presets_without_any_record_are_not_mentioned(tmp_path):
    assert left_lines(Store(tmp_path)) == []


def test_every_cell_of_the_presets_is_estimated(tmp_path, monkeypatch):
    """With one record by the paper's recipe there is an estimate for all cells, none of them infinite."""
    monkeypatch.setattr("usnrt_experiments.grid.available_datasets", lambda: list(DATASETS))
    costs = CostModel([done("electrical", "usnrt-paper"), done("power", "usnrt-paper", seconds=40.0)])
    seconds = [costs.estimate(cell).seconds for name in ("paper", "stability") for cell in preset(name)]
    assert len(seconds) > 500
    assert 1.0 < min(seconds) < max(seconds) < 1e5


FAKE = """
import pathlib, sys
log = pathlib.Path(sys.argv[1])
log.open("a").write(" ".join(sys.argv[2:]) + "\\n")
code = log.with_name("code-" + (sys.argv[4] if "--preset" in sys.argv else "page"))
sys.exit(int(code.read_text()) if code.exists() else 0)
"""


@pytest.fixture
def make_paper(tmp_path):
    """`make paper` with a program in place of the harness; returns the exit code and what was called."""
    if shutil.which("make") is None:
        pytest.skip("needs make")
    program, log = tmp_path / "fake.py", tmp_path / "log"
    program.write_text(FAKE)

    def call():
        log.unlink(missing_ok=True)
        words = ["make", "--silent", "-o", "setup", "paper", f"EXPERIMENTS={sys.executable} {program} {log}"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        found = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
        return found.returncode, [line.removesuffix(" --jobs -1") for line in log.read_text().splitlines()]

    return call


RUNS = [f"run --preset {name}" for name in ("paper", "ablation", "stability", "coverage", "small")]


def test_make_paper_runs_all_presets_and_writes_the_page(make_paper):
    assert make_paper() == (0, [*RUNS, "page"])


def test_make_paper_goes_on_after_failed_cells(make_paper, tmp_path):
    (tmp_path / "code-ablation").write_text("1")
    assert make_paper() == (0, [*RUNS, "page"])


def test_make_paper_ends_where_it_was_stopped_and_resumes(make_paper, tmp_path):
    """Ctrl-C ends a run with code 130: no other preset starts. Cells that are done are not run again (test_runner)."""
    (tmp_path / "code-ablation").write_text("130")
    assert make_paper() == (2, RUNS[:2])
    (tmp_path / "code-ablation").unlink()
    assert make_paper() == (0, [*RUNS, "page"])
