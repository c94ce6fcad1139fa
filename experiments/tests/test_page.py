"""The page says what the numbers say: findings from small known records, figures that exist, records that failed."""

import numpy as np
import pytest

from usnrt_experiments import Cell, Store
from usnrt_experiments.aggregate import Means
from usnrt_experiments.figures import FIGURES, caption_of
from usnrt_experiments.findings import findings, improvements
from usnrt_experiments.goals import PEERS, default_findings, goals_table, peers_table
from usnrt_experiments.page import cells_csv, page_text, write_page
from usnrt_experiments.recipes import STABILITY
from usnrt_experiments.status import status_text
from usnrt_experiments.store import Record
from usnrt_experiments.tables import TABLES, make_table
from usnrt_experiments.trees import SPLIT_RESIDUALS

NAMES = ("ece", "tce", "sharpness", "rmse", "nll", "crps", "coverage90", "worst_leaf_gap")
METRICS = dict.fromkeys(NAMES, 50.0)
SPLITS = [(42, 31.0), (142, 40.0)]


def record(dataset, recipe, seed=42, tree=None, **metrics):
    meta = {
        "metrics": {**METRICS, **metrics},
        "fit_seconds": 40.0,
        "fit_cpu_seconds": 30.0,
        "predict_seconds": 0.5,
        "tree": tree,
        "versions": {"python": "3.11.7", "usnrt": "0.1.0", "jax": "0.5.0", "numpy": "2.0"},
    }
    return Record(Cell(dataset, recipe, seed), "done", meta)


def ece_row(dataset, hnn, extra, forest, usnrt, measure=None):
    tree = {"heterogeneity": measure, "n_leaves": 3} if measure else None
    return [
        record(dataset, "hnn-paper", ece=hnn),
        record(dataset, "extra-trees-paper", ece=extra),
        record(dataset, "random-forest-paper", ece=forest),
        record(dataset, "usnrt-paper", ece=usnrt, tree=tree),
    ]


RECORDS = [
    *ece_row("electrical", 4, 9, 6, 3, measure=0.5),  # the paper: HNN
    *ece_row("conditional", 6, 15, 11, 2, measure=0.9),  # the paper: USNRT
    *ece_row("power", 2, 3, 4, 5, measure=0.2),  # the paper: USNRT
    *ece_row("traffic", 2, 3, 4, 5, measure=0.1),  # the paper: Extra Trees
    record("electrical", "usnrt", ece=0.7),
    record("power", "usnrt", ece=2.5),
    Record(Cell("gpu", "usnrt", 42), "failed", {"error": "ValueError: no"}),
]


def test_who_wins():
    said = findings(Means(RECORDS))
    assert said[0] == (
        "**ECE.** In the paper, USNRT is best on 15 of 17 data sets; here, with the paper's recipes, it is best on 2 "
        "of the 4 on which all models were run, on 0 beyond error (in the paper on 2 of these). Best here "
        "too, but not beyond error: Conditional. Not confirmed: "
        "Power (HNN is best). Best here, but not in the paper: Electrical. Best neither here nor in the paper: "
        "Traffic. Splits: 1 of each."
    )


def test_splits_and_missing_models_are_named():
    records = [*RECORDS, record("beijing", "hnn-paper"), record("beijing", "usnrt-paper")]
    for dataset, values in {"electrical": (4, 9, 6, 3), "power": (2, 3, 4, 5)}.items():
        names = ("hnn", "extra-trees", "random-forest", "usnrt")
        records += [record(dataset, f"{name}-paper", 142, ece=value) for name, value in zip(names, values)]
    assert findings(Means(records))[0].endswith(
        "Splits: 2 of Electrical, Power; 1 of Conditional, Traffic. "
        "Not judged: Beijing (no Extra Trees, Random Forest)."
    )


def test_heterogeneity_is_worded_by_its_significance():
    said = findings(Means(RECORDS))[-1]
    assert said == (
        "**Heterogeneity.** The paper reports a rank correlation between the heterogeneity of the regions' noise, on "
        "one split, and the decrease of ECE by USNRT, 0.44 over 17 data sets (one-sided p = 0.039); on the data sets "
        "run here its own columns give 0.80 over 4 data sets (one-sided p = 0.167, 0.100 by the t approximation), not "
        "significant. Here it is 0.95 over 4 data sets (one-sided p = 0.083, 0.026 by the t approximation) with the "
        "measure of the first split, as in the paper, and 0.95 over 4 data sets (one-sided p = 0.083, 0.026 by the t "
        "approximation) with its mean over splits. Not confirmed: significant at the 5 % level in neither way."
    )


def planted(first_measures):
    """Six data sets on which USNRT decreases ECE ever more, with these measures on the first of two splits."""
    names = ("electrical", "conditional", "appliances", "power", "traffic", "beijing")
    records = []
    for place, (name, measure) in enumerate(zip(names, first_measures)):
        records += ece_row(name, 6, 9, 8, 5 - 0.5 * place, measure=measure)
        for made in ece_row(name, 6, 9, 8, 5 - 0.5 * place, measure=2.0 * (place + 1) - measure):
            records.append(Record(Cell(name, made.cell.recipe, 142), "done", made.meta))
    return records


def test_a_planted_correlation_is_confirmed_a_single_one_in_part():
    in_order, mixed = [1, 2, 3, 4, 5, 6], [3, 1, 2, 6, 4, 1]
    assert findings(Means(planted(in_order)))[-1].endswith("Confirmed: significant at the 5 % level both ways.")
    assert findings(Means(planted(mixed)))[-1].endswith(
        "Confirmed in part: significant at the 5 % level over splits only."
    )


def test_improvements():
    assert improvements(Means(RECORDS))[0] == (
        "**ECE.** USNRT with the default recipe is better than the best model in the paper's table on 1 of 2 data "
        "sets: Electrical; not on Power."
    )


def test_the_largest_difference_to_the_paper_is_named():
    rows = make_table("reproduction", RECORDS).render("csv").splitlines()
    assert rows[:3] == [
        "Metric,Model,Data sets,Median difference,Median size,Within 10 %,Largest,On,Paper,Here",
        "ECE,HNN,4,-0.085,0.26,2,-1.74,Traffic,3.74,2",
        "ECE,Extra Trees,4,-0.415,0.46,2,-0.8,Conditional,15.8,15",
    ]
    assert [row.split(",")[:2] for row in rows[1:]] == [
        [metric, model]
        for metric in ("ECE", "TCE", "Sharpness")
        for model in ("HNN", "Extra Trees", "Random Forest", "USNRT")
    ]


def test_default_recipes_among_each_other():
    others = [("hnn", 2.0), ("extra-trees", 3.0), ("random-forest", 0.6)]
    records = [*RECORDS, *(record("electrical", name, ece=value) for name, value in others)]
    records += [record("power", name, ece=value + 2) for name, value in others]
    assert improvements(Means(records))[0].endswith(
        " Among the default recipes of all models in the table it is best on 1 of 2 data sets, on 0 beyond "
        "error (the error is unknown on 2); not on Electrical (Random Forest is best)."
    )


def test_nothing_is_claimed_without_records():
    assert findings(Means([])) == []
    assert improvements(Means([])) == []
    assert make_table("reproduction", []).rows == []
    text = page_text([], {})
    assert "No table has results of all its models on any data set." in text
    assert "## Failed cells" not in text


def test_page_text():
    text = page_text(RECORDS, {})
    assert "- 18 cells done, 1 failed; 4 data sets, 5 recipes; 9 min of CPU time for fitting.\n" in text
    assert "- No records: Appliances, Real-time, Industry, Facebook1, Beijing, Physicochemical, Blog, GPU.\n" in text
    assert (
        "- Online, Facebook2, Year, Query, Wave: a permanent limit of these results. Their files cannot be had" in text
    )
    assert "- Made with jax 0.5.0, python 3.11.7, usnrt 0.1.0 (18 records)." in text
    assert "## Failed cells\n\n- gpu usnrt seed 42: ValueError: no\n" in text
    assert "|  | paper's recipe | 1 | 4.00† | 9.00† | 6.00† | 3.00\\*† | 25.0%† |" in text
    assert "## Figures" not in text


def test_large_and_chosen_single_seeds_are_named():
    text = page_text([record("gpu", "usnrt"), record("blog", "usnrt")], {})
    assert "- First split only, as in the paper, for 100,000 rows and more: GPU.\n" in text
    assert "- First split only, unlike in the paper, to save time: Blog.\n" in text


def test_cells_csv():
    lines = cells_csv(RECORDS).splitlines()
    assert lines[0] == (
        "dataset,recipe,seed,ece,tce,sharpness,rmse,nll,nll_floored,crps,coverage90,worst_leaf_gap,fit_seconds,fit_cpu_seconds,predict_seconds,n_leaves,usnrt"
    )
    assert lines[4] == "electrical,usnrt-paper,42,3,50,50,50,50,,50,50,50,40.0,30.0,0.5,3,0.1.0"
    assert len(lines) == 1 + 18


@pytest.fixture
def store(tmp_path):
    """A store with trees on three data sets, all with what figures need, and stability on one."""
    store = Store(tmp_path / "store")
    rng = np.random.default_rng(0)
    for dataset in ("electrical", "conditional", "power"):
        for recipe in ("usnrt-paper", "usnrt"):
            tree = {
                "heterogeneity": 0.5,
                "n_leaves": 3,
                "leaf_residual_std": [0.0, 0.3, 0.9],
                "leaf_rows": [100.0, 200.0, 300.0],
                "curve_feature": "x0",
                "root_feature": "x0",
                "root_other": "x1",
                "root_threshold": 0.5,
            }
            x = np.linspace(0, 1, 200)
            arrays = {
                "curve_x": x,
                "curve_std": np.where(x > 0.5, 1.0, 0.2),
                "curve_leaf": (x > 0.5).astype(np.int16),
                "root_x": rng.uniform(size=300),
                "root_other": rng.uniform(size=300),
                "root_residual": rng.normal(size=300),
            }
            made = record(dataset, recipe, tree=tree)
            store.finish(store.claim(made.cell), made.meta, arrays)
    for recipe in STABILITY:
        made = record("electrical", recipe, ece=rng.uniform(1, 5))
        store.finish(store.claim(made.cell), made.meta, {})
    store.fail(store.claim(Cell("power", "hnn", 42)), "ValueError: no")
    return store


def test_write_page(store):
    page = write_page(store)
    text = page.read_text()
    for name in ("stability", "variance_functions", "root_partitions", "leaf_std"):
        picture = store.root / "figures" / f"{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert f"](figures/{name}.png)" in text
    assert (store.root / "tables" / "ece.csv").read_text().startswith("Dataset,Source,Splits,HNN,")
    assert (store.root / "tables" / "nll.tex").read_text().startswith("\\begin{table}")
    assert (store.root / "cells.csv").read_text().count("\n") == 1 + 6 + 18
    # Without some of the per-row predictions, as in a clone with new runs, and without any: every picture stays.
    for some in ("electrical", "*"):
        for path in store.root.rglob(f"{some}/**/*.npz"):
            path.unlink()
        before = {path: path.read_bytes() for path in store.root.rglob("*.*") if path.is_file()}
        write_page(store)
        assert {path: path.read_bytes() for path in store.root.rglob("*.*") if path.is_file()} == before
    # A figure whose records were removed goes with them.
    for record in store.records():
        if record.cell.recipe in STABILITY:
            store.forget(record.cell)
    assert "stability.png" not in write_page(store).read_text()
    assert not (store.root / "figures" / "stability.png").exists()
    assert (store.root / "figures" / "leaf_std.png").exists()


def test_captions_of_partitions_name_records_of_other_residuals(store):
    records = list(store.records())
    old = " Test rows and residuals of the predicted mean instead: Electrical, Conditional, Power."
    assert caption_of("root_partitions", records).endswith(old)
    for made in records:
        if made.meta.get("tree"):
            made.meta["tree"]["root_residuals_of"] = SPLIT_RESIDUALS
    assert caption_of("root_partitions", records) == FIGURES["root_partitions"].caption


def test_status(store):
    store.claim(Cell("power", "hnn", 142))
    (store.root / "cells" / "power" / "usnrt" / "42.json").write_text("{")
    lines = status_text(store).splitlines()
    assert lines[0].split() == ["conditional", "electrical", "power"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert rows["usnrt-paper"] == ["1/5", "1/5", "1/5"]
    assert rows["usnrt"] == ["1/5", "1/5", "."]
    assert "23 done, 1 failed, 1 damaged, 1 running" in lines
    assert "failed: power hnn seed 42: ValueError: no" in lines
    assert "running: power hnn seed 142" in lines
    assert "damaged: power usnrt seed 42" in lines


def test_status_of_an_empty_store(tmp_path):
    assert status_text(Store(tmp_path)) == f"no records in {tmp_path}"


def test_goals_are_bold_where_they_are_reached():
    records = [
        record("power", "usnrt", ece=0.9, tce=1.6),
        record("power", "usnrt-ensemble", ece=1.1, tce=0.4, rmse=70.0, nll=95.0),
    ]
    lines = goals_table(Means(records)).render("markdown").splitlines()
    assert lines[4] == "| Power | **0.90**† | 1.60† | 1.10† | **0.40**† | **70.00**† | 79.67 | 95.00† | 89.82 |"


FIVE = (42, 142, 242, 342, 442)


def five(dataset, recipe, spread=0.0, **metrics):
    """Five splits whose metrics vary a little."""
    wobble = (0.0, spread, -spread, spread / 2, -spread / 2)
    return [
        record(dataset, recipe, seed, **{name: value + shift for name, value in metrics.items()})
        for seed, shift in zip(FIVE, wobble)
    ]


def test_peers_are_counted_only_beyond_error():
    records = [
        *five("power", "usnrt-ensemble", crps=30.0),
        *five("power", "catboost", crps=35.0, spread=0.5),
        *five("traffic", "usnrt-ensemble", crps=54.0),
        *five("traffic", "catboost", crps=55.0, spread=0.1),
        *five("traffic", "quantile-forest", crps=53.5, spread=0.1),
        *five("beijing", "usnrt-ensemble", crps=30.0),
        *five("beijing", "catboost", crps=31.0, spread=5.0),
        record("electrical", "usnrt-ensemble", crps=5.0),
        record("electrical", "catboost", crps=6.0),
    ]
    n_peers = len(PEERS)
    assert default_findings(Means(records)) == [
        f"Peers: {', '.join(PEERS)}; in brackets how many of them were run, if not all.",
        "**CRPS of USNRT Ensemble and all peers.** Lower beyond error on 1 of 4 data sets. Lower than all: Power (1 of "
        f"{n_peers} peers). Not distinguished from the best peer: Beijing (1 of {n_peers} peers; CatBoost 31.00, ours "
        f"30.00). Higher than a peer: Traffic (2 of {n_peers} peers; Quantile forest 53.50, ours 54.00). Error "
        f"unknown: Electrical (1 of {n_peers} peers; CatBoost 6.00, ours 5.00).",
    ]


def test_parts_are_counted_only_beyond_error():
    records = [
        *five("power", "usnrt", crps=31.0, nll=60.0, worst_leaf_gap=2.0),
        *five("power", "usnrt-no-tree", crps=32.0, nll=59.0, spread=0.1),
        *five("traffic", "usnrt", crps=31.0, nll=60.0),
        *five("traffic", "usnrt-no-tree", crps=32.0, nll=60.0, spread=5.0),
        *five("power", "usnrt-global", worst_leaf_gap=5.0, spread=0.1),
        *five("power", "usnrt-no-forest", crps=30.0, nll=59.0, spread=0.1),
    ]
    assert default_findings(Means(records)) == [
        "**No tree.** The default recipe compared with itself without this part. CRPS: lower on 1 (Power), not "
        "distinguished on 1 (Traffic) of 2 data sets. NLL: higher on 1 (Power), not distinguished on 1 (Traffic) of 2 "
        "data sets.",
        "**No forest.** The default recipe compared with itself without this part. CRPS: higher on 1 (Power) of 1 data "
        "set. NLL: higher on 1 (Power) of 1 data set.",
        "**Calibration by region.** The largest deviation of a region's coverage from 90 % is, compared with global "
        "calibration, lower on 1 (Power) of 1 data set.",
    ]


def test_presets_stand_beside_the_best_peer():
    records = [
        *five("power", "usnrt", crps=31.0, nll=60.0, rmse=70.0),
        *five("power", "usnrt-ensemble", crps=36.0, nll=50.0, rmse=70.0),
        *five("power", "catboost", crps=35.0, nll=65.0, rmse=71.0, spread=0.3),
        *five("power", "ngboost", crps=37.0, nll=55.0, rmse=72.0, spread=3.0),
        record("traffic", "catboost", crps=55.0),  # a set without our models is left out
    ]
    lines = peers_table(Means(records)).render("markdown").splitlines()
    assert lines[4:5] == [
        "| Power | 2 |  | **31.00** | 36.00 | 35.00 | CatBoost |  | 60.00 | **50.00** | 55.00 | NGBoost |  "
        "| 70.00 | 70.00 | 71.00 | CatBoost |"
    ]
    assert not any("Traffic" in line for line in lines)


def test_parts_and_peers_are_compared_on_the_same_splits():
    """Where both were run we are better; the mean over all our splits would say the opposite."""
    blocks = {"leave_out_blocks": {"crps": list(np.linspace(31.0, 31.1, 25))}}
    records = [record("power", name, seed, crps=c) for name in ("usnrt", "usnrt-ensemble") for seed, c in SPLITS]
    records += [record("power", name, 42, crps=32.0) for name in ("usnrt-no-tree", "catboost")]
    for each in records:
        each.meta.update(blocks)
    said = default_findings(Means(records))
    assert "**CRPS of USNRT Ensemble and all peers.** Lower beyond error on 1 of 1 data set." in said[2]
    assert "CRPS: lower on 1 (Power) of 1 data set." in said[3]


def test_every_table_is_a_section_that_the_page_links_to():
    text = page_text(RECORDS, {})
    assert "- [ECE, times 100](#ece-times-100)\n" in text
    assert "\n\n### ECE, times 100\n\n| Dataset | Source |" in text
    assert "(#largest-deviation-of-a-regions-coverage-from-90--in-percentage-points)\n" in text
    assert text.count("](#") == text.count("\n### ") - 4 == len(TABLES) - 2  # four tables stand in the text above
