"""A table with marked cells, rendered as text, Markdown, LaTeX or CSV."""

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

BEST, TIED = "best", "tied"


@dataclass(frozen=True)
class Entry:
    """One cell of a table.

    Attributes
    ----------
    text : str
        The shown text, without marks; may be empty.
    mark : {"", "best", "tied"}
    partial : bool
        Whether it is a mean over fewer seeds than planned.
    value : str
        The value in CSV files.
    """

    text: str
    mark: str = ""
    partial: bool = False
    value: str = ""


@dataclass(frozen=True)
class Layout:
    """Header and rows, ready to be rendered.

    Examples
    --------
    >>> from usnrt_experiments.layout import Layout, number, words
    >>> layout = Layout("ECE", ["Dataset", "HNN", "USNRT"], [[words("Power"), number(2.26), number(2.04, "best")]])
    >>> print(layout.render("text"))
    ECE
    <BLANKLINE>
    Dataset     HNN   USNRT
    -----------------------
    Power    2.26    2.04**
    <BLANKLINE>
    ** lower than every other of its row by more than the error
    <BLANKLINE>
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    notes: Sequence[str] = field(default_factory=tuple)
    n_text_columns: int = 1
    best_means: str = "lower than every other of its row by more than the error"
    tied_means: str = "lowest, or not distinguished from the lowest"

    def render(self, style: str) -> str:
        """The table as ``"text"``, ``"markdown"``, ``"latex"`` or ``"csv"``."""
        if style not in _STYLES:
            raise ValueError(f"format must be one of {list(_STYLES)}, got {style!r}")
        return _STYLES[style](self)

    def section(self) -> str:
        """The table as a section of a Markdown page."""
        return f"### {self.title}\n\n{_markdown_table(self)}".rstrip("\n")

    @property
    def anchor(self) -> str:
        """Anchor of that section on GitHub and GitLab."""
        return "#" + re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")

    def legend(self, best: str, tied: str, partial: str) -> list[str]:
        """Explanations of the marks in this table, given how they are rendered."""
        entries = [entry for row in self.rows for entry in row]
        parts = []
        if any(entry.mark == BEST for entry in entries):
            parts.append(f"{best} {self.best_means}")
        if any(entry.mark == TIED for entry in entries):
            parts.append(f"{tied} {self.tied_means}")
        if any(entry.partial for entry in entries):
            parts.append(f"{partial} mean over fewer seeds than planned")
        return (["; ".join(parts)] if parts else []) + list(self.notes)


def number(value: float | None, mark: str = "", partial: bool = False, pattern: str = "{:.2f}") -> Entry:
    """An entry for a number; None and NaN are left blank.

    Examples
    --------
    >>> from usnrt_experiments.layout import number
    >>> number(3.14159).text, number(None).text, number(float("inf")).text
    ('3.14', '', 'inf')
    """
    if value is None or math.isnan(value):
        return Entry("")
    text = str(value) if math.isinf(value) else pattern.format(value)
    return Entry(text, mark, partial, value=f"{value:.6g}")


def words(text: str) -> Entry:
    """An entry for a text."""
    return Entry(text, value=text)


def marks(values: Sequence[float | None]) -> list[str]:
    """Which of some values is the lowest and which the second lowest; of a single value neither.

    Examples
    --------
    >>> from usnrt_experiments.layout import marks
    >>> marks([3.74, 9.38, 6.09, None])
    ['best', '', 'second', '']
    """
    known = sorted({round(value, 2) for value in values if value is not None and not math.isnan(value)})
    if sum(value is not None for value in values) < 2:
        return [""] * len(values)
    names = dict(zip(known, (BEST, "second")))
    return ["" if value is None else names.get(round(value, 2), "") for value in values]


def _text(layout: Layout) -> str:
    room = 3 if any(entry.partial for row in layout.rows for entry in row) else 2

    def shown(entry: Entry) -> str:
        # Marks have a column of their own, so that the digits are aligned.
        after = {BEST: "**", TIED: "*", "": ""}[entry.mark] + ("†" if entry.partial else "")
        return entry.text + after.ljust(room)

    first = layout.n_text_columns
    body = [[entry.text for entry in row[:first]] + [shown(entry) for entry in row[first:]] for row in layout.rows]
    grid = [list(layout.header), *body]
    widths = [max(len(row[j]) for row in grid) for j in range(len(layout.header))]
    lines = [
        "  ".join(
            cell.ljust(w) if j < first else cell.rjust(w) for j, (cell, w) in enumerate(zip(row, widths))
        ).rstrip()
        for row in grid
    ]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([layout.title, "", lines[0], rule, *lines[1:], "", *layout.legend("**", "*", "†")]) + "\n"


def _markdown(layout: Layout) -> str:
    return f"**{layout.title}**\n\n{_markdown_table(layout)}"


def _markdown_table(layout: Layout) -> str:
    def shown(entry: Entry) -> str:
        text = f"**{entry.text}**" if entry.mark == BEST else entry.text + (r"\*" if entry.mark == TIED else "")
        return text.replace("|", r"\|") + ("†" if entry.partial else "")

    alignment = [":--" if j < layout.n_text_columns else "--:" for j in range(len(layout.header))]
    rows = [list(layout.header), alignment, *([shown(entry) for entry in row] for row in layout.rows)]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    legend = "\n\n".join(layout.legend("**bold**:", r"\*:", "†:"))
    return f"{table}\n" + (f"\n{legend}\n" if legend else "")


def _latex(layout: Layout) -> str:
    def shown(entry: Entry) -> str:
        text = _latex_text(entry.text)
        text = {BEST: rf"\textbf{{{text}}}", TIED: f"$^*${text}", "": text}[entry.mark]
        return text + ("$^+$" if entry.partial else "")

    first = layout.n_text_columns
    rows = [" & ".join(shown(entry) for entry in row) + r" \\" for row in layout.rows]
    legend = " ".join(f"{_latex_text(line.rstrip('.'))}." for line in layout.legend("bold:", "*:", "+:"))
    return "\n".join(
        [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{\textbf{{{_latex_text(layout.title)}}}. {legend}}}",
            rf"\begin{{tabular}}{{{'l' * first}{'r' * (len(layout.header) - first)}}}",
            r"\toprule",
            " & ".join(_latex_text(name) for name in layout.header) + r" \\ \midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _latex_text(text: str) -> str:
    for plain, escaped in (
        ("\\", r"\textbackslash "),
        ("%", r"\%"),
        ("&", r"\&"),
        ("_", r"\_"),
        ("#", r"\#"),
        ("‡", r"$\ddagger$"),
    ):
        text = text.replace(plain, escaped)
    return text


def _csv(layout: Layout) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(layout.header)
    writer.writerows([entry.value for entry in row] for row in layout.rows)
    return buffer.getvalue()


_STYLES: dict[str, Callable[[Layout], str]] = {"text": _text, "markdown": _markdown, "latex": _latex, "csv": _csv}
