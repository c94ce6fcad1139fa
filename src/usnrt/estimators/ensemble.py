"""USNRTEnsemble: several trees trained on different parts of the rows, calibrated jointly."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from usnrt.estimators.members import ENSEMBLE_CONSTRAINTS, check_member, drawn_seeds, member_of, shared_parameter
from usnrt.estimators.paper import PaperUSNRTEnsemble, PaperUSNRTRegressor
from usnrt.estimators.regressor import USNRTRegressor
from usnrt.estimators.tree_regressor import TreeRegressor
from usnrt.model.fit import ModelRecipe
from usnrt.utils.constraints import TARGET_BOUNDS, TARGET_TRANSFORM, TIME_COLUMN, Constraint


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

    _TAKES_GROUPS = True
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = {
        **ENSEMBLE_CONSTRAINTS,
        "target_bounds": TARGET_BOUNDS,
        "target_transform": TARGET_TRANSFORM,
        "time_column": TIME_COLUMN,
    }

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
