"""The logarithm of the p-value of a t-test, without underflow."""

import sys
from math import inf, isinf, log, log1p, sqrt

from scipy import special

_SAFE = 1e-250  # below this the incomplete beta function loses precision, then underflows


def log10_p(statistic: float, df: float) -> float:
    """log10 of the two-sided p-value of Student's t.

    ``p = I_x(df / 2, 1 / 2)`` with ``x = df / (df + T^2)``, the regularised incomplete beta function; where p is below
    1e-250, the logarithm is computed from the continued fraction of that function.

    Parameters
    ----------
    statistic : float
        T, of either sign.
    df : float
        Degrees of freedom; p = 1 if they are 0 or less.

    Returns
    -------
    float
        log10 p, at most 0; -inf for an infinite statistic.

    Examples
    --------
    >>> from usnrt.tree.pvalue import log10_p
    >>> round(log10_p(2.0, 10), 6)
    -1.134375
    >>> round(log10_p(1000.0, 8000), 3)
    -8403.53
    """
    t = abs(statistic)
    if df <= 0 or t == 0:
        return 0.0
    if isinf(t):
        return -inf
    a, b = df / 2, 0.5
    ratio = (t / df) * t
    if ratio == 0:
        return 0.0
    if ratio < 1:  # x is close to 1: 1 - x is more precise
        y = ratio / (1 + ratio)
        inside = special.betainc(b, a, y)
        if inside < 0.5:
            return log1p(-inside) / log(10)
        p = special.betaincc(b, a, y)
    else:
        p = special.betainc(a, b, 1 / (1 + ratio))
    if p > _SAFE:
        return log(p) / log(10)
    # If T^2 / df overflows, log(1 + T^2 / df) is log(T^2 / df).
    log_x = log(df) - 2 * log(t) if isinf(ratio) else -log1p(ratio)
    log_y = -log1p(1 / ratio)
    front = a * log_x + b * log_y - log(a) - float(special.betaln(a, b))
    return (front + log(_continued_fraction(a, b, 1 / (1 + ratio)))) / log(10)


def underflow_limit(df: float) -> float:
    """The smallest |T| whose p-value is below the smallest normal double, about 2e-308.

    Examples
    --------
    >>> from usnrt.tree.pvalue import underflow_limit
    >>> round(underflow_limit(40_000), 2)
    37.87
    """
    least = log(sys.float_info.min) / log(10)
    low, high = 1.0, sys.float_info.max
    for _ in range(100):  # bisection on a log scale, to the last digits
        middle = sqrt(low) * sqrt(high)
        low, high = (low, middle) if log10_p(middle, df) < least else (middle, high)
    return high


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of ``I_x(a, b) a B(a, b) / (x^a (1 - x)^b)``, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value
