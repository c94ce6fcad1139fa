"""Comparisons over data sets as the results page shows them, of records whose differences are planted."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from usnrt.paper.datasets import list_datasets
from usnrt_experiments import Cell, Record
from usnrt_experiments.aggregate import Means
from usnrt_experiments.layout import BEST
from usnrt_experiments.rank_figure import complete_ranking, draw_ranks
from usnrt_experiments.sections import comparison_section, ranks_paragraph
from usnrt_experiments.versus import differences_table, versus, versus_findings, versus_table

DATASETS = list_datasets()[:8]
# How many times the CRPS of the tree: the first is better, the second equal, the others are worse.
FACTORS = {"usnrt-ensemble": 0.9, "usnrt": 1.0, "usnrt-fast": 1.0, "catboost": 1.3, "ngboost": 1.5, "hnn": 2.0}


def records(seeds=(42, 142, 242), **more):
    found = []
    for number, dataset in enumerate(DATASETS):
        for recipe, factor in {**FACTORS, **more}.items():
            for seed in seeds:
                noise = np.random.default_rng([number, seed, len(recipe)]).normal()
                crps = factor * (1.0 + number) + 1e-4 * noise
                meta = {"metrics": dict.fromkeys(("crps", "nll", "rmse", "ece"), crps)}
                found.append(Record(Cell(dataset, recipe, seed), "done", meta))
    return found


@pytest.fixture(scope="module")
def means():
    return Means(records())


def test_the_table_over_data_sets_counts_and_tests(means):
    table = versus_table(means, "crps", "peers")
    rows = {row[0].text: row[1:] for row in table.rows}
    assert set(rows) == {"USNRT fast", "USNRT", "USNRT Ensemble", "HNN", "CatBoost", "NGBoost"}
    column = table.header.index("USNRT: lower / tied / higher") - 1
    assert rows["CatBoost"][column].text == "8 / 0 / 0"
    assert rows["USNRT Ensemble"][column].text == "0 / 0 / 8"
    assert rows["USNRT"][column].text == ""  # not against itself
    p = rows["CatBoost"][column + 2]
    assert (p.text, p.mark) == ("0.039", BEST)  # 2 / 2**8, five times by Holm
    assert rows["USNRT fast"][column + 2].mark == ""


def test_differences_have_their_error_and_are_bold_beyond_it(means):
    table = differences_table(means, "USNRT", "crps", "peers")
    assert len(table.rows) == len(DATASETS)
    first = dict(zip(table.header, table.rows[0]))
    assert first["CatBoost"].text.startswith("-0.30 ± 0.00 (3)")
    assert first["CatBoost"].mark == BEST
    assert first["USNRT fast"].mark == ""


def test_one_split_without_rows_has_no_error():
    means = Means(records(seeds=(42,)))
    table = differences_table(means, "USNRT", "crps", "peers")
    first = dict(zip(table.header, table.rows[0]))
    assert (first["CatBoost"].text, first["CatBoost"].mark) == ("-0.30", "")
    counts = {pair.other: pair.counts for pair in versus(means, "crps", "peers", "USNRT")}
    assert counts["CatBoost"] == "8 unknown"
    assert "of unknown error in 24" in versus_findings(means, "peers")[0]


def test_findings_name_what_is_ahead_and_behind(means):
    worse = Means(records(**{"quantile-extra-trees": 0.5}))
    text = versus_findings(worse, "peers")[0]
    assert "USNRT is lower beyond error in 24 of 32 comparisons, higher in 8, not distinguished in 0" in text
    assert (
        "significantly lower than 3 of 4 models (HNN, CatBoost, NGBoost), and higher than Quantile extra-trees" in text
    )
    assert "all 3 models" in versus_findings(means, "peers")[0]


def test_the_section_has_every_table(means):
    text = "\n".join(comparison_section(means, {}))
    for metric in ("CRPS", "NLL", "RMSE", "ECE"):
        assert f"Paired differences over data sets: {metric}" in text
    for ours in ("USNRT fast", "USNRT", "USNRT Ensemble"):
        assert f"CRPS of {ours} minus that of other models" in text
    assert "Ranks are of the models and data sets with complete records: " in text
    assert comparison_section(Means([]), {}) == []


def test_pictures_of_ranks(means):
    found = complete_ranking(means, "crps", "peers")
    assert set(found.models) == {"USNRT fast", "USNRT", "USNRT Ensemble", "HNN", "CatBoost", "NGBoost"}
    figure = draw_ranks(means, "peers")
    drawn = [ax for ax in figure.axes if ax.texts]
    assert len(drawn) == 4
    texts = [text.get_text() for text in drawn[0].texts]
    assert texts[:6] == ["1", "2", "3", "4", "5", "6"]
    assert "USNRT Ensemble  1.0" in texts  # the best is first, on the left
    assert "6.0  HNN" in texts
    assert texts[-1] == "CRPS: average ranks over 8 data sets (Friedman p < 0.001)"
    renderer = FigureCanvasAgg(figure).get_renderer()
    inside = [text.get_window_extent(renderer) for text in drawn[0].texts]
    assert min(box.x0 for box in inside) >= 0
    assert max(box.x1 for box in inside) <= figure.bbox.x1


def test_too_few_records_have_no_ranks():
    few = Means([record for record in records() if record.cell.dataset in DATASETS[:3]])
    assert draw_ranks(few, "peers") is None
    assert ranks_paragraph(few, "peers") == []
