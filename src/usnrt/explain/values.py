"""Mean and standard deviation of encoded rows, as the functions that explanations divide among the features."""

from copy import copy

import numpy as np

from usnrt.estimators.base import DistributionalRegressor
from usnrt.estimators.calibrated import CalibratedRegressor
from usnrt.estimators.supported import SupportedRegressor
from usnrt.utils.types import Floats


class Moments:
    """Predicted mean and standard deviation, without what depends on whether a row resembles training rows.

    Explanations predict mixtures of rows, most of which resemble no training row. Their distributions must not be
    widened for this reason, or every feature would seem to make rows more uncertain. What support means for the row to
    explain is reported separately.

    Parameters
    ----------
    model : DistributionalRegressor
        A fitted model.
    """

    def __init__(self, model: DistributionalRegressor) -> None:
        self._support = model.support_ if isinstance(model, SupportedRegressor) else None
        self._model = copy(model)
        if isinstance(self._model, SupportedRegressor):
            self._model.support_ = None
        if isinstance(self._model, CalibratedRegressor):
            self._model.familiar_ = None

    def __call__(self, raw: Floats) -> Floats:
        """Mean and standard deviation in units of the target, shape (n, 2)."""
        model = self._model
        dist = model._in_units(model._without_parts(raw))
        return np.column_stack([dist.mean(), dist.std()])

    def nearest_supported(self, raw: Floats) -> Floats:
        """The rows with numbers clipped to the ranges of their regions, where models that widen evaluate networks."""
        if self._support is None or not self._support.widens or not isinstance(self._model, SupportedRegressor):
            return raw
        return self._support.clamp(raw, self._support.measure(raw, self._model.tree_.leaf_of(raw)))


def players_of(model: DistributionalRegressor) -> list[list[int]]:
    """The encoded columns of each column of the user's table: one, or the calendar parts of a date."""
    players: list[list[int]] = [[] for _ in model.encoder_.source_names_]
    for position, column in enumerate(model.encoder_.columns_):
        players[column.source_index].append(position)
    return players
