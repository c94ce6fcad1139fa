"""What the study of coverage per group found: tables, sentences, and what chance alone would give."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from usnrt.paper.datasets import list_datasets
from usnrt_experiments.coverage.cell import ONE_REGION, OURS
from usnrt_experiments.grid import title_of
from usnrt_experiments.layout import BEST, Layout, number, words
from usnrt_experiments.store import Record

NOMINAL = 0.9
N_DRAWS = 4000
NEUTRAL = ("feature", "category", "difficulty")
LABELS = {
    OURS: "USNRT",
    ONE_REGION: "USNRT, one region",
    "mapie-split": "MAPIE split",
    "mapie-cqr": "MAPIE CQR",
    "crepes-normalised": "crepes normalised",
    "crepes-mondrian": "crepes Mondrian",
}
WAYS = {"regions": "the tree's regions", "neutral": "groups that no model chose"}


@dataclass(frozen=True)
class Chance:
    """Deviations of coverage that a method whose every group has exactly the nominal coverage would show.

    Attributes
    ----------
    worst, worst_95 : float
        Mean, and 95 % quantile, of the largest deviation of a group, in percentage points.
    mean : float
        Mean of the mean absolute deviation.
    """

    worst: float
    worst_95: float
    mean: float


@lru_cache(maxsize=256)
def chance(sizes: tuple[int, ...]) -> Chance:
    """Deviations by chance in groups of these numbers of rows, from 4,000 binomial draws with a fixed seed.

    Examples
    --------
    >>> from usnrt_experiments.coverage.table import chance
    >>> chance((100,)).mean < chance((100,) * 10).worst
    True
    """
    n = np.array(sizes)
    drawn = np.random.default_rng(0).binomial(n, NOMINAL, size=(N_DRAWS, len(n)))
    deviation = 100 * np.abs(drawn / n - NOMINAL)
    worst = deviation.max(axis=1)
    return Chance(float(worst.mean()), float(np.quantile(worst, 0.95)), float(deviation.mean()))


@dataclass(frozen=True)
class GroupCoverage:
    """Coverage of a method in the groups of one kind on one data set; deviations in percentage points."""

    worst: float
    mean: float
    chance: Chance

    @property
    def beyond_chance(self) -> bool:
        """Whether the worst group deviates more than 95 % of draws by chance."""
        return self.worst > self.chance.worst_95


def group_coverage(method: dict[str, Any], way: str) -> GroupCoverage | None:
    """Deviations of a method's coverage in ``"regions"`` or ``"neutral"`` groups; None without a group.

    Examples
    --------
    >>> from usnrt_experiments.coverage.table import group_coverage
    >>> groups = [{"n": 100, "inside": 80}, {"n": 100, "inside": 90}]
    >>> found = group_coverage({"groups": {"regions": groups}}, "regions")
    >>> round(found.worst, 6), round(found.mean, 6), found.beyond_chance
    (10.0, 5.0, True)
    """
    names = NEUTRAL if way == "neutral" else (way,)
    groups = [group for name in names for group in method["groups"].get(name, [])]
    if not groups:
        return None
    sizes = tuple(int(group["n"]) for group in groups)
    deviation = [100 * abs(group["inside"] / group["n"] - NOMINAL) for group in groups]
    return GroupCoverage(max(deviation), float(np.mean(deviation)), chance(sizes))


class CoverageStudy:
    """The records of the study by data set.

    Parameters
    ----------
    records : iterable of Record
        Failed ones are ignored.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        done = {record.cell.dataset: record.meta for record in records if record.status == "done"}
        self.meta = {name: done[name] for name in list_datasets() if name in done}

    @property
    def datasets(self) -> list[str]:
        """Data sets with a record, in the order of the tables."""
        return list(self.meta)

    def method(self, dataset: str, name: str) -> dict[str, Any]:
        """What was recorded of a method."""
        found: dict[str, Any] = self.meta[dataset]["methods"][name]
        return found

    def groups(self, dataset: str, name: str, way: str) -> GroupCoverage | None:
        """Deviations of a method on a data set."""
        return group_coverage(self.method(dataset, name), way)

    def over_sets(self, name: str, way: str) -> list[GroupCoverage]:
        """Deviations of a method on every data set."""
        return [found for dataset in self.meta if (found := self.groups(dataset, name, way))]


def summary_table(study: CoverageStudy) -> Layout:
    """One row per method: means over data sets."""
    header = ["Method", "Coverage", "Width", "Interval score"]
    for way in ("Regions", "Neutral groups"):
        header += [f"{way}: worst", "mean", "beyond chance"]
    rows = []
    for name, label in LABELS.items():
        kept = [study.method(dataset, name) for dataset in study.datasets]
        row = [words(label), number(_mean([100 * m["coverage"] for m in kept]), pattern="{:.1f}")]
        row += [number(_mean([100 * m[key] for m in kept])) for key in ("width", "interval_score")]
        for way in WAYS:
            found = study.over_sets(name, way)
            row += [number(_mean([each.worst for each in found])), number(_mean([each.mean for each in found]))]
            row.append(words(f"{sum(each.beyond_chance for each in found)} of {len(found)}"))
        rows.append(row)
    by_chance = [words("by chance"), *[words("")] * 3]
    for way in WAYS:
        found = study.over_sets(OURS, way)
        by_chance += [number(_mean([each.chance.worst for each in found]))]
        by_chance += [number(_mean([each.chance.mean for each in found])), words("5 %")]
    notes = [
        "Means over data sets. Coverage in %; width and interval score (lower is better) on the scaled target, times "
        "100. Worst and mean: largest and mean absolute deviation of a group's coverage from 90 %, in percentage "
        "points. By chance: what exact coverage of 90 % in every group would show with these numbers of test rows. "
        "Beyond chance: data sets whose worst deviation is above the 95 % quantile of that."
    ]
    return Layout("Coverage per group, over data sets", header, [*rows, by_chance] if study.datasets else [], notes)


def coverage_table(study: CoverageStudy, way: str) -> Layout:
    """The worst group of each method on every data set, in percentage points from 90 %."""
    header = ["Dataset", "Groups", *LABELS.values(), "by chance", "95 % of chance"]
    rows = []
    for dataset in study.datasets:
        found = [study.groups(dataset, name, way) for name in LABELS]
        first = found[0]
        if first is None:
            continue
        names = NEUTRAL if way == "neutral" else (way,)
        n_groups = sum(len(study.method(dataset, OURS)["groups"].get(name, [])) for name in names)
        entries = [number(each.worst, "" if each.beyond_chance else BEST) if each else words("") for each in found]
        expected = [number(first.chance.worst), number(first.chance.worst_95)]
        rows.append([words(title_of(dataset)), number(n_groups, pattern="{:.0f}"), *entries, *expected])
    title = f"Largest deviation from 90 % coverage in {WAYS[way]}, in percentage points"
    return Layout(title, header, rows, best_means="not larger than 95 % of what chance would give")


def interval_table(study: CoverageStudy) -> Layout:
    """Coverage, width and interval score of each method on every data set."""
    header = ["Dataset"]
    for what in ("coverage", "width", "interval score"):
        header += [f"{label}: {what}" for label in LABELS.values()]
    rows = []
    for dataset in study.datasets:
        kept = [study.method(dataset, name) for name in LABELS]
        row = [words(title_of(dataset)), *(number(100 * m["coverage"], pattern="{:.1f}") for m in kept)]
        rows.append([*row, *(number(100 * m[key]) for key in ("width", "interval_score") for m in kept)])
    return Layout("Coverage, width and interval score of 90 % intervals", header, rows)


def coverage_findings(study: CoverageStudy) -> list[str]:
    """Markdown paragraphs on the claim that coverage holds per region."""
    if not study.datasets:
        return []
    paragraphs = []
    for way, what in WAYS.items():
        ours = study.over_sets(OURS, way)
        parts = []
        for name, label in list(LABELS.items())[1:]:
            pairs = list(zip(ours, study.over_sets(name, way)))
            smaller = sum(own.worst < other.worst for own, other in pairs)
            parts.append(f"{label} ({_mean([other.worst for _, other in pairs]):.1f}; smaller on {smaller})")
        inside = sum(not each.beyond_chance for each in ours)
        n_sets = f"{len(ours)} data set{'s' if len(ours) != 1 else ''}"
        paragraphs.append(
            f"**Coverage in {what}.** The worst group of the tree deviates from 90 % by "
            f"{_mean([each.worst for each in ours]):.1f} percentage points in the mean over {n_sets}; by chance "
            f"{_mean([each.chance.worst for each in ours]):.1f} are expected, and on {inside} of them it is within "
            f"what chance gives. The same for the others, and on how many data sets the tree's deviation is "
            f"smaller: {', '.join(parts)}."
        )
    return paragraphs


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
