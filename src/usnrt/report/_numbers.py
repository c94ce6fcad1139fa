"""Numbers as text."""

import math


def number(value: float, digits: int = 3) -> str:
    """A number with some significant digits, grouped by thousands; an exponent only for very large or small ones.

    Examples
    --------
    >>> from usnrt.report._numbers import number
    >>> number(1234567.8), number(0.012345), number(3.0), number(-1e-9), number(float("nan"))
    ('1,234,568', '0.0123', '3', '-1e-09', '–')
    """
    value = float(value)
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "-∞")
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size < -4 or size >= 15:
        return f"{value:.{digits - 1}e}".replace(".00e", "e").replace(".0e", "e")
    text = f"{value:,.{max(digits - 1 - size, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float, digits: int = 1) -> str:
    """A share in percent, with a non-breaking space.

    Examples
    --------
    >>> from usnrt.report._numbers import percent
    >>> percent(0.8983), percent(0.9)
    ('89.8\xa0%', '90\xa0%')
    """
    if not math.isfinite(share):
        return "–"
    text = f"{100 * share:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}\u00a0%"


def wilson(hits: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95 % confidence interval of a proportion, which is valid for few rows too.

    Examples
    --------
    >>> from usnrt.report._numbers import wilson
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
