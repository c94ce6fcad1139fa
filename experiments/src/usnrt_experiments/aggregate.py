"""From records to means over seeds."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from usnrt_experiments.grid import protocol_seeds
from usnrt_experiments.pairs import PairedDifference, SplitValue, paired
from usnrt_experiments.store import Record

# Metrics that older records lack, and the metrics that replace them.
FALLBACKS = {"nll_floored": "nll"}


def metric_of(record: Record, name: str) -> float | None:
    """A metric of a done cell, or its fallback; None if the record has neither."""
    metrics = record.meta["metrics"]
    value = metrics.get(name, metrics.get(FALLBACKS.get(name)))
    return None if value is None else float(value)


@dataclass(frozen=True)
class Mean:
    """The mean of a metric over the finished seeds, and whether these are all planned seeds."""

    value: float
    n_seeds: int
    complete: bool


class Means:
    """Means over seeds of every data set and recipe in some records.

    Parameters
    ----------
    records : iterable of Record
        Failed ones are ignored.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._records: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for record in records:
            if record.status == "done":
                self._records[record.cell.dataset, record.cell.recipe].append(record)

    @property
    def datasets(self) -> set[str]:
        """Data sets with any record."""
        return {dataset for dataset, _ in self._records}

    @property
    def recipes(self) -> set[str]:
        """Recipes with any record."""
        return {recipe for _, recipe in self._records}

    def records_of(self, dataset: str, recipe: str) -> list[Record]:
        """The records of a data set and recipe that are done."""
        return self._records.get((dataset, recipe), [])

    def records(self) -> list[Record]:
        """All records that are done."""
        return [record for found in self._records.values() for record in found]

    def most_seeds(self, dataset: str) -> int:
        """The largest number of splits that any recipe was run on."""
        return max((len(found) for (name, _), found in self._records.items() if name == dataset), default=0)

    def seeds(self, dataset: str, recipe: str, metric: str) -> set[int]:
        """The splits for which a metric of a recipe is known."""
        records = self.records_of(dataset, recipe)
        return {record.cell.seed for record in records if metric_of(record, metric) is not None}

    def split_values(self, dataset: str, recipe: str, metric: str) -> dict[int, SplitValue]:
        """A metric of every split for which it is known, with what errors over test rows need, by seed."""
        found = {}
        for record in self.records_of(dataset, recipe):
            value = metric_of(record, metric)
            if value is not None and not np.isnan(value):
                blocks = record.meta.get("leave_out_blocks", {}).get(metric, ())
                found[record.cell.seed] = SplitValue(value, tuple(float(each) for each in blocks))
        return found

    def difference(
        self, dataset: str, first: str, second: str, metric: str, second_metric: str | None = None
    ) -> PairedDifference | None:
        """Difference of a metric between two recipes on the splits that both have; None without a common split."""
        return paired(
            self.split_values(dataset, first, metric), self.split_values(dataset, second, second_metric or metric)
        )

    def lacks(self, dataset: str, recipe: str, metric: str) -> bool:
        """Whether some record of a recipe lacks a metric, so that its fallback is used."""
        return any(metric not in record.meta["metrics"] for record in self.records_of(dataset, recipe))

    def shared(self, dataset: str, recipes: Iterable[str], metric: str) -> "Means":
        """Means over the splits that some recipes have in common on a data set, for a fair comparison.

        Parameters
        ----------
        dataset : str
        recipes : iterable of str
            Recipes without any split are ignored.
        metric : str
            Splits for which it is not known are ignored.

        Returns
        -------
        Means
            If no split is common to all recipes, only those recipes are included that have the split that most of
            them have.
        """
        known = {recipe: self.seeds(dataset, recipe, metric) for recipe in recipes}
        counts = Counter(seed for seeds in known.values() for seed in seeds)
        if not counts:
            return Means([])
        first = min(counts, key=lambda seed: (-counts[seed], seed))
        kept = {recipe: seeds for recipe, seeds in known.items() if first in seeds}
        common = set.intersection(*kept.values())
        return Means(
            record for recipe in kept for record in self._records[dataset, recipe] if record.cell.seed in common
        )

    def metric(self, dataset: str, recipe: str, name: str) -> Mean | None:
        """Mean of a metric, None without records."""
        return _mean(dataset, self.records_of(dataset, recipe), lambda record: metric_of(record, name))

    def heterogeneity(self, dataset: str, recipe: str, seed: int | None = None) -> Mean | None:
        """The paper's heterogeneity measure: mean over splits, or, as the paper defines it, of one split."""
        chosen = [record for record in self.records_of(dataset, recipe) if seed in (None, record.cell.seed)]
        return _mean(dataset, chosen, lambda record: (record.meta.get("tree") or {}).get("heterogeneity"))

    def seconds(self, dataset: str, recipe: str) -> Mean | None:
        """Mean CPU time of a fit in seconds; unlike wall time it does not depend on other load of the machine."""
        return _mean(dataset, self.records_of(dataset, recipe), lambda record: record.meta["fit_cpu_seconds"])


def _mean(dataset: str, records: list[Record], pick: Callable[[Record], float | None]) -> Mean | None:
    values = [float(value) for record in records if (value := pick(record)) is not None]
    if not values:
        return None
    return Mean(float(np.mean(values)), len(values), len(values) >= len(protocol_seeds(dataset)))
