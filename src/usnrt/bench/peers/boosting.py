"""CatBoost, NGBoost and LightGBM with this library's interface, each in its usual configuration."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from usnrt.baselines._trees import FlatForest
from usnrt.bench.peers._shared import TINY, BoostingPeer, import_optional
from usnrt.bench.peers.quantiles import InterpolatedQuantiles, check_levels, separated
from usnrt.distributions import Distribution, Normal
from usnrt.tables.training import TrainingTable
from usnrt.utils.checks import check_whole


@dataclass(kw_only=True, eq=False, repr=False)
class CatBoostRegressor(BoostingPeer):
    """CatBoost with the loss ``RMSEWithUncertainty``: mean and variance of a normal distribution, boosted together.

    Categories are passed to CatBoost as such.

    Parameters
    ----------
    n_estimators : int, default=2000
        Maximum number of boosting rounds.
    learning_rate : float, default=0.05
    max_depth : int, default=6
    {shared}

    Attributes
    ----------
    model_ : ndarray of uint8
        The model in CatBoost's own format.

    Examples
    --------
    >>> from usnrt.bench.peers import CatBoostRegressor
    >>> from usnrt.datasets import make_heteroscedastic
    >>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
    >>> model = CatBoostRegressor(n_estimators=50, random_state=0).fit(data.data, data.target)
    >>> model.predict_dist(data.data)
    <Normal of 500 rows>
    """

    max_depth: int = 6

    def _check(self) -> None:
        check_whole("max_depth", self.max_depth, 1, 16)

    def _loss(self) -> dict[str, Any]:
        """Settings of CatBoost for the loss."""
        return {"loss_function": "RMSEWithUncertainty"}

    def _boost(self, table: TrainingTable, train: NDArray[np.intp], valid: NDArray[np.intp], seed: int) -> None:
        catboost = import_optional("catboost", "catboost", self)
        model = catboost.CatBoost(
            {
                **self._loss(),
                "iterations": self.n_estimators,
                "learning_rate": self.learning_rate,
                "depth": self.max_depth,
                **self._stopping(),
                "random_seed": seed,
                "thread_count": effective_n_jobs(self.n_jobs),
                "allow_writing_files": False,
                "allow_const_label": True,
                "logging_level": "Verbose" if self.verbose else "Silent",
            }
        )
        pools = [
            catboost.Pool(self._features(table.raw[rows]), table.y[rows], weight=table.weight[rows])
            for rows in (train, valid)
        ]
        model.fit(pools[0], eval_set=pools[1])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.cbm"
            model.save_model(str(path))
            self.model_ = np.frombuffer(path.read_bytes(), dtype=np.uint8)

    def _stopping(self) -> dict[str, Any]:
        if self.early_stopping_rounds is None:
            return {"use_best_model": False}
        return {"od_type": "Iter", "od_wait": self.early_stopping_rounds, "use_best_model": True}

    def _features(self, raw: NDArray[np.float64]) -> Any:
        catboost = import_optional("catboost", "catboost", self)
        is_category = self.encoder_.n_categories_ > 0
        numbers = np.ascontiguousarray(raw[:, ~is_category], dtype=np.float32)
        labels = np.nan_to_num(raw[:, is_category], nan=-2.0).astype(np.int64).astype("S").astype(object)
        return catboost.FeaturesData(
            num_feature_data=None if is_category.all() else numbers,
            cat_feature_data=labels if is_category.any() else None,
        )

    def _outputs(self, raw: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
        """CatBoost's prediction of a type, shape (n, n_outputs)."""
        catboost = import_optional("catboost", "catboost", self)
        model = catboost.CatBoost().load_model(blob=self.model_.tobytes())
        n_threads = effective_n_jobs(self.n_jobs)
        return np.asarray(model.predict(self._features(raw), prediction_type=kind, thread_count=n_threads))

    def _predict_scaled(self, raw: NDArray[np.float64]) -> Distribution:
        mean, variance = self._outputs(raw, "RMSEWithUncertainty").T
        variance = np.maximum(variance, TINY**2)
        return Normal(mean, np.sqrt(variance)).with_parts(variance, None)


@dataclass(kw_only=True, eq=False, repr=False)
class NGBoostRegressor(BoostingPeer):
    """NGBoost: mean and log standard deviation of a normal distribution, boosted along the natural gradient.

    Categories are one-hot encoded. NGBoost uses one thread.

    Parameters
    ----------
    n_estimators : int, default=2000
        Maximum number of boosting rounds.
    learning_rate : float, default=0.05
    {shared}

    Attributes
    ----------
    start_ : ndarray of shape (2,)
        Mean and logarithm of the standard deviation before the first round.
    forests_ : list of FlatForest
        The trees of the mean and of the log standard deviation, up to the best round.

    Examples
    --------
    >>> from usnrt.bench.peers import NGBoostRegressor
    >>> from usnrt.datasets import make_heteroscedastic
    >>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
    >>> model = NGBoostRegressor(n_estimators=20, random_state=0).fit(data.data, data.target)
    >>> model.predict_dist(data.data)
    <Normal of 500 rows>
    """

    def _boost(self, table: TrainingTable, train: NDArray[np.intp], valid: NDArray[np.intp], seed: int) -> None:
        ngboost = import_optional("ngboost", "ngboost", self)
        model = ngboost.NGBRegressor(
            Base=DecisionTreeRegressor(max_depth=3, random_state=seed),  # NGBoost's default, but seeded
            n_estimators=self.n_estimators,
            learning_rate=self.learning_rate,
            random_state=seed,
            verbose=bool(self.verbose),
        )
        model.fit(
            table.inputs[train],
            table.y[train],
            X_val=table.inputs[valid],
            Y_val=table.y[valid],
            sample_weight=table.weight[train],
            val_sample_weight=table.weight[valid],
            early_stopping_rounds=self.early_stopping_rounds,
        )
        stopped = self.early_stopping_rounds is not None
        n_rounds = model.best_val_loss_itr + 1 if stopped else len(model.base_models)
        self.start_ = np.asarray(model.init_params, dtype=np.float64)
        factors = -self.learning_rate * np.array(model.scalings[:n_rounds], dtype=np.float64)
        rounds = model.base_models[:n_rounds]
        self.forests_ = [_as_sum([trees[k] for trees in rounds], factors) for k in range(2)]

    def _predict_scaled(self, raw: NDArray[np.float64]) -> Normal:
        inputs = self.inputs_.transform(raw)
        n_threads = effective_n_jobs(self.n_jobs)
        mean, log_std = (
            start + forest.moments(inputs, n_threads=n_threads)[0, 0, 0]
            for start, forest in zip(self.start_, self.forests_)
        )
        std = np.exp(np.clip(log_std, np.log(TINY), 50.0))
        return Normal(mean, std).with_parts(std**2, None)


def _as_sum(trees: Sequence[Any], factors: NDArray[np.float64]) -> FlatForest:
    """A forest whose mean over the trees is the sum of the trees times their factors."""
    forest = FlatForest.of(trees)
    sizes = np.diff(np.append(forest.root, len(forest.mean)))
    return replace(forest, mean=forest.mean * np.repeat(factors * len(trees), sizes))


@dataclass(kw_only=True, eq=False, repr=False)
class LightGBMQuantileRegressor(BoostingPeer):
    """LightGBM quantile regression: one model per level, each with early stopping by its own loss.

    Crossing quantiles are sorted; the distribution between them is that of `InterpolatedQuantiles`. Categories are
    passed to LightGBM as such.

    Parameters
    ----------
    n_estimators : int, default=2000
        Maximum number of boosting rounds of each level.
    learning_rate : float, default=0.05
    num_leaves : int, default=31
    levels : sequence of float, default=(0.01, 0.05, 0.1, ..., 0.95, 0.99)
        Levels of the quantiles; 21 by default.
    {shared}

    Attributes
    ----------
    models_ : list of str
        The models in LightGBM's own format, one per level.

    Examples
    --------
    >>> from usnrt.bench.peers import LightGBMQuantileRegressor
    >>> from usnrt.datasets import make_heteroscedastic
    >>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
    >>> model = LightGBMQuantileRegressor(n_estimators=20, random_state=0, n_jobs=1).fit(data.data, data.target)
    >>> model.predict_dist(data.data)
    <InterpolatedQuantiles of 500 rows>
    """

    num_leaves: int = 31
    levels: Sequence[float] = (0.01, *(round(0.05 * i, 2) for i in range(1, 20)), 0.99)

    def _check(self) -> None:
        check_whole("num_leaves", self.num_leaves, 2)
        check_levels(self.levels)

    def _more_settings(self) -> dict[str, Any]:
        """Settings of LightGBM beyond the number and the leaves of the trees."""
        return {}

    def _boost(self, table: TrainingTable, train: NDArray[np.intp], valid: NDArray[np.intp], seed: int) -> None:
        lightgbm = import_optional("lightgbm", "lightgbm", self)
        categories = np.flatnonzero(self.encoder_.n_categories_ > 0).tolist()
        settings = {
            "objective": "quantile",
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "num_threads": effective_n_jobs(self.n_jobs),
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": 1 if self.verbose else -1,
            **self._more_settings(),
        }
        data = lightgbm.Dataset(
            table.raw[train],
            table.y[train],
            weight=table.weight[train],
            categorical_feature=categories,
            params=settings,
        )
        check = lightgbm.Dataset(table.raw[valid], table.y[valid], weight=table.weight[valid], reference=data)
        self.models_ = []
        for level in self.levels:
            stopping: dict[str, Any] = {}
            if self.early_stopping_rounds is not None:
                stop = lightgbm.early_stopping(self.early_stopping_rounds, verbose=bool(self.verbose))
                stopping = {"valid_sets": [check], "callbacks": [stop]}
            booster = lightgbm.train({**settings, "alpha": float(level)}, data, self.n_estimators, **stopping)
            self.models_.append(booster.model_to_string(num_iteration=booster.best_iteration))

    def _predict_scaled(self, raw: NDArray[np.float64]) -> InterpolatedQuantiles:
        lightgbm = import_optional("lightgbm", "lightgbm", self)
        n_threads = effective_n_jobs(self.n_jobs)
        values = np.column_stack(
            [lightgbm.Booster(model_str=text).predict(raw, num_threads=n_threads) for text in self.models_]
        )
        return InterpolatedQuantiles(self.levels, separated(values, TINY))
