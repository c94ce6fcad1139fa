"""Quantiles of a distribution that is known by its cdf and density only, for many rows at once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from usnrt.utils.types import Floats

EPS = np.finfo(np.float64).eps
LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)

# Newton's steps need 4-8 rounds. Bisections between floats need at most 64, and every third round is one at last.
PLAIN_ROUNDS = 30
ALL_ROUNDS = PLAIN_ROUNDS + 3 * 66


def solve_quantiles(
    cdf_and_pdf: Callable[[NDArray[np.intp], Floats], tuple[Floats, Floats]],
    q: Floats,
    lower: Floats,
    upper: Floats,
    start: Floats,
) -> Floats:
    """The smallest x with cdf(x) >= q, up to rounding, by Newton's steps that never leave a shrinking bracket.

    The steps are taken on the normal scale, ``ndtri(cdf(x)) = ndtri(q)``: there a mixture is nearly a straight
    line also in its tails, where the cdf itself is flat and plain Newton flies off.

    Parameters
    ----------
    cdf_and_pdf : callable
        ``cdf_and_pdf(problems, x)`` gives cdf and density of the problems with these numbers, at their ``x``.
    q, lower, upper, start : ndarray of shape (p,)
        Levels, brackets (cdf(lower) <= q <= cdf(upper)) and first guesses.

    Returns
    -------
    ndarray of shape (p,)
    """
    first, lower, upper = lower, lower.copy(), upper.copy()
    x = np.clip(start, lower, upper)
    goal = ndtri(q)
    last_step = np.full(q.size, np.inf)
    active = np.flatnonzero(lower < upper)
    for round_ in range(ALL_ROUNDS):
        if active.size == 0:
            break
        at, level = x[active], q[active]
        probability, density = cdf_and_pdf(active, at)
        below = probability < level
        lower[active] = np.where(below, at, lower[active])
        upper[active] = np.where(below, upper[active], at)
        left, right = lower[active], upper[active]

        seen = ndtri(probability)
        with np.errstate(all="ignore"):
            # d/dx ndtri(F(x)) = f(x) / phi(ndtri(F(x)))
            slope_inverse = np.exp(-0.5 * seen * seen - LOG_SQRT_2PI) / density
            step = (seen - goal[active]) * slope_inverse
        moved = at - step
        # A step that is not half as long as the one before may go back and forth for ever: bisect instead.
        inside = (moved > left) & (moved < right) & (np.abs(step) <= 0.5 * last_step[active])
        if round_ >= PLAIN_ROUNDS and round_ % 3 == 0:
            middle = _middle_of_floats(left, right)
            inside[:] = False
        else:
            middle = left + 0.5 * (right - left)
        x[active] = np.where(inside, moved, middle)
        last_step[active] = np.where(inside, np.abs(step), right - left)

        # Where the cdf is flat the level may be met already further left.
        exact = (np.abs(probability - level) <= 8.0 * EPS * level) & (density > 0)
        # A step below the resolution of x, or of the cdf around x, is the last.
        still = np.isfinite(step) & (np.abs(step) <= 4.0 * EPS * (np.abs(at) + slope_inverse))
        x[active] = np.where(exact, at, np.where(still, np.clip(moved, left, right), x[active]))
        closed = np.nextafter(left, np.inf) >= right
        x[active] = np.where(closed & ~exact, right, x[active])
        active = active[~(exact | still | closed)]
    # Nothing above looks at the lower end itself, where a point mass may sit.
    edge = np.flatnonzero((lower == first) & (np.nextafter(lower, np.inf) >= x))
    if edge.size:
        x[edge] = np.where(cdf_and_pdf(edge, first[edge])[0] >= q[edge], first[edge], x[edge])
    return x


def _middle_of_floats(left: Floats, right: Floats) -> Floats:
    """The number with as many floats to its left as to its right: halves any bracket in at most 64 rounds."""
    low, high = _order(left), _order(right)
    middle = low // 2 + high // 2 + (low & high & 1)
    return _order(middle.view(np.float64)).view(np.float64)


def _order(values: Floats) -> NDArray[np.int64]:
    """Integers in the order of the floats (its own inverse, on the bits)."""
    bits = np.ascontiguousarray(values).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)
