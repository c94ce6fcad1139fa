"""Convex combinations of experts' quantile functions, with weights per region chosen by validation rows.

The combination averages quantiles, not distribution functions, so it is not wider than its experts.
"""

import itertools
from collections.abc import Sequence
from math import comb

import numpy as np
from numpy.typing import NDArray

from usnrt.experts.refine import best_candidates, pinball_losses
from usnrt.utils.types import Floats

# Positions of the experts that are trained together.
NETWORK, GUIDED, MEMORY = range(3)
# Weights are multiples of 1 / STEPS, of a larger share if there are more combinations than MAX_CANDIDATES.
STEPS, MAX_CANDIDATES = 10, 300
# The loss over the whole table counts as much as this many effective rows of a region.
PRIOR_ROWS = 300.0
# The memory is used only if the best combination for the whole table is better than the network by this many standard
# errors of the mean: it is the best of many, and with heavy-tailed targets a few validation rows decide. Where nearly
# all rows have a twin, nearly all losses fall to 0, but the few that remain have a standard error as large as the gain:
# there signed ranks decide, if the gain is this share of the loss.
MIN_STANDARD_ERRORS, MIN_GAIN_BY_RANKS = 3.0, 0.1


def candidate_weights(max_weights: Sequence[float]) -> Floats:
    """All combinations of weights that are tried, the second expert alone first.

    Parameters
    ----------
    max_weights : sequence of k floats
        The largest weight of each expert.

    Returns
    -------
    ndarray of shape (n_candidates, k)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.experts.weights import candidate_weights
    >>> weights = candidate_weights([1.0, 1.0, 0.9])
    >>> weights.shape, weights[0], bool(np.allclose(weights.sum(axis=1), 1.0))
    ((65, 3), array([0., 1., 0.]), True)
    >>> candidate_weights([1.0] * 5).shape
    (126, 5)
    """
    k = len(max_weights)
    steps = next((steps for steps in (STEPS, 5, 4) if comb(steps + k - 1, k - 1) <= MAX_CANDIDATES), 2)
    shares = itertools.product(range(steps + 1), repeat=k - 1)
    weights = np.array([[*own, steps - sum(own)] for own in shares if sum(own) <= steps]) / steps
    weights = weights[(weights <= max_weights).all(axis=1)]
    return weights[np.argsort(-weights[:, min(GUIDED, k - 1)], kind="stable")]


def fit_weights(
    quantiles: Floats,
    leaf: NDArray[np.int64],
    y: Floats,
    weight: Floats,
    n_leaves: int,
    max_weights: Sequence[float] | None = None,
) -> Floats:
    """Weights of the experts in each region, by the pinball loss of validation rows.

    The first expert, the network, has all the weight if no combination is significantly better for the whole table.

    Parameters
    ----------
    quantiles : ndarray of shape (k, n, n_positions)
        Quantile functions of the experts.
    leaf : ndarray of int of shape (n,)
        Region of each row, counted from 0.
    y, weight : ndarray of shape (n,)
    n_leaves : int
    max_weights : sequence of k floats, optional
        The largest weight of each expert; 1 for all by default.

    Returns
    -------
    ndarray of shape (n_leaves, k)
        Each row sums to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.quantiles import POSITIONS
    >>> from usnrt.experts.weights import fit_weights
    >>> good, bad = np.tile(POSITIONS, (50, 1)), np.tile(POSITIONS + 5.0, (50, 1))
    >>> fit_weights(np.stack([good, bad, bad]), np.zeros(50, dtype=int), np.zeros(50), np.ones(50), n_leaves=1)
    array([[1., 0., 0.]])
    """
    candidates = candidate_weights([1.0] * len(quantiles) if max_weights is None else max_weights)
    losses = np.array([pinball_losses(combined(quantiles, shares[None]), y) for shares in candidates])
    alone = np.eye(len(quantiles))[NETWORK]
    best = np.argmin(losses @ weight)
    if not _is_better(losses[best], pinball_losses(quantiles[NETWORK], y), weight):
        return np.tile(alone, (n_leaves, 1))
    return candidates[best_candidates(losses, leaf, weight, n_leaves, PRIOR_ROWS)]


def _is_better(losses: Floats, others: Floats, weight: Floats) -> bool:
    """Whether losses are significantly smaller than others of the same rows."""
    difference = losses - others
    mean = float(np.average(difference, weights=weight))
    # the variance of a weighted mean
    variance = float((weight**2) @ (difference - mean) ** 2) / float(weight.sum()) ** 2
    if mean < -MIN_STANDARD_ERRORS * np.sqrt(variance):
        return True
    from scipy.stats import rankdata  # takes longer to import than a prediction, which needs `mixtures` of this module

    # Wilcoxon's signed-rank statistic, standard normal if the differences are symmetric around 0
    signed = weight * np.sign(difference) * rankdata(np.abs(difference))
    is_large = mean < -MIN_GAIN_BY_RANKS * float(np.average(others, weights=weight))
    return bool(is_large and signed.sum() < -MIN_STANDARD_ERRORS * np.sqrt((signed**2).sum()))


def combined(quantiles: Floats, weights: Floats) -> Floats:
    """Weighted average of the experts' quantile functions.

    Parameters
    ----------
    quantiles : ndarray of shape (k, n, n_positions)
    weights : ndarray of shape (n, k) or (1, k)

    Returns
    -------
    ndarray of shape (n, n_positions)
    """
    # Not a matrix product, whose bits depend on the other rows.
    average: Floats = sum(weights[:, expert, None] * quantiles[expert] for expert in range(len(quantiles)))
    return average
