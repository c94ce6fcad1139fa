"""Whether the paper's findings are confirmed here: paragraphs computed from the records."""

import math
from collections.abc import Sequence

import numpy as np

from usnrt.bench.aggregate import Means
from usnrt.bench.comparisons import COMPARISONS, Comparison
from usnrt.bench.recipes import ALPHAS, LEAVES, STRUCTURES
from usnrt.bench.tables import heterogeneity_correlation
from usnrt.datasets import get_spec, list_datasets

# Tables in which the paper claims that its model is best.
CLAIMS = ("ece", "tce", "sharpness", "rmse", "nll", "evidential_rmse", "evidential_nll")


def findings(means: Means) -> list[str]:
    """One Markdown paragraph per claim of the paper for which there are enough records.

    Parameters
    ----------
    means : Means

    Returns
    -------
    list of str
    """
    paragraphs = [_best_model(COMPARISONS[name], means) for name in CLAIMS]
    paragraphs += [_correlation(means), *_stability(means)]
    return [paragraph for paragraph in paragraphs if paragraph]


def improvements(means: Means) -> list[str]:
    """One Markdown paragraph per table: the default recipes against the best model of the paper."""
    return [paragraph for name in CLAIMS[:5] if (paragraph := _default_against_paper(COMPARISONS[name], means))]


def agreement(means: Means) -> list[str]:
    """One Markdown line per table: differences of our values with the paper's recipes from the paper's values."""
    return [line for name in CLAIMS[:5] if (line := _differences(COMPARISONS[name], means))]


def _best_model(table: Comparison, means: Means) -> str:
    stated = table.winners(means, "paper")
    here = table.winners(means, "paper's recipe")
    if not here:
        return ""
    wins = [name for name, winner in here.items() if winner == table.ours]
    clear = table.clear_winners(means, "paper's recipe")
    n_clear = sum(winner == table.ours for winner in clear.values())
    both = [name for name in here if here[name] == stated[name] == table.ours]
    sure = [name for name in both if clear.get(name) == table.ours]
    unsure = [name for name in both if name not in sure]
    lost = [name for name in here if stated[name] == table.ours != here[name]]
    gained = [name for name in here if here[name] == table.ours != stated[name]]
    neither = [name for name in here if table.ours not in (here[name], stated[name])]
    in_paper = sum(winner == table.ours for winner in stated.values())
    sentence = (
        f"**{_metric(table)}.** In the paper, {table.ours} is best on {in_paper} of {len(stated)} data sets; "
        f"here, with the paper's recipes, it is best on {len(wins)} of the {len(here)} on which all models were run, "
        f"on {n_clear} beyond error (in the paper on {sum(stated[name] == table.ours for name in here)} of these)."
    )
    parts = [
        f"Confirmed beyond error: {_names(sure)}." if sure else "",
        f"Best here too, but not beyond error: {_names(unsure)}." if unsure else "",
        f"Not confirmed: {_names(lost, here)}." if lost else "",
        f"Best here, but not in the paper: {_names(gained)}." if gained else "",
        f"Best neither here nor in the paper: {_names(neither)}." if neither else "",
    ]
    return " ".join([sentence, *(part for part in parts if part)])


def of_sets(n_some: int, n_all: int) -> str:
    """How many of some data sets.

    Examples
    --------
    >>> from usnrt.bench.findings import of_sets
    >>> of_sets(3, 10), of_sets(0, 1)
    ('3 of 10 data sets', '0 of 1 data set')
    """
    return f"{n_some} of {n_all} data set{'' if n_all == 1 else 's'}"


def _metric(table: Comparison) -> str:
    """The first part of a table's title, without its unit."""
    return table.title.split(",")[0]


def _names(datasets: Sequence[str], winners: dict[str, str] | None = None) -> str:
    if winners is None:
        return ", ".join(get_spec(name).title for name in datasets)
    return ", ".join(f"{get_spec(name).title} ({winners[name]} is best)" for name in datasets)


def _correlation(means: Means) -> str:
    stated, here = (heterogeneity_correlation(means, source) for source in ("paper", "paper's recipe"))
    if here is None:
        return ""
    verdict = "confirmed" if here.p_value < 0.05 else "not confirmed: not significant at the 5 % level"
    return (
        "**Heterogeneity.** The paper reports a rank correlation between the heterogeneity of the regions' noise and "
        f"the decrease of ECE by USNRT, {stated}; here it is {here}, {verdict}."
    )


def _stability(means: Means) -> list[str]:
    paragraphs = []
    fewest_and_most = [f"usnrt-paper-leaves{LEAVES[0]}", "usnrt-paper-leaves10"]
    more_leaves = {name: found for name in list_datasets() if (found := _on_same_splits(means, name, fewest_and_most))}
    if more_leaves:
        lower = [name for name, (first, last) in more_leaves.items() if last < first]
        paragraphs.append(
            "**Number of regions.** In the paper, ECE falls or stays the same with more regions; here it is lower "
            f"with 10 regions than with 1 on {of_sets(len(lower), len(more_leaves))}"
            + (f" ({_names(lower)})." if lower else ".")
        )
    studies = (("alpha", [f"alpha{a}" for a in ALPHAS]), ("the network architecture", list(STRUCTURES)))
    for what, endings in studies:
        if ranges := _ranges(means, [f"usnrt-paper-{ending}" for ending in endings]):
            title = f"**Stability over {what}.**"
            paragraphs.append(f"{title} In the paper, the metrics are stable; here ECE (times 100) {_varies(ranges)}.")
    return paragraphs


def _varies(ranges: dict[str, float]) -> str:
    middle, widest = np.median(list(ranges.values())), max(ranges, key=lambda name: ranges[name])
    if len(ranges) == 1:
        changes = "is the same at every value" if ranges[widest] < 0.005 else f"varies by {middle:.2f}"
        return f"{changes} on {get_spec(widest).title}, the only data set run"
    if ranges[widest] < 0.005:
        return f"is the same at every value on all {len(ranges)} data sets"
    most = f"most on {get_spec(widest).title} ({ranges[widest]:.2f})"
    return f"varies by {middle:.2f} in the median over {len(ranges)} data sets, {most}"


def _ranges(means: Means, recipes: list[str]) -> dict[str, float]:
    found = {name: _on_same_splits(means, name, recipes) for name in list_datasets()}
    return {name: max(values) - min(values) for name, values in found.items() if values}


def _on_same_splits(means: Means, dataset: str, recipes: list[str]) -> list[float]:
    """ECE of some recipes over the splits that they have in common; empty if it is not known for all."""
    shared = means.shared(dataset, recipes, "ece")
    values = [mean.value for recipe in recipes if (mean := shared.metric(dataset, recipe, "ece"))]
    return values if len(values) == len(recipes) else []


def _default_against_paper(table: Comparison, means: Means) -> str:
    column = [model.label for model in table.models].index(table.ours)
    better: list[str] = []
    worse: list[str] = []
    for name in list_datasets():
        own = table.values(means, name, "default")[column]
        best = min(value.value for value in table.values(means, name, "paper") if value)
        if own is not None:
            (better if own.value < best else worse).append(name)
    if not better and not worse:
        return ""
    listed = f": {_names(better)}" if better else ""
    rest = f"; not on {_names(worse)}" if worse else ""
    sentence = (
        f"**{_metric(table)}.** {table.ours} with the default recipe is better than the best model in the "
        f"paper's table on {of_sets(len(better), len(better) + len(worse))}{listed}{rest}."
    )
    return f"{sentence} {_best_by_default(table, means)}".rstrip()


def _best_by_default(table: Comparison, means: Means) -> str:
    winners = table.winners(means, "default")
    if not winners:
        return ""
    lost = [name for name, winner in winners.items() if winner != table.ours]
    rest = f"; not on {_names(lost, winners)}" if lost else ""
    n_clear = sum(winner == table.ours for winner in table.clear_winners(means, "default").values())
    n_unknown = len(table.unknown_errors(means, "default"))
    unknown = f" (the error is unknown on {n_unknown})" if n_unknown else ""
    return (
        "Among the default recipes of all models in the table it is best on "
        f"{of_sets(len(winners) - len(lost), len(winners))}, on {n_clear} beyond error{unknown}{rest}."
    )


def _differences(table: Comparison, means: Means) -> str:
    gaps: dict[str, list[float]] = {model.label: [] for model in table.models}
    for name in list_datasets():
        stated, here = (table.values(means, name, source) for source in ("paper", "paper's recipe"))
        for model, theirs, ours in zip(table.models, stated, here):
            if theirs and ours and math.isfinite(theirs.value) and math.isfinite(ours.value):
                gaps[model.label].append(ours.value - theirs.value)
    known = {label: values for label, values in gaps.items() if values}
    if not known:
        return ""
    listed = ", ".join(f"{label} {np.median(values):+.2f} ({len(values)})" for label, values in known.items())
    return f"**{_metric(table)}**: {listed}"
