"""Increasing member_quantiles of straight pieces, one a row: the value at a position and the position of a value."""

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.quantiles import POSITIONS
from usnrt.utils.types import Floats


def value_at(knots: Floats, positions: Floats, z: Floats) -> Floats:
    """Height of each row's quantiles at ``z``; the outer pieces go on to both infinities.

    Parameters
    ----------
    knots : ndarray of shape (n, J)
        Heights at the positions, each row non-decreasing.
    positions : ndarray of shape (J,)
        Increasing, the same for all rows; J >= 2.
    z : ndarray of shape (k,) or (n, k)
        The same positions for all rows, or each row its own.

    Returns
    -------
    ndarray of shape (n, k)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.quantile_functions import position_of, value_at
    >>> knots, positions = np.array([[0.0, 1.0, 5.0]]), np.array([-1.0, 0.0, 2.0])
    >>> value_at(knots, positions, np.array([-2.0, -0.5, 1.0, 3.0]))
    array([[-1. ,  0.5,  3. ,  7. ]])
    >>> z, log_slope = position_of(knots, positions, np.array([[-1.0, 7.0]]))
    >>> z, np.exp(log_slope)
    (array([[-2.,  3.]]), array([[1. , 0.5]]))
    """
    piece = np.searchsorted(positions[1:-1], z, side="right")
    with np.errstate(over="ignore"):
        part = (z - positions[piece]) / np.diff(positions)[piece]
        if z.ndim == 1:
            return knots[:, piece] + piece_widths(knots)[:, piece] * part
        start, width = _gather(knots, piece), _gather(piece_widths(knots), piece)
        return start + width * part


def position_of(knots: Floats, positions: Floats, y: Floats, side: str = "right") -> tuple[Floats, Floats]:
    """Where each row's quantiles has the height ``y``, and the logarithm of its slope seen from there.

    Parameters
    ----------
    knots : ndarray of shape (n, J)
        Heights at the positions, each row non-decreasing.
    positions : ndarray of shape (J,)
        Increasing, the same for all rows; J >= 2.
    y : ndarray of shape (n, k)
    side : {"right", "left"}, default="right"
        Which end of a flat piece answers for its height, and which neighbour's slope counts at a knot.

    Returns
    -------
    z : ndarray of shape (n, k)
    log_slope : ndarray of shape (n, k)
        ``log dz/dy``, always finite: a flat piece counts as the least width there is.
    """
    piece = np.zeros(y.shape, dtype=np.intp)
    for knot in knots.T[1:-1, :, None]:
        piece += (knot <= y) if side == "right" else (knot < y)
    step, width = np.diff(positions)[piece], _gather(piece_widths(knots), piece)
    with np.errstate(over="ignore"):
        # First the division: step / width alone may overflow, and 0 * inf is no number.
        z = positions[piece] + (y - _gather(knots, piece)) / width * step
    return z, np.log(step) - np.log(width)


def piece_widths(knots: Floats) -> Floats:
    """Height that each piece climbs, shape (n, J - 1); never 0, so that it can divide, and never infinite."""
    limits = np.finfo(np.float64)
    with np.errstate(over="ignore"):
        return np.clip(np.diff(knots, axis=1), limits.tiny, limits.max)


def _gather(table: Floats, piece: NDArray[np.intp]) -> Floats:
    return np.take_along_axis(table, piece, axis=1)


def conformity_scores(quantiles: Floats, y: Floats) -> Floats:
    """Conformity scores: where targets fall among their rows' predicted quantiles, on the normal scale.

    Parameters
    ----------
    quantiles : ndarray of shape (n, n_positions)
        At `usnrt.nn.quantiles.POSITIONS`.
    y : ndarray of shape (n,)

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.quantile_functions import conformity_scores
    >>> from usnrt.nn.quantiles import POSITIONS
    >>> conformity_scores(5.0 + 2.0 * POSITIONS[None, :], np.array([9.0]))
    array([2.])
    """
    return position_of(quantiles, POSITIONS, y[:, None])[0][:, 0]
