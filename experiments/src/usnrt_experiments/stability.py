"""The paper's stability analysis, judged by the records of the preset "stability"."""

from collections.abc import Sequence

import numpy as np

from usnrt.paper.datasets import list_datasets
from usnrt_experiments.aggregate import Means
from usnrt_experiments.recipes import ALPHAS, LEAVES, STRUCTURES
from usnrt_experiments.verdicts import (
    CONFIRMED,
    IN_PART,
    NOT_CONFIRMED,
    UNKNOWN,
    Claim,
    by_exceptions,
    counted,
    listed,
    of_sets,
)

METRICS = {"ece": "ECE", "tce": "TCE", "sharpness": "sharpness"}
PREFIX = "usnrt-paper-"
REGIONS = [f"{PREFIX}leaves{n}" for n in LEAVES]
ARCHITECTURES = [f"{PREFIX}{name}" for name in STRUCTURES]
LEVELS = [f"{PREFIX}alpha{alpha}" for alpha in ALPHAS]
# Where the paper sees ECE and TCE "decrease substantially" with more regions; elsewhere but on Blog they do not rise.
DECREASES = ("conditional", "realtime", "industry", "online", "query", "wave")
RISES = ("blog",)
# The paper has no number; here substantial is a quarter.
SUBSTANTIAL = 0.25


def stability_claims(means: Means) -> list[Claim]:
    """What the paper says about the number of regions, the architecture and the significance level."""
    found = [_fewer_to_more(means, metric) for metric in ("ece", "tce")]
    found += [_more_than_ten(means, metric) for metric in ("ece", "tce")]
    found += [_steady(means, "sharpness", REGIONS, "the number of regions")]
    found += [_small_is_enough(means, metric) for metric in ("ece", "tce")]
    found += [_steady(means, "sharpness", ARCHITECTURES, "the architecture")]
    return found + [_steady(means, metric, LEVELS, "the significance level") for metric in METRICS]


def _fewer_to_more(means: Means, metric: str) -> Claim:
    """From one region to at most ten, on the splits that both have."""
    title = f"{METRICS[metric]} falls with more regions, or stays"
    paper = f"falls substantially on {listed(DECREASES)}; elsewhere moderately or stays, except {listed(RISES)}"
    few, many = f"{PREFIX}leaves1", f"{PREFIX}leaves10"
    changes = {name: change for name in list_datasets() if (change := _relative_change(means, name, few, many, metric))}
    expected = [name for name in DECREASES if name in changes]
    if not changes:
        return Claim(title, paper, "no records", UNKNOWN)
    falls, rises, unknown = (
        [name for name, change in changes.items() if change[1] == verdict] for verdict in ("lower", "higher", "unknown")
    )
    large = [name for name, (share, _) in changes.items() if share <= -SUBSTANTIAL]
    kept = [name for name in expected if name in large]
    text = (
        f"from 1 to 10 regions, {counted(len(changes))}: lower by a quarter or more on {listed(large)}; lower beyond "
        f"error on {listed(falls)}; higher beyond error on {listed(rises)}"
    )
    text += "".join(f"; {listed([name])} {100 * changes[name][0]:+.0f} %, error unknown" for name in unknown)
    # Where the error is unknown, the sign decides, as in all comparisons.
    higher = [*rises, *(name for name in unknown if changes[name][0] > 0)]
    refuting = [name for name in higher if name not in RISES]
    return Claim(title, paper, text, _verdict(kept, expected, refuting) if expected else UNKNOWN)


def _verdict(kept: Sequence[str], expected: Sequence[str], refuting: Sequence[str]) -> str:
    agrees = [len(kept) == len(expected), not refuting]
    return CONFIRMED if all(agrees) else IN_PART if kept or not refuting else NOT_CONFIRMED


def _relative_change(means: Means, dataset: str, first: str, second: str, metric: str) -> tuple[float, str] | None:
    """Change of a metric from the first recipe to the second as a share of the first, and its verdict."""
    found = means.difference(dataset, second, first, metric)
    before = means.shared(dataset, [first, second], metric).metric(dataset, first, metric)
    return (found.value / before.value, found.verdict) if found and before else None


def _more_than_ten(means: Means, metric: str) -> Claim:
    title, paper = f"10 regions are enough for {METRICS[metric]}", "8 or 10 are appropriate"
    ten, more = f"{PREFIX}leaves10", [f"{PREFIX}leaves{n}" for n in LEAVES if n > 10]
    better, run = [], []
    for name in list_datasets():
        found = [change for recipe in more if (change := means.difference(name, recipe, ten, metric))]
        if found:
            run.append(name)
            better += [name] if any(change.verdict == "lower" for change in found) else []
    if not run:
        return Claim(title, paper, "no records", UNKNOWN)
    text = f"15 or 20 are lower beyond error on {of_sets(len(better), len(run))} ({listed(better)})"
    return Claim(title, paper, text, by_exceptions(len(better), len(run)))


def _small_is_enough(means: Means, metric: str) -> Claim:
    title = f"Larger networks need not have lower {METRICS[metric]}: S1 or S2 are enough"
    large_better, run = [], []
    for name in list_datasets():
        values = _on_common_splits(means, name, ARCHITECTURES, metric)
        if len(values) > 2 and ARCHITECTURES[0] in values:
            run.append(name)
            small, large = (
                min((recipe for recipe in values if recipe in group), key=lambda recipe: values[recipe])
                for group in (ARCHITECTURES[:2], ARCHITECTURES[2:])
            )
            found = means.difference(name, large, small, metric)
            large_better += [name] if found and found.verdict == "lower" else []
    if not run:
        return Claim(title, "stated of all", "no records", UNKNOWN)
    where = f"{of_sets(len(large_better), len(run))} ({listed(large_better)})"
    text = f"the best of S3 to S5 is lower beyond error than the best of S1 and S2 on {where}"
    return Claim(title, "stated of all", text, by_exceptions(len(large_better), len(run)))


def _steady(means: Means, metric: str, recipes: list[str], what: str) -> Claim:
    """Whether a metric varies less over a parameter than it does over the paper's splits."""
    title = f"{METRICS[metric][0].upper() + METRICS[metric][1:]} is stable over {what}"
    ranges, steady, run = {}, [], []
    for name in list_datasets():
        values = _on_common_splits(means, name, recipes, metric)
        splits = [value.value for value in means.split_values(name, "usnrt-paper", metric).values()]
        if len(values) == len(recipes):
            ranges[name] = float(np.ptp(list(values.values())))
            if len(splits) >= 3:
                run.append(name)
                steady += [name] if ranges[name] <= np.ptp(splits) else []
    if not ranges:
        return Claim(title, "stable on every data set", "no records with all values", UNKNOWN)
    widest = max(ranges, key=lambda name: ranges[name])
    middle, calm = np.median(list(ranges.values())), of_sets(len(steady), len(run))
    text = (
        f"varies by {middle:.2f} in the median of {counted(len(ranges))}, most on {listed([widest])} "
        f"({ranges[widest]:.2f}); no more than over the paper's splits on {calm}"
    )
    unsteady = [name for name in run if name not in steady]
    text += f", more on {listed(unsteady)}" if unsteady else ""
    return Claim(title, "stable on every data set", text, by_exceptions(len(unsteady), len(run)))


def _on_common_splits(means: Means, dataset: str, recipes: list[str], metric: str) -> dict[str, float]:
    """A metric of those recipes that were run, over the splits that they have in common."""
    shared = means.shared(dataset, recipes, metric)
    found = {recipe: shared.metric(dataset, recipe, metric) for recipe in recipes}
    return {recipe: mean.value for recipe, mean in found.items() if mean}
