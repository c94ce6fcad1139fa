"""Tables that compare models by one metric: the paper's value, ours with its recipe, ours with the default recipe."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from usnrt.paper.datasets import list_datasets
from usnrt_experiments.aggregate import Mean, Means
from usnrt_experiments.grid import title_of
from usnrt_experiments.layout import BEST, TIED, Entry, Layout, marks, number, words
from usnrt_experiments.models import ALEATORIC, ENSEMBLES, LAMBDAS, PARTS, PEERS, SMALL_PEERS, TOTAL, Model
from usnrt_experiments.pairs import PairedDifference
from usnrt_experiments.paper import paper_value
from usnrt_experiments.small import SMALL

UNEVEN = (
    "‡: the models of this row were run on different splits. Ranks, counts and percentages are computed on the splits "
    "that they have in common; each value shown is the mean over all splits of its model."
)
FLOORED = (
    "{models} with the paper's recipe: NLL with densities floored at 1e-16, as in the authors' ensemble code, to be "
    "comparable with the paper's values. No floor elsewhere."
)
NOT_FLOORED = "Records without the floored NLL show the NLL without a floor: {datasets}."
SOURCES = ("paper", "paper's recipe", "default")


@dataclass(frozen=True)
class Comparison:
    """A table that compares models by one metric, lower being better.

    Attributes
    ----------
    name, title, metric : str
    models : tuple of Model
    ours : str
        The column of the paper's own model.
    decrease : bool
        Whether a last column shows by how many per cent it is below the best other model.
    floored : tuple of str
        Columns whose values with the paper's recipe are NLLs with floored densities.
    datasets : tuple of str
    """

    name: str
    title: str
    metric: str
    models: tuple[Model, ...]
    ours: str
    decrease: bool = False
    floored: tuple[str, ...] = ()
    datasets: tuple[str, ...] = field(default_factory=lambda: tuple(list_datasets()))

    @property
    def in_paper(self) -> bool:
        """Whether the paper has this table."""
        return any(model.paper_recipe for model in self.models)

    @property
    def short_title(self) -> str:
        """The first part of the title, without the unit."""
        return self.title.split(",")[0]

    def values(self, means: Means, dataset: str, source: str) -> list[Mean | None]:
        """The line of a data set from one source, one value per model."""
        if source == "paper":
            found = [paper_value(self.name, dataset, model.label) for model in self.models]
            return [None if value is None else Mean(value, 0, True) for value in found]
        return [
            means.metric(dataset, recipe, self._metric_of(model.label, source))
            for model, recipe in zip(self.models, self._recipes(source))
        ]

    def _metric_of(self, label: str, source: str) -> str:
        return "nll_floored" if label in self.floored and source == "paper's recipe" else self.metric

    def fair_values(
        self, means: Means, dataset: str, source: str, among: Sequence[str] | None = None
    ) -> dict[str, float]:
        """The known values of models by their labels, over the splits that these models have in common.

        All statements that one model is better than another are based on these values. Models without a split in
        common with the others are left out, see `Means.shared`.

        Parameters
        ----------
        means : Means
        dataset, source : str
        among : sequence of str, default=None
            Labels of the models to compare; by default all of the table.
        """
        labels = [model.label for model in self.models]
        compared = labels if among is None else among
        if source != "paper":
            recipes = [r for label, r in zip(labels, self._recipes(source)) if label in compared]
            means = means.shared(dataset, recipes, self.metric)
        values = zip(labels, self.values(means, dataset, source))
        return {label: value.value for label, value in values if value and label in compared}

    def splits(self, means: Means, dataset: str, source: str) -> dict[str, set[int]]:
        """The splits of every model that has any, by their labels; empty for the paper's values."""
        if source == "paper":
            return {}
        found = zip(self.models, self._recipes(source))
        return {model.label: seeds for model, recipe in found if (seeds := means.seeds(dataset, recipe, self.metric))}

    def _recipes(self, source: str) -> list[str]:
        return [m.paper_recipe if source == "paper's recipe" else m.default_recipe for m in self.models]

    def percentage(self, means: Means, dataset: str, source: str) -> float | None:
        """By how many per cent the paper's model is below the best other one; for the paper its own value."""
        if source == "paper":
            return paper_value(self.name, dataset, "Percentage Decrease")
        others = self.fair_values(means, dataset, source)
        own = others.pop(self.ours, None)
        if own is None or len(others) < len(self.models) - 1 or min(others.values()) == 0:
            return None
        return 100 * (min(others.values()) - own) / min(others.values())

    def winners(self, means: Means, source: str) -> dict[str, str]:
        """The best model of every data set for which the values of all models are known."""
        best = {}
        for dataset in self.datasets:
            values = self.fair_values(means, dataset, source)
            if len(values) == len(self.models):
                best[dataset] = min(values, key=lambda label: values[label])
        return best

    def ranks(self, means: Means, source: str) -> dict[str, dict[str, int]]:
        """Rank of every model, 1 for the lowest, on the data sets for which the values of all models are known."""
        found = {}
        for dataset in self.winners(means, source):
            values = self.fair_values(means, dataset, source)
            found[dataset] = {label: 1 + sum(v < value for v in values.values()) for label, value in values.items()}
        return found

    def missing_models(self, means: Means, source: str) -> dict[str, list[str]]:
        """Models without records on the data sets on which some, but not all models of the table were run."""
        found = {}
        for dataset in self.datasets:
            run = self.splits(means, dataset, source)
            if 0 < len(run) < len(self.models):
                found[dataset] = [model.label for model in self.models if model.label not in run]
        return found

    def common_splits(self, means: Means, dataset: str, source: str) -> int:
        """The number of splits on which the models of a line are compared."""
        splits, compared = self.splits(means, dataset, source), self.fair_values(means, dataset, source)
        return len(set.intersection(*(splits[label] for label in compared))) if compared else 0

    def difference(self, means: Means, dataset: str, source: str, first: str, second: str) -> PairedDifference | None:
        """Difference between two models of the table on the splits that both have; None for the paper's values."""
        recipes = dict(zip((model.label for model in self.models), self._recipes(source)))
        if source == "paper":
            return None
        metrics = self._metric_of(first, source), self._metric_of(second, source)
        return means.difference(dataset, recipes[first], recipes[second], *metrics)

    def unbeaten(self, means: Means, dataset: str, source: str) -> list[str]:
        """Models of a line than which no other is lower by more than the error of the difference.

        One model: it is lower than every other beyond error. Where an error is unknown, and for the paper's values, the
        lower value decides.
        """
        values = self.fair_values(means, dataset, source)
        if source == "paper":
            lowest = min(values.values(), default=0.0)
            return [label for label, value in values.items() if value == lowest]
        return [
            label
            for label in values
            if not any(self._beats(means, dataset, source, other, label, values) for other in values if other != label)
        ]

    def _beats(
        self, means: Means, dataset: str, source: str, first: str, second: str, values: dict[str, float]
    ) -> bool:
        found = self.difference(means, dataset, source, first, second)
        if found is None or found.basis == "unknown":
            return values[first] < values[second]
        return found.verdict == "lower"

    def clear_winners(self, means: Means, source: str) -> dict[str, str]:
        """The best model of every data set on which it is lower than all others beyond error; all must be known."""
        found = {}
        for dataset in self.winners(means, source):
            row = self._marks(means, dataset, source)
            if BEST in row:
                found[dataset] = self.models[row.index(BEST)].label
        return found

    def unknown_errors(self, means: Means, source: str) -> list[str]:
        """Data sets on which the error of a difference between the best model and another is not known."""
        return [
            dataset
            for dataset, best in self.winners(means, source).items()
            if any(
                found.basis == "unknown"
                for model in self.models
                if model.label != best and (found := self.difference(means, dataset, source, best, model.label))
            )
        ]

    def layout(self, means: Means) -> Layout:
        """Three lines per data set (fewer without records), bold where one is lower than all others beyond error."""
        sources = SOURCES if self.in_paper else ("default",)
        rows, notes = [], []
        for dataset in self.datasets:
            title = shown = title_of(dataset)
            for source in sources:
                values = self.values(means, dataset, source)
                if not any(values):
                    continue
                first = [Entry(shown, value=title), *([words(source)] if self.in_paper else [])]
                seeds = list(self.splits(means, dataset, source).values())
                counts = [self._split_count(seeds)] if self.in_paper else []
                if any(each != seeds[0] for each in seeds):
                    notes.append(self._on_common_splits(means, dataset, source))
                    first[-1] = Entry(f"{first[-1].text} ‡", value=first[-1].value)
                row = [*first, *counts, *_line(values, self._marks(means, dataset, source))]
                if self.decrease:
                    percentage = self.percentage(means, dataset, source)
                    partial = any(value is not None and not value.complete for value in values)
                    row.append(number(percentage, partial=partial, pattern="{:.1f}%"))
                rows.append(row)
                shown = ""  # the name of a data set is on its first line only
        if self.in_paper:
            rows += [self._wins(means, source) for source in sources if self.winners(means, source)]
        header = [
            "Dataset",
            *(["Source", "Splits"] if self.in_paper else []),
            *(model.label for model in self.models),
            *(["Percentage Decrease"] if self.decrease else []),
        ]
        notes = [UNEVEN, *(note for note in notes if note)] if notes else []
        notes += self._floor_notes(means)
        return Layout(self.title, header, rows, notes, n_text_columns=2 if self.in_paper else 1)

    @staticmethod
    def _split_count(seeds: Sequence[set[int]]) -> Entry:
        """How many splits the models of a line were run on; empty for the paper's values."""
        sizes = {len(each) for each in seeds}
        if len(sizes) < 2:
            return number(next(iter(sizes), None), pattern="{:.0f}")
        return words(f"{min(sizes)} to {max(sizes)}")

    def _floor_notes(self, means: Means) -> list[str]:
        """Which values are floored NLLs; empty if no such value is shown."""
        recipes = [model.paper_recipe for model in self.models if model.label in self.floored]
        run = [name for name in self.datasets if any(means.metric(name, recipe, "nll") for recipe in recipes)]
        lacking = [
            title_of(name) for name in run if any(means.lacks(name, recipe, "nll_floored") for recipe in recipes)
        ]
        notes = [FLOORED.format(models=" and ".join(self.floored))] if run else []
        return notes + ([NOT_FLOORED.format(datasets=", ".join(lacking))] if lacking else [])

    def _marks(self, means: Means, dataset: str, source: str) -> list[str]:
        """Which value of a line is lower than all others beyond error; if none is, which are not beaten."""
        compared = self.fair_values(means, dataset, source)
        if len(compared) < 2:
            return [""] * len(self.models)
        first = self.unbeaten(means, dataset, source)
        errors = [self.difference(means, dataset, source, first[0], label) for label in compared if label not in first]
        is_clear = len(first) == 1 and all(found is not None and found.counts for found in errors)
        return [(BEST if is_clear else TIED) if model.label in first else "" for model in self.models]

    def _on_common_splits(self, means: Means, dataset: str, source: str) -> str:
        """What was compared in a line with unequal splits; empty if the values shown have the same order."""
        seeds, compared = self.splits(means, dataset, source), self.fair_values(means, dataset, source)
        left_out = [label for label in seeds if label not in compared]
        shown = [value.value if value else None for value in self.values(means, dataset, source)]
        fair = [compared.get(model.label) for model in self.models]
        if not left_out and marks(shown) == marks(fair):
            return ""
        title = title_of(dataset) + (f", {source}" if self.in_paper else "")
        if len(compared) < 2:
            return f"{title}: no split in common, no comparison."
        n_common = self.common_splits(means, dataset, source)
        where = "the one split" if n_common == 1 else f"the {n_common} splits"
        rest = f"; not compared: {', '.join(left_out)}" if left_out else ""
        values = ", ".join(f"{label} {value:.2f}" for label, value in compared.items())
        return f"{title}: on {where} in common {values}{rest}."

    def _wins(self, means: Means, source: str) -> list[Entry]:
        winners, clear = (list(each(means, source).values()) for each in (self.winners, self.clear_winners))
        counts = []
        for label in (model.label for model in self.models):
            n_lowest = winners.count(label)
            text = str(n_lowest) if source == "paper" else f"{n_lowest} ({clear.count(label)})"
            counts.append(Entry(text, value=str(n_lowest)))
        label = f"lowest of {len(winners)}" + ("" if source == "paper" else " (beyond error)")
        return [words(label), words(source), Entry(""), *counts, *([Entry("")] if self.decrease else [])]


def _line(values: Sequence[Mean | None], marked: Sequence[str]) -> list[Entry]:
    return [
        number(value.value, mark, partial=not value.complete) if value else Entry("")
        for value, mark in zip(values, marked)
    ]


COMPARISONS = {
    table.name: table
    for table in (
        Comparison("ece", "ECE, times 100", "ece", ALEATORIC, "USNRT", decrease=True),
        Comparison("tce", "TCE, times 100", "tce", ALEATORIC, "USNRT", decrease=True),
        Comparison("sharpness", "Sharpness, times 100", "sharpness", ALEATORIC, "USNRT"),
        Comparison("rmse", "RMSE, times 100", "rmse", TOTAL, "USNRT Ensemble"),
        Comparison("nll", "NLL, times 100", "nll", TOTAL, "USNRT Ensemble", floored=ENSEMBLES),
        Comparison("evidential_rmse", "RMSE of Evidential over lambda, times 100", "rmse", LAMBDAS, "USNRT Ensemble"),
        Comparison(
            "evidential_nll",
            "NLL of Evidential over lambda, times 100",
            "nll",
            LAMBDAS,
            "USNRT Ensemble",
            floored=("USNRT Ensemble",),
        ),
        Comparison("peers_crps", "CRPS of default recipes and peers, times 100", "crps", PEERS, "USNRT Ensemble"),
        Comparison("peers_nll", "NLL of default recipes and peers, times 100", "nll", PEERS, "USNRT Ensemble"),
        Comparison("peers_rmse", "RMSE of default recipes and peers, times 100", "rmse", PEERS, "USNRT Ensemble"),
        Comparison("parts_crps", "Ablation of the default tree: CRPS, times 100", "crps", PARTS, "Default"),
        Comparison("parts_nll", "Ablation of the default tree: NLL, times 100", "nll", PARTS, "Default"),
        Comparison(
            "parts_worst_leaf",
            "Largest deviation of a region's coverage from 90 %, in percentage points",
            "worst_leaf_gap",
            tuple(model for model in PARTS if model.label in ("Default", "Global calibration")),
            "Default",
        ),
        Comparison("peers_ece", "ECE of default recipes and peers, times 100", "ece", PEERS, "USNRT Ensemble"),
    )
}
# Of the second collection, see usnrt_experiments.small.
SMALL_COMPARISONS = {
    f"small_{metric}": Comparison(
        f"small_{metric}",
        f"Small tables: {metric.upper()}, times 100",
        metric,
        SMALL_PEERS,
        "USNRT Ensemble",
        datasets=tuple(SMALL),
    )
    for metric in ("crps", "nll", "rmse", "ece")
}
