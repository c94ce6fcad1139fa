"""Partitions of embedded rows into cells of similar rows, by median splits."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.utils.types import Rows

POWER_ITERATIONS = 3


def median_cells(embedded: NDArray[Any], size: int, rng: np.random.Generator | None = None) -> list[Rows]:
    """Split rows at medians along one direction after the other until cells have at most ``size`` rows.

    Parameters
    ----------
    embedded : ndarray of shape (n, n_dims)
    size : int
        The largest number of rows of a cell; cells differ by at most one row.
    rng : numpy.random.Generator, optional
        With it, the direction is the difference of two random rows of the cell; without it, the principal direction.

    Returns
    -------
    list of ndarray of int
        Rows of each cell.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.memory.cells import median_cells
    >>> cells = median_cells(np.array([[0.0], [9.0], [1.0], [8.0]]), size=2)
    >>> sorted(sorted(cell.tolist()) for cell in cells)
    [[0, 2], [1, 3]]
    """
    cells: list[Rows] = [np.arange(len(embedded))]
    while max(len(cell) for cell in cells) > size:
        halves: list[Rows] = []
        for cell in cells:
            points = embedded[cell]
            along = points @ _direction(points, rng)
            order = cell[_order(along)]
            halves += [order[: len(cell) // 2], order[len(cell) // 2 :]]
        cells = halves
    return cells


def _order(values: NDArray[Any]) -> Rows:
    """Stable order of numbers in single precision, so that the partition of equal ones depends on no algorithm.

    Sorting integers that hold number and position takes a fifth of the time of a stable ``argsort``.
    """
    bits = (np.asarray(values, dtype=np.float32) + np.float32(0.0)).view(np.int32)  # no negative zero
    increasing = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits).astype(np.int64)
    order: Rows = np.sort(increasing << 32 | np.arange(len(bits))) & 0xFFFFFFFF
    return order


def _direction(points: NDArray[Any], rng: np.random.Generator | None) -> NDArray[Any]:
    if rng is not None:
        first, second = rng.integers(len(points), size=2)
        difference: NDArray[Any] = points[first] - points[second]
        return difference
    centred = points - points.mean(axis=0)
    direction: NDArray[Any] = centred[np.argmax((centred**2).sum(axis=1))]
    # A few power iterations are enough: any direction in which the rows differ much will do.
    for _ in range(POWER_ITERATIONS):
        length = np.sqrt(direction @ direction)
        if length == 0:  # all rows are equal
            break
        direction = (centred @ (direction / length)) @ centred
    return direction
