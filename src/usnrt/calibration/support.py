"""Support of a row by the training rows, and what is done to rows without.

A row lacks support if a number is outside the range of its region, if a category is unseen in training, if a value is
missing in a column without missing values in training, if it is far from all training rows in the joint space of the
numeric columns, or, in a table with groups, if its subject is unlike all others. The networks are then evaluated at the
nearest supported row (`Support.clamp`); median and mean are evaluated up to one unit beyond the range, so that trends
are extrapolated a little. Variance is added to the predicted quantile function (`Support.widen`). Predictions of
supported rows are unchanged, bit for bit.

The added variance, in units of the scaled target (whose variance is 1), is the sum of

- the missing-value variance of each unknown column (unseen category or missing value): the increase of the squared
  errors of validation rows when the column is missing, see `Support.with_missing_value_variances`. Their sum widens no
  prediction beyond the training distribution of the target, robustly estimated: whatever is unknown, the target is one
  of these;
- for each number outside its range by δ units (standard deviations, or more in columns with heavy tails), its
  missing-value variance (at least 0.05) times δ, as of a random walk beyond the data;
- (1 - exp(-D² / 2)) (1 + s): far from all data the variance approaches that of the target, and s is the difference
  between the typical variance of the region and that of the row, if positive. D² is the sum of δ² over the columns,
  weighted by their missing-value variance relative to the largest one, plus the squared excess distances in the joint
  space and from all subjects.

All three are 0 at the boundary of the support and grow with the distance from it, so that distributions are never
narrower than at the nearest supported row.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from usnrt.calibration.landmarks import Landmarks, Subjects
from usnrt.calibration.widening import (
    MEASURED_LEVELS,
    MIN_MEASURED_ROWS,
    needed_variance,
    variances_of_columns,
    widened,
)
from usnrt.experts.refine import half_widths
from usnrt.nn.quantile_functions import conformity_scores
from usnrt.utils.threads import flat_memory, run_in_blocks
from usnrt.utils.types import Floats

# The range of a region is extended by the largest of: this share of the range, this share of the column's standard
# deviation, and the distance between the most and the tenth most extreme value (heavy tails).
RANGE_MARGIN, STD_MARGIN, TAIL_ROWS = 0.1, 0.1, 10
CONSTANT_MARGIN = 1e-6  # relative margin of a column that is constant in training
# Distances outside a range are measured in standard deviations, but the unit is at least this share of the range of the
# whole column (a rare 1 among zeros is many standard deviations away) and at least the margin.
RANGE_UNIT = 0.25


def column_scale(values: NDArray[np.float64]) -> tuple[float, float]:
    """Standard deviation of a column, and the minimal unit of distances outside its range."""
    largest = float(np.abs(values).max())
    # Scaled first, since squares of huge numbers would overflow.
    std = largest * float(np.std(values / largest)) if largest > 0 else 0.0
    if std <= 1e-12 * largest:  # constant: its value is the only scale
        return 0.0, max(largest, 1.0)
    return std, max(std, RANGE_UNIT * float(np.ptp(values / largest)) * largest)


def extended_range(values: Floats, std: float, unit: float) -> Floats:
    """Low and high end of the range of the values with a margin, and the units of distances below and above it."""
    k = min(TAIL_ROWS, len(values)) - 1
    ordered = np.partition(values, [0, k, len(values) - 1 - k, len(values) - 1])
    low, high = ordered[0], ordered[-1]
    with np.errstate(over="ignore"):
        margin = max(RANGE_MARGIN * (high - low), STD_MARGIN * std, CONSTANT_MARGIN * unit)
        below, above = max(margin, ordered[k] - low), max(margin, high - ordered[-1 - k])
        return np.array([low - below, high + above, max(unit, below), max(unit, above)])


REACH = 1.0  # units beyond the range up to which the networks extrapolate
MAX_DELTA = 1e3  # bound for sentinels such as 1e300, whose squares would overflow
MIN_MISSING_VALUE_VARIANCE = 0.05  # a column that is irrelevant inside its range may be relevant outside
BLOCK = 4096  # rows processed at a time


@dataclass(frozen=True)
class RowSupport:
    """Result of `Support.measure`, one value per row.

    Attributes
    ----------
    outside : ndarray of bool of shape (n,)
        Whether a number is outside the range of the row's region.
    unseen : ndarray of bool of shape (n,)
        Whether a category is unseen in training.
    missing : ndarray of bool of shape (n,)
        Whether a value is missing in a column without missing values in training.
    far : ndarray of bool of shape (n,)
        Whether the row is far from all training rows in the joint space of the numeric columns.
    unlike : ndarray of bool of shape (n,)
        Whether the attributes of the row's subject are far from those of all training subjects; see `Subjects`.
    region : ndarray of int of shape (n,)
        Index of the ranges that apply: the leaf, or n_leaves (the whole table) if the row has unknown columns.
    unknown_variance, walk, distance : ndarray of shape (n,)
        Sum of the missing-value variances of unknown columns, variance of the random walk beyond the ranges, and D².
    """

    outside: NDArray[np.bool_]
    unseen: NDArray[np.bool_]
    missing: NDArray[np.bool_]
    far: NDArray[np.bool_]
    unlike: NDArray[np.bool_]
    region: NDArray[np.int64]
    unknown_variance: NDArray[np.float64]
    walk: NDArray[np.float64]
    distance: NDArray[np.float64]

    @property
    def supported(self) -> NDArray[np.bool_]:
        """Whether the row has full support, shape (n,)."""
        return ~(self.outside | self.unseen | self.missing | self.far | self.unlike)

    def take(self, rows: NDArray[np.intp]) -> "RowSupport":
        """The support of some of the rows."""
        return RowSupport(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True)
class Support:
    """The ranges of the training rows per region, and the variance added outside of them.

    Attributes
    ----------
    categorical : ndarray of bool of shape (d,)
    low, high : ndarray of shape (n_leaves + 1, d)
        Extended range of each column in each region, and in the whole table; infinite for categories.
    below, above : ndarray of shape (n_leaves + 1, d)
        Unit of distances below and above the range: the largest of the column's standard deviation, a quarter of its
        range, and the margin.
    never_missing : ndarray of bool of shape (d,)
        Columns without missing values in training.
    landmarks : Landmarks or None
        None without numeric columns.
    missing_value_variance : ndarray of shape (d,)
        Variance added if a column is unknown, in units of the scaled target.
    typical_variance : ndarray of shape (n_leaves + 1,)
        Squared half width, from -1 to 1 on the normal scale, of a typical quantile function of each region.
    widens : bool
        Whether distributions are widened; the paper's recipe only reports support.
    target_variance : float
        Robust variance of the target (`robust_variance`), beyond which unknown columns widen nothing; infinite in
        models of older files.
    subjects : Subjects or None
        None without groups.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.calibration.support import Support
    >>> raw = np.random.default_rng(0).uniform(size=(500, 2))
    >>> support = Support.fit(raw, np.zeros(2, dtype=bool), np.zeros(500, dtype=int), 1)
    >>> rows = np.array([[0.5, 0.5], [0.5, 3.0], [np.nan, 0.5]])
    >>> found = support.measure(rows, np.zeros(3, dtype=int))
    >>> found.supported, found.outside, found.missing
    (array([ True, False, False]), array([False,  True, False]), array([False, False,  True]))
    """

    categorical: NDArray[np.bool_]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    below: NDArray[np.float64]
    above: NDArray[np.float64]
    never_missing: NDArray[np.bool_]
    landmarks: Landmarks | None
    missing_value_variance: NDArray[np.float64]
    typical_variance: NDArray[np.float64]
    widens: bool = True
    target_variance: float = np.inf
    subjects: Subjects | None = None

    @classmethod
    def fit(
        cls,
        raw: NDArray[np.float64],
        categorical: NDArray[np.bool_],
        leaf: NDArray[np.int64],
        n_leaves: int,
        group: NDArray[np.intp] | None = None,
    ) -> "Support":
        """Compute the ranges of all regions from training rows.

        Parameters
        ----------
        raw : ndarray of shape (n, d)
            Encoded rows in canonical order.
        categorical : ndarray of bool of shape (d,)
        leaf : ndarray of int of shape (n,)
            Leaf of each row, counted from 0.
        n_leaves : int
        group : ndarray of int of shape (n,), optional
            Subject of each row.

        Returns
        -------
        Support
            With the missing-value variance 1 (that of the target) for all columns; see `with_missing_value_variances`.
        """
        d = raw.shape[1]
        # low, high, below, above; infinite bounds for categories
        ranges = np.tile(np.array([-np.inf, np.inf, 1.0, 1.0]), (n_leaves + 1, d, 1))
        rows_of_leaf = [np.flatnonzero(leaf == index) for index in range(n_leaves)]
        for j in np.flatnonzero(~categorical):
            values = raw[:, j]
            present = values[~np.isnan(values)]
            if len(present) == 0:  # empty in training: its range is unknown, and networks ignore it
                continue
            std, unit = column_scale(present)
            ranges[:, j] = extended_range(present, std, unit)
            for index, rows in enumerate(rows_of_leaf):
                own = values[rows][~np.isnan(values[rows])]
                if len(own):
                    ranges[index, j] = extended_range(own, std, unit)
        # A table of numbers only is not copied.
        landmarks = None if categorical.all() else Landmarks.fit(raw[:, ~categorical] if categorical.any() else raw)
        never_missing = np.asarray(~np.isnan(raw).any(axis=0))
        low, high, below, above = (np.ascontiguousarray(part) for part in np.moveaxis(ranges, 2, 0))
        subjects = None if group is None else Subjects.fit(raw, categorical, group)
        missing_value_variance, typical = np.ones(d), np.zeros(n_leaves + 1)
        return cls(
            categorical, low, high, below, above, never_missing, landmarks,
            missing_value_variance, typical, subjects=subjects,
        )  # fmt: skip

    def covering(
        self, low: NDArray[np.float64], high: NDArray[np.float64], has_missing: NDArray[np.bool_]
    ) -> "Support":
        """The support, extended to further training rows: `fit` may have seen a sample of them only.

        Parameters
        ----------
        low, high : ndarray of shape (n_leaves + 1, d)
            Smallest and largest number of each column in each region, and in the whole table; NaN if there is none.
        has_missing : ndarray of bool of shape (d,)
        """
        return replace(
            self,
            low=np.fmin(self.low, low),
            high=np.fmax(self.high, high),
            never_missing=self.never_missing & ~has_missing,
        )

    # -- measuring ---------------------------------------------------------------------------------------------

    def measure(self, raw: NDArray[np.float64], leaf: NDArray[np.int64], n_threads: int = 1) -> RowSupport:
        """Measure the support of rows by the training rows.

        Parameters
        ----------
        raw : ndarray of shape (n, d)
            Encoded rows.
        leaf : ndarray of int of shape (n,)
        """
        from usnrt.calibration._kernels import measure_rows

        n = len(raw)
        outside, unseen, missing = (np.zeros(n, dtype=bool) for _ in range(3))
        unknown_variance, walk, distance = (np.zeros(n) for _ in range(3))
        region = np.array(leaf, dtype=np.int64)
        table, growth = flat_memory(raw), self.growth

        def write(start: int, stop: int) -> None:
            measure_rows(
                *table, start, stop, self.categorical, self.never_missing, self.missing_value_variance, growth,
                growth.max(), MAX_DELTA, self.low, self.high, self.below, self.above,
                outside, unseen, missing, region, unknown_variance, walk, distance,
            )  # fmt: skip

        run_in_blocks(write, n, n_threads)
        of_row = self._excess(raw, n_threads)
        of_subject = np.zeros(n) if self.subjects is None else self.subjects.excess(raw, n_threads)
        distance += of_row**2 + of_subject**2
        return RowSupport(
            outside, unseen, missing, of_row > 0, of_subject > 0, region, unknown_variance, walk, distance
        )

    def _excess(self, raw: NDArray[np.float64], n_threads: int) -> NDArray[np.float64]:
        """Excess distance from the landmarks in the joint space of the numeric columns, shape (n,)."""
        if self.landmarks is None:
            return np.zeros(len(raw))
        return self.landmarks.excess(raw, np.flatnonzero(~self.categorical), n_threads)

    @property
    def growth(self) -> NDArray[np.float64]:
        """Variance per unit outside the range of each column, shape (d,)."""
        return np.maximum(self.missing_value_variance, MIN_MISSING_VALUE_VARIANCE)

    def clamp(self, raw: NDArray[np.float64], found: RowSupport, reach: float = 0.0) -> NDArray[np.float64]:
        """The nearest supported rows: numbers clipped to the range of their region.

        Parameters
        ----------
        raw : ndarray of shape (n, d)
        found : RowSupport
            Result of `measure` for these rows.
        reach : float, default=0
            Extension of the ranges, in units.

        Returns
        -------
        ndarray of shape (n, d)
            ``raw`` itself if there is nothing to clip. A row stays in its region: each split on its path sends the
            clipped number to the same side.
        """
        rows = np.flatnonzero(found.outside)
        if len(rows) == 0:
            return raw
        result, region = raw.copy(order="K"), found.region[rows]
        with np.errstate(over="ignore"):
            low, high = self.low[region] - reach * self.below[region], self.high[region] + reach * self.above[region]
        result[rows] = np.clip(raw[rows], low, high)
        return result

    # -- widening ----------------------------------------------------------------------------------------------

    def with_missing_value_variances(
        self,
        quantiles_of: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        raw: NDArray[np.float64],
        leaf: NDArray[np.int64],
        y: NDArray[np.float64],
    ) -> "Support":
        """Measure missing-value variances and the typical variance of each region on validation rows.

        Each column is made missing in turn (see `variances_of_columns`), by NaN for a number and -1 for a category.

        Parameters
        ----------
        quantiles_of : callable
            Takes encoded rows of shape (m, d), returns quantile functions at POSITIONS, shape (m, n_positions). The
            argument is k concatenated modified copies of all rows, m = k n, so that each row can be predicted by
            networks that were not trained on it.
        raw : ndarray of shape (n, d)
            Encoded validation rows, selected by `measured_rows`.
        leaf : ndarray of int of shape (n,)
        y : ndarray of shape (n,)
            Scaled target.

        Returns
        -------
        Support
            With the missing-value variances of `fit` if there are fewer than 20 rows.
        """
        if len(raw) < MIN_MEASURED_ROWS:
            return self
        quantiles = quantiles_of(raw)
        variance = half_widths(quantiles) ** 2
        overall = float(np.median(variance))
        n_leaves = len(self.low) - 1
        typical = [float(np.median(variance[leaf == k])) if (leaf == k).any() else overall for k in range(n_leaves)]
        reference = np.quantile(np.abs(conformity_scores(quantiles, y)), MEASURED_LEVELS)
        measure = functools.partial(self._group_variances, quantiles_of=quantiles_of, raw=raw, y=y, reference=reference)
        missing_value_variance = variances_of_columns(raw.shape[1], measure)
        return replace(
            self, missing_value_variance=missing_value_variance, typical_variance=np.array([*typical, overall])
        )

    def _group_variances(
        self,
        groups: Sequence[NDArray[np.intp]],
        quantiles_of: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        raw: NDArray[np.float64],
        y: NDArray[np.float64],
        reference: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Variance needed if all columns of a group are missing, shape (n_groups,)."""
        variances: list[float] = []
        at_once = max(BLOCK // len(raw), 1)
        for first in range(0, len(groups), at_once):
            own = groups[first : first + at_once]
            incomplete = np.repeat(raw[None], len(own), axis=0)
            for copy, columns in zip(incomplete, own):
                copy[:, columns] = np.where(self.categorical[columns], -1.0, np.nan)
            by_group = quantiles_of(incomplete.reshape(-1, raw.shape[1])).reshape(len(own), len(raw), -1)
            variances += [needed_variance(quantiles, y, reference) for quantiles in by_group]
        return np.array(variances)

    def added_variance(self, half_width: NDArray[np.float64], found: RowSupport) -> NDArray[np.float64]:
        """Variance added for lack of support, in units of the scaled target.

        Parameters
        ----------
        half_width : ndarray of shape (n,)
            Half widths of the quantile functions, from -1 to 1 on the normal scale.

        Returns
        -------
        ndarray of shape (n,)
            0 for supported rows.
        """
        deficit = np.maximum(self.typical_variance[found.region] - half_width**2, 0.0)
        unknown_variance = np.minimum(found.unknown_variance, np.maximum(self.target_variance - half_width**2, 0.0))
        return unknown_variance + found.walk - np.expm1(-found.distance / 2.0) * (1.0 + deficit)

    def widen(self, quantiles: NDArray[np.float64], found: RowSupport) -> NDArray[np.float64]:
        """Quantile functions with the variance for lack of support added.

        Parameters
        ----------
        quantiles : ndarray of shape (n, n_positions)
            Of the clamped rows, at `usnrt.nn.quantiles.POSITIONS`.

        Returns
        -------
        ndarray of shape (n, n_positions)
            ``quantiles`` itself if all rows are supported; else a copy, unchanged for supported rows.
        """
        rows = np.flatnonzero(~found.supported)
        if len(rows) == 0:
            return quantiles
        result, own = quantiles.copy(), quantiles[rows]
        result[rows] = widened(own, self.added_variance(half_widths(own), found.take(rows)))
        return result
