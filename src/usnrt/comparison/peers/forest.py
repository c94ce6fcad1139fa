"""Quantile regression forests (the quantile-forest package) with this library's interface."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from usnrt.comparison.peers.base import LEVELS, TINY, import_optional
from usnrt.comparison.quantiles import InterpolatedQuantiles, separated
from usnrt.estimators.base import DistributionalRegressor
from usnrt.tables.training import DistinctRows
from usnrt.utils.constraints import Number, check_parameters, check_running, check_whole
from usnrt.utils.shared_docs import EVERY_MODEL, SharedDocs
from usnrt.utils.sklearn_trees import FlatForest


@dataclass(kw_only=True, eq=False, repr=False)
class QuantileForestRegressor(SharedDocs, DistributionalRegressor):
    """Quantile regression forest: every tree predicts one training target of the row's leaf, drawn at random.

    The distribution is that of `InterpolatedQuantiles` with the quantiles of these targets at 21 levels. A forest needs
    no early stopping, so it is fitted to all rows. Categories are one-hot encoded.

    Parameters
    ----------
    n_estimators : int, default=500
        Number of trees, and of the targets behind each prediction.
    min_samples_leaf : int, default=5
    max_features : float, default=0.5
        Fraction of the features considered for each split, in (0, 1].
    {shared}

    Attributes
    ----------
    forest_ : FlatForest
        The trees in flat arrays, with the drawn target of each leaf as its mean.
    """

    n_estimators: int = 500
    min_samples_leaf: int = 5
    max_features: float = 0.5
    categorical_features: Any = None
    random_state: Any = None
    n_jobs: int | None = -1

    _SHARED = EVERY_MODEL.lstrip()

    def _fit(self, rows: DistinctRows) -> None:
        table = self._scaled_table(rows)
        check_whole("n_estimators", self.n_estimators, 1)
        check_whole("min_samples_leaf", self.min_samples_leaf, 1)
        check_parameters({"max_features": self.max_features}, {"max_features": Number(0, 1, include_high=True)})
        check_running(self.n_jobs, 0, None)
        quantile_forest = import_optional("quantile_forest", self)
        model = quantile_forest.RandomForestQuantileRegressor(
            n_estimators=self.n_estimators,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            random_state=int(check_random_state(self.random_state).randint(2**31 - 1)),
            n_jobs=effective_n_jobs(self.n_jobs),
        )
        model.fit(table.inputs, table.y, sample_weight=table.weight)
        self.forest_ = with_drawn_targets(model)

    def _distribution(self, raw: NDArray[np.float64]) -> InterpolatedQuantiles:
        leaf_targets = self.forest_.leaf_means(self.inputs_.transform(raw), effective_n_jobs(self.n_jobs))
        return InterpolatedQuantiles(LEVELS, separated(np.quantile(leaf_targets, LEVELS, axis=1).T, TINY))


def with_drawn_targets(model: Any) -> FlatForest:
    """The trees of a fitted ``RandomForestQuantileRegressor`` with the target drawn in each leaf as its mean."""
    forest = FlatForest.of(model.estimators_)
    targets = np.asarray(model.forest_.y_train)[0]  # in increasing order
    # tree x node: position in the targets, counted from 1 on; 0 at inner nodes
    drawn = np.asarray(model.forest_.y_train_leaves)[:, :, 0, 0]
    sizes = np.diff(np.append(forest.root, len(forest.mean)))
    positions = np.concatenate([drawn[tree, :size] for tree, size in enumerate(sizes)])
    return replace(forest, mean=targets[np.maximum(positions - 1, 0)])
