"""``model.explain``: contributions that add up, planted truths, support, neighbours, advice, files."""

import json
import re
from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from usnrt import USNRTEnsemble, USNRTRegressor, load, uncertainty_importance
from usnrt.explain import RowExplanation
from usnrt.explain.rows import Evidence, advice
from usnrt.model.background import background_of, marginal_background_of
from usnrt.persistence import ModelFileError


def total(row: RowExplanation, kind: str) -> float:
    return (
        getattr(row, f"base_{kind}")
        + sum(getattr(row, f"{kind}_contributions").values())
        + getattr(row, f"{kind}_adjustment")
    )


@pytest.mark.parametrize("baseline", ["region", "table"])
def test_contributions_add_up_to_the_prediction(tree, make_planted, baseline):
    X = make_planted(40, 1)[0]
    X.loc[3, "x1"] = 40.0  # no support: wider, and a mean that is not extrapolated far
    X.loc[4, "kind"] = "new"
    X.loc[5, "day"] = pd.NaT
    mean, std = tree.predict(X, return_std=True)
    lower, upper = tree.predict_interval(X, 0.8).T
    explained = tree.explain(X, baseline=baseline, coverage=0.8)
    for i, row in enumerate(explained):
        assert total(row, "mean") == pytest.approx(mean[i], rel=1e-12, abs=1e-9)
        assert total(row, "std") == pytest.approx(std[i], rel=1e-12, abs=1e-9)
        assert (row.mean, row.std, row.lower, row.upper) == (mean[i], std[i], lower[i], upper[i])
        assert list(row.mean_contributions) == list(X.columns)  # a date is one column
        if i not in (3, 4, 5):
            assert row.std_adjustment == row.mean_adjustment == 0
    assert explained[3].std_adjustment > 0


def test_the_region_and_its_rule_are_those_of_the_model(tree, make_planted):
    X = make_planted(30, 1)[0]
    rules = dict(zip(tree.rules()["region"].tolist(), tree.rules()["rule"].tolist()))
    explained = tree.explain(X)
    assert [row.region for row in explained] == tree.apply(X).tolist()
    assert all(row.rule == rules[row.region] for row in explained)
    # The rows of a region share its average.
    base = {(row.region, row.base_mean, row.base_std) for row in explained}
    assert len(base) == len({row.region for row in explained})


def test_the_average_of_a_region_is_that_of_its_training_rows(tree, make_planted):
    X, _ = make_planted(1200, 0)
    std, region = tree.predict(X, return_std=True)[1], tree.apply(X)
    for row in tree.explain(X[:20]):
        own = std[region == row.region]
        assert abs(row.base_std - own.mean()) < 4 * own.std() / np.sqrt(32) + 1e-9


def test_planted_truths_against_the_table(tree, make_planted):
    X = make_planted(60, 2)[0]
    explained = tree.explain(X, baseline="table")
    size = {}
    for kind in ("mean", "std"):
        table = explained.table(kind)
        size[kind] = {name: np.abs(table[f"contribution of {name}"]).mean() for name in X.columns}
    assert max(size["std"], key=size["std"].get) == "x0"
    assert size["std"]["x0"] > 5 * max(value for name, value in size["std"].items() if name != "x0")
    assert max(size["mean"], key=size["mean"].get) == "x1"
    assert size["mean"]["x2"] < 0.1 * size["mean"]["x1"]
    # the mean is additive in x1: 200 (x1 - average of x1)
    found = explained.table("mean")["contribution of x1"]
    truth = 200 * (X["x1"] - tree.model_.kept.background[-1, :, 1].mean())
    assert np.corrcoef(found, truth)[0, 1] > 0.99
    assert np.polyfit(truth, found, 1)[0] == pytest.approx(1.0, abs=0.15)
    # signs: rows with x0 > 0 are more uncertain than the average, the others less
    found = explained.table("std")["contribution of x0"]
    assert (np.sign(found) == np.sign(X["x0"]))[np.abs(X["x0"]) > 0.2].all()


def test_a_row_is_explained_alike_alone_and_among_others(tree, make_planted):
    X = make_planted(20, 3)[0]
    together, alone, again = tree.explain(X), tree.explain(X.iloc[[7]]), tree.explain(X.iloc[::-1])
    for name in ("mean_contributions", "std_contributions", "std_errors", "base_std"):
        assert getattr(alone[0], name) == getattr(together[7], name) == getattr(again[12], name)


def test_more_rounds_make_smaller_errors(tree, make_planted):
    X = make_planted(10, 3)[0]
    once, often = tree.explain(X), tree.explain(X, rounds=8)
    few, many = (np.array([list(row.mean_errors.values()) for row in e]) for e in (once, often))
    assert many.mean() < 0.6 * few.mean()
    assert tree.explain(X, random_state=1)[0].std_contributions != once[0].std_contributions


def test_unsupported_rows_state_their_columns(tree, make_planted):
    X = make_planted(6, 1)[0]
    X.loc[0, "x1"] = 40.0
    X.loc[1, "kind"] = "new"
    X.loc[2, "x2"] = np.nan
    explained = tree.explain(X)
    assert re.fullmatch(r"x1 = 40 is above [\d.]+, the limit of its region", explained[0].unsupported[0])
    assert explained[1].unsupported == ["kind is a category that training did not have"]
    assert "x2 is missing, which it never was in training" in explained[2].unsupported
    supported = tree.predict_support(X)["supported"]
    assert [not row.unsupported for row in explained] == supported.tolist()
    widening = tree.predict_support(X)["widening"][0]
    assert explained[0].advice[0].startswith("More rows like this one: it does not resemble the training rows (x1 = 40")
    assert f"which makes the standard deviation {widening:.3g} times larger" in explained[0].advice[0]


def test_similar_rows_come_with_their_features(remembering, tmp_path):
    model, X, y = remembering
    assert model.expert_weights_[:, 1:].any(), "the memory should be used"
    explained = model.explain(X[:3] + 1e-3, n_neighbors=2)
    for i, row in enumerate(explained):
        assert len(row.neighbors) == 2
        assert row.neighbors[0]["position"] == i
        assert row.neighbors[0]["target"] == pytest.approx(y[i])
        assert list(row.neighbors[0]["features"].values()) == X[i].tolist()
    assert "noise that stays" in explained[0].advice[0] or "More rows" in explained[0].advice[0]
    model.save(tmp_path / "model.usnrt")
    again = load(tmp_path / "model.usnrt")
    assert again.explain(X[:3] + 1e-3, n_neighbors=2).to_dict() == explained.to_dict()
    json.dumps(explained.to_dict(), allow_nan=False)
    hidden = copy(model)
    hidden.model_ = replace(model.model_, kept=replace(model.model_.kept, examples=None))
    assert set(hidden.explain(X[:1])[0].neighbors[0]) == {"position", "weight", "target"}
    shown = str(explained[0])
    assert "\nmost similar training rows:\n  position 0, weight " in shown
    assert shown.count(f"{next(iter(explained[0].values))} = ") == 2 + 2  # contributions to std and mean, neighbours


def test_only_examples_are_kept_in_clear(remembering, tree):
    model, X, _ = remembering
    assert [values.shape for values in model.model_.kept.examples] == [model.row_positions_.shape] * 3
    np.testing.assert_array_equal(np.column_stack(model.model_.kept.examples), X[model.row_positions_])
    background = model.model_.kept.background
    assert background.shape == (model.n_leaves_ + 1, 32, 3)
    assert {tuple(row) for row in background.reshape(-1, 3)} <= {tuple(row) for row in X}
    assert (model.apply(background[0]) == model.tree_.leaves[0]).all()
    # predictions are those of memory=True: the parameter adds rows, it does not change the fit
    assert model._model_recipe().tree.memory is True


def test_without_memory_no_training_row_is_kept(ensemble):
    model, X, _ = ensemble
    assert model.model_.kept.examples is None
    background = model.model_.kept.background
    assert not {tuple(row) for row in background.reshape(-1, 3)} & {tuple(row) for row in X}
    explained = model.explain(X[:5])
    assert explained[0].neighbors is None
    for i, row in enumerate(explained):
        assert total(row, "std") == pytest.approx(model.predict(X[[i]], return_std=True)[1][0], rel=1e-12)
        share = model.predict_variance(X[[i]])
        share = share["epistemic"][0] / share["total"][0]
        assert f"{100 * share:.0f} % of the variance" in row.advice[0]


def test_the_two_backgrounds():
    rng = np.random.default_rng(0)
    raw = np.column_stack([rng.normal(size=400), rng.integers(0, 3, 400), np.where(rng.random(400) < 0.25, np.nan, 1)])
    leaf = (raw[:, 0] > 0).astype(int)
    rows = background_of(raw, leaf, 3)  # the third region has no rows: all rows stand for it
    assert (rows[0, :, 0] <= 0).all()
    assert (rows[1, :, 0] > 0).all()
    np.testing.assert_array_equal(rows[2], rows[3])
    made = marginal_background_of(raw, leaf, 2, np.array([False, True, False]))
    np.testing.assert_allclose(made[:2, :, 0].mean(axis=1), [raw[leaf == k, 0].mean() for k in (0, 1)], atol=0.1)
    assert set(made[2, :, 1]) <= {0.0, 1.0, 2.0}
    assert np.isnan(made[2, :, 2]).mean() == pytest.approx(0.25, abs=0.06)


def test_a_weight_is_a_repetition_in_the_background():
    rng = np.random.default_rng(0)
    raw, weight = rng.normal(size=(50, 2)), rng.integers(1, 4, 50)
    leaf = (raw[:, 0] > 0).astype(int)
    again = np.repeat(np.arange(50), weight)
    weighted = background_of(raw, leaf, 2, weight.astype(float))
    np.testing.assert_array_equal(weighted, background_of(raw[again], leaf[again], 2))
    numeric = np.zeros(2, dtype=bool)
    weighted = marginal_background_of(np.round(raw), leaf, 2, numeric, weight.astype(float))
    np.testing.assert_array_equal(weighted, marginal_background_of(np.round(raw)[again], leaf[again], 2, numeric))


def test_models_of_the_paper_are_explained_by_given_rows(paper_model):
    model, X = paper_model
    with pytest.raises(ValueError, match=r"^explain needs background rows, since this model kept none in fit; pass "):
        model.explain(X)
    row = model.explain(X[:1], background=X)[0]
    mean, std = model.predict(X[:1], return_std=True)
    assert total(row, "mean") == pytest.approx(mean[0], rel=1e-12)
    assert total(row, "std") == pytest.approx(std[0], rel=1e-12)
    assert row.unsupported == []
    assert row.advice == [
        "Not measured: a single tree without memory does not separate noise from lack of data. An ensemble would."
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"baseline": "mean"}, "baseline must be one of 'region', 'table', got 'mean'"),
        ({"coverage": 1.5}, "coverage must be in (0, 1), got 1.5"),
        ({"rounds": 0}, "rounds must be an int >= 1, got 0"),
        ({"n_neighbors": 0}, "n_neighbors must be an int in [1, 32], got 0"),
    ],
)
def test_arguments_are_checked(tree, make_planted, arguments, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        tree.explain(make_planted(3, 1)[0], **arguments)


@pytest.mark.parametrize(
    "change",
    [
        {"background": np.zeros((1, 32, 3))},
        {"background": np.zeros((2, 32, 4))},
        {"background": "rows"},
        {"examples": [np.zeros(3)] * 3},
        {"examples": "rows"},
        {"examples": [np.zeros(900)] * 2},
    ],
)
def test_invalid_files_are_refused(remembering, change, tmp_path):
    model = copy(remembering[0])
    model.model_ = replace(model.model_, kept=replace(model.model_.kept, **change))
    model.save(tmp_path / "model.usnrt")
    with pytest.raises(ModelFileError, match=r"do not fit together$|attribute '\w+' of class \w+ is invalid$"):
        load(tmp_path / "model.usnrt")


def test_the_text_of_a_row(tree, make_planted):
    X = make_planted(3, 1)[0]
    explained = tree.explain(X)
    text = repr(explained[0])
    assert text.startswith("row 0: ")
    for words in ("90 % interval", "region ", "support: ", "standard deviation: average of the region", "x1 = ",
                  "mean: average of the region", "what would narrow the interval:"):  # fmt: skip
        assert words in text
    assert repr(explained).startswith("explanation of 3 rows of price\n\nrow 0")
    assert len(explained.to_frame()) == 3
    assert explained[1:].table()["row"].tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"^kind must be 'std' or 'mean', got 'var'$"):
        explained.table("var")


def test_advice_says_only_what_is_measured():
    usual = Evidence(0.1, 1.0, 0.0, 2.0)
    assert advice(usual, []) == [
        "Probably noise that stays with these columns: uncertainty of the mean is only 10 % of the variance and "
        "similar training rows are as many and as close as usual. The targets of similar training rows have a standard "
        "deviation of 2. More rows would help little; further columns may."
    ]
    assert advice(usual._replace(density=-2.0), [])[0].startswith("More rows like this one: similar training rows are")
    assert "members" not in advice(usual._replace(epistemic=np.nan), [])[0]
    both = advice(usual._replace(epistemic=0.9, widening=3.0), ["x is above 1"])
    assert len(both) == 1  # the widening is epistemic: not counted twice


def test_examples_need_a_table_in_memory():
    sentence = r"^memory='examples' needs a table that fits in memory, got a larger one; use memory=True$"
    with pytest.raises(ValueError, match=sentence):
        USNRTRegressor(memory="examples")._check_takes_store()
    USNRTRegressor(memory=True)._check_takes_store()
    with pytest.raises(ValueError, match="^USNRTEnsemble needs a table in memory"):
        USNRTEnsemble(USNRTRegressor(memory="examples"))._check_takes_store()


def test_contributions_to_a_transformed_target_have_its_units():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 2))
    y = np.exp(3 * X[:, 0] + 0.3 * rng.normal(size=400))
    model = USNRTRegressor(
        hidden=(16, 8), max_epochs=5, memory=False, target_transform="log", random_state=0, n_jobs=1
    ).fit(X, y)
    mean, std = model.predict(X[:5], return_std=True)
    for i, row in enumerate(model.explain(X[:5])):
        assert total(row, "mean") == pytest.approx(mean[i], rel=1e-9)
        assert total(row, "std") == pytest.approx(std[i], rel=1e-9)
    assert uncertainty_importance(model, X, y, n_rows=20)["feature"][0] == "x0"
