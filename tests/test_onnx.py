"""The ONNX graph predicts like the library: its steps one by one, and complete models of every kind."""

import copy
import dataclasses
import datetime
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import usnrt
from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.calibration.groups import GroupCalibration, standard_normal
from usnrt.cli._run import run as run_command
from usnrt.distributions import Mixture, Normal, QuantileDistribution, ResidualDistribution
from usnrt.experts.refine import Refinement
from usnrt.model.target import TargetScale
from usnrt.nn.forward import forward
from usnrt.nn.mlp import MLP
from usnrt.nn.quantile_functions import value_at
from usnrt.nn.quantiles import N_OUTPUTS, POSITIONS, quantile_function_mean, to_quantiles
from usnrt.onnx import _columns, _distributions, _export, _networks, feeds
from usnrt.onnx._graph import IR_VERSION, ML_DOMAIN, ML_OPSET, OPSET, Graph, ints
from usnrt.tables.survey import CALENDAR_PARTS, calendar_part
from usnrt.tree.split import Split
from usnrt.tree.structure import TreeBuilder

SAMPLES = Path(__file__).parent / "data"
LEVELS = (0.05, 0.5, 0.95)
SMALL = {"hidden": (16, 8), "max_epochs": 5, "min_samples_leaf": 100, "validation": 1, "n_jobs": 1}
PAPER = {"min_samples_leaf": 100, "max_epochs": 3, "n_jobs": 1}


def session_of(model):
    """A session with a valid model."""
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def run_graph(graph, inputs):
    """All outputs of a graph that a test has written."""
    opsets = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid(ML_DOMAIN, ML_OPSET)]
    model = onnx.helper.make_model(graph.make(), opset_imports=opsets, ir_version=IR_VERSION)
    return session_of(model).run(None, inputs)


def assert_same_predictions(model, X, levels=LEVELS, session=None, tolerance=1e-5):
    """Leaf exactly, all else within 1e-5 of the target's spread."""
    session = session or session_of(model.to_onnx(levels=levels))
    names = ["mean", "std", "region", "quantiles", "supported"]
    mean, std, region, quantiles, supported = session.run(names, feeds(model, X))
    np.testing.assert_array_equal(region, model.apply(X))
    np.testing.assert_array_equal(supported, model.predict_support(X)["supported"])
    assert quantiles.shape == (len(region), len(levels))
    expected = (*model.predict(X, return_std=True), model.predict_quantiles(X, levels))
    for found, wanted in zip((mean, std, quantiles), expected):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * model.target_scale_.std)


# -- whole models ---------------------------------------------------------------------------------------------------


def make_table(n, seed, strange=False):
    """Every kind of column; `strange` rows have categories, gaps and dates that the others do not have."""
    rng = np.random.default_rng(seed)
    more = ["Ω new"] if strange else []
    size = rng.normal(size=n).round(1)
    age = rng.uniform(0, 100, n)
    city = rng.choice(["Oslo", "Rome", "Bonn", "Nice", *more], n).astype(object)
    size[rng.random(n) < 0.1] = np.nan
    city[rng.random(n) < 0.1] = None
    kind = rng.choice(["s", "m", *more], n).astype(object)
    start = np.datetime64("1890-01-01T00:00" if strange else "2019-11-20T10:30")
    sold = start + rng.integers(0, 200 * 365 * 1440 if strange else 1000 * 1440, n).astype("timedelta64[m]")
    sold = sold.astype("datetime64[us]")
    if strange:
        age[rng.random(n) < 0.2] = np.nan
        kind[rng.random(n) < 0.2] = None
        sold[rng.random(n) < 0.2] = "NaT"
    columns = {"size": size, "city": city.tolist(), "mean": age, "kind": kind.tolist(), "sold": sold}
    columns["garden"] = rng.random(n) < 0.5
    return pl.DataFrame({**columns, "nothing": pl.Series([None] * n, dtype=pl.Float64)}, nan_to_null=True)


def make_target(table, seed):
    rng = np.random.default_rng(seed)
    noisy = table["city"].is_in(["Oslo", "Rome"]).fill_null(False).to_numpy()
    large = (table["size"] > 0).fill_null(False).to_numpy()
    std = np.where(noisy, 3.0, 0.3) * np.where(large, 3.0, 0.3)
    return 1000.0 + 0.02 * table["mean"].to_numpy() + std * rng.normal(size=len(table))


def test_ranks_and_inputs_that_are_left_out(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1200, 30))
    y = 2 * x[:, 0] - x[:, 1] + 2 * np.sin(2 * x[:, 2]) + 0.3 * rng.normal(size=1200)
    x[:, ::2] = np.exp(3 * x[:, ::2])
    model = USNRTRegressor(**SMALL, random_state=0).fit(x, y)
    member, new = model.model_.trees, x * rng.uniform(0.5, 3.0, x.shape)
    assert sum(len(knots) > 0 for knots in model.model_.inputs.knots_) == 15
    assert member.encoding.kept[:3].tolist() == [0, 1, 2]
    assert len(member.encoding.kept) < 10
    new[::7, 0] = np.nan
    assert_same_predictions(model, new)
    model.save(tmp_path / "model.usnrt")
    np.testing.assert_array_equal(usnrt.load(tmp_path / "model.usnrt").predict(new), model.predict(new))


@pytest.fixture(scope="module")
def table():
    return make_table(900, 0)


@pytest.fixture(scope="module")
def fitted(table):
    """Small models, ours and the paper's, alone and in ensembles."""
    trees = {"": USNRTRegressor(**SMALL, random_state=0), "paper ": USNRTRegressor.paper(**PAPER, random_state=0)}
    models = {f"{name}tree": tree for name, tree in trees.items()}
    models["tree without memory"] = USNRTRegressor(**SMALL, memory=False, random_state=0)
    for name, make in (("", USNRTEnsemble), ("paper ", USNRTEnsemble.paper)):
        member = clone(trees[name]).set_params(random_state=None, n_jobs=-1)
        models[f"{name}ensemble"] = make(estimator=member, n_estimators=3, random_state=0, n_jobs=1)
    y = make_target(table, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("usnrt.tree.model.fit_weights", lambda *arguments, **_: given_weights(*arguments[-2:]))
        return {name: model.fit(table, y) for name, model in models.items()}


def given_weights(n_leaves, traits):
    """Weights of the experts, all of them used, whatever a validation of these small models would choose."""
    of_region = [[3, 4, 1, 3, 2], [6, 0, 2, 1, 0], [0, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 1, 0, 8, 1]]
    weights = np.resize(of_region, (n_leaves, 5))[:, : len(traits)]
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.fixture(
    scope="module",
    params=[
        "tree", "tree, uncalibrated", "tree, global", "tree without memory", "paper tree", "paper tree, global",
        "ensemble", "ensemble, uncalibrated", "ensemble, global", "paper ensemble", "paper ensemble, global",
    ],
)  # fmt: skip
def model(request, fitted):
    """Every kind of model."""
    name, _, change = request.param.partition(", ")
    made = copy.copy(fitted[name])
    if name in ("tree", "ensemble"):
        assert all(member.memory is not None for member in made.model_.members)
        assert all(len(member.further) == 2 for member in made.model_.members)
    if change == "uncalibrated":
        made.model_ = dataclasses.replace(made.model_, calibration=None)
    elif change == "global":
        fresh = make_table(300, 2)
        made.calibrate(fresh, make_target(fresh, 3), by="global")
    assert made.n_leaves_ > 1
    return made


@pytest.fixture(scope="module")
def session(model):
    return session_of(model.to_onnx())


def test_many_rows(model, session, table):
    assert_same_predictions(model, table, session=session)


def test_missing_values_and_unseen_categories_and_dates(model, session):
    strange = make_table(400, 4, strange=True)
    assert len(set(model.apply(strange))) > 1
    assert_same_predictions(model, strange, session=session)


def test_one_row_at_a_time(model, session):
    strange = make_table(12, 5, strange=True)
    for row in range(len(strange)):
        assert_same_predictions(model, strange[row : row + 1], session=session)


def test_no_row_at_all(model, session, table):
    fed = {name: values[:0] for name, values in feeds(model, table).items()}
    mean, std, region, quantiles, supported = session.run(None, fed)
    assert mean.shape == std.shape == region.shape == supported.shape == (0,)
    assert quantiles.shape == (0, 3)


def test_other_levels_in_any_order(model, table):
    assert_same_predictions(model, table[:50], levels=[0.999, 0.5, 0.001, 0.2])


def test_a_loaded_model_gives_the_same_file(model, tmp_path):
    model.save(tmp_path / "model.usnrt")
    again = usnrt.load(tmp_path / "model.usnrt")
    assert again.to_onnx().SerializeToString() == model.to_onnx().SerializeToString()


# -- experts --------------------------------------------------------------------------------------------------------


def with_weights(member, *weights):
    """A tree with these weights of the network, the guided network and the memory, by region."""
    n_leaves = member.tree.n_leaves
    rows = np.resize(np.array(weights), (n_leaves, 3))
    return dataclasses.replace(member, expert_weights=rows).without_unused()


def set_trees(model, trees):
    model.model_ = dataclasses.replace(model.model_, trees=trees)


def loops_of(proto):
    return sorted(node.name or node.attribute[0].g.name for node in proto.graph.node if node.op_type == "Loop")


@pytest.mark.parametrize(
    "weights",
    [
        [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]], [[0.5, 0.5, 0.0]], [[0.3, 0.0, 0.7]],
        [[0.0, 0.4, 0.6]], [[1.0, 0.0, 0.0], [0.0, 0.6, 0.4]],
    ],
)  # fmt: skip
def test_any_weights_of_the_experts(fitted, weights):
    model = copy.copy(fitted["tree"])
    set_trees(model, with_weights(model.model_.trees, *weights))
    session = session_of(model.to_onnx())
    # Quantiles between similar rows of very different targets and little weight depend on the last digits of distances.
    tolerance = 2e-4 if np.max(weights, axis=0)[2] > 0 else 1e-5
    assert_same_predictions(model, make_table(200, 6), session=session, tolerance=tolerance)
    assert_same_predictions(model, make_table(100, 7, strange=True), session=session, tolerance=tolerance)


def test_experts_without_weight_are_left_out(fitted):
    model = copy.copy(fitted["tree"])
    memory = model.model_.trees.memory
    full = len(model.to_onnx().SerializeToString())
    set_trees(model, with_weights(fitted["tree"].model_.trees, [1.0, 0.0, 0.0]))
    assert model.model_.trees.memory is None
    without = model.to_onnx()
    assert not any("memory" in name for name in loops_of(without))
    assert len(without.SerializeToString()) < full - memory.cells.nbytes
    set_trees(model, with_weights(fitted["tree"].model_.trees, [0.0, 0.0, 1.0]))
    assert not any("network" in name for name in loops_of(model.to_onnx()))


def test_a_memory_of_fewer_rows_than_neighbours(fitted):
    """Cells with empty places, such that not all places of the nearest rows hold one."""
    model = copy.copy(fitted["tree"])
    memory = model.model_.trees.memory
    is_held = np.zeros(len(memory.row), dtype=bool)
    is_held[::61] = True
    n_cells, _, size = memory.cells.shape
    few = dataclasses.replace(
        memory, row=np.where(is_held, memory.row, -1), target=np.where(is_held, memory.target, np.nan),
        cells=np.where(is_held.reshape(n_cells, 1, size), memory.cells, np.float16(np.inf)),
    )  # fmt: skip
    assert 0 < few.n_rows < 30
    set_trees(model, dataclasses.replace(model.model_.trees, memory=few))
    assert_same_predictions(model, make_table(200, 6))


def test_weights_of_training_rows(fitted):
    model = copy.copy(fitted["tree"])
    memory = model.model_.trees.memory
    log_weight = np.random.default_rng(0).normal(size=len(memory.row))
    set_trees(model, dataclasses.replace(model.model_.trees, memory=dataclasses.replace(memory, log_weight=log_weight)))
    assert_same_predictions(model, make_table(200, 6))


def test_inputs_without_encoding(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    model = USNRTRegressor(**SMALL, n_bins=0, random_state=0)
    monkeypatch.setattr("usnrt.tree.model.fit_weights", lambda *arguments, **_: given_weights(*arguments[-2:]))
    model.fit(X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=400))
    assert model.model_.trees.memory is not None
    assert_same_predictions(model, rng.normal(size=(100, 3)))


@pytest.fixture(scope="module")
def numeric():
    """A model of nothing but numbers."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    X[rng.random(800) < 0.05, 0] = np.nan
    y = X[:, 2] + np.where(X[:, 0] > 0.3, 3.0, 0.3) * np.where(X[:, 1] > 0, 3.0, 0.3) * rng.normal(size=800)
    return USNRTRegressor(**SMALL, random_state=0).fit(X, y)


def test_a_table_of_numbers_is_one_matrix(numeric):
    (only,) = numeric.to_onnx().graph.input
    assert only.name == "X"
    assert only.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
    assert [d.dim_value or d.dim_param for d in only.type.tensor_type.shape.dim] == ["n", 3]


def test_rows_on_thresholds_and_next_to_them(numeric):
    tree = numeric.tree_
    inner = np.flatnonzero(np.isfinite(tree.threshold))
    assert len(inner) >= 2
    for node in inner:
        limit = tree.threshold[node]
        rows = np.random.default_rng(1).normal(size=(40, 3))
        for offset, value in enumerate((limit, np.nextafter(limit, np.inf), np.nextafter(limit, -np.inf), np.nan)):
            rows[offset::4, tree.feature[node]] = value
        assert_same_predictions(numeric, rows)


def test_numbers_far_outside_of_training(numeric):
    rows = np.array([[1e300, -1e300, 0.0], [-1e9, 1e9, 1e9], [0.0, 0.0, -1e300], [np.nan, np.nan, np.nan]])
    assert_same_predictions(numeric, rows)


def test_a_target_that_hardly_varies(numeric):
    still = copy.copy(numeric)
    still.model_ = dataclasses.replace(still.model_, target=TargetScale(7.0, 1e-100))
    X = np.random.default_rng(0).normal(size=(20, 3))
    mean, std, _, quantiles, _ = session_of(still.to_onnx()).run(None, {"X": X})
    assert (mean == 7.0).all()
    assert (quantiles == 7.0).all()
    # before the mean is added, which swallows all of it
    np.testing.assert_allclose(std, still._predict_dist(still._encode(X)).std(), rtol=1e-5)


def test_categories_of_integer_codes_and_an_empty_column():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.choice([1.5, -2.0, 7.0], 700), np.full(700, np.nan), rng.integers(0, 150, 700)])
    X[rng.random(700) < 0.1, 0] = np.nan
    y = np.where(X[:, 0] == 7.0, 5.0, 0.2) * rng.normal(size=700)
    model = USNRTRegressor(**SMALL, categorical_features=[0, 2], random_state=0).fit(X, y)
    assert model.tree_.category_row.max() >= 0
    session = session_of(model.to_onnx())
    assert [graph_input.name for graph_input in session.get_inputs()] == ["X"]
    rows = np.vstack([X, [[8.0, 0.0, 3.0], [1.5, 5.0, 1e6], [np.nan, np.nan, np.nan], [-2.0, 1.0, 0.5]]])
    assert_same_predictions(model, rows, session=session)
    # values of a column that was empty in training are ignored
    mean = session.run(["mean"], {"X": np.array([[7.0, np.nan, 3.0], [7.0, 1.0, 3.0]])})[0]
    np.testing.assert_allclose(mean[0], mean[1], rtol=1e-12)  # runtimes round rows of one batch differently


def test_categories_that_are_not_listed_belong_to_the_rest(tmp_path):
    """Tables larger than memory keep the most frequent categories; here, one of a small table is declared the rest."""
    rng = np.random.default_rng(0)
    X = np.array([rng.choice(["a", "b", "~"], 300), rng.choice([1.0, 2.0, 9.0], 300)], dtype=object).T
    y = np.where(X[:, 0] == "~", 5.0, 0.2) * rng.normal(size=300)
    model = USNRTRegressor(**SMALL, categorical_features=[1], random_state=0).fit(X, y)
    text, codes = model.encoder_.columns_
    model.encoder_.columns_ = [
        dataclasses.replace(text, rest=True),
        dataclasses.replace(codes, rest=True, codes=codes.codes[:-1]),
    ]
    new = np.array([["z", 2.0], ["b", 77.0], [None, None], ["z", 9.0]], dtype=object)
    listed = np.array([["~", 2.0], ["b", 9.0], [None, None], ["~", 9.0]], dtype=object)
    np.testing.assert_array_equal(model.predict(new), model.predict(listed))
    assert_same_predictions(model, new)
    model.save(tmp_path / "model.usnrt")
    np.testing.assert_array_equal(usnrt.load(tmp_path / "model.usnrt").predict(new), model.predict(new))


def test_nothing_but_text_and_no_split():
    X = np.array([["a", ""], ["b", "x"], ["a", "(missing)"]] * 20, dtype=object)
    model = USNRTRegressor(**SMALL, random_state=0).fit(X, np.random.default_rng(0).normal(size=60))
    assert model.n_leaves_ == 1
    rows = np.array([["a", ""], ["c", "x"], [None, None], ["b", "(missing)"]], dtype=object)
    # the empty string is a category of the second column, and so is the next thing to call a missing one
    assert feeds(model, rows)["x1"].tolist() == ["", "x", "(missing)_", "(missing)"]
    assert feeds(model, rows)["x0"].tolist() == ["a", "c", "", "b"]
    assert_same_predictions(model, rows)


# -- the file -------------------------------------------------------------------------------------------------------


def test_inputs_are_named_like_columns_and_tell_missing_values(model):
    inputs = {value.name: value for value in model.to_onnx().graph.input}
    assert list(inputs) == ["size", "city", "mean_", "kind", "sold", "garden", "nothing"]
    types = [value.type.tensor_type.elem_type for value in inputs.values()]
    number, text, whole = onnx.TensorProto.DOUBLE, onnx.TensorProto.STRING, onnx.TensorProto.INT64
    assert types == [number, text, number, text, whole, number, number]
    assert inputs["size"].doc_string == "a number; NaN if missing"
    assert inputs["city"].doc_string == "text; '' if missing"
    assert inputs["sold"].doc_string.endswith("since 1970-01-01; the smallest int64 if missing")


def test_metadata_of_the_file(numeric):
    made = numeric.to_onnx(levels=[0.1, 0.9])
    assert (made.producer_name, made.producer_version) == ("usnrt", usnrt.__version__)
    assert made.doc_string.startswith("A USNRTRegressor of usnrt. Inputs are the columns of a table")
    facts = {prop.key: json.loads(prop.value) for prop in made.metadata_props}
    assert facts["levels"] == [0.1, 0.9]
    assert facts["features"] == ["x0", "x1", "x2"]
    assert facts["types"] == ["number"] * 3
    assert facts["inputs"] == ["X"]
    described = {output.name: output.doc_string for output in made.graph.output}
    assert list(described) == ["mean", "std", "region", "quantiles", "supported"]
    assert described["quantiles"] == "quantiles at the levels 0.1, 0.9"


def test_written_file(numeric, tmp_path):
    path = tmp_path / "model.onnx"
    made = numeric.to_onnx(path)
    assert path.read_bytes() == made.SerializeToString()
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_the_command(numeric, tmp_path, capsys):
    numeric.save(tmp_path / "model.usnrt")
    arguments = ["export", str(tmp_path / "model.usnrt"), "--onnx", str(tmp_path / "model.onnx")]
    assert run_command(arguments) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'model.onnx'}\n"
    assert (tmp_path / "model.onnx").read_bytes() == numeric.to_onnx().SerializeToString()


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([0.5, 1.5], "levels must be in (0, 1), got 1.5"),
        ([], "levels must hold at least one level, got []"),
        ([[0.5]], "levels must be a number or a list, got (1, 1)"),
    ],
)
def test_bad_levels(numeric, levels, message, tmp_path):
    with pytest.raises(ValueError) as caught:
        numeric.to_onnx(tmp_path / "model.onnx", levels=levels)
    assert str(caught.value) == message
    assert list(tmp_path.iterdir()) == []


def test_a_model_must_be_fitted():
    with pytest.raises(NotFittedError, match="This USNRTRegressor instance is not fitted yet"):
        USNRTRegressor().to_onnx()


def test_without_onnx(numeric, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError) as caught:
        numeric.to_onnx()
    assert str(caught.value) == "to_onnx needs onnx: pip install 'usnrt[onnx]'"


def test_networks_that_no_file_can_hold(numeric, monkeypatch):
    monkeypatch.setattr(_export, "MAX_WEIGHTS", 1000)
    with pytest.raises(ValueError, match=r"^an ONNX file must be smaller than 2 GB, but the networks have 0.0 GB"):
        numeric.to_onnx()


def test_feeds_checks_the_table(numeric, model):
    with pytest.raises(ValueError, match="X has 2 features, but USNRTRegressor is expecting 3 features as input"):
        feeds(numeric, np.zeros((1, 2)))
    wrong = make_table(3, 0).with_columns(city=1.0)
    with pytest.raises(ValueError, match=r"^column 'city' must hold text as in fit, but it holds numbers$"):
        feeds(model, wrong)


def test_feeds_of_columns_without_a_value(model):
    fed = feeds(model, make_table(2, 0).with_columns(pl.lit(None).alias("city"), pl.lit(None).alias("sold")))
    assert fed["city"].tolist() == ["", ""]
    assert fed["sold"].tolist() == [np.iinfo(np.int64).min] * 2


# -- one step alone -------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_random_trees_route_like_the_library(seed):
    rng = np.random.default_rng(seed)
    n_categories = np.array([0, 3, 0, 5])
    trees = [random_tree(rng, n_categories) for _ in range(rng.integers(1, 4))]
    X = rng.integers(-3, 4, (60, 4)).astype(float)  # often exactly on a threshold
    X[:, n_categories > 0] = rng.integers(-1, 5, (60, 2))
    X[:, 1] = np.where(X[:, 1] >= 3, -1.0, X[:, 1])  # codes end below the number of categories
    X[rng.random(X.shape) < 0.2] = np.nan

    graph = Graph("test")
    numbers = graph.input("numbers", np.float64, ["n", 2])
    categories = {position: graph.input(f"categories{position}", np.int64, ["n"]) for position in (1, 3)}
    columns = _columns.EncodedColumns("numbers", numbers, [0, 2], categories)
    graph.output("leaf", _columns.find_leaves(graph, columns, trees, n_categories), np.int64, ["n", len(trees)])
    fed = {"numbers": X[:, [0, 2]]}
    for position in (1, 3):
        codes, n = X[:, position], n_categories[position]
        fed[f"categories{position}"] = np.where(np.isnan(codes), n + 1, np.where(codes < 0, n, codes)).astype(np.int64)
    (found,) = run_graph(graph, fed)
    np.testing.assert_array_equal(found, np.stack([tree.leaf_of(X) for tree in trees], axis=1))


def random_tree(rng, n_categories):
    """A tree of any shape, with thresholds on whole numbers, at infinity, and sets of categories."""
    builder = TreeBuilder(len(n_categories), n_categories)
    open_nodes = [builder.add_root(100.0)]
    for _ in range(rng.integers(0, 8)):
        node = open_nodes.pop(rng.integers(len(open_nodes)))
        feature = int(rng.integers(len(n_categories)))
        n_left = float(rng.integers(1, 99))
        left, threshold = None, float(rng.choice([-2, -1, 0, 1, 2, np.inf]))
        if n_categories[feature]:
            left = tuple(int(code) for code in np.flatnonzero(rng.random(n_categories[feature]) < 0.5))
            threshold = np.nan
        split = Split(feature, threshold, left, bool(rng.random() < 0.5), 1.0, -2.0, n_left, 100 - n_left, 1)
        open_nodes += builder.add_children(node, split)
    return builder.build()[0]


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=30))
def test_calendar_parts_like_the_library(microseconds):
    # in addition: ends of years and centuries, leap days and a missing date
    dates = ["1969-12-31T23:59:59.999999", "2000-02-29", "1900-03-01", "2100-02-28T23:59", "0000-01-01", "NaT"]
    moments = np.concatenate([np.array(microseconds, "datetime64[us]"), np.array(dates, "datetime64[us]")])
    (found,) = run_graph(calendar_graph(), {"moments": moments.astype(np.int64)})
    np.testing.assert_array_equal(found, np.stack([calendar_part(moments, part) for part in CALENDAR_PARTS], axis=1))


def test_every_day_of_eight_hundred_years():
    days = np.arange(np.datetime64("1599-12-01"), np.datetime64("2400-03-02"))
    moments = days.astype("datetime64[us]")
    (found,) = run_graph(calendar_graph(), {"moments": moments.astype(np.int64)})
    np.testing.assert_array_equal(found, np.stack([calendar_part(moments, part) for part in CALENDAR_PARTS], axis=1))
    last = datetime.date(2400, 3, 1)
    assert found[-1].tolist() == [last.year, last.month, last.day, last.weekday(), 0, 0]


def calendar_graph():
    graph = Graph("test")
    moments = graph.input("moments", np.int64, ["n"])
    parts = [_columns._calendar_part(graph, moments, part) for part in CALENDAR_PARTS]
    graph.output("parts", graph.concat([part.unsqueeze(1) for part in parts], axis=1), np.float64, ["n", len(parts)])
    return graph


def test_the_normal_cdf():
    graph = Graph("test")
    z = graph.input("z", np.float64, ["n"])
    graph.output("cdf", _distributions._normal_cdf(graph, z), np.float64, ["n"])
    values = np.linspace(-7, 7, 5000)
    (found,) = run_graph(graph, {"z": values})
    np.testing.assert_allclose(found, ndtr(values), rtol=1e-8, atol=0)
    np.testing.assert_allclose(found, ndtr(values), rtol=0, atol=1e-15)
    beyond = np.array([-np.inf, -1e3, -8.0, 8.0, 1e3, np.inf])
    np.testing.assert_allclose(run_graph(graph, {"z": beyond})[0], ndtr(beyond), rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 30.0]))
def test_mixture_quantiles_like_the_library(seed, apart):
    rng = np.random.default_rng(seed)
    levels = np.array([0.001, 0.3, 0.5, 0.95, 0.9999])
    means, stds = apart * rng.normal(size=(20, 4)), np.exp(rng.normal(size=(20, 4)))
    means[0], stds[0] = means[0, 0], stds[0, 0]  # members that agree leave no bracket
    graph = Graph("test")
    inputs = [graph.input(name, np.float64, ["n", 4]) for name in ("means", "stds")]
    quantiles = _distributions._mixture_quantiles(graph, *inputs, levels)
    graph.output("quantiles", quantiles, np.float64, ["n", 5])
    (found,) = run_graph(graph, {"means": means, "stds": stds})
    mixture = Mixture([Normal(mean, std) for mean, std in zip(means.T, stds.T)])
    # Between two modes that are far apart hardly any probability lies: there only the probability is determined.
    near = np.isclose(found, mixture.ppf(levels), rtol=0, atol=1e-6 * max(apart, 1.0))
    exact = np.isclose(mixture.cdf(found), levels, rtol=0, atol=1e-12)
    assert (near | exact).all()
    assert near.mean() > 0.7


def random_quantile_functions(rng, n):
    """Quantile functions of any skewness; some have flat segments, or a hundred times as steep as others."""
    outputs = rng.normal(size=(n, N_OUTPUTS)) * np.array([1.0, 2.0] + [1.5] * (N_OUTPUTS - 2))
    made = to_quantiles(outputs)
    made[0, 3:7] = made[0, 3]
    made[1] = made[1, 0]
    return made


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["none", "one", "many", "many, mean of knots"]))
def test_calibrated_quantile_functions_like_the_library(seed, groups):
    rng = np.random.default_rng(seed)
    draws = [rng.normal(size=50), rng.standard_exponential(size=200) - 3.0, rng.standard_t(2, size=80) + 4.0]
    residuals = [ResidualDistribution.from_residuals(draw) for draw in draws]
    calibration = {
        "none": None,
        "one": GroupCalibration(np.zeros(4, dtype=np.int64), residuals[1:2], [], []),
        "many": GroupCalibration(np.array([1, 0, 2, 0]), residuals, [], []),
        "many, mean of knots": GroupCalibration(np.array([1, 0, 2, 0]), residuals, [], [], mean_of_knots=True),
    }[groups]
    model = SimpleNamespace(calibration=calibration, target=TargetScale(5.0, 2.0))
    levels = np.array([0.999, 1e-4, 0.05, 0.5])
    quantiles, leaf = random_quantile_functions(rng, 20), rng.integers(0, 4, 20)
    graph = Graph("test")
    inputs = [graph.input("quantiles", np.float64, ["n", len(POSITIONS)]), graph.input("leaf", np.int64, ["n"])]
    outputs = _distributions.quantile_outputs(graph, model, *inputs, levels)
    for name, output, shape in zip(("m", "s", "q"), outputs, (["n"], ["n"], ["n", 4])):
        graph.output(name, output, np.float64, shape)
    found = run_graph(graph, {"quantiles": quantiles, "leaf": leaf})
    if calibration is None:
        expected = QuantileDistribution(quantiles, POSITIONS, np.zeros_like(leaf), [standard_normal()])
    else:
        expected = calibration.distribution(quantiles, leaf)
    expected = expected.scaled(5.0, 2.0)
    spread = np.ptp(quantiles, axis=1)[:, None] + np.abs(quantiles).max(axis=1, keepdims=True)
    np.testing.assert_allclose(found[0] / spread[:, 0], expected.mean() / spread[:, 0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[1] / spread[:, 0], expected.std() / spread[:, 0], rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(found[2] / spread, expected.ppf(levels) / spread, rtol=1e-9, atol=1e-9)


def test_shrunk_quantile_functions_like_the_library():
    rng = np.random.default_rng(0)
    quantiles, factor = random_quantile_functions(rng, 50), rng.uniform(0.05, 3.0, 50)
    factor[:2] = 1.0, 1.5 / 2.5
    graph = Graph("test")
    inputs = [graph.input("quantiles", np.float64, ["n", len(POSITIONS)]), graph.input("factor", np.float64, ["n"])]
    graph.output("shrunk", _distributions._shrunk(graph, *inputs), np.float64, ["n", len(POSITIONS)])
    (found,) = run_graph(graph, {"quantiles": quantiles, "factor": factor})
    expected = value_at(quantiles, POSITIONS, factor[:, None] * POSITIONS)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(quantiles).max())


def test_refined_quantile_functions_like_the_library():
    rng = np.random.default_rng(0)
    outputs = 2.0 * rng.normal(size=(30, 2, N_OUTPUTS))
    outputs[0] *= 100.0  # where limits hold
    quantiles = to_quantiles(outputs.reshape(60, -1)).reshape(30, 2, -1)
    leaves = np.column_stack([rng.integers(0, 3, 30), rng.integers(0, 2, 30)])
    members = [
        SimpleNamespace(
            tree=SimpleNamespace(n_leaves=k),
            refinement=Refinement(rng.uniform(size=k), rng.normal(size=k), rng.uniform(size=k), -k, 2.0 * k),
        )
        for k in (3, 2)
    ]
    graph = Graph("test")
    given = graph.input("outputs", np.float64, ["m", N_OUTPUTS])
    member_quantiles = graph.op("Reshape", _networks.to_quantiles(graph, given), ints(-1, 2, len(POSITIONS)))
    means = _networks.weighted(member_quantiles, _networks.MEAN_WEIGHTS)
    leaf = graph.input("leaves", np.int64, ["n", 2])
    refined = _networks.refined(graph, members, leaf, means, member_quantiles)
    graph.output("refined", refined, np.float64, ["n", 2, len(POSITIONS)])
    (found,) = run_graph(graph, {"outputs": outputs.reshape(60, -1), "leaves": leaves})
    expected = np.stack(
        [
            member.refinement.apply(leaves[:, m], quantile_function_mean(quantiles[:, m]), quantiles[:, m])
            for m, member in enumerate(members)
        ],
        axis=1,
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(quantiles).max())


@pytest.mark.parametrize("activation", ["relu", "tanh", "algebraic"])
@pytest.mark.parametrize("output", ["linear", "softplus", "exp"])
def test_networks_like_the_library(activation, output):
    network = MLP((5, 7, 3, 1), activation, output)
    rng = np.random.default_rng(0)
    leaves = [[network.init(rng) for _ in range(2)] for _ in range(3)]
    x = (3 * rng.normal(size=(40, 5))).astype(np.float32)
    x[0] *= 1000
    graph = Graph("test")
    outputs = _networks._forward(
        graph, network, leaves, graph.input("x", np.float32, ["n", 5]), graph.input("leaf", np.int64, [])
    )
    graph.output("outputs", outputs, np.float32, [2, "n", 1])
    (found,) = run_graph(graph, {"x": x, "leaf": np.array(1)})
    expected = np.stack([forward(network, params, x) for params in leaves[1]])
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
