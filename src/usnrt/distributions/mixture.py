"""Mixtures, and quantiles from cdf and density by root finding, for many rows at once."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from usnrt.distributions.base import Distribution, row_chunks
from usnrt.distributions.parametric import Normal, expected_distance
from usnrt.utils.types import Floats, Rows

EPS = np.finfo(np.float64).eps
LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)

# Newton's method takes 4-8 iterations. Bisection over the floats takes at most 64; after PLAIN_ITERATIONS every third
# iteration is one.
PLAIN_ITERATIONS = 30
MAX_ITERATIONS = PLAIN_ITERATIONS + 3 * 66


def solve_quantiles(
    cdf_and_pdf: Callable[[Rows, Floats], tuple[Floats, Floats]], q: Floats, lower: Floats, upper: Floats, start: Floats
) -> Floats:
    """The smallest x with cdf(x) >= q, up to rounding, by Newton's method safeguarded by a shrinking bracket.

    The steps are taken on the normal scale, ``ndtri(cdf(x)) = ndtri(q)``: there the cdf of a mixture is nearly linear
    also in its tails, where the cdf itself is flat and Newton's method diverges. ``cdf_and_pdf(problems, x)`` returns
    cdf and density of the problems with these indices, each at its ``x``; cdf(lower) <= q <= cdf(upper).
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


class Mixture(Distribution):
    """A mixture of ``m`` normal distributions per row.

    Its variance has two components: ``aleatoric``, the mean of the members' variances, and ``epistemic``, the
    variance of the members' means; they sum to ``var()``.

    Parameters
    ----------
    components : sequence of m Normal, each of n rows
    weights : array-like of shape (m,) or (n, m), or None
        Non-negative weights, normalised to sum to 1; None for equal weights.

    Attributes
    ----------
    weights : ndarray of shape (n, m)
    means, stds : ndarray of shape (n, m)
        Those of the members.

    Examples
    --------
    >>> from usnrt.distributions import Mixture, Normal
    >>> ensemble = Mixture([Normal([0.0], [1.0]), Normal([4.0], [1.0])])
    >>> ensemble.mean(), ensemble.aleatoric, ensemble.epistemic
    (array([2.]), array([1.]), array([4.]))
    >>> ensemble.ppf([0.05, 0.5, 0.95]).round(3)
    array([[-1.282,  2.   ,  5.282]])
    >>> ensemble.crps([2.0]).round(4)
    array([0.7344])
    """

    def __init__(self, components: Sequence[Normal], weights: ArrayLike | None = None) -> None:
        kinds = sorted({type(member).__name__ for member in components})
        if kinds != ["Normal"]:
            raise TypeError(f"components must be Normal, got {kinds}")
        lengths = sorted({len(member) for member in components})
        if len(lengths) > 1:
            raise ValueError(f"components must have equal numbers of rows, got {lengths}")
        self.means = np.stack([member.mean() for member in components], axis=1)
        self.stds = np.stack([member.std() for member in components], axis=1)
        self.weights = _check_weights(weights, *self.means.shape)

    def _changed(self, means: Floats, stds: Floats, weights: Floats) -> "Mixture":
        """A mixture of validated parameters and weights."""
        mixture = Mixture.__new__(Mixture)
        mixture.means, mixture.stds, mixture.weights = means, stds, weights
        return mixture

    @property
    def components(self) -> list[Normal]:
        """The members, each a distribution of n rows."""
        return [Normal(*member) for member in zip(self.means.T, self.stds.T)]

    @property
    def n_members(self) -> int:
        """Number of members."""
        return int(self.weights.shape[1])

    def __len__(self) -> int:
        return len(self.weights)

    def mean(self) -> Floats:
        return self._weighted_mean(self.means)

    def std(self) -> Floats:
        # Scaled first, so that squares neither underflow nor overflow.
        distance = np.abs(self.means - self.mean()[:, None])
        unit = np.maximum(self.stds, distance).max(axis=1)
        safe = np.where((unit > 0) & np.isfinite(unit), unit, 1.0)[:, None]
        with np.errstate(over="ignore", under="ignore"):
            squares = (self.stds / safe) ** 2 + (distance / safe) ** 2
        variance = self._weighted_mean(np.where(self.weights > 0, squares, 0.0))
        return safe[:, 0] * np.sqrt(variance)

    @property
    def aleatoric(self) -> Floats | None:
        """Mean of the members' variances, shape ``(n,)``."""
        if self._aleatoric is not None:
            return self._aleatoric
        with np.errstate(over="ignore", under="ignore"):
            squares = self.stds**2
        return self._weighted_mean(np.where(self.weights > 0, squares, 0.0))

    @property
    def epistemic(self) -> Floats | None:
        """Variance of the members' means, shape ``(n,)``."""
        if self._epistemic is not None:
            return self._epistemic
        with np.errstate(over="ignore", under="ignore"):
            squares = (self.means - self.mean()[:, None]) ** 2
        return self._weighted_mean(squares)

    def _weighted_mean(self, values: Floats) -> Floats:
        mean: Floats = np.einsum("nm,nm->n", self.weights, values)
        return mean

    def _average(self, formula: Callable[..., Floats], y: Floats) -> Floats:
        """Weighted mean over the members of a formula at ``y`` (n, k), in chunks of rows."""
        result = np.empty(y.shape)
        for rows in row_chunks(len(self), self.n_members * y.shape[1]):
            values = formula(y[rows, :, None], self.means[rows, None, :], self.stds[rows, None, :])
            result[rows] = np.einsum("nkm,nm->nk", values, self.weights[rows])
        return result

    def _cdf(self, y: Floats) -> Floats:
        return np.minimum(self._average(Normal.formula_cdf, y), 1.0)

    def _sf(self, y: Floats) -> Floats:
        return np.minimum(self._average(Normal.formula_sf, y), 1.0)

    def _cdf_left(self, y: Floats) -> Floats:
        return np.minimum(self._average(Normal.formula_cdf_left, y), 1.0)

    def _logpdf(self, y: Floats) -> Floats:
        result = np.empty(y.shape)
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)
        for rows in row_chunks(len(self), self.n_members * y.shape[1]):
            logs = Normal.formula_logpdf(y[rows, :, None], self.means[rows, None, :], self.stds[rows, None, :])
            result[rows] = _log_mean_exp(logs, log_weights[rows, None, :])
        return result

    def _ppf(self, q: Floats) -> Floats:
        levels = np.broadcast_to(q, (len(self), q.shape[1]))
        quantiles = np.empty(levels.shape)
        for rows in row_chunks(len(self), self.n_members * q.shape[1]):
            quantiles[rows] = self._ppf_of_rows(rows, levels[rows])
        # Quantiles at adjacent levels may cross by a rounding error.
        order = np.argsort(levels, axis=1)
        increasing = np.maximum.accumulate(np.take_along_axis(quantiles, order, axis=1), axis=1)
        np.put_along_axis(quantiles, order, increasing, axis=1)
        return quantiles

    def _ppf_of_rows(self, rows: slice, q: Floats) -> Floats:
        parameters = self.means[rows, None, :], self.stds[rows, None, :]
        at_members = Normal.formula_ppf(q[:, :, None], *parameters)  # (rows, k, m)
        shape = at_members.shape[:2]
        flat = tuple(
            np.broadcast_to(p, at_members.shape).reshape(-1, self.n_members)
            for p in (*parameters, self.weights[rows, None, :])
        )

        def cdf_and_pdf(problems: Rows, x: Floats) -> tuple[Floats, Floats]:
            means, stds, weights = (p[problems] for p in flat)
            cdf, pdf = Normal.formula_cdf_and_pdf(x[:, None], means, stds)
            with np.errstate(invalid="ignore"):  # weight 0 times an infinite density; the root finder then bisects
                return np.einsum("pm,pm->p", weights, cdf), np.einsum("pm,pm->p", weights, pdf)

        start = np.einsum("nkm,nm->nk", at_members, self.weights[rows])
        quantiles = solve_quantiles(
            cdf_and_pdf, q.ravel(), at_members.min(axis=2).ravel(), at_members.max(axis=2).ravel(), start.ravel()
        )
        return quantiles.reshape(shape)

    def _crps(self, y: Floats) -> Floats:
        distance = self._average(Normal.formula_distance, y[:, None])[:, 0]
        return np.maximum(distance - self._spread(), 0.0)

    def _spread(self) -> Floats:
        """E|Y - Y'| / 2 of two draws: a difference of two normals is normal (Grimit et al. 2006)."""
        spread = np.zeros(len(self))
        for i in range(self.n_members):
            for j in range(i + 1):
                both = self.weights[:, i] * self.weights[:, j] * (0.5 if i == j else 1.0)
                std = np.hypot(self.stds[:, i], self.stds[:, j])
                spread += both * expected_distance(self.means[:, i] - self.means[:, j], std)
        return spread

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        edges = np.cumsum(self.weights, axis=1)[:, None, :]
        uniform = rng.random((len(self), size))
        last = self.n_members - 1 - np.argmax(self.weights[:, ::-1] > 0, axis=1)
        member = np.minimum((uniform[:, :, None] >= edges).sum(axis=2), last[:, None])
        chosen = [np.take_along_axis(p, member, axis=1).ravel() for p in (self.means, self.stds)]
        return Normal(*chosen)._draw(1, rng).reshape(len(self), size)

    def _take(self, index: Any) -> "Mixture":
        return self._changed(self.means[index], self.stds[index], self.weights[index])

    def _scaled(self, shift: Floats, factor: Floats) -> "Mixture":
        return self._changed(factor[:, None] * self.means + shift[:, None], factor[:, None] * self.stds, self.weights)


def _check_weights(weights: ArrayLike | None, n: int, m: int) -> Floats:
    if weights is None:
        return np.full((n, m), 1.0 / m)
    values = np.asarray(weights, dtype=np.float64)
    if values.shape not in ((m,), (n, m)):
        raise ValueError(f"weights must have shape ({m},) or ({n}, {m}), got {values.shape}")
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError("weights must be finite and >= 0, but some are not")
    total = values.sum(axis=-1, keepdims=True)
    if (total == 0).any():
        raise ValueError("weights must have a positive sum in every row, but a sum is 0")
    return np.broadcast_to(values / total, (n, m)).copy()


def _log_mean_exp(logs: Floats, log_weights: Floats) -> Floats:
    """``log(sum(exp(logs + log_weights)))`` over the last axis, with correct limits for infinite terms."""
    # A member of weight 0 may have an infinite density.
    terms = np.where(np.isneginf(log_weights), 0.0, logs) + log_weights
    largest = terms.max(axis=-1, keepdims=True)
    pivot = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore", under="ignore", over="ignore"):
        log_sum: Floats = np.log(np.exp(terms - pivot).sum(axis=-1)) + pivot[..., 0]
    return log_sum
