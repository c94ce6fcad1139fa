"""What the paper's text claims beyond its tables, and whether the records confirm it."""

import math
from collections.abc import Callable

import numpy as np

from usnrt.paper.datasets import SEEDS, list_datasets
from usnrt_experiments.aggregate import Means
from usnrt_experiments.comparisons import COMPARISONS, Comparison
from usnrt_experiments.heterogeneity import heterogeneity_claim, trees_of
from usnrt_experiments.layout import Layout, words
from usnrt_experiments.runs import NOT_AT_HAND
from usnrt_experiments.stability import stability_claims
from usnrt_experiments.verdicts import (
    CONFIRMED,
    IN_PART,
    MIN_SETS,
    NOT_CONFIRMED,
    UNKNOWN,
    Claim,
    counted,
    listed,
    of_sets,
)

RECIPE = "paper's recipe"
# Tables for which the text counts ranks up to the second, and those with a column of improvements.
SECOND_OR_BETTER = ("tce", "sharpness", "rmse", "nll")
# Counts of competitors in the captions: table, model, and the worst rank that counts.
COMPETITORS = (
    ("tce", "HNN", 1),
    ("sharpness", "HNN", 1),
    ("sharpness", "Random Forest", 1),
    ("nll", "Evidential", 1),
    ("nll", "Deep Ensemble", 1),
    ("nll", "Evidential", 2),
    ("nll", "Deep Ensemble", 2),
)
IMPROVEMENTS = ("ece", "tce")
# The smallest improvement that the text calls "close to or larger than 50 %": Online in TCE, 41.4 %.
CLOSE_TO_HALF = 41.4
DEEPEST = 4


def claims(means: Means) -> list[Claim]:
    """Every claim of the paper's experiments that its tables do not state by themselves, judged by the records.

    Returns
    -------
    list of Claim
        Those without any record are included as "cannot be judged".
    """
    found = [_count(table, means, table.ours, 1) for table in COMPARISONS.values() if table.in_paper]
    found += [_count(COMPARISONS[name], means, COMPARISONS[name].ours, 2) for name in SECOND_OR_BETTER]
    found += [_count(COMPARISONS[name], means, label, worst) for name, label, worst in COMPETITORS]
    found += [_improvements(COMPARISONS[name], means) for name in IMPROVEMENTS]
    found += [_second_place(COMPARISONS[name], means) for name in IMPROVEMENTS]
    found += [
        _significance(means),
        heterogeneity_claim(means),
        *(_against_lambdas(COMPARISONS[name], means) for name in ("rmse", "nll")),
    ]
    found += [_depth(means), _number_of_regions(means), _root(means), _spread(means), *_alike(means), _cost(means)]
    return [*found, *stability_claims(means), *_matters_of_looking()]


def claims_table(means: Means) -> Layout:
    """The claims as a table: what the paper says, what is found here, and the verdict."""
    rows = [[words(text) for text in (claim.title, claim.paper, claim.here, claim.verdict)] for claim in claims(means)]
    notes = [
        "A count is confirmed if it is at least the paper's own on the same data sets, those on which all models of "
        "the table were run, at least four; one of a competitor, if it differs by at most one. Beyond error: see the "
        "rule at the top of the page. Stable: varies over the values of the parameter, on the first split, no more "
        "than the paper's recipe over the paper's five splits."
    ]
    return Layout("What the paper's text claims", ["Claim", "Paper", "Here", "Verdict"], rows, notes, n_text_columns=4)


def _count(table: Comparison, means: Means, label: str, worst: int) -> Claim:
    """On how many data sets a model is best, or second or better."""
    title = f"{label} is {'best' if worst == 1 else 'second or better'} in {table.short_title}"
    stated, here = table.ranks(means, "paper"), table.ranks(means, RECIPE)
    in_paper, ours = ([name for name, ranks in found.items() if ranks[label] <= worst] for found in (stated, here))
    paper = f"{len(in_paper)} of {len(stated)}"
    if not here:
        return Claim(title, paper, "no data set with all models", UNKNOWN)
    shared = [name for name in in_paper if name in here]
    same = [name for name in shared if name in ours]
    text = f"{of_sets(len(ours), len(here))}, {len(same)} of them as in the paper"
    # The paper's own model is to be as good as stated, its competitors also no better.
    agrees = len(ours) >= len(shared) if label == table.ours else abs(len(ours) - len(shared)) <= 1
    # Data sets on which it is not so in the paper either say nothing about a count.
    judged = len(here) >= MIN_SETS and (shared or ours)
    verdict = UNKNOWN if not judged else CONFIRMED if agrees else NOT_CONFIRMED
    return Claim(title, f"{paper}; {len(shared)} of the {len(here)} run here", text, verdict)


def _at_least(ours: int, theirs: int) -> str:
    return CONFIRMED if ours >= theirs else NOT_CONFIRMED


def _improvements(table: Comparison, means: Means) -> Claim:
    title = f"Improvements of {table.short_title} close to 50 % or more over the best other model"

    def large(source: str, percent: float) -> list[str]:
        found = {name: table.percentage(means, name, source) for name in list_datasets()}
        return [name for name, value in found.items() if value is not None and value >= percent]

    run = table.ranks(means, RECIPE)
    stated = large("paper", CLOSE_TO_HALF)
    paper = f"{listed(stated)} ({CLOSE_TO_HALF:.0f} % or more)"
    expected = [name for name in stated if name in run]
    if not expected:
        return Claim(title, paper, "none of these was run", UNKNOWN)
    ours, half = large(RECIPE, CLOSE_TO_HALF), large(RECIPE, 50.0)
    kept = [name for name in expected if name in ours]
    text = f"{CLOSE_TO_HALF:.0f} % or more: {listed(ours)}; 50 % or more: {listed(half)} (of {len(run)})"
    return Claim(title, paper, text, _share(len(kept), len(expected)))


def _share(n_some: int, n_all: int) -> str:
    return CONFIRMED if n_some == n_all else IN_PART if n_some else NOT_CONFIRMED


def _second_place(table: Comparison, means: Means) -> Claim:
    title = f"In {table.short_title}, HNN is second over all, better than both forests"
    mean_ranks = {}
    for source in ("paper", RECIPE):
        ranks = list(table.ranks(means, source).values())
        mean_ranks[source] = {m.label: float(np.mean([r[m.label] for r in ranks])) for m in table.models if ranks}
    paper, here = (", ".join(f"{k} {v:.2f}" for k, v in mean_ranks[s].items()) for s in ("paper", RECIPE))
    if not here:
        return Claim(title, f"mean ranks: {paper}", "no data set with all models", UNKNOWN)
    order = sorted(mean_ranks[RECIPE], key=lambda label: mean_ranks[RECIPE][label])
    return Claim(title, f"mean ranks: {paper}", f"mean ranks: {here}", _at_least(order[1] == "HNN", True))


def _significance(means: Means) -> Claim:
    """Signed-rank tests over data sets, corrected by Holm for the models."""
    title = "USNRT improves significantly on the three models in ECE and TCE"
    parts, counts = [], []
    for name in IMPROVEMENTS:
        table = COMPARISONS[name]
        values = [table.fair_values(means, dataset, RECIPE) for dataset in table.ranks(means, RECIPE)]
        if len(values) < 6:
            return Claim(title, "no test stated", "fewer than six data sets with all models", UNKNOWN)
        others = [model.label for model in table.models if model.label != table.ours]
        p = {other: _signed_rank(values, table.ours, other) for other in others}
        adjusted = _holm(p)
        counts += [value < 0.05 for value in adjusted.values()]
        parts.append(f"{table.short_title} " + ", ".join(f"{k} p = {v:.3f}" for k, v in adjusted.items()))
    text = f"one-sided signed-rank test over {len(values)} data sets, corrected by Holm: {'; '.join(parts)}"
    return Claim(title, "no test stated", text, _share(sum(counts), len(counts)))


def _signed_rank(values: list[dict[str, float]], ours: str, other: str) -> float:
    from scipy.stats import wilcoxon

    differences = [math.log(row[ours] / row[other]) for row in values]
    return float(wilcoxon(differences, alternative="less").pvalue) if any(differences) else 1.0


def _holm(p_values: dict[str, float]) -> dict[str, float]:
    """P-values corrected by Holm's method."""
    largest, adjusted = 0.0, {}
    for place, label in enumerate(sorted(p_values, key=lambda label: p_values[label])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[label]))
        adjusted[label] = largest
    return {label: adjusted[label] for label in p_values}


def _against_lambdas(table: Comparison, means: Means) -> Claim:
    """Data sets times values of lambda on which the ensemble is lower."""
    lambdas = COMPARISONS[f"evidential_{table.name}"]
    title = f"{lambdas.ours} is better than Evidential at every lambda in {table.short_title}"

    def lower(source: str, names: list[str]) -> tuple[int, int]:
        rows = [lambdas.fair_values(means, name, source) for name in names]
        pairs = [(row[lambdas.ours], value) for row in rows for label, value in row.items() if label != lambdas.ours]
        return sum(ours < other for ours, other in pairs), len(pairs)

    run = list(lambdas.ranks(means, RECIPE))
    n_lower, n_pairs = lower("paper", list_datasets())
    paper = f"{n_lower} of {n_pairs} comparisons"
    if not run:
        return Claim(title, paper, "no data set with all models", UNKNOWN)
    theirs, ours = lower("paper", run), lower(RECIPE, run)
    paper += f"; {theirs[0]} of {theirs[1]} on {counted(len(run))} run here"
    return Claim(title, paper, f"{ours[0]} of {ours[1]}", _at_least(ours[0], theirs[0]))


def _over_trees(means: Means, pick: Callable[[dict[str, float]], float]) -> dict[str, list[float]]:
    found = {name: [pick(tree) for tree in trees_of(means, name).values()] for name in list_datasets()}
    return {name: values for name, values in found.items() if values}


def _depth(means: Means) -> Claim:
    title, paper = "A tree of depth 2, 3 or at most 4 is enough", "2, 3, at most 4; about 3 levels"
    depths = [int(depth) for found in _over_trees(means, lambda tree: tree["max_depth"]).values() for depth in found]
    if not depths:
        return Claim(title, paper, "no trees", UNKNOWN)
    deeper = sum(depth > DEEPEST for depth in depths)
    text = f"depth {min(depths)} to {max(depths)}, median {np.median(depths):g}"
    text += f"; deeper than 4: {deeper} of {len(depths)} trees"
    return Claim(title, paper, text, NOT_CONFIRMED if deeper else CONFIRMED)


def _number_of_regions(means: Means) -> Claim:
    title, paper = "At most 10 regions", "10 at most, by the smallest size of a region"
    regions = [int(n) for found in _over_trees(means, lambda tree: tree["n_leaves"]).values() for n in found]
    if not regions:
        return Claim(title, paper, "no trees", UNKNOWN)
    text = f"{min(regions)} to {max(regions)}, median {np.median(regions):g}, of {len(regions)} trees"
    return Claim(title, paper, text, CONFIRMED if max(regions) <= 10 else NOT_CONFIRMED)


def _root(means: Means) -> Claim:
    title, paper = "Variances on both sides of the root's cut differ significantly", "six data sets in a figure"
    cut = {name: min(found) > 1 for name, found in _over_trees(means, lambda tree: tree["n_leaves"]).items()}
    if not cut:
        return Claim(title, paper, "no trees", UNKNOWN)
    text = (
        f"the root is cut on all splits of {of_sets(sum(cut.values()), len(cut))}; p < 0.01 follows from the cut "
        "itself, without a correction for the thousands of cuts that were tried"
    )
    return Claim(title, paper, text, _share(sum(cut.values()), len(cut)))


def _stds(means: Means) -> dict[str, list[float]]:
    """Standard deviations of the regions on the first split."""
    found = {name: trees_of(means, name).get(SEEDS[0], {}).get("leaf_residual_std") for name in list_datasets()}
    return {name: values for name, values in found.items() if values}


def _spread(means: Means) -> Claim:
    title, paper = "Standard deviations of the regions spread up to 1.4", "from 0 to 1.4"
    stds = _stds(means)
    if not stds:
        return Claim(title, paper, "no trees", UNKNOWN)
    everything = [value for values in stds.values() for value in values]
    widest = max(stds, key=lambda name: max(stds[name]) - min(stds[name]))
    text = f"from {min(everything):.3f} to {max(everything):.2f}; widest on {listed([widest])}"
    return Claim(title, paper, text, CONFIRMED if max(everything) >= 1.35 else IN_PART)


def _alike(means: Means) -> list[Claim]:
    """Data sets whose regions seem alike in the paper, until the logarithm is taken."""
    title, paper = "On some data sets the regions seem to have similar noise", "Real-time, Industry, GPU, Wave"
    stds = {name: values for name, values in _stds(means).items() if name in ("realtime", "industry", "gpu", "wave")}
    if not stds:
        return [Claim(title, paper, "none of these was run", UNKNOWN)]
    text = "; ".join(f"{listed([name])} {min(found):.4f} to {max(found):.4f}" for name, found in stds.items())
    alike = sum(max(found) - min(found) < 0.2 for found in stds.values())
    return [Claim(title, paper, f"{text}: small on the axis of the figure (below 0.2)", _share(alike, len(stds)))]


def _cost(means: Means) -> Claim:
    title, paper = "USNRT's computational cost is satisfactory", "no number stated"
    ratios = [
        ours.value / hnn.value
        for name in list_datasets()
        if (ours := means.seconds(name, "usnrt-paper")) and (hnn := means.seconds(name, "hnn-paper"))
    ]
    text = "no records"
    if ratios:
        text = f"processor time {np.median(ratios):.1f} times HNN's in the median over {counted(len(ratios))}"
        text += f" ({min(ratios):.1f} to {max(ratios):.1f})"
    return Claim(title, paper, text, UNKNOWN)


def _matters_of_looking() -> list[Claim]:
    return [
        Claim("Five trees are enough for an ensemble", "no other number shown", "no other number run", UNKNOWN),
        Claim(
            "Variance functions jump, or have another pattern in each segment",
            "jumps: Electrical, Conditional, Year; patterns: Facebook1, Facebook2, GPU",
            "a matter of looking: see the figure of variance functions",
            UNKNOWN,
        ),
        Claim(
            f"Any result on {listed(NOT_AT_HAND)}",
            "five of the 17 data sets",
            "their files cannot be had here; their loaders are tested on generated files of the same layout",
            UNKNOWN,
        ),
    ]
