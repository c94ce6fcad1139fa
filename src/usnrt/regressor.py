"""USNRTRegressor: a tree of regions of different noise, with a mean and a variance network in each."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from usnrt.base import DistributionalRegressor, TrainingTable
from usnrt.checks import check_choice, check_number, check_whole
from usnrt.distributions import Distribution, Normal
from usnrt.nn.forward import predict_grouped
from usnrt.nn.mlp import MLP, hidden_sizes
from usnrt.nn.train import Training
from usnrt.progress import Progress
from usnrt.table import Table
from usnrt.tree.criteria import CRITERIA
from usnrt.tree.grow import Growth, grow
from usnrt.tree.rules import rules_table

PAPER_RECIPE: dict[str, Any] = {
    "alpha": 0.01,
    "max_leaves": 10,
    "min_samples_leaf": None,
    "max_depth": None,
    "bonferroni": False,
    "criterion": "levene",
    "split_hidden": ("8d", "4d"),
    "mean_hidden": ("4d", "2d"),
    "variance_hidden": ("4d", "2d"),
    "n_alternations": 2,
    "learning_rate": 0.01,
    "batch_size": 64,
    "max_epochs": 1000,
    "patience": None,
    "schedule": "constant",
    "validation_fraction": 0.2,
}


class USNRTRegressor(DistributionalRegressor):
    """Uncertainty-splitting neural regression tree.

    A tree cuts the feature space where the residuals of a network differ most in spread, by Levene's test at every
    possible threshold; every leaf has a mean network and a variance network of its own.

    Parameters
    ----------
    alpha : float, default=0.01
        A node is split if the p-value of its best split is at most this.
    max_leaves : int, default=10
        Sets the smallest leaf to ``max(n / max_leaves, 1000)`` rows, so that there are at most so many leaves.
    min_samples_leaf : int, default=None
        The smallest number of rows in a leaf, counted with their weights. If given, ``max_leaves`` only limits it
        from below through ``n / max_leaves`` no more: small tables can split too.
    max_depth : int, default=None
        The longest way from the root to a leaf; None for no limit.
    bonferroni : bool, default=False
        Whether to multiply the p-value by the number of splits that were tried. The paper does not, so that under
        pure chance a node is split far more often than ``alpha`` says.
    criterion : {"levene", "brown-forsythe", "support", "cart"}, default="levene"
        What makes a split good: Levene's test with mean centring (the paper's text) or with median centring (what
        the paper's code runs), the signs of the residuals (SUPPORT), or the sum of squares (CART).
    split_hidden : sequence of int or str, default=("8d", "4d")
        Hidden layers of the network whose residuals are tested; ``"8d"`` is eight times the number of features.
    mean_hidden, variance_hidden : sequence of int or str, default=("4d", "2d")
        Hidden layers of the networks in the leaves: ReLU for the mean, Tanh and Softplus for the variance.
    n_alternations : int, default=2
        How often the mean and the variance network are trained in turns.
    learning_rate : float, default=0.01
        Adam's step size.
    batch_size : int, default=64
    max_epochs : int, default=1000
    patience : int, default=None
        Epochs without a better validation loss after which training stops; None for the rule of the paper's code
        (the mean of the last 5 losses is above that of the 20 before).
    schedule : {"constant", "cosine"}, default="constant"
        Whether the step size stays or falls to 0 over ``max_epochs``.
    validation_fraction : float, default=0.2
        Share of a node's rows that early stopping looks at.
    categorical_features : list of names or positions, or bool mask, default=None
        Columns of whole numbers that are codes of categories. Text and category columns are found by themselves.
    random_state : int, RandomState or None, default=None
        The same whole number gives the same model, bit for bit, whatever ``n_jobs`` is.
    n_jobs : int, default=-1
        Threads; -1 for all cores.
    verbose : int, default=0
        1 shows a progress bar, 2 says more in a log.
    callbacks : list of callables, default=None
        Each is called with a `usnrt.progress.FitEvent` after every epoch.

    Attributes
    ----------
    tree_ : Tree
        The tree in flat arrays: feature, threshold, left, right, n_rows, statistic, log10_p and more.
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
        bonferroni: bool = False,
        criterion: str = "levene",
        split_hidden: Sequence[int | str] = ("8d", "4d"),
        mean_hidden: Sequence[int | str] = ("4d", "2d"),
        variance_hidden: Sequence[int | str] = ("4d", "2d"),
        n_alternations: int = 2,
        learning_rate: float = 0.01,
        batch_size: int = 64,
        max_epochs: int = 1000,
        patience: int | None = None,
        schedule: str = "constant",
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
        self.bonferroni = bonferroni
        self.criterion = criterion
        self.split_hidden = split_hidden
        self.mean_hidden = mean_hidden
        self.variance_hidden = variance_hidden
        self.n_alternations = n_alternations
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.schedule = schedule
        self.validation_fraction = validation_fraction
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """The recipe of the paper to the letter; ``changes`` are parameters to set otherwise.

        Networks [8d, 4d] to split and [4d, 2d] in the leaves, Adam with 0.01, batches of 64, at most 1000 epochs,
        trained in turns twice, alpha 0.01, leaves of at least max(n / 10, 1000) rows.

        Examples
        --------
        >>> from usnrt import USNRTRegressor
        >>> USNRTRegressor.paper(random_state=42).split_hidden
        ('8d', '4d')
        """
        return cls(**{**PAPER_RECIPE, **changes})

    # -- fitting ------------------------------------------------------------------------------------------------

    def _fit(self, table: TrainingTable) -> None:
        how = self._growth(table)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        progress = Progress(self.verbose, self.callbacks, table.n_rows)
        grown = grow(table, self.encoder_.n_categories_, how, seed, effective_n_jobs(self.n_jobs), progress)
        progress.finish()
        self.tree_ = grown.tree
        for residuals in (self.tree_.residual_mean, self.tree_.residual_std):
            residuals *= self.target_std_  # readers want them in the target's units
        self.n_leaves_ = grown.tree.n_leaves
        self.min_samples_leaf_ = how.min_samples_leaf
        self.mean_network_, self.variance_network_ = how.mean_network, how.variance_network
        self.mean_params_, self.variance_params_ = grown.mean, grown.variance
        self.history_ = grown.history

    def _growth(self, table: TrainingTable) -> Growth:
        """Check all parameters and turn them into what the grower takes."""
        check_number("alpha", self.alpha, 0, 1)
        check_whole("max_leaves", self.max_leaves, 1)
        check_whole("min_samples_leaf", self.min_samples_leaf, 1, optional=True)
        check_whole("max_depth", self.max_depth, 0, optional=True)
        check_choice("criterion", self.criterion, CRITERIA)
        check_whole("n_alternations", self.n_alternations, 1)
        check_number("validation_fraction", self.validation_fraction, 0, 1)
        n_rows, d = float(table.weight.sum()), table.raw.shape[1]
        n_inputs = table.inputs.shape[1]
        smallest = self.min_samples_leaf
        if smallest is None:
            smallest = max(n_rows / self.max_leaves, 1000)

        def sizes(hidden: Sequence[int | str], name: str) -> tuple[int, ...]:
            return (n_inputs, *hidden_sizes(hidden, d, name), 1)

        return Growth(
            alpha=self.alpha,
            min_samples_leaf=smallest,
            max_depth=self.max_depth,
            bonferroni=self.bonferroni,
            criterion=self.criterion,
            split_network=MLP(sizes(self.split_hidden, "split_hidden"), "relu", "linear"),
            mean_network=MLP(sizes(self.mean_hidden, "mean_hidden"), "relu", "linear"),
            variance_network=MLP(sizes(self.variance_hidden, "variance_hidden"), "tanh", "softplus"),
            training=self._training(),
            validation_fraction=self.validation_fraction,
            n_alternations=self.n_alternations,
        )

    def _training(self) -> Training:
        check_number("learning_rate", self.learning_rate, 0, np.inf)
        check_whole("batch_size", self.batch_size, 1)
        check_whole("max_epochs", self.max_epochs, 1)
        check_whole("patience", self.patience, 1, optional=True)
        check_choice("schedule", self.schedule, ("constant", "cosine"))
        return Training(self.learning_rate, self.batch_size, self.max_epochs, self.schedule, self.patience)

    # -- answers ------------------------------------------------------------------------------------------------

    def _distribution(self, raw: NDArray[np.float64]) -> Distribution:
        leaf = self.tree_.leaf_of(raw)
        inputs = self.inputs_.transform(raw)
        n_threads = effective_n_jobs(self.n_jobs)
        mean = predict_grouped(self.mean_network_, self.mean_params_, inputs, leaf, n_threads=n_threads)
        variance = predict_grouped(self.variance_network_, self.variance_params_, inputs, leaf, n_threads=n_threads)
        return Normal(mean, np.sqrt(variance)).with_parts(variance, None)

    # -- reading the tree ---------------------------------------------------------------------------------------

    def apply(self, X: Any) -> NDArray[np.int64]:
        """The node number of the leaf that each row falls in.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        return self.tree_.apply(self._encode(X))

    def decision_path(self, X: Any) -> Any:
        """The nodes that each row passes.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_samples, n_nodes)
            1 where a row passes a node.
        """
        return self.tree_.decision_path(self._encode(X))

    def get_depth(self) -> int:
        """The longest way from the root to a leaf."""
        check_is_fitted(self)
        return self.tree_.max_depth

    def get_n_leaves(self) -> int:
        """Number of leaves."""
        check_is_fitted(self)
        return self.n_leaves_

    @property
    def heterogeneity_(self) -> float:
        """Standard deviation of the logarithms of the leaves' residual standard deviations."""
        leaves = self.tree_.feature < 0
        return float(np.std(np.log(np.maximum(self.tree_.residual_std[leaves], np.finfo(float).tiny))))

    def rules(self) -> Table:
        """The regions as a table: rule, rows, residual standard deviation in the target's units, splits on the way.

        Returns
        -------
        Table
            One row a leaf.
        """
        check_is_fitted(self)
        return rules_table(self.tree_, self.columns_)
