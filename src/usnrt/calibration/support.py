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
from scipy.special import ndtri

from usnrt.calibration.landmarks import Landmarks, Subjects, evenly
from usnrt.experts.refine import half_widths
from usnrt.nn.quantile_functions import conformity_scores, value_at
from usnrt.nn.quantiles import MEDIAN, POSITIONS
from usnrt.utils.threads import flat_memory, run_in_blocks
from usnrt.utils.types import Floats, Rows

# The range of a region is extended by the largest of: this share of the range, this share of the column's standard
# deviation, and the distance between the most and the tenth most extreme value (heavy tails).
RANGE_MARGIN, STD_MARGIN, TAIL_ROWS = 0.1, 0.1, 10
CONSTANT_MARGIN = 1e-6  # relative margin of a column that is constant in training
# Distances outside a range are measured in standard deviations, but the unit is at least this share of the range of the
# whole column (a rare 1 among zeros is many standard deviations away) and at least the margin.
RANGE_UNIT = 0.25
MEASURED_LEVELS = (0.5, 0.8, 0.9, 0.95)
# Bounds of the number of rows used to measure missing-value variances, and of rows times columns.
MIN_MEASURED_ROWS, FEW_MEASURED_ROWS, MAX_MEASURED_ROWS, MAX_MEASURED_CELLS = 20, 200, 1000, 25_000
MAX_MEASURED_COLUMNS = 1024  # predictions of all these rows: their number times the width of the rows is the work


def column_scale(values: Floats) -> tuple[float, float]:
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
    """Result of `Support.measure`, one value per row."""

    outside: NDArray[np.bool_]  # whether a number is outside the range of the row's region
    unseen: NDArray[np.bool_]  # whether a category is unseen in training
    missing: NDArray[np.bool_]  # whether a value is missing in a column without missing values in training
    far: NDArray[np.bool_]  # whether the row is far from all training rows in the joint space of the numeric columns
    # whether the attributes of the row's subject are far from those of all training subjects; see `Subjects`
    unlike: NDArray[np.bool_]
    # index of the ranges that apply: the leaf, or n_leaves (the whole table) if the row has unknown columns
    region: NDArray[np.int64]
    # unknown_variance, walk, distance: sum of the missing-value variances of unknown columns, variance of the random
    # walk beyond the ranges, and D²
    unknown_variance: Floats
    walk: Floats
    distance: Floats

    @property
    def supported(self) -> NDArray[np.bool_]:
        """Whether the row has full support, shape (n,)."""
        return ~(self.outside | self.unseen | self.missing | self.far | self.unlike)

    def take(self, rows: Rows) -> "RowSupport":
        """The support of some of the rows."""
        return RowSupport(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True)
class Support:
    """The ranges of the training rows per region, and the variance added outside of them.

    Examples
    --------
    >>> raw = np.random.default_rng(0).uniform(size=(500, 2))
    >>> support = Support.fit(raw, np.zeros(2, dtype=bool), np.zeros(500, dtype=int), 1)
    >>> rows = np.array([[0.5, 0.5], [0.5, 3.0], [np.nan, 0.5]])
    >>> found = support.measure(rows, np.zeros(3, dtype=int))
    >>> found.supported, found.outside, found.missing
    (array([ True, False, False]), array([False,  True, False]), array([False, False,  True]))
    """

    categorical: NDArray[np.bool_]  # shape (d,)
    # low, high: shape (n_leaves + 1, d); extended range of each column in each region, and in the whole table; infinite
    # for categories
    low: Floats
    high: Floats
    # below, above: shape (n_leaves + 1, d); unit of distances below and above the range: the largest of the column's
    # standard deviation, a quarter of its range, and the margin
    below: Floats
    above: Floats
    never_missing: NDArray[np.bool_]  # shape (d,); columns without missing values in training
    landmarks: Landmarks | None  # None without numeric columns
    # shape (d,); variance added if a column is unknown, in units of the scaled target
    missing_value_variance: Floats
    # shape (n_leaves + 1,); squared half width, from -1 to 1 on the normal scale, of a typical quantile function of
    # each region
    typical_variance: Floats
    widens: bool = True  # whether distributions are widened; the paper's recipe only reports support
    # robust variance of the target (`robust_variance`), beyond which unknown columns widen nothing; infinite in models
    # of older files
    target_variance: float = np.inf
    subjects: Subjects | None = None  # None without groups

    @classmethod
    def fit(
        cls,
        raw: Floats,
        categorical: NDArray[np.bool_],
        leaf: NDArray[np.int64],
        n_leaves: int,
        group: Rows | None = None,
    ) -> "Support":
        """Compute the ranges of all regions from training rows in canonical order; groups are subjects.

        The missing-value variance is 1 (that of the target) for all columns; see `with_missing_value_variances`.
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

    def covering(self, low: Floats, high: Floats, has_missing: NDArray[np.bool_]) -> "Support":
        """The support, extended to further training rows: `fit` may have seen a sample of them only.

        ``low`` and ``high`` have the smallest and largest number of each column in each region, and in the whole table,
        shape (n_leaves + 1, d); NaN if there is none.
        """
        return replace(
            self,
            low=np.fmin(self.low, low),
            high=np.fmax(self.high, high),
            never_missing=self.never_missing & ~has_missing,
        )

    # -- measuring ---------------------------------------------------------------------------------------------

    def measure(self, raw: Floats, leaf: NDArray[np.int64], n_threads: int = 1) -> RowSupport:
        """Measure the support of rows by the training rows."""
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

    def _excess(self, raw: Floats, n_threads: int) -> Floats:
        """Excess distance from the landmarks in the joint space of the numeric columns, shape (n,)."""
        if self.landmarks is None:
            return np.zeros(len(raw))
        return self.landmarks.excess(raw, np.flatnonzero(~self.categorical), n_threads)

    @property
    def growth(self) -> Floats:
        """Variance per unit outside the range of each column, shape (d,)."""
        return np.maximum(self.missing_value_variance, MIN_MISSING_VALUE_VARIANCE)

    def clamp(self, raw: Floats, found: RowSupport, reach: float = 0.0) -> Floats:
        """The nearest supported rows: numbers clipped to the range of their region, extended by ``reach`` units.

        It is ``raw`` itself if there is nothing to clip. A row stays in its region: each split on its path sends the
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
        self, quantiles_of: Callable[[Floats], Floats], raw: Floats, leaf: NDArray[np.int64], y: Floats
    ) -> "Support":
        """Measure missing-value variances and the typical variance of each region on validation rows.

        These are selected by `measured_rows`; fewer than 20 change nothing. Each column is made missing in turn (see
        `variances_of_columns`), by NaN for a number and -1 for a category. ``quantiles_of`` takes k concatenated
        modified copies of all rows, so that each row can be predicted by networks that were not trained on it, and
        returns their quantile functions.
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
        groups: Sequence[Rows],
        quantiles_of: Callable[[Floats], Floats],
        raw: Floats,
        y: Floats,
        reference: Floats,
    ) -> Floats:
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

    def added_variance(self, half_width: Floats, found: RowSupport) -> Floats:
        """Variance added for lack of support, in units of the scaled target; 0 for supported rows, shape (n,).

        ``half_width`` is that of the quantile functions, from -1 to 1 on the normal scale.
        """
        deficit = np.maximum(self.typical_variance[found.region] - half_width**2, 0.0)
        unknown_variance = np.minimum(found.unknown_variance, np.maximum(self.target_variance - half_width**2, 0.0))
        return unknown_variance + found.walk - np.expm1(-found.distance / 2.0) * (1.0 + deficit)

    def widen(self, quantiles: Floats, found: RowSupport) -> Floats:
        """Quantile functions of clamped rows with the variance for lack of support added.

        They are ``quantiles`` itself if all rows are supported; else a copy, unchanged for supported rows.
        """
        rows = np.flatnonzero(~found.supported)
        if len(rows) == 0:
            return quantiles
        result, own = quantiles.copy(), quantiles[rows]
        result[rows] = widened(own, self.added_variance(half_widths(own), found.take(rows)))
        return result


# -- wider quantile functions: adding the variance of an error, and finding how much is needed ----------------------


def widened(quantiles: Floats, variance: Floats) -> Floats:
    """Add the variance of an independent normal error to quantile functions, with unchanged median.

    The distances of the quantiles from the median are added in quadrature to those of the error. This is exact for
    normal distributions; in general the result is increasing and not narrower.
    """
    median = quantiles[:, [MEDIAN]]
    distance = np.hypot(quantiles - median, np.sqrt(variance)[:, None] * POSITIONS)
    wider: Floats = median + np.sign(POSITIONS) * distance
    return wider


def robust_variance(y: Floats) -> float:
    """Variance of a normal distribution with the quantiles of values; a single outlier hardly changes it.

    It is the larger of those by the 25 % and 75 % and by the 5 % and 95 % quantiles. If both are 0, it is the ordinary
    variance; if that is 0, too, 1, the variance of scaled targets.
    """
    variance = 0.0
    for level in (0.25, 0.05):
        # order statistics on the inner side: an interpolated quantile of few values would include an outlier
        low, high = np.quantile(y, level, method="higher"), np.quantile(y, 1.0 - level, method="lower")
        variance = max(variance, (max(float(high - low), 0.0) / (2.0 * float(ndtri(1.0 - level)))) ** 2)
    return variance or float(np.var(y)) or 1.0


def measured_rows(n_rows: int, n_columns: int) -> Rows:
    """Indices of the validation rows used to measure missing-value variances: evenly spaced, fewer for wide tables.

    Examples
    --------
    >>> len(measured_rows(800, 4)), len(measured_rows(5000, 4)), len(measured_rows(5000, 90))
    (800, 1000, 277)
    """
    return evenly(n_rows, int(np.clip(MAX_MEASURED_CELLS // n_columns, FEW_MEASURED_ROWS, MAX_MEASURED_ROWS)))


def variances_of_columns(n_columns: int, variances_of: Callable[[Sequence[Rows]], Floats]) -> Floats:
    """Missing-value variance of each column, from those of at most `MAX_MEASURED_COLUMNS` groups of columns.

    More columns than that are first missing in groups, each column with an equal share of its group's variance; then
    the columns of the groups with the largest variances one by one.

    Examples
    --------
    >>> truth = np.where(np.arange(5000) % 1000 == 7, 0.5, 0.0)
    >>> variances = variances_of_columns(5000, lambda groups: np.array([truth[group].sum() for group in groups]))
    >>> bool(np.array_equal(variances, truth))
    True
    """
    if n_columns <= MAX_MEASURED_COLUMNS:
        return variances_of(list(np.arange(n_columns)[:, None]))
    groups = np.array_split(np.arange(n_columns), MAX_MEASURED_COLUMNS // 2)
    by_group = variances_of(groups)
    variances = np.concatenate([np.full(len(group), value / len(group)) for group, value in zip(groups, by_group)])
    largest = np.argsort(-by_group, kind="stable")[: max(MAX_MEASURED_COLUMNS // 2 // len(groups[0]), 1)]
    columns = np.concatenate([groups[k] for k in largest])
    variances[columns] = variances_of(list(columns[:, None]))
    return variances


def needed_variance(quantiles: Floats, y: Floats, reference: Floats) -> float:
    """The smallest variance whose addition makes absolute conformity scores no larger than reference scores.

    ``reference`` has the quantiles of these at `MEASURED_LEVELS`.
    """
    needed = 0.0
    error = y - quantiles[:, MEDIAN]
    for level, score in zip(MEASURED_LEVELS, np.maximum(reference, 0.05)):
        # With added variance v a row has this score if error² = (distance of its quantile at the score)² + score² v.
        at_score = value_at(quantiles, POSITIONS, np.copysign(score, error)[:, None])[:, 0] - quantiles[:, MEDIAN]
        needed = max(needed, float(np.quantile((error**2 - at_score**2) / score**2, level)))
    return needed
