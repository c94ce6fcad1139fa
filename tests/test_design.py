"""docs/design.md: its layers are those that import-linter checks, and its walks are the calls of real fits."""

import importlib
import re
import sys
import threading
import tomllib
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

from usnrt import USNRTRegressor

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "usnrt"
PAGE = (ROOT / "docs" / "design.md").read_text()
WALKS = ["`fit`", "`fit` of the paper", "`predict_interval`"]


def section(title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## )", PAGE, flags=re.MULTILINE | re.DOTALL)[1]


def hops(walk):
    """Modules and qualified names of the functions that a walk names, in their order."""
    return re.findall(r"`([\w/]+)\.py:([\w.]+)`", section(f"A walk through {walk}"))


def code_of(module, name):
    """The code of a function; a function that is not there is an error."""
    function = reduce(getattr, name.split("."), importlib.import_module(f"usnrt.{module.replace('/', '.')}"))
    return function.__code__


def called(run):
    """When each function of the package is called, by its code."""
    times, calls = {}, iter(range(10**9))

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            times.setdefault(frame.f_code, []).append(next(calls))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return times


@pytest.fixture(scope="module")
def runs():
    """Calls of each walk: a table with steps, so that the memory is used, and noise that depends on x0."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(700, 3))
    y = 3 * np.floor(3 * X[:, 1]) + np.where(X[:, 0] > 0.5, 2.0, 0.1) * rng.normal(size=700)
    small = {"max_epochs": 4, "min_samples_leaf": 150, "random_state": 0, "n_jobs": 1}
    model, paper = USNRTRegressor(hidden=(16, 8), n_bins=4, **small), USNRTRegressor.paper(**small)
    runs = [
        called(lambda: model.fit(X, y)),
        called(lambda: paper.fit(X, y)),
        called(lambda: model.predict_interval(2 * X[:50], 0.5)),
    ]
    assert model.n_leaves_ > 1
    assert paper.n_leaves_ > 1
    return dict(zip(WALKS, runs))


@pytest.mark.parametrize("walk", WALKS)
def test_the_calls_of_a_walk_happen_in_its_order(runs, walk):
    named, now = hops(walk), -1
    assert len(named) >= 8
    for module, name in named:
        later = [time for time in runs[walk].get(code_of(module, name), []) if time > now]
        assert later, f"{module}.py:{name} is not called after the hop before it"
        now = later[0]


def test_files_that_the_page_names_are_there():
    named = re.findall(r"`([a-z_]+/[\w/]+\.py)(?::[\w.]+)?`", PAGE)
    assert len(named) > 50
    for path in named:
        assert (PACKAGE / path).exists() or (ROOT / path).exists(), path


def test_the_table_of_layers_is_the_contract_of_imports():
    with (ROOT / "pyproject.toml").open("rb") as file:
        layers = tomllib.load(file)["tool"]["importlinter"]["contracts"][0]["layers"]
    checked = [sorted(layer.split(" | ")) for layer in reversed(layers) if layer not in ("__main__", "_version")]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", section("Layers"), flags=re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"\w+", row)]
    level = {name: place for place, layer in enumerate(checked) for name in layer}
    assert sorted(named) == sorted(level)
    assert [level[name] for name in named] == sorted(level.values()), "the lowest layer is first"
