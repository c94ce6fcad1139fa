"""``usnrt.compare``: planted winners, ties, failures, Ctrl-C, all kinds of models, formats."""

import json
import re
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import usnrt
from usnrt.comparison import Comparison
from usnrt.comparison.models import contenders, installed_models
from usnrt.comparison.peers import ConformalBoosterRegressor
from usnrt.comparison.regions import find_regions
from usnrt.comparison.words import details, headline, notes
from usnrt.distributions import Normal
from usnrt.tables import TableEncoder


class Oracle(RegressorMixin, BaseEstimator):
    """Knows that the target is the first column plus noise; its mean and its spread may be wrong."""

    def __init__(self, std=1.0, shift=0.0):
        self.std, self.shift = std, shift

    def fit(self, X, y):
        return self

    def predict_dist(self, X):
        return Normal(np.asarray(X)[:, 0] + self.shift, self.std)


class Fails(Oracle):
    def fit(self, X, y):
        raise RuntimeError("no\n luck")


class Interrupts(Oracle):
    def fit(self, X, y):
        raise KeyboardInterrupt


class Quantiles(BaseEstimator):
    """Only ``predict_quantiles``, as in skpro."""

    def fit(self, X, y):
        return self

    def predict_quantiles(self, X, alpha):
        return pd.DataFrame(Normal(np.asarray(X)[:, 0], 1.0).ppf(np.asarray(alpha)))


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, X[:, 0] + rng.normal(size=n)


@pytest.fixture(scope="module")
def result():
    models = {"far": Oracle(shift=1.0), "true": Oracle(), "same": Oracle(), "broken": Fails(), "flat": "constant"}
    return usnrt.compare(*table(), models, folds=4)


def test_the_planted_winner_wins_and_equal_models_are_tied(result):
    assert result.best == "true"
    assert result.table["model"].tolist() == ["true", "same", "flat", "far", "broken"]
    row = dict(zip(result.table["model"], result.table["tie"]))
    assert row == {"true": True, "same": True, "flat": False, "far": False, "broken": False}
    assert result.table["difference"][1] == 0.0
    assert result.verdict.startswith(
        "true has the lowest CRPS, but is tied with same. Within the error of the difference: same (0)."
    )
    assert "The next is behind: flat by " in result.verdict


def test_metrics_are_those_of_the_library(result):
    X, y = table()
    dist = Normal(X[:, 0], 1.0)
    expected = usnrt.evaluate(dist, y=y)
    values = dict(zip(expected["metric"], expected["value"]))
    row = result.table.row(0)
    for name, metric in {"crps": "crps", "rmse": "rmse", "coverage": "coverage_90", "width": "width_90"}.items():
        assert row[name] == pytest.approx(values[metric]), name
    assert row["interval_score"] == pytest.approx(values["interval_score_90"])
    assert row["fit_seconds"] >= 0


def test_a_model_that_fails_has_its_row_and_the_others_go_on(result):
    assert result.errors == {"broken": "RuntimeError: no luck"}
    assert result.table["error"].tolist()[-1] == "RuntimeError: no luck"
    assert np.isnan(result.table["crps"][-1])
    assert "broken failed: RuntimeError: no luck." in notes(result)
    assert "failed" in repr(result)


def test_the_verdict_names_a_winner_with_its_lead():
    X, y = table(2000)
    found = usnrt.compare(X, y, {"usnrt": Oracle(shift=0.5), "CatBoost": Oracle()})
    match = re.fullmatch(r"CatBoost is best by CRPS, ahead of usnrt by (0\.\d+) ± (0\.\d+)\.", found.verdict)
    assert match
    truth = found.differences()["difference"][1]
    assert float(match[1]) == pytest.approx(truth, abs=0.002)


def test_a_wrong_spread_is_seen_in_the_coverage():
    found = usnrt.compare(*table(1000), {"narrow": Oracle(std=0.3), "wide": Oracle(std=9.0)})
    coverage = dict(zip(found.table["model"], found.table["coverage"]))
    assert coverage["narrow"] < 0.5
    assert coverage["wide"] == 1.0
    assert "The 90 % intervals of narrow hold" in found.verdict.replace("\u00a0", " ")


def test_ctrl_c_keeps_what_is_done(capsys):
    models = {"true": Oracle(), "slow": Interrupts(), "later": Oracle()}
    found = usnrt.compare(*table(), models, verbose=1)
    assert found.interrupted
    assert found.best == "true"
    assert set(found.errors) == {"slow", "later"}
    assert "stopped; the models that are done are compared" in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        usnrt.compare(*table(), {"slow": Interrupts(), "later": Oracle()})


def test_all_kinds_of_models():
    models = {
        "points": LinearRegression(),
        "std": make_pipeline(StandardScaler(), BayesianRidge()),
        "quantiles": Quantiles(),
        "search": GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=2),
        "pipeline": make_pipeline(StandardScaler(), Oracle(std=1.2)),
        "named": "constant",
    }
    X, y = table(600)
    found = usnrt.compare(pd.DataFrame(X, columns=["a", "b"]), pd.Series(y, name="price"), models)
    assert found.errors == {}
    assert found.target == "price"
    crps = dict(zip(found.table["model"], found.table["crps"]))
    assert crps["named"] > 1.2 * crps["points"]
    for name in ("points", "std", "quantiles", "search"):  # all of them near the truth
        assert crps[name] == pytest.approx(1 / np.sqrt(np.pi), rel=0.15), name
    coverage = dict(zip(found.table["model"], found.table["coverage"]))
    # 150 test rows and 90 calibration rows: standard errors of 2.4 and 3.2 points
    assert all(0.78 < coverage[name] < 1 for name in ("points", "std", "quantiles", "search"))
    assert any("points" in line and "point forecasts, with split conformal intervals" in line for line in notes(found))


def test_the_same_seed_gives_the_same_comparison():
    X, y = table(200)
    models = {"tree": DecisionTreeRegressor(max_features=1, splitter="random"), "flat": "constant"}
    first, second, other = (usnrt.compare(X, y, models, folds=2, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.table["crps"], second.table["crps"])
    assert first.table["crps"][0] != other.table["crps"][0]


def test_the_latest_rows_are_the_test_rows():
    X, y = table(400)
    frame = pd.DataFrame({"a": X[:, 0], "day": np.arange(400)[::-1]})
    found = usnrt.compare(frame, y, {"flat": "constant"}, time="day")
    assert found.splits.folds[0][1].tolist() == list(range(100))
    assert "the latest rows are test rows" in repr(found)


def test_regions_are_those_of_the_noise_and_the_worst_is_named():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 3))
    y = X[:, 0] + np.where(X[:, 1] > 0, 3.0, 0.3) * rng.normal(size=3000)
    found = usnrt.compare(X, y, {"one spread": Oracle(std=2.0)})
    assert [rule.split(" ")[0] for rule in found.rules] == ["x1", "x1"]
    assert all(abs(float(rule.split(" ")[-1])) < 0.1 for rule in found.rules)
    # P(|3 e| < 1.645 * 2) = 72.7 % where the noise is large
    assert found.table["worst_gap"][0] == pytest.approx(0.727 - 0.9, abs=0.08)
    assert found.table["worst_region"][0].startswith("x1 > ")
    assert found.gap_by_chance < 0.03


def test_regions_with_categories_and_missing_values():
    rng = np.random.default_rng(0)
    letter = rng.choice(["a", "b", "c"], 1200)
    frame = pd.DataFrame({"letter": letter, "x": np.where(rng.random(1200) < 0.2, np.nan, rng.normal(size=1200))})
    y = np.where(letter == "b", 5.0, 0.2) * rng.normal(size=1200)
    encoder = TableEncoder().fit(frame)
    regions = find_regions(encoder, encoder.transform(frame), y, np.arange(900), 300, 0)
    assert "letter = b" in regions.rules
    noisy = regions.region[letter == "b"]
    assert len(set(noisy)) == 1
    assert noisy[0] not in regions.region[letter != "b"]


def test_skewed_noise_is_one_region():
    rng = np.random.default_rng(6)  # Levene's test about the means found two regions
    X, y = rng.normal(size=(1200, 5)), rng.poisson(0.2, 1200).astype(float)
    encoder = TableEncoder().fit(X)
    assert find_regions(encoder, encoder.transform(X), y, np.arange(900), 300, 0).rules == ["all rows"]


def test_regions_of_a_table_with_a_column_without_values():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=1200), np.full(1200, np.nan)])
    encoder = TableEncoder().fit(X)
    y = np.where(X[:, 0] > 0, 5.0, 0.2) * rng.normal(size=1200)
    regions = find_regions(encoder, encoder.transform(X), y, np.arange(900), 300, 0)
    assert {rule.split(" ")[0] for rule in regions.rules} == {"x0"}


def test_formats(result, tmp_path):
    assert isinstance(result, Comparison)
    text = json.dumps(result.to_dict(), allow_nan=False)
    assert json.loads(text)["best"] == "true"
    assert result.to_frame().shape[0] == 5
    assert "<table>" in result._repr_html_()
    figure = result.plot()
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["true", "same", "flat", "far"]
    page = result.to_html(tmp_path / "page.html", source="<b>", command="usnrt compare").read_text()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page.split("<main>")[0]
    assert "http" not in re.sub(r"http-equiv", "", page)
    differences = result.differences("rmse", to="far")
    assert differences["model"].tolist()[-1] == "far"
    assert differences["difference"][0] < 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"folds": 0}, ValueError, "folds must be an int >= 1, got 0"),
        ({"test_size": 1.0}, ValueError, "test_size must be in (0, 1), got 1.0"),
        ({"coverage": 90}, ValueError, "coverage must be in (0, 1), got 90"),
        ({"models": {}}, ValueError, "models must name at least one model, got none"),
        ({"models": ["fast", "fast"]}, ValueError, "models must have different names, got 'usnrt fast' twice"),
        ({"models": {"a": Oracle}}, TypeError, "models['a'] must be an estimator with fit, got <class"),
        ({"models": [Oracle()]}, TypeError, "models must be a dict of names and estimators, or a list of names"),
        ({"models": ["fast?max_leaves"]}, ValueError, "changes must read 'parameter=value', got 'max_leaves'"),
        ({"models": ["fats"]}, ValueError, "models must be among usnrt fast, usnrt balanced"),
        ({"time": [1], "groups": [0, 1] * 15}, ValueError, "time and groups must not both be given, got both"),
        ({"groups": [1]}, ValueError, "groups must have one label per row, shape (30,), got shape (1,)"),
    ],
)
def test_arguments_that_are_refused(arguments, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        usnrt.compare(*table(30), **{"models": ["constant"], **arguments})


def test_no_model_left():
    found = usnrt.compare(*table(30), {"broken": Fails()})
    assert found.verdict == "No model could be compared."
    with pytest.raises(ValueError, match=r"^no model could be compared: broken: RuntimeError: no luck$"):
        _ = found.best


def test_what_is_installed_is_compared(monkeypatch):
    names = installed_models()
    assert names[:3] == ["usnrt fast", "usnrt balanced", "usnrt ensemble"]
    assert names[-2:] == ["conformal booster", "constant"]
    monkeypatch.setattr("usnrt.comparison.models.find_spec", lambda name: None)
    assert installed_models() == ["usnrt fast", "usnrt balanced", "usnrt ensemble", "conformal booster", "constant"]
    built = {c.name: c.make() for c in contenders(["fast", "ensemble", "CATBOOST", "balanced?max_leaves=3"], 7, 1, [0])}
    assert list(built) == ["usnrt fast", "usnrt ensemble", "CatBoost", "balanced?max_leaves=3"]
    assert built["balanced?max_leaves=3"].max_leaves == 3
    assert contenders(["lightgbm"], 7, 1, None)[0].name == "LightGBM quantiles"
    assert all(model.random_state == 7 and model.categorical_features == [0] for model in built.values())


def test_our_model_beside_the_conformal_booster_on_planted_data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 2))
    y = 3 * X[:, 0] + np.where(X[:, 1] > 0, 0.5, 0.05) * rng.normal(size=400)
    quick = usnrt.USNRTRegressor(hidden=(8,), memory=False, max_epochs=15, n_jobs=1)
    booster = ConformalBoosterRegressor(n_estimators=20, n_jobs=1)
    found = usnrt.compare(X, y, {"ours": quick, "booster": booster, "flat": "constant"})
    assert found.errors == {}
    crps = dict(zip(found.table["model"], found.table["crps"]))
    assert max(crps["ours"], crps["booster"]) < 0.5 * crps["flat"]


@pytest.mark.slow
@pytest.mark.parametrize(("folds", "limit"), [(1, 0.13), (5, 0.08)])
def test_one_model_with_two_seeds_is_seldom_called_different(folds, limit):
    """Differences between seeds are 0 on average over repetitions. 100 trials: 7 % with one split, none with folds.

    The error over test rows takes the fitted models as given, so that a single split may err more often than in 5 %;
    the corrected error over folds is cautious.
    """
    from sklearn.ensemble import ExtraTreesRegressor

    trials, wrong = 120, 0
    for seed in range(trials):
        X, y = table(200, seed)
        models = {s: ExtraTreesRegressor(8, random_state=2 * seed + s) for s in (0, 1)}
        found = usnrt.compare(X, y, {str(s): m for s, m in models.items()}, folds=folds, random_state=seed)
        wrong += not found.table["tie"][1]
    assert wrong / trials < limit


def test_small_tables_take_one_thread_of_other_libraries():
    """Several threads of theirs wait for each other: 394 rows took minutes."""
    for n_rows, expected in ((394, 1), (20_000, 2)):
        peer, ours = contenders(["conformal booster", "fast"], 0, 2, None, n_rows)
        assert (peer.make().n_jobs, ours.make().n_jobs) == (expected, 2)


def test_times_are_of_the_processor():
    class Waiting(LinearRegression):
        def fit(self, X, y):
            time.sleep(0.3)
            return super().fit(X, y)

    X = np.random.default_rng(0).uniform(size=(200, 1))
    result = usnrt.compare(X, X[:, 0] + 0.1 * np.sin(50 * X[:, 0]), {"waiting": Waiting(), "constant": "constant"})
    assert result.table["fit_seconds"][0] < 0.25
    assert "fit, CPU s" in str(result)


def test_the_headline_is_short_and_details_follow():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 2))
    models = {name: LinearRegression() for name in ("one", "two", "three")} | {"constant": "constant"}
    result = usnrt.compare(X, 3 * X[:, 0] + 0.1 * rng.normal(size=400), models)
    assert headline(result) == f"{result.best} has the lowest CRPS, but is tied with 2 others."
    assert details(result).startswith("Within the error of the difference: ")
    assert "The next is behind: constant by " in details(result)
    assert result.verdict == f"{headline(result)} {details(result)}"


def test_a_remark_on_the_coverage_counts_groups_as_one():
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(60), 10)
    X = rng.normal(size=(600, 1))
    y = X[:, 0] + rng.normal(size=60)[group]  # the rows of a group are inside or outside together
    result = usnrt.compare(X, y, {"oracle": Oracle()}, groups=group, test_size=0.5, n_jobs=1)
    assert result.table["coverage"][0] == pytest.approx(25 / 30)  # as often as 25 of 30, not as 250 of 300
    assert details(result) == ""
    biased = usnrt.compare(X, y, {"biased": Oracle(shift=2.0)}, groups=group, test_size=0.5, n_jobs=1)
    assert "intervals of biased hold" in details(biased)
