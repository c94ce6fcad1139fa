"""Coverage and errors over time, and the comparison with a booster: planted drift is found, and nothing else."""

from types import SimpleNamespace

import numpy as np
import pytest
from scaled import with_target
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_info, threadpool_limits

from usnrt.reporting import write_report
from usnrt.reporting._booster import BoosterFacts, booster_sentence, compare_with_booster
from usnrt.reporting._drift import time_order, time_windows
from usnrt.reporting._words import drift_sentence


def windows_of(seed, n=600, drift=0.0, noise=1.0, spread=False):
    rng = np.random.default_rng(seed)
    late = np.arange(n) >= n // 2
    size = np.where(rng.random(n) < 0.1, 10.0, 1.0) if spread else np.ones(n)
    error = rng.normal(size=n) * np.where(late, noise, 1.0) * size + drift * late
    return time_windows(np.arange(n), error, np.zeros(n), np.abs(error) <= 1.645 * size)


def test_planted_drift_is_named():
    level = drift_sentence(windows_of(0, drift=1.0), 0.9)
    assert "The mean error changes by more than sampling error" in level
    noise = drift_sentence(windows_of(0, noise=3.0), 0.9)
    assert "The coverage leaves 90\u00a0% by more than sampling error in 4 of 8 windows" in noise
    assert "The RMSE changes by more than sampling error" in noise


def test_without_drift_little_is_found():
    """Three tests at 2.5, 2.5 and at most 5 %: 60 tables of which at most 10 % + 4 standard errors may be flagged."""
    flagged = sum(
        not drift_sentence(windows_of(seed, n=240, spread=True), 0.9).startswith("No drift") for seed in range(60)
    )
    assert flagged <= 60 * 0.1 + 4 * np.sqrt(60 * 0.1 * 0.9)


def test_windows_share_out_the_rows_in_the_order_of_time():
    time = np.datetime64("2024-01-01") + np.random.default_rng(0).permutation(500).astype("timedelta64[D]")
    drift = time_windows(time, np.ones(500), np.zeros(500), np.ones(500, dtype=bool))
    assert sum(window.n for window in drift.windows) == 500
    assert drift.windows[0].label.startswith("2024-01-01 to 2024-03")
    assert drift.windows[0].rmse == 1.0
    assert time_windows(time[:100], np.ones(100), np.zeros(100), np.ones(100, dtype=bool)).windows == []
    assert time_order([3.0, np.nan, 1.0])[0].tolist() == [2, 0]
    assert time_order(["31.01.2024", None, "01.02.2023"])[0].tolist() == [2, 0]
    with pytest.raises(ValueError, match="^time must hold numbers or dates, got 'soon'"):
        time_order(["soon"])


def test_the_page_has_a_section_on_time(model, houses, tmp_path):
    X, y = houses(300, 3)
    text = write_report(model, X, y, tmp_path / "r.html", time="sold", booster=False).read_text()
    assert "Does it change with time?" in text
    assert 'aria-label="Coverage of 90\u00a0% intervals in 5 windows of time"' in text
    assert "Does it change" not in write_report(model, X, y, tmp_path / "r.html", booster=False).read_text()
    few = write_report(model, X[:50], y[:50], tmp_path / "r.html", time=np.arange(50)).read_text()
    assert "50 rows are too few to compare windows of time, which need 60 rows each." in few
    with pytest.raises(ValueError, match=r"^time must be a column of X or an array, got 'day'$"):
        write_report(model, X, y, tmp_path / "r.html", time="day")
    with pytest.raises(ValueError, match=r"^time must have one value per row of X \(300\), got shape \(3,\)$"):
        write_report(model, X, y, tmp_path / "r.html", time=[1, 2, 3])


def test_the_time_column_of_a_model_is_used(model, houses, tmp_path):
    timed, _ = with_target(model)
    for column in ("sold", 4, -1):
        timed.time_column = column
        text = write_report(timed, *houses(200, 3), tmp_path / "r.html", booster=False).read_text()
        assert "Does it change with time?" in text
    timed.time_column = "gone"
    assert "Does it" not in write_report(timed, *houses(200, 3), tmp_path / "r.html", booster=False).read_text()


def test_a_booster_is_compared_by_the_same_quantiles(model, houses):
    X, y = houses(300, 3)
    raw, dist = model._encode(X), model.predict_dist(X)
    rows = SimpleNamespace(raw=raw, y=y, distribution=dist)
    facts = compare_with_booster(model, rows)
    assert (facts.rows, facts.trained_on, facts.on_training_rows) == (300, 150, False)
    assert facts.difference == pytest.approx(facts.ours - facts.theirs)
    assert 2 * facts.ours == pytest.approx(dist.crps(y).mean(), rel=0.15)  # five quantiles instead of all
    trained = compare_with_booster(model, rows, train=houses(600, 0))
    assert (trained.trained_on, trained.on_training_rows) == (600, True)
    assert trained.theirs < facts.theirs
    assert compare_with_booster(model, SimpleNamespace(raw=raw[:100], y=y[:100], distribution=dist)) is None


def test_a_booster_of_few_rows_has_one_thread(model, houses, monkeypatch):
    threads = set()

    def fit(self, X, y):
        threads.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")
        return DummyRegressor().fit(X, y)

    monkeypatch.setattr(HistGradientBoostingRegressor, "fit", fit)
    X, y = houses(300, 3)
    with threadpool_limits(2, user_api="openmp"):
        compare_with_booster(model, SimpleNamespace(raw=model._encode(X), y=y, distribution=model.predict_dist(X)))
    assert threads == {1}


def test_the_better_one_is_named():
    base = BoosterFacts(1.0, 2.0, -1.0, 0.1, 500, 250, False)
    assert "so this model is better" in booster_sentence(base, 1000.0)
    assert "CRPS" not in booster_sentence(base, None)  # that of the table is another number
    worse = BoosterFacts(2.0, 1.0, 1.0, 0.1, 500, 800, True)
    assert "so the booster is better. The booster was trained on 800 training rows, this model on 1,000." in (
        booster_sentence(worse, 1000.0)
    )
    alike = BoosterFacts(1.0, 1.1, -0.1, 0.1, 500, 250, False)
    assert "neither is better beyond sampling error" in booster_sentence(alike, None)
