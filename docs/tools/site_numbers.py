"""Numbers in documents, made from the records in experiments/results/cells.

A document has a pair of comments, ``<!-- numbers: NAME -->`` and ``<!-- end of numbers -->``. What is between them is
written by ``python docs/tools/site_numbers.py``, so that it can be read in the repository, and again when the site is
built. A test compares the two.
"""

import math
import re
import sys
from functools import lru_cache
from pathlib import Path
from statistics import mean, median, stdev

from usnrt.paper.datasets import SEEDS, list_datasets
from usnrt_experiments import Store
from usnrt_experiments.aggregate import Means
from usnrt_experiments.grid import title_of
from usnrt_experiments.heterogeneity import (
    FIRST_SPLIT,
    OVER_SPLITS,
    heterogeneity_correlation,
    judged_sets,
    trees_of,
)
from usnrt_experiments.models import LIBRARIES, PEERS
from usnrt_experiments.paper import paper_value

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(<!-- numbers: ([a-z-]+) -->\n).*?(<!-- end of numbers -->)", re.DOTALL)
LABELS = {model.default_recipe: model.label for model in PEERS}
PRESETS = {"usnrt-fast": "fast", "usnrt": "tree", "usnrt-ensemble": "ensemble"}
PEER_RECIPES = [model.default_recipe for model in LIBRARIES]


@lru_cache(maxsize=1)
def means():
    """Return the means over splits of the committed records."""
    return Means(Store(ROOT / "experiments" / "results").records())


def values(dataset, recipe, metric):
    """Return the values of a metric on all splits."""
    return [split.value for split in means().split_values(dataset, recipe, metric).values()]


def datasets(recipe):
    """Return the paper's data sets that a recipe has records of, in the order of the paper."""
    return [name for name in list_datasets() if means().metric(name, recipe, "crps")]


def libraries(dataset):
    """Return the recipes of other libraries that were run on a data set."""
    return [name for name in PEER_RECIPES if means().metric(dataset, name, "crps")]


def table(header, rows):
    """Return a Markdown table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows))


# -- the paper's estimator beside the paper ---------------------------------------------------------------------------


def _with_error(found):
    error = f" ± {stdev(found) / math.sqrt(len(found)):.2f}" if len(found) > 1 else ""
    return f"{mean(found):.2f}{error}"


def paper_near():
    """The paper's estimator and HNN on all splits, with standard errors, beside the paper's values."""
    metrics = ("ece", "tce", "sharpness")
    rows, gaps = [], {(column, metric): {} for column in ("USNRT", "HNN") for metric in metrics}
    for name in datasets("usnrt-paper"):
        row = [title_of(name)]
        for recipe, column in (("usnrt-paper", "USNRT"), ("hnn-paper", "HNN")):
            for metric in metrics:
                found, theirs = values(name, recipe, metric), paper_value(metric, name, column)
                row.append(f"{_with_error(found)} ({theirs:.2f})" if found else "")
                if found:
                    gaps[column, metric][name] = abs(mean(found) - theirs)
            if recipe == "usnrt-paper":
                row.append(_heterogeneity(name))
        rows.append(row)
    header = ["data", "USNRT: ECE", "TCE", "sharpness", "heterogeneity", "HNN: ECE", "TCE", "sharpness"]
    usnrt, hnn = ([_middle_and_largest(gaps[column, metric]) for metric in metrics] for column in ("USNRT", "HNN"))
    return (
        f"{table(header, rows)}\n\n"
        f"Median absolute difference to the paper over these {len(rows)} sets, and the largest: USNRT {usnrt[0]} in "
        f"ECE, {usnrt[1]} in TCE, {usnrt[2]} in sharpness; HNN {', '.join(hnn)}."
    )


def _middle_and_largest(gaps):
    largest = max(gaps, key=gaps.get)
    return f"{median(gaps.values()):.2f} ({gaps[largest]:.2f} on {title_of(largest)})"


def _measures(dataset):
    """Heterogeneity of the first split, its mean over splits, and the paper's."""
    first, mean_of_all = (means().heterogeneity(dataset, "usnrt-paper", seed).value for seed in (SEEDS[0], None))
    return first, mean_of_all, paper_value("heterogeneity", dataset, "Measure Sorted")


def _heterogeneity(dataset):
    first, mean_of_all, theirs = _measures(dataset)
    return f"{first:.2f}, {mean_of_all:.2f} ({theirs:.2f})"


def paper_heterogeneity():
    """How near the measure of heterogeneity comes, and its correlation with the decrease of ECE."""
    sets = judged_sets(means())
    near = [sum(abs(_measures(name)[k] - _measures(name)[2]) <= 0.05 for name in sets) for k in (0, 1)]
    first, mean_of_all = (heterogeneity_correlation(means(), source) for source in (FIRST_SPLIT, OVER_SPLITS))
    theirs = heterogeneity_correlation(means(), "paper", sets)
    return (
        f"Heterogeneity on the first split, as the paper defines it, is within 0.05 of the paper's on {near[0]} of "
        f"{len(sets)} sets, its mean over splits on {near[1]}. Spearman's correlation with the decrease of ECE: "
        f"{first} with the first split, {mean_of_all} with the mean; the paper's own columns give {theirs}."
    )


def paper_realtime():
    """The trees of Real-time over splits and seeds of the networks."""
    recipes = ["usnrt-paper", *_other_seeds("realtime", "usnrt-paper")]
    trees = [tree for recipe in recipes for tree in trees_of(means(), "realtime", recipe).values()]
    measures = [tree["heterogeneity"] for tree in trees]
    regions = [tree["n_leaves"] for tree in trees]
    low = min(trees, key=lambda tree: tree["heterogeneity"])
    return (
        f"Over {len(trees)} fits (splits and seeds of the table above) it goes from {min(measures):.2f} to "
        f"{max(measures):.2f}, median {median(measures):.2f}, with {min(regions)} to {max(regions)} regions; "
        f"{sum(measure <= 1.0 for measure in measures)} of them has at most 1.00, with {low['n_leaves']} regions from "
        f"{min(low['leaf_residual_std']):.4f} to {max(low['leaf_residual_std']):.4f}."
    )


# -- the seed of the networks -----------------------------------------------------------------------------------------


def _by_split(dataset, recipe, metric):
    """The values of every split, one for the split's own seed and one for each ``?random_state=`` on all splits."""
    runs = [means().split_values(dataset, recipe, metric)]
    runs += [means().split_values(dataset, name, metric) for name in _other_seeds(dataset, recipe)]
    return {split: [run[split].value for run in runs] for split in runs[0]}


def _other_seeds(dataset, recipe):
    splits = means().seeds(dataset, recipe, "ece")
    names = (f"{recipe}?random_state={seed}" for seed in range(1, 100))
    return [name for name in names if means().seeds(dataset, name, "ece") == splits]


def paper_seeds():
    """Standard errors that include the networks' seeds: several seeds per split."""
    rows = []
    for dataset in ("electrical", "realtime"):
        for recipe, model in (("hnn-paper", "HNN"), ("usnrt-paper", "USNRT")):
            for metric, name in (("ece", "ECE"), ("tce", "TCE"), ("sharpness", "sharpness")):
                found = list(_by_split(dataset, recipe, metric).values())
                theirs = paper_value(metric, dataset, model)
                rows.append([title_of(dataset), model, name, *_seed_row(found, theirs)])
    header = ["data", "model", "metric", "seeds", "mean", "its error", "means of one seed each"]
    header += ["error of such a mean", "share of the seed", "paper", "distance"]
    return table(header, rows)


def _seed_row(found, theirs):
    """One row: values by split and seed, taken apart into the variance of splits and that of seeds within them."""
    n_seeds, n_splits = len(found[0]), len(found)
    by_seed = [mean(values) for values in zip(*found)]
    of_seeds = mean(stdev(values) ** 2 for values in found)
    of_means = stdev(mean(values) for values in found) ** 2  # that of splits, and a share of that of seeds
    of_splits = max(of_means - of_seeds / n_seeds, 0.0)
    error, one = math.sqrt(of_means / n_splits), math.sqrt((of_splits + of_seeds) / n_splits)
    overall = mean(by_seed)
    return [
        str(n_seeds),
        f"{overall:.2f}",
        f"{error:.2f}",
        f"{min(by_seed):.2f} to {max(by_seed):.2f}",
        f"{one:.2f}",
        f"{100 * of_seeds / (of_splits + of_seeds):.0f} %",
        f"{theirs:.2f}",
        f"{(theirs - overall) / math.hypot(error, one):+.1f}",
    ]


def paper_electrical():
    """How far the paper's estimator is from the paper on Electrical, in standard errors of the difference."""
    parts = []
    for metric, name in (("ece", "ECE"), ("tce", "TCE"), ("sharpness", "sharpness")):
        found = values("electrical", "usnrt-paper", metric)
        gap = mean(found) - paper_value(metric, "electrical", "USNRT")
        error = math.sqrt(2 / len(found)) * stdev(found)
        parts.append(f"{name} {gap:+.2f} ({abs(gap) / error:.1f})")
    return (
        "Electrical, difference to the paper, and in brackets its size in standard errors of a difference, if those of "
        f"the paper are like ours: {', '.join(parts)}."
    )


# -- ours beside the peers --------------------------------------------------------------------------------------------


def crps_peers():
    """CRPS of the presets and of the best other library, on the splits that all of them were run on."""
    rows = []
    for name in datasets("usnrt"):
        others = libraries(name)
        fair = means().shared(name, [*PRESETS, *others], "crps")
        found = {recipe: crps for recipe in [*PRESETS, *others] if (crps := fair.metric(name, recipe, "crps"))}
        row = [title_of(name), str(found["usnrt"].n_seeds)]
        row += [f"{found[recipe].value:.2f}" if recipe in found else "" for recipe in PRESETS]
        best = min((recipe for recipe in others if recipe in found), key=lambda recipe: found[recipe].value)
        rows.append([*row, f"{found[best].value:.2f}, {LABELS[best]}"])
    return table(["data", "splits", *PRESETS.values(), "best peer"], rows)


def calibration_ours():
    """ECE and TCE of the presets: the median over data sets and the worst one."""
    rows = []
    for recipe, name in PRESETS.items():
        row = [name, str(len(datasets(recipe)))]
        for metric in ("ece", "tce"):
            found = {dataset: means().metric(dataset, recipe, metric).value for dataset in datasets(recipe)}
            worst = max(found, key=found.get)
            row += [f"{median(found.values()):.2f}", f"{found[worst]:.2f}, {title_of(worst)}"]
        rows.append(row)
    return table(["preset", "data sets", "ECE: median", "largest", "TCE: median", "largest"], rows)


def where_peers_win():
    """Data sets and metrics on which another library is lower than the tree and the ensemble."""
    rows = []
    for metric in ("crps", "nll", "rmse"):
        for name in datasets("usnrt"):
            pairs = {peer: means().difference(name, "usnrt", peer, metric) for peer in libraries(name)}
            pairs = {peer: pair for peer, pair in pairs.items() if pair}
            best = max(pairs, key=lambda peer: pairs[peer].value)
            ensemble = means().difference(name, "usnrt-ensemble", best, metric)
            if pairs[best].value <= 0 or (ensemble and ensemble.value <= 0):
                continue
            peer = means().shared(name, ["usnrt", best], metric).metric(name, best, metric)
            row = [title_of(name), metric.upper(), f"{LABELS[best]} {peer.value:.2f}"]
            rows.append([*row, _difference(pairs[best]), _difference(ensemble)])
    return table(["data", "metric", "best peer", "tree minus peer", "ensemble minus peer"], rows)


def _difference(pair):
    """A difference with its standard error, in bold if it is larger than its error, and the number of splits."""
    if pair is None:
        return ""
    text = f"{pair.value:+.2f}" + ("" if math.isnan(pair.std_error) else f" ± {pair.std_error:.2f}")
    return (f"**{text}**" if pair.counts else text) + f" ({pair.n_splits})"


def fit_times():
    """Processor time of a fit, as the median over data sets of ratios to LightGBM's quantile models."""
    rows, base = [], "lightgbm-quantile"
    recipes = ["catboost", "ngboost", "quantile-forest", "quantile-extra-trees", *PRESETS]
    for recipe in recipes:
        ratios = []
        for name in datasets(recipe):
            fair = means().shared(name, [recipe, base], "crps")
            ours, theirs = fair.seconds(name, recipe), fair.seconds(name, base)
            if ours and theirs:
                ratios.append(ours.value / theirs.value)
        if ratios:
            rows.append([LABELS[recipe], f"{median(ratios):.2f}", str(len(ratios))])
    return table(["model", "processor time of a fit, relative to LightGBM quantiles", "data sets"], rows)


def provenance():
    """When and with what the records were made."""
    done = [record.meta for record in means().records()]
    days = sorted(record["finished"][:10] for record in done)
    versions = sorted({record["versions"]["usnrt"] for record in done})
    return (
        f"Made from the {len(done):,} records in `experiments/results/cells` (finished {days[0]} to {days[-1]}, usnrt "
        f"{', '.join(versions)}); metrics are times 100 on the scaled target, means over the splits that were run, and "
        "comparisons are on equal splits. Each record has its commit and settings."
    )


BLOCKS = {
    "paper-near": paper_near,
    "paper-electrical": paper_electrical,
    "paper-heterogeneity": paper_heterogeneity,
    "paper-realtime": paper_realtime,
    "paper-seeds": paper_seeds,
    "calibration-ours": calibration_ours,
    "crps-peers": crps_peers,
    "where-peers-win": where_peers_win,
    "fit-times": fit_times,
    "provenance": provenance,
}


def fresh(text):
    """Return a document with all its blocks of numbers made again."""
    return BLOCK.sub(lambda found: f"{found.group(1)}{BLOCKS[found.group(2)]()}\n{found.group(3)}", text)


def documents():
    """Return the documents that may have blocks of numbers."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main():
    """Write the blocks of all documents."""
    for path in documents():
        text = path.read_text()
        if fresh(text) != text:
            path.write_text(fresh(text))
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
