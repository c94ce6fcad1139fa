"""From records to means over seeds."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from usnrt.bench.grid import protocol_seeds
from usnrt.bench.store import Record


@dataclass(frozen=True)
class Mean:
    """The mean of a metric over the seeds done, and whether those are all that were planned."""

    value: float
    n_seeds: int
    complete: bool


class Means:
    """Means over seeds of every data set and recipe in some records.

    Parameters
    ----------
    records : iterable of Record
        Failed ones count as not there.
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

    def most_seeds(self, dataset: str) -> int:
        """Number of splits that the recipe with the most of them was run on."""
        return max((len(found) for (name, _), found in self._records.items() if name == dataset), default=0)

    def seeds(self, dataset: str, recipe: str, metric: str) -> set[int]:
        """The splits on which a metric of a recipe is known."""
        records = self._records.get((dataset, recipe), [])
        return {record.cell.seed for record in records if record.meta["metrics"].get(metric) is not None}

    def shared(self, dataset: str, recipes: Iterable[str], metric: str) -> "Means":
        """Means over the splits of a data set that some recipes have in common, where alone they can be compared.

        Parameters
        ----------
        dataset : str
        recipes : iterable of str
            Those without a split do not count.
        metric : str
            A split on which it is not known does not count.

        Returns
        -------
        Means
            Where no split is common to all recipes, of those that have the split that most of them have.
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
        return self._mean(dataset, recipe, lambda meta: meta["metrics"].get(name))

    def heterogeneity(self, dataset: str, recipe: str) -> Mean | None:
        """Mean of the paper's heterogeneity measure of the trees."""
        return self._mean(dataset, recipe, lambda meta: (meta.get("tree") or {}).get("heterogeneity"))

    def seconds(self, dataset: str, recipe: str) -> Mean | None:
        """Mean processor time to fit, in seconds: unlike the clock's it does not know what else the machine did."""
        return self._mean(dataset, recipe, lambda meta: meta["fit_cpu_seconds"])

    def _mean(self, dataset: str, recipe: str, pick: Callable[[dict[str, Any]], Any]) -> Mean | None:
        found = [pick(record.meta) for record in self._records.get((dataset, recipe), [])]
        values = [float(value) for value in found if value is not None]
        if not values:
            return None
        planned = protocol_seeds(dataset)
        return Mean(float(np.mean(values)), len(values), len(values) >= len(planned))
