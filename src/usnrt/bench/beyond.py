"""Whether the default recipes reach the goals that were set for them: a table and sentences, all from the records."""

from usnrt.bench.aggregate import Means
from usnrt.bench.layout import BEST, Entry, Layout, number, words
from usnrt.bench.tables import COMPARISONS, Comparison
from usnrt.datasets import get_spec, list_datasets

# What sampling noise nearly gives by itself on a few thousand test rows.
MOST_ECE, MOST_TCE = 1.0, 1.5
PEERS = ("CatBoost", "NGBoost", "LightGBM quantiles", "Quantile forest")


def paper_best(metric: str, dataset: str) -> float:
    """The best number that any model has in the paper's tables of a metric, Evidential with any lambda included.

    Examples
    --------
    >>> from usnrt.bench.beyond import paper_best
    >>> paper_best("nll", "appliances")
    9.74
    """
    tables = COMPARISONS[metric], COMPARISONS[f"evidential_{metric}"]
    found = [value for table in tables for value in table.values(Means([]), dataset, "paper")]
    return min(value.value for value in found if value)


def goals_table(means: Means) -> Layout:
    """The default tree and ensemble beside their goals; what reaches its goal is bold.

    Parameters
    ----------
    means : Means

    Returns
    -------
    Layout
    """
    header = ["Dataset", "Tree ECE", "Tree TCE", "Ensemble ECE", "Ensemble TCE"]
    header += ["Ensemble RMSE", "paper's best RMSE", "Ensemble NLL", "paper's best NLL"]
    rows = []
    for name in list_datasets():
        row = [words(get_spec(name).title)]
        for recipe in ("usnrt", "usnrt-ensemble"):
            row += [_against(means, name, recipe, "ece", MOST_ECE), _against(means, name, recipe, "tce", MOST_TCE)]
        for metric in ("rmse", "nll"):
            best = paper_best(metric, name)
            row += [_against(means, name, "usnrt-ensemble", metric, best), number(best)]
        if any(entry.text for entry in row[1:6]):
            rows.append(row)
    goal = f"goal reached (ECE at most {MOST_ECE}, TCE at most {MOST_TCE}, RMSE and NLL better than all in the paper)"
    return Layout("Goals of the default recipes", header, rows, best_means=goal)


def _against(means: Means, dataset: str, recipe: str, metric: str, goal: float) -> Entry:
    found = means.metric(dataset, recipe, metric)
    if found is None:
        return Entry("")
    return number(found.value, BEST if found.value <= goal else "", partial=not found.complete)


def beyond(means: Means) -> list[str]:
    """Markdown paragraphs: the peers, and whether the tree pays.

    Parameters
    ----------
    means : Means

    Returns
    -------
    list of str
    """
    said = [_against_peers(means), *_tree_pays(means)]
    return [paragraph for paragraph in said if paragraph]


def _against_peers(means: Means) -> str:
    table = COMPARISONS["peers_crps"]
    better, worse = [], []
    for name in list_datasets():
        known = table.fair_values(means, name, "default", among=("USNRT Ensemble", *PEERS))
        own = known.pop("USNRT Ensemble", None)
        if own is None or not known:
            continue
        best = min(known, key=lambda peer: known[peer])
        title = get_spec(name).title + (
            "" if len(known) == len(PEERS) else f" ({len(known)} of {len(PEERS)} peers run)"
        )
        if own < known[best]:
            better.append(title)
        else:
            worse.append(f"{title} ({best} {known[best]:.2f}, the ensemble {own:.2f})")
    if not better and not worse:
        return ""
    n_sets, listed = len(better) + len(worse), f": {', '.join(better)}" if better else ""
    rest = f" Not on: {', '.join(worse)}." if worse else ""
    return (
        f"**CRPS.** The default ensemble is better than all peers that were run ({', '.join(PEERS)}) on {len(better)} "
        f"of {n_sets} data sets{listed}.{rest}"
    )


def _tree_pays(means: Means) -> list[str]:
    said = []
    for metric, table in (("CRPS", "parts_crps"), ("NLL", "parts_nll")):
        better, worse = _compared(COMPARISONS[table], means, "Default", "No tree")
        if better or worse:
            said.append(
                f"**The tree, {metric}.** With the tree {metric} is lower than with one leaf on {len(better)} of "
                f"{len(better) + len(worse)} data sets" + (f" (not on {', '.join(worse)})." if worse else ".")
            )
    better, worse = _compared(COMPARISONS["parts_worst_leaf"], means, "Default", "Calibrated as a whole")
    if better or worse:
        said.append(
            "**Calibration by leaf.** The leaf whose 90 % intervals are furthest off is nearer to 90 % than with one "
            f"calibration for all rows on {len(better)} of {len(better) + len(worse)} data sets"
            + (f" (not on {', '.join(worse)})." if worse else ".")
        )
    return said


def _compared(table: Comparison, means: Means, ours: str, other: str) -> tuple[list[str], list[str]]:
    """Titles of the data sets where the one is lower than the other, and of those where not."""
    better: list[str] = []
    worse: list[str] = []
    for name in list_datasets():
        found = table.fair_values(means, name, "default", among=(ours, other))
        if len(found) == 2:
            (better if found[ours] < found[other] else worse).append(get_spec(name).title)
    return better, worse
