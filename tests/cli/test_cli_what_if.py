"""``usnrt report --what-if``: one page with the model in it, and training rows only if asked for."""

import json
import re

import numpy as np
import pytest


def data_of(page):
    """The model in a page."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


@pytest.fixture(scope="module")
def remembering(fitted):
    """A model whose regions use their memory."""
    from unittest.mock import patch

    import pyarrow.csv as pa_csv

    from usnrt import USNRTRegressor

    def all_experts(quantiles, leaf, y, weight, n_leaves, traits=None):
        return np.full((n_leaves, len(quantiles)), 1 / len(quantiles))

    table = pa_csv.read_csv(fitted[0] / "train.csv").select(["area", "district", "price"])
    model = USNRTRegressor(hidden=(16, 8), max_epochs=2, random_state=0)
    with patch("usnrt.tree.model.fit_weights", all_experts):
        model.fit(table, y="price")
    model.save(fitted[0] / "remembering.usnrt")
    return model


def test_the_page_holds_the_model_but_no_training_rows(inside, fitted, tmp_path):
    folder, page = fitted[0], tmp_path / "page.html"
    run = inside("report", "model.usnrt", "--what-if", "-o", page, cwd=folder)
    size = f"{page.stat().st_size / 1e6:.1f} MB"
    assert (run.returncode, run.stdout) == (
        0,
        f"wrote {page}, {size}, which contains the model, but no training rows\n",
    )
    data = data_of(page.read_text())
    assert data["card"]["name"] == "model"
    assert data["explain"] is None
    assert data["card"]["notes"][0].startswith("What drives the width is left out: it compares with training rows")
    run = inside("report", "model.usnrt", "--what-if", "--training-rows", "-f", "-o", page, cwd=folder)
    assert run.returncode == 0
    assert np.shape(data_of(page.read_text())["explain"]["backgrounds"])[1] == 32


def test_a_memory_needs_permission(inside, fitted, remembering, tmp_path):
    run = inside("report", "remembering.usnrt", "--what-if", "-o", tmp_path / "page.html", cwd=fitted[0])
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == (
        "usnrt: the model predicts with targets of training rows (memory and forest), so the page would contain them; "
        "allow it with training_rows=True (--training-rows), or fit with memory=False "
        "(--set memory=false)\n"
    )
    assert list(tmp_path.iterdir()) == []
    allowed = ("remembering.usnrt", "--what-if", "--training-rows", "-o", tmp_path / "page.html")
    run = inside("report", *allowed, cwd=fitted[0])
    assert run.stdout.endswith("which contains the model and training rows\n")


def test_the_page_needs_a_model_only(inside, fitted):
    run = inside("report", "model.usnrt", "test.csv", "--what-if", cwd=fitted[0])
    assert run.stderr == "usnrt: --what-if needs a model only, got also test.csv\n"
    run = inside("report", "model.usnrt", cwd=fitted[0])
    assert run.stderr == "usnrt: report needs a table with known targets after the model; --what-if needs none\n"


@pytest.mark.parametrize("word", ["false", "False", "FALSE"])
def test_truth_values_of_parameters_in_any_case(word):
    from usnrt.cli._fit import _parameter_value

    assert _parameter_value(word) is False
    assert _parameter_value("None") is None
    assert _parameter_value("examples") == "examples"
