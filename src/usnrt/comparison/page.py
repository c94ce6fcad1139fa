"""The page of a comparison: one self-contained HTML file in the style of the report."""

from typing import TYPE_CHECKING, Any

import numpy as np

from usnrt.comparison.models import OURS
from usnrt.comparison.words import details, headline, notes, shown_rows, with_error
from usnrt.metrics.differences import Z
from usnrt.reporting._html import render_page
from usnrt.reporting._numbers import percent

if TYPE_CHECKING:
    from usnrt.comparison.result import Comparison


def render(comparison: "Comparison", source: str | None, command: str | None) -> str:
    """The page as HTML."""
    comparison._need_one()
    scale, low = _scale(comparison), _lowest_coverage(comparison)
    rows = np.bincount(comparison._region, minlength=len(comparison.rules)).tolist()
    return render_page(
        "comparison",
        comparison=comparison,
        title=f"Models compared{f' on predicting {comparison.target}' if comparison.target else ''}",
        subject=(
            f"{len(comparison.entries)} models, {comparison.n_train:,} training rows and {comparison.n_test:,} test "
            f"rows{f' of {source}' if source else ''}; {comparison.splits.how}."
        ),
        headline=headline(comparison).replace(" ± ", "\u00a0±\u00a0"),
        details=details(comparison).replace(" ± ", "\u00a0±\u00a0"),
        rows=shown_rows(comparison),
        ours=OURS,
        scale=scale,
        differences=_differences(comparison, scale),
        coverage=_coverage(comparison, low),
        coverage_from=low,
        regions=list(zip(comparison.rules, rows)),
        notes=notes(comparison),
        command=command or 'import usnrt\n\nresult = usnrt.compare(X, y)\nresult.to_html("compare.html")',
    )


def _scale(comparison: "Comparison") -> float:
    """The largest difference that the chart shows: models far behind are cut off, so that the others can be read."""
    table, n = comparison.table, comparison.n_done
    ends = table["difference"][:n] + Z * table["std_error"][:n]
    ends = np.sort(ends[np.isfinite(ends)])
    typical = ends[len(ends) // 2] if len(ends) else 1.0
    if not len(ends) or ends[-1] <= 0:
        return 1.0
    largest = float(min(ends[-1], 4.0 * typical)) if typical > 0 else float(ends[-1])
    unit = 10.0 ** (np.floor(np.log10(largest)) - 1)
    return float(np.ceil(largest / unit) * unit)  # a number of two digits


def _differences(comparison: "Comparison", scale: float) -> list[dict[str, Any]]:
    """Differences to the best and their confidence intervals, in percent of the scale."""
    table = comparison.table
    found = []
    for row in range(comparison.n_done):
        value, error = float(table["difference"][row]), float(table["std_error"][row])
        reach = Z * error if np.isfinite(error) else 0.0
        low, high = (min(max(end / scale, 0.0), 1.0) for end in (value - reach, value + reach))
        found.append(
            {
                "name": table["model"][row],
                "kind": "tie" if row == 0 or table["tie"][row] else "",
                "at": f"{100 * min(value / scale, 1.0):.2f}" if np.isfinite(value) else "100",
                "low": f"{100 * low:.2f}",
                "width": f"{100 * (high - low):.2f}",
                "beyond": not np.isfinite(value) or value > scale,
                "text": "best" if row == 0 else with_error(value, error) + (" (tie)" if table["tie"][row] else ""),
            }
        )
    return found


def _lowest_coverage(comparison: "Comparison") -> float:
    """Where the axis of coverages begins."""
    table, n = comparison.table, comparison.n_done
    worst = comparison.coverage + table["worst_gap"][:n]
    smallest = min(worst.min(), table["coverage"][:n].min(), comparison.coverage - 0.05)
    return max(0.0, float(np.floor(10 * smallest) / 10))


def _coverage(comparison: "Comparison", low: float) -> list[dict[str, Any]]:
    """Coverage of all rows and of the worst region, in percent of a scale from the lowest one to 100 %."""
    table, nominal = comparison.table, comparison.coverage

    def at(share: float) -> str:
        return f"{100 * (share - low) / (1.0 - low):.2f}"

    found = []
    for row in range(comparison.n_done):
        coverage, worst = float(table["coverage"][row]), float(nominal + table["worst_gap"][row])
        found.append(
            {
                "name": table["model"][row],
                "all": at(coverage),
                "worst": at(worst),
                "nominal": at(nominal),
                "text": f"{percent(coverage)}; worst {percent(worst)}",
                "where": table["worst_region"][row],
            }
        )
    return found
