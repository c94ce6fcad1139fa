"""Coverage per group: counts, chance, conformal methods, records and their section."""

import numpy as np
import pandas as pd
import pytest

from usnrt.metrics.intervals import interval_score_of_rows
from usnrt_experiments import Cell, Record, Store
from usnrt_experiments.coverage import cell as coverage_cell
from usnrt_experiments.coverage.groups import counts, fifths, neutral_groups, numeric_matrix
from usnrt_experiments.coverage.methods import METHODS, ConformalIntervals, covered
from usnrt_experiments.coverage.table import (
    LABELS,
    CoverageStudy,
    chance,
    coverage_findings,
    coverage_table,
    summary_table,
)
from usnrt_experiments.page import write_page
from usnrt_experiments.recipes import COVERAGE
from usnrt_experiments.runner import run_grid
from usnrt_experiments.status import outdated, status_text


def heteroscedastic(n, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.uniform(size=n), "z": rng.uniform(size=n)})
    frame["kind"] = pd.Categorical(rng.choice(["a", "b", "c"], size=n))
    return frame, 3 * frame["x"].to_numpy() + np.where(frame["x"] > 0.5, 1.0, 0.1) * rng.normal(size=n)


def test_neutral_groups():
    X, y = heteroscedastic(600)
    found = neutral_groups(X.iloc[:400], y[:400], X.iloc[400:], seed=0)
    assert list(found) == ["feature", "category", "difficulty"]
    assert np.array_equal(found["feature"], fifths(X["x"].to_numpy()[:400], X["x"].to_numpy()[400:]))
    assert np.array_equal(found["category"], X["kind"].cat.codes.to_numpy()[400:])
    noisy = X["x"].to_numpy()[400:] > 0.5
    assert found["difficulty"][noisy].mean() > found["difficulty"][~noisy].mean() + 1
    # Without categories, and with a feature of one value, which has no fifths.
    plain = pd.DataFrame({"constant": np.zeros(400), "x": X["x"][:400]})
    assert set(neutral_groups(plain, y[:400], plain, seed=0)) == {"feature", "difficulty"}


def test_codes_do_not_depend_on_the_rows():
    X, _ = heteroscedastic(50)
    assert np.array_equal(numeric_matrix(X)[7:9], numeric_matrix(X.iloc[7:9]))


def test_chance_is_the_binomial_one():
    """One group: the mean absolute deviation of a binomial share, by its formula."""
    from scipy.stats import binom

    n = 50
    k = np.arange(n + 1)
    expected = 100 * np.sum(binom.pmf(k, n, 0.9) * np.abs(k / n - 0.9))
    found = chance((n,))
    error = 100 * np.sqrt(0.09 / n) / np.sqrt(4000)
    assert abs(found.mean - expected) < 4 * error
    assert found.worst == found.mean
    assert chance((n,) * 5).worst > found.worst


def test_exact_coverage_is_rarely_beyond_chance():
    rng, n_trials, sizes = np.random.default_rng(5), 300, (40, 100, 300)
    limit = chance(sizes).worst_95
    shares = rng.binomial(sizes, 0.9, size=(n_trials, 3)) / np.array(sizes)
    rate = np.mean(100 * np.abs(shares - 0.9).max(axis=1) > limit)
    assert rate <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / n_trials)


@pytest.fixture(scope="module")
def intervals():
    pytest.importorskip("mapie")
    X, y = heteroscedastic(1200)
    fitted = ConformalIntervals(numeric_matrix(X.iloc[:800]), y[:800], [2], seed=0)
    return X.iloc[800:], y[800:], fitted.intervals(numeric_matrix(X.iloc[800:]))


def test_conformal_methods_cover_and_only_some_adapt(intervals):
    X, y, found = intervals
    noisy = X["x"].to_numpy() > 0.5
    assert list(found) == list(METHODS)
    for name, (lower, upper) in found.items():
        # Beta distribution of the coverage over 160 calibration rows, and 400 test rows.
        error = np.sqrt(0.09 / 160 + 0.09 / 400)
        assert abs(covered(y, lower, upper).mean() - 0.9) < 4 * error, name
        width = upper - lower
        if name == "mapie-split":
            assert np.ptp(width) < 1e-9
            assert covered(y, lower, upper)[~noisy].mean() > 0.97 > covered(y, lower, upper)[noisy].mean() + 0.1
        else:
            assert width[noisy].mean() > 1.5 * width[~noisy].mean(), name


def test_interval_score_and_counts():
    y = np.array([0.0, 2.0, 5.0])
    assert interval_score_of_rows(y, np.tile([1.0, 3.0], (3, 1)), 0.9) == pytest.approx([22.0, 2.0, 42.0])
    groups = counts(np.zeros(30, dtype=int), np.arange(30) < 27, np.ones(30), np.full(30, 2.0))
    assert groups == [{"id": 0, "n": 30, "inside": 27, "width": 1.0, "interval_score": 2.0}]


def method(inside, n=200, coverage=0.9):
    groups = [{"id": i, "n": n, "inside": round(share * n), "width": 1.0, "interval_score": 2.0}
              for i, share in enumerate(inside)]  # fmt: skip
    facts = {"coverage": coverage, "width": 1.0, "interval_score": 1.5}
    return {**facts, "groups": {"regions": groups, "feature": groups}}


def study_records(datasets=("electrical", "power")):
    methods = {name: method([0.90, 0.80]) for name in LABELS}
    methods["usnrt"] = method([0.91, 0.90])
    meta = {"methods": methods, "metrics": {"coverage90": 90.0}, "fit_cpu_seconds": 1.0}
    return [Record(Cell(name, COVERAGE, 42), "done", meta) for name in datasets]


def test_tables_and_sentences():
    study = CoverageStudy([*study_records(), Record(Cell("gpu", COVERAGE, 42), "failed", {"error": "no"})])
    assert study.datasets == ["electrical", "power"]
    row = coverage_table(study, "regions").rows[0]
    assert [entry.text for entry in row[:4]] == ["Electrical", "2", "1.00", "10.00"]
    assert [entry.mark for entry in row[2:4]] == ["best", ""]
    summary = summary_table(study).rows
    assert [entry.text for entry in summary[0]][4:7] == ["1.00", "0.50", "0 of 2"]
    assert [entry.text for entry in summary[1]][4:7] == ["10.00", "5.00", "2 of 2"]
    first = coverage_findings(study)[0]
    assert first.startswith(
        "**Coverage in the tree's regions.** The worst group of the tree deviates from 90 % by 1.0 percentage points "
        "in the mean over 2 data sets; by chance "
    )
    assert "MAPIE split (10.0; smaller on 2)" in first
    assert coverage_findings(CoverageStudy([])) == []
    assert "over 1 data set;" in coverage_findings(CoverageStudy(study_records(["power"])))[0]


def test_records_are_run_shown_and_resumed(tmp_path, monkeypatch):
    """The cell of the study in the runner; the methods are replaced, since MAPIE may be missing."""

    class Same:
        def __init__(self, X, y, categorical, seed, n_jobs):
            self.bounds = np.quantile(y, [0.05, 0.95])

        def intervals(self, X):
            bounds = [np.full(len(X), bound) for bound in self.bounds]
            return dict.fromkeys(METHODS, tuple(bounds))

    class Tree:
        def fit(self, X, y):
            self.bounds = np.quantile(y, [0.05, 0.95])
            return self

        def apply(self, X):
            return (X["x0"].to_numpy() > 0.5).astype(int)

        def predict_interval(self, X, coverage):
            assert coverage == 0.9
            return np.tile(self.bounds, (len(X), 1))

    class Built:
        def build(self, **settings):
            return Tree()

    monkeypatch.setattr(coverage_cell, "ConformalIntervals", Same)
    monkeypatch.setattr(coverage_cell, "get_recipe", lambda name: Built())
    store = Store(tmp_path / "results")
    part = Store(store.root / "coverage")
    cells = [Cell("small-jump", COVERAGE, 42)]
    assert run_grid(cells, part).done == 1
    assert run_grid(cells, part).skipped == 1
    meta = part.read(cells[0]).meta
    assert set(meta["methods"]) == set(LABELS)
    sizes = [group["n"] for group in meta["methods"]["usnrt"]["groups"]["regions"]]
    assert len(sizes) == 2
    assert sum(sizes) == meta["n_test"] == 200
    assert "1/1" in status_text(part)
    assert outdated(part) == []
    # The page of records of the paper's data sets.
    for made in study_records():
        part.finish(part.claim(made.cell), made.meta, {})
    text = write_page(store).read_text()
    assert "## Coverage per region\n" in text
    assert "![Coverage per group](figures/coverage.png)" in text
    assert (store.root / "figures" / "coverage.png").read_bytes().startswith(b"\x89PNG")
