"""Mean and standard deviation of encoded rows, as the functions that explanations divide among the features."""

import numpy as np

from usnrt.estimators.base import DistributionalRegressor
from usnrt.estimators.tree_regressor import TreeRegressor
from usnrt.model.fitted import Stage
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
        self._model = model

    def __call__(self, raw: Floats) -> Floats:
        """Mean and standard deviation in units of the target, shape (n, 2)."""
        if isinstance(self._model, TreeRegressor):
            model, n_threads = self._model.model_, self._model._n_threads(len(raw))
            dist = model.distribution(model.predict(raw, Stage.NONE, n_threads), parts=False, n_threads=n_threads)
        else:
            dist = self._model._predict_dist(raw, parts=False)
        return np.column_stack([dist.mean(), dist.std()])

    def nearest_supported(self, raw: Floats) -> Floats:
        """The rows with numbers clipped to the ranges of their regions, where models that widen evaluate networks."""
        if not isinstance(self._model, TreeRegressor) or not self._model.model_.support.widens:
            return raw
        model = self._model.model_
        return model.support.clamp(raw, model.measured_support(raw))


def feature_groups(model: DistributionalRegressor) -> list[list[int]]:
    """The encoded columns of each column of the user's table: one, or the calendar parts of a date."""
    groups: list[list[int]] = [[] for _ in model.encoder_.source_names_]
    for position, column in enumerate(model.encoder_.columns_):
        groups[column.source_index].append(position)
    return groups
