"""The evaluator of the what-if page, run by Node.js, predicts what Python predicts."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import usnrt.whatif
from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.utils.result_table import json_value
from usnrt.whatif.page import model_data

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
EVALUATOR = Path(usnrt.whatif.__file__).parent / "evaluator.js"
SMALL = {"hidden": (16, 8), "max_epochs": 15, "n_bins": 4, "random_state": 0}
TOLERANCE = 1e-5  # of the target's standard deviation: networks are evaluated in float32
KINDS = ("outside_range", "unseen_category", "unexpected_missing", "far", "unlike_subjects")


@pytest.fixture(scope="module")
def predict(tmp_path_factory):
    """A function from a model and a table to the rows that the page shows."""
    folder = tmp_path_factory.mktemp("evaluator")

    def run(model, X, **options):
        (folder / "data.json").write_text(json.dumps(model_data(model, "m", training_rows=True), allow_nan=False))
        rows = json_value(json.loads(X.to_json(orient="records", date_format="iso")))
        (folder / "requests.json").write_text(json.dumps([{"rows": rows, "curve": True, **options}]))
        command = [
            "node",
            Path(__file__).parent / "predict.js",
            EVALUATOR,
            folder / "data.json",
            folder / "requests.json",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)[0]

    return run


def assert_same(rows, model, X, coverage=0.9, above=None):
    """All numbers of the page are those of Python."""
    table, dist = pd.DataFrame(model.predict_table(X, coverage)), model.predict_dist(X)
    unit = model.target_scale_.training_moments[1]
    for name in ("mean", "std", "lower", "upper"):
        np.testing.assert_allclose(
            [row[name] for row in rows], table[name], rtol=1e-6, atol=TOLERANCE * unit, err_msg=name
        )
    for name in {"region", "supported", "guaranteed"} & set(table):
        assert [row[name] for row in rows] == table[name].tolist(), name
    quantiles = [[row["quantiles"][level] for level in ("0.1", "0.5", "0.9")] for row in rows]
    np.testing.assert_allclose(quantiles, dist.ppf([0.1, 0.5, 0.9]), rtol=1e-6, atol=TOLERANCE * unit)
    if above is not None:
        np.testing.assert_allclose([row["probability_above"] for row in rows], dist.sf(above), atol=1e-4)
    support = model.predict_support(X)
    assert [len(row["reasons"]) for row in rows] == sum(
        np.asarray(support[kind], int) for kind in KINDS if kind in support.columns
    ).tolist()
    for row in rows[:5]:
        assert sum(row["curve"]["probability"]) == pytest.approx(1.0)


def strange(X):
    """Rows like those of training, and some unlike them."""
    X = X.copy()
    X.loc[:3, "area"] = [900.0, -50.0, 1e9, np.nan]
    X.loc[4:5, "district"] = "moon"
    X.loc[6:7, "district"] = None
    X.loc[8, "age"] = np.nan
    X.loc[9, "sold"] = pd.NaT
    X.loc[10, "sold"] = pd.Timestamp("1999-12-31 23:59")
    return X


@pytest.fixture(scope="module")
def table(houses):
    X, y = houses(900, 0)
    return X.astype({"age": float}), y


def test_a_tree_without_memory(predict, table, houses):
    model = USNRTRegressor(memory=False, min_samples_leaf=150, **SMALL).fit(*table)
    assert model.n_leaves_ > 1
    X = strange(houses(60, 1)[0].astype({"age": float}))
    assert_same(predict(model, X, above=250.0), model, X, above=250.0)
    assert_same(predict(model, X, coverage=0.55), model, X, coverage=0.55)


def test_all_experts_and_an_ensemble(predict, table, houses):
    from unittest.mock import patch

    def all_experts(quantiles, leaf, y, weight, n_leaves, traits=None):
        weights = np.random.default_rng(0).uniform(0.2, 1.0, (n_leaves, len(quantiles)))
        return weights / weights.sum(axis=1, keepdims=True)

    X = strange(houses(60, 1)[0].astype({"age": float}))
    with patch("usnrt.tree.model.fit_weights", all_experts):
        model = USNRTEnsemble(USNRTRegressor(min_samples_leaf=150, **SMALL), n_estimators=3, random_state=0).fit(*table)
    assert {"memory", "forest", "linear"} <= set(model.model_.expert_names)
    with pytest.raises(ValueError, match=r"predicts with targets of training rows \(memory and forest\)"):
        model_data(model, "m")
    assert_same(predict(model, X, above=250.0), model, X, above=250.0)
    assert "explanation" in predict(model, X[:1], explain=True)[0]


@pytest.mark.parametrize("how", [
    {"target_bounds": (100.0, 400.0)}, {"target_bounds": (0, None), "target_transform": "log"},
])  # fmt: skip
def test_bounds_and_logarithms_of_the_target(predict, table, houses, how):
    X, y = table
    model = USNRTRegressor(memory=False, **how, **SMALL).fit(X, np.clip(y, *how["target_bounds"]))
    new = strange(houses(60, 1)[0].astype({"age": float}))
    assert_same(predict(model, new, above=100.0), model, new, above=100.0)
    assert_same(predict(model, new, above=99.0), model, new, above=99.0)


def test_a_matrix_and_a_calibration_of_few_rows(predict):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) + np.where(X[:, 1] > 0, 1.0, 0.1) * rng.normal(size=len(X))
    model = USNRTRegressor(memory=False, min_samples_leaf=200, **SMALL).fit(X, y)
    model.calibrate(X[:12] + 1e-6, y[:12])
    frame = pd.DataFrame(X[:40], columns=["x0", "x1", "x2"])
    with pytest.warns(UserWarning, match="guarantee"):
        assert_same(predict(model, frame), model, X[:40])


def test_explanations_are_those_of_python(predict, table, houses):
    model = USNRTRegressor(memory=False, min_samples_leaf=150, **SMALL).fit(*table)
    X = strange(houses(12, 1)[0].astype({"age": float}))
    rows = predict(model, X, explain=True)
    unit = model.target_scale_.std
    for row, expected in zip(rows, model.explain(X)):
        for name in ("mean_contributions", "std_contributions"):
            for column, value in getattr(expected, name).items():
                assert row["explanation"][name][column] == pytest.approx(value, abs=1e-4 * unit), (name, column)
        for name in ("base_mean", "base_std", "mean_adjustment", "std_adjustment"):
            assert row["explanation"][name] == pytest.approx(getattr(expected, name), abs=1e-4 * unit), name
