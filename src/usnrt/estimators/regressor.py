"""USNRTRegressor: a tree of regions of different noise, with a network of the mean and one of the spread in each."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from usnrt.distributions import Distribution, Normal
from usnrt.estimators.calibrated import CalibratedRegressor
from usnrt.estimators.recipe import PAPER, check_parameters, fit_tree, smallest_leaf, warn_if_diverged
from usnrt.tables.training import TrainingTable
from usnrt.tree.structure import Tree
from usnrt.utils.progress import Progress


class USNRTRegressor(CalibratedRegressor):
    """Uncertainty-splitting neural regression tree.

    A tree cuts the feature space where the residuals of a network differ most in spread, by Levene's test at every
    possible threshold; every leaf has networks of its own for the mean and the quantiles, and validation rows
    calibrate the predicted probabilities, region by region.

    The default recipe is ours; `USNRTRegressor.paper` gives that of the paper. docs/recipe.md tells how they differ
    and what each difference is worth.

    Parameters
    ----------
    alpha : float, default=0.01
        A node is split if the p-value of its best split is at most this.
    max_leaves : int, default=10
        Sets the smallest leaf to ``max(n / max_leaves, 1000)`` rows, so that there are at most so many leaves.
    min_samples_leaf : int, default=None
        The smallest number of rows in a leaf, counted with their weights, instead of what ``max_leaves`` says: small
        tables can split too. Both sides of a split also need 2.5 sqrt(n) of the n rows that are tested, or a test of
        heavy-tailed residuals would find more than ``alpha`` allows.
    max_depth : int, default=None
        The longest way from the root to a leaf; None for no limit.
    bonferroni : bool, default=True
        Whether to multiply the p-value by the number of splits that were tried. Without it (as in the paper) pure
        chance splits a node far more often than ``alpha`` says.
    criterion : {"levene", "brown-forsythe", "support", "cart"}, default="levene"
        What makes a split good: Levene's test with mean centring (the paper's text) or with median centring (what
        the paper's code runs), the signs of the residuals (SUPPORT), or the sum of squares (CART).
    holdout : {"tree", "node"}, default="tree"
        ``"tree"`` holds the same rows out in all nodes; ``"node"`` is the paper's way: every network of every node
        is trained from nothing and draws validation rows of its own.
    inherit : bool, default=True
        Whether a child's networks start from its parent's and are fine-tuned.
    spread : {"quantiles", "variance"}, default="quantiles"
        What the second network of a leaf says: eleven quantiles of the target, so that the distribution may be skewed
        or have two peaks where the data say so; or a variance, as in the paper.
    encoding : {"piecewise", None}, default="piecewise"
        Whether networks see numbers in quantile bins too, or only as they are.
    n_bins : int, default=16
        Number of bins of the encoding.
    split_hidden : sequence of int or str, default=("8d", "4d")
        Hidden layers of the network whose residuals are tested, with ``holdout="node"``; ``"8d"`` is eight times the
        number of features.
    mean_hidden : sequence of int or str, default=(256, 128)
        Hidden layers of the mean networks.
    variance_hidden : sequence of int or str, default=(256, 128, 64)
        Hidden layers of the second networks.
    n_alternations : int, default=2
        How often the mean and the variance network of a leaf are trained in turns, with ``holdout="node"``.
    learning_rate : float, default=0.003
        Adam's step size at the start; it falls to 0 along a cosine (with ``holdout="node"`` it stays).
    weight_decay : float, default=0.1
        Decoupled weight decay of Adam.
    average : float, default=0.99
        Decay of a moving average of the weights; 0 for the weights as they are.
    batch_size : int or "auto", default="auto"
        ``"auto"`` is 32 to 256, with the number of rows.
    max_epochs : int, default=300
        An upper bound; large tables take fewer.
    validation_fraction : float, default=0.2
        Share of the rows that is held out.
    calibration : {"leaf", "global", None}, default="leaf"
        Whether the held-out rows give every leaf, or all together, the spread and shape of the errors; None for the
        normal distribution as the networks say.
    calibration_fraction : float, default=0
        Share of the rows to calibrate with and to use for nothing else. Then the coverage of intervals is guaranteed
        exactly. With 0 the held-out rows calibrate, and the coverage is as good in practice, but not proven.
    categorical_features : list of names or positions, or bool mask, default=None
        Columns of whole numbers that are codes of categories. Text and category columns are found by themselves.
    random_state : int, RandomState or None, default=None
        The same whole number gives the same model, bit for bit, whatever ``n_jobs`` is.
    n_jobs : int, default=-1
        Threads; -1 for all cores.
    verbose : int, default=0
        1 shows a progress bar, 2 says more in a log.
    callbacks : list of callables, default=None
        Each is called with a `usnrt.utils.progress.FitEvent` after every epoch.

    Attributes
    ----------
    tree_ : Tree
        The tree in flat arrays: feature, threshold, left, right, n_rows, statistic, log10_p and more.
    model_ : TreeModel
        The tree with its networks.
    calibration_ : Calibration or None
    n_leaves_ : int
    min_samples_leaf_ : float
        The smallest leaf that was allowed.
    heterogeneity_ : float
        Standard deviation of the logarithms of the leaves' residual standard deviations (the paper's measure).
    history_ : list of dict of str to History
        For each node of the tree the losses of its networks.
    columns_ : list of Column
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If the table had names.

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

    def __init__(
        self,
        *,
        alpha: float = 0.01,
        max_leaves: int = 10,
        min_samples_leaf: int | None = None,
        max_depth: int | None = None,
        bonferroni: bool = True,
        criterion: str = "levene",
        holdout: str = "tree",
        inherit: bool = True,
        spread: str = "quantiles",
        encoding: str | None = "piecewise",
        n_bins: int = 16,
        split_hidden: Sequence[int | str] = ("8d", "4d"),
        mean_hidden: Sequence[int | str] = (256, 128),
        variance_hidden: Sequence[int | str] = (256, 128, 64),
        n_alternations: int = 2,
        learning_rate: float = 0.003,
        weight_decay: float = 0.1,
        average: float = 0.99,
        batch_size: int | str = "auto",
        max_epochs: int = 300,
        validation_fraction: float = 0.2,
        calibration: str | None = "leaf",
        calibration_fraction: float = 0.0,
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
        self.bonferroni = bonferroni
        self.criterion = criterion
        self.holdout = holdout
        self.inherit = inherit
        self.spread = spread
        self.encoding = encoding
        self.n_bins = n_bins
        self.split_hidden = split_hidden
        self.mean_hidden = mean_hidden
        self.variance_hidden = variance_hidden
        self.n_alternations = n_alternations
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.average = average
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.calibration = calibration
        self.calibration_fraction = calibration_fraction
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """The recipe of the paper to the letter; ``changes`` are parameters to set otherwise.

        Networks [8d, 4d] to split and [4d, 2d] in the leaves, ReLU for means, Tanh and Softplus for variances, Adam
        with 0.01, batches of 64, at most 1000 epochs, trained in turns twice, alpha 0.01, leaves of at least
        max(n / 10, 1000) rows, normal distributions.

        Examples
        --------
        >>> from usnrt import USNRTRegressor
        >>> USNRTRegressor.paper(random_state=42).mean_hidden
        ('4d', '2d')
        """
        return cls(**{**PAPER, **changes})

    # -- fitting -----------------------------------------------------------------------------------------------

    def _fit(self, table: TrainingTable) -> None:
        check_parameters(self)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, 0, 7)))
        fraction = self.calibration_fraction if self.calibration is not None else 0.0
        learnt, set_aside = self._set_aside(table, fraction, rng)
        held_out = np.zeros(learnt.n_rows, dtype=bool)
        if self.holdout == "tree" and learnt.n_rows >= 5:
            held_out[rng.permutation(learnt.n_rows)[: round(self.validation_fraction * learnt.n_rows)]] = True
        progress = Progress(self.verbose, self.callbacks, learnt.n_rows)
        fitted = fit_tree(
            self, learnt, self.inputs_.numeric_, self.encoder_.n_categories_, held_out, seed,
            effective_n_jobs(self.n_jobs), progress,
        )  # fmt: skip
        progress.finish()
        self.model_ = fitted.model
        self.tree_.residual_mean *= self.target_std_  # read by people, in the target's units
        self.tree_.residual_std *= self.target_std_
        self.history_ = fitted.history
        self.min_samples_leaf_ = smallest_leaf(self, learnt)
        self._fit_support(
            learnt, fitted.held_rows, lambda _, raw: self._network_quantiles(raw)[2], self.holdout == "tree"
        )
        self.calibration_, self.familiar_, self.own_mean_ = None, None, True
        if self.calibration is not None and set_aside is not None:
            self._calibrate_on(set_aside, self.calibration)
        elif self.calibration is not None:
            self._calibrate_by_validation(learnt, fitted.held_rows, fitted.scores, self.calibration)
        trainings = {f"node {number}": courses for number, courses in enumerate(self.history_)}
        warn_if_diverged(self, trainings, self.learning_rate)

    # -- answers -----------------------------------------------------------------------------------------------

    def _network_quantiles(
        self, raw: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], None]:
        """Leaf, mean and quantile functions of encoded rows, in units of the scaled target."""
        return *self.model_.quantile_functions(raw, self.inputs_.transform(raw), effective_n_jobs(self.n_jobs)), None

    def _distribution(self, raw: NDArray[np.float64]) -> Distribution:
        if self.calibration_ is None and not self.model_.predicts_quantiles:
            (mean,), (variance,) = self._supported_moments(self._network_moments, raw)
            return Normal(mean, np.sqrt(variance)).with_parts(variance, None)
        return super()._distribution(raw)

    def _network_moments(self, raw: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Means and variances of networks that predict those, shape (1, n)."""
        _, mean, variance = self.model_.moments(raw, self.inputs_.transform(raw), effective_n_jobs(self.n_jobs))
        return mean[None], variance[None]

    @property
    def tree_(self) -> Tree:
        """The tree in flat arrays."""
        return self.model_.tree
