"""The tables of the page by name."""

from collections.abc import Iterable
from dataclasses import dataclass

from usnrt.bench.aggregate import Means
from usnrt.bench.comparisons import COMPARISONS, SOURCES
from usnrt.bench.layout import Layout, number, words
from usnrt.bench.paper import PAPER_SPEARMAN, paper_value
from usnrt.bench.recipes import COMPARED
from usnrt.bench.runs import versions_table
from usnrt.bench.store import Record
from usnrt.datasets import get_spec, list_datasets


def dataset_table(means: Means) -> Layout:
    """The data sets: rows and features in the paper and here."""
    columns = ("Sample Size", "Feature Dimension", "Categorical Variables")
    rows = []
    for name in list_datasets():
        spec = get_spec(name)
        found = [paper_value("datasets", name, column) for column in columns]
        here = [spec.n_rows, spec.n_features, len(spec.categorical)]
        seeds = means.most_seeds(name)
        counts = [number(v, pattern="{:,.0f}") for pair in zip(found, here) for v in pair]
        rows.append([words(spec.title), words(spec.full_name), *counts, number(seeds, pattern="{:.0f}")])
    header = ["Dataset", "Full Name"]
    header += [label for column in columns for label in (f"{column} (paper)", f"{column} (here)")] + ["Splits done"]
    notes = ["Conditional: the paper's code reads the first row of the file as a header and so drops it."]
    return Layout("Data sets", header, rows, notes, n_text_columns=2)


def heterogeneity_table(means: Means) -> Layout:
    """Heterogeneity of the regions' noise and decrease of ECE by USNRT, with their rank correlation."""
    table = heterogeneity_values(means)
    order = sorted(table, key=lambda name: -(table[name]["paper"][0] or 0.0))
    rows = [
        [
            words(get_spec(name).title),
            *(number(table[name][source][0]) for source in SOURCES),
            *(number(table[name][source][1], pattern="{:.1f}%") for source in SOURCES),
        ]
        for name in order
    ]
    header = ["Dataset", *(f"Measure ({s})" for s in SOURCES), *(f"Percentage Decrease ({s})" for s in SOURCES)]
    notes = [f"Spearman's rank correlation of the two, as reported in the paper: {PAPER_SPEARMAN}."]
    for source in SOURCES:
        if found := heterogeneity_correlation(means, source):
            notes.append(f"Spearman's rank correlation, {source}: {found}.")
    return Layout("Uncertainty heterogeneity and the decrease of ECE", header, rows, notes)


def heterogeneity_values(means: Means) -> dict[str, dict[str, tuple[float | None, float | None]]]:
    """Heterogeneity measure and percentage decrease of ECE of every data set, from each source."""
    ece = COMPARISONS["ece"]
    found: dict[str, dict[str, tuple[float | None, float | None]]] = {}
    for name in list_datasets():
        stated = paper_value("heterogeneity", name, "Measure Sorted")
        found[name] = {"paper": (stated, ece.percentage(means, name, "paper"))}
        for source, recipe in (("paper's recipe", "usnrt-paper"), ("default", "usnrt")):
            measure = means.heterogeneity(name, recipe)
            found[name][source] = (measure.value if measure else None, ece.percentage(means, name, source))
    return found


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's correlation over some data sets, and its one-sided p-value.

    Examples
    --------
    >>> from usnrt.bench.tables import RankCorrelation
    >>> print(RankCorrelation(0.44, 0.039, 17))
    0.44 over 17 data sets (one-sided p = 0.04)
    """

    value: float
    p_value: float
    n_sets: int

    def __str__(self) -> str:
        return f"{self.value:.2f} over {self.n_sets} data sets (one-sided p = {self.p_value:.2f})"


def heterogeneity_correlation(means: Means, source: str) -> RankCorrelation | None:
    """Spearman's correlation of measure and decrease; None below four data sets, too few for a test."""
    from scipy.stats import spearmanr

    pairs = [row[source] for row in heterogeneity_values(means).values() if None not in row[source]]
    if len(pairs) < 4:
        return None
    found = spearmanr(*zip(*pairs), alternative="greater")
    return RankCorrelation(float(found.statistic), float(found.pvalue), len(pairs))


def times_table(means: Means) -> Layout:
    """Mean CPU time of a fit for every recipe and data set."""
    datasets = [name for name in list_datasets() if name in means.datasets]
    recipes = [name for name in COMPARED if name in means.recipes]
    rows = []
    for recipe in recipes:
        found = [means.seconds(dataset, recipe) for dataset in datasets]
        rows.append([words(recipe), *(number(mean.value if mean else None, pattern="{:.1f}") for mean in found)])
    return Layout("CPU time of a fit, in seconds", ["Recipe", *(get_spec(name).title for name in datasets)], rows)


TABLES = ("datasets", *COMPARISONS, "heterogeneity", "times", "versions")


def make_table(name: str, records: Iterable[Record] | Means) -> Layout:
    """A table by name.

    Parameters
    ----------
    name : str
        One of ``TABLES``.
    records : iterable of Record, or Means

    Returns
    -------
    Layout
        Whose ``render`` gives text, Markdown, LaTeX or CSV.
    """
    means = records if isinstance(records, Means) else Means(records)
    if name in COMPARISONS:
        return COMPARISONS[name].layout(means)
    others = {
        "datasets": dataset_table,
        "heterogeneity": heterogeneity_table,
        "times": times_table,
        "versions": versions_table,
    }
    if name not in others:
        raise ValueError(f"table must be one of {list(TABLES)}, got {name!r}")
    return others[name](means)
