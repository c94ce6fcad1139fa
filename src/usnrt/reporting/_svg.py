"""Charts as SVG, and text in them that may run from right to left."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape as escape_html

import numpy as np

# Hebrew, Arabic, Syriac, Thaana, N'Ko and their presentation forms.
_RTL = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
_RUN = re.compile(f"[{_RTL}](?:[{_RTL}\\s_-]*[{_RTL}])?")
FIRST_STRONG_ISOLATE, POP_ISOLATE = "\u2068", "\u2069"


def isolated(text: str) -> str:
    """The text with its right-to-left runs isolated.

    Examples
    --------
    >>> from usnrt.reporting._svg import isolated
    >>> isolated("area <= 5") == "area <= 5", ascii(isolated("5 < \u05d0\u05d1 <= 7"))
    (True, "'5 < \\\\u2068\\\\u05d0\\\\u05d1\\\\u2069 <= 7'")
    """
    if text.isascii():
        return text
    return _RUN.sub(lambda found: f"{FIRST_STRONG_ISOLATE}{found[0]}{POP_ISOLATE}", text)


def escape(text: str) -> str:
    """The text for HTML and SVG, with its right-to-left runs isolated."""
    return escape_html(isolated(text))


# Widths of characters in the font sizes of the style sheet, generous: of a digit of a tick, of a letter of a label, and
# of a letter of a script whose characters are wide.
DIGIT_WIDTH, LABEL_WIDTH, WIDE = 7.4, 7.6, 1.9


class Chart:
    """A chart with axes; add elements, then call ``svg()``.

    The title is an accessible name, for screen readers. ``y_ticks`` are the labels of the y axis, for which there must
    be room.
    """

    right, top, bottom = 12, 10, 42

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        x_label: str,
        y_label: str,
        title: str,
        width: int = 420,
        height: int = 320,
        y_ticks: Sequence[str] = (),
    ) -> None:
        self.x, self.y, self.width, self.height = x, y, width, height
        self.left = max(52, round(28 + DIGIT_WIDTH * max(map(len, y_ticks), default=0)))
        self.parts: list[str] = []
        y_label = shortened(y_label, height - self.top - self.bottom, LABEL_WIDTH)
        self.head = (
            f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
            f'<text class="label" x="{(self.left + width - self.right) / 2:g}" y="{height - 6}" '
            f'text-anchor="middle">{escape(x_label)}</text>'
            f'<text class="label" transform="translate(13 {(self.top + height - self.bottom) / 2:g}) rotate(-90)" '
            f'text-anchor="middle">{escape(y_label)}</text>'
        )

    def at_x(self, value: float) -> float:
        """Position of a value on the x axis."""
        low, high = self.x
        return round(self.left + (value - low) / (high - low) * (self.width - self.left - self.right), 2)

    def at_y(self, value: float) -> float:
        """Position of a value on the y axis."""
        low, high = self.y
        return round(
            self.height - self.bottom - (value - low) / (high - low) * (self.height - self.top - self.bottom), 2
        )

    def ticks(self, x: Iterable[tuple[float, str]] = (), y: Iterable[tuple[float, str]] = ()) -> None:
        """Grid lines with their labels."""
        x0, x1, y0, y1 = self.left, self.width - self.right, self.height - self.bottom, self.top
        for value, text in y:
            at = self.at_y(value)
            self.parts.append(f'<line class="grid" x1="{x0}" x2="{x1}" y1="{at}" y2="{at}"/>')
            self.parts.append(f'<text class="tick" x="{x0 - 6}" y="{at + 4}" text-anchor="end">{escape(text)}</text>')
        for value, text in x:
            at = self.at_x(value)
            self.parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{y0}" y2="{y1}"/>')
            self.parts.append(f'<text class="tick" x="{at}" y="{y0 + 16}" text-anchor="middle">{escape(text)}</text>')

    def line(self, x: Sequence[float], y: Sequence[float], kind: str, tip: str = "") -> None:
        """A line through points; ``kind`` is its CSS class."""
        points = " ".join(f"{self.at_x(a)},{self.at_y(b)}" for a, b in zip(x, y))
        self.parts.append(f'<polyline class="{kind}" points="{points}">{_tip(tip)}</polyline>')

    def band(self, x: Sequence[float], low: Sequence[float], high: Sequence[float], kind: str, tip: str = "") -> None:
        """The area between two lines."""
        forth = [f"{self.at_x(a)},{self.at_y(b)}" for a, b in zip(x, high)]
        back = [f"{self.at_x(a)},{self.at_y(b)}" for a, b in zip(x, low)][::-1]
        self.parts.append(f'<polygon class="{kind}" points="{" ".join(forth + back)}">{_tip(tip)}</polygon>')

    def dot(self, x: float, y: float, kind: str, tip: str = "", radius: float = 4) -> None:
        """A point."""
        self.parts.append(
            f'<circle class="{kind}" cx="{self.at_x(x)}" cy="{self.at_y(y)}" r="{radius:g}">{_tip(tip)}</circle>'
        )

    def bar(self, x0: float, x1: float, y: float, kind: str, tip: str = "") -> None:
        """A vertical bar from the axis to a value."""
        top, base = self.at_y(y), self.at_y(max(self.y[0], 0.0))
        left, right = self.at_x(x0), self.at_x(x1)
        self.parts.append(
            f'<rect class="{kind}" x="{left}" y="{top}" width="{max(right - left, 0):g}" '
            f'height="{max(base - top, 0):g}">{_tip(tip)}</rect>'
        )

    def stroke(self, x: float, low: float, high: float, kind: str, tip: str = "") -> None:
        """A vertical line, such as an interval."""
        at = self.at_x(x)
        self.parts.append(
            f'<line class="{kind}" x1="{at}" x2="{at}" y1="{self.at_y(low)}" y2="{self.at_y(high)}">{_tip(tip)}</line>'
        )

    def arrow(self, x: float, upward: bool, kind: str, tip: str = "") -> None:
        """A triangle at the upper or lower edge, for a value beyond it."""
        at, edge = self.at_x(x), self.top if upward else self.height - self.bottom
        base = edge + 8 if upward else edge - 8
        self.parts.append(
            f'<polygon class="{kind}" points="{at},{edge} {at - 4.5},{base} {at + 4.5},{base}">{_tip(tip)}</polygon>'
        )

    def svg(self) -> str:
        """The chart as SVG."""
        return self.head + "".join(self.parts) + "</svg>"


def shortened(text: str, room: float, width: float = LABEL_WIDTH) -> str:
    """A text that is not longer than the room for it; East Asian characters count twice.

    Examples
    --------
    >>> from usnrt.reporting._svg import shortened
    >>> shortened("temperature", 200), shortened("temperature", 50)
    ('temperature', 'tempe…')
    """
    widths = np.cumsum([width * (WIDE if unicodedata.east_asian_width(letter) in "WF" else 1.0) for letter in text])
    if not len(text) or widths[-1] <= room:
        return text
    return text[: max(int(np.searchsorted(widths, room - width)), 1)] + "…"


def _tip(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers between two bounds.

    Examples
    --------
    >>> from usnrt.reporting._svg import nice_ticks
    >>> nice_ticks(0, 97)
    [0.0, 20.0, 40.0, 60.0, 80.0]
    """
    span = high - low
    if not np.isfinite(span) or span <= 0:
        return [low]
    raw = span / count
    size = 10.0 ** np.floor(np.log10(raw))
    step = size * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * size >= raw)
    first = int(np.ceil(low / step - 1e-9))
    last = int(np.floor(high / step + 1e-9))
    return [float(k * step) for k in range(first, last + 1)]
