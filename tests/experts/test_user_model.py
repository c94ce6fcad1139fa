"""Models of the user as experts: who knows gets the weight, who does not gets none, and intervals cover."""

import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import usnrt
from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.experts.user_model import _clone, draw_folds, model_names
from usnrt.persistence import ModelFileError
from usnrt.tables.training import TrainingTable

QUICK = {"hidden": (16,), "max_epochs": 10, "random_state": 0, "n_jobs": 1}


class Truth(RegressorMixin, BaseEstimator):
    """Knows the function that no network of ten epochs knows."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.sin(20.0 * np.asarray(X)[:, 0])


class Useless(RegressorMixin, BaseEstimator):
    """Predicts numbers that have nothing to do with the target."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return 3.0 * np.cos(1e4 * np.asarray(X)[:, 0])


class Memorizes(RegressorMixin, BaseEstimator):
    """Knows the targets of its training rows, and nothing else."""

    def fit(self, X, y):
        self.known_ = dict(zip(np.asarray(X)[:, 0].tolist(), y))
        return self

    def predict(self, X):
        return np.array([self.known_.get(value, 0.0) for value in np.asarray(X)[:, 0].tolist()])


def waves(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.sin(20.0 * X[:, 0]) + np.where(X[:, 1] > 0, 1.0, 0.1) * rng.normal(size=n)


def mixed(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "size": rng.normal(size=n).astype(np.float32),
            "rooms": rng.integers(1, 9, n),
            "town": pd.Categorical(rng.choice(["u", "v", "w"], n)),
            "kind": rng.choice(["x", "y"], n),
        }
    )
    y = 2.0 * X["size"] + 3.0 * (X["town"] == "u") + np.where(X["kind"] == "x", 0.2, 1.5) * rng.normal(size=n)
    return X, y


def pipeline():
    columns = make_column_transformer((OneHotEncoder(), ["town", "kind"]), (StandardScaler(), ["size", "rooms"]))
    return make_pipeline(columns, Ridge())


def test_a_model_that_knows_the_truth_gets_the_weight():
    X, y = waves()
    model = USNRTRegressor(experts=["network", "memory", Truth()], **QUICK).fit(X, y)
    assert (model.rules()["Truth"] >= 0.8).all()
    new, target = waves(4000, seed=1)
    low, high = model.predict_interval(new).T
    covered = (low <= target) & (target <= high)
    noisy = new[:, 1] > 0
    assert 0.86 < covered.mean() < 0.94
    assert 0.84 < covered[noisy].mean() < 0.95
    assert 0.84 < covered[~noisy].mean() < 0.95


@pytest.mark.parametrize("model", [Useless(), Memorizes()])
def test_a_model_that_knows_nothing_new_gets_no_weight(model):
    X, y = waves()
    with_it = USNRTRegressor(experts=["network", model], **QUICK).fit(X, y)
    without = USNRTRegressor(experts=["network"], **QUICK).fit(X, y)
    assert not any(member.further for member in with_it.model_.members)
    np.testing.assert_array_equal(with_it.predict_interval(X), without.predict_interval(X))


def test_a_model_alone_has_regions_and_calibrated_distributions():
    X, y = waves()
    model = USNRTRegressor(experts=[Truth()], random_state=0).fit(X, y)
    assert model.rules()["rule"].tolist()[0].startswith("x1 <=")
    assert model.n_leaves_ == 2
    assert (model.rules()["Truth"] == 1.0).all()
    new, target = waves(4000, seed=1)
    np.testing.assert_allclose(model.predict(new), np.sin(20.0 * new[:, 0]), atol=0.2)
    std = model.predict(new, return_std=True)[1]
    assert 7 < std[new[:, 1] > 0.1].mean() / std[new[:, 1] < -0.1].mean() < 13
    low, high = model.predict_interval(new).T
    assert 0.87 < ((low <= target) & (target <= high)).mean() < 0.93


def test_a_model_that_memorizes_is_not_believed():
    """By its training rows its errors are 0; out of fold they are the noise."""
    X, y = waves()
    model = USNRTRegressor(experts=[Memorizes()], random_state=0).fit(X, y)
    new, target = waves(2000, seed=1)
    low, high = model.predict_interval(new).T
    assert 0.86 < ((low <= target) & (target <= high)).mean() < 0.94


def test_a_pipeline_gets_the_table_as_it_was_given():
    X, y = mixed()
    model = USNRTRegressor(experts=[pipeline()], random_state=0).fit(X, y)
    fitted = model.model_.members[0].user_models[0]._model
    assert fitted.feature_names_in_.tolist() == X.columns.tolist()
    given = model.model_.members[0].user_models[0].form.decode(model._encode(X))
    pd.testing.assert_frame_equal(given, X)
    assert model.rules()["rule"].tolist() == ["kind = x", "kind = y"]
    weird = X.head(3).assign(town=["new", None, "u"], size=[np.nan, 0.0, 1e9])
    assert np.isfinite(model.predict(weird)).all()
    assert not model.predict_support(weird)["supported"].any()


def test_lightgbm_and_catboost():
    lightgbm, catboost = pytest.importorskip("lightgbm"), pytest.importorskip("catboost")
    X, y = mixed()
    light = lightgbm.LGBMRegressor(n_estimators=30, verbose=-1, n_jobs=1)
    cat = catboost.CatBoostRegressor(
        iterations=30, verbose=0, cat_features=["town", "kind"], thread_count=1, allow_writing_files=False
    )
    numeric = X.assign(kind=X["kind"].astype("category"))
    for own, table in ((light, numeric), (cat, X)):
        model = USNRTRegressor(experts=[own], random_state=0).fit(table, y)
        assert model.n_leaves_ == 2
        assert model.predict(table.head(5)).shape == (5,)
        assert model.rules()["experts"][0] == f"{type(own).__name__} alone"


def test_weights_are_repetitions_for_models_of_the_user():
    X, y = mixed(300)
    weight = np.random.default_rng(0).integers(1, 4, 300)
    again = np.repeat(np.arange(300), weight)
    for own in (pipeline(), Memorizes()):
        table = X if own.__class__.__name__ == "Pipeline" else X[["size"]]
        weighted = USNRTRegressor(experts=[own], random_state=0).fit(table, y, sample_weight=weight)
        repeated = USNRTRegressor(experts=[own], random_state=0).fit(table.iloc[again], y.iloc[again])
        np.testing.assert_array_equal(weighted.predict_interval(table), repeated.predict_interval(table))


def test_files_hold_models_of_the_user_only_when_asked_to(tmp_path):
    X, y = mixed()
    model = USNRTRegressor(experts=[pipeline()], random_state=0).fit(X, y)
    path = tmp_path / "model.usnrt"
    with pytest.raises(TypeError, match=r"^save needs user_models, .* for your models \(Ridge\); usnrt never pickles$"):
        model.save(path)
    assert not path.exists()
    with pytest.raises(TypeError, match="^user_models must return bytes, got str$"):
        model.save(path, user_models=repr)
    model.save(path, user_models=pickle.dumps)
    with pytest.raises(ModelFileError, match=r"it holds models of its author \(Ridge\); pass user_models"):
        usnrt.load(path)
    with zipfile.ZipFile(path) as archive:  # which members share
        assert [name for name in archive.namelist() if name.startswith("user_models")] == ["user_models/0.bin"]
    again = usnrt.load(path, user_models=pickle.loads)
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))


def test_onnx_is_refused_in_one_sentence():
    X, y = waves(200)
    model = USNRTRegressor(experts=[Ridge()], random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="^to_onnx needs a model of usnrt's own experts only, got one with Ridge$"):
        model.to_onnx()


def test_explanations_add_up():
    X, y = mixed()
    model = USNRTRegressor(experts=[pipeline()], random_state=0).fit(X, y)
    row = model.explain(X.head(1))[0]
    total = row.base_mean + sum(row.mean_contributions.values()) + row.mean_adjustment
    assert np.isclose(total, model.predict(X.head(1))[0])


def test_members_of_an_ensemble_share_the_models():
    X, y = waves(400)
    member = USNRTRegressor(experts=[Truth()])
    model = USNRTEnsemble(member, n_estimators=2, random_state=0, n_jobs=1).fit(X, y)
    assert len({id(own._model) for tree in model.model_.members for own in tree.user_models}) == 1
    new, target = waves(2000, seed=1)
    low, high = model.predict_interval(new).T
    assert 0.85 < ((low <= target) & (target <= high)).mean() < 0.95


def test_a_checkpoint_is_removed_and_changes_nothing(tmp_path):
    X, y = waves(400)
    plain = USNRTRegressor(experts=["network", Truth()], **QUICK).fit(X, y)
    stored = USNRTRegressor(experts=["network", Truth()], **QUICK).fit(X, y, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(plain.predict_interval(X), stored.predict_interval(X))


def test_a_model_that_returns_nonsense_is_named():
    class Nan(Useless):
        def predict(self, X):
            return np.full(len(X), np.nan)

    X, y = waves(100)
    with pytest.raises(ValueError, match=r"^Nan.predict must return one finite number per row, .* NaN or infinite"):
        USNRTRegressor(experts=[Nan()]).fit(X, y)


@pytest.mark.parametrize("experts", [[], ["networks"], ["network", "network"], [Ridge], "network", [3]])
def test_experts_are_checked_before_data_is_read(experts):
    with pytest.raises(ValueError, match="^experts must hold some of 'network', 'memory', 'forest', 'linear'"):
        USNRTRegressor(experts=experts).fit("no such table", None)


def test_experts_that_contradict_other_parameters():
    with pytest.raises(ValueError, match="^experts must hold 'network' if they hold 'memory', which guides it$"):
        USNRTRegressor(experts=["memory"]).fit(None, None)
    with pytest.raises(ValueError, match="^experts must not hold 'forest' if memory is False: it holds training rows$"):
        USNRTRegressor(experts=["network", "forest"], memory=False).fit(None, None)


def test_fit_leaves_the_parameter_as_it_was():
    X, y = waves(200)
    ridge = Ridge()
    model = USNRTRegressor(experts=[ridge], random_state=0).fit(X, y)
    assert model.experts[0] is ridge
    assert not hasattr(ridge, "coef_")
    assert clone(model).experts[0] is not ridge


def test_random_states_follow_from_the_seed():
    from sklearn.ensemble import ExtraTreesRegressor

    assert _clone(ExtraTreesRegressor(), 1).random_state == _clone(ExtraTreesRegressor(), 1).random_state
    assert _clone(ExtraTreesRegressor(random_state=5), 1).random_state == 5


def test_names_of_pipelines_are_those_of_their_last_steps():
    assert model_names([pipeline(), Ridge(), Truth()]) == ["Ridge", "Ridge 2", "Truth"]


def test_folds_keep_groups_together():
    group = np.repeat(np.arange(20), 3)
    none = np.zeros((60, 1))
    fold = draw_folds(TrainingTable(none, none, none[:, 0], none[:, 0], group=group), np.random.default_rng(0))
    assert all(len(set(fold[group == g])) == 1 for g in range(20))
    assert np.bincount(fold).tolist() == [12] * 5
