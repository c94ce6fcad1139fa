"""The page of a comparison: one self-contained HTML file in the style of the report."""

import os
import time
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from usnrt.comparison.models import OURS
from usnrt.comparison.words import details, headline, notes, shown_rows, with_error
from usnrt.metrics.differences import Z
from usnrt.reporting._numbers import number, percent
from usnrt.utils.atomic_write import atomic_write

if TYPE_CHECKING:
    from usnrt.comparison.result import Comparison


def write_page(
    comparison: "Comparison", path: str | os.PathLike[str], source: str | None = None, command: str | None = None
) -> Path:
    """Write the page atomically; arguments as in `Comparison.to_html`."""
    page = render(comparison, source, command)
    with atomic_write(path) as file:
        file.write(page.encode())
    return Path(path)


def render(comparison: "Comparison", source: str | None, command: str | None) -> str:
    """The page as HTML."""
    try:
        from jinja2 import Environment
        from markupsafe import Markup
    except ImportError as error:
        raise ImportError("the page needs jinja2: pip install 'usnrt[report]'") from error

    from usnrt._version import __version__

    comparison._need_one()
    folder = files("usnrt.comparison")
    css = (files("usnrt.reporting") / "page.css").read_text("utf-8") + (folder / "page.css").read_text("utf-8")
    template = Environment(autoescape=True).from_string((folder / "page.html").read_text("utf-8"))
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    rows = shown_rows(comparison)
    kinds = ["ours" if row["model"] in OURS else "" for row in rows]
    return template.render(
        title=f"Models compared{f' on predicting {comparison.target}' if comparison.target else ''}",
        subject=_subject(comparison, source),
        headline=headline(comparison).replace(" ± ", "\u00a0±\u00a0"),
        details=details(comparison).replace(" ± ", "\u00a0±\u00a0"),
        head=list(rows[0]),
        rows=[list(zip(kinds_of(kind, row), row.values())) for kind, row in zip(kinds, rows)],
        differences=_differences(comparison),
        axis=_axis(comparison),
        coverage=_coverage(comparison),
        nominal=percent(comparison.coverage),
        regions=_regions(comparison),
        notes=notes(comparison),
        failed=comparison.errors,
        command=command or 'import usnrt\n\nresult = usnrt.compare(X, y)\nresult.to_html("compare.html")',
        css=Markup(css),
        version=__version__,
        written=time.strftime(" on %Y-%m-%d at %H:%M UTC", time.gmtime(epoch)),
    )


def kinds_of(kind: str, row: dict[str, str]) -> list[str]:
    """The CSS classes of the cells of a row."""
    return [f"name {kind}".strip(), *["number"] * (len(row) - 1)]


def _subject(comparison: "Comparison", source: str | None) -> str:
    where = f" of {source}" if source else ""
    return (
        f"{len(comparison.entries)} models, {comparison.n_train:,} training rows and {comparison.n_test:,} test rows"
        f"{where}; {comparison.splits.how}."
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


def _differences(comparison: "Comparison") -> list[dict[str, Any]]:
    scale, table = _scale(comparison), comparison.table
    found = []
    for row in range(comparison.n_done):
        value, error = float(table["difference"][row]), float(table["std_error"][row])
        reach = Z * error if np.isfinite(error) else 0.0
        low, high = (min(max(end / scale, 0.0), 1.0) for end in (value - reach, value + reach))
        beyond = not np.isfinite(value) or value > scale
        text = "best" if row == 0 else with_error(value, error) + (" (tie)" if table["tie"][row] else "")
        found.append(
            {
                "name": table["model"][row],
                "kind": "tie" if row == 0 or table["tie"][row] else "",
                "at": f"{100 * min(value / scale, 1.0):.2f}" if np.isfinite(value) else "100",
                "low": f"{100 * low:.2f}",
                "width": f"{100 * (high - low):.2f}",
                "beyond": beyond,
                "text": text,
            }
        )
    return found


def _axis(comparison: "Comparison") -> str:
    return number(_scale(comparison), 2)


def _coverage(comparison: "Comparison") -> list[dict[str, Any]]:
    """Coverage of all rows and of the worst region on a scale from the smallest one to 100 %."""
    table, nominal, n = comparison.table, comparison.coverage, comparison.n_done
    worst = nominal + table["worst_gap"][:n]
    low = max(0.0, float(np.floor(10 * min(worst.min(), table["coverage"][:n].min(), nominal - 0.05)) / 10))

    def at(share: float) -> str:
        return f"{100 * (share - low) / (1.0 - low):.2f}"

    return [
        {
            "name": table["model"][row],
            "all": at(float(table["coverage"][row])),
            "worst": at(float(worst[row])),
            "nominal": at(nominal),
            "low": percent(low),
            "text": f"{percent(float(table['coverage'][row]))}; worst {percent(float(worst[row]))}",
            "where": table["worst_region"][row],
        }
        for row in range(n)
    ]


def _regions(comparison: "Comparison") -> list[tuple[str, str]]:
    rows = np.bincount(comparison._region, minlength=len(comparison.rules))
    return [(rule, f"{count:,}") for rule, count in zip(comparison.rules, rows)]
