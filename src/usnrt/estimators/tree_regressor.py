"""Base of trees and ensembles: fits by `usnrt.model.fit`, and everything that users ask of a fitted model."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from usnrt.calibration.groups import METHODS, Calibration, insufficient_calibration
from usnrt.distributions import Distribution, TargetMap
from usnrt.estimators.base import DistributionalRegressor
from usnrt.estimators.convergence import warn_if_diverged
from usnrt.estimators.predictions import EncodedPredictions
from usnrt.estimators.reading import recent_rows
from usnrt.estimators.regions import similar_rows
from usnrt.estimators.targets import check_stored_target, check_target, read_target
from usnrt.memory.retrieval import N_NEIGHBORS
from usnrt.model.calibrate import calibrate_on
from usnrt.model.fit import ModelFit, ModelRecipe, fit_model, fit_model_to_store
from usnrt.model.fitted import FittedModel
from usnrt.model.target import TargetScale
from usnrt.tables.form import GivenForm
from usnrt.tables.groups import feature_groups, groups_and_table, read_groups, warn_of_blocks
from usnrt.tables.reading import as_table
from usnrt.tables.store import RowStore
from usnrt.tables.training import DistinctRows, distinct_rows
from usnrt.tree.rules import rules_table
from usnrt.tree.streamed import sample_size
from usnrt.tree.structure import Tree
from usnrt.utils.checkpoint import Checkpoint, Folder
from usnrt.utils.constraints import check_choice, check_number, check_whole
from usnrt.utils.context import FitContext
from usnrt.utils.notices import (
    InfiniteIntervalWarning,
    TrainingRowsWarning,
    UnguaranteedIntervalWarning,
    share_text,
    users_level,
)
from usnrt.utils.progress import Progress
from usnrt.utils.result_table import Table
from usnrt.utils.threads import MIN_ROWS
from usnrt.utils.types import Floats, Rows, TableLike

if TYPE_CHECKING:
    from onnx import ModelProto

    from usnrt.explain.explanation import Explanation


def _may_remember(estimator: Any) -> bool:
    """Whether the estimator has, or its members have, the parameter ``memory``."""
    return bool(estimator._HAS_MEMORY)


class TreeRegressor(DistributionalRegressor):
    """An estimator whose tree divides the feature space into regions.

    A subclass defines ``_model_recipe()``, the parameters that determine the fitted model.
    """

    _RESUMABLE = True
    _HAS_MEMORY = True

    # How the table of a fit was given, for models of the user.
    _form: GivenForm | None = None
    model_: FittedModel
    n_jobs: int | None
    verbose: int
    random_state: Any

    # -- fitting ---------------------------------------------------------------------------------------------------

    def _model_recipe(self) -> ModelRecipe:
        raise NotImplementedError(f"{type(self).__name__} must define _model_recipe")

    def _drawn_seed(self) -> Any:
        """The seed of a fit, drawn from ``random_state``."""
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _context(self, checkpoint: Checkpoint) -> FitContext:
        progress = Progress(self.verbose, self._parameter("callbacks"))
        seed = checkpoint.fixed("seed", self._drawn_seed())
        return FitContext(seed, effective_n_jobs(self.n_jobs), progress, checkpoint)

    def _fit_rows(self, rows: DistinctRows, checkpoint: Checkpoint) -> None:
        recipe = replace(self._model_recipe(), form=self._form)
        self._keep(fit_model(recipe, rows, self.encoder_, self._context(checkpoint)))

    def _fit_table(self, X: TableLike, y: Any, sample_weight: Any, groups: Any, folder: Folder | None) -> None:
        self._form = GivenForm.of(groups_and_table(X, groups)[0])
        super()._fit_table(X, y, sample_weight, groups, folder)
        if self._parameter("memory") == "examples" and self.model_.kept.positions is not None:
            given = as_table(groups_and_table(X, groups)[0])
            self.model_ = self.model_.with_examples([given.column(index).values for index in range(given.n_columns)])

    def _renumber(self, kept: Rows) -> None:
        positions = self.model_.kept.positions
        if positions is not None:
            self.model_ = replace(self.model_, kept=replace(self.model_.kept, positions=kept[positions]))

    def _check_takes_store(self) -> None:
        super()._check_takes_store()
        if self._parameter("memory") == "examples":
            raise ValueError("memory='examples' needs a table that fits in memory, got a larger one; use memory=True")

    def _fit_store(self, store: RowStore, checkpoint: Checkpoint) -> None:
        """Fit to the rows of a store: the network of the root to all of them, everything else to a sample."""
        check_stored_target(store, self._parameter("target_bounds"), self._parameter("target_transform"))
        sample = store.sample(sample_size(store))
        if not sample.has_groups:
            warn_of_blocks(sample.raw, [column.name for column in self.columns_])
        if sample.n_rows < store.n_rows:
            context = self._context(checkpoint)
            self._keep(fit_model_to_store(self._model_recipe(), store, self.encoder_, context))
        else:
            group = sample.group if sample.has_groups else feature_groups(sample.raw)
            self._fit_rows(replace(sample, group=group), checkpoint)

    def _keep(self, fit: ModelFit) -> None:
        """Set the results of a fit, and warn if trainings diverged."""
        self.model_ = fit.model
        trainings = {
            f"member {m} node {n}" if len(fit.trees) > 1 else f"node {n}": history
            for m, tree in enumerate(fit.trees, 1)
            for n, history in enumerate(tree.history)
        }
        recipe = self._model_recipe()
        if recipe.n_members is None:
            self.history_, self.min_samples_leaf_ = fit.trees[0].history, fit.smallest_region
        warn_if_diverged(self, trainings, recipe.tree.learning_rate)

    # -- the fitted model ------------------------------------------------------------------------------------------

    @property
    def target_scale_(self) -> TargetScale:  # type: ignore[override]
        """From targets to the values that networks learn."""
        return self.model_.target

    @property
    def target_map_(self) -> TargetMap | None:
        """Bounds, logarithm and point masses of the target; None without any."""
        return self.model_.target.target_map

    @property
    def tree_(self) -> Tree:
        """The regions: the tree in flat arrays; of an ensemble that of its first member."""
        return self.model_.tree

    @property
    def calibration_(self) -> Calibration | None:
        """The calibration, None if the distributions are those that the networks predict."""
        return self.model_.calibration

    @property
    def expert_weights_(self) -> Floats | None:
        """Weights of the experts in each region, shape (n_leaves, n_experts); None for models of the paper."""
        return self.model_.expert_weights

    @property
    def background_(self) -> Floats | None:
        """Encoded rows of each region, and of the whole table, that `explain` compares rows with; None if not kept."""
        return self.model_.kept.background

    @property
    def row_positions_(self) -> NDArray[np.int64] | None:
        """Positions in the table given to `fit` of the rows that the memory numbers, see `neighbors`."""
        return self.model_.kept.positions

    @property
    def n_leaves_(self) -> int:
        """Number of regions."""
        return self.tree_.n_leaves

    def apply(self, X: TableLike) -> NDArray[np.int64]:
        """The id of the region that each row falls in.

        The same id is in `rules`, `predict_table`, `export_text`, plots, reports and ONNX graphs. It is the number of
        the region's node in the tree, so it is also a column of `decision_path`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        raw = self._encode(X)  # before `tree_`: it raises if the model is not fitted
        return self.tree_.apply(raw)

    def decision_path(self, X: TableLike) -> Any:
        """The nodes of the tree that each row passes, its region included.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_samples, n_nodes)
            1 where a row passes a node; the last one is the row's region, ``apply(X)``.
        """
        raw = self._encode(X)
        return self.tree_.decision_path(raw)

    def get_depth(self) -> int:
        """The largest depth of a region."""
        check_is_fitted(self)
        return self.tree_.max_depth

    def get_n_leaves(self) -> int:
        """Number of regions."""
        check_is_fitted(self)
        return self.n_leaves_

    @property
    def heterogeneity_(self) -> float:
        """Standard deviation of the logarithms of the regions' residual standard deviations (the paper's measure)."""
        leaves = self.tree_.feature < 0
        return float(np.std(np.log(np.maximum(self.tree_.residual_std[leaves], np.finfo(float).tiny))))

    # -- predictions -----------------------------------------------------------------------------------------------

    def _n_threads(self, n_rows: int) -> int:
        """Number of threads for the predictions of some rows."""
        return 1 if n_rows < 2 * MIN_ROWS else effective_n_jobs(self.n_jobs)

    def _predict_dist(self, raw: Floats, parts: bool = True) -> Distribution:
        n_threads = self._n_threads(len(raw))
        return self.model_.distribution(self.model_.predict(raw, n_threads=n_threads), parts, n_threads)

    def _predict_encoded(self, raw: Floats, coverages: list[float], guaranteed: bool = False) -> EncodedPredictions:
        model, n_threads = self.model_, self._n_threads(len(raw))
        predicted = model.predict(raw, n_threads=n_threads)
        row_support = predicted.row_support or model.measured_support(raw, n_threads)
        region, supported = model.tree.apply(raw), row_support.supported
        if model.calibration is None:
            dist = model.distribution(predicted, n_threads=n_threads)
            return EncodedPredictions(dist, dist.interval(coverages), region, supported)
        bounds = [model.interval(predicted, coverage, guaranteed, n_threads) for coverage in coverages]
        is_guaranteed = [model.calibration.is_guaranteed(predicted.calibration_leaf, level) for level in coverages]
        return EncodedPredictions(
            model.distribution(predicted, parts=False, n_threads=n_threads),
            np.stack(bounds, axis=2),
            region,
            supported,
            np.stack(is_guaranteed, axis=1),
        )

    def predict_interval(
        self, X: TableLike, coverage: float | Sequence[float] = 0.9, guaranteed: bool = False
    ) -> Floats:
        """Central prediction intervals with a nominal coverage.

        Calibrated models use order statistics of the conformity scores in the row's region (see
        `usnrt.calibration.groups`). A region with too few calibration rows for the coverage
        (`usnrt.calibration.conformal.rows_needed`; 19 at 90 %) has the intervals of the predicted distribution, which
        are not guaranteed. A `usnrt.utils.notices.UnguaranteedIntervalWarning` then states how many rows it has and how
        many are needed, and ``guaranteed`` is False in `predict_table`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        coverage : float or sequence of k floats, default=0.9
            Nominal coverage, in (0, 1).
        guaranteed : bool, default=False
            Whether bounds that cannot be guaranteed are infinite.

        Returns
        -------
        ndarray of shape (n_samples, 2), or (n_samples, 2, k) for a sequence
            Lower and upper bounds.
        """
        check_is_fitted(self)
        if self.calibration_ is None:
            if guaranteed:
                raise ValueError("guaranteed must be False for a model that is not calibrated, got True")
            return super().predict_interval(X, coverage)
        levels = [float(level) for level in np.atleast_1d(coverage)]
        for level in levels:
            check_number("coverage", level, 0, 1)
        raw = self._encode(X)
        n_threads = self._n_threads(len(raw))
        predicted = self.model_.predict(raw, n_threads=n_threads)
        bounds = [self.model_.interval(predicted, level, guaranteed, n_threads) for level in levels]
        self._warn_if_insufficient(predicted.calibration_leaf, levels, guaranteed)
        return bounds[0] if np.ndim(coverage) == 0 else np.stack(bounds, axis=2)

    def _warn_if_insufficient(self, leaf: NDArray[np.int64], coverages: list[float], guaranteed: bool) -> None:
        """Warn of regions with too few calibration rows, for the highest coverage that lacks them."""
        assert self.calibration_ is not None
        lacking = [level for level in coverages if not self.calibration_.is_guaranteed(leaf, level).all()]
        insufficient = insufficient_calibration(self.calibration_, max(lacking)) if lacking else None
        if insufficient is not None and guaranteed:
            warnings.warn(str(insufficient), InfiniteIntervalWarning, stacklevel=3)
        elif insufficient is not None:
            warnings.warn(insufficient.unguaranteed, UnguaranteedIntervalWarning, stacklevel=3)

    def predict_support(self, X: TableLike) -> Table:
        """Whether rows resemble the training rows, and how much their distributions are widened otherwise.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        Table
            Columns ``supported`` (none of the following), ``outside_range`` (a number is outside the range that it
            has in the row's region, with a margin), ``unseen_category`` (a category that training did not see),
            ``unexpected_missing`` (a value is missing in a column in which training had none missing), ``far`` (far
            from all training rows in the joint space of the numeric columns), ``unlike_subjects`` (of a model fitted
            with ``groups``: the numbers that all rows of a subject share are far from those of every training subject)
            and ``widening``, the factor on the standard deviation, 1 for supported rows.

        Examples
        --------
        >>> import numpy as np
        >>> from usnrt import USNRTRegressor
        >>> X = np.random.default_rng(0).uniform(size=(300, 1))
        >>> model = USNRTRegressor(max_epochs=5, random_state=0).fit(X, np.sin(9 * X[:, 0]))
        >>> support = model.predict_support([[0.5], [3.0], [np.nan]])
        >>> support["supported"], support["outside_range"], support["unexpected_missing"]
        (array([ True, False, False]), array([False,  True, False]), array([False, False,  True]))
        >>> bool(support["widening"][0] == 1.0 and support["widening"][1] > 2.0)
        True
        """
        raw = self._encode(X)
        row_support = self.model_.measured_support(raw)
        return Table(
            {
                "supported": row_support.supported,
                "outside_range": row_support.outside,
                "unseen_category": row_support.unseen,
                "unexpected_missing": row_support.missing,
                "far": row_support.far,
                "unlike_subjects": row_support.unlike,
                "widening": self.model_.widening(raw, row_support, self._n_threads(len(raw))),
            }
        )

    def calibrate(
        self, X: TableLike, y: ArrayLike, by: str = "region", window: Any = None, groups: ArrayLike | str | None = None
    ) -> Self:
        """Calibrate on new rows: replaces the residual distributions, and nothing else.

        The coverage of `predict_interval` is then guaranteed, in every region, for rows that are exchangeable with
        these, without assumptions about the networks or the distribution. Rows of one patient, shop or machine are not
        exchangeable with those of a new one: pass ``groups``, and the guarantee is for a row of a new group.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Rows that were not used in fitting. If most of them were, a
            `usnrt.utils.notices.TrainingRowsWarning` says so.
        y : array-like of shape (n_samples,)
        by : {"region", "global"}, default="region"
            Whether every region, or the whole table, gets a residual distribution of its own.
        window : int, timedelta or None, default=None
            Use the most recent rows only: this many, or those of this duration before the latest, by the model's
            ``time_column``; without one the last rows given are the most recent. None for all rows.
        groups : array-like of shape (n_samples,), or str, default=None
            Labels of rows that belong together, or the name of a column of X. Each group counts as one row, so 90 %
            intervals need 19 groups in a region. By default rows with equal features are a group.

        Returns
        -------
        self
        """
        check_choice("by", by, tuple(METHODS))
        X, groups = groups_and_table(X, groups)
        raw, target = self._encode(X), read_target(y)
        check_target(target, self._parameter("target_bounds"))
        if len(raw) != len(target):
            raise ValueError(f"X and y must have the same number of rows, got {len(raw)} and {len(target)}")
        recent = recent_rows(self, X, len(target), window)
        self._warn_of_training_rows(raw[recent], target[recent])
        given = None if groups is None else read_groups(groups, len(target))[recent]
        rows = distinct_rows(raw[recent], target[recent], np.ones(len(recent)), groups=given)
        self.model_ = calibrate_on(self.model_, rows, by)
        return self

    def _warn_of_training_rows(self, raw: Floats, target: Floats) -> None:
        share = self.fingerprint_.share_of(raw, target)
        if share > 0:
            warnings.warn(
                f"{share_text(share)} of these rows are training rows: intervals calibrated on them are too narrow; "
                "calibrate on new rows",
                TrainingRowsWarning,
                stacklevel=users_level(),
            )

    # -- regions, similar rows, explanations and export -------------------------------------------------------------

    @available_if(_may_remember)  # type: ignore[untyped-decorator]
    def neighbors(self, X: TableLike, n_neighbors: int = 5) -> Table:
        """The training rows that are most similar to each row, with their targets.

        The memory predicts the weighted distribution of these targets. How much it counts depends on the region: see
        the columns ``guided`` and ``memory`` of `rules`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        n_neighbors : int, default=5
            At most the number that predictions use, `usnrt.memory.retrieval.N_NEIGHBORS`.

        Returns
        -------
        Table
            Up to ``n_neighbors`` rows per row of X, the largest weight first: ``row`` (position in X), ``position``
            (of the training row in the table given to fit; of the first of equal rows), ``weight`` (in the prediction
            of the memory, averaged over the members of an ensemble) and ``target``.

        Examples
        --------
        >>> import numpy as np
        >>> from usnrt import USNRTRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, (600, 2))
        >>> y = np.sign(X[:, 0]) + 0.1 * rng.normal(size=600)
        >>> model = USNRTRegressor(hidden=(16, 8), max_epochs=5, random_state=0).fit(X, y)
        >>> similar = model.neighbors([[0.5, 0.0]], n_neighbors=3)
        >>> similar.columns, bool((X[similar["position"], 0] > 0).all())
        (['row', 'position', 'weight', 'target'], True)
        """
        raw = self._encode(X)
        check_whole("n_neighbors", n_neighbors, 1, N_NEIGHBORS)
        model, positions = self.model_, self.model_.kept.positions
        if not model.memories or positions is None:
            why = (
                "without a memory that any region uses"
                if getattr(self._model_recipe().tree, "memory", False)
                else "fitted with memory=False"
            )
            raise ValueError(f"neighbors needs a model with memory, got one {why}")
        found = similar_rows(model.memories, model.inputs.transform(raw), n_neighbors, self._n_threads(len(raw)))
        is_row = found.row >= 0
        return Table(
            {
                "row": np.nonzero(is_row)[0],
                "position": positions[found.row[is_row]],
                "weight": found.weight[is_row],
                "target": model.target.to_target(found.target[is_row]),
            }
        )

    def rules(self) -> Table:
        """The regions as a table.

        Returns
        -------
        Table
            One row per region: ``region`` (its id, as from `apply`), ``rule`` (in words), ``rows`` and ``share`` of
            the training rows, ``residual_std`` in the target's units, and the splits on its path (``statistic``,
            ``log10_p`` of the last one, ``statistics``, ``log10_ps`` of all). For models with experts also their
            weights, averaged over the members of an ensemble (``network``, ``guided``, ``memory``, and of those that
            some region uses ``forest``, ``linear`` and models of yours by their classes), and ``experts``, the weights
            in words.
        """
        check_is_fitted(self)
        model = self.model_
        return rules_table(
            model.tree, self.columns_, expert_weights=model.expert_weights, expert_names=model.expert_names
        )

    def explain(
        self,
        X: TableLike,
        *,
        coverage: float = 0.9,
        baseline: str = "region",
        n_neighbors: int = 5,
        background: TableLike = None,
        rounds: int = 1,
        random_state: int = 0,
    ) -> "Explanation":
        """Why each row has its predicted mean and standard deviation, and what would narrow its interval.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        coverage : float, default=0.9
            Nominal coverage of the intervals.
        baseline : {"region", "table"}, default="region"
            Contributions explain the difference from the average prediction in the row's region, or in the whole
            table. Features that only determine the region contribute to the second only.
        n_neighbors : int, default=5
            Number of similar training rows, if the model has a memory.
        background : array-like or data frame, default=None
            Rows whose average prediction is the baseline; by default those that the model kept in `fit`: some training
            rows, or quantiles of each column with ``memory=False``. The paper's estimators and models of old files
            keep none.
        rounds : int, default=1
            Each background row is used with this many pairs of permutations; the standard errors of the contributions
            fall with its square root.
        random_state : int, default=0
            Seed of the permutations.

        Returns
        -------
        Explanation
            One `usnrt.explain.RowExplanation` per row: ``explanation[0]`` prints one; ``to_frame()`` and ``to_dict()``
            return all.

        Examples
        --------
        >>> import numpy as np
        >>> from usnrt import USNRTRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, (600, 2))
        >>> y = X[:, 1] + np.where(X[:, 0] > 0, 1.0, 0.1) * rng.normal(size=600)
        >>> model = USNRTRegressor(min_samples_leaf=200, max_epochs=30, random_state=0).fit(X, y)
        >>> row = model.explain([[0.5, 0.5]], baseline="table")[0]
        >>> max(row.std_contributions, key=row.std_contributions.get)
        'x0'
        >>> total = row.base_mean + sum(row.mean_contributions.values()) + row.mean_adjustment
        >>> bool(np.isclose(total, model.predict([[0.5, 0.5]])[0]))
        True
        """
        from usnrt.explain.rows import explain_rows

        return explain_rows(
            self, X, coverage, baseline, n_neighbors=n_neighbors, background=background, rounds=rounds,
            seed=random_state,
        )  # fmt: skip

    def to_onnx(self, path: Any = None, *, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> "ModelProto":
        """The model as one ONNX graph, from unprocessed rows to predictions, for other languages.

        Inputs: if all columns are numeric, one matrix ``X`` of shape (n, n_features), float64. Otherwise one input of
        shape (n,) per column, under its name: numbers as float64, text as strings, dates as int64 microseconds of wall
        time since 1970. A missing value is NaN, the empty string or the smallest int64 (see the description of each
        input); `usnrt.onnx.feeds` makes all inputs from a table. An underscore is appended to the name of an input that
        is also the name of an output. Categories that training did not see and values beyond all thresholds are handled
        as in the library; an infinite number is not rejected but treated as a very large one.

        Outputs: ``mean`` and ``std`` of shape (n,), ``region`` of shape (n,) as from `apply`, ``quantiles`` of shape
        (n, k) as from `predict_quantiles`, and ``supported`` of shape (n,) as from `predict_support`.

        The graph of a model with a memory contains training data, see the parameter ``memory``.

        Parameters
        ----------
        path : path-like, optional
            The file to write, conventionally with the extension ``.onnx``; None to write no file.
        levels : sequence of k floats, default=(0.05, 0.5, 0.95)
            Levels of the quantiles, in (0, 1).

        Returns
        -------
        onnx.ModelProto
        """
        from usnrt.onnx import to_onnx

        return to_onnx(self, path, levels=levels)
