"""The second collection: tables that load without a download, of the size that their entry states."""

import numpy as np
import pytest

from usnrt.comparison.models import Recipe
from usnrt_experiments import RECIPES, Cell, Store, make_grid
from usnrt_experiments.aggregate import Means
from usnrt_experiments.grid import load_split, load_table, n_rows_of, preset, protocol_seeds, title_of
from usnrt_experiments.page import write_page
from usnrt_experiments.runner import run_grid
from usnrt_experiments.small import SMALL, SmallTable, available_small, small_table
from usnrt_experiments.versus import differences_csv, versus, versus_findings, versus_table


def test_the_collection():
    assert len(SMALL) >= 10
    assert {table.source for table in SMALL.values()} == {"scikit-learn", "statsmodels", "subsample", "generated"}
    for name in SMALL:
        assert name.startswith("small-")
        assert 300 <= n_rows_of(name) <= 5000
        assert len(protocol_seeds(name)) == 5


@pytest.mark.parametrize("name", [n for n, t in SMALL.items() if t.source in ("scikit-learn", "generated")])
def test_tables_are_what_their_entry_says(name):
    table = small_table(name)
    X, y = load_table(name)
    assert (X.shape, y.shape) == ((table.n_rows, table.n_features), (table.n_rows,))
    assert np.isfinite(y).all()
    again, y_again = table.load()
    assert X.equals(again)
    assert np.array_equal(y, y_again)
    assert table.is_here


@pytest.mark.parametrize("name", [n for n, t in SMALL.items() if t.source == "statsmodels"])
def test_tables_of_statsmodels(name):
    table = small_table(name)
    X, y = table.load()
    assert (X.shape, y.shape) == ((table.n_rows, table.n_features), (table.n_rows,))
    assert np.isfinite(X.to_numpy()).all()
    assert y.std() > 0


def test_friedman_noise_grows_with_the_first_feature():
    from sklearn.datasets import make_friedman2

    X, y = small_table("small-friedman2").load()
    _, signal = make_friedman2(1000, noise=0.0, random_state=0)
    noise, first = y - signal, X["x0"].to_numpy()
    low, high = (noise[first < np.quantile(first, 0.3)].std(), noise[first > np.quantile(first, 0.7)].std())
    assert high > 2 * low


def test_without_the_papers_data_subsamples_are_left_out(monkeypatch, tmp_path):
    monkeypatch.setenv("USNRT_DATA", str(tmp_path))
    monkeypatch.setenv("USNRT_CACHE", str(tmp_path))
    here = available_small()
    assert "small-electrical" not in here
    assert "small-diabetes" in here
    assert {cell.dataset for cell in preset("small")} == set(here)
    assert preset("coverage") == []


def test_names():
    assert title_of("small-heavy_tails") == "Heavy tails"
    with pytest.raises(ValueError, match=r"^small table must be one of \['small-diabetes', .*\], got 'small-boston'$"):
        make_grid(["small-boston"], ["hnn"])


def test_a_run_and_its_section(tmp_path, monkeypatch):
    """Two models on six tables: the section compares them, and the page has it."""
    store = Store(tmp_path / "results")
    part = Store(store.root / "small")
    names = [f"small-{name}" for name in ("diabetes", "friedman1", "friedman2", "friedman3", "jump", "categorical")]
    constant = "usnrt_experiments.constant:ConstantNormal"
    monkeypatch.setitem(RECIPES, "usnrt-fast", Recipe("usnrt-fast", constant))
    run_grid(make_grid(names, ["usnrt-fast", "constant-normal"], seeds=[42, 142, 242]), part)
    means = Means(part.records())
    assert load_split(names[0], 42).X_train.shape == (353, 10)
    found = versus(means, "crps", "small", "USNRT fast")
    assert [(pair.other, pair.count("tie"), pair.p_value) for pair in found] == [("Constant", 6, 1.0)]
    assert versus_findings(means, "small")[0] == (
        "**CRPS.** USNRT fast is lower beyond error in 0 of 6 comparisons, higher in 0, not distinguished in 6; over "
        "data sets it is significantly lower than none of 1 model."
    )
    assert versus_table(means, "crps", "small").rows[0][1].text == "0 / 6 / 0"
    assert differences_csv(means, "small").splitlines()[1] == (
        "small-diabetes,USNRT fast,Constant,crps,0,0,0,3,splits,tie"
    )
    text = write_page(store).read_text()
    assert "## Small tables\n" in text
    assert "| Diabetes | scikit-learn | progression after a year | 442 | 10 | 3 |" in text
    assert (store.root / "tables" / "small_crps.csv").exists()


def test_planted_differences_over_tables():
    """Six tables, always 10 % lower: every table counts, and the test over tables is at its smallest p-value."""
    from usnrt_experiments import Record

    records = []
    for i, name in enumerate(list(SMALL)[:6]):
        for seed in (42, 142, 242):
            for recipe, factor in (("usnrt", 0.9), ("catboost", 1.0), ("ngboost", 1.0 + 0.2 * (-1) ** i)):
                value = factor * (10.0 + i + 0.001 * seed)
                records.append(Record(Cell(name, recipe, seed), "done", {"metrics": {"crps": value}}))
    found = {pair.other: pair for pair in versus(Means(records), "crps", "small", "USNRT")}
    assert found["CatBoost"].counts == "6 / 0 / 0"
    assert found["CatBoost"].p_value == 2 / 2**6
    assert found["NGBoost"].counts == "3 / 0 / 3"
    row = {entry.text for entry in versus_table(Means(records), "crps", "small").rows[0][1:]}
    assert "0.062" in row  # 1 / 32, twice by Holm


def test_entries_are_typed():
    assert all(isinstance(table, SmallTable) for table in SMALL.values())
