"""USNRTEnsemble: several trees on different parts of the rows, calibrated as a whole."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from usnrt.base import TrainingTable
from usnrt.calibrated import CalibratedRegressor
from usnrt.calibration import Calibration, scores_of
from usnrt.checks import check_whole, same_value
from usnrt.distributions import Distribution, Mixture, Normal
from usnrt.distributions.curve import value_at
from usnrt.nn.quantiles import POSITIONS, curve_means
from usnrt.progress import Progress
from usnrt.recipe import FittedTree, check_member_parameters, fit_tree, warn_if_diverged
from usnrt.regressor import USNRTRegressor
from usnrt.tree.structure import Tree

# Share of the rows that two members hold out, to see how far unbiased members are apart.
PAIRED = 0.25
# Of the rows that speak for the whole table when a region says how much of its error members share.
PRIOR_ROWS = 200.0


class USNRTEnsemble(CalibratedRegressor):
    r"""An ensemble of trees, each with its own seed and its own held-out rows.

    Every row is held out by one member at least, so every row trains and every row has a score that its member did
    not learn from: those scores calibrate the ensemble as a whole. The quantiles of the ensemble are the means of its
    members' quantiles. They err less than a member's do, because a part of each member's error is its own: with v the
    variance that members state and s² the variance between their centres, scores shrink by the square root of

    .. math:: κ + c s² / (M v)

    where c and, region by region, κ are measured on rows that two members hold out: how far two members are apart
    there, and how much less their mean errs than one. The first part of the variance is ``aleatoric`` (more members
    would not take it away), the second ``epistemic``, which grows away from the data.

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
        κ of each region: the share of a member's variance that all members have in common.
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
            raise TypeError(f"estimator must be a USNRTRegressor or None, however: estimator={self.estimator!r}")
        check_member_parameters(recipe)
        seeds = np.random.SeedSequence(int(check_random_state(self.random_state).randint(2**31 - 1)))
        held_out = np.zeros((self.n_members, table.n_rows), dtype=bool)
        if recipe.holdout == "tree" and table.n_rows >= 4 * self.n_members:
            held_out = draw_folds(table.n_rows, self.n_members, np.random.default_rng(seeds.spawn(1)[0]))
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
        self.calibration_ = None
        self.shared_, self.own_factor_ = np.ones(self.tree_.n_leaves), 1.0
        self.tree_.residual_mean *= self.target_std_
        self.tree_.residual_std *= self.target_std_
        if recipe.calibration is not None and held_out.any():
            self._calibrate_by_folds(table, held_out, fitted, recipe.calibration)
        trainings = {
            f"member {m} node {n}": courses
            for m, member in enumerate(fitted, 1)
            for n, courses in enumerate(member.history)
        }
        warn_if_diverged(self, trainings, recipe.learning_rate)

    def _calibrate_by_folds(
        self, table: TrainingTable, held_out: NDArray[np.bool_], fitted: list[FittedTree], by: str
    ) -> None:
        """Learn from the errors of rows that a member, or two, did not learn from."""
        scores = np.full(table.n_rows, np.nan)
        for member in reversed(fitted):  # where two members know a score, that of the first is taken
            scores[member.held_rows] = member.scores
        known = np.flatnonzero(np.isfinite(scores))
        leaf = self.tree_.leaf_of(table.raw)
        pairs = self._pairs(table, held_out)
        if len(pairs.rows):
            apart = _apart(pairs, leaf, table.weight, self.tree_.n_leaves)
            own = _own_error(pairs, table, scores)
            self.own_factor_ = own / max(float(np.average(pairs.apart, weights=table.weight[pairs.rows])), 1e-12)
            self.shared_ = np.clip(1.0 - self.own_factor_ * apart, 0.05, 1.0)
        self.calibration_ = Calibration.from_scores(scores[known], leaf[known], table.weight[known], self.tree_, by)

    def _pairs(self, table: TrainingTable, held_out: NDArray[np.bool_]) -> "Pairs":
        """Quantiles of the two members that both do not know a row."""
        found: list[tuple[NDArray[np.intp], Any]] = []
        twice = held_out.sum(axis=0) == 2
        for first, second in combinations(range(self.n_members), 2):
            rows = np.flatnonzero(twice & held_out[first] & held_out[second])
            raw, inputs = table.raw[rows], table.inputs[rows]
            found.append((rows, np.stack([self.members_[m].curves(raw, inputs)[2] for m in (first, second)])))
        return Pairs(
            np.concatenate([rows for rows, _ in found]),
            np.concatenate([curves for _, curves in found], axis=1),
        )

    # -- answers -----------------------------------------------------------------------------------------------

    @property
    def tree_(self) -> Tree:
        """The regions of the first member."""
        return self.members_[0].tree

    def _parts(
        self, raw: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Leaf, mean, quantiles of the ensemble, and what remains of a member's variance: shared, and own."""
        inputs, n_threads = self.inputs_.transform(raw), effective_n_jobs(self.n_jobs)
        answers = [member.curves(raw, inputs, n_threads) for member in self.members_]
        curves = np.stack([curve for _, _, curve in answers])
        leaf = self.tree_.leaf_of(raw)
        own = self.own_factor_ * _apart_of(curves) / self.n_members
        return leaf, np.mean([mean for _, mean, _ in answers], axis=0), curves.mean(axis=0), self.shared_[leaf], own

    def _curves(self, raw: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        leaf, mean, curve, shared, own = self._parts(raw)
        return leaf, mean, _shrunk(curve, shared + own)

    def _distribution(self, raw: NDArray[np.float64]) -> Distribution:
        if self.calibration_ is None and not self.members_[0].says_quantiles:
            inputs, n_threads = self.inputs_.transform(raw), effective_n_jobs(self.n_jobs)
            answers = [member.moments(raw, inputs, n_threads) for member in self.members_]
            return Mixture([Normal(mean, np.sqrt(variance)) for _, mean, variance in answers])
        leaf, mean, curve, shared, own = self._parts(raw)
        dist = self._of_curves(leaf, mean, _shrunk(curve, shared + own))
        # The shape of a region may be wider or narrower than the networks said; both parts are stretched alike.
        return dist.with_parts(dist.var() * shared / (shared + own), dist.var() * own / (shared + own))


@dataclass(frozen=True)
class Pairs:
    """Rows that two members hold out, and what those two say.

    Attributes
    ----------
    rows : ndarray of int of shape (n,)
    curves : ndarray of shape (2, n, n_positions)
    """

    rows: NDArray[np.intp]
    curves: NDArray[np.float64]

    @property
    def apart(self) -> NDArray[np.float64]:
        """Variance between members as a share of a member's variance.

        No row may speak for many: noise-free corners must not drown the rest.
        """
        return np.minimum(_apart_of(self.curves), 4.0)


def _shrunk(curve: NDArray[np.float64], share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Curves of an ensemble, given the share of a member's variance that remains."""
    return value_at(curve, POSITIONS, np.sqrt(share)[:, None] * POSITIONS)


def _apart_of(curves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Variance between the centres of members, shape (n,), in units of the mean variance that they state.

    The variance of a member is read from its quantiles one standard deviation either way.
    """
    high, low = (curves[:, :, int(np.argmin(np.abs(POSITIONS - z)))] for z in (1.0, -1.0))
    stated = ((high - low) ** 2 / 4.0).mean(axis=0)
    return np.stack([curve_means(curve) for curve in curves]).var(axis=0, ddof=1) / np.maximum(stated, 1e-30)


def _apart(pairs: Pairs, leaf: NDArray[np.int64], weight: NDArray[np.float64], n_leaves: int) -> NDArray[np.float64]:
    """How far members are apart in each region; regions with few rows lean on the whole table."""
    weight, leaf = weight[pairs.rows], leaf[pairs.rows]
    everywhere = np.average(pairs.apart, weights=weight)
    here = np.bincount(leaf, weights=weight, minlength=n_leaves)
    sums = np.bincount(leaf, weights=weight * pairs.apart, minlength=n_leaves)
    return (sums + PRIOR_ROWS * everywhere) / (here + PRIOR_ROWS)


def _own_error(pairs: Pairs, table: TrainingTable, scores: NDArray[np.float64]) -> float:
    """The share of a member's squared error that is its own, and that the mean of many members would not have.

    If it is rho, the mean of two members errs 1 - rho / 2 times as much as one; the rows that two members hold out
    show by how much. Large errors are left out of the comparison: they are common to all members, and few.
    """
    joint = np.abs(scores_of(pairs.curves.mean(axis=0), table.y[pairs.rows]))
    single = np.abs(scores[pairs.rows])

    def core(values: NDArray[np.float64]) -> float:
        return float(values[values <= np.quantile(values, 0.9)].mean())

    ratio = core(joint) / max(core(single), 1e-12)
    return float(np.clip(2.0 * (1.0 - ratio**2), 0.0, 0.95))


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
    >>> from usnrt.ensemble import draw_folds
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
