"""USNRTEnsemble: several trees trained on different parts of the rows, calibrated jointly."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from usnrt.distributions import Distribution
from usnrt.estimators.members import ENSEMBLE_CONSTRAINTS, EnsembleOf
from usnrt.estimators.neighbors import RememberingRegressor
from usnrt.estimators.pairs import (
    MAX_DISAGREEMENT,
    Pairs,
    capped_disagreement,
    disagreement,
    level_factors,
    mean_error_factor,
    own_error_share,
)
from usnrt.estimators.paper import PaperUSNRTEnsemble, PaperUSNRTRegressor
from usnrt.estimators.probe import choose_map
from usnrt.estimators.regressor import USNRTRegressor, draw_validation_rows
from usnrt.estimators.targets import candidate_maps
from usnrt.nn.quantile_functions import conformity_scores, value_at
from usnrt.nn.quantiles import POSITIONS
from usnrt.tables.training import DistinctRows, TrainingTable
from usnrt.tree.fit import ColumnKinds, FittedTree, announce_compilation, fit_quantile_tree
from usnrt.tree.model import ExpertTree, TreeModel
from usnrt.tree.recipe import QuantileTreeRecipe
from usnrt.tree.structure import Tree
from usnrt.utils.constraints import TARGET_BOUNDS, TARGET_TRANSFORM, TIME_COLUMN, Constraint
from usnrt.utils.deprecation import DEPRECATED
from usnrt.utils.progress import Progress
from usnrt.utils.types import Floats, Rows

# Share of the rows that validate two members, to measure the disagreement of members on rows that neither trained on.
PAIRED = 0.25


class USNRTEnsemble(RememberingRegressor, EnsembleOf[USNRTRegressor]):
    r"""An ensemble of trees, each with its own seed and its own validation rows.

    Every row is a validation row of at least one member and a training row of the others, so every row has a conformity
    score by a member that was not trained on it. The quantile functions of the ensemble are the means of its members'.
    Their errors are smaller than those of a member, because errors are only partly common to all members: with v the
    variance that members predict and s² the variance between their means, the quantile function of a row is narrowed by
    the square root of

    .. math:: κ + c s² / (M v)

    and the ratio of the errors of two members to those of one, at each level of the conformity scores, is extrapolated
    to M members. All of this is estimated on the quarter of the rows that validate two members. The coverage of
    intervals is then approximate; with ``calibration_fraction`` of the estimator, rows that no member is trained on
    calibrate the ensemble, and the coverage of `predict_interval` is guaranteed in every region.

    ``predict_variance`` divides the variance into ``epistemic``, an estimate of the squared error of the mean and the
    lack of support (see `predict_support`), and ``aleatoric``, the rest. Members share most of their training rows and
    hence of their errors, so the variance between their means is multiplied by a factor that follows from the folds
    (`usnrt.estimators.pairs.mean_error_factor`). What all members get wrong alike, such as a jump that they smooth, is
    not in it. With a ``time_column`` all members have the same rows, and the epistemic part is a lower bound.

    Parameters
    ----------
    estimator : USNRTRegressor, default=None
        The member; None for the default one. Its ``n_jobs``, ``verbose`` and ``validation_fraction`` must have their
        defaults: the ensemble sets these.
    n_estimators : int, default=5
        Number of members.
    target_bounds : pair of floats or None, default=None
        See `USNRTRegressor`; None for that of the estimator.
    target_transform : {"log", "auto", None}, default=None
        See `USNRTRegressor`; None for that of the estimator.
    time_column : str or int, default=None
        See `USNRTRegressor`; None for that of the estimator. Folds would look ahead, so all members then validate on
        the latest rows, ``validation_fraction`` of the estimator, and differ by their seeds only.
    categorical_features : list of names or positions, or bool mask, default=None
        See `USNRTRegressor`; None for those of the estimator.
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
    members_ : list of TreeModel
    tree_ : Tree
        The regions: those of the first member.
    expert_weights_ : ndarray of shape (n_leaves, 3)
        Weights of the network, of the network guided by the memory, and of the memory in each region, averaged over
        the members and the training rows of the region.
    shared_ : ndarray of shape (n_leaves,)
        κ, the share of a member's variance that all members have in common; the same in all regions.
    own_factor_ : float
        c, the factor of the variance between members' means.
    epistemic_factor_ : float
        Squared error of the ensemble's mean in units of the variance between members' means, by the folds.
    row_positions_, examples_, background_
        See `USNRTRegressor`.
    calibration_ : Calibration or None

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt import USNRTEnsemble, USNRTRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 2))
    >>> y = X[:, 1] + 0.3 * rng.normal(size=400)
    >>> quick = USNRTRegressor(max_epochs=20)
    >>> model = USNRTEnsemble(quick, n_estimators=3, random_state=0).fit(X, y)
    >>> model.predict_variance([[0.0, 0.0]]).columns
    ['aleatoric', 'epistemic', 'total']
    """

    members_: Sequence[TreeModel]
    epistemic_factor_: float = 1.0  # in files of old versions

    _RESUMABLE = True
    _TAKES_GROUPS = True
    _SELECTION = 8.0
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {
        **ENSEMBLE_CONSTRAINTS,
        "target_bounds": TARGET_BOUNDS,
        "target_transform": TARGET_TRANSFORM,
        "time_column": TIME_COLUMN,
    }
    _MEMBER = USNRTRegressor

    def __init__(
        self,
        estimator: USNRTRegressor | None = None,
        *,
        n_estimators: int = 5,
        target_bounds: tuple[float | None, float | None] | None = None,
        target_transform: str | None = None,
        time_column: str | int | None = None,
        categorical_features: Any = None,
        random_state: Any = None,
        n_jobs: int | None = -1,
        verbose: int = 0,
        n_members: int | str = DEPRECATED,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.target_bounds = target_bounds
        self.target_transform = target_transform
        self.time_column = time_column
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.n_members = n_members

    @staticmethod
    def paper(**parameters: Any) -> PaperUSNRTEnsemble:
        """The ensemble of the paper; ``parameters`` are those of `PaperUSNRTEnsemble`.

        Examples
        --------
        >>> from usnrt import USNRTEnsemble
        >>> USNRTEnsemble.paper(n_estimators=3)
        PaperUSNRTEnsemble(estimator=PaperUSNRTRegressor(), n_estimators=3)
        """
        return PaperUSNRTEnsemble(**{"estimator": PaperUSNRTRegressor(), **parameters})

    # -- fitting -----------------------------------------------------------------------------------------------

    def _set_by_ensemble(self) -> Mapping[str, str]:
        if self._parameter("time_column") is not None:
            return super()._set_by_ensemble()
        by_folds = "members validate by folds: set n_estimators of the ensemble"
        return {**super()._set_by_ensemble(), "validation_fraction": by_folds}

    def _fit(self, rows: DistinctRows) -> None:
        member = self._member()
        recipe = member._recipe()
        seeds = self._seeds(member)
        rng = np.random.default_rng(seeds.spawn(1)[0])
        rows, calibration_rows = self._draw_calibration_rows(rows, recipe.calibration_fraction, rng)
        is_validation = self._validation_rows(rows, recipe.validation_fraction, rng)
        candidates = candidate_maps(rows.target, self._parameter("target_bounds"), self._parameter("target_transform"))
        probe_seed = int(seeds.generate_state(1)[0])
        self.target_map_ = choose_map(self, rows, is_validation[0], candidates, recipe, probe_seed)
        by_validation = recipe.calibration is not None and calibration_rows is None
        table = self._marked_if_recalled(self._scaled_table(rows), by_validation)
        recipe = replace(recipe, in_time_order=rows.time is not None)
        fitted = self._fit_members(member, recipe, table, is_validation, seeds)
        self.members_ = [tree.model for tree in fitted]
        self._keep_positions(rows)
        self.expert_weights_ = mean_expert_weights([tree.model for tree in fitted], table)
        self.calibration_, self.familiar_, self.own_mean_ = None, None, True
        self.shared_, self.own_factor_ = np.ones(self.tree_.n_leaves), 1.0
        self.epistemic_factor_ = mean_error_factor(is_validation)
        self._fit_support(
            table, np.flatnonzero(is_validation.any(axis=0)), self._quantiles_by_validation(is_validation)
        )
        self._scale_residuals()
        self._warn_if_diverged([tree.history for tree in fitted], recipe.learning_rate)
        if recipe.calibration is not None:
            self._calibrate(recipe.calibration, calibration_rows, table, is_validation, fitted, rows.time is not None)
        validated = np.flatnonzero(is_validation.any(axis=0))
        if self.target_map_ is not None:
            quantiles = self._quantiles_by_validation(is_validation)(validated, table.raw[validated])
            self._fit_target(table, validated, rows.target[validated], quantiles)

    def _validation_rows(self, rows: DistinctRows, fraction: float, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Validation rows of each member: folds, or the latest rows of a table with a time column."""
        if rows.time is not None:
            return np.tile(draw_validation_rows(rows, fraction, rng), (self._n_estimators(), 1))
        if rows.group is not None:
            found, index = np.unique(rows.group, return_inverse=True)
            if len(found) < self._n_estimators():
                raise ValueError(
                    f"groups must have at least n_estimators={self._n_estimators()} different labels, got {len(found)}"
                )
            return draw_folds(len(found), self._n_estimators(), rng)[:, index]
        if rows.n_rows >= 4 * self._n_estimators():
            return draw_folds(rows.n_rows, self._n_estimators(), rng)
        return np.zeros((self._n_estimators(), rows.n_rows), dtype=bool)

    def _calibrate(
        self,
        by: str,
        calibration_rows: DistinctRows | None,
        table: TrainingTable,
        is_validation: NDArray[np.bool_],
        fitted: Sequence[FittedTree[ExpertTree]],
        in_time_order: bool,
    ) -> None:
        """Calibrate by rows that no member was trained on, or by the scores of each row by one member."""
        validated = None
        if in_time_order:  # no member was trained on these rows: they have scores of the ensemble itself
            rows = np.flatnonzero(is_validation[0])
            self.own_factor_ = 0.0
            if len(rows):
                validated = rows, conformity_scores(self._network_quantiles(table.raw[rows])[2], table.y[rows])
        elif is_validation.any():
            validated = self._scores_by_folds(table, is_validation, fitted)
        if calibration_rows is not None:
            self._calibrate_on(calibration_rows, by)
        elif validated is not None:
            self._calibrate_by_validation(table, *validated, by)

    def _fit_members(
        self,
        member: USNRTRegressor,
        recipe: QuantileTreeRecipe,
        table: TrainingTable,
        is_validation: NDArray[np.bool_],
        seeds: np.random.SeedSequence,
    ) -> list[FittedTree[ExpertTree]]:
        """Fit members in parallel; the remaining threads are shared between them."""
        columns = ColumnKinds(self.inputs_.numeric_, self.encoder_.n_categories_)
        n_threads = max(1, effective_n_jobs(self.n_jobs) // self._n_estimators())
        arguments = [
            (recipe, table, columns, own, int(seed.generate_state(1)[0]), n_threads)
            for own, seed in zip(is_validation, seeds.spawn(self._n_estimators()))
        ]
        progress = Progress(self.verbose, member.callbacks, table.n_rows)
        announce_compilation(recipe, table, progress)  # once, not by each member
        return self._fit_in_parallel(fit_quantile_tree, arguments, progress)

    def _quantiles_by_validation(self, is_validation: NDArray[np.bool_]) -> Callable[[Rows, Floats], Floats]:
        """Quantile functions of modified rows, each by the first member that was not trained on the row."""
        member_of = np.argmax(is_validation, axis=0)

        def quantiles_of(rows: Rows, raw: Floats) -> Floats:
            inputs, quantiles = self.inputs_.transform(raw), np.empty((len(raw), len(POSITIONS)))
            for number, member in enumerate(self.members_):
                own = np.flatnonzero(member_of[rows] == number)
                quantiles[own] = member.quantile_functions(
                    raw[own], inputs[own], effective_n_jobs(self.n_jobs), rows[own]
                )[2]
            return quantiles

        return quantiles_of

    def _scores_by_folds(
        self, table: TrainingTable, is_validation: NDArray[np.bool_], fitted: Sequence[FittedTree[ExpertTree]]
    ) -> tuple[Rows, Floats]:
        """Rows, and estimates of the conformity scores that the ensemble would have on them as new rows.

        Also sets ``shared_`` and ``own_factor_``, which narrow the ensemble's quantile functions.
        """
        scores = np.full(table.n_rows, np.nan)
        for member in reversed(fitted):  # a row with two scores keeps that of the first member
            scores[member.validation_rows] = member.scores
        known = np.flatnonzero(np.isfinite(scores))
        pairs = self._pairs(table, is_validation)
        if len(pairs.rows) == 0:
            return known, scores[known]
        own = own_error_share(pairs)
        self.own_factor_ = own / max(float(np.average(pairs.disagreement, weights=pairs.weight)), 1e-12)
        self.shared_ = np.full(self.tree_.n_leaves, max(1.0 - own, 0.05))
        return known, scores[known] * level_factors(pairs, scores[known], own, self._n_estimators())

    def _pairs(self, table: TrainingTable, is_validation: NDArray[np.bool_]) -> Pairs:
        """Disagreement and conformity scores of the two members that were not trained on a row, and of their mean."""
        parts: list[Pairs] = []
        twice = is_validation.sum(axis=0) == 2
        for first, second in combinations(range(self._n_estimators()), 2):
            rows = np.flatnonzero(twice & is_validation[first] & is_validation[second])
            raw, inputs, y = table.raw[rows], table.inputs[rows], table.y[rows]
            both = np.stack(
                [self.members_[m].quantile_functions(raw, inputs, without=rows)[2] for m in (first, second)]
            )
            single = np.stack([conformity_scores(quantiles, y) for quantiles in both])
            joint = conformity_scores(both.mean(axis=0), y)
            parts.append(Pairs(rows, table.validation_weight[rows], capped_disagreement(both), single, joint))
        return Pairs(*(np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in Pairs.names()))

    # -- predictions -------------------------------------------------------------------------------------------

    def _memory(self) -> bool | str:
        return self._member()._memory()

    @property
    def tree_(self) -> Tree:
        """The regions of the first member."""
        return self.members_[0].tree

    def _network_quantiles(self, raw: Floats) -> tuple[NDArray[np.int64], Floats, Floats, Floats]:
        """Region, mean, narrowed quantile functions of the ensemble, and disagreement of its members."""
        inputs, n_threads = self.inputs_.transform(raw), self._n_threads(len(raw))
        predicted = [member.quantile_functions(raw, inputs, n_threads) for member in self.members_]
        member_quantiles = np.stack([quantiles for _, _, quantiles in predicted])
        leaf, apart = self.tree_.leaf_of(raw), disagreement(member_quantiles)
        capped = np.minimum(apart, MAX_DISAGREEMENT) if self.own_mean_ else apart
        share = self.shared_[leaf] + self.own_factor_ * capped / len(self.members_)
        mean = np.mean([mean for _, mean, _ in predicted], axis=0)
        return leaf, mean, _narrowed(member_quantiles.mean(axis=0), share), apart

    def _distribution(self, raw: Floats) -> Distribution:
        predicted = self._predicted(raw)
        dist = self._from_quantiles(predicted.leaf, predicted.mean, predicted.quantiles)
        assert predicted.disagreement is not None
        # By the law of total variance; `disagreement` is the variance between members in units of that within them.
        # The widening for lack of support is epistemic.
        aleatoric = self._within(dist, predicted) / (1.0 + self.epistemic_factor_ * predicted.disagreement)
        return dist.with_parts(aleatoric, dist.var() - aleatoric)


def mean_expert_weights(members: Sequence[ExpertTree], table: TrainingTable) -> Floats:
    """Weights of the experts, averaged over members and over the rows of each region of the first member.

    Parameters
    ----------
    members : sequence of ExpertTree
    table : TrainingTable
        The training rows.

    Returns
    -------
    ndarray of shape (n_leaves, 3)
        Each row sums to 1.
    """
    regions, n_regions = members[0].tree.leaf_of(table.raw), members[0].tree.n_leaves
    of_row: Floats = np.mean([tree.expert_weights[tree.tree.leaf_of(table.raw)] for tree in members], axis=0)
    total = np.bincount(regions, table.weight, n_regions)
    sums = [np.bincount(regions, table.weight * weights, n_regions) for weights in of_row.T]
    return np.stack(sums, axis=1) / total[:, None]


def _narrowed(quantiles: Floats, share: Floats) -> Floats:
    """Quantile functions narrowed to a share of their variance."""
    return value_at(quantiles, POSITIONS, np.sqrt(share)[:, None] * POSITIONS)


def draw_folds(n_rows: int, n_members: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Validation rows of each member: every row validates one member, a quarter of them two.

    Parameters
    ----------
    n_rows, n_members : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of bool of shape (n_members, n_rows)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.estimators.ensemble import draw_folds
    >>> is_validation = draw_folds(1000, 5, np.random.default_rng(0))
    >>> is_validation.sum(axis=1)
    array([250, 250, 250, 250, 250])
    >>> np.bincount(is_validation.sum(axis=0))
    array([  0, 750, 250])
    """
    is_validation = np.zeros((n_members, n_rows), dtype=bool)
    shuffled = rng.permutation(n_rows)
    n_paired = round(PAIRED * n_rows)
    pairs = list(combinations(range(n_members), 2))
    for pair, row_group in zip(pairs, np.array_split(shuffled[:n_paired], len(pairs))):
        is_validation[np.array(pair)[:, None], row_group] = True
    for member, row_group in enumerate(np.array_split(shuffled[n_paired:], n_members)):
        is_validation[member, row_group] = True
    return is_validation
