"""The table of all metrics: the same numbers as the functions, error bars, worst groups, scorers."""

import tracemalloc

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from usnrt import metrics
from usnrt.distributions import Mixture, Normal
from usnrt.metrics.forecast import as_forecast

RNG = np.random.default_rng(0)
N = 300
MEAN, STD = RNG.normal(size=N), RNG.uniform(0.5, 2.0, size=N)
Y = RNG.normal(MEAN, STD)
DIST = Mixture([Normal(MEAN, STD), Normal(MEAN + 0.5, 1.5 * STD)])
NAMES = ["rmse", "mae", "r2", "nll", "crps", "pinball", "ece", "tce", "sharpness"]
INTERVAL = ["coverage_90", "width_90", "interval_score_90"]


class Line(RegressorMixin, BaseEstimator):
    """A straight line with a normal of one width: the smallest estimator with a predict_dist."""

    def __init__(self, widen=1.0):
        self.widen = widen

    def fit(self, X, y):
        self.line_ = LinearRegression().fit(X, y)
        self.std_ = self.widen * np.std(y - self.line_.predict(X))
        return self

    def predict(self, X):
        return self.line_.predict(X)

    def predict_dist(self, X):
        return Normal(self.predict(X), self.std_)


def test_the_table_holds_what_the_functions_say():
    table = metrics.evaluate(DIST, None, Y)
    assert list(table["metric"]) == NAMES + INTERVAL
    assert table.columns == ["metric", "value"]
    values = dict(zip(table["metric"], table["value"]))
    for name in ("rmse", "mae", "r2", "nll", "crps", "pinball", "ece", "tce"):
        assert values[name] == getattr(metrics, name)(Y, DIST)
    assert values["sharpness"] == metrics.sharpness(DIST)
    assert values["coverage_90"] == metrics.coverage(Y, DIST)
    assert values["width_90"] == metrics.mean_width(DIST)
    assert values["interval_score_90"] == metrics.interval_score(Y, DIST)


def test_percent_and_coverage():
    plain, hundred = (metrics.evaluate(DIST, None, Y, coverage=0.5, percent=p) for p in (False, True))
    assert list(plain["metric"][-3:]) == ["coverage_50", "width_50", "interval_score_50"]
    np.testing.assert_allclose(hundred["value"], 100 * plain["value"])


def test_several_coverages():
    """Rows for each coverage, equal to those of one coverage alone."""
    both = metrics.evaluate(DIST, None, Y, coverage=[0.5, 0.9], groups=Y > 0)
    values = dict(zip(both["metric"], both["value"]))
    assert both["metric"].tolist()[-6:] == [
        f"{m}_{c}" for c in (50, 90) for m in ("coverage", "width", "interval_score")
    ]
    for coverage in (0.5, 0.9):
        alone = metrics.evaluate(DIST, None, Y, coverage=coverage)
        assert values[f"interval_score_{100 * coverage:g}"] == alone["value"][-1]
        assert values[f"coverage_{100 * coverage:g}"] == alone["value"][-3]
    given = metrics.evaluate(DIST, None, Y, coverage=[0.5, 0.9], interval=DIST.interval([0.5, 0.9]))
    np.testing.assert_array_equal(given["value"], both["value"])
    model = Wide().fit(X, Y)
    calm = X[:, 0] <= 2
    table = metrics.evaluate(model, X[calm], Y[calm], coverage=[0.5, 0.9])
    assert dict(zip(table["metric"], table["value"]))["width_50"] == pytest.approx(14.0)  # of its predict_interval


def test_bootstrap_gives_the_known_error_of_a_mean():
    table = metrics.evaluate(DIST, None, Y, bootstrap=400, random_state=0)
    assert table.columns == ["metric", "value", "lower", "upper", "std_error"]
    rows = {row["metric"]: row for row in table.rows()}
    crps = DIST.crps(Y)
    assert rows["crps"]["std_error"] == pytest.approx(crps.std() / np.sqrt(N), rel=0.15)
    assert rows["crps"]["lower"] < rows["crps"]["value"] < rows["crps"]["upper"]
    width = rows["mae"]["upper"] - rows["mae"]["lower"]
    assert width == pytest.approx(2 * 1.96 * rows["mae"]["std_error"], rel=0.15)
    again = metrics.evaluate(DIST, None, Y, bootstrap=400, random_state=0)
    np.testing.assert_array_equal(table["lower"], again["lower"])


def test_one_bootstrap_draw_is_the_metric_of_the_drawn_rows():
    rows = np.random.default_rng(1).integers(0, N, N)
    weights = np.bincount(rows, minlength=N).astype(float)
    drawn = metrics.evaluate(DIST[rows], None, Y[rows])
    given = metrics.EvaluatedRows(Y, as_forecast(DIST))
    weighted = [metric.of_weights(given)(weights) for name, metric in metrics.METRICS.items() if name != "infinite"]
    np.testing.assert_allclose(weighted, drawn["value"], atol=1e-10)


def test_infinite_rows_spoil_only_what_they_belong_to():
    std = np.where(np.arange(N) == 0, 0.0, STD)  # a point mass that was missed has no likelihood
    groups = np.where(np.arange(N) < 100, "first", "rest")
    table = metrics.evaluate(Normal(MEAN, std), None, Y, groups=groups, bootstrap=20, random_state=0)
    rows = {row["metric"]: row for row in table.rows()}
    assert rows["nll"]["value"] == rows["nll"]["worst_value"] == np.inf
    assert rows["nll"]["worst_group"] == "first"
    assert np.isfinite(rows["nll"]["lower"])  # about a third of the draws miss the row
    assert np.isfinite(rows["crps"]["std_error"])


def test_worst_groups():
    groups = np.repeat([10, 20, 30], N // 3)
    y = np.where(groups == 20, Y + 5.0, Y)
    table = metrics.evaluate(DIST, None, y, groups=groups)
    assert table.columns == ["metric", "value", "worst_group", "worst_value"]
    rows = {row["metric"]: row for row in table.rows()}
    part = groups == 20
    for name in ("rmse", "r2", "nll", "crps", "ece", "coverage_90"):
        assert rows[name]["worst_group"] == 20
    assert rows["r2"]["worst_value"] == pytest.approx(metrics.r2(y[part], DIST[part]))
    assert rows["ece"]["worst_value"] == pytest.approx(metrics.ece(y[part], DIST[part]))
    widest = max(metrics.sharpness(DIST[groups == g]) for g in (10, 20, 30))
    assert rows["sharpness"]["worst_value"] == pytest.approx(widest)


def test_other_forecasts_leave_out_what_they_cannot_give():
    samples = metrics.evaluate(as_forecast(samples=DIST.rvs(50, random_state=0)), None, Y)
    assert list(samples["metric"]) == [n for n in NAMES if n != "nll"] + INTERVAL
    levels = np.arange(1, 20) / 20
    quantiles = metrics.evaluate(as_forecast(quantiles=DIST.ppf(levels), levels=levels), None, Y)
    assert list(quantiles["metric"]) == ["crps", "pinball", "ece", "tce", *INTERVAL]
    few = metrics.evaluate(as_forecast(quantiles=DIST.ppf([0.4, 0.6]), levels=[0.4, 0.6]), None, Y)
    assert list(few["metric"]) == ["crps", "pinball", "ece"]
    point = metrics.evaluate(as_forecast(mean=MEAN), None, Y)
    assert list(point["metric"]) == ["rmse", "mae", "r2"]


X = MEAN[:, None] + RNG.normal(size=(N, 2))


def test_models_pipelines_and_searches():
    model = Line().fit(X, Y)
    expected = metrics.evaluate(model.predict_dist(X), None, Y)["value"]
    np.testing.assert_array_equal(metrics.evaluate(model, X, Y)["value"], expected)
    pipeline = make_pipeline(StandardScaler(), Line()).fit(X, Y)
    np.testing.assert_allclose(metrics.evaluate(pipeline, X, Y)["value"], expected, rtol=1e-6)
    search = GridSearchCV(Line(), {"widen": [1.0]}, cv=2, scoring=metrics.get_scorer("neg_crps")).fit(X, Y)
    np.testing.assert_allclose(metrics.evaluate(search, X, Y)["value"], expected)
    with pytest.raises(
        TypeError,
        match="model must be a Distribution or an estimator with predict_dist, got a LinearRegression",
    ):
        metrics.evaluate(LinearRegression(), X, Y)


class Wide(Line):
    """A line with intervals of its own, infinite where the first feature is above 2."""

    def predict_interval(self, X, coverage):
        half = np.where(X[:, 0] > 2, np.inf, 7.0)
        return np.stack([self.predict(X) - half, self.predict(X) + half], axis=1)


def test_a_model_is_judged_by_its_own_intervals():
    model, calm = Wide().fit(X, Y), X[:, 0] <= 2
    table = metrics.evaluate(model, X[calm], Y[calm])
    values = dict(zip(table["metric"], table["value"]))
    inside = np.abs(Y - model.predict(X))[calm] <= 7.0
    assert values["coverage_90"] == inside.mean()
    assert values["width_90"] == pytest.approx(14.0)
    assert "infinite_90" not in values
    assert metrics.get_scorer("neg_interval_score")(model, X[calm], Y[calm]) == -values["interval_score_90"]
    given = metrics.evaluate(model.predict_dist(X[calm]), y=Y[calm], interval=model.predict_interval(X[calm], 0.9))
    np.testing.assert_array_equal(given["value"], table["value"])
    with pytest.warns(UserWarning, match=r"^the 80 % interval is infinite for \d+ % of the rows: such an"):
        table = metrics.evaluate(model, X, Y, coverage=0.8, groups=~calm, bootstrap=20, random_state=0)
    rows = {row["metric"]: row for row in table.rows()}
    assert rows["infinite_80"]["value"] == np.mean(~calm) > 0
    assert rows["width_80"]["value"] == np.inf
    assert rows["infinite_80"]["worst_group"]
    with pytest.raises(ValueError, match=r"interval must have shape \(n, 2\) for y_true of shape \(n,\)"):
        metrics.evaluate(DIST, y=Y, interval=[[0.0, 1.0]])


@pytest.mark.parametrize("name", metrics.get_scorer_names())
def test_scorers_are_metrics_with_larger_values_better(name):
    model = Line().fit(X, Y)
    value = getattr(metrics, name.removeprefix("neg_"))(Y, model.predict_dist(X))
    assert metrics.get_scorer(name)(model, X, Y) == (-value if name.startswith("neg_") else value)
    assert metrics.get_scorer(name.removeprefix("neg_")) == metrics.get_scorer(name)
    scores = cross_val_score(Line(), X, Y, cv=3, scoring=metrics.get_scorer(name))
    assert scores.shape == (3,)
    assert ((scores < 0) == name.startswith("neg_")).all()


def test_a_search_finds_the_right_width():
    grid = {"line__widen": [0.3, 1.0, 3.0]}
    from sklearn.pipeline import Pipeline

    pipeline = Pipeline([("scale", StandardScaler()), ("line", Line())])
    for name in ("neg_nll", "neg_crps", "neg_interval_score"):
        search = GridSearchCV(pipeline, grid, cv=3, scoring=metrics.get_scorer(name)).fit(X, Y)
        assert search.best_params_ == {"line__widen": 1.0}


def test_scorer_names():
    assert {"neg_crps", "neg_nll", "neg_interval_score", "neg_ece"} <= set(metrics.get_scorer_names())
    with pytest.raises(ValueError, match=r"name must be one of \['neg_crps', .*\], got 'width'"):
        metrics.get_scorer("width")


def test_memory_grows_with_rows_not_with_levels_or_members():
    n, members = 20_000, 5
    rng = np.random.default_rng(0)
    dist = Mixture([Normal(rng.normal(size=n), rng.uniform(0.5, 2.0, size=n)) for _ in range(members)])
    y = rng.normal(size=n)
    metrics.evaluate(dist[:10], None, y[:10])
    tracemalloc.start()
    try:
        metrics.evaluate(dist, None, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.5 * 8 * n * 99 * members


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bootstrap": 1}, "bootstrap must be 0 or an int >= 2, got 1"),
        ({"bootstrap": 2.5}, "bootstrap must be 0 or an int >= 2, got 2.5"),
        ({"confidence": 1.0}, r"confidence must be in \(0, 1\), got 1.0"),
        ({"coverage": 0.0}, r"coverage must be in \(0, 1\), got 0.0"),
        ({"coverage": [0.5, 1.0]}, r"coverage must be in \(0, 1\), got \[0.5, 1.0\]"),
        ({"coverage": []}, r"coverage must be in \(0, 1\), got \[\]"),
        (
            {"coverage": [0.5, 0.9], "interval": np.ones((300, 2))},
            r"interval must have shape \(n, 2, 2\), one per coverage, got \(300, 2\)",
        ),
        ({"groups": [1, 2]}, r"groups must have one label per row \(300\), got \(2,\)"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        metrics.evaluate(DIST, None, Y, **change)


def test_y_is_needed():
    with pytest.raises(ValueError, match=r"y_true must have at least one row, got \(0,\)"):
        metrics.evaluate(DIST)
