"""Piecewise linear quantile functions, one per row: their values at positions of the normal scale, and the inverse."""

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.quantiles import POSITIONS
from usnrt.utils.threads import run_in_blocks
from usnrt.utils.types import Floats

LARGEST_SCORE = 1e100  # of conformity scores, whose squares are finite


def value_at(knots: Floats, positions: Floats, z: Floats) -> Floats:
    """Values of each row's quantile function at ``z``; the outer segments extend to infinity.

    Parameters
    ----------
    knots : ndarray of shape (n, J)
        Values at the positions, each row non-decreasing.
    positions : ndarray of shape (J,)
        Increasing, the same for all rows; J >= 2.
    z : ndarray of shape (k,) or (n, k)
        Positions shared by all rows, or per row.

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
    if z.ndim == 1:
        return group_values(knots, positions, z[None, :], np.zeros(len(knots), dtype=np.int64))
    from usnrt.nn._quantile_kernels import write_values

    values = np.empty(z.shape)
    write_values(np.ascontiguousarray(knots), positions, np.ascontiguousarray(z), values)
    return values


def group_values(knots: Floats, positions: Floats, z: Floats, group: NDArray[np.int64], n_threads: int = 1) -> Floats:
    """Values of each row's quantile function at the positions of its group.

    Parameters
    ----------
    knots : ndarray of shape (n, J)
    positions : ndarray of shape (J,)
    z : ndarray of shape (n_groups, k)
        Positions of each group.
    group : ndarray of int of shape (n,)

    Returns
    -------
    ndarray of shape (n, k)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.quantile_functions import group_values
    >>> knots, positions = np.array([[0.0, 1.0, 5.0], [0.0, 1.0, 2.0]]), np.array([-1.0, 0.0, 2.0])
    >>> group_values(knots, positions, np.array([[-0.5, 1.0], [0.0, 2.0]]), np.array([0, 1]))
    array([[0.5, 3. ],
           [1. , 2. ]])
    """
    from usnrt.nn._quantile_kernels import write_group_values

    segment = np.searchsorted(positions[1:-1], z, side="right")
    with np.errstate(over="ignore"):
        fraction = (z - positions[segment]) / np.diff(positions)[segment]
    knots, group = np.ascontiguousarray(knots), np.asarray(group, dtype=np.int64)
    values = np.empty((len(knots), z.shape[1]))

    def write(start: int, stop: int) -> None:
        write_group_values(knots[start:stop], group[start:stop], segment, fraction, values[start:stop])

    run_in_blocks(write, len(knots), n_threads)
    return values


def position_of(knots: Floats, positions: Floats, y: Floats, side: str = "right") -> tuple[Floats, Floats]:
    """Positions at which each row's quantile function has the values ``y``, and the log slopes of the inverse there.

    Parameters
    ----------
    knots : ndarray of shape (n, J)
        Values at the positions, each row non-decreasing.
    positions : ndarray of shape (J,)
        Increasing, the same for all rows; J >= 2.
    y : ndarray of shape (n, k)
    side : {"right", "left"}, default="right"
        Which end of a flat segment is returned, and the slope on which side of a knot.

    Returns
    -------
    z : ndarray of shape (n, k)
    log_slope : ndarray of shape (n, k)
        ``log dz/dy``, always finite: the height of a flat segment is replaced by the smallest positive float.
    """
    segment = np.zeros(y.shape, dtype=np.intp)
    for knot in knots.T[1:-1, :, None]:
        segment += (knot <= y) if side == "right" else (knot < y)
    step, height = np.diff(positions)[segment], _gather(segment_heights(knots), segment)
    with np.errstate(over="ignore"):
        # Division first: step / height alone may overflow, and 0 * inf is NaN.
        z = positions[segment] + (y - _gather(knots, segment)) / height * step
    return z, np.log(step) - np.log(height)


def segment_heights(knots: Floats) -> Floats:
    """Differences of adjacent knots, shape (n, J - 1), clipped to the positive finite floats."""
    limits = np.finfo(np.float64)
    with np.errstate(over="ignore"):
        return np.clip(np.diff(knots, axis=1), limits.tiny, limits.max)


def _gather(table: Floats, segment: NDArray[np.intp]) -> Floats:
    return np.take_along_axis(table, segment, axis=1)


def conformity_scores(quantiles: Floats, y: Floats) -> Floats:
    """Conformity scores: positions of targets in their predicted quantile functions, on the normal scale.

    They are finite, also where a quantile function is constant.

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
    return np.clip(position_of(quantiles, POSITIONS, y[:, None])[0][:, 0], -LARGEST_SCORE, LARGEST_SCORE)
