"""Ensembles: USNRTEnsemble, whose trees are calibrated jointly, and PaperUSNRTEnsemble, the mixture of the paper's."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, TypeVar

from sklearn.base import clone
from sklearn.utils import check_random_state

from usnrt.estimators.paper import PaperUSNRTRegressor
from usnrt.estimators.regressor import USNRTRegressor
from usnrt.estimators.tree_regressor import TreeRegressor
from usnrt.model.fit import ModelRecipe
from usnrt.utils.constraints import (
    CATEGORICAL_FEATURES,
    ESTIMATOR,
    JOBS,
    RANDOM_STATE,
    TARGET_BOUNDS,
    TARGET_TRANSFORM,
    TIME_COLUMN,
    VERBOSITY,
    Constraint,
    Whole,
    has_default,
    same_value,
)

MemberT = TypeVar("MemberT", bound=TreeRegressor)

ENSEMBLE_CONSTRAINTS: Mapping[str, Constraint] = {
    "estimator": ESTIMATOR,  # by `check_member`
    "n_estimators": Whole(2),
    "categorical_features": CATEGORICAL_FEATURES,
    "random_state": RANDOM_STATE,
    "n_jobs": JOBS,
    "verbose": VERBOSITY,
}
# Parameters of the member that every ensemble sets, each with the advice of the error message.
SET_BY_ENSEMBLE = {"n_jobs": "set n_jobs of the ensemble", "verbose": "set verbose of the ensemble"}


def member_of(ensemble: Any, kind: type[MemberT]) -> MemberT:
    """An unfitted member: a copy of the estimator of the ensemble, or the default one of its kind."""
    member: MemberT = clone(kind() if ensemble.estimator is None else ensemble.estimator)
    return member


def check_member(ensemble: Any, kind: type[TreeRegressor]) -> None:
    """Check the estimator of an ensemble, its parameters, and that those that the ensemble sets have their defaults."""
    if ensemble.estimator is not None and not isinstance(ensemble.estimator, kind):
        raise TypeError(f"estimator must be a {kind.__name__} or None, got {ensemble.estimator!r}")
    member = member_of(ensemble, kind)
    member._check_parameters()
    for name, advice in SET_BY_ENSEMBLE.items():
        if not has_default(member, name):
            raise ValueError(f"estimator.{name} is not used, {advice}, got {getattr(member, name)!r}")


def shared_parameter(ensemble: Any, name: str) -> Any:
    """The parameter of the ensemble or, if it is None, of its estimator."""
    own, inner = getattr(ensemble, name, None), getattr(ensemble.estimator, name, None)
    if own is not None and inner is not None and not same_value(own, inner):
        raise ValueError(f"{name} and estimator.{name} must be equal if both are given, got {own!r} and {inner!r}")
    return inner if own is None else own


def drawn_seeds(ensemble: Any, kind: type[TreeRegressor]) -> list[int]:
    """The seeds of an ensemble: its own, and that of its estimator, which meta-estimators of scikit-learn also set."""
    inner = member_of(ensemble, kind).random_state
    states = [ensemble.random_state, *([] if inner is None else [inner])]
    return [int(check_random_state(state).randint(2**31 - 1)) for state in states]


@dataclass(eq=False, repr=False)
class PaperUSNRTEnsemble(TreeRegressor):
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

    Attributes
    ----------
    model_ : FittedModel
        The parts that predict; ``model_.trees.members`` are the trees.
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

    estimator: PaperUSNRTRegressor | None = None
    _: KW_ONLY
    n_estimators: int = 5
    categorical_features: Any = None
    random_state: Any = None
    n_jobs: int | None = -1
    verbose: int = 0

    _HAS_MEMORY = False
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = ENSEMBLE_CONSTRAINTS

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_member(self, PaperUSNRTRegressor)

    def _parameter(self, name: str) -> Any:
        return shared_parameter(self, name)

    def _drawn_seed(self) -> list[int]:
        return drawn_seeds(self, PaperUSNRTRegressor)

    def _model_recipe(self) -> ModelRecipe:
        return replace(member_of(self, PaperUSNRTRegressor)._model_recipe(), n_members=self.n_estimators)


@dataclass(eq=False, repr=False)
class USNRTEnsemble(TreeRegressor):
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
    (`usnrt.model.pairs.mean_error_factor`). What all members get wrong alike, such as a jump that they smooth, is
    not in it. With a ``time_column`` all members have the same rows, and the epistemic part is a lower bound.

    Parameters
    ----------
    estimator : USNRTRegressor, default=None
        The member; None for the default one. Its ``n_jobs`` and ``verbose`` must have their defaults: the ensemble sets
        these. Its ``validation`` is the number of folds of a member, one network each; ``"auto"`` cross-fits members in
        tables of up to 5,000 rows. Members of one network are themselves the folds.
    n_estimators : int, default=5
        Number of members.
    target_bounds : pair of floats or None, default=None
        See `USNRTRegressor`; None for that of the estimator.
    target_transform : {"log", "auto", None}, default=None
        See `USNRTRegressor`; None for that of the estimator.
    time_column : str or int, default=None
        See `USNRTRegressor`; None for that of the estimator. Folds would look ahead, so all members then validate on
        the latest rows, the share in ``validation`` of the estimator, and differ by their seeds only.
    categorical_features : list of names or positions, or bool mask, default=None
        See `USNRTRegressor`; None for those of the estimator.
    random_state : int, RandomState or None, default=None
        Seed; with an int the model is reproducible, bit for bit, whatever ``n_jobs`` is.
    n_jobs : int, default=-1
        Number of members that are fitted in parallel, by threads, or by the workers of a cluster inside
        ``joblib.parallel_config("dask")``; -1 for all cores.
    verbose : int, default=0
        1 shows a progress bar and reports the nodes of all members.

    Attributes
    ----------
    model_ : FittedModel
        The parts that predict. ``model_.trees`` has the ``members``, κ as ``shared``, c as ``own_factor``, and
        ``epistemic_factor``, the squared error of the ensemble's mean in units of the variance between members' means.
    tree_ : Tree
        The regions: those of the first member.
    expert_weights_ : ndarray of shape (n_leaves, 3 + n_further)
        Weights of the network, of the network guided by the memory, of the memory, and of further experts that some
        member uses, in each region, averaged over the members and the training rows of the region.
    row_positions_
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

    estimator: USNRTRegressor | None = None
    _: KW_ONLY
    n_estimators: int = 5
    target_bounds: tuple[float | None, float | None] | None = None
    target_transform: str | None = None
    time_column: str | int | None = None
    categorical_features: Any = None
    random_state: Any = None
    n_jobs: int | None = -1
    verbose: int = 0

    _TAKES_GROUPS = True
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {
        **ENSEMBLE_CONSTRAINTS,
        "target_bounds": TARGET_BOUNDS,
        "target_transform": TARGET_TRANSFORM,
        "time_column": TIME_COLUMN,
    }

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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_member(self, USNRTRegressor)
        validation = member_of(self, USNRTRegressor).validation
        if isinstance(validation, float) and self._parameter("time_column") is None:
            raise ValueError(
                f"estimator.validation must be an int >= 1 or 'auto' without time_column, got {validation}"
            )

    def _parameter(self, name: str) -> Any:
        return shared_parameter(self, name)

    def _drawn_seed(self) -> list[int]:
        return drawn_seeds(self, USNRTRegressor)

    def _model_recipe(self) -> ModelRecipe:
        recipe = member_of(self, USNRTRegressor)._model_recipe()
        bounds, transform = self._parameter("target_bounds"), self._parameter("target_transform")
        return replace(recipe, n_members=self.n_estimators, target_bounds=bounds, target_transform=transform)
