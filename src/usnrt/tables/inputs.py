"""Network inputs from encoded tables: scaled numbers, one-hot categories, no missing values."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.tables.columns import Column
from usnrt.utils.types import Floats

MAX_LEVELS = 100  # one-hot columns per feature; rarer categories share the last one
MAX_SCALED = 1e6
BLOCK = 4096  # rows scaled at a time
# A column is skewed if 99 % of its distinct values range over this many times the middle half of them (3.8 if normal).
SKEWED = 8.0
# Positions on the normal scale between which ranks of a skewed column are interpolated.
RANK_POSITIONS: Floats = np.linspace(-2.75, 2.75, 23)
# Distinct values that are too few for ranks, values that are enough, and values whose differences may overflow.
MIN_RANKED, MAX_RANKED, MAX_RANKED_VALUE = 20, 65_536, 1e150


class NetworkInputs:
    """Scaling, one-hot encoding and missing-value indicators, learned from the training rows.

    A numeric column becomes ``(x - mean) / std``, 0 for missing values; a constant one becomes 0. In a skewed column
    (see `SKEWED`) x is first replaced by its rank on the normal scale, interpolated between few knots, so that neither
    units nor logarithms matter; beyond the outer knots it is linear. A categorical column
    becomes one indicator column per category, all 0 for a category unseen in training. A column with missing values in
    training gets a missing-value indicator. If a feature has more than 100 categories, the 99 most frequent have a
    column each and the others share one.

    Attributes
    ----------
    n_outputs_ : int
        Number of network inputs, p.
    source_ : ndarray of int of shape (p,)
        Position of the encoded column of each network input.
    names_ : list of str
        Names of the network inputs, e.g. ``"age"``, ``"size = large"``, ``"age missing"``.
    mean_, factor_ : ndarray of shape (n_encoded,)
        A numeric column is scaled to ``(x - mean) * factor``; the factor is 0 for constant columns.
    knots_ : list of ndarray of shape (k, 2)
        For each encoded column, values and their ranks on the normal scale; empty for columns that are not skewed.
    level_ : list of ndarray of int
        For each encoded column, the one-hot column of each category code; empty for numeric columns.
    indicator_ : ndarray of bool of shape (n_encoded,)
        Whether each encoded column has a missing-value indicator.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tables import NetworkInputs, TableEncoder
    >>> X = np.array([[1.0, "b"], [3.0, "a"], [None, "b"]], dtype=object)
    >>> encoder = TableEncoder().fit(X)
    >>> inputs = NetworkInputs().fit(encoder.transform(X), encoder.columns_)
    >>> inputs.names_
    ['x0', 'x0 missing', 'x1 = a', 'x1 = b']
    >>> inputs.transform(encoder.transform(X))
    array([[-1.,  0.,  0.,  1.],
           [ 1.,  0.,  1.,  0.],
           [ 0.,  1.,  0.,  1.]], dtype=float32)
    """

    n_outputs_: int
    source_: NDArray[np.int64]
    names_: list[str]
    mean_: Floats
    factor_: Floats
    knots_: list[Floats]
    level_: list[NDArray[np.int64]]
    indicator_: NDArray[np.bool_]

    def fit(
        self,
        raw: Floats,
        columns: Sequence[Column],
        sample_weight: ArrayLike | None = None,
        ranks_if_skewed: bool = True,
    ) -> "NetworkInputs":
        """Learn the scaling from training rows.

        Parameters
        ----------
        raw : ndarray of shape (n_rows, n_encoded)
            From `TableEncoder.transform`.
        columns : sequence of Column
            ``columns_`` of the encoder.
        sample_weight : array-like of shape (n_rows,), optional
        ranks_if_skewed : bool, default=True
            False for models of the paper and its baselines, which scale all numbers.
        """
        weight = np.ones(len(raw)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        mean, factor = np.zeros(len(columns)), np.zeros(len(columns))
        knots = [np.zeros((0, 2)) for _ in columns]
        levels: list[NDArray[np.int64]] = []
        source: list[int] = []
        names: list[str] = []
        indicator = np.zeros(len(columns), dtype=bool)
        for position, column in enumerate(columns):
            values = raw[:, position]
            present = ~np.isnan(values)
            if column.is_categorical:
                level, labels = _levels(values[present], weight[present], column)
                levels.append(level)
                names += [f"{column.name} = {label}" for label in labels]
                source += [position] * len(labels)
            else:
                levels.append(np.zeros(0, dtype=np.int64))
                own, own_weight = values[present], weight[present]
                if ranks_if_skewed:
                    knots[position] = _knots(own)
                mean[position], factor[position] = _scaling(_ranked(own, knots[position]), own_weight)
                names.append(column.name)
                source.append(position)
            indicator[position] = not present.all()
            if indicator[position]:
                names.append(f"{column.name} missing")
                source.append(position)
        self.mean_, self.factor_, self.knots_, self.level_, self.indicator_ = mean, factor, knots, levels, indicator
        self.names_, self.source_, self.n_outputs_ = names, np.array(source, dtype=np.int64), len(names)
        return self

    def transform(self, raw: Floats) -> NDArray[np.float32]:
        """Network inputs of encoded rows, shape (n_rows, p)."""
        if self.n_outputs_ == raw.shape[1] and not self.indicator_.any() and not any(map(len, self.level_)):
            return self._scaled_blocks(raw)
        result = np.zeros((len(raw), self.n_outputs_), dtype=np.float32)
        rows = np.arange(len(raw))
        column = 0
        for position, level in enumerate(self.level_):
            values = raw[:, position]
            missing = np.isnan(values)
            if self._is_categorical(position):
                width = int(level.max(initial=-1)) + 1
                known = ~missing & (values >= 0)
                result[rows[known], column + level[values[known].astype(np.int64)]] = 1.0
                column += width
            else:
                ranked = _ranked(values, self.knots_[position])
                result[:, column] = _scaled(ranked, self.mean_[position], self.factor_[position])
                column += 1
            if self.indicator_[position]:
                result[:, column] = missing
                column += 1
        return result

    @property
    def numeric_(self) -> NDArray[np.int64]:
        """Positions of the network inputs that are scaled numbers."""
        first = np.searchsorted(self.source_, np.arange(len(self.level_)))
        return np.array([first[j] for j in range(len(self.level_)) if not self._is_categorical(j)], dtype=np.int64)

    def _is_categorical(self, position: int) -> bool:
        return len(self.level_[position]) > 0

    def _scaled_blocks(self, raw: Floats) -> NDArray[np.float32]:
        """Scale a table block by block: temporaries of a million rows would cost more than the arithmetic."""
        result = np.empty(raw.shape, dtype=np.float32)
        skewed = [position for position, knots in enumerate(self.knots_) if len(knots)]
        for start in range(0, len(raw), BLOCK):
            block = raw[start : start + BLOCK]
            if skewed:
                block = block.copy()
            for position in skewed:
                block[:, position] = _ranked(block[:, position], self.knots_[position])
            result[start : start + BLOCK] = _scaled(block, self.mean_, self.factor_)
        return result


def _knots(values: Floats) -> Floats:
    """Values of a skewed column and their ranks on the normal scale, shape (k, 2); none of another column.

    Distinct values have ranks: of a column that is mostly 0, only the shape of the others counts.
    """
    distinct = np.unique(values[:: max(1, len(values) // MAX_RANKED)])
    nothing = np.zeros((0, 2))
    if len(distinct) < MIN_RANKED or max(-distinct[0], distinct[-1]) > MAX_RANKED_VALUE:
        return nothing
    low, first, third, high = np.quantile(distinct, [0.005, 0.25, 0.75, 0.995])
    if not high - low > SKEWED * (third - first):
        return nothing
    from scipy.special import ndtri  # here: the commands import this module for their help

    rank = ndtri((np.arange(len(distinct)) + 0.5) / len(distinct))
    positions = np.unique(np.concatenate([rank[[0, -1]], np.clip(RANK_POSITIONS, rank[0], rank[-1])]))
    knots: Floats = np.stack([np.interp(positions, rank, distinct), positions], axis=1)
    knots = knots[np.diff(knots[:, 0], prepend=-np.inf) > 1e-12 * (high - low)]
    return knots


def _ranked(values: Floats, knots: Floats) -> Floats:
    """Ranks of values, interpolated between knots, whose outer lines go on; the values themselves without knots."""
    if len(knots) < 2:
        return values
    value, rank = knots.T
    slope = np.diff(rank) / np.diff(value)
    at = np.clip(np.searchsorted(value, values, side="right") - 1, 0, len(slope) - 1)
    with np.errstate(over="ignore"):
        ranked: Floats = rank[at] + (values - value[at]) * slope[at]
    return ranked


def _scaled(values: Floats, mean: Floats | float, factor: Floats | float) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite distance times the 0 of a constant column
        scaled: Floats = (values - mean) * factor
    # A bound far outside of any training data: float32 products of larger inputs would overflow to NaN.
    np.clip(scaled, -MAX_SCALED, MAX_SCALED, out=scaled)
    if np.isnan(scaled.sum()):  # the sum of bounded numbers is NaN only if one of them is
        scaled[np.isnan(scaled)] = 0.0
    return scaled


def _scaling(values: Floats, weight: Floats) -> tuple[float, float]:
    """Weighted mean and 1 / std; the latter is 0 for a constant column, which then scales to 0."""
    total = weight.sum()
    if total <= 0 or values.size == 0:
        return 0.0, 0.0
    if np.abs(values).max() > 1e300:  # differences of numbers near the largest float would overflow
        mean, factor = _scaling(values * 1e-10, weight)
        return mean * 1e10, factor * 1e-10
    middle = values.min() / 2 + values.max() / 2
    mean = middle + float(np.sum((values - middle) * (weight / total)))
    spread = np.abs(values - mean).max()
    if spread <= 4 * np.finfo(np.float64).eps * np.abs(values).max():
        return float(mean), 0.0
    std = spread * float(np.sqrt(np.sum(((values - mean) / spread) ** 2 * (weight / total))))
    return float(mean), 1 / std if std > 1e-307 else 0.0


def _levels(values: Floats, weight: Floats, column: Column) -> tuple[NDArray[np.int64], list[str]]:
    """One-hot column of each category, and the labels of those columns."""
    n = column.n_categories
    if n <= MAX_LEVELS:
        return np.arange(n, dtype=np.int64), list(column.categories)
    counts = np.bincount(values[values >= 0].astype(np.int64), weights=weight[values >= 0], minlength=n)
    kept = np.sort(np.argsort(-counts, kind="stable")[: MAX_LEVELS - 1])
    level = np.full(n, MAX_LEVELS - 1, dtype=np.int64)
    level[kept] = np.arange(MAX_LEVELS - 1)
    return level, [*(column.categories[code] for code in kept), "(other)"]
