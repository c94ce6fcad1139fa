"""Landmarks: how far a row is from the training rows, and a subject from theirs."""

import functools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from usnrt.nn._layers import PANEL
from usnrt.nn.packed import pack_layer
from usnrt.utils.threads import ONE_BLAS_THREAD, flat_memory, run_in_blocks
from usnrt.utils.types import Floats, Rows

N_LANDMARKS = 512
BLOCK = 3072  # rows processed at a time
MAX_ROWS = 20_000  # training rows whose distances determine the threshold
# The threshold is this quantile of the distances of training rows to their nearest landmarks, times a margin ...
FAR_QUANTILE, FAR_MARGIN = 0.999, 1.25
# ... and at least this, in standard deviations, however dense the training rows are.
MIN_THRESHOLD = 0.25
LARGEST = 1e30  # bound in units of the scale, representable in float32
# Lower bound of the eigenvalues of the covariance, relative to their mean.
EIGENVALUE_FLOOR = 0.01


@dataclass(frozen=True)
class Landmarks:
    """A sample of the training rows in whitened coordinates.

    Columns are divided by a robust scale, transformed by sign(z) log(1 + abs(z)) to shorten heavy tails, and whitened,
    so that unusual combinations of correlated columns are as distant as unusual values of a single column.

    Examples
    --------
    >>> angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 1000)
    >>> ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    >>> landmarks = Landmarks.fit(ring)
    >>> landmarks.excess(np.array([[0.0, 0.0], [1.0, 0.0]])) > 0
    array([ True, False])
    """

    # centre, scale: shape (k,); robust location and scale of each numeric column; a scale of 0 marks a constant column,
    # which is ignored
    centre: Floats
    scale: Floats
    offset: NDArray[np.float32]  # shape (k,); mean of the transformed columns
    # shape (k, r); of r = k directions; fewer if there are fewer rows than columns, see `_principal_directions`
    whitening: NDArray[np.float32]
    points: NDArray[np.float32]  # shape (m, r); the landmarks in whitened coordinates, the most central ones first
    threshold: float  # distance beyond which a row is far

    @classmethod
    def fit(cls, numbers: Floats) -> "Landmarks":
        """Choose landmarks, evenly spaced among the training rows, and determine the threshold.

        The rows have numeric columns only and are in canonical order; NaN for missing values.
        """
        rows = np.ascontiguousarray(numbers[evenly(len(numbers), MAX_ROWS)])
        centre, scale = _centre_and_scale(rows)
        squashed = _squashed(rows, centre, scale).astype(np.float64)
        offset = squashed.mean(axis=0)
        with ONE_BLAS_THREAD:
            values, vectors = _principal_directions(squashed - offset)
            floor = EIGENVALUE_FLOOR * float(values.sum()) / len(offset) or 1.0  # 1 if all columns are constant
            whitening = (vectors / np.sqrt(np.maximum(values, floor))).astype(np.float32)
        nowhere = np.zeros((0, whitening.shape[1]), dtype=np.float32)
        draft = cls(centre, scale, offset.astype(np.float32), whitening, nowhere, 0.0)
        coordinates = draft._coordinates(rows)
        chosen = evenly(len(rows), N_LANDMARKS)
        chosen = chosen[np.argsort(np.sum(coordinates[chosen] ** 2, axis=1), kind="stable")]
        draft = replace(draft, points=coordinates[chosen])
        distance = np.empty(len(rows))
        others = np.setdiff1d(np.arange(len(rows)), chosen)
        distance[others] = draft._distances(rows[others])
        distance[chosen] = _nearest_other(draft.points)
        far = FAR_MARGIN * float(np.quantile(distance, FAR_QUANTILE))
        return replace(draft, threshold=max(far, MIN_THRESHOLD))

    def excess(self, raw: Floats, columns: NDArray[np.int64] | None = None, n_threads: int = 1) -> Floats:
        """Distance to the nearest landmark in excess of the threshold, relative to it; 0 for rows that are not far.

        Missing values are replaced by the centre of their column. ``columns`` are the numeric ones; all by default.
        """
        distance = self._distances(raw, columns, self.threshold, n_threads)
        return np.maximum(distance / self.threshold - 1.0, 0.0)

    def _distances(
        self, raw: Floats, columns: NDArray[np.int64] | None = None, near: float = 0.0, n_threads: int = 1
    ) -> Floats:
        """Distance of each row to the nearest landmark; 0 where a landmark is not farther than ``near``."""
        from usnrt.calibration._kernels import write_nearest

        width, n_panels = self.whitening.shape[1], -(-len(self.points) // PANEL)
        distance = np.empty(len(raw))
        table = flat_memory(raw)

        def write(start: int, stop: int) -> None:
            for first in range(start, stop, BLOCK):
                last = min(first + BLOCK, stop)
                coordinates = self._flat_coordinates(table, columns, first, last)
                write_nearest(
                    coordinates, last - first, width, self._point_panels, n_panels, near, distance[first:last]
                )

        run_in_blocks(write, len(raw), n_threads)
        return distance

    def _coordinates(self, rows: Floats) -> NDArray[np.float32]:
        """Whitened coordinates, shape (n, r)."""
        flat = self._flat_coordinates(flat_memory(rows), None, 0, len(rows))
        return np.ascontiguousarray(flat.reshape(len(rows), -1)[:, : self.whitening.shape[1]])

    def _flat_coordinates(
        self, table: tuple[Floats, int, int], columns: NDArray[np.int64] | None, start: int, stop: int
    ) -> NDArray[np.float32]:
        from usnrt.calibration._kernels import write_coordinates

        n_panels = -(-self.whitening.shape[1] // PANEL)
        columns = np.arange(len(self.centre)) if columns is None else columns
        coordinates = np.empty((stop - start) * n_panels * PANEL, dtype=np.float32)
        write_coordinates(
            *table, start, stop, columns, self.centre, self._divisor, LARGEST, self._whitening_panels, n_panels,
            coordinates,
        )  # fmt: skip
        return coordinates

    # Not fields, so that they are not stored in files.

    @functools.cached_property
    def _divisor(self) -> Floats:
        return np.where(self.scale > 0, self.scale, np.inf)

    @functools.cached_property
    def _whitening_panels(self) -> NDArray[np.float32]:
        shift = -(self.offset.astype(np.float64)[:, None] * self.whitening).sum(axis=0)
        return pack_layer(self.whitening, shift.astype(np.float32))

    @functools.cached_property
    def _point_panels(self) -> NDArray[np.float32]:
        half = 0.5 * np.sum(self.points * self.points, axis=1)
        missing = -len(self.points) % PANEL  # of the last panel, infinitely far
        points = np.pad(self.points, ((0, missing), (0, 0)))
        return pack_layer(points.T, np.pad(-half, (0, missing), constant_values=-np.inf))


def evenly(n: int, most: int) -> Rows:
    """At most ``most`` of ``n`` indices, evenly spaced.

    Examples
    --------
    >>> evenly(10, 4)
    array([0, 2, 5, 7])
    """
    return np.arange(n) if n <= most else np.floor(np.arange(most) * (n / most)).astype(np.intp)


def _principal_directions(centred: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues and eigenvectors of the covariance, shapes (r,) and (k, r).

    With more columns than rows, only the directions in which the training rows differ. They say nothing of the others:
    any new row, however ordinary, has parts in those too, and would be far.
    """
    n, k = centred.shape
    if k <= n:
        values, vectors = np.linalg.eigh(centred.T @ centred / n)
        return values, vectors
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    rank = max(int(np.sum(sizes > k * np.finfo(float).eps * sizes[0])), 1)
    return sizes[:rank] ** 2 / n, directions[:rank].T


def _centre_and_scale(rows: Floats) -> tuple[Floats, Floats]:
    """Median and interquartile range / 1.349; the standard deviation if more than half of the values are equal."""
    centre, scale = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for j, column in enumerate(rows.T):
        present = column[~np.isnan(column)]
        if len(present) == 0:
            continue
        low, centre[j], high = np.quantile(present, [0.25, 0.5, 0.75])
        scale[j] = high / 1.349 - low / 1.349
        if scale[j] <= 1e-9 * np.abs(present).max():
            largest = np.abs(present / 2 - centre[j] / 2).max()  # halved: differences may overflow
            if largest > 1e-12 * np.abs(present).max():
                scale[j] = 2 * largest * np.sqrt(np.mean(((present / 2 - centre[j] / 2) / largest) ** 2))
            else:
                scale[j] = 0.0
    return centre, scale


def _squashed(rows: Floats, centre: Floats, scale: Floats) -> NDArray[np.float32]:
    """Columns in units of their scale, log-transformed; 0 for missing values and constant columns."""
    with np.errstate(over="ignore"):
        units = np.clip((rows - centre) / np.where(scale > 0, scale, np.inf), -LARGEST, LARGEST).astype(np.float32)
    squashed = np.copysign(np.log(np.abs(units) + np.float32(1.0)), units)
    missing = np.isnan(squashed)
    if missing.any():
        squashed[missing] = 0.0
    return squashed


def _nearest_other(points: NDArray[np.float32]) -> Floats:
    """Distance of each point to the nearest other point."""
    if len(points) < 2:
        return np.zeros(len(points))
    exact = points.astype(np.float64)
    squares = np.sum(exact**2, axis=1)
    with ONE_BLAS_THREAD:
        table = squares[:, None] + squares - 2.0 * exact @ exact.T
    np.fill_diagonal(table, np.inf)
    distance: Floats = np.sqrt(np.maximum(table.min(axis=1), 0.0))
    return distance


# With fewer subjects their distances from each other say little of those of others.
MIN_SUBJECTS = 20


@dataclass(frozen=True)
class Subjects:
    """The numeric columns that are constant within every group of training rows, and one row of each group.

    Among all rows a new subject is as near as the values that vary within subjects are wide; here subjects are compared
    with subjects.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(np.arange(100), 5)
    >>> raw = np.column_stack([rng.normal(size=(100, 2))[group], rng.normal(scale=9.0, size=500)])
    >>> subjects = Subjects.fit(raw, np.zeros(3, dtype=bool), group)
    >>> subjects.columns, subjects.excess(np.array([[0.0, 0.0, 50.0], [6.0, -6.0, 0.0]])) > 0
    (array([0, 1]), array([False,  True]))
    """

    columns: NDArray[np.int64]  # shape (k,)
    landmarks: Landmarks  # of the groups, in these columns

    @classmethod
    def fit(cls, raw: Floats, categorical: NDArray[np.bool_], group: Rows) -> "Subjects | None":
        """Find the columns and the groups; None without such columns, or with fewer than `MIN_SUBJECTS` groups.

        Rows are in canonical order.
        """
        first, index = np.unique(group, return_index=True, return_inverse=True)[1:]
        numeric = np.flatnonzero(~categorical)
        shared = [j for j in numeric if np.array_equal(raw[:, j], raw[first[index], j], equal_nan=True)]
        if len(first) < MIN_SUBJECTS or not shared:
            return None
        # in the order of the rows, which is random: groups are numbered by their labels
        return cls(np.array(shared, dtype=np.int64), Landmarks.fit(raw[np.sort(first)][:, shared]))

    def excess(self, raw: Floats, n_threads: int = 1) -> Floats:
        """`Landmarks.excess` of the subject of each row, shape (n,)."""
        return self.landmarks.excess(raw, self.columns, n_threads)
