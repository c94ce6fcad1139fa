"""The estimator of the paper, PaperUSNRTRegressor.

W. Ma, X. Yan, K. Zhang: Improving Uncertainty Quantification of Variance Networks by Tree-Structured Learning.
docs/paper.md compares, point by point, the paper, its authors' code and this implementation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from usnrt.estimators.targets import read_target
from usnrt.estimators.tree_regressor import TreeRegressor
from usnrt.model.fit import ModelFit, ModelRecipe
from usnrt.nn.device import MARGIN
from usnrt.nn.forward import predict
from usnrt.nn.mlp import MLP, hidden_sizes
from usnrt.tree.recipe import PaperTreeRecipe, SplitRule
from usnrt.utils.constraints import (
    CALLABLES,
    CATEGORICAL_FEATURES,
    HIDDEN_LAYERS,
    JOBS,
    RANDOM_STATE,
    VERBOSITY,
    Choice,
    Constraint,
    Number,
    Optional,
    Whole,
    check_applies,
)
from usnrt.utils.types import Floats, TableLike


@dataclass(kw_only=True, eq=False, repr=False)
class PaperUSNRTRegressor(TreeRegressor):
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
    model_ : FittedModel
        The parts that predict: scales, tree with its networks, support and calibration.
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

    alpha: float = 0.01
    max_leaves: int = 10
    min_samples_leaf: int | None = None
    max_depth: int | None = None
    criterion: str = "levene"
    center: str = "mean"
    step: int = 1
    split_hidden: Sequence[int | str] = ("8d", "4d")
    mean_hidden: Sequence[int | str] = ("4d", "2d")
    variance_hidden: Sequence[int | str] = ("4d", "2d")
    n_alternations: int = 2
    learning_rate: float = 0.01
    batch_size: int = 64
    max_epochs: int = 1000
    validation_fraction: float = 0.2
    categorical_features: Any = None
    random_state: Any = None
    n_jobs: int | None = -1
    verbose: int = 0
    callbacks: Any = None

    _HAS_MEMORY = False
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {
        "alpha": Number(0, 1),
        "max_leaves": Whole(1),
        "min_samples_leaf": Optional(Whole(1)),
        "max_depth": Optional(Whole(0)),
        "criterion": Choice(("levene", "levene-p", "support", "cart")),
        "center": Choice(("mean", "median")),
        "step": Whole(1),
        "split_hidden": HIDDEN_LAYERS,
        "mean_hidden": HIDDEN_LAYERS,
        "variance_hidden": HIDDEN_LAYERS,
        "n_alternations": Whole(1),
        "learning_rate": Number(0, np.inf),
        "batch_size": Whole(1, MARGIN),
        "max_epochs": Whole(1),
        "validation_fraction": Number(0, 1),
        "categorical_features": CATEGORICAL_FEATURES,
        "random_state": RANDOM_STATE,
        "n_jobs": JOBS,
        "verbose": VERBOSITY,
        "callbacks": CALLABLES,
    }

    # -- fitting -----------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_applies(self, "max_leaves", min_samples_leaf=None)
        check_applies(self, "center", criterion=("levene", "levene-p"))

    def _model_recipe(self) -> ModelRecipe:
        """The parameters that determine the fitted model."""
        by_median = {"levene": "brown-forsythe", "levene-p": "brown-forsythe-p"}
        test = by_median.get(self.criterion, self.criterion) if self.center == "median" else self.criterion
        tree = PaperTreeRecipe(
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
        return ModelRecipe(tree)

    def _keep(self, fit: ModelFit) -> None:
        super()._keep(fit)
        self.split_params_ = fit.trees[0].split_params

    # -- predictions -------------------------------------------------------------------------------------------

    def split_residuals(self, X: TableLike, y: ArrayLike, node: int = 0) -> Floats:
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
        inputs = self.model_.inputs.transform(raw)
        sizes = hidden_sizes(self.split_hidden, raw.shape[1], "split_hidden")
        mean = predict(MLP((inputs.shape[1], *sizes, 1)), params, inputs)
        return target - self.target_scale_.to_target(mean)
