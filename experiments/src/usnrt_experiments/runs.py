"""What was run, when and by which version: the first lines of the results page."""

from collections import Counter

from usnrt.paper.datasets import SEEDS, get_spec, list_datasets, seeds_for
from usnrt_experiments.aggregate import Means
from usnrt_experiments.grid import ONE_SEED, n_rows_of
from usnrt_experiments.layout import Layout, number, words
from usnrt_experiments.progress import duration_text
from usnrt_experiments.store import Record

# Data sets of the paper whose files were never at hand.
NOT_AT_HAND = ("online", "facebook2", "year", "query", "wave")


def what_was_run(records: list[Record], means: Means) -> str:
    """Numbers of cells, splits and versions as a Markdown list."""
    states = Counter(record.status for record in records)
    seconds = sum(float(record.meta["fit_cpu_seconds"]) for record in records if record.status == "done")
    names = [name for name in list_datasets() if name in means.datasets]
    large = [get_spec(name).title for name in names if len(seeds_for(n_rows_of(name))) == 1]
    chosen = [get_spec(name).title for name in names if name in ONE_SEED]
    missing = [
        get_spec(name).title for name in list_datasets() if name not in means.datasets and name not in NOT_AT_HAND
    ]
    lines = [
        f"- {states['done']} cells done, {states['failed']} failed; {len(names)} data sets, {len(means.recipes)} "
        f"recipes; {duration_text(seconds)} of CPU time for fitting.",
        f"- Seeds of the planned splits: {', '.join(map(str, SEEDS))}.",
    ]
    if large:
        lines.append(f"- First split only, as in the paper, for 100,000 rows and more: {', '.join(large)}.")
    if chosen:
        lines.append(f"- First split only, unlike in the paper, to save time: {', '.join(chosen)}.")
    if missing:
        lines.append(f"- No records: {', '.join(missing)}.")
    if never := [get_spec(name).title for name in NOT_AT_HAND if name not in means.datasets]:
        lines.append(
            f"- {', '.join(never)}: a permanent limit of these results. Their files cannot be had where the "
            "experiments are run, without a network. Their loaders are tested on generated files of the same "
            "layout; `make paper` runs them wherever USNRT_DATA has the files."
        )
    return "\n".join([*lines, *_versions(records)])


def _versions(records: list[Record]) -> list[str]:
    done = [record for record in records if record.status == "done"]
    lines = []
    others = {
        f"{package} {number}"
        for record in done
        for package, number in record.meta["versions"].items()
        if package in ("python", "jax")
    }
    by_version = Counter(version_of(record) for record in done)
    if by_version:
        made = ", ".join(f"usnrt {version} ({count} records)" for version, count in sorted(by_version.items()))
        lines.append(f"- Made with {', '.join([*sorted(others), made])}.")
    if len(by_version) > 1:
        lines.append("- [Which version made which records](#records-by-version-of-usnrt).")
    return lines


def version_of(record: Record) -> str:
    """The version of usnrt that made a record."""
    return str(record.meta.get("versions", {}).get("usnrt", "unknown"))


def versions_table(means: Means) -> Layout:
    """How many records of each recipe each version of usnrt made."""
    counts = Counter((record.cell.recipe, version_of(record)) for record in means.records())
    versions = sorted({version for _, version in counts})
    rows = [
        [words(recipe), *(number(counts.get((recipe, version)), pattern="{:.0f}") for version in versions)]
        for recipe in sorted(means.recipes)
    ]
    return Layout("Records by version of usnrt", ["Recipe", *versions], rows)
