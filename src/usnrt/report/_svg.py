"""Small charts as SVG. Colours are set in the page's style sheet, for dark mode and printing."""

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np


class Chart:
    """A chart with axes; add elements, then call ``svg()``.

    Parameters
    ----------
    x, y : (low, high)
        Ranges of the axes.
    x_label, y_label : str
    title : str
        Accessible name, for screen readers.
    width, height : int
        In units of the SVG; the page scales it.
    """

    left, right, top, bottom = 52, 12, 10, 42

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        x_label: str,
        y_label: str,
        title: str,
        width: int = 420,
        height: int = 320,
    ) -> None:
        self.x, self.y, self.width, self.height = x, y, width, height
        self.parts: list[str] = []
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

    def svg(self) -> str:
        """The chart as SVG."""
        return self.head + "".join(self.parts) + "</svg>"


def _tip(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers between two bounds.

    Examples
    --------
    >>> from usnrt.report._svg import nice_ticks
    >>> nice_ticks(0, 97)
    [0.0, 20.0, 40.0, 60.0, 80.0]
    """
    span = high - low
    if not np.isfinite(span) or span <= 0:
        return [low]
    raw = span / count
    size = 10.0 ** np.floor(np.log10(raw))
    step = size * next(factor for factor in (1, 2, 5, 10) if factor * size >= raw)
    first = int(np.ceil(low / step - 1e-9))
    last = int(np.floor(high / step + 1e-9))
    return [float(k * step) for k in range(first, last + 1)]
