"""The paper's tables from the available records: its value, ours with its recipe, ours with the default recipe."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from usnrt.bench.aggregate import Mean, Means
from usnrt.bench.layout import Entry, Layout, marks, number, words
from usnrt.bench.paper import PAPER_SPEARMAN, paper_value
from usnrt.bench.recipes import COMPARED
from usnrt.bench.store import Record
from usnrt.datasets import get_spec, list_datasets

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
class Model:
    """One column: its header, and the recipes behind the second and third line of a data set."""

    label: str
    paper_recipe: str
    default_recipe: str


def _model(label: str, recipe: str) -> Model:
    return Model(label, f"{recipe}-paper", recipe)


_LAMBDA = "Evidential lambda="
ALEATORIC = (
    _model("HNN", "hnn"),
    _model("Extra Trees", "extra-trees"),
    _model("Random Forest", "random-forest"),
    _model("USNRT", "usnrt"),
)
TOTAL = (
    _model("MC Dropout", "mc-dropout"),
    _model("Concrete Dropout", "concrete-dropout"),
    _model("Deep Ensemble", "deep-ensemble"),
    _model("Evidential", "evidential"),
    _model("USNRT Ensemble", "usnrt-ensemble"),
)
# The authors' code of these floors densities.
ENSEMBLES = ("Deep Ensemble", "USNRT Ensemble")
LAMBDAS = (
    Model(f"{_LAMBDA}0", "evidential-paper-lambda0", ""),
    Model(f"{_LAMBDA}0.005", "evidential-paper-lambda0.005", ""),
    Model(f"{_LAMBDA}0.01", "evidential-paper", ""),
    Model(f"{_LAMBDA}0.05", "evidential-paper-lambda0.05", ""),
    _model("USNRT Ensemble", "usnrt-ensemble"),
)
PEERS = (
    Model("USNRT fast", "", "usnrt-fast"),
    Model("USNRT", "", "usnrt"),
    Model("USNRT Ensemble", "", "usnrt-ensemble"),
    Model("HNN", "", "hnn"),
    Model("Deep Ensemble", "", "deep-ensemble"),
    Model("Evidential", "", "evidential"),
    Model("CatBoost", "", "catboost"),
    Model("NGBoost", "", "ngboost"),
    Model("LightGBM quantiles", "", "lightgbm-quantile"),
    Model("Quantile forest", "", "quantile-forest"),
    Model("Quantile extra-trees", "", "quantile-extra-trees"),
    Model("CatBoost MultiQuantile", "", "catboost-multiquantile"),
    Model("CatBoost, tuned", "", "catboost-tuned"),
    Model("LightGBM quantiles, tuned", "", "lightgbm-tuned"),
    Model("XGBoost quantiles", "", "xgboost-quantile"),
    Model("crepes on LightGBM", "", "crepes-lightgbm"),
    Model("RealMLP", "", "realmlp"),
    Model("TabM", "", "tabm"),
)
PARTS = (
    Model("Default", "", "usnrt"),
    Model("No tree", "", "usnrt-no-tree"),
    Model("No memory", "", "usnrt-no-memory"),
    Model("Global calibration", "", "usnrt-global"),
    Model("Not calibrated", "", "usnrt-uncalibrated"),
    Model("No piecewise encoding", "", "usnrt-plain-inputs"),
    Model("Ensemble", "", "usnrt-ensemble"),
)


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
    """

    name: str
    title: str
    metric: str
    models: tuple[Model, ...]
    ours: str
    decrease: bool = False
    floored: tuple[str, ...] = ()

    @property
    def in_paper(self) -> bool:
        """Whether the paper has this table."""
        return any(model.paper_recipe for model in self.models)

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

        Returns
        -------
        dict
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
        for dataset in list_datasets():
            values = self.fair_values(means, dataset, source)
            if len(values) == len(self.models):
                best[dataset] = min(values, key=lambda label: values[label])
        return best

    def layout(self, means: Means) -> Layout:
        """Three lines per data set (fewer without records), the best of each in bold."""
        sources = SOURCES if self.in_paper else ("default",)
        rows, notes = [], []
        for dataset in list_datasets():
            title = shown = get_spec(dataset).title
            for source in sources:
                values = self.values(means, dataset, source)
                if not any(values):
                    continue
                first = [Entry(shown, value=title), *([words(source)] if self.in_paper else [])]
                seeds = list(self.splits(means, dataset, source).values())
                if any(each != seeds[0] for each in seeds):
                    notes.append(self._on_common_splits(means, dataset, source))
                    first[-1] = Entry(f"{first[-1].text} ‡", value=first[-1].value)
                row = [*first, *_line(values, self._marks(means, dataset, source))]
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
            *(["Source"] if self.in_paper else []),
            *(model.label for model in self.models),
            *(["Percentage Decrease"] if self.decrease else []),
        ]
        notes = [UNEVEN, *(note for note in notes if note)] if notes else []
        notes += self._floor_notes(means)
        return Layout(self.title, header, rows, notes, n_text_columns=2 if self.in_paper else 1)

    def _floor_notes(self, means: Means) -> list[str]:
        """Which values are floored NLLs; empty if no such value is shown."""
        recipes = [model.paper_recipe for model in self.models if model.label in self.floored]
        run = [name for name in list_datasets() if any(means.metric(name, recipe, "nll") for recipe in recipes)]
        lacking = [
            get_spec(name).title for name in run if any(means.lacks(name, recipe, "nll_floored") for recipe in recipes)
        ]
        notes = [FLOORED.format(models=" and ".join(self.floored))] if run else []
        return notes + ([NOT_FLOORED.format(datasets=", ".join(lacking))] if lacking else [])

    def _marks(self, means: Means, dataset: str, source: str) -> list[str]:
        """Which value of a line is best and which second best, on the splits that the models have in common."""
        compared = self.fair_values(means, dataset, source)
        return marks([compared.get(model.label) for model in self.models])

    def _on_common_splits(self, means: Means, dataset: str, source: str) -> str:
        """What was compared in a line with unequal splits; empty if the values shown have the same order."""
        seeds, compared = self.splits(means, dataset, source), self.fair_values(means, dataset, source)
        left_out = [label for label in seeds if label not in compared]
        shown = [value.value if value else None for value in self.values(means, dataset, source)]
        if not left_out and marks(shown) == self._marks(means, dataset, source):
            return ""
        title = get_spec(dataset).title + (f", {source}" if self.in_paper else "")
        if len(compared) < 2:
            return f"{title}: no split in common, no comparison."
        n_common = len(set.intersection(*(seeds[label] for label in compared)))
        where = "the one split" if n_common == 1 else f"the {n_common} splits"
        rest = f"; not compared: {', '.join(left_out)}" if left_out else ""
        values = ", ".join(f"{label} {value:.2f}" for label, value in compared.items())
        return f"{title}: on {where} in common {values}{rest}."

    def _wins(self, means: Means, source: str) -> list[Entry]:
        winners = list(self.winners(means, source).values())
        counts = [Entry(str(n), value=str(n)) for n in (winners.count(model.label) for model in self.models)]
        label = f"best of {len(winners)}"
        return [words(label), words(source), *counts, *([Entry("")] if self.decrease else [])]


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
            "Largest deviation of a region's coverage from 90 %, in percentage points (one region without a tree)",
            "worst_leaf_gap",
            PARTS[:4],
            "Default",
        ),
        Comparison("peers_ece", "ECE of default recipes and peers, times 100", "ece", PEERS, "USNRT Ensemble"),
    )
}


def dataset_table(means: Means) -> Layout:
    """The data sets: rows and features in the paper and here."""
    columns = ("Sample Size", "Feature Dimension", "Categorical Variables")
    rows = []
    for name in list_datasets():
        spec = get_spec(name)
        found = [paper_value("datasets", name, column) for column in columns]
        here = [spec.n_rows, spec.n_features, len(spec.categorical)]
        seeds = means.most_seeds(name)
        counts = [number(v, pattern="{:,.0f}") for pair in zip(found, here) for v in pair]
        rows.append([words(spec.title), words(spec.full_name), *counts, number(seeds, pattern="{:.0f}")])
    header = ["Dataset", "Full Name"]
    header += [label for column in columns for label in (f"{column} (paper)", f"{column} (here)")] + ["Splits done"]
    notes = ["Conditional: the paper's code reads the first row of the file as a header and so drops it."]
    return Layout("Data sets", header, rows, notes, n_text_columns=2)


def heterogeneity_table(means: Means) -> Layout:
    """Heterogeneity of the regions' noise and decrease of ECE by USNRT, with their rank correlation."""
    table = heterogeneity_values(means)
    order = sorted(table, key=lambda name: -(table[name]["paper"][0] or 0.0))
    rows = [
        [
            words(get_spec(name).title),
            *(number(table[name][source][0]) for source in SOURCES),
            *(number(table[name][source][1], pattern="{:.1f}%") for source in SOURCES),
        ]
        for name in order
    ]
    header = ["Dataset", *(f"Measure ({s})" for s in SOURCES), *(f"Percentage Decrease ({s})" for s in SOURCES)]
    notes = [f"Spearman's rank correlation of the two, as reported in the paper: {PAPER_SPEARMAN}."]
    for source in SOURCES:
        if found := heterogeneity_correlation(means, source):
            notes.append(f"Spearman's rank correlation, {source}: {found}.")
    return Layout("Uncertainty heterogeneity and the decrease of ECE", header, rows, notes)


def heterogeneity_values(means: Means) -> dict[str, dict[str, tuple[float | None, float | None]]]:
    """Heterogeneity measure and percentage decrease of ECE of every data set, from each source."""
    ece = COMPARISONS["ece"]
    found: dict[str, dict[str, tuple[float | None, float | None]]] = {}
    for name in list_datasets():
        stated = paper_value("heterogeneity", name, "Measure Sorted")
        found[name] = {"paper": (stated, ece.percentage(means, name, "paper"))}
        for source, recipe in (("paper's recipe", "usnrt-paper"), ("default", "usnrt")):
            measure = means.heterogeneity(name, recipe)
            found[name][source] = (measure.value if measure else None, ece.percentage(means, name, source))
    return found


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's correlation over some data sets, and its one-sided p-value.

    Examples
    --------
    >>> from usnrt.bench.tables import RankCorrelation
    >>> print(RankCorrelation(0.44, 0.039, 17))
    0.44 over 17 data sets (one-sided p = 0.04)
    """

    value: float
    p_value: float
    n_sets: int

    def __str__(self) -> str:
        return f"{self.value:.2f} over {self.n_sets} data sets (one-sided p = {self.p_value:.2f})"


def heterogeneity_correlation(means: Means, source: str) -> RankCorrelation | None:
    """Spearman's correlation of measure and decrease; None below four data sets, too few for a test."""
    from scipy.stats import spearmanr

    pairs = [row[source] for row in heterogeneity_values(means).values() if None not in row[source]]
    if len(pairs) < 4:
        return None
    found = spearmanr(*zip(*pairs), alternative="greater")
    return RankCorrelation(float(found.statistic), float(found.pvalue), len(pairs))


def times_table(means: Means) -> Layout:
    """Mean CPU time of a fit for every recipe and data set."""
    datasets = [name for name in list_datasets() if name in means.datasets]
    recipes = [name for name in COMPARED if name in means.recipes]
    rows = []
    for recipe in recipes:
        found = [means.seconds(dataset, recipe) for dataset in datasets]
        rows.append([words(recipe), *(number(mean.value if mean else None, pattern="{:.1f}") for mean in found)])
    return Layout("CPU time of a fit, in seconds", ["Recipe", *(get_spec(name).title for name in datasets)], rows)


TABLES = ("datasets", *COMPARISONS, "heterogeneity", "times")


def make_table(name: str, records: Iterable[Record] | Means) -> Layout:
    """A table by name.

    Parameters
    ----------
    name : str
        One of ``TABLES``.
    records : iterable of Record, or Means

    Returns
    -------
    Layout
        Whose ``render`` gives text, Markdown, LaTeX or CSV.
    """
    means = records if isinstance(records, Means) else Means(records)
    if name in COMPARISONS:
        return COMPARISONS[name].layout(means)
    others = {"datasets": dataset_table, "heterogeneity": heterogeneity_table, "times": times_table}
    if name not in others:
        raise ValueError(f"table must be one of {list(TABLES)}, got {name!r}")
    return others[name](means)
