"""Every example runs as users run it, where the package it is about is installed."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
# file -> packages it needs, what its output must match
EXAMPLES = {
    "pipeline_with_columns": (["pandas"], r"art: mean stated std (0\.[6-9]|1\.[0-2]).*\nlaw: mean stated std 0\.[01]"),
    "grid_search_by_crps": ([], r"chosen: {'max_depth': None}\n.*region"),
    "dask_cluster": (["dask", "distributed"], r"the same predictions as here: True"),
    "big_fit_on_dask": (
        ["dask", "distributed", "pandas"],
        r"4 partitions; (8[4-9]|9\d)% of(.*\n)+.*old town",
    ),
    "shap_of_the_std": (["shap"], r"x0: moves the stated std by 0\.[2-9].*\nx1: moves the stated std by 0\.[1-9]"),
    "mapie_around": (["mapie"], r"x0 <= 0\.5 +usnrt: +(8[5-9]|9\d)"),
    "skpro_adapter": (["skpro"], r"CRPS by skpro (0\.\d\d)\d*, by usnrt \1"),
    "drift": (["pandas"], r"static +[34]\d\.\d%(.*\n)online +(89|90|91)\.\d%.* 100\.0% "),
    "mlflow_logging": (["mlflow", "sqlalchemy"], r"CRPS 0\.\d+\nmodel: .*model\.usnrt"),
    "cut_or_one_network": (
        [],
        r"mean jumps +squared error +16 units +2000 rows: .* gain \+(.*\n)+wrote theory\.csv",
    ),
    "paper_tree_on_jumps": ([], r"max_leaves=3 +\(2\.0 regions\): gain [+-]0\.\d+ \+- 0\.\d+, better in \d of 2 draws"),
}
# studies that take minutes otherwise
QUICK = {"cut_or_one_network", "paper_tree_on_jumps"}


# what they show has quick tests of its own: `make test-examples` runs them
LONG = {"big_fit_on_dask", "cut_or_one_network", "dask_cluster", "drift", "mapie_around", "paper_tree_on_jumps"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in EXAMPLES]
)
def test_example(name, tmp_path):
    needed, expected = EXAMPLES[name]
    absent = [package for package in needed if importlib.util.find_spec(package) is None]
    if absent:
        pytest.skip(f"{' and '.join(absent)} not installed")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(FOLDER / f"{name}.py"), *(["--quick"] if name in QUICK else [])]
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert re.search(expected, run.stdout), run.stdout


def test_no_example_is_forgotten():
    assert sorted(EXAMPLES) == sorted(path.stem for path in FOLDER.glob("*.py"))
