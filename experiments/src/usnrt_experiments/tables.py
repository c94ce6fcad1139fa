"""The tables of the page by name."""

from collections.abc import Iterable

from usnrt.paper.datasets import get_spec, list_datasets
from usnrt_experiments.aggregate import Means
from usnrt_experiments.claims import claims_table
from usnrt_experiments.comparisons import COMPARISONS
from usnrt_experiments.heterogeneity import heterogeneity_table, trees_table
from usnrt_experiments.layout import Layout, number, words
from usnrt_experiments.paper import paper_value
from usnrt_experiments.recipes import COMPARED
from usnrt_experiments.reproduction import reproduction_table
from usnrt_experiments.runs import versions_table
from usnrt_experiments.store import Record


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


def times_table(means: Means) -> Layout:
    """Mean CPU time of a fit for every recipe and data set."""
    datasets = [name for name in list_datasets() if name in means.datasets]
    recipes = [name for name in COMPARED if name in means.recipes]
    rows = []
    for recipe in recipes:
        found = [means.seconds(dataset, recipe) for dataset in datasets]
        rows.append([words(recipe), *(number(mean.value if mean else None, pattern="{:.1f}") for mean in found)])
    return Layout("CPU time of a fit, in seconds", ["Recipe", *(get_spec(name).title for name in datasets)], rows)


TABLES = ("datasets", "claims", "reproduction", *COMPARISONS, "heterogeneity", "trees", "times", "versions")


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
        "claims": claims_table,
        "reproduction": reproduction_table,
        "heterogeneity": heterogeneity_table,
        "trees": trees_table,
        "times": times_table,
        "versions": versions_table,
    }
    if name not in others:
        raise ValueError(f"table must be one of {list(TABLES)}, got {name!r}")
    return others[name](means)
