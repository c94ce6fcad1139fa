"""Sections of the results page beyond the paper: comparisons with errors, small tables, coverage per region."""

from pathlib import Path

from usnrt_experiments.aggregate import Means
from usnrt_experiments.comparisons import SMALL_COMPARISONS
from usnrt_experiments.coverage.table import (
    CoverageStudy,
    coverage_findings,
    coverage_table,
    interval_table,
    summary_table,
)
from usnrt_experiments.figures import FIGURES
from usnrt_experiments.layout import Layout, number, words
from usnrt_experiments.models import OURS
from usnrt_experiments.rank_figure import complete_ranking
from usnrt_experiments.small import SMALL
from usnrt_experiments.versus import METRICS, MIN_SETS, differences_table, versus_findings, versus_table

Figures = dict[str, Path]
COMPARISONS_WITH_ERRORS = "## Comparisons with errors"


def comparison_section(means: Means, figures: Figures) -> list[str]:
    """Our presets against every other model by default, with paired differences and tests over data sets."""
    found = versus_findings(means, "peers")
    if not found:
        return []
    parts = [
        COMPARISONS_WITH_ERRORS,
        "Every model with its default recipe, one comparison per other model and data set, by the rule at the top of "
        "this page. In the tables over data sets, *lower / tied / higher* are the numbers of data sets on which the "
        "difference counts or not, the median is that of ours minus the other, times 100, and p is that of the exact "
        "signed-rank test over data sets (of log ratios of CRPS and RMSE, of differences of NLL and ECE), corrected by "
        f"Holm for the models of the column; there is none below {MIN_SETS} data sets. Significant: p below 5 %. "
        "[tables/differences.csv](tables/differences.csv) has every difference of every metric.",
        *found,
        *ranks_paragraph(means, "peers"),
        *picture("ranks", figures),
    ]
    parts += [versus_table(means, metric, "peers").section() for metric in METRICS]
    tables = [differences_table(means, ours, "crps", "peers") for ours in OURS]
    return parts + [table.section() for table in tables if table.rows]


def ranks_paragraph(means: Means, collection: str) -> list[str]:
    """Which models and data sets the ranks are of; empty without ranks."""
    found = complete_ranking(means, "crps", collection)
    if found is None:
        return []
    models, n_sets = ", ".join(found.models), len(found.datasets)
    return [f"Ranks are of the models and data sets with complete records: {models}, on {n_sets} data sets."]


def small_section(means: Means, figures: Figures) -> list[str]:
    """The second collection, judged the same way."""
    if not means.datasets:
        return []
    parts = [
        "## Small tables",
        "A second collection of tables of 300 to 5,000 rows, judged the same way: random splits of 80 and 20 %, every "
        "model with its default recipe. `python -m usnrt_experiments run --preset small` runs it; records are "
        "in `small/`.",
        small_datasets(means).section(),
        *(versus_findings(means, "small") or ["No results to compare."]),
        *ranks_paragraph(means, "small"),
        *picture("small_ranks", figures),
    ]
    parts += [table.layout(means).section() for table in SMALL_COMPARISONS.values()]
    return parts + [versus_table(means, metric, "small").section() for metric in METRICS]


def small_datasets(means: Means) -> Layout:
    """Where the small tables come from."""
    rows = []
    for name, table in SMALL.items():
        counts = [number(value, pattern="{:,.0f}") for value in (table.n_rows, table.n_features)]
        splits = number(means.most_seeds(name), pattern="{:.0f}")
        rows.append([words(table.title), words(table.source), words(table.target), *counts, splits])
    header = ["Table", "Source", "Target", "Rows", "Features", "Splits done"]
    return Layout("The small tables", header, rows, n_text_columns=3)


def coverage_section(study: CoverageStudy, figures: Figures) -> list[str]:
    """Coverage per region beside global conformal methods."""
    if not study.datasets:
        return []
    return [
        "## Coverage per region",
        "90 % intervals of the tree beside those of the same model with one region, and of conformal methods around "
        "one LightGBM, trained and calibrated on the same training rows: MAPIE's split conformal and "
        "conformalised quantile regression, crepes' regressor normalised by a difficulty estimate, and the same in ten "
        "bins of the difficulty (Mondrian). First split; the same test rows for all. Groups are the regions of the "
        "tree, and groups that no model chose: fifths of the feature with most mutual information, the levels of a "
        "category, fifths of the error that a further booster predicts. All are found on training rows; groups of "
        "fewer than 20 test rows are left out. Chance is binomial in the test rows; the finite number of calibration "
        "rows adds to it, for all methods.",
        *coverage_findings(study),
        summary_table(study).section(),
        *picture("coverage", figures),
        *(coverage_table(study, way).section() for way in ("regions", "neutral")),
        interval_table(study).section(),
    ]


def picture(name: str, figures: Figures) -> list[str]:
    """A figure and its caption as Markdown; empty if it was not drawn."""
    if name not in figures:
        return []
    return [f"![{FIGURES[name].title}]({figures[name].as_posix()})\n\n{FIGURES[name].caption}"]
