"""The default recipes against their goals and against other libraries, computed from the records."""

from usnrt.bench.aggregate import Means
from usnrt.bench.comparisons import COMPARISONS, Comparison
from usnrt.bench.layout import BEST, Entry, Layout, number, words
from usnrt.datasets import get_spec, list_datasets

# Close to what sampling noise alone gives on a few thousand test rows.
MAX_ECE, MAX_TCE = 1.0, 1.5
# The peers, whatever their settings, that the default recipes are to beat.
PEERS = (
    "CatBoost",
    "NGBoost",
    "LightGBM quantiles",
    "Quantile forest",
    "Quantile extra-trees",
    "CatBoost MultiQuantile",
    "CatBoost, tuned",
    "LightGBM quantiles, tuned",
    "XGBoost quantiles",
    "crepes on LightGBM",
    "RealMLP",
    "TabM",
)


def paper_best(metric: str, dataset: str) -> float:
    """The best value of any model in the paper's tables of a metric, including Evidential with any lambda.

    Examples
    --------
    >>> from usnrt.bench.goals import paper_best
    >>> paper_best("nll", "appliances")
    9.74
    """
    tables = COMPARISONS[metric], COMPARISONS[f"evidential_{metric}"]
    found = [value for table in tables for value in table.values(Means([]), dataset, "paper")]
    return min(value.value for value in found if value)


def goals_table(means: Means) -> Layout:
    """The default tree and ensemble against their goals; values that reach their goal are bold.

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
            row += [_against(means, name, recipe, "ece", MAX_ECE), _against(means, name, recipe, "tce", MAX_TCE)]
        for metric in ("rmse", "nll"):
            best = paper_best(metric, name)
            row += [_against(means, name, "usnrt-ensemble", metric, best), number(best)]
        if any(entry.text for entry in row[1:6]):
            rows.append(row)
    goal = f"goal reached (ECE at most {MAX_ECE}, TCE at most {MAX_TCE}, RMSE and NLL at most the best in the paper)"
    return Layout("Goals of the default recipes", header, rows, best_means=goal)


def peers_table(means: Means) -> Layout:
    """The fast preset, the tree and the ensemble against the best peer on the same splits; lower values are bold.

    Parameters
    ----------
    means : Means

    Returns
    -------
    Layout
    """
    header, rows = ["Dataset", "Peers run"], []
    for metric in ("CRPS", "NLL", "RMSE"):
        header += [f"Fast {metric}", f"Tree {metric}", f"Ensemble {metric}", "best peer", ""]
    for name in list_datasets():
        entries: list[Entry] = []
        n_peers = 0
        for metric in ("crps", "nll", "rmse"):
            table = COMPARISONS[f"peers_{metric}"]
            own = [_on_equal_splits(table, means, name, ours) for ours in ("USNRT fast", "USNRT", "USNRT Ensemble")]
            known = next((peers for _, peers in reversed(own) if peers), {})
            n_peers = max(n_peers, len(known))
            for value, peers in own:
                is_best = value is not None and bool(peers) and value < min(peers.values())
                entries.append(number(value, BEST if is_best else ""))
            best = min(known, key=lambda peer: known[peer]) if known else None
            entries += [number(known[best]), words(best)] if best else [Entry(""), Entry("")]
        if n_peers and any(entry.text for entry in entries[:3]):
            rows.append([words(get_spec(name).title), number(n_peers, pattern="{:.0f}"), *entries])
    return Layout("Presets against the best peer", header, rows, best_means="better than every peer that was run")


def _on_equal_splits(table: Comparison, means: Means, dataset: str, ours: str) -> tuple[float | None, dict[str, float]]:
    """The value of one of our models, and of the peers, over the splits that they have in common."""
    known = table.fair_values(means, dataset, "default", among=(ours, *PEERS))
    own = known.pop(ours, None)
    return own, known if own is not None else {}


def _against(means: Means, dataset: str, recipe: str, metric: str, goal: float) -> Entry:
    found = means.metric(dataset, recipe, metric)
    if found is None:
        return Entry("")
    return number(found.value, BEST if found.value <= goal else "", partial=not found.complete)


def default_findings(means: Means) -> list[str]:
    """Markdown paragraphs: comparison with peers, and the effect of the tree.

    Parameters
    ----------
    means : Means

    Returns
    -------
    list of str
    """
    paragraphs = [_against_peers(means), *_tree_effect(means)]
    return [paragraph for paragraph in paragraphs if paragraph]


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
            "" if len(known) == len(PEERS) else f" ({len(known)} of {len(PEERS)} peers were run)"
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
        f"**CRPS.** The default ensemble has a lower CRPS than all peers ({', '.join(PEERS)}) on {len(better)} "
        f"of {n_sets} data sets{listed}.{rest}"
    )


def _tree_effect(means: Means) -> list[str]:
    paragraphs = []
    for metric, table in (("CRPS", "parts_crps"), ("NLL", "parts_nll")):
        better, worse = _compared(COMPARISONS[table], means, "Default", "No tree")
        if better or worse:
            paragraphs.append(
                f"**The tree, {metric}.** With the tree, {metric} is lower than with one region on {len(better)} of "
                f"{len(better) + len(worse)} data sets" + (f" (not on {', '.join(worse)})." if worse else ".")
            )
    better, worse = _compared(COMPARISONS["parts_worst_leaf"], means, "Default", "Global calibration")
    if better or worse:
        paragraphs.append(
            "**Calibration by region.** The largest deviation of a region's coverage from 90 % is smaller than with "
            f"global calibration on {len(better)} of {len(better) + len(worse)} data sets"
            + (f" (not on {', '.join(worse)})." if worse else ".")
        )
    return paragraphs


def _compared(table: Comparison, means: Means, ours: str, other: str) -> tuple[list[str], list[str]]:
    """Titles of the data sets where ``ours`` is lower than ``other``, and of those where it is not."""
    better: list[str] = []
    worse: list[str] = []
    for name in list_datasets():
        found = table.fair_values(means, name, "default", among=(ours, other))
        if len(found) == 2:
            (better if found[ours] < found[other] else worse).append(get_spec(name).title)
    return better, worse
