"""USNRTRegressor: a tree of regions of different noise, each predicted by a network and a memory of similar rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from usnrt.estimators.convergence import warn_if_diverged
from usnrt.estimators.neighbors import RememberingRegressor
from usnrt.estimators.paper import PaperUSNRTRegressor
from usnrt.estimators.probe import choose_map
from usnrt.estimators.targets import candidate_maps, check_stored_target
from usnrt.tables.groups import draw_groups, feature_groups, warn_of_blocks
from usnrt.tables.roles import CALIBRATION, VALIDATION, RowRoles, units_of
from usnrt.tables.store import RowStore
from usnrt.tables.time import is_latest
from usnrt.tables.training import DistinctRows
from usnrt.tree.census import take_census
from usnrt.tree.fit import ColumnKinds, fit_quantile_tree
from usnrt.tree.model import TreeModel
from usnrt.tree.recipe import QuantileTreeRecipe, SplitRule
from usnrt.tree.streamed import StreamedRows, sample_size
from usnrt.tree.structure import Tree
from usnrt.utils.checks import check_applies
from usnrt.utils.constraints import (
    CATEGORICAL_FEATURES,
    RANDOM_STATE,
    TARGET_BOUNDS,
    TARGET_TRANSFORM,
    TIME_COLUMN,
    Callables,
    Choice,
    Constraint,
    Either,
    Flag,
    HiddenLayers,
    Jobs,
    Number,
    Optional,
    Verbosity,
    Whole,
)
from usnrt.utils.progress import Progress
from usnrt.utils.types import Floats, Rows

# Tables with fewer rows have no validation rows; all rows then serve both purposes.
MIN_ROWS_TO_VALIDATE = 5


class USNRTRegressor(RememberingRegressor):
    """Uncertainty-splitting neural regression tree.

    A tree splits the feature space where the residuals of a network differ most in spread, by the test of Brown and
    Forsythe (Levene's test about the medians, valid for skewed and discrete residuals) at every possible threshold. In
    every region the predictive distribution combines a quantile network, the same network guided by a memory of similar
    training rows, and the memory itself. Validation rows choose the weights and calibrate the distributions per region.

    The method is that of Ma, Yan and Zhang [1]_; `USNRTRegressor.paper` returns the estimator of the paper.
    docs/recipe.md describes how the two differ and what each difference is worth.

    Parameters
    ----------
    alpha : float, default=0.01
        A node is split if the p-value of its best split, multiplied by the number of splits tested, is at most this.
    max_leaves : int, default=10
        The largest number of regions: the smallest region has ``n / max_leaves`` of the n rows, and at least 1000 rows
        or a fifth of the table, whichever is less, but never fewer than 100. So tables of fewer than 200 rows are not
        split.
    min_samples_leaf : int, default=None
        The smallest weighted number of rows in a region; overrides ``max_leaves``. Both sides of a split also need
        2.5 sqrt(n) of the n rows that are tested; otherwise heavy-tailed residuals would be split more often than
        ``alpha`` allows.
    max_depth : int, default=None
        The largest depth of the tree; None for no limit.
    n_bins : int, default=16
        Networks also receive every number as its position in this many quantile bins (piecewise-linear encoding); 0
        for the scaled number only.
    hidden : sequence of int or str, default=(256, 128, 64)
        Hidden layers of the network; ``"8d"`` is eight times the number of features.
    memory : bool or "examples", default=True
        Whether the model remembers training rows: predictions then also use the targets of the most similar ones. Such
        a model, and its file, contains training data: the targets and a transformation of the features of up to 65,536
        rows, and for `explain` the features, without targets, of 32 rows per region. With ``"examples"`` it also
        contains the rows of the memory as they were given, in clear, so that `explain` shows them; predictions are the
        same. With False, `explain` compares rows with quantiles of each column instead of training rows.
    learning_rate : float, default=0.003
        Step size of Adam at the start; it falls to 0 along a cosine.
    max_epochs : int, default=300
        The largest number of epochs per training; large tables need fewer.
    validation_fraction : float, default=0.2
        Share of the rows for validation: for early stopping, split tests and calibration.
    calibration : {"region", "global", None}, default="region"
        Whether every region, or the whole table, has a residual distribution of its own; None for the distributions
        that the networks predict.
    calibration_fraction : float, default=0
        Share of the rows that are used for calibration only. The coverage of intervals is then guaranteed exactly. With
        0, calibration uses the validation rows, and the coverage is as good in practice, but not proven.
    target_bounds : pair of floats or None, default=None
        Lower and upper bound of the target, each a number or None: ``(0, None)`` for counts and prices. Means,
        quantiles, intervals and samples are within them; what the networks predict outside is a point mass at the
        bound. A share of the targets at a bound, such as zeros, is predicted as a point mass of that size.
    target_transform : {"log", "auto", None}, default=None
        ``"log"`` learns the logarithm of the target's distance from its lower bound (0 by default); beyond the largest
        target it continues linearly. Predictions, their mean included, are in units of the target. ``"auto"`` chooses
        between the logarithm and none by the CRPS of held-out rows, in units of the target, by small networks.
    time_column : str or int, default=None
        A column that orders the rows: validation rows and calibration rows are the latest. Of a date, the calendar
        parts of which the table spans two rounds are features; a number is not a feature.
    categorical_features : list of names or positions, or bool mask, default=None
        Columns of integer category codes. Text and category columns are always categorical.
    random_state : int, RandomState or None, default=None
        Seed; with an int the model is reproducible, bit for bit, whatever ``n_jobs`` is.
    n_jobs : int, default=-1
        Number of threads; -1 for all cores.
    verbose : int, default=0
        1 shows a progress bar, 2 adds details to a log.
    callbacks : list of callables, default=None
        Each is called with a `usnrt.utils.progress.FitEvent` after every epoch.

    Attributes
    ----------
    tree_ : Tree
        The tree in flat arrays: feature, threshold, left, right, n_rows, statistic, log10_p and more.
    model_ : TreeModel
        The tree with its networks.
    expert_weights_ : ndarray of shape (n_leaves, 3)
        Weights of the network, of the network guided by the memory, and of the memory in each region, left to right.
    row_positions_ : ndarray of int or None
        Positions in the table given to `fit` of the rows that the memory numbers, see `neighbors`.
    examples_ : list of ndarray or None
        With ``memory="examples"`` these rows as they were given, one array per column.
    background_ : ndarray of shape (n_leaves + 1, 32, n_encoded) or None
        Encoded rows of each region, and of the whole table, that `explain` compares rows with.
    calibration_ : Calibration or None
    target_map_ : TargetMap or None
        Bounds, logarithm and point masses of the target; None without any.
    n_leaves_ : int
        Number of regions.
    min_samples_leaf_ : float
        The smallest region that was allowed.
    heterogeneity_ : float
        Standard deviation of the logarithms of the regions' residual standard deviations (the paper's measure).
    history_ : list of dict of str to History
        Per node of the tree, the histories of its trainings by name.
    columns_ : list of Column
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Set if the table had column names.

    References
    ----------
    .. [1] W. Ma, X. Yan, K. Zhang: Improving Uncertainty Quantification of Variance Networks by Tree-Structured
       Learning.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt import USNRTRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (600, 2))
    >>> y = X[:, 1] + np.where(X[:, 0] > 0, 1.0, 0.1) * rng.normal(size=600)
    >>> model = USNRTRegressor(min_samples_leaf=200, max_epochs=30, random_state=0).fit(X, y)
    >>> model.n_leaves_
    2
    >>> mean, std = model.predict([[-0.5, 0.0], [0.5, 0.0]], return_std=True)
    >>> bool(std[1] > 3 * std[0])
    True
    """

    model_: TreeModel

    _RESUMABLE = True
    _TAKES_GROUPS = True
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {
        "alpha": Number(0, 1),
        "max_leaves": Whole(1),
        "min_samples_leaf": Optional(Whole(1)),
        "max_depth": Optional(Whole(0)),
        "n_bins": Whole(0),
        "hidden": HiddenLayers(),
        "memory": Either(Flag(), "examples"),
        "learning_rate": Number(0, np.inf),
        "max_epochs": Whole(1),
        "validation_fraction": Number(0, 1),
        "calibration": Optional(Choice(("region", "global"))),
        "calibration_fraction": Number(0, 1, include_low=True),
        "target_bounds": TARGET_BOUNDS,
        "target_transform": TARGET_TRANSFORM,
        "time_column": TIME_COLUMN,
        "categorical_features": CATEGORICAL_FEATURES,
        "random_state": RANDOM_STATE,
        "n_jobs": Jobs(),
        "verbose": Verbosity(),
        "callbacks": Callables(),
    }

    def __init__(
        self,
        *,
        alpha: float = 0.01,
        max_leaves: int = 10,
        min_samples_leaf: int | None = None,
        max_depth: int | None = None,
        n_bins: int = 16,
        hidden: Sequence[int | str] = (256, 128, 64),
        memory: bool | str = True,
        learning_rate: float = 0.003,
        max_epochs: int = 300,
        validation_fraction: float = 0.2,
        calibration: str | None = "region",
        calibration_fraction: float = 0.0,
        target_bounds: tuple[float | None, float | None] | None = None,
        target_transform: str | None = None,
        time_column: str | int | None = None,
        categorical_features: Any = None,
        random_state: Any = None,
        n_jobs: int | None = -1,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.alpha = alpha
        self.max_leaves = max_leaves
        self.min_samples_leaf = min_samples_leaf
        self.max_depth = max_depth
        self.n_bins = n_bins
        self.hidden = hidden
        self.memory = memory
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.calibration = calibration
        self.calibration_fraction = calibration_fraction
        self.target_bounds = target_bounds
        self.target_transform = target_transform
        self.time_column = time_column
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    @staticmethod
    def fast(**parameters: Any) -> "USNRTRegressor":
        """An estimator for a first look: a smaller network and a few epochs.

        Parameters
        ----------
        **parameters
            Of `USNRTRegressor`; they replace those of the preset.

        Examples
        --------
        >>> from usnrt import USNRTRegressor
        >>> USNRTRegressor.fast(max_leaves=5)
        USNRTRegressor(hidden=(128, 64), max_epochs=15, max_leaves=5)
        """
        return USNRTRegressor(**{"hidden": (128, 64), "max_epochs": 15, **parameters})

    @staticmethod
    def paper(**parameters: Any) -> PaperUSNRTRegressor:
        """The estimator of the paper; ``parameters`` are those of `PaperUSNRTRegressor`.

        Examples
        --------
        >>> from usnrt import USNRTRegressor
        >>> USNRTRegressor.paper(alpha=0.02)
        PaperUSNRTRegressor(alpha=0.02)
        """
        return PaperUSNRTRegressor(**parameters)

    # -- fitting -----------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_applies(self, "max_leaves", min_samples_leaf=None)
        check_applies(self, "calibration_fraction", calibration=("region", "global"))

    def _recipe(self) -> QuantileTreeRecipe:
        """The parameters that determine the fitted model."""
        split = SplitRule(
            self.alpha,
            self.max_leaves,
            self.min_samples_leaf,
            self.max_depth,
            criterion="conservative-brown-forsythe",
            follows_table=True,
        )
        return QuantileTreeRecipe(
            split=split,
            n_bins=self.n_bins,
            hidden=self.hidden,
            memory=bool(self.memory),
            learning_rate=self.learning_rate,
            max_epochs=self.max_epochs,
            validation_fraction=self.validation_fraction,
            calibration=self.calibration,
            calibration_fraction=self.calibration_fraction,
        )

    def _fit(self, rows: DistinctRows) -> None:
        recipe, seed = self._recipe(), self._seed()
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, 0, 7)))
        rows, calibration_rows = self._draw_calibration_rows(rows, recipe.calibration_fraction, rng)
        is_validation = draw_validation_rows(rows, recipe.validation_fraction, rng)
        candidates = candidate_maps(rows.target, self.target_bounds, self.target_transform)
        self.target_map_ = choose_map(self, rows, is_validation, candidates, recipe, seed)
        recipe = replace(recipe, in_time_order=rows.time is not None)
        self._fit_parts(recipe, rows, is_validation, calibration_rows, seed)

    def _fit_store(self, store: RowStore) -> None:
        """Fit to the rows of a store: the network of the root to all of them, everything else to a sample."""
        check_stored_target(store, self.target_bounds, self.target_transform)
        sample = store.sample(sample_size(store))
        if not sample.has_groups:
            warn_of_blocks(sample.raw, [column.name for column in self.columns_])
        if sample.n_rows == store.n_rows:
            self._fit(sample if sample.has_groups else replace(sample, group=feature_groups(sample.raw)))
            return
        recipe, seed = self._recipe(), self._seed()
        units = units_of(sample, store.row_hashes(0, sample.n_rows))
        roles = RowRoles.balanced(seed, recipe.validation_fraction, recipe.calibration_fraction, units)
        role = roles.of(units)
        rows, kept = sample.take(np.flatnonzero(role != CALIBRATION)), role[role != CALIBRATION]
        calibration = np.flatnonzero(role == CALIBRATION)
        calibration_rows = sample.take(calibration) if len(calibration) else None
        candidates = candidate_maps(rows.target, self.target_bounds, self.target_transform)
        self.target_map_ = choose_map(self, rows, kept == VALIDATION, candidates, recipe, seed)
        recipe = recipe.for_sample(sample.weight.sum() / store.weight_sum)
        self._fit_parts(recipe, rows, kept == VALIDATION, calibration_rows, seed, (store, roles))

    def _seed(self) -> int:
        drawn = int(check_random_state(self.random_state).randint(2**31 - 1))
        return int(self._checkpoint.fixed("seed", drawn))

    def _fit_parts(
        self,
        recipe: QuantileTreeRecipe,
        rows: DistinctRows,
        is_validation: NDArray[np.bool_],
        calibration_rows: DistinctRows | None,
        seed: int,
        whole: tuple[RowStore, RowRoles] | None = None,
    ) -> None:
        """Fit to training and validation rows; ``whole`` is the store whose sample they are, if there is one."""
        by_validation = recipe.calibration is not None and calibration_rows is None
        table = self._marked_if_recalled(self._scaled_table(rows), by_validation)
        streamed = whole and StreamedRows(*whole, self.inputs_, self._target_scale(), table.group)
        columns = ColumnKinds(self.inputs_.numeric_, self.encoder_.n_categories_)
        progress = Progress(self.verbose, self.callbacks, table.n_rows)
        fitted = fit_quantile_tree(
            recipe, table, columns, is_validation, seed, effective_n_jobs(self.n_jobs), progress, self._checkpoint,
            streamed,
        )  # fmt: skip
        progress.finish()
        self.model_, self.expert_weights_ = fitted.model, fitted.model.expert_weights
        self._keep_positions(rows)
        self._scale_residuals()
        self.history_ = fitted.history
        self.min_samples_leaf_ = recipe.split.smallest_region(float(table.weight.sum()))
        self._fit_support(table, fitted.validation_rows, self._quantiles_without)
        if whole is not None:
            self._count_all(take_census(*whole, self.tree_))
        self.calibration_, self.familiar_, self.own_mean_ = None, None, True
        if recipe.calibration is not None and calibration_rows is not None:
            self._calibrate_on(calibration_rows, recipe.calibration)
        elif recipe.calibration is not None:
            self._calibrate_by_validation(table, fitted.validation_rows, fitted.scores, recipe.calibration)
        self._fit_target(table, fitted.validation_rows, rows.target[fitted.validation_rows], fitted.quantiles)
        trainings = {f"node {number}": histories for number, histories in enumerate(self.history_)}
        warn_if_diverged(self, trainings, recipe.learning_rate)

    # -- predictions -------------------------------------------------------------------------------------------

    def _network_quantiles(self, raw: Floats) -> tuple[NDArray[np.int64], Floats, Floats, None]:
        """Region, mean and quantile functions of encoded rows, in units of the scaled target."""
        inputs = self.inputs_.transform(raw)
        return *self.model_.quantile_functions(raw, inputs, self._n_threads(len(raw))), None

    def _quantiles_without(self, rows: Rows, raw: Floats) -> Floats:
        """Quantile functions of modified training rows, which the memory does not find."""
        return self.model_.quantile_functions(raw, self.inputs_.transform(raw), without=rows)[2]

    def _memory(self) -> bool | str:
        return self.memory

    @property
    def tree_(self) -> Tree:
        """The tree in flat arrays."""
        return self.model_.tree


def draw_validation_rows(rows: DistinctRows, fraction: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mark the validation rows: groups drawn at random, or the latest rows of a table with a time column.

    Parameters
    ----------
    rows : DistinctRows
    fraction : float
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of bool of shape (n,)
        All False for fewer than 5 rows.
    """
    is_validation = np.zeros(rows.n_rows, dtype=bool)
    if rows.n_rows < MIN_ROWS_TO_VALIDATE:
        return is_validation
    n_validation = round(fraction * rows.n_rows)
    if rows.time is not None:
        return is_latest(rows.time, n_validation)
    return draw_groups(rows.group, n_validation, rows.n_rows, rng)
