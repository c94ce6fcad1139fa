"""Quantiles from cdf and density by root finding, for many rows at once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from usnrt.utils.types import Floats

EPS = np.finfo(np.float64).eps
LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)

# Newton's method takes 4-8 iterations. Bisection over the floats takes at most 64; after PLAIN_ITERATIONS every third
# iteration is one.
PLAIN_ITERATIONS = 30
MAX_ITERATIONS = PLAIN_ITERATIONS + 3 * 66


def solve_quantiles(
    cdf_and_pdf: Callable[[NDArray[np.intp], Floats], tuple[Floats, Floats]],
    q: Floats,
    lower: Floats,
    upper: Floats,
    start: Floats,
) -> Floats:
    """The smallest x with cdf(x) >= q, up to rounding, by Newton's method safeguarded by a shrinking bracket.

    The steps are taken on the normal scale, ``ndtri(cdf(x)) = ndtri(q)``: there the cdf of a mixture is nearly linear
    also in its tails, where the cdf itself is flat and Newton's method diverges.

    Parameters
    ----------
    cdf_and_pdf : callable
        ``cdf_and_pdf(problems, x)`` returns cdf and density of the problems with these indices, each at its ``x``.
    q, lower, upper, start : ndarray of shape (p,)
        Levels, brackets (cdf(lower) <= q <= cdf(upper)) and initial values.

    Returns
    -------
    ndarray of shape (p,)
    """
    first, lower, upper = lower, lower.copy(), upper.copy()
    x = np.clip(start, lower, upper)
    target = ndtri(q)
    last_step = np.full(q.size, np.inf)
    active = np.flatnonzero(lower < upper)
    for iteration in range(MAX_ITERATIONS):
        if active.size == 0:
            break
        at, level = x[active], q[active]
        probability, density = cdf_and_pdf(active, at)
        below = probability < level
        lower[active] = np.where(below, at, lower[active])
        upper[active] = np.where(below, upper[active], at)
        left, right = lower[active], upper[active]

        z = ndtri(probability)
        with np.errstate(all="ignore"):
            # d/dx ndtri(F(x)) = f(x) / phi(ndtri(F(x)))
            slope_inverse = np.exp(-0.5 * z * z - LOG_SQRT_2PI) / density
            step = (z - target[active]) * slope_inverse
        newton = at - step
        # Steps that do not halve may oscillate: bisect instead.
        accepted = (newton > left) & (newton < right) & (np.abs(step) <= 0.5 * last_step[active])
        if iteration >= PLAIN_ITERATIONS and iteration % 3 == 0:
            middle = _middle_of_floats(left, right)
            accepted[:] = False
        else:
            middle = left + 0.5 * (right - left)
        x[active] = np.where(accepted, newton, middle)
        last_step[active] = np.where(accepted, np.abs(step), right - left)

        # Where the cdf is flat, a smaller x may have the same cdf, hence the condition on the density.
        exact = (np.abs(probability - level) <= 8.0 * EPS * level) & (density > 0)
        # A step below the resolution of x, or of the cdf around x, is the last.
        converged = np.isfinite(step) & (np.abs(step) <= 4.0 * EPS * (np.abs(at) + slope_inverse))
        x[active] = np.where(exact, at, np.where(converged, np.clip(newton, left, right), x[active]))
        closed = np.nextafter(left, np.inf) >= right
        x[active] = np.where(closed & ~exact, right, x[active])
        active = active[~(exact | converged | closed)]
    # The iteration never evaluates the lower end itself, which may be a point mass.
    edge = np.flatnonzero((lower == first) & (np.nextafter(lower, np.inf) >= x))
    if edge.size:
        x[edge] = np.where(cdf_and_pdf(edge, first[edge])[0] >= q[edge], first[edge], x[edge])
    return x


def _middle_of_floats(left: Floats, right: Floats) -> Floats:
    """The median of the floats in a bracket: bisection by it takes at most 64 iterations."""
    low, high = _order(left), _order(right)
    middle = low // 2 + high // 2 + (low & high & 1)
    return _order(middle.view(np.float64)).view(np.float64)


def _order(values: Floats) -> NDArray[np.int64]:
    """Integers in the order of the floats (an involution on the bits)."""
    bits = np.ascontiguousarray(values).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)
