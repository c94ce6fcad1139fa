"""Every model of the library survives its file with the same bits, and hostile copies of it do not load."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import usnrt
from usnrt import USNRTEnsemble, USNRTRegressor, baselines
from usnrt.estimators.base import DistributionalRegressor
from usnrt.persistence import ModelFileError, load, read_manifest, save
from usnrt.persistence._classes import CLASSES, name_of
from usnrt.persistence._migration import migrated

SAMPLES = Path(__file__).parent / "data"
QUICK = {"random_state": 0, "n_jobs": 1}
MODELS = {
    "default": USNRTRegressor(min_samples_leaf=40, hidden=(16, 8), max_epochs=3, **QUICK),
    "no memory": USNRTRegressor(min_samples_leaf=40, hidden=(16, 8), memory=False, max_epochs=3, **QUICK),
    "paper": USNRTRegressor.paper(min_samples_leaf=40, max_epochs=3, **QUICK),
    "ensemble": USNRTEnsemble(USNRTRegressor(min_samples_leaf=60, hidden=(16, 8), max_epochs=2), n_members=2, **QUICK),
    "paper ensemble": USNRTEnsemble.paper(
        estimator=USNRTRegressor.paper(min_samples_leaf=60, max_epochs=2), n_members=2, **QUICK
    ),
    "hnn": baselines.HNNRegressor(max_epochs=2, **QUICK),
    "deep ensemble": baselines.DeepEnsembleRegressor(max_epochs=2, **QUICK),
    "dropout": baselines.MCDropoutRegressor(max_epochs=2, **QUICK),
    "concrete dropout": baselines.ConcreteDropoutRegressor(max_epochs=2, **QUICK),
    "evidential": baselines.EvidentialRegressor(max_epochs=2, **QUICK),
    "random forest": baselines.RandomForestVarianceRegressor(**QUICK),
    "extra trees": baselines.ExtraTreesVarianceRegressor(**QUICK),
}


def table(n=300):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "c": rng.choice(["x", "y", None], n),
            "d": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 400, n), unit="D"),
        }
    )
    return X, X["a"].to_numpy() + rng.normal(size=n) * np.where(X["c"] == "x", 2.0, 0.2)


def answers(model, X):
    dist = model.predict_dist(X)
    return [dist.mean(), dist.std(), dist.ppf([0.01, 0.5, 0.99]), dist.logpdf(0.3), model.predict_interval(X, 0.5)]


def parameters(model):
    return {name: value for name, value in model.get_params().items() if name != "estimator"}


@pytest.mark.parametrize("name", MODELS)
def test_the_same_predictions_to_the_last_bit(name, tmp_path):
    X, y = table()
    model = MODELS[name].fit(X, y)
    model.target_name_ = "y"
    model.save(tmp_path / "m.usnrt")
    loaded = usnrt.load(tmp_path / "m.usnrt")
    assert type(loaded) is type(model)
    assert loaded.target_name_ == "y"
    assert parameters(loaded) == parameters(model)
    for mine, yours in zip(answers(model, X), answers(loaded, X)):
        np.testing.assert_array_equal(yours, mine)
    loaded.save(tmp_path / "again.usnrt")
    assert (tmp_path / "again.usnrt").read_bytes() == (tmp_path / "m.usnrt").read_bytes()


def test_no_model_is_forgotten():
    public = [getattr(usnrt, name) for name in usnrt.__all__] + [getattr(baselines, name) for name in baselines.__all__]
    models = {kind for kind in public if isinstance(kind, type) and issubclass(kind, DistributionalRegressor)}
    assert {type(model) for model in MODELS.values()} == models
    assert [kind.__name__ for kind in models if name_of(kind) is None] == []


def test_every_class_of_the_table_exists():
    for name, (module, attribute) in CLASSES.items():
        assert name_of(getattr(importlib.import_module(module), attribute)) == name


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_file_of_every_format_version_keeps_loading(version):
    """If this fails, old files of users fail too: make `load` understand them, do not make the sample anew."""
    sys.path.insert(0, str(SAMPLES))
    try:
        from make_sample import houses
    finally:
        sys.path.pop(0)
    model = load(SAMPLES / f"model-v{version}.usnrt")
    said = json.loads((SAMPLES / f"model-v{version}.json").read_text())
    X, _ = houses(20, 1)
    mean, std = model.predict(X, return_std=True)
    # to 5 digits: matrix products of another processor round otherwise
    np.testing.assert_allclose(mean, said["mean"], rtol=1e-5)
    np.testing.assert_allclose(std, said["std"], rtol=1e-5)
    np.testing.assert_allclose(model.predict_interval(X, 0.8), said["interval"], rtol=1e-5, atol=1e-3)
    assert model.apply(X).tolist() == said["leaf"]
    assert model.target_name_ == "price"
    assert (model.calibration, model.hidden) == ("region", (16, 8))
    assert model.memory is (version >= 3)
    assert set(model.get_params()) == set(USNRTRegressor().get_params())
    assert repr(clone(model)) == repr(model)
    assert read_manifest(SAMPLES / f"model-v{version}.usnrt")["version"] == version
    assert np.isfinite(model.calibrate(*houses(300, 2)).predict(X)).all()


def test_a_model_of_the_paper_in_a_file_of_the_first_format():
    """The table of renames on a state as format 1 had it: two classes out of one, quantiles out of variances."""
    network = {"$object": "MLP", "state": {"sizes": {"$tuple": [2, 4, 12]}}}
    tree = {"$object": "TreeModel", "state": {"variance_network": network, "variance_params": [["leaf 0", "leaf 1"]]}}
    old = {"$object": "USNRTRegressor", "state": {"holdout": "node", "calibration": None, "alpha": 0.1, "model_": tree}}
    new = migrated(old, 1)
    assert new["$object"] == "PaperUSNRTRegressor"
    assert set(new["state"]) == {"alpha", "model_"}
    assert new["state"]["model_"] == {
        "$object": "QuantileTree", "state": {"quantile_network": network, "quantile_params": ["leaf 0", "leaf 1"]}
    }  # fmt: skip


def test_a_model_with_two_networks_in_a_file_of_the_second_format():
    member = {"$object": "USNRTRegressor", "state": {"alpha": 0.1, "mean_hidden": 1, "quantile_hidden": 2}}
    old = {"$object": "USNRTEnsemble", "state": {"estimator": member, "n_members": 3}}
    new = migrated(old, 2)
    assert new["state"]["estimator"]["state"] == {"alpha": 0.1, "hidden": 2, "memory": False}
    assert migrated(new, 3) is new


def test_parameters_that_matter_to_fit_only_have_their_defaults_after_loading(tmp_path):
    X, y = table()
    seen = []
    model = baselines.RandomForestVarianceRegressor(random_state=np.random.RandomState(0)).fit(X, y)
    save(model, tmp_path / "m.usnrt")
    assert load(tmp_path / "m.usnrt").random_state is None
    model = USNRTRegressor(max_epochs=1, callbacks=[seen.append], random_state=0).fit(X, y)
    save(model, tmp_path / "m.usnrt")
    assert load(tmp_path / "m.usnrt").callbacks is None
    assert seen


def test_an_unfitted_model_is_not_saved(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError, match="This USNRTRegressor instance is not fitted yet"):
        USNRTRegressor().save(tmp_path / "m.usnrt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.forest_.left.__setitem__(0, 0), "the forest is invalid"),
        (lambda m: m.forest_.right.__setitem__(0, 10**6), "the forest is invalid"),
        (lambda m: m.forest_.root.__setitem__(0, -1), "the forest is invalid"),
        (lambda m: m.forest_.feature.__setitem__(0, 10**6), "the forest splits on columns that do not exist"),
        (lambda m: object.__setattr__(m.forest_, "mean", np.zeros(2)), "the forest's array 'mean' has the wrong shape"),
        (lambda m: setattr(m.inputs_, "n_outputs_", 10**12), "the network inputs are inconsistent"),
    ],
)
def test_a_forest_that_would_read_outside_its_arrays(change, message, tmp_path):
    X, y = table(60)
    model = baselines.ExtraTreesVarianceRegressor(random_state=0).fit(X, y)
    change(model)
    save(model, tmp_path / "m.usnrt")
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "m.usnrt")
