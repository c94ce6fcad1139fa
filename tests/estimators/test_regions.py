"""Regions as tables, and similar training rows."""

from copy import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from usnrt import PaperUSNRTRegressor, USNRTEnsemble, USNRTRegressor, load
from usnrt.calibration.conformal import conformal_bounds, rows_needed
from usnrt.calibration.groups import METHODS, ScoredRows, insufficient_calibration
from usnrt.estimators.regions import ratio_sentence, region_rows, rows_in_memory, similar_rows, uncertainty_ratio
from usnrt.memory.retrieval import N_NEIGHBORS, Neighbors
from usnrt.model.fitted import TrainingRows
from usnrt.persistence import ModelFileError
from usnrt.tree import Split, TreeBuilder, rules_table


def make_model(stds=(1.0, 4.0), n_rows=(30, 10)):
    builder = TreeBuilder(n_features=1)
    builder.add_root(sum(n_rows))
    builder.add_children(0, Split(0, 2.5, None, True, -7.0, -11.2, *n_rows, 25))
    for node, std in zip((1, 2), stds):
        builder.set_residuals(node, 0.0, std)
    column = SimpleNamespace(name="load", kind="numeric", categories=(), has_missing=False)
    return SimpleNamespace(tree_=builder.build()[0], columns_=[column])


@pytest.mark.parametrize("coverage", [0.01, 0.1, 0.5, 0.6, 0.8, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999])
def test_rows_needed_are_the_fewest_that_make_finite_bounds(coverage):
    n = rows_needed(coverage)
    assert np.isfinite(conformal_bounds(np.arange(float(n)), coverage)).all()
    assert np.isinf(conformal_bounds(np.arange(float(n - 1)), coverage)).all()


def test_regions_are_those_of_the_rules_the_least_certain_first():
    model = make_model()
    assert region_rows(model) == rules_table(model.tree_, model.columns_).rows()[::-1]
    assert [(row["region"], row["rule"], row["rows"]) for row in region_rows(model)] == [
        (2, "load > 2.5", 10),
        (1, "load <= 2.5", 30),
    ]
    assert type(region_rows(model)[0]["rows"]) is int
    assert region_rows(make_model(n_rows=(1.5, 2.0)))[0]["rows"] == 2.0


def test_the_ratio():
    assert uncertainty_ratio(make_model((3.0, 1.5))) == 2.0
    for unknown in (make_model((0.0, 1.0)), make_model((np.nan, 1.0)), SimpleNamespace()):
        assert np.isnan(uncertainty_ratio(unknown))
        assert ratio_sentence(uncertainty_ratio(unknown)) == ""


@pytest.mark.parametrize("by", ["region", "global"])
def test_lacking_rows_are_told_by_region_and_number(by):
    tree = make_model().tree_
    leaf = np.repeat([0, 1], [150, 300])
    calibration = METHODS[by](ScoredRows(np.linspace(-2, 2, 450), leaf, np.ones(450)), tree)
    assert insufficient_calibration(None, 0.9) is None
    assert insufficient_calibration(calibration, 0.9) is None
    if by == "global":
        assert insufficient_calibration(calibration, 0.99) is None
        expected = "in 2 of 2 regions, which have 450 calibration rows; 1,999 are needed"
    else:
        assert str(insufficient_calibration(calibration, 0.99)).endswith(
            "in 1 of 2 regions, which has 150 calibration rows; 199 are needed"
        )
        expected = "in 2 of 2 regions, which have 150 to 300 calibration rows; 1,999 are needed"
    assert str(insufficient_calibration(calibration, 0.999)) == f"the 99.9 % interval is infinite {expected}"


SMALL = {"hidden": (16, 8), "max_epochs": 5, "experts": ["network", "memory"], "validation": 1}
WITHOUT = {"hidden": (16, 8), "max_epochs": 5, "memory": False, "validation": 1}


def make_table(n=900, seed=0):
    """A step of the target in x0, so that similar rows have similar x0, and every third row twice."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    y = 10 * np.floor(4 * X[:, 0]) + 100 + 0.1 * rng.normal(size=n)
    X[n - n // 3 :], y[n - n // 3 :] = X[: n // 3], y[: n // 3]
    return X, y


@pytest.fixture(scope="module", params=["tree", "ensemble"])
def fitted(request):
    X, y = make_table()
    tree = USNRTRegressor(**SMALL, random_state=0)
    model = tree if request.param == "tree" else USNRTEnsemble(USNRTRegressor(**SMALL), n_estimators=2, random_state=0)
    return model.fit(X, y), X, y


def test_positions_are_those_of_the_users_table(fitted):
    model, X, y = fitted
    new = make_table(20, 1)[0]
    table = model.neighbors(new, n_neighbors=4)
    assert table["row"].tolist() == np.repeat(np.arange(20), 4).tolist()
    np.testing.assert_allclose(table["target"], y[table["position"]], rtol=1e-12)
    assert (table["position"] < 600).all()  # the first copy of repeated rows
    weight = table["weight"].reshape(20, 4)
    assert (np.diff(weight, axis=1) <= 0).all()
    assert (weight >= 0).all()
    # most of the weight is on rows of the same step
    same = np.floor(4 * X[table["position"], 0]) == np.floor(4 * new[table["row"], 0])
    assert np.average(same, weights=table["weight"]) > 0.8


def test_fewer_neighbors_are_the_first_of_all(fitted):
    model, X, _ = fitted
    every, first = model.neighbors(X[:3], n_neighbors=N_NEIGHBORS), model.neighbors(X[:3], n_neighbors=2)
    totals = np.bincount(every["row"], every["weight"])
    assert (totals <= 1 + 1e-12).all()
    if isinstance(model, USNRTRegressor):
        np.testing.assert_allclose(totals, 1)
    assert first["position"].tolist() == every["position"].reshape(3, -1)[:, :2].ravel().tolist()


def test_a_training_row_is_its_own_neighbor(fitted):
    model, X, _ = fitted
    table = model.neighbors(X[[5, 605]], n_neighbors=1)
    assert table["position"].tolist() == [5, 5]


def test_files_keep_neighbors(fitted, tmp_path):
    model, X, _ = fitted
    model.save(tmp_path / "model.usnrt")
    again = load(tmp_path / "model.usnrt")
    assert again.neighbors(X[:4]).rows() == model.neighbors(X[:4]).rows()
    assert rows_in_memory(again) == rows_in_memory(model) == 600
    assert again.rules()["experts"].tolist() == model.rules()["experts"].tolist()
    np.testing.assert_array_equal(again.expert_weights_, model.expert_weights_)


@pytest.mark.parametrize(
    "change",
    [
        {"kept": TrainingRows(positions=np.arange(10))},
        {"kept": TrainingRows(positions=np.arange(600.0))},
    ],
)
def test_invalid_files_are_refused(fitted, change, tmp_path):
    model = copy(fitted[0])
    model.model_ = replace(model.model_, **change)
    model.save(tmp_path / "model.usnrt")
    with pytest.raises(ModelFileError, match=r"do not fit together$|attribute '\w+' of class \w+ is invalid$"):
        load(tmp_path / "model.usnrt")


def test_rows_left_out_do_not_shift_positions():
    X, y = make_table()
    weight = np.ones(len(y))
    weight[:50] = 0
    model = USNRTRegressor(**SMALL, calibration_fraction=0.2, random_state=0).fit(X, y, weight)
    table = model.neighbors(X[:40], n_neighbors=N_NEIGHBORS)
    np.testing.assert_allclose(table["target"], y[table["position"]], rtol=1e-12)
    assert table["position"].min() >= 50
    assert rows_in_memory(model) == len(model.row_positions_) == 480


def test_models_without_memory_raise_one_sentence():
    X, y = make_table(300)
    model = USNRTRegressor(**WITHOUT, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"^neighbors needs a model with memory, got one fitted with memory=False$"):
        model.neighbors(X)
    ensemble = USNRTEnsemble(USNRTRegressor(**WITHOUT), n_estimators=2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"^neighbors needs a model with memory, got one fitted with memory=False$"):
        ensemble.neighbors(X)
    small = USNRTRegressor(**SMALL, random_state=0).fit(X[:100], y[:100])
    with pytest.raises(ValueError, match=r"^neighbors needs .*, got one without a memory that any region uses$"):
        small.neighbors(X)
    assert model.model_.memories == ensemble.model_.memories == small.model_.memories == []
    assert rows_in_memory(model) == 0
    assert model.row_positions_ is None
    assert not hasattr(PaperUSNRTRegressor(), "neighbors")


@pytest.mark.parametrize("n_neighbors", [0, N_NEIGHBORS + 1, 2.5, True])
def test_n_neighbors_is_checked(fitted, n_neighbors):
    model, X, _ = fitted
    with pytest.raises(ValueError, match=rf"^n_neighbors must be an int in \[1, {N_NEIGHBORS}\], got {n_neighbors}$"):
        model.neighbors(X, n_neighbors=n_neighbors)


class FakeMemory:
    """A memory that finds given rows."""

    def __init__(self, row, weight):
        self.found = Neighbors(np.array(row), np.array(weight), 10.0 * np.array(row))

    def neighbors(self, inputs, n_neighbors, n_threads):
        return self.found


def test_weights_of_several_memories_are_averaged():
    first = FakeMemory([[3, 1, 4], [2, -1, -1]], [[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    second = FakeMemory([[1, 7, 3], [2, 5, -1]], [[0.6, 0.3, 0.1], [0.9, 0.1, 0.0]])
    found = similar_rows([first, second], np.zeros((2, 1)), 3)
    assert found.row.tolist() == [[1, 3, 7], [2, 5, -1]]
    np.testing.assert_allclose(found.weight, [[0.45, 0.3, 0.15], [0.95, 0.05, 0.0]])
    np.testing.assert_array_equal(found.target, [[10.0, 30.0, 70.0], [20.0, 50.0, np.nan]])
