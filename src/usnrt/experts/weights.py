"""Convex combinations of experts' quantile functions, with weights per region chosen by validation rows.

The combination averages quantiles, not distribution functions, so it is not wider than its experts.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usnrt.experts.base import MIN_STANDARD_ERRORS
from usnrt.experts.refine import best_candidates, pinball_losses
from usnrt.nn.quantiles import LEVELS, SHARES
from usnrt.utils.types import Floats

# Positions of the experts that are trained together.
NETWORK, GUIDED, MEMORY = range(3)
# Weights are multiples of 1 / STEPS, of a larger share if there are more combinations than MAX_CANDIDATES.
STEPS, MAX_CANDIDATES = 10, 300
# Experts that need no more standard errors than this are simple; they are combined with the network first.
FEW_ERRORS = 1.0
# The smallest share of the loss by which a combination must be better: more than rounding.
MIN_GAIN = 1e-6
# Weight of the experts that may predict distributions without width, together. Where most rows have twins, the others
# are many widths away, and the mean depends on such tails: with 0.98 for the memory alone (instead of 0.9) Real-time
# had an RMSE of 18 instead of 4.6, with 0.98 for memory and forest one of 2.3, since they rarely agree on an error.
MAX_NARROW = 0.98
# The loss over the whole table counts as much as this many effective rows of a region.
PRIOR_ROWS = 300.0
# The memory is used only if the best combination for the whole table is better than the network by this many standard
# errors of the mean: it is the best of many, and with heavy-tailed targets a few validation rows decide. Where nearly
# all rows have a twin, nearly all losses fall to 0, but the few that remain have a standard error as large as the gain:
# there signed ranks decide, if the gain is this share of the loss.
MIN_GAIN_BY_RANKS = 0.1


def candidate_weights(max_weights: Sequence[float], first: int = NETWORK) -> Floats:
    """All combinations of weights that are tried, one expert alone first.

    Parameters
    ----------
    max_weights : sequence of k floats
        The largest weight of each expert. Those of experts that may predict distributions without width are below 1;
        together they have at most `MAX_NARROW`.
    first : int, default=0
        The expert that is alone in the first combination.

    Returns
    -------
    ndarray of shape (n_candidates, k)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.experts.weights import candidate_weights
    >>> weights = candidate_weights([1.0, 1.0, 0.9], first=1)
    >>> weights.shape, weights[0], bool(np.allclose(weights.sum(axis=1), 1.0))
    ((65, 3), array([0., 1., 0.]), True)
    >>> candidate_weights([1.0, 0.9, 0.9])[-1].round(2)
    array([0.02, 0.88, 0.1 ])
    """
    k = len(max_weights)
    steps = next((steps for steps in (STEPS, 5, 4) if comb(steps + k - 1, k - 1) <= MAX_CANDIDATES), 2)
    shares = itertools.product(range(steps + 1), repeat=k - 1)
    weights = np.array([[*own, steps - sum(own)] for own in shares if sum(own) <= steps]) / steps
    weights = weights[(weights <= max_weights).all(axis=1)]
    is_narrow = np.asarray(max_weights) < 1.0
    together = weights[:, is_narrow].sum(axis=1)
    too_narrow = np.flatnonzero(together > MAX_NARROW)
    weights[too_narrow] *= MAX_NARROW / together[too_narrow, None]
    weights[too_narrow, first] += 1.0 - MAX_NARROW
    return weights[np.argsort(-weights[:, first], kind="stable")]


@dataclass(frozen=True)
class Traits:
    """What the choice of weights knows of an expert.

    Attributes
    ----------
    max_weight : float
        The largest weight that it may have in a region.
    min_errors : float
        Standard errors by which combinations with it must be better; for the first expert without meaning.
    together : bool
        Whether it is trained together with the first one.
    min_gain : float
        Share of the loss by which combinations with it must be better.
    """

    max_weight: float = 1.0
    min_errors: float = MIN_STANDARD_ERRORS
    together: bool = True
    min_gain: float = MIN_GAIN


def fit_weights(
    quantiles: Floats,
    leaf: NDArray[np.int64],
    y: Floats,
    weight: Floats,
    n_leaves: int,
    traits: Sequence[Traits] | None = None,
) -> Floats:
    """Weights of the experts in each region, by the pinball loss of validation rows.

    The first expert, the network, has all the weight if no combination is significantly better for the whole table.
    Experts that need less evidence come next, then those that are trained together, then all: each time the best
    combination must be significantly better for the whole table than the best one before, or leaves it as it is.

    Parameters
    ----------
    quantiles : ndarray of shape (k, n, n_positions)
        Quantile functions of the experts.
    leaf : ndarray of int of shape (n,)
        Region of each row, counted from 0.
    y, weight : ndarray of shape (n,)
    n_leaves : int
    traits : sequence of k Traits, optional
        By default the experts are trained together and may have any weight.

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
    k = len(quantiles)
    traits = [Traits()] * k if traits is None else traits
    least, weights = pinball_losses(quantiles[NETWORK], y), np.tile(np.eye(k)[NETWORK], (n_leaves, 1))
    for stage in _stages(traits):
        members = stage.members
        candidates = candidate_weights([traits[expert].max_weight for expert in members], _reference(traits, members))
        losses = losses_of(quantiles[members], candidates, y)
        best = losses[np.argmin(losses @ weight)]
        if _is_better(best, least, weight, stage.min_errors, stage.min_gain):
            least, weights = best, np.zeros((n_leaves, k))
            weights[:, members] = candidates[best_candidates(losses, leaf, weight, n_leaves, PRIOR_ROWS)]
    return weights


def is_promising(quantiles: Floats, y: Floats, weight: Floats, traits: Sequence[Traits], min_gain: float = 0.0) -> bool:
    """Whether the last expert reduces the loss of the best combination of the others.

    Parameters
    ----------
    quantiles : ndarray of shape (k, n, n_positions)
        Quantile functions of the experts.
    y, weight : ndarray of shape (n,)
    traits : sequence of k Traits
    min_gain : float, default=0
        By more than this share.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.experts.weights import Traits, is_promising
    >>> from usnrt.nn.quantiles import POSITIONS
    >>> wide, narrow = np.tile(POSITIONS, (50, 1)), np.tile(0.1 * POSITIONS, (50, 1))
    >>> [is_promising(np.stack(both), np.zeros(50), np.ones(50), [Traits()] * 2)
    ...  for both in ((wide, narrow), (narrow, wide))]
    [True, False]
    """
    candidates = candidate_weights([own.max_weight for own in traits])
    losses = losses_of(quantiles, candidates, y) @ weight
    others = losses[candidates[:, -1] == 0.0].min()
    return bool(losses.min() < (1.0 - min_gain) * others)


def losses_of(quantiles: Floats, candidates: Floats, y: Floats) -> Floats:
    """Pinball losses of combinations of experts.

    Parameters
    ----------
    quantiles : ndarray of shape (k, n, n_positions)
    candidates : ndarray of shape (n_candidates, k)
        Their weights.
    y : ndarray of shape (n,)

    Returns
    -------
    ndarray of shape (n_candidates, n)
    """
    from usnrt.experts._weights_kernel import candidate_losses

    losses = np.empty((len(candidates), len(y)))
    candidate_losses(np.ascontiguousarray(quantiles), candidates, y, LEVELS, SHARES, losses)
    return losses


class _Stage(NamedTuple):
    """Experts that are combined, and how much better the best combination must be than the best one before."""

    members: list[int]
    min_errors: float
    min_gain: float


def _stages(traits: Sequence[Traits]) -> list[_Stage]:
    """Which experts are combined, one set after the other; what the most demanding one needs decides."""
    others = range(1, len(traits))
    together = [expert for expert in others if traits[expert].together]
    apart = [expert for expert in others if not traits[expert].together]
    simple = [expert for expert in apart if traits[expert].min_errors <= FEW_ERRORS]
    stages = [(simple, min((traits[expert].min_errors for expert in simple), default=0.0))]
    stages.append((together, MIN_STANDARD_ERRORS))
    for level in sorted({traits[expert].min_errors for expert in apart} - {stages[0][1]}) or [MIN_STANDARD_ERRORS]:
        stages.append(([*together, *(expert for expert in apart if traits[expert].min_errors <= level)], level))
    found: list[_Stage] = []
    for members, min_errors in stages:
        gain = max((traits[expert].min_gain for expert in members), default=MIN_GAIN)
        stage = _Stage([0, *sorted(members)], min_errors, gain)
        if members and stage.members not in [other.members for other in found]:
            found.append(stage)
    return found


def _reference(traits: Sequence[Traits], members: list[int]) -> int:
    """The expert that the others are compared with in each region: the guided network, else the first."""
    return GUIDED if len(members) > MEMORY and traits[members[GUIDED]].together else NETWORK


def _is_better(
    losses: Floats,
    others: Floats,
    weight: Floats,
    min_errors: float = MIN_STANDARD_ERRORS,
    min_gain: float = MIN_GAIN,
) -> bool:
    """Whether losses are significantly smaller than others of the same rows."""
    difference = losses - others
    mean = float(np.average(difference, weights=weight))
    # the variance of a weighted mean
    variance = float((weight**2) @ (difference - mean) ** 2) / float(weight.sum()) ** 2
    if mean > -min_gain * float(np.average(others, weights=weight)):
        return False
    if mean < -min_errors * np.sqrt(variance):
        return True
    from scipy.stats import rankdata  # takes longer to import than a prediction, which needs `mixtures` of this module

    # Wilcoxon's signed-rank statistic, standard normal if the differences are symmetric around 0
    signed = weight * np.sign(difference) * rankdata(np.abs(difference))
    is_large = mean < -MIN_GAIN_BY_RANKS * float(np.average(others, weights=weight))
    return bool(is_large and signed.sum() < -min_errors * np.sqrt((signed**2).sum()))


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
