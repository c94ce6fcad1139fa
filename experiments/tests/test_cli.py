"""The commands, as a person types them; what goes wrong is one line and exit code 2."""

import pytest
from typer.testing import CliRunner

from usnrt.comparison.models import Recipe
from usnrt_experiments import RECIPES, Cell
from usnrt_experiments.cli import app

CONSTANT = "usnrt_experiments.constant:ConstantNormal"

GRID = ["-d", "generated-jump-50", "-r", "constant-normal", "--seed", "42", "--quiet"]


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    return call


def test_run_status_table_figure_page(bench, tmp_path):
    result = bench("run", *GRID)
    assert (result.exit_code, result.output) == (0, "1 done, 0 failed, 0 skipped (done before or running elsewhere)\n")
    result = bench("run", *GRID)
    assert (result.exit_code, result.output) == (0, "0 done, 0 failed, 1 skipped (done before or running elsewhere)\n")
    result = bench("status")
    assert result.output == (
        "                 generated-jump-50\n"
        "constant-normal                1/5\n"
        "1 done, 0 failed, 0 damaged, 0 running\n"
    )
    result = bench("table", "ece", "--format", "csv")
    assert result.output.startswith("Dataset,Source,Splits,HNN,")
    assert bench("table").output.count("lowest of 17") == 7
    result = bench("figure", "leaf_std")
    assert result.output == "leaf_std: no records to draw from\n"
    result = bench("page")
    assert result.output == "experiments/results/README.md\n"
    assert (tmp_path / "experiments/results/README.md").read_text().startswith("# Results of the paper's experiments\n")


def test_presets_of_their_own_have_a_folder_in_the_store(bench, monkeypatch):
    monkeypatch.setattr("usnrt_experiments.grid.preset", lambda name: [Cell("small-jump", "constant-normal", 42)])
    assert bench("run", "--preset", "small", "--store", "kept", "--quiet").exit_code == 0
    assert bench("status", "--store", "kept/small").output.splitlines()[1].split() == ["constant-normal", "1/5"]
    assert bench("run", "--preset", "quick", "--store", "kept", "--quiet").exit_code == 0
    assert bench("status", "--store", "kept").exit_code == 0


def test_rescore(bench):
    bench("run", *GRID)
    assert bench("rescore").output == "0 changed, 1 unchanged, 0 without predictions\n"


def test_a_failed_cell_shows_in_the_exit_code(bench):
    words = ["run", "-d", "generated-jump-50", "-r", "constant-normal?delay='soon'", "--seed", 42, "--quiet"]
    result = bench(*words)
    assert (result.exit_code, result.output) == (1, "0 done, 1 failed, 0 skipped (done before or running elsewhere)\n")
    assert bench(*words).exit_code == 0
    assert bench(*words, "--retry").exit_code == 1


def test_an_interrupted_run_says_how_to_go_on(bench, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("usnrt_experiments.run_grid", interrupted)
    result = bench("run", *GRID)
    assert (result.exit_code, result.output) == (130, "stopped: run the same command again to resume\n")


def test_forget(bench, monkeypatch):
    bench("run", *GRID, "-r", "constant-normal?delay=0.01")
    assert bench("forget", "--outdated").output == "0 records removed\n"
    monkeypatch.setitem(RECIPES, "constant-normal", Recipe("constant-normal", CONSTANT, changes={"delay": 0.02}))
    # The other recipe names its delay itself, so nothing has changed for it.
    assert bench("forget", "--outdated").output == "1 records removed\n"
    assert bench("forget", "-r", "constant-normal?delay=0.01", "-d", "power").output == "0 records removed\n"
    assert bench("forget", "-r", "constant-normal?delay=0.01").output == "1 records removed\n"
    assert bench("status").output == "no records in experiments/results\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "error: run needs either --preset, or both --dataset and --recipe\n"),
        (["run", "-d", "iris", "-r", "hnn"], "error: name must be one of ['electrical', "),
        (["run", "-d", "power", "-r", "hmm"], "error: recipe must be one of ['catboost', "),
        (
            ["run", "--preset", "all"],
            "error: preset must be one of ['paper', 'stability', 'ablation', 'quick', 'small', 'coverage'], "
            "got 'all'\n",
        ),
        (
            ["run", *GRID, "--store", "/dev/null/x"],
            "error: store must be a folder of records, got /dev/null/x: ",
        ),
        (
            ["run", *GRID, "--cluster", "nonsense:x"],
            "error: cluster must be the address of a Dask scheduler, got ",
        ),
        (
            ["status"],
            "error: store must be a folder of records that 'run' has written, got experiments/results\n",
        ),
        (["forget"], "error: forget needs --dataset, --recipe or --outdated\n"),
        (
            ["page"],
            "error: store must be a folder of records that 'run' has written, got experiments/results\n",
        ),
    ],
)
def test_what_goes_wrong_is_one_line(bench, words, message):
    result = bench(*words)
    assert result.exit_code == 2
    assert result.output.startswith(message)
    assert result.output.count("\n") == 1


def test_unknown_tables_and_figures(bench):
    bench("run", *GRID)
    for words, message in [
        (["table", "mae"], "error: table must be one of ['datasets', "),
        (["table", "ece", "-f", "html"], "error: format must be one of ['text', "),
        (["figure", "pie"], "error: figure must be one of ['stability', "),
    ]:
        result = bench(*words)
        assert result.exit_code == 2
        assert result.output.startswith(message)


def test_an_empty_preset_says_how_to_name_the_data(bench, monkeypatch, tmp_path):
    monkeypatch.setenv("USNRT_DATA", str(tmp_path))
    monkeypatch.setenv("USNRT_CACHE", str(tmp_path))
    result = bench("run", "--preset", "quick")
    assert result.exit_code == 2
    assert result.output == "error: the grid is empty: no data set was found; set USNRT_DATA to their folder\n"
