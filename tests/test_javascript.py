"""An exported model predicts in JavaScript what it predicts in Python, by the script that the tutorial shows."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from usnrt import USNRTRegressor

FOLDER = Path(__file__).parent / "javascript"
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
TOLERANCE = 1e-5  # of the target's standard deviation: networks are float32 in a graph, float64 sums in Python


@pytest.fixture(scope="module")
def predict(tmp_path_factory):
    """A function that runs the script on a model and rows (JSON), in a folder with the npm package."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder = tmp_path_factory.mktemp("javascript")
    for name in ("package.json", "predict.js"):
        shutil.copy(FOLDER / name, folder)
    # the package has everything in it: no install script may fetch something from elsewhere
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=600)
    if done.returncode != 0 and not os.environ.get("USNRT_NEED_NODE"):
        pytest.skip(f"npm install failed, is there a registry? {done.stderr[-500:]}")
    assert done.returncode == 0, done.stderr

    def run(model, rows):
        model.to_onnx(folder / "model.onnx", levels=LEVELS)
        (folder / "rows.json").write_text(rows, encoding="utf-8")
        command = ["node", "predict.js", "model.onnx", "rows.json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return pd.DataFrame(json.loads(done.stdout))

    return run


def make_table(n, seed, strange=False):
    """Numbers, text and dates with missing values; `strange` rows also have an unseen category and a far number."""
    rng = np.random.default_rng(seed)
    cities = ["Oslo", "Rome", "Bonn", *(["Ω new"] if strange else [])]
    sold = pd.Timestamp("2021-03-01 08:00") + pd.to_timedelta(rng.integers(0, 1_000_000, n), "min")
    columns = {"size": rng.uniform(0, 10, n).round(2), "city": rng.choice(cities, n), "sold": sold}
    table = pd.DataFrame({**columns, "rooms": rng.integers(1, 6, n).astype(float)})
    for name in ("size", "city", "sold"):
        table.loc[rng.random(n) < 0.1, name] = None
    if strange:
        table.loc[:4, "size"] = 1e4
        table.loc[5:9, "rooms"] = None
    return table


def assert_same(found, model, X):
    mean, std = model.predict(X, return_std=True)
    atol = TOLERANCE * model.target_scale_.std
    np.testing.assert_allclose(found["mean"], mean, rtol=0, atol=atol)
    np.testing.assert_allclose(found["std"], std, rtol=0, atol=atol)
    quantiles = np.array(found["quantiles"].tolist())
    np.testing.assert_allclose(quantiles, model.predict_quantiles(X, LEVELS), rtol=0, atol=atol)
    np.testing.assert_array_equal(found["region"], model.apply(X))
    np.testing.assert_array_equal(found["supported"], model.predict_support(X)["supported"])


@pytest.mark.slow
def test_a_table_with_categories_dates_and_missing_values(predict):
    X = make_table(1200, 0)
    noise = np.where(X["city"] == "Rome", 3.0, 0.3) * np.random.default_rng(1).normal(size=len(X))
    model = USNRTRegressor.fast(random_state=0).fit(X, 2.0 * X["size"].fillna(5) + noise)
    assert model.n_leaves_ > 1
    new = make_table(200, 2, strange=True)
    found = predict(model, new.to_json(orient="records", date_format="iso"))
    assert_same(found, model, new)
    assert 0 < found["supported"].mean() < 1
    assert set(found["region"]) == set(model.rules()["region"])


@pytest.mark.slow
def test_a_matrix_of_numbers(predict):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (800, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) + np.where(X[:, 1] > 0, 1.0, 0.1) * rng.normal(size=len(X))
    model = USNRTRegressor.fast(random_state=0).fit(X, y)
    rows = [[None if np.isnan(value) else value for value in row] for row in X[:50].tolist()]
    assert_same(predict(model, json.dumps(rows)), model, X[:50])


@pytest.mark.slow
def test_the_predictions_are_those_of_the_rows_given(predict):
    """The comparison above would notice other rows."""
    X = make_table(400, 0)
    model = USNRTRegressor.fast(random_state=0).fit(X, X["rooms"] + np.random.default_rng(1).normal(size=len(X)))
    found = predict(model, X[:20].iloc[::-1].to_json(orient="records", date_format="iso"))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_same(found, model, X[:20])
