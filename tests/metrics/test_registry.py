"""The registry of metrics: one file adds a metric everywhere."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score

import usnrt
from usnrt.distributions import Normal
from usnrt.metrics import METRICS, EvaluatedRows, Metric, as_forecast, get_scorer, get_scorer_names, register_metric

TEMPLATE = Path(__file__).parents[2] / "extension_templates" / "metric.py"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
Y = X[:, 0] + RNG.normal(size=300)


class Line(LinearRegression):
    """A straight line with normal errors."""

    def fit(self, X, y):
        super().fit(X, y)
        self.std_ = np.std(y - self.predict(X))
        return self

    def predict_dist(self, X):
        return Normal(self.predict(X), self.std_)


@pytest.fixture
def added(tmp_path):
    """The template's metric, copied and imported; removed again after the test."""
    path = shutil.copy(TEMPLATE, tmp_path / "my_metric.py")
    spec = importlib.util.spec_from_file_location("my_metric", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    yield METRICS["median_error"]
    del METRICS["median_error"]


def test_a_metric_from_the_template_is_evaluated(added):
    model = Line().fit(X, Y)
    table = usnrt.evaluate(model, X, Y, groups=X[:, 1] > 0, bootstrap=20, random_state=0)
    row = {row["metric"]: row for row in table.rows()}["median_error"]
    assert row["value"] == np.mean(np.abs(Y - model.predict(X)))
    assert row["lower"] < row["value"] < row["worst_value"]


def test_a_metric_from_the_template_has_a_scorer(added):
    assert "neg_median_error" in get_scorer_names()
    scores = cross_val_score(Line(), X, Y, cv=3, scoring=get_scorer("median_error"))
    expected = -cross_val_score(Line(), X, Y, cv=3, scoring="neg_mean_absolute_error")
    np.testing.assert_allclose(-scores, expected)


def test_a_metric_from_the_template_is_in_the_report(added, tmp_path):
    model = usnrt.USNRTRegressor(min_samples_leaf=150, max_epochs=2, random_state=0).fit(X, Y)
    new = RNG.normal(size=(80, 2))
    page = usnrt.report(model, new, new[:, 0], tmp_path / "report.html", booster=False).read_text("utf-8")
    assert "median error" in page
    assert "mean absolute error of the predicted median" in page


def test_a_metric_from_the_template_is_compared(added):
    result = usnrt.compare(X, Y, {"line": Line(), "constant": "constant"})
    assert result.table["median_error"][0] < result.table["median_error"][1]
    assert result.differences("median_error")["model"].tolist() == ["line", "constant"]
    assert "median error" in repr(result)


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_every_metric_says_what_it_is(metric):
    assert METRICS[metric.name] is metric
    assert metric.label
    assert metric.meaning.format(coverage="90 %")


def test_larger_oriented_losses_are_worse():
    values = np.array([0.5, 0.95])
    assert METRICS["crps"].oriented_loss(values, 0.9).argmax() == 1
    assert METRICS["r2"].oriented_loss(values, 0.9).argmax() == 0
    assert METRICS["coverage"].oriented_loss(values, 0.9).argmax() == 0


def test_a_metric_is_a_mean_over_rows_or_of_the_table():
    with pytest.raises(ValueError, match="the metric 'mine' must have either per_row or per_table"):
        Metric("mine", "mine", "mine", "lower")
    largest = Metric("largest", "largest", "largest", "none", per_table=lambda rows: lambda _: float(rows.y.max()))
    assert largest.value(EvaluatedRows(Y, as_forecast(mean=Y))) == Y.max()


def test_names_of_metrics_are_unique():
    with pytest.raises(ValueError, match="name must be new, got 'crps', which is one of"):
        register_metric(METRICS["crps"])
