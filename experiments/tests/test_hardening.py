"""The scripts of `make soak` and `make harden`, each with a small part of its cases."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "hardening"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("soak", ["--count", "10", "--minutes", "20"]),
        ("model_files", ["--count", "1000"]),
        ("csv_files", ["--count", "500"]),
        ("onnx_inputs", ["--count", "1000"]),
        ("kills", ["--kills", "10"]),
        ("writers", ["--rounds", "10"]),
        ("leaks", ["--predictions", "100", "--fits", "10"]),
        pytest.param("disks", [], marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")),
    ],
)
def test_script(script, arguments):
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(FOLDER / f"{script}.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, (run.stdout + run.stderr)[-3000:]
