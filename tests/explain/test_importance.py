"""``usnrt.uncertainty_importance``: planted truths, error bars, and models of any kind."""

import numpy as np
import pytest

import usnrt
from usnrt.distributions import Normal
from usnrt.estimators.base import DistributionalRegressor
from usnrt.model.target import TargetScale


class Known(DistributionalRegressor):
    """The mean is x0 - average, the standard deviation exp(x1); x2 does nothing."""

    def _fit(self, rows):
        self.target_scale_ = TargetScale(0.0, 1.0)

    def _distribution(self, raw):
        return Normal(3 * raw[:, 0], np.exp(raw[:, 1]))


@pytest.fixture(scope="module")
def known():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    return Known().fit(X, np.zeros(2000)), X, 3 * X[:, 0] + np.exp(X[:, 1]) * rng.normal(size=2000)


def test_planted_truths_within_the_error_bars(known):
    model, X, y = known
    table = usnrt.uncertainty_importance(model, X, y, n_rows=400)
    found = dict(zip(table["feature"].tolist(), table.rows()))
    assert table["feature"].tolist() == ["x1", "x0", "x2"]
    # E|3 (x0 - average)| = 3 sqrt(2 / pi); the average of 32 background rows varies, too
    truth = 3 * np.sqrt(2 / np.pi)
    assert abs(found["x0"]["mean"] - truth) < 4 * found["x0"]["mean_error"] + 3 / np.sqrt(32) / 2
    assert found["x0"]["mean_error"] == pytest.approx(3 * np.sqrt(1 - 2 / np.pi) / np.sqrt(400), rel=0.2)
    assert found["x0"]["std"] == pytest.approx(0, abs=1e-12)
    assert found["x1"]["mean"] == pytest.approx(0, abs=1e-12)
    assert all(found["x2"][name] == pytest.approx(0, abs=1e-12) for name in ("std", "mean", "crps", "std_error"))
    assert found["x0"]["crps"] > 10 * found["x0"]["crps_error"] > 0
    assert found["x1"]["crps"] > 4 * found["x1"]["crps_error"] > 0


def test_a_fitted_tree(tree, make_planted):
    X, y = make_planted(300, 5)
    table = usnrt.uncertainty_importance(tree, X, y, n_rows=60)
    assert table["feature"][0] == "x0"
    assert table["feature"][np.argmax(table["mean"])] == "x1"
    rest = table["std"][1:]
    assert table["std"][0] - 3 * table["std_error"][0] > 3 * rest.max()
    assert sorted(table["feature"]) == sorted(X.columns)
    again = usnrt.uncertainty_importance(tree, X, y, n_rows=60)
    assert again.rows() == table.rows()


def test_wide_tables_take_fewer_predictions(known, monkeypatch):
    from usnrt.explain import importance

    model, X, _ = known
    seen = []
    monkeypatch.setattr(importance, "MAX_PREDICTIONS", 20 * 2 * 8 * 3)
    monkeypatch.setattr(
        importance, "shapley_values", lambda m, rows, background, *rest: seen.append((len(rows), background.shape[1]))
    )
    importance.contributions(model, X)
    assert seen == [(20, 8)]


def test_arguments_are_checked(known):
    model, X, y = known
    with pytest.raises(ValueError, match=r"^n_rows must be an int >= 2, got 1$"):
        usnrt.uncertainty_importance(model, X, n_rows=1)
    with pytest.raises(ValueError, match=r"^y must have one value per row of X \(2000\), got 3$"):
        usnrt.uncertainty_importance(model, X, y[:3])
