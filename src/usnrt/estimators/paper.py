"""The estimators of the paper: PaperUSNRTRegressor and PaperUSNRTEnsemble.

W. Ma, X. Yan, K. Zhang: Improving Uncertainty Quantification of Variance Networks by Tree-Structured Learning.
docs/paper.md compares, point by point, the paper, its authors' code and this implementation.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from usnrt.distributions import Distribution, Mixture, Normal
from usnrt.estimators.calibrated import CalibratedRegressor
from usnrt.estimators.convergence import warn_if_diverged
from usnrt.estimators.members import ENSEMBLE_CONSTRAINTS, EnsembleOf
from usnrt.estimators.targets import read_target
from usnrt.nn.device import MARGIN
from usnrt.nn.forward import predict
from usnrt.nn.mlp import MLP, hidden_sizes
from usnrt.nn.quantiles import POSITIONS
from usnrt.tables.training import DistinctRows
from usnrt.tree.fit import ColumnKinds, FittedTree, fit_paper_tree
from usnrt.tree.model import VarianceTree
from usnrt.tree.recipe import PaperTreeRecipe, SplitRule
from usnrt.tree.structure import Tree
from usnrt.utils.checks import check_applies
from usnrt.utils.constraints import (
    CATEGORICAL_FEATURES,
    RANDOM_STATE,
    Callables,
    Choice,
    Constraint,
    HiddenLayers,
    Jobs,
    Number,
    Optional,
    Verbosity,
    Whole,
)
from usnrt.utils.deprecation import DEPRECATED
from usnrt.utils.progress import Progress
from usnrt.utils.types import Floats


class PaperUSNRTRegressor(CalibratedRegressor):
    """The paper's uncertainty-splitting neural regression tree.

    Every node trains a splitting network and tests its residuals on all rows of the node, at every threshold and
    without a correction for their number; every region trains a mean network and a variance network alternately, each
    time from new weights and with newly drawn validation rows. The prediction is a normal distribution. Use
    `usnrt.USNRTRegressor` for predictions; this estimator is for comparison with the paper.

    Parameters
    ----------
    alpha : float, default=0.01
        A node is split if the p-value of its best split is at most this.
    max_leaves : int, default=10
        The largest number of regions: the smallest region has ``max(n / max_leaves, 1000)`` rows.
    min_samples_leaf : int, default=None
        The smallest number of rows in a region; overrides ``max_leaves``.
    max_depth : int, default=None
        The largest depth of the tree; None for no limit.
    criterion : {"levene", "levene-p", "support", "cart"}, default="levene"
        Splitting criterion: Levene's test of the residuals, the signs of the residuals (SUPPORT), or the sum of squares
        of the target (CART). ``"levene"`` takes the split with the smallest p, however small; ``"levene-p"`` compares p
        in double precision, as the paper's code does: if it underflows to 0, the lowest such threshold of the first
        such feature wins.
    center : {"mean", "median"}, default="mean"
        Center of the absolute deviations in Levene's test: the mean (the paper's text) or the median (Brown-Forsythe;
        the default of scipy, which the paper's code uses).
    step : int, default=1
        Every ``step``-th threshold of a numeric feature is tested.
    split_hidden : sequence of int or str, default=("8d", "4d")
        Hidden layers of the splitting networks; ``"8d"`` is eight times the number of features.
    mean_hidden : sequence of int or str, default=("4d", "2d")
        Hidden layers of the mean networks (ReLU).
    variance_hidden : sequence of int or str, default=("4d", "2d")
        Hidden layers of the variance networks (Tanh, then Softplus).
    n_alternations : int, default=2
        Number of trainings of the mean network and of the variance network of a region.
    learning_rate : float, default=0.01
        Step size of Adam.
    batch_size : int, default=64
    max_epochs : int, default=1000
    validation_fraction : float, default=0.2
        Share of a node's rows for early stopping.
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
    model_ : VarianceTree
        The tree with its networks.
    split_params_ : list of Params or None
        The splitting network of each node; None in nodes that were too small to be split.
    n_leaves_ : int
        Number of regions.
    min_samples_leaf_ : float
        The smallest region that was allowed.
    heterogeneity_ : float
        Standard deviation of the logarithms of the regions' residual standard deviations.
    history_ : list of dict of str to History
        Per node of the tree, the histories of its trainings by name.

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
    >>> model = USNRTRegressor.paper(min_samples_leaf=200, max_epochs=30, random_state=0).fit(X, y)
    >>> model.predict_dist(X)
    <Normal of 600 rows>
    >>> model.split_residuals(X, y).shape
    (600,)
    """

    model_: VarianceTree

    _RESUMABLE = True
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {
        "alpha": Number(0, 1),
        "max_leaves": Whole(1),
        "min_samples_leaf": Optional(Whole(1)),
        "max_depth": Optional(Whole(0)),
        "criterion": Choice(("levene", "levene-p", "support", "cart")),
        "center": Choice(("mean", "median")),
        "step": Whole(1),
        "split_hidden": HiddenLayers(),
        "mean_hidden": HiddenLayers(),
        "variance_hidden": HiddenLayers(),
        "n_alternations": Whole(1),
        "learning_rate": Number(0, np.inf),
        "batch_size": Whole(1, MARGIN),
        "max_epochs": Whole(1),
        "validation_fraction": Number(0, 1),
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
        criterion: str = "levene",
        center: str = "mean",
        step: int = 1,
        split_hidden: Sequence[int | str] = ("8d", "4d"),
        mean_hidden: Sequence[int | str] = ("4d", "2d"),
        variance_hidden: Sequence[int | str] = ("4d", "2d"),
        n_alternations: int = 2,
        learning_rate: float = 0.01,
        batch_size: int = 64,
        max_epochs: int = 1000,
        validation_fraction: float = 0.2,
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
        self.criterion = criterion
        self.center = center
        self.step = step
        self.split_hidden = split_hidden
        self.mean_hidden = mean_hidden
        self.variance_hidden = variance_hidden
        self.n_alternations = n_alternations
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    # -- fitting -----------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_applies(self, "max_leaves", min_samples_leaf=None)
        check_applies(self, "center", criterion=("levene", "levene-p"))

    def _recipe(self) -> PaperTreeRecipe:
        """The parameters that determine the fitted model."""
        by_median = {"levene": "brown-forsythe", "levene-p": "brown-forsythe-p"}
        test = by_median.get(self.criterion, self.criterion) if self.center == "median" else self.criterion
        return PaperTreeRecipe(
            split=SplitRule(
                self.alpha,
                self.max_leaves,
                self.min_samples_leaf,
                self.max_depth,
                bonferroni=False,
                criterion=test,
                step=self.step,
            ),
            split_hidden=self.split_hidden,
            mean_hidden=self.mean_hidden,
            variance_hidden=self.variance_hidden,
            n_alternations=self.n_alternations,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            max_epochs=self.max_epochs,
            validation_fraction=self.validation_fraction,
        )

    def _fit(self, rows: DistinctRows) -> None:
        recipe = self._recipe()
        drawn = int(check_random_state(self.random_state).randint(2**31 - 1))
        seed = int(self._checkpoint.fixed("seed", drawn))
        table = self._scaled_table(rows)
        columns = ColumnKinds(self.inputs_.numeric_, self.encoder_.n_categories_)
        progress = Progress(self.verbose, self.callbacks, table.n_rows)
        n_threads = effective_n_jobs(self.n_jobs)
        fitted = fit_paper_tree(recipe, table, columns, seed, n_threads, progress, self._checkpoint)
        progress.finish()
        self.model_ = fitted.model
        self._scale_residuals()
        self.split_params_ = fitted.split_params
        self.history_ = fitted.history
        self.min_samples_leaf_ = recipe.split.smallest_region(float(table.weight.sum()))
        self._fit_support(table)
        self.calibration_, self.familiar_, self.own_mean_ = None, None, True
        trainings = {f"node {number}": histories for number, histories in enumerate(self.history_)}
        warn_if_diverged(self, trainings, recipe.learning_rate)

    # -- predictions -------------------------------------------------------------------------------------------

    def split_residuals(self, X: Any, y: ArrayLike, node: int = 0) -> Floats:
        """Residuals of the splitting network of a node; for the node's training rows, the residuals that were tested.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        node : int, default=0
            Number of the node in the tree; 0 is the root.

        Returns
        -------
        ndarray of shape (n_samples,)
            In units of the target.
        """
        raw, target = self._encode(X), read_target(y)
        params = self.split_params_[node] if 0 <= node < len(self.split_params_) else None
        if params is None:
            raise ValueError(f"node must have a splitting network, got node {node}, which has none")
        inputs = self.inputs_.transform(raw)
        sizes = hidden_sizes(self.split_hidden, raw.shape[1], "split_hidden")
        mean = predict(MLP((inputs.shape[1], *sizes, 1)), params, inputs)
        return target - (self.target_mean_ + self.target_std_ * mean)

    def _network_quantiles(self, raw: Floats) -> tuple[NDArray[np.int64], Floats, Floats, None]:
        """Region, mean and quantile functions of encoded rows, in units of the scaled target."""
        inputs = self.inputs_.transform(raw)
        return *self.model_.quantile_functions(raw, inputs, self._n_threads(len(raw))), None

    def _without_parts(self, raw: Floats) -> Distribution:
        return self._distribution(raw) if self.calibration_ is None else super()._without_parts(raw)

    def _distribution(self, raw: Floats) -> Distribution:
        if self.calibration_ is not None:
            return super()._distribution(raw)
        _, mean, variance = self.model_.moments(raw, self.inputs_.transform(raw), self._n_threads(len(raw)))
        return Normal(mean, np.sqrt(variance)).with_parts(variance, None)

    @property
    def tree_(self) -> Tree:
        """The tree in flat arrays."""
        return self.model_.tree


class PaperUSNRTEnsemble(EnsembleOf[PaperUSNRTRegressor]):
    """The paper's ensemble: several of its trees with different seeds, and the mixture of their normal distributions.

    ``predict_variance`` divides the variance into ``aleatoric``, the mean of the members' variances, and ``epistemic``,
    the variance of their means.

    Parameters
    ----------
    estimator : PaperUSNRTRegressor, default=None
        The member; None for the default one. Its ``n_jobs`` and ``verbose`` must have their defaults: the ensemble
        sets these.
    n_estimators : int, default=5
        Number of members.
    categorical_features : list of names or positions, or bool mask, default=None
        See `PaperUSNRTRegressor`; None for those of the estimator.
    random_state : int, RandomState or None, default=None
        Seed; with an int the model is reproducible, bit for bit, whatever ``n_jobs`` is.
    n_jobs : int, default=-1
        Number of members that are fitted in parallel, by threads, or by the workers of a cluster inside
        ``joblib.parallel_config("dask")``; -1 for all cores.
    verbose : int, default=0
        1 shows a progress bar and reports the nodes of all members.
    n_members : int or "deprecated", default="deprecated"
        Former name of ``n_estimators``, which will be removed in version 0.4.0.

    Attributes
    ----------
    members_ : list of VarianceTree
    tree_ : Tree
        The regions: those of the first member.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt import USNRTEnsemble, USNRTRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (200, 2))
    >>> y = X[:, 1] + 0.3 * rng.normal(size=200)
    >>> quick = USNRTRegressor.paper(max_epochs=5)
    >>> model = USNRTEnsemble.paper(estimator=quick, n_estimators=2, random_state=0).fit(X, y)
    >>> model.predict_dist(X)
    <Mixture of 200 rows>
    """

    members_: list[VarianceTree]

    _RESUMABLE = True
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = ENSEMBLE_CONSTRAINTS
    _MEMBER = PaperUSNRTRegressor

    def __init__(
        self,
        estimator: PaperUSNRTRegressor | None = None,
        *,
        n_estimators: int = 5,
        categorical_features: Any = None,
        random_state: Any = None,
        n_jobs: int | None = -1,
        verbose: int = 0,
        n_members: int | str = DEPRECATED,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.n_members = n_members

    def _fit(self, rows: DistinctRows) -> None:
        member = self._member()
        recipe = member._recipe()
        table = self._scaled_table(rows)
        columns = ColumnKinds(self.inputs_.numeric_, self.encoder_.n_categories_)
        n_threads = max(1, effective_n_jobs(self.n_jobs) // self._n_estimators())
        seeds = self._seeds(member).spawn(self._n_estimators())
        arguments = [(recipe, table, columns, int(seed.generate_state(1)[0]), n_threads) for seed in seeds]
        progress = Progress(self.verbose, member.callbacks, table.n_rows)
        fitted: list[FittedTree[VarianceTree]] = self._fit_in_parallel(fit_paper_tree, arguments, progress)
        self.members_ = [tree.model for tree in fitted]
        self.calibration_, self.familiar_, self.own_mean_ = None, None, True
        self._scale_residuals()
        self._fit_support(table)
        self._warn_if_diverged([tree.history for tree in fitted], recipe.learning_rate)

    def _network_quantiles(self, raw: Floats) -> tuple[NDArray[np.int64], Floats, Floats, Floats]:
        """Region, mean, quantile functions of a normal of the mixture's moments, and disagreement of the members."""
        means, variances = self._moments(raw)
        mean, within, between = means.mean(axis=0), variances.mean(axis=0), means.var(axis=0)
        quantiles = mean[:, None] + np.sqrt(within + between)[:, None] * POSITIONS
        return self.tree_.leaf_of(raw), mean, quantiles, between / within

    def _moments(self, raw: Floats) -> tuple[Floats, Floats]:
        """Means and variances of the members, shape (n_members, n)."""
        inputs, n_threads = self.inputs_.transform(raw), self._n_threads(len(raw))
        _, means, variances = zip(*(member.moments(raw, inputs, n_threads) for member in self.members_))
        return np.stack(means), np.stack(variances)

    def _without_parts(self, raw: Floats) -> Distribution:
        return self._distribution(raw) if self.calibration_ is None else super()._without_parts(raw)

    def _distribution(self, raw: Floats) -> Distribution:
        if self.calibration_ is not None:
            return super()._distribution(raw)
        means, variances = self._moments(raw)
        return Mixture([Normal(mean, np.sqrt(variance)) for mean, variance in zip(means, variances)])

    @property
    def tree_(self) -> Tree:
        """The regions of the first member."""
        return self.members_[0].tree
