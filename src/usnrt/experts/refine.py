"""Refinement of predicted quantile functions, per region, by validation rows and without training.

Both the mean network and the quantile network estimate the location of a row's distribution; shifting the quantile
function towards the predicted mean combines the two estimates. And a quantile network, being a smooth function, blurs
jumps of the noise at the boundaries of regions; shrinking the half widths of quantile functions towards the typical one
of their region reduces this. The amount of both is chosen per region by the pinball loss of validation rows.

Quantile functions end where the targets of the training rows end, and once their range beyond: a network whose scale
explodes on an unusual row then cannot predict what nothing supports.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.quantiles import LEVELS, MEAN_WEIGHTS, MEDIAN, POSITIONS, SHARES, quantile_function_mean
from usnrt.utils.threads import run_in_blocks
from usnrt.utils.types import Floats

# Candidate shares. The first of equally good ones is chosen, so 0 (no change) comes first.
SHARES_TRIED = np.linspace(0.0, 1.0, 5)
# Pseudo-count of the prior: the loss over the whole table counts as much as this many effective rows of a region.
PRIOR_ROWS = 50.0
# Ends of quantile functions that were not fitted: what a model of a scaled target may hold.
LARGEST = 1e9

_LOW, _HIGH = (int(np.argmin(np.abs(POSITIONS - z))) for z in (-1.0, 1.0))


@dataclass(frozen=True)
class Refinement:
    """Per region, how far quantile functions are moved to the region's half width and to the predicted mean.

    Attributes
    ----------
    spread_share : ndarray of shape (n_leaves,)
        0 keeps a row's log half width, 1 replaces it with `log_half_width`; linear between.
    log_half_width : ndarray of shape (n_leaves,)
        Mean logarithm of the half widths in the region.
    location_share : ndarray of shape (n_leaves,)
        0 keeps the mean of a row's quantile function, 1 shifts it to the predicted mean; linear between.
    low, high : float
        Ends of quantile functions, see `ends_of`.
    """

    spread_share: Floats
    log_half_width: Floats
    location_share: Floats
    low: float = -LARGEST
    high: float = LARGEST

    @classmethod
    def fit(
        cls,
        leaf: NDArray[np.int64],
        mean: Floats,
        quantiles: Floats,
        y: Floats,
        weight: Floats,
        n_leaves: int,
        ends: tuple[float, float] = (-LARGEST, LARGEST),
    ) -> "Refinement":
        """Choose the shares by the pinball loss of validation rows.

        Parameters
        ----------
        leaf : ndarray of int of shape (n,)
            Region of each row, counted from 0.
        mean : ndarray of shape (n,)
            Predicted means.
        quantiles : ndarray of shape (n, n_positions)
            Predicted quantile functions.
        y, weight : ndarray of shape (n,)
        n_leaves : int
        ends : pair of float, optional
            Of quantile functions, see `ends_of`.

        Returns
        -------
        Refinement
        """
        unchanged = np.zeros(n_leaves)
        log_width = np.log(half_widths(quantiles))
        typical = _group_means(log_width, leaf, weight, n_leaves)

        def choose(refined: Callable[[Floats], Floats]) -> Floats:
            losses = np.array([pinball_losses(refined(np.full(n_leaves, share)), y) for share in SHARES_TRIED])
            return SHARES_TRIED[best_candidates(losses, leaf, weight, n_leaves, PRIOR_ROWS)]

        location = choose(lambda share: cls(unchanged, typical, share, *ends).apply(leaf, mean, quantiles))
        spread = choose(lambda share: cls(share, typical, location, *ends).apply(leaf, mean, quantiles))
        return cls(spread, typical, location, *ends)

    def apply(self, leaf: NDArray[np.int64], mean: Floats, quantiles: Floats) -> Floats:
        """Refined quantile functions of rows.

        Parameters
        ----------
        leaf : ndarray of int of shape (n,)
        mean : ndarray of shape (n,)
        quantiles : ndarray of shape (n, n_positions)

        Returns
        -------
        ndarray of shape (n, n_positions)

        Examples
        --------
        >>> import numpy as np
        >>> from usnrt.nn.quantiles import POSITIONS, quantile_function_mean
        >>> from usnrt.experts.refine import Refinement, half_widths
        >>> refinement = Refinement(np.array([1.0]), np.array([np.log(3.0)]), np.array([0.5]))
        >>> refined = refinement.apply(np.array([0]), np.array([4.0]), 2.0 * POSITIONS[None, :])
        >>> half_widths(refined).round(6), quantile_function_mean(refined).round(6)
        (array([3.]), array([2.]))
        """
        stretch = np.exp(self.spread_share[leaf] * (self.log_half_width[leaf] - np.log(half_widths(quantiles))))
        median = quantiles[:, [MEDIAN]]
        stretched = median + stretch[:, None] * (quantiles - median)
        shift = self.location_share[leaf] * (mean - quantile_function_mean(stretched))
        return np.clip(stretched + shift[:, None], self.low, self.high)


def ends_of(y: Floats) -> tuple[float, float]:
    """Where quantile functions end, given the scaled targets of the training rows.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.experts.refine import ends_of
    >>> ends_of(np.array([-1.0, 0.5, 2.0]))
    (-4.0, 5.0)
    """
    low, high = float(y.min()), float(y.max())
    reach = max(high - low, 1.0)
    return low - reach, high + reach


def blend_and_refine(
    leaf: NDArray[np.int64],
    mean: Floats,
    quantiles: Floats,
    blend: float,
    refinement: Refinement,
    n_threads: int = 1,
) -> None:
    """Blend means with those of the quantile functions, then refine the quantile functions, all in place.

    Parameters
    ----------
    leaf : ndarray of int of shape (n,)
    mean : ndarray of shape (n,)
        Becomes ``mean + blend * (quantile_function_mean(quantiles) - mean)``.
    quantiles : ndarray of shape (n, n_positions), in C order
        Become ``refinement.apply(leaf, mean, quantiles)`` with the new means.
    blend : float
    refinement : Refinement
    n_threads : int, default=1
    """
    from usnrt.nn._quantile_kernels import refine_quantiles

    def refine(start: int, stop: int) -> None:
        refine_quantiles(
            leaf[start:stop], mean[start:stop], quantiles[start:stop], MEAN_WEIGHTS, blend, _LOW, _HIGH, MEDIAN,
            refinement.spread_share, refinement.log_half_width, refinement.location_share,
            refinement.low, refinement.high,
        )  # fmt: skip

    run_in_blocks(refine, len(quantiles), n_threads)


def half_widths(quantiles: Floats) -> Floats:
    """Half of the distance between the quantiles at -1 and 1 of the normal scale, shape (n,); always positive."""
    return np.maximum((quantiles[:, _HIGH] - quantiles[:, _LOW]) / 2.0, 1e-30)


def pinball_losses(quantiles: Floats, y: Floats) -> Floats:
    """Pinball loss of each row over all its quantiles, shape (n,); what quantile networks minimise."""
    distance = y[:, None] - quantiles
    losses: Floats = (SHARES * np.maximum(LEVELS * distance, (LEVELS - 1.0) * distance)).sum(axis=1)
    return losses


def best_candidates(
    losses: Floats, leaf: NDArray[np.int64], weight: Floats, n_leaves: int, prior_rows: float
) -> NDArray[np.int64]:
    """The candidate with the smallest loss in each region, shrunk towards the best one for the whole table.

    Losses are relative to those of the first candidate, so that regions with much noise do not dominate the prior.

    Parameters
    ----------
    losses : ndarray of shape (n_candidates, n)
    leaf : ndarray of int of shape (n,)
        Region of each row, counted from 0.
    weight : ndarray of shape (n,)
    n_leaves : int
    prior_rows : float
        The loss over the whole table counts as much as this many effective rows of a region, (sum w)^2 / sum w^2.

    Returns
    -------
    ndarray of int of shape (n_leaves,)
    """
    sums = np.array([np.bincount(leaf, weights=weight * loss, minlength=n_leaves) for loss in losses])
    relative = sums / np.maximum(sums[0], 1e-300)
    totals, squares = (np.bincount(leaf, weights=w, minlength=n_leaves) for w in (weight, weight**2))
    counts = totals**2 / np.maximum(squares, 1e-300)
    overall = (relative * counts).sum(axis=1) / counts.sum()
    best: NDArray[np.int64] = np.argmin(counts * relative + prior_rows * overall[:, None], axis=0)
    return best


def _group_means(values: Floats, leaf: NDArray[np.int64], weight: Floats, n_leaves: int) -> Floats:
    """Weighted mean of each region; the mean of all rows for regions without rows."""
    counts = np.bincount(leaf, weights=weight, minlength=n_leaves)
    sums = np.bincount(leaf, weights=weight * values, minlength=n_leaves)
    overall = np.average(values, weights=weight)
    return np.where(counts > 0, sums / np.maximum(counts, 1e-300), overall)
