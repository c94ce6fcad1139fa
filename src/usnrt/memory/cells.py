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
            # stable, so that the partition of equal rows does not depend on the sorting algorithm
            order = cell[np.argsort(along, kind="stable")]
            halves += [order[: len(cell) // 2], order[len(cell) // 2 :]]
        cells = halves
    return cells


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
