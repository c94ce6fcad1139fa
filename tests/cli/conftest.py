"""The command as a user runs it, and a small model that one fit of the whole test session makes."""

import io
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest


def run_usnrt(*arguments, cwd=None, **options):
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "usnrt.cli", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **options.pop("env", {})}
    options = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL, **options}
    return subprocess.run(command, cwd=cwd, env=environment, check=False, timeout=300, **options)


def make_houses(n, seed):
    """A table with every kind of column; prices in the old town are ten times as uncertain."""
    rng = np.random.default_rng(seed)
    district = rng.choice(["harbour", "north", "old town"], n)
    area = rng.uniform(20, 200, n).round(1)
    price = 3 * area + rng.normal(size=n) * np.where(district == "old town", 60.0, 6.0)
    day = np.datetime64("2023-01-01") + rng.integers(0, 700, n)
    columns = {
        "id": [f"h{i}" for i in range(n)],
        "area": [None if i % 50 == 0 else value for i, value in enumerate(area.tolist())],
        "district": district.tolist(),
        "garden": rng.random(n) < 0.3,
        "sold": day,
        "nothing": pa.nulls(n),
        "price": price.round(2),
    }
    return pa.table(columns)


@pytest.fixture(scope="session")
def usnrt():
    """The command."""
    return run_usnrt


@pytest.fixture
def inside(capfd, monkeypatch):
    """The same command in this process: everything but the start of Python, which takes most of the time."""

    def run_inside(*arguments, cwd, stdin=b""):
        from usnrt.cli._run import run

        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    return run_inside


@pytest.fixture(scope="session")
def houses():
    """The maker of tables."""
    return make_houses


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """A folder with train.csv, test.csv and the model that ``usnrt fit`` made of them, and what it printed."""
    folder = tmp_path_factory.mktemp("fitted")
    pa_csv.write_csv(make_houses(900, 0), folder / "train.csv")
    pa_csv.write_csv(make_houses(300, 1), folder / "test.csv")
    run = run_usnrt(
        *("fit", "train.csv", "--target", "price", "-o", "model.usnrt", "--drop", "id"),
        *("--set", "min_samples_leaf=200", "--set", "max_epochs=15", "--holdout", "0.1"),
        cwd=folder,
    )
    assert run.returncode == 0, run.stderr
    return folder, run
