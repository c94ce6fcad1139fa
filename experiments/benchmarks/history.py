"""The history of the benchmarks: every run appends a line of ratios to ``history.jsonl``, which is committed.

A ratio is the processor time of a peer divided by ours, in the same run on the same machine: above 1 ours is faster.
Times themselves depend on the machine and are not kept. ``USNRT_HISTORY`` names another file, or is ``off``.
``python experiments/benchmarks/speed_page.py`` draws the history.
"""

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("history.jsonl")
# ours, and the peers
PACKAGES = ("usnrt", "jax", "numba", "numpy", "scikit-learn", "scipy", "scoringrules", "onnxruntime", "torch")


def record(benchmark: str, ratios: Mapping[str, float]) -> None:
    """Append a run to the history, and print that.

    Parameters
    ----------
    benchmark : str
        Name of the script.
    ratios : mapping of str to float
        Peer's processor time / ours, by what was measured. The names are those of the curves on the page, so that a
        new name starts a new curve.
    """
    place = os.environ.get("USNRT_HISTORY", str(PATH))
    if place == "off":
        return
    line = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
        "commit": commit(),
        "benchmark": benchmark,
        "ratios": {name: round(float(ratio), 3) for name, ratio in ratios.items()},
        "machine": machine(),
        "versions": versions(),
    }
    with open(place, "a") as file:
        file.write(json.dumps(line) + "\n")
    print(f"appended to {place}")


def runs(path: Path = PATH) -> list[dict[str, Any]]:
    """All lines of the history, the oldest first."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return sorted(lines, key=lambda line: line["date"])


def commit() -> str:
    """The short hash of the commit, with a plus if files differ from it."""
    words = ["git", "-C", str(PATH.parent), "describe", "--always", "--dirty=+", "--exclude=*", "--abbrev=7"]
    told = subprocess.run(words, capture_output=True, text=True)
    return told.stdout.strip() if told.returncode == 0 else "unknown"


def machine() -> dict[str, Any]:
    """What the run depends on: processor, cores, and how many programs waited for them."""
    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [
            line.partition(":")[2].strip() for line in information.read_text().splitlines() if "model name" in line
        ]
        processor = names[0] if names else processor
    return {"processor": processor, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that are installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    from usnrt import __version__

    return found | {"usnrt": __version__}
