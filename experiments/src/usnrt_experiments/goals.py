"""The default recipes against their goals and against other libraries, computed from the records."""

from usnrt.paper.datasets import get_spec, list_datasets
from usnrt_experiments.aggregate import Means
from usnrt_experiments.comparisons import COMPARISONS, Comparison
from usnrt_experiments.layout import BEST, Entry, Layout, number, words
from usnrt_experiments.models import LIBRARIES, OURS
from usnrt_experiments.verdicts import counted, of_sets

# Close to what sampling noise alone gives on a few thousand test rows.
MAX_ECE, MAX_TCE = 1.0, 1.5
PEERS = tuple(model.label for model in LIBRARIES)


def paper_best(metric: str, dataset: str) -> float:
    """The best value of any model in the paper's tables of a metric, including Evidential with any lambda.

    Examples
    --------
    >>> from usnrt_experiments.goals import paper_best
    >>> paper_best("nll", "appliances")
    9.74
    """
    tables = COMPARISONS[metric], COMPARISONS[f"evidential_{metric}"]
    found = [value for table in tables for value in table.values(Means([]), dataset, "paper")]
    return min(value.value for value in found if value)


def goals_table(means: Means) -> Layout:
    """The default tree and ensemble against their goals; values that reach their goal are bold."""
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
    """The fast preset, the tree and the ensemble against the best peer on the same splits.

    Bold values are lower than those of every peer by more than the error.
    """
    header, rows = ["Dataset", "Peers run"], []
    for metric in ("CRPS", "NLL", "RMSE"):
        header += [f"Fast {metric}", f"Tree {metric}", f"Ensemble {metric}", "best peer", ""]
    for name in list_datasets():
        entries: list[Entry] = []
        n_peers = 0
        for metric in ("crps", "nll", "rmse"):
            table = COMPARISONS[f"peers_{metric}"]
            own = [_on_equal_splits(table, means, name, ours) for ours in OURS]
            known = next((peers for _, peers in reversed(own) if peers), {})
            n_peers = max(n_peers, len(known))
            for ours, (value, _) in zip(OURS, own):
                is_best = value is not None and against_peers(table, means, name, ours) == "lower"
                entries.append(number(value, BEST if is_best else ""))
            best = min(known, key=lambda peer: known[peer]) if known else None
            entries += [number(known[best]), words(best)] if best else [Entry(""), Entry("")]
        if n_peers and any(entry.text for entry in entries[:3]):
            rows.append([words(get_spec(name).title), number(n_peers, pattern="{:.0f}"), *entries])
    return Layout(
        "Presets against the best peer",
        header,
        rows,
        best_means="lower than every peer that was run, by more than the error",
    )


def against_peers(table: Comparison, means: Means, dataset: str, ours: str) -> str:
    """How one of our models stands against all peers that share a split with it.

    Returns
    -------
    str
        ``"lower"`` than all beyond error, ``"higher"`` than one beyond error, ``"unknown"`` if an error that decides is
        unknown, else ``"tie"``; empty without peers.
    """
    found = [table.difference(means, dataset, "default", ours, peer) for peer in PEERS]
    verdicts = {pair.verdict for pair in found if pair}
    if not verdicts:
        return ""
    for verdict in ("higher", "unknown", "tie"):
        if verdict in verdicts:
            return verdict
    return "lower"


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
    """Markdown paragraphs: comparison with peers, and what each part is worth."""
    paragraphs = [*_against_peers(means), *_parts_effect(means)]
    return [paragraph for paragraph in paragraphs if paragraph]


def _against_peers(means: Means) -> list[str]:
    table, paragraphs = COMPARISONS["peers_crps"], []
    for ours in OURS:
        titles: dict[str, list[str]] = {verdict: [] for verdict in ("lower", "tie", "higher", "unknown")}
        for name in list_datasets():
            if verdict := against_peers(table, means, name, ours):
                titles[verdict].append(_beside_best_peer(table, means, name, ours, verdict))
        n_sets = sum(map(len, titles.values()))
        if not n_sets:
            continue
        parts = [
            f"{said}: {'; '.join(titles[verdict])}."
            for verdict, said in (
                ("lower", "Lower than all"),
                ("tie", "Not distinguished from the best peer"),
                ("higher", "Higher than a peer"),
                ("unknown", "Error unknown"),
            )
            if titles[verdict]
        ]
        share = of_sets(len(titles["lower"]), n_sets)
        paragraphs.append(f"**CRPS of {ours} and all peers.** Lower beyond error on {share}. {' '.join(parts)}")
    if paragraphs:
        paragraphs.insert(0, f"Peers: {', '.join(PEERS)}; in brackets how many of them were run, if not all.")
    return paragraphs


def _beside_best_peer(table: Comparison, means: Means, dataset: str, ours: str, verdict: str) -> str:
    own, peers = _on_equal_splits(table, means, dataset, ours)
    run = sum(bool(table.difference(means, dataset, "default", ours, peer)) for peer in PEERS)
    facts = [f"{run} of {len(PEERS)} peers"] if run < len(PEERS) else []
    if verdict != "lower" and own is not None and peers:
        best = min(peers, key=lambda peer: peers[peer])
        facts.append(f"{best} {peers[best]:.2f}, ours {own:.2f}")
    return get_spec(dataset).title + (f" ({'; '.join(facts)})" if facts else "")


def _parts_effect(means: Means) -> list[str]:
    """What the tree and each expert are worth; a part that was left out nowhere has no paragraph."""
    paragraphs = []
    for label in ("No tree", "No network", "No memory", "No forest", "No linear model"):
        found = {
            metric: said
            for metric, table in (("CRPS", "parts_crps"), ("NLL", "parts_nll"))
            if (said := _compared(COMPARISONS[table], means, "Default", label))
        }
        if found:
            said = " ".join(f"{metric}: {text}" for metric, text in found.items())
            paragraphs.append(f"**{label}.** The default recipe compared with itself without this part. {said}")
    if said := _compared(COMPARISONS["parts_worst_leaf"], means, "Default", "Global calibration"):
        paragraphs.append(
            "**Calibration by region.** The largest deviation of a region's coverage from 90 % is, compared with "
            f"global calibration, {said}"
        )
    return paragraphs


def _compared(table: Comparison, means: Means, ours: str, other: str) -> str:
    """On which data sets ``ours`` is lower or higher than ``other`` beyond error; empty without records."""
    titles: dict[str, list[str]] = {verdict: [] for verdict in ("lower", "higher", "tie", "unknown")}
    for name in list_datasets():
        if found := table.difference(means, name, "default", ours, other):
            titles[found.verdict].append(get_spec(name).title)
    n_sets = sum(map(len, titles.values()))
    if not n_sets:
        return ""
    words_of = {"lower": "lower", "higher": "higher", "tie": "not distinguished", "unknown": "of unknown error"}
    parts = [
        f"{said} on {len(titles[verdict])} ({', '.join(titles[verdict])})"
        for verdict, said in words_of.items()
        if titles[verdict]
    ]
    return f"{', '.join(parts)} of {counted(n_sets)}."
