"""Random Forest and Extra Trees with a variance: within the leaves and between the trees."""

import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.utils import check_random_state

from usnrt.distributions import Distribution, Normal
from usnrt.estimators.base import DistributionalRegressor
from usnrt.paper.baselines._shared import MIN_ROWS_TO_CALIBRATE, max_likelihood_spread, stretched, validation_split
from usnrt.tables.training import DistinctRows, TrainingTable
from usnrt.utils.constraints import (
    CATEGORICAL_FEATURES,
    FLAG,
    JOBS,
    RANDOM_STATE,
    VERBOSITY,
    Constraint,
    Number,
    Optional,
    Whole,
    check_applies,
)
from usnrt.utils.progress import Progress
from usnrt.utils.result_table import Table
from usnrt.utils.shared_docs import EVERY_MODEL, SharedDocs
from usnrt.utils.sklearn_trees import NO_LIMIT, FlatForest
from usnrt.utils.types import Floats, Rows

# The grid of the paper; `max_features` is the share of the features that a split may choose from.
SEARCH_GRID: dict[str, tuple[Any, ...]] = {
    "n_estimators": (50, 100, 150, 200),
    "max_depth": (4, 6, 8, 10, 12),
    "max_features": (0.3, 0.5, 0.7, 0.9),
}

_SHARED_DOCS = (
    """\
Parameters
    ----------
    n_estimators : int, default=200
        Number of trees.
    max_depth : int, default=None
        The largest depth of a tree; None for no limit.
    max_features : float, default={model.max_features}
        Share of the features that each split may choose from, in (0, 1].
    min_samples_leaf : int, default={model.min_samples_leaf}
        The smallest number of rows in a leaf.
    min_variance : float, default=1e-6
        Lower bound on the variance of a leaf, for the target scaled to variance 1. The paper uses 0; then a row whose
        leaves all hold one value has a variance of 0.
    search : bool, default=False
        Whether to choose ``n_estimators``, ``max_depth`` and ``max_features`` from `SEARCH_GRID` by the likelihood
        of validation rows. Only 4 forests are grown for the 80 combinations: the first 50 trees of a forest of 200 are
        a forest of 50, and trees pruned at depth 4 are distributed like trees grown to depth 4, because a split does
        not depend on the nodes below it.
    calibrate : bool, default=True
        Whether to scale all distributions about their means by one factor, which maximises the likelihood of validation
        rows under a forest grown on the others.
    validation_fraction : float, default=0.2
        Share of the rows for validation in ``search`` and ``calibrate``; the final forest is grown on all rows."""
    + EVERY_MODEL
    + """
    verbose : int, default=0
        1 or more reports the progress of the fit.

    Attributes
    ----------
    forest_ : FlatForest
        The trees in flat arrays.
    chosen_ : dict
        ``n_estimators``, ``max_depth`` and ``max_features`` of the forest.
    spread_ : float
        Calibration factor on standard deviations.
    search_ : Table
        With ``search=True``, the negative log-likelihood ``nll`` of the validation rows for every combination."""
)


@dataclass(kw_only=True, eq=False, repr=False)
class ForestRegressor(SharedDocs, DistributionalRegressor):
    """Base of the forests: trees of scikit-learn, stored as flat arrays."""

    n_estimators: int = 200
    max_depth: int | None = None
    max_features: float = 0.5
    min_samples_leaf: int = 2
    min_variance: float = 1e-6
    search: bool = False
    calibrate: bool = True
    validation_fraction: float = 0.2
    categorical_features: Any = None
    random_state: Any = None
    n_jobs: int | None = -1
    verbose: int = 0

    _SHARED: ClassVar[str] = _SHARED_DOCS
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {
        "n_estimators": Whole(1),
        "max_depth": Optional(Whole(1)),
        "max_features": Number(0, 1, include_high=True),
        "min_samples_leaf": Whole(1),
        "min_variance": Number(0, np.inf, include_low=True),
        "search": FLAG,
        "calibrate": FLAG,
        "validation_fraction": Number(0, 1),
        "categorical_features": CATEGORICAL_FEATURES,
        "random_state": RANDOM_STATE,
        "n_jobs": JOBS,
        "verbose": VERBOSITY,
    }
    _FOREST: ClassVar[type] = RandomForestRegressor

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """The recipe of the USNRT paper: a search over its grid; ``changes`` override its parameters."""
        return cls(**{"search": True, "min_samples_leaf": 1, "min_variance": 0.0, "calibrate": False, **changes})

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in SEARCH_GRID:
            check_applies(self, name, search=False)
        check_applies(self, "validation_fraction", search=True, calibrate=True)

    def _fit(self, rows: DistinctRows) -> None:
        table = self._scaled_table(rows)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        progress = Progress(self.verbose)
        self.chosen_ = {name: getattr(self, name) for name in SEARCH_GRID}
        self.spread_ = 1.0
        if self.search:
            self.chosen_, self.spread_, self.search_ = self._validate_grid(table, SEARCH_GRID, seed, progress)
        elif self.calibrate:
            only = {name: (value,) for name, value in self.chosen_.items()}
            self.spread_ = self._validate_grid(table, only, seed, progress)[1]
        start = time.monotonic()
        self.forest_ = FlatForest.of(self._grow(table, np.arange(table.n_rows), seed, **self.chosen_))
        progress.node_done("forest", table.n_rows, f"grown in {time.monotonic() - start:.1f} s", is_leaf=False)

    def _grow(self, table: TrainingTable, rows: Rows, seed: int, **options: Any) -> list[Any]:
        forest = self._FOREST(
            **options, min_samples_leaf=self.min_samples_leaf, random_state=seed, n_jobs=effective_n_jobs(self.n_jobs)
        )
        forest.fit(table.inputs[rows], table.y[rows], sample_weight=table.weight[rows])
        return list(forest.estimators_)

    def _validate_grid(
        self, table: TrainingTable, grid: dict[str, tuple[Any, ...]], seed: int, progress: Progress
    ) -> tuple[dict[str, Any], float, Table]:
        """Evaluate all combinations of a grid by the likelihood of validation rows.

        Returns the best combination, its calibration factor, and the negative log-likelihood of each combination.
        """
        rng = np.random.default_rng(seed)
        rows, validation_rows = validation_split(table, self.validation_fraction, rng, self.calibrate)
        validation_rows = validation_rows if len(validation_rows) else rows
        y, weight = table.y[validation_rows], table.weight[validation_rows]
        counts, depths = grid["n_estimators"], grid["max_depth"]
        results: list[dict[str, Any]] = []
        for share in grid["max_features"]:
            trees = self._grow(table, rows, seed, n_estimators=counts[-1], max_depth=depths[-1], max_features=share)
            forest, limits = FlatForest.of(trees), [NO_LIMIT if depth is None else depth for depth in depths]
            moments = forest.moments(table.inputs[validation_rows], self.min_variance, limits, counts, self._n_threads)
            for (i, depth), (j, count) in itertools.product(enumerate(depths), enumerate(counts)):
                dist = _normal(*moments[i, j])
                nll = -float(np.average(dist.logpdf(y), weights=weight))
                tried = {"n_estimators": count, "max_depth": depth, "max_features": share}
                # With a variance of 0 the likelihood is 0 or infinite and must not be selected.
                results.append({**tried, "nll": nll if np.isfinite(nll) else np.inf, "dist": dist})
            best = min(results, key=lambda entry: entry["nll"])
            progress.node_done(f"max_features={share}", len(rows), f"best NLL so far {best['nll']:.4f}", is_leaf=False)
        enough = self.calibrate and len(validation_rows) >= MIN_ROWS_TO_CALIBRATE
        spread = max_likelihood_spread(best["dist"], y, weight) if enough else 1.0
        search = Table({name: [entry[name] for entry in results] for name in [*grid, "nll"]})
        return {name: best[name] for name in grid}, spread, search

    @property
    def _n_threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    def _distribution(self, raw: Floats) -> Distribution:
        moments = self.forest_.moments(self.inputs_.transform(raw), self.min_variance, n_threads=self._n_threads)
        return stretched(_normal(*moments[0, 0]), self.spread_)


def _normal(mean: Floats, within: Floats, between: Floats) -> Normal:
    """The law of total variance: variance within the leaves plus variance between the trees."""
    return Normal(mean, np.sqrt(within + between)).with_parts(within, between)


@dataclass(kw_only=True, eq=False, repr=False)
class RandomForestVarianceRegressor(ForestRegressor):
    r"""Random Forest with a variance, by the law of total variance over the trees of scikit-learn.

    .. math:: Var[y] = \tfrac1T \sum_t \sigma_t^2(x) + Var_t[\mu_t(x)]

    with the mean and the variance of the training rows in the leaf of each tree, as scikit-optimize's forests return
    with ``return_std=True``. The first part is called aleatoric here, the second epistemic.

    {shared}

    References
    ----------
    L. Breiman (2001): Random forests.

    Examples
    --------
    >>> from usnrt.paper.baselines import RandomForestVarianceRegressor
    >>> from usnrt.datasets import make_heteroscedastic
    >>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
    >>> model = RandomForestVarianceRegressor(n_estimators=50, random_state=0).fit(data.data, data.target)
    >>> mean, std = model.predict(data.data, return_std=True)
    >>> mean.shape, std.shape
    ((500,), (500,))
    """

    _FOREST: ClassVar[type] = RandomForestRegressor


@dataclass(kw_only=True, eq=False, repr=False)
class ExtraTreesVarianceRegressor(ForestRegressor):
    r"""Extremely randomised trees with a variance, by the law of total variance over the trees of scikit-learn.

    .. math:: Var[y] = \tfrac1T \sum_t \sigma_t^2(x) + Var_t[\mu_t(x)]

    Thresholds are drawn at random and every tree is grown on all rows; predictions are smoother than those of a Random
    Forest. The first part is called aleatoric here, the second epistemic.

    {shared}

    References
    ----------
    P. Geurts, D. Ernst, L. Wehenkel (2006): Extremely randomized trees.

    Examples
    --------
    >>> from usnrt.paper.baselines import ExtraTreesVarianceRegressor
    >>> from usnrt.datasets import make_heteroscedastic
    >>> data = make_heteroscedastic("jump", n_samples=500, random_state=0)
    >>> model = ExtraTreesVarianceRegressor(n_estimators=50, random_state=0).fit(data.data, data.target)
    >>> model.predict_quantiles(data.data, [0.1, 0.9]).shape
    (500, 2)
    """

    max_features: float = 1.0  # random thresholds decorrelate the trees enough

    _FOREST: ClassVar[type] = ExtraTreesRegressor
