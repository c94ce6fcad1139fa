"""The comparison in words and in the cells of a table."""

from typing import TYPE_CHECKING, Any

import numpy as np

from usnrt.metrics.accuracy import CRPS
from usnrt.metrics.differences import Difference
from usnrt.metrics.intervals import COVERAGE
from usnrt.metrics.registry import Metric, on_page
from usnrt.reporting._numbers import metric_text, number, percent, wilson
from usnrt.tables.groups import design_effect

if TYPE_CHECKING:
    from usnrt.comparison.result import Comparison


def shown_metrics() -> list[Metric]:
    """The metrics of a comparison, the CRPS first."""
    return sorted(on_page("compare"), key=lambda metric: metric is not CRPS)


def compared_metrics() -> dict[str, Metric]:
    """The metrics whose differences between models are tested, by name."""
    return {metric.name: metric for metric in shown_metrics() if metric.orientation in ("lower", "higher")}


def with_error(value: float, error: float) -> str:
    """A value and its standard error, to two digits of the error.

    Examples
    --------
    >>> from usnrt.comparison.words import with_error
    >>> with_error(0.012345, 0.00412), with_error(1234.5, 210.0), with_error(0.0, 0.0)
    ('0.0123 ± 0.0041', '1,230 ± 210', '0')
    """
    if not np.isfinite(value) or not np.isfinite(error):
        return number(value)
    if error == 0:
        return number(value)
    places = 1 - int(np.floor(np.log10(error)))
    if not -15 < places < 15:
        return f"{value:.3g} ± {error:.2g}"
    rounded = round(value, places), round(error, places)
    return " ± ".join(f"{v:,.{max(places, 0)}f}" for v in rounded)


def verdict(comparison: "Comparison") -> str:
    """`headline` and `details`."""
    return " ".join(filter(None, (headline(comparison), details(comparison))))


def headline(comparison: "Comparison") -> str:
    """Who is best by CRPS, and whether others are tied with it: one short sentence."""
    if comparison.n_done == 0:
        return "No model could be compared."
    best, tied, behind = _ranked(comparison)
    if tied:
        who = tied[0][0] if len(tied) == 1 else f"{len(tied)} others"
        return f"{best} has the lowest CRPS, but is tied with {who}."
    if behind:
        return f"{best} is best by CRPS, ahead of {_by(behind[0])}."
    return f"{best} has a CRPS of {number(float(comparison.table['crps'][0]))}; there is no other model."


def details(comparison: "Comparison") -> str:
    """The differences behind the headline, and a remark on the coverage of the best model; may be empty."""
    if comparison.n_done == 0:
        return ""
    _, tied, behind = _ranked(comparison)
    sentences = []
    if tied:
        texts = [f"{name} ({with_error(d.value, d.std_error)})" for name, d in tied]
        sentences.append(f"Within the error of the difference: {_listed(texts)}.")
        if behind:
            sentences.append(f"The next is behind: {_by(behind[0])}.")
    return " ".join(filter(None, [*sentences, _coverage(comparison).strip()]))


def _ranked(comparison: "Comparison") -> tuple[str, list[tuple[str, Difference]], list[tuple[str, Difference]]]:
    """The best model, those that are tied with it, and those behind."""
    best = comparison.best
    others = [(name, d) for name, d in comparison._differences("crps", None) if name != best]
    return best, [pair for pair in others if pair[1].tie], [pair for pair in others if not pair[1].tie]


def _by(model: tuple[str, Difference]) -> str:
    name, difference = model
    return f"{name} by {with_error(difference.value, difference.std_error)}"


def _coverage(comparison: "Comparison") -> str:
    """A remark on the intervals of the best model if their coverage is not the nominal one."""
    entry = comparison.entries[0]
    assert entry.metrics is not None
    share = float(np.isinf(entry.metrics["width"]).mean())
    if share:
        return f" {percent(share)} of the {percent(comparison.coverage)} intervals of {entry.name} are infinite."
    inside = entry.metrics["coverage"]
    # Rows of a group, and neighbours in time, are inside or outside together.
    evidence = round(len(inside) / design_effect(inside, comparison.splits.cluster[comparison.splits.test_rows]))
    low, high = wilson(round(float(inside.mean()) * evidence), evidence)
    if low <= comparison.coverage <= high:
        return ""
    return (
        f" The {percent(comparison.coverage)} intervals of {entry.name} hold {percent(float(inside.mean()))} "
        "of the test rows."
    )


def notes(comparison: "Comparison") -> list[str]:
    """What readers need to know to read the table."""
    splits = comparison.splits
    n_folds = len(splits.folds)
    rows = f"{comparison.n_train:,} training rows{' per fold' if n_folds > 1 else ''}"
    lines = [f"Evaluated on {comparison.n_test:,} test rows, {rows} ({splits.how})."]
    if n_folds == 1:
        lines.append(
            "± is the standard error over test rows of the paired difference between the fitted models; "
            "folds=5 also covers the variation of the training rows."
        )
    else:
        lines.append("± is the standard error of the paired difference, the larger one of that over rows and folds.")
    n_regions = len(comparison.rules)
    where = "one region, all rows" if n_regions == 1 else f"{n_regions} regions, the same for all models"
    lines.append(
        f"Worst region: largest deviation of the coverage from {percent(comparison.coverage)} in {where}; "
        f"{number(100 * comparison.gap_by_chance, 2)} points are expected by chance."
    )
    for note in dict.fromkeys(entry.note for entry in comparison.entries if entry.note and entry.metrics):
        names = [entry.name for entry in comparison.entries if entry.note == note and entry.metrics]
        lines.append(f"{_listed(names)}: {note}.")
    lines += [f"{name} failed: {error.rstrip('.')}." for name, error in comparison.errors.items()]
    return [line.replace("\u00a0", " ") for line in lines]


def shown_rows(comparison: "Comparison") -> list[dict[str, str]]:
    """The table as text, for terminals and pages; failed models have dashes."""
    rows = []
    for row in comparison.table.rows():
        failed = bool(row["error"])
        rows.append(
            {
                "model": row["model"],
                CRPS.label: metric_text(CRPS, row["crps"]),
                "behind the best": "failed" if failed else _behind(row),
                **{_heading(m, comparison): metric_text(m, row[m.name]) for m in shown_metrics() if m is not CRPS},
                "worst region": "–" if failed else f"{100 * row['worst_gap']:+.1f}",
                "fit, CPU s": _seconds(row["fit_seconds"]),
                "predict, CPU s": _seconds(row["predict_seconds"]),
            }
        )
    return [{name.replace("\u00a0", " "): text.replace("\u00a0%", " %") for name, text in row.items()} for row in rows]


def _heading(metric: Metric, comparison: "Comparison") -> str:
    return f"coverage of {percent(comparison.coverage)}" if metric is COVERAGE else metric.label


def _behind(row: dict[str, Any]) -> str:
    if row["difference"] == 0 and row["std_error"] == 0:
        return "best"
    return with_error(row["difference"], row["std_error"]) + (" (tie)" if row["tie"] else "")


def _seconds(seconds: float) -> str:
    return "–" if not np.isfinite(seconds) else f"{seconds:.1f}" if seconds >= 0.95 else f"{seconds:.2g}"


def _listed(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
