"""Whether the paper's findings are confirmed here: paragraphs computed from the records."""

from collections import defaultdict
from collections.abc import Sequence

from usnrt.paper.datasets import get_spec, list_datasets
from usnrt_experiments.aggregate import Means
from usnrt_experiments.comparisons import COMPARISONS, Comparison
from usnrt_experiments.heterogeneity import heterogeneity_finding
from usnrt_experiments.verdicts import of_sets

# Tables in which the paper claims that its model is best.
CLAIMS = ("ece", "tce", "sharpness", "rmse", "nll", "evidential_rmse", "evidential_nll")


def findings(means: Means) -> list[str]:
    """One Markdown paragraph per claim of the paper for which there are enough records."""
    paragraphs = [_best_model(COMPARISONS[name], means) for name in CLAIMS]
    paragraphs.append(heterogeneity_finding(means))
    return [paragraph for paragraph in paragraphs if paragraph]


def improvements(means: Means) -> list[str]:
    """One Markdown paragraph per table: the default recipes against the best model of the paper."""
    return [paragraph for name in CLAIMS[:5] if (paragraph := _default_against_paper(COMPARISONS[name], means))]


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
        f"**{table.short_title}.** In the paper, {table.ours} is best on {in_paper} of {len(stated)} data sets; "
        f"here, with the paper's recipes, it is best on {len(wins)} of the {len(here)} on which all models were run, "
        f"on {n_clear} beyond error (in the paper on {sum(stated[name] == table.ours for name in here)} of these)."
    )
    parts = [
        f"Confirmed beyond error: {_names(sure)}." if sure else "",
        f"Best here too, but not beyond error: {_names(unsure)}." if unsure else "",
        f"Not confirmed: {_names(lost, here)}." if lost else "",
        f"Best here, but not in the paper: {_names(gained)}." if gained else "",
        f"Best neither here nor in the paper: {_names(neither)}." if neither else "",
        f"Splits: {_splits(table, means, list(here))}.",
        _not_judged(table, means),
    ]
    return " ".join([sentence, *(part for part in parts if part)])


def _splits(table: Comparison, means: Means, datasets: list[str]) -> str:
    """On how many splits the models were compared, data sets of equal numbers together."""
    by_number: dict[int, list[str]] = defaultdict(list)
    for name in datasets:
        by_number[table.common_splits(means, name, "paper's recipe")].append(name)
    if len(by_number) == 1:
        return f"{next(iter(by_number))} of each"
    return "; ".join(f"{n} of {_names(by_number[n])}" for n in sorted(by_number, reverse=True))


def _not_judged(table: Comparison, means: Means) -> str:
    found = table.missing_models(means, "paper's recipe")
    if not found:
        return ""
    return (
        "Not judged: " + "; ".join(f"{_names([name])} (no {', '.join(models)})" for name, models in found.items()) + "."
    )


def _names(datasets: Sequence[str], winners: dict[str, str] | None = None) -> str:
    if winners is None:
        return ", ".join(get_spec(name).title for name in datasets)
    return ", ".join(f"{get_spec(name).title} ({winners[name]} is best)" for name in datasets)


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
        f"**{table.short_title}.** {table.ours} with the default recipe is better than the best model in the "
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
