"""Numbers in documents, made from the records in results/cells.

A document has a pair of comments, ``<!-- numbers: NAME -->`` and ``<!-- end of numbers -->``. What is between them is
written by ``python docs/tools/site_numbers.py``, so that it can be read in the repository, and again when the site is
built. A test compares the two.
"""

import json
import math
import re
import sys
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from statistics import mean, median, stdev

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(<!-- numbers: ([a-z-]+) -->\n).*?(<!-- end of numbers -->)", re.DOTALL)
OURS = {"usnrt-fast": "fast", "usnrt": "tree", "usnrt-ensemble": "ensemble"}
BASELINES = {"hnn", "deep-ensemble", "evidential", "mc-dropout", "concrete-dropout", "extra-trees", "random-forest"}


@lru_cache(maxsize=1)
def records():
    """Return the finished records as {(dataset, recipe): {seed: record}}."""
    found = defaultdict(dict)
    for path in sorted((ROOT / "results" / "cells").glob("*/*/*.json")):
        record = json.loads(path.read_text())
        if record["status"] == "done":
            cell = record["cell"]
            found[cell["dataset"], cell["recipe"]][cell["seed"]] = record
    return dict(found)


def values(dataset, recipe, metric, seeds=None):
    """Return the values of a metric on the splits (all, or those in ``seeds``)."""
    cells = records().get((dataset, recipe), {})
    return [cells[seed]["metrics"][metric] for seed in sorted(cells) if seeds is None or seed in seeds]


def datasets(recipe):
    """Return the paper's data sets that a recipe has records of, in the order of the paper."""
    from usnrt.datasets import list_datasets

    return [name for name in list_datasets() if (name, recipe) in records()]


def title(dataset):
    """Return the name of a data set in tables."""
    from usnrt.datasets import get_spec

    return get_spec(dataset).title


def label(recipe):
    """Return the name of a recipe in tables."""
    from usnrt.bench.models import PEERS

    return next((model.label for model in PEERS if model.default_recipe == recipe), recipe)


# -- the paper's estimator beside the paper ---------------------------------------------------------------------------


def _with_error(found):
    error = f" ± {stdev(found) / math.sqrt(len(found)):.2f}" if len(found) > 1 else ""
    return f"{mean(found):.2f}{error}"


def _paper(table, dataset, column):
    from usnrt.bench.paper import paper_value

    return paper_value(table, dataset, column)


def paper_near():
    """The paper's estimator and HNN on all splits, with standard errors, beside the paper's values."""
    metrics = ("ece", "tce", "sharpness")
    lines = [
        "| data | USNRT: ECE | TCE | sharpness | heterogeneity | HNN: ECE | TCE | sharpness |",
        "|---|---|---|---|---|---|---|---|",
    ]
    gaps = defaultdict(list)
    for name in datasets("usnrt-paper"):
        row = [title(name)]
        for recipe, column in (("usnrt-paper", "USNRT"), ("hnn-paper", "HNN")):
            for metric in metrics:
                found, theirs = values(name, recipe, metric), _paper(metric, name, column)
                row.append(f"{_with_error(found)} ({theirs:.2f})" if found else "")
                if found:
                    gaps[column, metric].append(abs(mean(found) - theirs))
            if recipe == "usnrt-paper":
                cells = records()[name, recipe].values()
                ours = mean(record["tree"]["heterogeneity"] for record in cells)
                row.append(f"{ours:.2f} ({_paper('heterogeneity', name, 'Measure Sorted'):.2f})")
        lines.append("| " + " | ".join(row) + " |")
    usnrt, hnn = ([f"{median(gaps[column, metric]):.2f}" for metric in metrics] for column in ("USNRT", "HNN"))
    n = len(lines) - 2
    lines += [
        "",
        f"Median absolute difference to the paper over these {n} sets: USNRT {usnrt[0]} in ECE, {usnrt[1]} in TCE, "
        f"{usnrt[2]} in sharpness; HNN {', '.join(hnn)}.",
    ]
    return "\n".join(lines)


def paper_short():
    """The paper's estimator beside the paper, in few digits."""
    lines = ["| data | ECE | TCE | sharpness | heterogeneity |", "|---|---|---|---|---|"]
    for name in datasets("usnrt-paper"):
        row = [title(name)]
        for metric in ("ece", "tce", "sharpness"):
            row.append(f"{mean(values(name, 'usnrt-paper', metric)):.1f} ({_paper(metric, name, 'USNRT'):.1f})")
        ours = mean(record["tree"]["heterogeneity"] for record in records()[name, "usnrt-paper"].values())
        row.append(f"{ours:.2f} ({_paper('heterogeneity', name, 'Measure Sorted'):.2f})")
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def paper_electrical():
    """How far the paper's estimator is from the paper on Electrical, in standard errors of the difference."""
    parts = []
    for metric, name in (("ece", "ECE"), ("tce", "TCE"), ("sharpness", "sharpness")):
        found = values("electrical", "usnrt-paper", metric)
        gap = mean(found) - _paper(metric, "electrical", "USNRT")
        error = math.sqrt(2 / len(found)) * stdev(found)
        parts.append(f"{name} {gap:+.2f} ({abs(gap) / error:.1f})")
    return (
        "Electrical, difference to the paper, and in brackets its size in standard errors of a difference, if those of "
        f"the paper are like ours: {', '.join(parts)}."
    )


# -- ours beside the peers --------------------------------------------------------------------------------------------


def _peers(dataset):
    from usnrt.bench.models import PEERS

    known = [model.default_recipe for model in PEERS]
    return [name for name in known if name not in OURS and name not in BASELINES and (dataset, name) in records()]


def best_peer(dataset, ours, metric):
    """Return our mean, the best peer and its mean, on the splits that ours and each peer have in common."""
    best = None
    for peer in _peers(dataset):
        common = set(records()[dataset, ours]) & set(records()[dataset, peer])
        if common:
            theirs, own = (mean(values(dataset, recipe, metric, common)) for recipe in (peer, ours))
            if best is None or theirs - own < best[2] - best[0]:
                best = (own, peer, theirs)
    return best


def crps_peers():
    """CRPS of the presets and of the best peer, on the splits that all of them were run on."""
    lines = ["| data | splits | fast | tree | ensemble | best peer |", "|---|---|---|---|---|---|"]
    for name in datasets("usnrt"):
        own = [recipe for recipe in OURS if (name, recipe) in records()]
        common = set.intersection(*(set(records()[name, recipe]) for recipe in [*own, *_peers(name)]))
        if not common:
            continue
        found = {recipe: mean(values(name, recipe, "crps", common)) for recipe in [*own, *_peers(name)]}
        row = [title(name), str(len(common)), *(f"{found[recipe]:.2f}" if recipe in found else "" for recipe in OURS)]
        best = min(_peers(name), key=found.get, default=None)
        row.append(f"{found[best]:.2f}, {label(best)}" if best else "")
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def calibration_ours():
    """ECE and TCE of the presets: the median over data sets and the worst one."""
    lines = ["| preset | data sets | ECE: median | largest | TCE: median | largest |", "|---|---|---|---|---|---|"]
    for recipe, name in OURS.items():
        row = [name, str(len(datasets(recipe)))]
        for metric in ("ece", "tce"):
            found = {dataset: mean(values(dataset, recipe, metric)) for dataset in datasets(recipe)}
            worst = max(found, key=found.get)
            row += [f"{median(found.values()):.2f}", f"{found[worst]:.2f}, {title(worst)}"]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def where_peers_win():
    """Data sets and metrics on which a peer is better than the tree and the ensemble."""
    lines = ["| data | metric | best peer | tree | ensemble |", "|---|---|---|---|---|"]
    for metric in ("crps", "nll", "rmse"):
        for name in datasets("usnrt"):
            found = {recipe: best_peer(name, recipe, metric) for recipe in OURS if (name, recipe) in records()}
            compared = [found[recipe] for recipe in ("usnrt", "usnrt-ensemble") if found.get(recipe)]
            if compared and all(theirs < own for own, _, theirs in compared):
                own = {recipe: f"{entry[0]:.2f}" for recipe, entry in found.items() if entry}
                peer, theirs = compared[0][1:]
                row = [title(name), metric.upper(), f"{label(peer)} {theirs:.2f}", own["usnrt"]]
                lines.append("| " + " | ".join([*row, own.get("usnrt-ensemble", "")]) + " |")
    return "\n".join(lines)


def fit_times():
    """Processor time of a fit, as the median over data sets of ratios to LightGBM's quantile models."""
    lines = ["| model | processor time of a fit, relative to LightGBM quantiles | data sets |", "|---|---|---|"]
    recipes = [
        "catboost",
        "ngboost",
        "quantile-forest",
        "quantile-extra-trees",
        "usnrt-fast",
        "usnrt",
        "usnrt-ensemble",
    ]
    for recipe in recipes:
        ratios = []
        for name in datasets(recipe):
            common = set(records()[name, recipe]) & set(records().get((name, "lightgbm-quantile"), {}))
            if common:
                ours, theirs = (
                    mean(records()[name, which][seed]["fit_cpu_seconds"] for seed in common)
                    for which in (recipe, "lightgbm-quantile")
                )
                ratios.append(ours / theirs)
        if ratios:
            lines.append(f"| {label(recipe)} | {median(ratios):.1f} | {len(ratios)} |")
    return "\n".join(lines)


def provenance():
    """When and with what the records were made."""
    done = [record for cells in records().values() for record in cells.values()]
    days = sorted(record["finished"][:10] for record in done)
    versions = sorted({record["versions"]["usnrt"] for record in done})
    return (
        f"Made from the {len(done):,} records in `results/cells` (finished {days[0]} to {days[-1]}, usnrt "
        f"{', '.join(versions)}); metrics are times 100 on the scaled target, means over the splits that were run, and "
        "comparisons are on equal splits. Each record has its commit and settings."
    )


BLOCKS = {
    "paper-near": paper_near,
    "paper-electrical": paper_electrical,
    "paper-short": paper_short,
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
