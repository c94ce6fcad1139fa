"""How far our values with the paper's recipes are from the paper's, for every model and metric."""

import math

import numpy as np

from usnrt.paper.datasets import get_spec
from usnrt_experiments.aggregate import Means
from usnrt_experiments.comparisons import COMPARISONS, Comparison
from usnrt_experiments.layout import Entry, Layout, number, words
from usnrt_experiments.models import Model

CLOSE = 0.1
METRIC_NAMES = {"sharpness": "Sharpness"}


def reproduction_table(means: Means) -> Layout:
    """Differences of our values with the paper's recipes from the paper's: median, median size, and the largest.

    Returns
    -------
    Layout
        One row per metric and model; a model that stands in two tables has one.
    """
    rows, seen = [], set()
    for table in COMPARISONS.values():
        for model in table.models:
            if model.paper_recipe and (table.metric, model.paper_recipe) not in seen:
                seen.add((table.metric, model.paper_recipe))
                if gaps := _gaps(table, model, means):
                    rows.append(
                        [
                            words(METRIC_NAMES.get(table.metric, table.metric.upper())),
                            words(model.label),
                            *_row(gaps, table.metric),
                        ]
                    )
    header = ["Metric", "Model", "Data sets", "Median difference", "Median size", "Within 10 %", "Largest", "On"]
    header += ["Paper", "Here"]
    notes = [
        "Ours with the paper's recipe minus the paper's value, times 100, over the data sets on which both are finite. "
        "Within 10 %: on how many of them the difference is at most a tenth of the paper's value (not for NLL, which "
        "has no zero). Largest: the difference of largest size, its data set, and both values there."
    ]
    return Layout("Differences from the paper's values", header, rows, notes, n_text_columns=2)


def _gaps(table: Comparison, model: Model, means: Means) -> dict[str, tuple[float, float]]:
    """The paper's value and ours by data set, where both are finite."""
    column = table.models.index(model)
    found = {}
    for name in table.datasets:
        stated, here = (table.values(means, name, source)[column] for source in ("paper", "paper's recipe"))
        if stated and here and math.isfinite(stated.value) and math.isfinite(here.value):
            found[name] = (stated.value, here.value)
    return found


def _row(gaps: dict[str, tuple[float, float]], metric: str) -> list[Entry]:
    differences = {name: here - stated for name, (stated, here) in gaps.items()}
    largest = max(differences, key=lambda name: abs(differences[name]))
    values = list(differences.values())
    close = sum(abs(here - stated) <= CLOSE * abs(stated) for stated, here in gaps.values())
    return [
        number(len(gaps), pattern="{:.0f}"),
        number(float(np.median(values)), pattern="{:+.2f}"),
        number(float(np.median(np.abs(values)))),
        number(None if metric == "nll" else close, pattern="{:.0f}"),
        number(differences[largest], pattern="{:+.2f}"),
        words(get_spec(largest).title),
        *(number(value) for value in gaps[largest]),
    ]
