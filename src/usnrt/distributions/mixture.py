"""Mixtures of normal distributions: the predictive distribution of an ensemble."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.distributions._roots import solve_quantiles
from usnrt.distributions.base import Distribution, row_chunks
from usnrt.distributions.normal import Normal, expected_distance
from usnrt.utils.types import Floats


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
        """Mean of each row, shape ``(n,)``."""
        return self._weighted_mean(self.means)

    def std(self) -> Floats:
        """Standard deviation of each row, shape ``(n,)``."""
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

        def cdf_and_pdf(problems: NDArray[np.intp], x: Floats) -> tuple[Floats, Floats]:
            means, stds, weights = (p[problems] for p in flat)
            cdf, pdf = Normal.formula_cdf_and_pdf(x[:, None], means, stds)
            with np.errstate(invalid="ignore"):  # weight 0 times an infinite density; the root finder then bisects
                return np.einsum("pm,pm->p", weights, cdf), np.einsum("pm,pm->p", weights, pdf)

        start = np.einsum("nkm,nm->nk", at_members, self.weights[rows])
        quantiles = solve_quantiles(
            cdf_and_pdf,
            q.ravel(),
            at_members.min(axis=2).ravel(),
            at_members.max(axis=2).ravel(),
            start.ravel(),
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
