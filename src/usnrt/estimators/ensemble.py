"""USNRTEnsemble: several trees on different parts of the rows, calibrated as a whole."""

from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from usnrt.distributions import Distribution, Mixture, Normal
from usnrt.estimators.calibrated import CalibratedRegressor
from usnrt.estimators.recipe import FittedTree, check_member_parameters, fit_tree, warn_if_diverged
from usnrt.estimators.regressor import USNRTRegressor
from usnrt.nn.quantile_functions import conformity_scores, value_at
from usnrt.nn.quantiles import POSITIONS, quantile_function_mean
from usnrt.tables.training import TrainingTable
from usnrt.tree.refine import half_widths
from usnrt.tree.structure import Tree
from usnrt.utils.checks import check_whole, same_value
from usnrt.utils.progress import Progress

# Share of the rows that two members hold out, to see how far unbiased members are apart.
PAIRED = 0.25
# Variances between members are capped at so many times the variance they state, so that noise-free rows do not
# dominate what is measured; where it is applied, the same cap holds.
MAX_DISAGREEMENT = 4.0
# Levels at which the scores of pairs are compared with those of single members, and how many neighbours are averaged.
LEVELS = np.linspace(0.05, 0.95, 19)
SMOOTHED = 5


class USNRTEnsemble(CalibratedRegressor):
    r"""An ensemble of trees, each with its own seed and its own held-out rows.

    Every row is held out by one member at least, so every row trains and every row has a conformity score that its
    member did not learn from. The quantile functions of the ensemble are the means of its members'. They err less than
    a member's do, because a part of each member's error is its own: with v the variance that members state and s² the
    variance between their means, a row's quantile function is narrowed by the square root of

    .. math:: κ + c s² / (M v)

    and what two members err less than one at each level of the scores is extrapolated to M members. All of it is
    measured on the quarter of the rows that two members hold out. The coverage of intervals is then approximate; with
    ``calibration_fraction`` of the estimator, rows that no member learns from calibrate the ensemble as a whole, and
    the coverage of `predict_interval` is guaranteed in every region.

    ``predict_variance`` divides the variance into ``epistemic``, the disagreement between members and the lack of
    support (see `predict_support`), and ``aleatoric``, the rest.

    Parameters
    ----------
    estimator : USNRTRegressor, default=None
        The recipe of the members; None for the default one. Its ``random_state``, ``n_jobs``, ``verbose`` and (with
        ``holdout="tree"``) ``validation_fraction`` must have their defaults: the ensemble decides these.
    n_members : int, default=5
    categorical_features : list of names or positions, or bool mask, default=None
        See `USNRTRegressor`; None for those of the estimator.
    random_state : int, RandomState or None, default=None
        The same whole number gives the same model, bit for bit, whatever ``n_jobs`` is.
    n_jobs : int, default=-1
        Members that are fitted at once; threads, or the workers of a cluster inside
        ``joblib.parallel_config("dask")``.
    verbose : int, default=0
        1 says when a member is done.

    Attributes
    ----------
    members_ : list of TreeModel
    tree_ : Tree
        The regions: those of the first member.
    shared_ : ndarray of shape (n_leaves,)
        κ, the share of a member's variance that all members have in common; the same in all regions.
    own_factor_ : float
        c, what the variance between members' means is multiplied by.
    calibration_ : Calibration or None

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt import USNRTEnsemble, USNRTRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 2))
    >>> y = X[:, 1] + 0.3 * rng.normal(size=400)
    >>> quick = USNRTRegressor(max_epochs=20)
    >>> model = USNRTEnsemble(quick, n_members=3, random_state=0).fit(X, y)
    >>> model.predict_variance([[0.0, 0.0]]).columns
    ['aleatoric', 'epistemic', 'total']
    """

    def __init__(
        self,
        estimator: USNRTRegressor | None = None,
        *,
        n_members: int = 5,
        categorical_features: Any = None,
        random_state: Any = None,
        n_jobs: int | None = -1,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_members = n_members
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """The paper's ensemble: five of its trees with different seeds, a mixture of their normal distributions.

        Examples
        --------
        >>> from usnrt import USNRTEnsemble
        >>> USNRTEnsemble.paper().estimator.holdout
        'node'
        """
        return cls(**{"estimator": USNRTRegressor.paper(), "n_members": 5, **changes})

    # -- fitting -----------------------------------------------------------------------------------------------

    def _categorical_features(self) -> Any:
        """Those of the ensemble or, if it has none, of its estimator."""
        own, inner = self.categorical_features, getattr(self.estimator, "categorical_features", None)
        if own is not None and inner is not None and not same_value(own, inner):
            raise ValueError(
                "categorical_features and estimator.categorical_features must be equal if both are given, "
                f"got {own!r} and {inner!r}"
            )
        return inner if own is None else own

    def _fit(self, table: TrainingTable) -> None:
        check_whole("n_members", self.n_members, 2)
        recipe = USNRTRegressor() if self.estimator is None else clone(self.estimator)
        if not isinstance(recipe, USNRTRegressor):
            raise TypeError(f"estimator must be a USNRTRegressor or None, got {self.estimator!r}")
        check_member_parameters(recipe)
        # scikit-learn's meta-estimators seed nested models too; what they give counts beside our own.
        states = [self.random_state, *([] if recipe.random_state is None else [recipe.random_state])]
        seeds = np.random.SeedSequence([int(check_random_state(state).randint(2**31 - 1)) for state in states])
        rng = np.random.default_rng(seeds.spawn(1)[0])
        fraction = recipe.calibration_fraction if recipe.calibration is not None else 0.0
        table, set_aside = self._set_aside(table, fraction, rng)
        held_out = np.zeros((self.n_members, table.n_rows), dtype=bool)
        if recipe.holdout == "tree" and table.n_rows >= 4 * self.n_members:
            held_out = draw_folds(table.n_rows, self.n_members, rng)
        # Members side by side; what threads are left over go into each of them.
        n_jobs = effective_n_jobs(self.n_jobs)
        n_threads = max(1, n_jobs // self.n_members)
        fitted: list[FittedTree] = Parallel(n_jobs=n_jobs, prefer="threads", verbose=10 * self.verbose)(
            delayed(fit_tree)(
                recipe, table, self.inputs_.numeric_, self.encoder_.n_categories_, held, int(seed.generate_state(1)[0]),
                n_threads, Progress(0, recipe.callbacks, table.n_rows),
            )
            for held, seed in zip(held_out, seeds.spawn(self.n_members))
        )  # fmt: skip
        self.members_ = [member.model for member in fitted]
        self.calibration_, self.familiar_, self.own_mean_ = None, None, True
        self.shared_, self.own_factor_ = np.ones(self.tree_.n_leaves), 1.0
        self._fit_support(
            table, np.flatnonzero(held_out.any(axis=0)), self._held_out_quantiles(held_out), recipe.holdout == "tree"
        )
        self.tree_.residual_mean *= self.target_std_
        self.tree_.residual_std *= self.target_std_
        trainings = {
            f"member {m} node {n}": courses
            for m, member in enumerate(fitted, 1)
            for n, courses in enumerate(member.history)
        }
        warn_if_diverged(self, trainings, recipe.learning_rate)
        if recipe.calibration is None:
            return
        by_folds = self._scores_by_folds(table, held_out, fitted) if held_out.any() else None
        if set_aside is not None:
            self._calibrate_on(set_aside, recipe.calibration)
        elif by_folds is not None:
            self._calibrate_by_validation(table, *by_folds, recipe.calibration)

    def _held_out_quantiles(self, held_out: NDArray[np.bool_]) -> Any:
        """Quantile functions for changed contents of rows, by the first member that held each of them out."""
        member_of = np.argmax(held_out, axis=0)

        def quantiles_of(rows: NDArray[np.intp], raw: NDArray[np.float64]) -> NDArray[np.float64]:
            inputs, quantiles = self.inputs_.transform(raw), np.empty((len(raw), len(POSITIONS)))
            for place, member in enumerate(self.members_):
                own = np.flatnonzero(member_of[rows] == place)
                quantiles[own] = member.quantile_functions(raw[own], inputs[own], effective_n_jobs(self.n_jobs))[2]
            return quantiles

        return quantiles_of

    def _scores_by_folds(
        self, table: TrainingTable, held_out: NDArray[np.bool_], fitted: list[FittedTree]
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Rows and the conformity scores that the ensemble is expected to have on new rows like them.

        Sets how much narrower than a member's the ensemble's quantile functions are.
        """
        scores = np.full(table.n_rows, np.nan)
        for member in reversed(fitted):  # where two members know a score, that of the first is taken
            scores[member.held_rows] = member.scores
        known = np.flatnonzero(np.isfinite(scores))
        pairs = self._pairs(table, held_out)
        if len(pairs.rows) == 0:
            return known, scores[known]
        own = own_error_share(pairs)
        self.own_factor_ = own / max(float(np.average(pairs.disagreement, weights=pairs.weight)), 1e-12)
        self.shared_ = np.full(self.tree_.n_leaves, max(1.0 - own, 0.05))
        return known, scores[known] * level_factors(pairs, scores[known], own, self.n_members)

    def _pairs(self, table: TrainingTable, held_out: NDArray[np.bool_]) -> "Pairs":
        """What the two members that both do not know a row predict for it, and how they and their mean err."""
        found: list[Pairs] = []
        twice = held_out.sum(axis=0) == 2
        for first, second in combinations(range(self.n_members), 2):
            rows = np.flatnonzero(twice & held_out[first] & held_out[second])
            raw, inputs, y = table.raw[rows], table.inputs[rows], table.y[rows]
            member_quantiles = np.stack([self.members_[m].quantile_functions(raw, inputs)[2] for m in (first, second)])
            single = np.stack([conformity_scores(quantiles, y) for quantiles in member_quantiles])
            joint = conformity_scores(member_quantiles.mean(axis=0), y)
            found.append(Pairs(rows, table.weight[rows], capped_disagreement(member_quantiles), single, joint))
        return Pairs(*(np.concatenate([getattr(pair, name) for pair in found], axis=-1) for name in Pairs.names()))

    # -- answers -----------------------------------------------------------------------------------------------

    @property
    def tree_(self) -> Tree:
        """The regions of the first member."""
        return self.members_[0].tree

    def _parts(
        self, raw: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Leaf, mean, quantile functions of the ensemble, what narrows them, and the disagreement of members."""
        inputs, n_threads = self.inputs_.transform(raw), effective_n_jobs(self.n_jobs)
        answers = [member.quantile_functions(raw, inputs, n_threads) for member in self.members_]
        member_quantiles = np.stack([quantiles for _, _, quantiles in answers])
        leaf, apart = self.tree_.leaf_of(raw), disagreement(member_quantiles)
        capped = np.minimum(apart, MAX_DISAGREEMENT) if self.own_mean_ else apart
        share = self.shared_[leaf] + self.own_factor_ * capped / len(self.members_)
        return leaf, np.mean([mean for _, mean, _ in answers], axis=0), member_quantiles.mean(axis=0), share, apart

    def _network_quantiles(
        self, raw: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        leaf, mean, quantiles, share, apart = self._parts(raw)
        return leaf, mean, _narrowed(quantiles, share), apart

    def _network_moments(self, raw: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Means and variances of members that predict those, shape (n_members, n)."""
        inputs, n_threads = self.inputs_.transform(raw), effective_n_jobs(self.n_jobs)
        _, means, variances = zip(*(member.moments(raw, inputs, n_threads) for member in self.members_))
        return np.stack(means), np.stack(variances)

    def _distribution(self, raw: NDArray[np.float64]) -> Distribution:
        if self.calibration_ is None and not self.members_[0].predicts_quantiles:
            means, variances = self._supported_moments(self._network_moments, raw)
            return Mixture([Normal(mean, np.sqrt(variance)) for mean, variance in zip(means, variances)])
        predicted = self._predicted(raw)
        dist = self._from_quantiles(predicted.leaf, predicted.mean, predicted.quantiles)
        assert predicted.disagreement is not None
        # By the law of total variance: within members, and between them, in units of the former; what lack of support
        # adds is not noise.
        aleatoric = self._within(dist, predicted) / (1.0 + predicted.disagreement)
        return dist.with_parts(aleatoric, dist.var() - aleatoric)


@dataclass(frozen=True)
class Pairs:
    """Rows that two members hold out.

    Attributes
    ----------
    rows : ndarray of int of shape (n,)
    weight : ndarray of shape (n,)
    disagreement : ndarray of shape (n,)
        Variance between the two, see `disagreement`; capped.
    single : ndarray of shape (2, n)
        Conformity scores by each of the two.
    joint : ndarray of shape (n,)
        Conformity scores by the mean of their quantile functions.
    """

    rows: NDArray[np.intp]
    weight: NDArray[np.float64]
    disagreement: NDArray[np.float64]
    single: NDArray[np.float64]
    joint: NDArray[np.float64]

    @classmethod
    def names(cls) -> list[str]:
        """Names of the attributes, in order."""
        return [field.name for field in fields(cls)]


def disagreement(member_quantiles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Variance between the means of members, in units of the mean variance that they state.

    The variance of a member is read from its quantiles one standard deviation either way.

    Parameters
    ----------
    member_quantiles : ndarray of shape (n_members, n, n_positions)

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.estimators.ensemble import disagreement
    >>> from usnrt.nn.quantiles import POSITIONS
    >>> disagreement(np.stack([POSITIONS[None, :], POSITIONS[None, :] + 2.0]))
    array([2.])
    """
    stated = np.mean([half_widths(quantiles) ** 2 for quantiles in member_quantiles], axis=0)
    return np.stack([quantile_function_mean(quantiles) for quantiles in member_quantiles]).var(
        axis=0, ddof=1
    ) / np.maximum(stated, 1e-30)


def capped_disagreement(member_quantiles: NDArray[np.float64]) -> NDArray[np.float64]:
    """`disagreement`, at most ``MAX_DISAGREEMENT``."""
    return np.minimum(disagreement(member_quantiles), MAX_DISAGREEMENT)


def own_error_share(pairs: Pairs) -> float:
    """The share of a member's squared error that is its own, and that the mean of many members would not have.

    If it is rho, the mean of two members errs 1 - rho / 2 times as much as one, in squares. Large errors are left out
    of the comparison: they are common to all members, and few.
    """

    def core(scores: NDArray[np.float64]) -> float:
        size = np.abs(scores).ravel()
        weight = np.broadcast_to(pairs.weight, scores.shape).ravel()
        kept = size <= np.quantile(size, 0.9)
        return float(np.average(size[kept], weights=weight[kept]))

    ratio = core(pairs.joint) / max(core(pairs.single), 1e-12)
    return float(np.clip(2.0 * (1.0 - ratio**2), 0.0, 0.95))


def level_factors(pairs: Pairs, scores: NDArray[np.float64], own: float, n_members: int) -> NDArray[np.float64]:
    """What scores of single members are multiplied by, so that they are distributed as the ensemble's.

    At each level of the absolute score, pairs err r times as much as single members; M members err R times as much,
    with R² = 1 - 2 (M - 1) / M (1 - r²). What quantile functions are narrowed by on average is taken out again.

    Parameters
    ----------
    pairs : Pairs
    scores : ndarray of shape (n,)
        Of single members.
    own : float
        From `own_error_share`.
    n_members : int

    Returns
    -------
    ndarray of shape (n,)
    """
    gain = 2.0 * (n_members - 1) / n_members

    def to_quantiles(values: NDArray[np.float64]) -> NDArray[np.float64]:
        size = np.abs(values).ravel()
        order = np.argsort(size, kind="stable")
        weight = np.broadcast_to(pairs.weight, values.shape).ravel()[order]
        return np.interp(LEVELS, (np.cumsum(weight) - 0.5 * weight) / weight.sum(), size[order])

    ratio = to_quantiles(pairs.joint) / np.maximum(to_quantiles(pairs.single), 1e-12)
    padded = np.pad(np.minimum(ratio, 1.2), SMOOTHED // 2, mode="edge")
    smooth = np.convolve(padded, np.full(SMOOTHED, 1.0 / SMOOTHED), mode="valid")
    factor = np.sqrt(np.maximum(1.0 - gain * (1.0 - smooth**2), 0.02) / (1.0 - gain * own / 2.0))
    level = (np.argsort(np.argsort(np.abs(scores), kind="stable"), kind="stable") + 0.5) / len(scores)
    return np.interp(level, LEVELS, factor)


def _narrowed(quantiles: NDArray[np.float64], share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quantile functions of an ensemble, given the share of a member's variance that remains."""
    return value_at(quantiles, POSITIONS, np.sqrt(share)[:, None] * POSITIONS)


def draw_folds(n_rows: int, n_members: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which rows each member holds out: every row by one member, a quarter of them by two.

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
    >>> held_out = draw_folds(1000, 5, np.random.default_rng(0))
    >>> held_out.sum(axis=1)
    array([250, 250, 250, 250, 250])
    >>> np.bincount(held_out.sum(axis=0))
    array([  0, 750, 250])
    """
    held_out = np.zeros((n_members, n_rows), dtype=bool)
    shuffled = rng.permutation(n_rows)
    n_paired = round(PAIRED * n_rows)
    pairs = list(combinations(range(n_members), 2))
    for place, row_group in enumerate(np.array_split(shuffled[:n_paired], len(pairs))):
        held_out[np.array(pairs[place])[:, None], row_group] = True
    for member, row_group in enumerate(np.array_split(shuffled[n_paired:], n_members)):
        held_out[member, row_group] = True
    return held_out
