"""Every model of the library survives its file with the same bits, and hostile copies of it do not load."""

import contextlib
import copy
import dataclasses
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import usnrt
from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.estimators.base import DistributionalRegressor
from usnrt.experts.refine import Refinement
from usnrt.paper import baselines
from usnrt.persistence import ModelFileError, load, read_manifest, save
from usnrt.persistence._classes import CODEC

SAMPLES = Path(__file__).parent / "data"
QUICK = {"random_state": 0, "n_jobs": 1}
MODELS = {
    "default": USNRTRegressor(min_samples_leaf=40, hidden=(16, 8), max_epochs=3, **QUICK),
    "no memory": USNRTRegressor(min_samples_leaf=40, hidden=(16, 8), memory=False, max_epochs=3, **QUICK),
    "paper": USNRTRegressor.paper(min_samples_leaf=40, max_epochs=3, **QUICK),
    "ensemble": USNRTEnsemble(
        USNRTRegressor(min_samples_leaf=60, hidden=(16, 8), max_epochs=2), n_estimators=3, **QUICK
    ),
    "paper ensemble": USNRTEnsemble.paper(
        estimator=USNRTRegressor.paper(min_samples_leaf=60, max_epochs=2), n_estimators=2, **QUICK
    ),
    "hnn": baselines.HNNRegressor(max_epochs=2, **QUICK),
    "deep ensemble": baselines.DeepEnsembleRegressor(max_epochs=2, **QUICK),
    "dropout": baselines.MCDropoutRegressor(max_epochs=2, **QUICK),
    "concrete dropout": baselines.ConcreteDropoutRegressor(max_epochs=2, **QUICK),
    "evidential": baselines.EvidentialRegressor(max_epochs=2, **QUICK),
    "random forest": baselines.RandomForestVarianceRegressor(**QUICK),
    "extra trees": baselines.ExtraTreesVarianceRegressor(**QUICK),
}


def table(n=500):
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
def test_the_same_predictions_to_the_last_bit(name, tmp_path, monkeypatch):
    X, y = table()
    # All experts have weight, whatever these small models would choose.
    weights = np.array([[2, 5, 3, 1, 1], [5, 0, 5, 1, 1]])

    def given(*arguments):
        n_leaves, traits = arguments[-2:]
        own = np.resize(weights, (n_leaves, 5))[:, : len(traits)]
        return own / own.sum(axis=1, keepdims=True)

    monkeypatch.setattr("usnrt.tree.model.fit_weights", given)
    model = MODELS[name].fit(X, y)
    if name in ("default", "ensemble"):
        assert all(member.memory is not None for member in model.model_.members)
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
    assert [kind.__name__ for kind in models if CODEC.name_of(kind) is None] == []


def test_every_class_of_the_table_exists():
    for name, stored in CODEC.classes.items():
        assert CODEC.name_of(getattr(importlib.import_module(stored.module), name)) == name


def test_the_sample_file_predicts_as_on_the_day_it_was_made():
    """If a class in it has changed, make the sample anew (before the first release only)."""
    sys.path.insert(0, str(SAMPLES))
    try:
        from make_sample import houses
    finally:
        sys.path.pop(0)
    model = load(SAMPLES / "model-v4.usnrt")
    expected = json.loads((SAMPLES / "model-v4.json").read_text())
    X, _ = houses(20, 1)
    mean, std = model.predict(X, return_std=True)
    # to 4 digits: matrix products of another processor round otherwise; memories add errors of distances
    np.testing.assert_allclose(mean, expected["mean"], rtol=1e-4)
    np.testing.assert_allclose(std, expected["std"], rtol=1e-4)
    np.testing.assert_allclose(model.predict_interval(X, 0.8), expected["interval"], rtol=1e-4, atol=0.01)
    assert model.apply(X).tolist() == expected["leaf"]
    assert model.target_name_ == "price"
    assert set(model.get_params()) == set(USNRTRegressor().get_params())
    assert repr(clone(model)) == repr(model)
    assert read_manifest(SAMPLES / "model-v4.usnrt")["version"] == 4
    assert np.isfinite(model.calibrate(*houses(300, 2)).predict(X)).all()


def test_parameters_of_fits_only_have_defaults_after_loading(tmp_path):
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


def refusal(classes):
    """The sentence about an object of a class whose fields do not fit together, or are not what their schema says."""
    together = rf"the attributes of an object of class ({classes}) do not fit together"
    return rf"is not a model file that can be loaded: ({together}|attribute '\w+' of class ({classes}) is invalid)$"


def with_column(model, **changes):
    """Change the metadata of the first column, which is numeric."""
    model.encoder_.columns_[0] = dataclasses.replace(model.encoder_.columns_[0], **changes)


@pytest.mark.parametrize(
    ("change", "classes"),
    [
        (lambda m: m.forest_.left.__setitem__(0, 0), "FlatForest"),
        (lambda m: m.forest_.right.__setitem__(0, 10**6), "FlatForest"),
        (lambda m: m.forest_.root.__setitem__(0, -1), "FlatForest"),
        (lambda m: m.forest_.feature.__setitem__(0, 10**6), "ExtraTreesVarianceRegressor"),
        (lambda m: object.__setattr__(m.forest_, "mean", np.zeros(2)), "FlatForest"),
        (lambda m: setattr(m.inputs_, "n_outputs_", 10**12), "NetworkInputs"),
        (lambda m: with_column(m, rest=True), "Column"),
        (lambda m: with_column(m, categories=("a",), codes=(1.0, 2.0)), "Column"),
    ],
)
def test_a_forest_that_would_read_outside_its_arrays(change, classes, tmp_path):
    X, y = table(60)
    model = baselines.ExtraTreesVarianceRegressor(random_state=0).fit(X, y)
    change(model)
    save(model, tmp_path / "m.usnrt")
    with pytest.raises(ModelFileError, match=refusal(classes)):
        load(tmp_path / "m.usnrt")


@pytest.fixture(scope="module")
def remembering():
    """A model with a memory; tests change copies of its parts."""
    model = load(SAMPLES / "model-v4.usnrt")
    assert model.model_.memories
    assert model.expert_weights_[:, 1:].any()
    return model


def with_memory(model, **changes):
    with_trees(model, memory=dataclasses.replace(model.model_.trees.memory, **changes))


def with_trees(model, **changes):
    with_model(model, trees=dataclasses.replace(model.model_.trees, **changes))


def with_model(model, **changes):
    model.model_ = dataclasses.replace(model.model_, **changes)


def with_entry(array, at, value):
    changed = array.copy()
    changed[at] = value
    return changed


HOSTILE_MEMORIES = [
    lambda m, old: with_memory(m, metric=old.metric[1:]),
    lambda m, old: with_memory(m, metric=with_entry(old.metric, (0, 0), np.nan)),
    lambda m, old: with_memory(m, metric=old.metric.astype(np.float64)),
    lambda m, old: with_memory(m, metric=None),
    lambda m, old: with_memory(m, cells=old.cells[:, 1:]),
    lambda m, old: with_memory(m, cells=old.cells[0]),
    lambda m, old: with_memory(m, cells=with_entry(old.cells, (0, 0, 0), np.nan)),
    lambda m, old: with_memory(m, cells=with_entry(old.cells, (0, 0, 0), np.inf)),
    lambda m, old: with_memory(m, cells=old.cells.astype(np.float32)),
    lambda m, old: with_memory(m, centres=old.centres[:, 1:]),
    lambda m, old: with_memory(m, centres=old.centres.T.copy()),
    lambda m, old: with_memory(m, row=old.row[1:]),
    lambda m, old: with_memory(m, row=with_entry(old.row, 0, -5)),
    lambda m, old: with_memory(m, row=np.full_like(old.row, -1)),
    lambda m, old: with_memory(m, row=old.row.astype(np.int32)),
    lambda m, old: with_memory(m, target=old.target[1:]),
    lambda m, old: with_memory(m, target=with_entry(old.target, 0, np.nan)),
    lambda m, old: with_memory(m, target=old.target.astype(object)),
    lambda m, old: with_memory(m, log_weight=with_entry(old.log_weight, 0, -np.inf)),
    lambda m, old: with_memory(m, guide_mean=old.guide_mean[:2]),
    lambda m, old: with_memory(m, guide_std=np.zeros(3)),
    lambda m, old: with_memory(m, n_neighbors=10**9),
    lambda m, old: with_memory(m, n_probes=0),
    lambda m, old: with_memory(m, n_probes=2.0),
]


@pytest.mark.parametrize("change", HOSTILE_MEMORIES, ids=range(len(HOSTILE_MEMORIES)))
def test_a_memory_that_would_read_outside_its_arrays(change, remembering, tmp_path):
    model = copy.copy(remembering)
    change(model, model.model_.trees.memory)
    with contextlib.suppress(TypeError):  # what cannot be saved cannot be loaded
        save(model, tmp_path / "m.usnrt")
        with pytest.raises(ModelFileError, match=refusal("Retrieval")):
            load(tmp_path / "m.usnrt")


def other_encoding(old, **changes):
    encoding = copy.copy(old.encoding)
    vars(encoding).update(changes)
    return encoding


def of_more_columns(tree):
    changed = copy.copy(tree)
    changed.n_features = 99
    return changed


EXPERTS, NETWORKS, ENCODING = "ExpertTree", "ExpertTree|MLP", "PiecewiseLinear"
HOSTILE_TREES = [
    (lambda m, old: with_trees(m, network_of=old.network_of + 100), EXPERTS),
    (lambda m, old: with_trees(m, network_of=old.network_of - 100), EXPERTS),
    (lambda m, old: with_trees(m, network_of=old.network_of[1:]), EXPERTS),
    (lambda m, old: with_trees(m, network_of=old.network_of.astype(float)), EXPERTS),
    (lambda m, old: with_trees(m, expert_weights=old.expert_weights[:, :2]), EXPERTS),
    (lambda m, old: with_trees(m, expert_weights=2 * old.expert_weights), EXPERTS),
    (lambda m, old: with_trees(m, expert_weights=np.nan * old.expert_weights), EXPERTS),
    (lambda m, old: with_trees(m, expert_weights=np.tile([2.0, -1.0, 0.0], (len(old.network_of), 1))), EXPERTS),
    (lambda m, old: with_trees(m, memory=None), EXPERTS),
    (lambda m, old: with_trees(m, memory=5), EXPERTS),
    (lambda m, old: with_trees(m, params=[]), NETWORKS),
    (lambda m, old: with_trees(m, params=[one[1:] for one in old.params]), NETWORKS),
    (lambda m, old: with_trees(m, params=[old.params[0][::-1]]), NETWORKS),
    (lambda m, old: with_trees(m, network=dataclasses.replace(old.network, activation="os.system")), NETWORKS),
    (lambda m, old: with_trees(m, network=dataclasses.replace(old.network, sizes=(5, 16, 8, 12))), NETWORKS),
    (lambda m, old: with_trees(m, encoding=None), EXPERTS),
    (lambda m, old: with_memory(m, encoding=None), EXPERTS),
    (lambda m, old: with_trees(m, encoding=other_encoding(old, columns=old.encoding.columns + 99)), ENCODING),
    (lambda m, old: with_trees(m, encoding=other_encoding(old, slope=old.encoding.slope[1:])), ENCODING),
    (lambda m, old: with_trees(m, encoding=other_encoding(old, n_inputs=1e9)), ENCODING),
    (lambda m, old: with_trees(m, refinement=Refinement(*np.zeros((3, 1)))), "ExpertTree|Refinement"),
    (lambda m, old: with_trees(m, tree=of_more_columns(old.tree)), "ExpertTree|FittedModel|USNRTRegressor"),
]


@pytest.mark.parametrize(("change", "classes"), HOSTILE_TREES, ids=range(len(HOSTILE_TREES)))
def test_experts_that_would_read_outside_their_arrays(change, classes, remembering, tmp_path):
    model = copy.copy(remembering)
    change(model, model.model_.trees)
    save(model, tmp_path / "m.usnrt")
    with pytest.raises(ModelFileError, match=refusal(classes)):
        load(tmp_path / "m.usnrt")


SUPPORT, LANDMARKS, CALIBRATION, OTHER = "Support", "Landmarks", "GroupCalibration", "FittedModel"


def with_support(model, **changes):
    with_model(model, support=dataclasses.replace(model.model_.support, **changes))


def with_landmarks(model, **changes):
    with_support(model, landmarks=dataclasses.replace(model.model_.support.landmarks, **changes))


def with_calibration(model, **changes):
    with_model(model, calibration=dataclasses.replace(model.calibration_, **changes))


# `s` is the support and `c` the calibration; found by damaged files with right checksums
HOSTILE_SUPPORT = [
    (lambda m, s, c: with_support(m, low=s.low[:, 1:]), SUPPORT),
    (lambda m, s, c: with_support(m, above=s.above[1:]), SUPPORT),
    (lambda m, s, c: with_support(m, never_missing=s.never_missing[1:]), SUPPORT),
    (lambda m, s, c: with_support(m, missing_value_variance=s.missing_value_variance[:1]), SUPPORT),
    (lambda m, s, c: with_support(m, categorical=~s.categorical), SUPPORT),
    (lambda m, s, c: with_support(m, landmarks=7), SUPPORT),
    (lambda m, s, c: with_support(m, typical_variance=s.typical_variance[1:]), SUPPORT),
    (lambda m, s, c: with_landmarks(m, scale=s.landmarks.scale[1:]), LANDMARKS),
    (lambda m, s, c: with_landmarks(m, whitening=s.landmarks.whitening[1:]), LANDMARKS),
    (lambda m, s, c: with_landmarks(m, points=s.landmarks.points[:, 1:]), LANDMARKS),
    (lambda m, s, c: with_landmarks(m, points=s.landmarks.points[:0]), LANDMARKS),
    (lambda m, s, c: with_calibration(m, group_of_leaf=c.group_of_leaf + 99), CALIBRATION),
    (lambda m, s, c: with_calibration(m, group_of_leaf=c.group_of_leaf - 99), CALIBRATION),
    (lambda m, s, c: with_calibration(m, scores=c.scores[1:]), CALIBRATION),
    (lambda m, s, c: with_calibration(m, weights=c.weights[1:]), CALIBRATION),
    (lambda m, s, c: with_calibration(m, group_of_leaf=c.group_of_leaf[1:]), OTHER),
    (
        lambda m, s, c: with_support(
            m,
            typical_variance=s.typical_variance[1:],
            **{name: getattr(s, name)[1:] for name in ("low", "high", "below", "above")},
        ),
        OTHER,
    ),
]


@pytest.mark.parametrize(("change", "classes"), HOSTILE_SUPPORT, ids=range(len(HOSTILE_SUPPORT)))
def test_support_and_calibration_that_read_outside_arrays(change, classes, remembering, tmp_path):
    model = copy.copy(remembering)
    change(model, model.model_.support, model.calibration_)
    save(model, tmp_path / "m.usnrt")
    with pytest.raises(ModelFileError, match=refusal(classes)):
        load(tmp_path / "m.usnrt")


def test_caches_of_predictions_are_not_stored(remembering, tmp_path):
    save(remembering, tmp_path / "before.usnrt")
    rows = np.zeros((3, remembering.model_.inputs.n_outputs_), dtype=np.float32)
    raw = np.zeros((3, remembering.tree_.n_features))
    remembering.model_.trees.quantile_functions(raw, rows, without=np.arange(3))
    assert "_experts" in vars(remembering.model_.trees)
    assert {"_cell_panels"} <= set(vars(remembering.model_.trees.memory))
    save(remembering, tmp_path / "after.usnrt")
    assert (tmp_path / "after.usnrt").read_bytes() == (tmp_path / "before.usnrt").read_bytes()
