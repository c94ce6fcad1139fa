"""Estimation of residual distributions: a Student-t, corrected by a kernel density on its scale."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from usnrt.distributions.parametric import StudentT
from usnrt.utils.types import Floats

MAX_POINTS = 400  # number of kernels; more residuals are averaged in groups of neighbours
FEW = 10  # with fewer residuals only a scale is estimated
FEW_DF = 5.0
DF_GRID = np.array([3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 200.0])
BANDWIDTHS = (0.25, 0.4, 0.6, 0.8, 1.0, 1.3, 1.7, 2.2)  # times Silverman's bandwidth
KERNEL_SHARES = np.array([0.2, 0.5, 0.8, 0.9, 0.95, 0.99])
REACH = 4.0  # range of the knots on the normal scale; Pareto tails beyond
ATOM_SHARE = 0.1  # minimal share of a repeated value that is treated as a point mass ...
ATOM_WIDTH = 1e-3  # ... represented by a triangle of this half width, in units of the scale of the others
EM_ITERATIONS = 60
SQRT_2PI: float = float(np.sqrt(2.0 * np.pi))


class Estimate(NamedTuple):
    """Parameters of a `ResidualDistribution`."""

    knots: Floats
    density: Floats
    tail_mass: Floats
    tail_index: Floats


class _Continuous(NamedTuple):
    """The continuous part: density at knots, tail masses, degrees of freedom and scale of its Student-t."""

    knots: Floats
    density: Floats
    tails: Floats
    df: float
    unit: float


def fit_residual_distribution(residuals: ArrayLike, weights: ArrayLike | None = None) -> Estimate:
    """Estimate the parameters of a `ResidualDistribution`: knots, density, tail masses and tail indices.

    A Student-t is fitted. On the scale where it is standard normal, it is corrected by a kernel density with locally
    adapted bandwidths (Abramson); bandwidth and share of the correction maximise the leave-one-out likelihood. The
    tails have the index of the Student-t.

    On nine kinds of simulated residuals (normal, t3, gamma, lognormal, Laplace, bimodal, zero-inflated, spiked,
    contaminated) of 20 to 5000 rows it had the smallest loss of held-out log score against the truth: at 300 rows 0.016
    on average, compared to 0.047 for a quantile histogram, 0.26 for a Student-t, 0.35 for a plain kernel density and
    0.54 for a normal. Its CRPS was at most 0.1 % above that of the empirical distribution.

    A value that makes up a tenth of the residuals (zero-inflated targets) becomes a narrow triangle of the same mass.
    From fewer than 10 residuals only a scale around 0 is estimated, with the tails of a Student-t with 5 degrees of
    freedom.
    """
    values, mass = _check(residuals, weights)
    (atoms, atom_mass), (rest, rest_mass) = _split_atoms(values, mass)
    n_effective = rest_mass.sum() ** 2 / (rest_mass**2).sum() if rest.size else 0.0
    if n_effective >= FEW:
        fit = _kernel_corrected_t(rest, rest_mass / rest_mass.sum(), n_effective, atoms)
    else:
        unit = float(np.sqrt(np.average(values**2, weights=mass))) or 1.0
        levels = ndtr(np.linspace(-REACH, REACH, 161))
        student = StudentT(FEW_DF, 0.0, unit)
        knots = student.ppf(levels)[0]
        fit = _Continuous(knots, student.pdf(knots[None, :])[0], levels[[0, 0]], FEW_DF, unit)
    # The continuous part keeps some mass even if all observed values are repeated.
    share = max(1.0 - atom_mass.sum(), 1.0 / (1.0 + values.size))
    width = max(ATOM_WIDTH * fit.unit, 1e-9 * float(np.abs(atoms).max(initial=0.0)))
    knots, density = _add_atoms(fit.knots, share * fit.density, atoms, (1.0 - share) * _unit_sum(atom_mass), width)
    # The density between values of very different magnitude may underflow.
    density, tails = np.maximum(density, 1e-200 / fit.unit), np.maximum(share * fit.tails, 1e-200)
    return Estimate(knots, density, tails, np.full(2, 1.0 / fit.df))


def _check(residuals: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    """Residuals in increasing order with weights that sum to 1."""
    values = np.asarray(residuals, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"residuals must have shape (n,) with n >= 1, got {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("residuals must be finite, but they contain NaN or infinity")
    mass = np.ones(values.size) if weights is None else np.asarray(weights, dtype=np.float64)
    if mass.shape != values.shape:
        raise ValueError(f"weights must have shape {values.shape}, got {mass.shape}")
    if not (np.isfinite(mass).all() and (mass > 0).all()):
        raise ValueError("weights must be finite and positive, but some are not")
    values = np.where(np.abs(values) < 1e-100, 0.0, values)  # their squares would underflow
    order = np.argsort(values, kind="stable")
    return values[order], mass[order] / mass.sum()


def _split_atoms(values: Floats, mass: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Repeated values, treated as point masses, and the others, each with their masses."""
    distinct, index, count = np.unique(values, return_inverse=True, return_counts=True)
    shares = np.bincount(index, mass).astype(np.float64)
    atom = (count >= 3) & (shares >= ATOM_SHARE)
    others = ~atom[index]
    return (distinct[atom], shares[atom]), (values[others], mass[others])


def _kernel_corrected_t(values: Floats, mass: Floats, n: float, cover: Floats) -> _Continuous:
    """A Student-t that is corrected by a kernel density."""
    points, share, residual_mass = _group(values, mass)
    df, loc, scale = _fit_t(points, share)
    student = StudentT(df, loc, scale)
    u = _to_normal(points, df, loc, scale)
    center, spread = _median(u, share), 0.0
    for low, high in ((0.25, 0.75), (0.05, 0.95)):
        spread = max(spread, (_quantile(u, share, high) - _quantile(u, share, low)) / (ndtri(high) - ndtri(low)))
    silverman = 0.9 * max(min(spread, 1.0), 0.05) * n**-0.2
    width, kernel_share = _choose_bandwidth(u, share, residual_mass, silverman)

    ends = _to_normal(cover, df, loc, scale) if cover.size else np.zeros(1)
    reach = max(REACH, abs(center) + 1.0, np.abs(u[[0, -1]]).max() + 0.5, np.abs(ends).max() + 0.5)
    grid = np.arange(-reach, reach + 0.025, 0.05)
    knots = student.ppf(ndtr(np.minimum(grid, 0.0)))[0]
    knots = np.where(grid > 0, 2.0 * loc - knots[::-1], knots)
    knots = _well_apart(np.concatenate([knots, points]), 1e-9 * scale)

    at = _to_normal(knots, df, loc, scale)
    ratio = kernel_share * _kernel(at, u, share, width) / _phi(at) + (1.0 - kernel_share)
    density = ratio * student.pdf(knots[None, :])[0]
    sides = np.array([at[0], -at[-1]])
    kernel_tails = [(share * ndtr((side - sign * u) / width)).sum() for side, sign in zip(sides, (1.0, -1.0))]
    tails = kernel_share * np.array(kernel_tails) + (1.0 - kernel_share) * ndtr(sides)
    return _Continuous(knots, density, tails, df, scale)


def _group(values: Floats, mass: Floats) -> tuple[Floats, Floats, Floats]:
    """Average neighbouring values into at most MAX_POINTS points: means, masses, and mean mass per residual."""
    if values.size <= MAX_POINTS:
        return values, mass, mass
    group = np.minimum((np.cumsum(mass) * MAX_POINTS).astype(int), MAX_POINTS - 1)
    group = np.unique(group, return_inverse=True)[1]
    total, count = np.bincount(group, mass).astype(np.float64), np.bincount(group)
    return np.bincount(group, mass * values) / total, total, total / count


def _fit_t(x: Floats, share: Floats) -> tuple[float, float, float]:
    """Student-t by maximum likelihood: EM for all degrees of freedom of the grid at once, then the best of them."""
    df = DF_GRID[:, None]
    loc = np.full(df.shape, _median(x, share))
    smallest = 1e-4 * np.abs(x - loc[0]).max()
    quartiles = _quantile(x, share, 0.75) - _quantile(x, share, 0.25)
    scale = np.full(df.shape, max(quartiles / 1.35, smallest))
    for _ in range(EM_ITERATIONS):
        z = (x - loc) / scale
        weight = share * (df + 1.0) / (df + z * z)
        total = weight.sum(axis=1, keepdims=True)
        loc = (weight * x).sum(axis=1, keepdims=True) / total
        squares = (weight * (x - loc) ** 2).sum(axis=1, keepdims=True)
        scale = np.maximum(np.sqrt(squares / total), smallest)
    likelihood = (share * StudentT.formula_logpdf(x, df, loc, scale)).sum(axis=1)
    best = int(np.argmax(likelihood))
    return float(DF_GRID[best]), float(loc[best, 0]), float(scale[best, 0])


def _to_normal(x: Floats, df: float, loc: float, scale: float) -> Floats:
    """Transform to the scale on which the fitted Student-t is standard normal, with the precision of the lower tail."""
    one, zero = np.ones(()), np.zeros(())
    z = (x - loc) / scale
    tail = StudentT.formula_cdf(-np.abs(z), np.asarray(df), zero, one)
    normal: Floats = np.where(z < 0, 1.0, -1.0) * ndtri(np.maximum(tail, 1e-300))
    return normal


def _choose_bandwidth(u: Floats, share: Floats, residual_mass: Floats, silverman: float) -> tuple[Floats, float]:
    """Bandwidth of each point and share of the kernel density, by leave-one-out likelihood."""
    pilot = np.log(_kernel(u, u, share, np.full(u.shape, silverman)))
    local = np.exp(-0.5 * (pilot - (share * pilot).sum())).clip(0.05, 3.0)
    # In the tails the Student-t scale is stretched so much that a wide kernel would dominate the variance.
    widest = 1.0 / np.maximum(np.abs(u), 1.0)
    normal = _phi(u)
    best = (-np.inf, local, 0.0)
    for factor in BANDWIDTHS:
        width = np.minimum(factor * silverman * local, widest)
        others = np.maximum(_kernel(u, u, share, width) - residual_mass / (width * SQRT_2PI), 0.0) / (
            1.0 - residual_mass
        )
        mixture = KERNEL_SHARES[:, None] * others + (1.0 - KERNEL_SHARES[:, None]) * normal
        likelihood = (share * np.log(mixture)).sum(axis=1)
        k = int(np.argmax(likelihood))
        if likelihood[k] > best[0]:
            best = (float(likelihood[k]), width, float(KERNEL_SHARES[k]))
    return best[1], best[2]


def _kernel(at: Floats, points: Floats, share: Floats, width: Floats) -> Floats:
    z = (at[:, None] - points) / width
    with np.errstate(under="ignore"):
        # Not a matrix product: its rounding depends on the number of BLAS threads.
        density: Floats = (np.exp(-0.5 * z * z) * (share / (width * SQRT_2PI))).sum(axis=1)
    return density


def _add_atoms(knots: Floats, density: Floats, atoms: Floats, atom_mass: Floats, width: float) -> tuple[Floats, Floats]:
    if atoms.size == 0:
        return knots, density
    corners = (atoms[:, None] + width * np.array([-1.0, 0.0, 1.0])).ravel()
    apart = np.abs(knots[:, None] - corners).min(axis=1) > 1e-3 * width
    merged = _well_apart(np.concatenate([knots[apart], corners]), 1e-6 * width)
    total = np.interp(merged, knots, density)
    for atom, mass in zip(atoms, atom_mass):
        total += mass / width * np.maximum(1.0 - np.abs(merged - atom) / width, 0.0)
    return merged, total


def _well_apart(knots: Floats, gap: float) -> Floats:
    """Distinct knots in increasing order, without those closer than ``gap`` to the previous one."""
    ordered = np.unique(knots)
    kept: Floats = ordered[np.concatenate([[True], np.diff(ordered) > gap])]
    return kept


def _phi(u: Floats) -> Floats:
    density: Floats = np.exp(-0.5 * u * u) / SQRT_2PI
    return density


def _quantile(x: Floats, share: Floats, level: float) -> float:
    return float(np.interp(level, np.cumsum(share) - 0.5 * share, x))


def _median(x: Floats, share: Floats) -> float:
    return _quantile(x, share, 0.5)


def _unit_sum(mass: Floats) -> Floats:
    return mass / mass.sum() if mass.size else mass
