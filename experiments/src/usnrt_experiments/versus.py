"""Our presets against every other model: paired differences per data set, and Wilcoxon tests over data sets."""

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from usnrt_experiments.aggregate import Means
from usnrt_experiments.comparisons import COMPARISONS, SMALL_COMPARISONS, Comparison
from usnrt_experiments.grid import title_of
from usnrt_experiments.layout import BEST, Entry, Layout, number, words
from usnrt_experiments.models import OURS
from usnrt_experiments.pairs import PairedDifference
from usnrt_experiments.ranks import ALPHA, holm, signed_rank_p

METRICS = ("crps", "nll", "rmse", "ece")
# Below, the exact signed-rank test cannot reach the 5 % level.
MIN_SETS = 6
TINY = 1e-12


def comparison_of(metric: str, collection: str) -> Comparison:
    """The table of a metric that our presets and the peers share, of the ``"peers"`` or the ``"small"`` tables."""
    return COMPARISONS[f"peers_{metric}"] if collection == "peers" else SMALL_COMPARISONS[f"small_{metric}"]


@dataclass(frozen=True)
class Versus:
    """One of our presets against another model by one metric.

    Attributes
    ----------
    ours, other, metric : str
    differences : dict of str to PairedDifference
        By data set; ours minus the other.
    p_value : float
        Of the signed-rank test over data sets, before the correction; NaN with fewer than 6 data sets.
    """

    ours: str
    other: str
    metric: str
    differences: dict[str, PairedDifference]
    p_value: float

    def count(self, verdict: str) -> int:
        """Number of data sets with a verdict, see `PairedDifference`."""
        return sum(found.verdict == verdict for found in self.differences.values())

    @property
    def median(self) -> float:
        """Median of the differences over data sets."""
        return float(np.median([found.value for found in self.differences.values()]))

    @property
    def counts(self) -> str:
        """Data sets on which ours is lower, tied or higher, and on how many the error is unknown."""
        known = " / ".join(str(self.count(verdict)) for verdict in ("lower", "tie", "higher"))
        unknown = self.count("unknown")
        if unknown == len(self.differences):
            return f"{unknown} unknown"
        return known + (f", {unknown} unknown" if unknown else "")


def versus(means: Means, metric: str, collection: str, ours: str) -> list[Versus]:
    """One of our presets against every model that shares a split with it on some data set."""
    table = comparison_of(metric, collection)
    found = []
    for model in table.models:
        if model.label == ours:
            continue
        pairs = {
            dataset: pair
            for dataset in table.datasets
            if (pair := table.difference(means, dataset, "default", ours, model.label))
        }
        if pairs:
            found.append(Versus(ours, model.label, metric, pairs, _p_value(means, table, ours, model.label, pairs)))
    return found


def _p_value(means: Means, table: Comparison, ours: str, other: str, pairs: dict[str, PairedDifference]) -> float:
    if len(pairs) < MIN_SETS:
        return math.nan
    if table.metric not in ("crps", "rmse"):
        return signed_rank_p([pair.value for pair in pairs.values()])
    # Ratios: the CRPS of data sets differs by a factor of a thousand, and so would the sizes that are ranked.
    ratios = []
    for dataset in pairs:
        values = table.fair_values(means, dataset, "default", among=(ours, other))
        ratios.append(math.log(max(values[ours], TINY) / max(values[other], TINY)))
    return signed_rank_p(ratios)


def versus_table(means: Means, metric: str, collection: str) -> Layout:
    """Our presets against each other model: data sets won, tied and lost beyond error, and Holm's p-values."""
    found = {ours: versus(means, metric, collection, ours) for ours in OURS}
    found = {ours: pairs for ours, pairs in found.items() if pairs}
    corrected = {ours: _corrected(pairs) for ours, pairs in found.items()}
    header = ["Against"]
    for ours in found:
        header += [f"{ours}: lower / tied / higher", "median", "p (Holm)"]
    rows = []
    for model in comparison_of(metric, collection).models:
        row = [words(model.label)]
        for ours, pairs in found.items():
            index = next((i for i, pair in enumerate(pairs) if pair.other == model.label), None)
            row += [Entry("")] * 3 if index is None else _cells(pairs[index], corrected[ours][index])
        if any(entry.text for entry in row[1:]):
            rows.append(row)
    title = f"{_prefix(collection)}Paired differences over data sets: {metric.upper()}"
    return Layout(title, header, rows, best_means=f"significant at the {100 * ALPHA:.0f} % level")


def _corrected(pairs: list[Versus]) -> list[float]:
    known = [i for i, pair in enumerate(pairs) if not math.isnan(pair.p_value)]
    found = [math.nan] * len(pairs)
    for i, p in zip(known, holm([pairs[i].p_value for i in known])):
        found[i] = p
    return found


def _cells(pair: Versus, p: float) -> list[Entry]:
    mark = BEST if p < ALPHA else ""
    tested = number(p, mark, pattern="{:.3f}") if not p < 0.001 else Entry("< 0.001", mark, value=f"{p:.6g}")
    return [words(pair.counts), number(pair.median, pattern="{:+.2f}"), tested]


def differences_table(means: Means, ours: str, metric: str, collection: str) -> Layout:
    """One of our presets minus each other model on every data set, with standard errors; bold beyond error."""
    found = versus(means, metric, collection, ours)
    table, rows = comparison_of(metric, collection), []
    for dataset in table.datasets:
        pairs = [pair.differences.get(dataset) for pair in found]
        if any(pairs):
            rows.append([words(title_of(dataset)), *(_difference(pair) for pair in pairs)])
    notes = [
        "Negative: ours is lower. ±: standard error, with (n) from n splits. Without ±: one split whose errors over "
        "test rows are not stored."
    ]
    title = f"{_prefix(collection)}{metric.upper()} of {ours} minus that of other models, times 100"
    header = ["Dataset", *(pair.other for pair in found)]
    return Layout(title, header, rows, notes, best_means="the difference is larger than its error")


def _difference(pair: PairedDifference | None) -> Entry:
    if pair is None:
        return Entry("")
    if math.isnan(pair.std_error):
        return number(pair.value, pattern="{:+.2f}")
    error = f"{pair.value:+.2f} ± {pair.std_error:.2f} ({pair.n_splits})"
    return Entry(error, BEST if pair.counts else "", value=f"{pair.value:.6g}")


def _prefix(collection: str) -> str:
    return "" if collection == "peers" else "Small tables: "


def differences_csv(means: Means, collection: str) -> str:
    """Every paired difference of our presets as CSV, one per line."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = ("dataset", "ours", "other", "metric", "difference", "std_error", "half_width", "splits", "basis")
    writer.writerow([*names, "verdict"])
    for dataset, pair, found in _all_differences(means, collection):
        numbers = [f"{value:.6g}" for value in (found.value, found.std_error, found.half_width)]
        facts = [found.n_splits, found.basis, found.verdict]
        writer.writerow([dataset, pair.ours, pair.other, pair.metric, *numbers, *facts])
    return buffer.getvalue()


def _all_differences(means: Means, collection: str) -> Iterator[tuple[str, Versus, PairedDifference]]:
    for metric in METRICS:
        for ours in OURS:
            for pair in versus(means, metric, collection, ours):
                for dataset, found in pair.differences.items():
                    yield dataset, pair, found


def versus_findings(means: Means, collection: str) -> list[str]:
    """One Markdown paragraph per metric: against how many models each preset is ahead, behind or not distinguished."""
    paragraphs = []
    for metric in METRICS:
        parts = [text for ours in OURS if (text := _sentence(means, metric, collection, ours))]
        if parts:
            paragraphs.append(f"**{metric.upper()}.** {' '.join(parts)}")
    return paragraphs


def _sentence(means: Means, metric: str, collection: str, ours: str) -> str:
    """Over all models that are not ours."""
    all_pairs = versus(means, metric, collection, ours)
    pairs = [pair for pair in all_pairs if pair.other not in OURS]
    total = sum(len(pair.differences) for pair in pairs)
    if not total:
        return ""
    lower, higher, unknown = (sum(p.count(v) for p in pairs) for v in ("lower", "higher", "unknown"))
    text = (
        f"{ours} is lower beyond error in {lower} of {total} comparisons, higher in {higher}, not distinguished in "
        f"{total - lower - higher - unknown}"
    )
    text += f", of unknown error in {unknown}" if unknown else ""
    tested = [(pair, p) for pair, p in zip(all_pairs, _corrected(all_pairs)) if pair in pairs and not math.isnan(p)]
    if not tested:
        return f"{text}; too few data sets for a test over them."
    ahead = [pair.other for pair, p in tested if p < ALPHA and pair.median < 0]
    behind = [pair.other for pair, p in tested if p < ALPHA and pair.median >= 0]
    text += f"; over data sets it is significantly lower than {_listed(ahead, len(tested))}"
    text += f", and higher than {', '.join(behind)}" if behind else ""
    return f"{text}."


def _listed(names: list[str], n_all: int) -> str:
    if not names:
        return f"none of {n_all} model{'' if n_all == 1 else 's'}"
    if len(names) == n_all > 1:
        return f"all {n_all} models"
    return f"{len(names)} of {n_all} models ({', '.join(names)})"
