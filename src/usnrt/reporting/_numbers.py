"""Numbers as text."""

import math
from collections.abc import Sequence
from itertools import pairwise

from usnrt.metrics.differences import Z
from usnrt.metrics.registry import Metric

MAX_DIGITS = 8  # before the point, without a power of ten
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, digits: int = 3) -> str:
    """A number with some significant digits; a power of ten only for very large or small ones.

    Digits are grouped by thousands; not those of whole numbers from 1800 to 2100, which may be years. There is no space
    to break a line at.

    Examples
    --------
    >>> from usnrt.reporting._numbers import number
    >>> number(1234567.8), number(1950), number(0.012345), number(3.0), number(float("nan"))
    ('1,234,568', '1950', '0.0123', '3', '–')
    >>> number(58960336421.0), number(-1.25e-9)
    ('59\xa0×\xa010⁹', '-1.25\xa0×\xa010⁻⁹')
    """
    value = float(value)
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "-∞")
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if size < -4 or (size >= MAX_DIGITS and digits < size - 2):
        power = 3 * (size // 3)
        text = f"{value / 10.0**power:.{max(digits - 1 - size + power, 0)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return f"{text}\u00a0×\u00a010{str(power).translate(SUPERSCRIPTS)}"
    text = f"{value:,.{max(digits - 1 - size, 0)}f}"
    if is_year(value):
        text = text.replace(",", "")
    return text.rstrip("0").rstrip(".") if "." in text else text


def is_year(value: float) -> bool:
    """Whether a number may be a year."""
    return float(value).is_integer() and 1800 <= value <= 2100


def plus_minus(value: float, error: float, digits: int = 3, error_digits: int = 2) -> str:
    """A number and its error or standard deviation, with a common power of ten.

    Examples
    --------
    >>> from usnrt.reporting._numbers import plus_minus
    >>> plus_minus(317.3, 47.11), plus_minus(4.19e9, 3.42e8)
    ('317 ± 47', '(4.19 ± 0.34)\xa0×\xa010⁹')
    """
    text = number(value, digits)
    head, times, power = text.partition("\u00a0×\u00a0")
    if not times or not math.isfinite(error):
        return f"{text} ± {number(error, error_digits)}"
    exponent = int(power[2:].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
    return f"({head} ± {number(error / 10.0**exponent, error_digits)}){times}{power}"


def digits_for(value: float, resolution: float, least: int = 4) -> int:
    """Significant digits that a value needs so that differences of this size are visible.

    Examples
    --------
    >>> from usnrt.reporting._numbers import digits_for, number
    >>> digits_for(317.3, 47.0), digits_for(1e9 + 317.3, 47.0)
    (4, 10)
    >>> number(1e9 + 317.3, digits_for(1e9 + 317.3, 47.0))
    '1,000,000,317'
    """
    if not (math.isfinite(value) and math.isfinite(resolution) and value and resolution > 0):
        return least
    return min(max(math.floor(math.log10(abs(value))) - math.floor(math.log10(resolution)) + 2, least), 15)


def percent(share: float, digits: int = 1) -> str:
    """A share in percent, with a non-breaking space.

    Examples
    --------
    >>> from usnrt.reporting._numbers import percent
    >>> percent(0.8983), percent(0.9)
    ('89.8\xa0%', '90\xa0%')
    """
    if not math.isfinite(share):
        return "–"
    text = f"{100 * share:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}\u00a0%"


def metric_text(metric: Metric, value: float) -> str:
    """The value of a metric, as pages show it.

    Examples
    --------
    >>> from usnrt.metrics import METRICS
    >>> from usnrt.reporting._numbers import metric_text
    >>> metric_text(METRICS["coverage"], 0.9), metric_text(METRICS["r2"], -0.0001)
    ('90\xa0%', '0')
    """
    if metric.text == "percent":
        return percent(value)
    return number(round(value, 3) if metric.text == "decimals" else value)


def wilson(hits: int, n: int, z: float = Z) -> tuple[float, float]:
    """Wilson's 95 % confidence interval of a proportion, which is valid for few rows too.

    Examples
    --------
    >>> from usnrt.reporting._numbers import wilson
    >>> low, high = wilson(90, 100)
    >>> round(low, 3), round(high, 3)
    (0.826, 0.945)
    """
    if n == 0:
        return 0.0, 1.0
    share, factor = hits / n, z * z / n
    middle = (share + factor / 2) / (1 + factor)
    half = z * math.sqrt(share * (1 - share) / n + factor / (4 * n)) / (1 + factor)
    return max(0.0, middle - half), min(1.0, middle + half)


def axis_labels(ticks: Sequence[float]) -> tuple[list[str], str]:
    """Labels of the ticks of an axis, and the power of ten to be added to the name of the axis, or "".

    Examples
    --------
    >>> from usnrt.reporting._numbers import axis_labels
    >>> axis_labels([0.0, 2e9, 4e9])
    (['0', '2', '4'], '10⁹')
    >>> axis_labels([-0.5e-9, 0.0, 0.5e-9])
    (['-500', '0', '500'], '10⁻¹²')
    >>> axis_labels([1940.0, 1960.0]), axis_labels([0.0, 50000.0])
    ((['1940', '1960'], ''), (['0', '50,000'], ''))
    """
    largest = max((abs(tick) for tick in ticks), default=0.0)
    step = min((b - a for a, b in pairwise(ticks)), default=largest)
    power = 3 * math.floor(math.log10(largest) / 3) if largest > 0 else 0
    # Not for ticks that differ in their last digits only: all digits would follow the point.
    if -3 <= power <= 3 or step < 1e-4 * largest:
        power = 0
    scale = 10.0**power
    decimals = 0
    while decimals < 15 and abs(round(step / scale, decimals) * scale - step) > 1e-6 * step:
        decimals += 1
    labels = [f"{tick / scale:,.{decimals}f}" for tick in ticks]
    if all(is_year(tick) for tick in ticks):
        labels = [text.replace(",", "") for text in labels]
    labels = ["0" if tick == 0 else text for tick, text in zip(ticks, labels)]
    return labels, f"10{str(power).translate(SUPERSCRIPTS)}" if power else ""
