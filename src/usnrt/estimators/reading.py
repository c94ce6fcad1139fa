"""Reading tables and targets for a fit, encoding rows for predictions, and scaling the target."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted

from usnrt.estimators.targets import TargetScale, check_target, read_target
from usnrt.tables import Column, NetworkInputs, TableEncoder, read_table
from usnrt.tables.dask_rows import is_dask
from usnrt.tables.fingerprint import fingerprint
from usnrt.tables.group_labels import check_codes_differ
from usnrt.tables.groups import groups_and_table, read_groups, warn_of_blocks
from usnrt.tables.reading import FeatureTable
from usnrt.tables.rows import counted_weight
from usnrt.tables.target_notices import warn_of_target
from usnrt.tables.time import read_time, time_position
from usnrt.tables.training import DistinctRows, TrainingTable, distinct_rows
from usnrt.utils.arrays import plain_array
from usnrt.utils.types import Floats
from usnrt.utils.weights import check_total_weight

if TYPE_CHECKING:
    from usnrt.distributions import Distribution, TargetMap

# Deviations of the target from its mean, at least: those of smaller ones are subnormal numbers, of few digits.
MIN_SPREAD = 1e-290


class TableReader(BaseEstimator):
    """An estimator that reads tables: it keeps their encoding and the scale of the target."""

    categorical_features: Any = None
    # Name of the target, from the Series that was fitted or set by the caller; shown by reports and the command line.
    target_name_: str | None = None
    # From the scale that the networks learn to the target, before scaling; None for the identity without bounds.
    target_map_: "TargetMap | None" = None
    # Mean and standard deviation of the training targets if the target is mapped, else None.
    target_moments_: tuple[float, float] | None = None

    def _parameter(self, name: str) -> Any:
        """A parameter about the table, None if the estimator does not have it; ensembles share it with members."""
        return getattr(self, name, None)

    def _read_rows(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, groups: Any = None) -> DistinctRows:
        """Encode a table, and merge its equal rows."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        X, groups = groups_and_table(X, groups)
        features = read_table(self, X, reset=True)
        target = read_target(y)
        check_consistent_length(X, target)
        check_target(target, self._parameter("target_bounds"), self._parameter("target_transform"))
        if len(target) < 2:
            raise ValueError(f"{type(self).__name__} needs at least 2 rows, got n_samples={len(target)}")
        sample_weight = plain_array(sample_weight, "sample_weight")
        weight = _check_sample_weight(sample_weight, target, dtype=np.float64, ensure_non_negative=True)
        if not weight.any():
            raise ValueError("sample_weight must be positive for at least one row, got only zeros")
        check_total_weight(weight, "sample_weight")
        column = self._parameter("time_column")
        position = None if column is None else time_position(column, features)
        encoder = TableEncoder().fit(features, self._parameter("categorical_features"), position)
        time = None if position is None else _read_time(encoder, features, position)
        raw = encoder.transform(features)
        if np.count_nonzero(weight) < 2 and weight.sum() < 2:
            raise ValueError(f"{type(self).__name__} needs at least 2 rows with a positive weight, got 1")
        given = None if groups is None else read_groups(groups, len(target))
        if given is not None and time is not None:
            raise ValueError("groups cannot be combined with time_column: validation rows are the latest")
        rows = distinct_rows(raw, target, counted_weight(weight), time, given)
        if rows.has_groups and rows.group is not None:  # of the rows that have a weight
            check_codes_differ(int(rows.group.min()), int(rows.group.max()))
        self.encoder_ = encoder
        name = getattr(y, "name", None)
        self.target_name_ = name if isinstance(name, str) else None
        warn_of_target(rows.target, rows.raw, encoder.columns_, rows.position)
        self.fingerprint_ = fingerprint(rows.raw, rows.target, rows.weight)  # of the rows that have a weight
        if time is None and not rows.has_groups:
            warn_of_blocks(rows.raw, [column.name for column in encoder.columns_])
        return rows

    def _scaled_table(self, rows: DistinctRows) -> TrainingTable:
        """Fit the scaling of network inputs and target on these rows, and apply it to them."""
        raw, weight = rows.raw, rows.weight
        target, self.target_moments_ = rows.target, None
        if self.target_map_ is not None:
            mean = float(np.average(target, weights=weight))
            self.target_moments_ = mean, float(np.sqrt(np.average((target - mean) ** 2, weights=weight)))
            target = self.target_map_.to_model(target)
        self.inputs_ = NetworkInputs().fit(raw, self.encoder_.columns_, sample_weight=weight)
        self.target_mean_ = float(np.average(target, weights=weight))
        deviation = target - self.target_mean_
        largest = float(np.abs(deviation).max())
        # The standard deviation of a constant target is tiny but positive, so that densities are finite.
        if largest <= 1e-12 * abs(self.target_mean_):
            # That of zeros is far from the smallest number: other targets, in a calibration, are multiples of it.
            self.target_std_ = max(1e-12 * abs(self.target_mean_), 1e-100) if self.target_mean_ else 1e-50
            scaled = np.zeros_like(target)
        else:
            if largest < MIN_SPREAD:
                raise ValueError(
                    f"y must differ by at least {MIN_SPREAD:g}, got {largest:.2g}; multiply it by a constant"
                )
            # divided before squaring, so that squares of huge numbers do not overflow
            self.target_std_ = largest * float(np.sqrt(np.average((deviation / largest) ** 2, weights=weight)))
            scaled = deviation / self.target_std_
        inputs = self.inputs_.transform(raw)
        return TrainingTable(raw, inputs, scaled, weight, group=rows.group, has_groups=rows.has_groups)

    def _encode(self, X: Any) -> NDArray[np.float64]:
        if not hasattr(self, "encoder_"):
            check_is_fitted(self)
        if isinstance(X, str | os.PathLike):
            raise TypeError(f"predict_table and predict_blocks take files, this takes a table in memory, got {X!r}")
        if is_dask(X):
            raise TypeError("predict and predict_table take Dask collections, this takes a table in memory")
        return self.encoder_.transform(read_table(self, X, reset=False))

    def _to_model(self, target: Floats) -> Floats:
        """Scaled targets, as the networks predict them."""
        return self._target_scale()(target)

    def _target_scale(self) -> TargetScale:
        return TargetScale(self.target_mean_, self.target_std_, self.target_map_)

    def _to_target(self, scaled: Floats) -> Floats:
        """Values in units of the target, within its bounds, from scaled ones."""
        values = self.target_mean_ + self.target_std_ * scaled
        return values if self.target_map_ is None else self.target_map_.to_target(values)

    def _in_units(self, dist: "Distribution") -> "Distribution":
        """Distributions of the target from those of the scaled target."""
        dist = dist.scaled(self.target_mean_, self.target_std_)
        if self.target_map_ is None:
            return dist
        from usnrt.distributions import TransformedDistribution

        return TransformedDistribution(dist, self.target_map_)

    @property
    def columns_(self) -> list[Column]:
        """Name, kind and categories of each column."""
        return self.encoder_.columns_


def _read_time(encoder: TableEncoder, features: FeatureTable, position: int) -> Floats:
    """The time of each row, at least two different ones."""
    name = features.names[position]
    time = read_time(encoder._checked(features.column(position), position), name)
    if time.min() == time.max():
        raise ValueError(f"time_column must have at least two different values, got {name!r}")
    return time
