"""USNRTRegressor: a tree of regions of different noise, each predicted by a network and a memory of similar rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from usnrt.calibration.groups import METHODS
from usnrt.estimators.paper import PaperUSNRTRegressor
from usnrt.estimators.tree_regressor import TreeRegressor
from usnrt.experts.registry import REMEMBERING, selectable_names
from usnrt.model.fit import ModelRecipe
from usnrt.tree.recipe import QuantileTreeRecipe, SplitRule
from usnrt.utils.constraints import (
    CALLABLES,
    CATEGORICAL_FEATURES,
    FLAG,
    HIDDEN_LAYERS,
    JOBS,
    RANDOM_STATE,
    TARGET_BOUNDS,
    TARGET_TRANSFORM,
    TIME_COLUMN,
    VERBOSITY,
    Choice,
    Constraint,
    Either,
    NamesOrRegressors,
    Number,
    Optional,
    ShareOrWhole,
    Whole,
    check_applies,
)

# In a t-test of a few rows a single outlier is significant, and the largest of n heavy-tailed residuals grows with n:
# with sides of 2 rows, residuals from a Student-t with 3 degrees of freedom split 12 % of homogeneous tables at
# alpha = 0.01; if each side has this many times sqrt(n) rows, about 1 % (tests/statistical/test_levels.py).
MIN_TESTED = 2.5
# Share of validation rows where no other is given.
VALIDATION_FRACTION = 0.2


@dataclass(kw_only=True, eq=False, repr=False)
class USNRTRegressor(TreeRegressor):
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
        contains the rows of the memory unmodified, so that `explain` shows them; predictions are the same. With False,
        `explain` compares rows with quantiles of each column instead of training rows, and there is no forest, whose
        leaves are targets of training rows.
    experts : sequence of str and regressors, default=None
        What the predictive distributions combine: ``"network"``, ``"memory"``, ``"forest"`` (extremely randomised
        trees), ``"linear"`` (ridge regression), and models of your own with ``fit`` and ``predict``, which are cloned
        and cross-fitted, and given the table as you gave it. Validation rows choose their weights in each region; what
        has none in any is dropped. None for all of the library's. Without ``"network"`` the tree splits on the
        residuals of the others: ``experts=[model]`` is your model with regions and calibrated distributions.
    learning_rate : float, default=0.003
        Step size of Adam at the start; it falls to 0 along a cosine.
    max_epochs : int, default=300
        The largest number of epochs per training; large tables need fewer.
    validation : float, int or "auto", default="auto"
        Which rows networks are not trained on; they stop trainings early, test splits, weight experts and calibrate. An
        int is the number of folds of a cross-fitted model: one network per fold, trained on the other folds, so that
        all rows do this, and predictions average the networks. A float is the share of the rows that do it for a single
        network; 1 stands for a fifth of the rows. ``"auto"`` cross-fits tables of up to 5,000 rows, whose fits are
        short, and holds out a fifth of larger ones, and the latest fifth with a ``time_column``.
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
    model_ : FittedModel
        The parts that predict: scales, tree with its networks, support, calibration, and what explanations need.
    expert_weights_ : ndarray of shape (n_leaves, 3 + n_further)
        Weights of the network, of the network guided by the memory, of the memory, and of further experts that some
        region uses, in each region, left to right; `rules` has their names.
    row_positions_ : ndarray of int or None
        Positions in the table given to `fit` of the rows that the memory numbers, see `neighbors`.
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
        Per node of the tree, the histories of its trainings by name; of several networks with their numbers, as in
        ``"member 2 network"``.
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

    alpha: float = 0.01
    max_leaves: int = 10
    min_samples_leaf: int | None = None
    max_depth: int | None = None
    n_bins: int = 16
    hidden: Sequence[int | str] = (256, 128, 64)
    memory: bool | str = True
    experts: Sequence[Any] | None = None
    learning_rate: float = 0.003
    max_epochs: int = 300
    validation: float | int | str = "auto"
    calibration: str | None = "region"
    calibration_fraction: float = 0.0
    target_bounds: tuple[float | None, float | None] | None = None
    target_transform: str | None = None
    time_column: str | int | None = None
    categorical_features: Any = None
    random_state: Any = None
    n_jobs: int | None = -1
    verbose: int = 0
    callbacks: Any = None

    _TAKES_GROUPS = True
    _TAKES_STORES = True
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {
        "alpha": Number(0, 1),
        "max_leaves": Whole(1),
        "min_samples_leaf": Optional(Whole(1)),
        "max_depth": Optional(Whole(0)),
        "n_bins": Whole(0),
        "hidden": HIDDEN_LAYERS,
        "memory": Either(FLAG, "examples"),
        "experts": Optional(NamesOrRegressors(selectable_names)),
        "learning_rate": Number(0, np.inf),
        "max_epochs": Whole(1),
        "validation": Either(ShareOrWhole(1), "auto"),
        "calibration": Optional(Choice(tuple(METHODS))),
        "calibration_fraction": Number(0, 1, include_low=True),
        "target_bounds": TARGET_BOUNDS,
        "target_transform": TARGET_TRANSFORM,
        "time_column": TIME_COLUMN,
        "categorical_features": CATEGORICAL_FEATURES,
        "random_state": RANDOM_STATE,
        "n_jobs": JOBS,
        "verbose": VERBOSITY,
        "callbacks": CALLABLES,
    }

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
        USNRTRegressor(hidden=(128, 64), max_epochs=15, max_leaves=5, validation=1)
        """
        return USNRTRegressor(**{"hidden": (128, 64), "max_epochs": 15, "validation": 1, **parameters})

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
        check_applies(self, "calibration_fraction", calibration=tuple(METHODS))
        if self._n_folds not in (None, 1):
            check_applies(self, "validation", time_column=None)
        names = [] if self.experts is None else [entry for entry in self.experts if isinstance(entry, str)]
        if "memory" in names and "network" not in names:
            raise ValueError("experts must hold 'network' if they hold 'memory', which guides it")
        remembering = [] if self.memory else [name for name in names if name in REMEMBERING]
        if remembering:
            raise ValueError(f"experts must not hold {remembering[0]!r} if memory is False: it holds training rows")

    def _check_takes_store(self) -> None:
        super()._check_takes_store()
        if self._n_folds not in (None, 1):
            raise ValueError(f"validation={self.validation} needs a table in memory, got a larger one; use 'auto'")

    @property
    def _n_folds(self) -> int | None:
        """1 for a single network, None if the number of rows decides."""
        if isinstance(self.validation, str):
            return None
        return int(self.validation) if isinstance(self.validation, Integral) else 1

    def _model_recipe(self) -> ModelRecipe:
        """The parameters that determine the fitted model."""
        split = SplitRule(
            self.alpha,
            self.max_leaves,
            self.min_samples_leaf,
            self.max_depth,
            criterion="conservative-brown-forsythe",
            follows_table=True,
            min_tested=MIN_TESTED,
        )
        chosen = selectable_names() if self.experts is None else self.experts
        names = [entry for entry in chosen if isinstance(entry, str) and (self.memory or entry not in REMEMBERING)]
        tree = QuantileTreeRecipe(
            split=split,
            n_bins=self.n_bins,
            hidden=self.hidden,
            memory="memory" in names,
            learning_rate=self.learning_rate,
            max_epochs=self.max_epochs,
            n_folds=self._n_folds,
            validation_fraction=float(self.validation) if isinstance(self.validation, float) else VALIDATION_FRACTION,
            calibration=self.calibration,
            calibration_fraction=self.calibration_fraction,
            further=[name for name in names if name not in ("network", "memory")],
            models=[entry for entry in chosen if not isinstance(entry, str)],
            network="network" in names,
        )
        return ModelRecipe(tree, None, self.target_bounds, self.target_transform)
