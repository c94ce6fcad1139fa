"""Base of the ensembles: the member, its checks and seeds, and one warning for all members."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.base import clone
from sklearn.utils import check_random_state

from usnrt.estimators.calibrated import CalibratedRegressor
from usnrt.estimators.convergence import warn_if_diverged
from usnrt.nn.train import History
from usnrt.tree.fit import FittedTree
from usnrt.tree.model import TreeModel
from usnrt.utils.checkpoint import Checkpoint
from usnrt.utils.checks import has_default, same_value
from usnrt.utils.constraints import (
    CATEGORICAL_FEATURES,
    RANDOM_STATE,
    Constraint,
    Either,
    Jobs,
    Unchecked,
    Verbosity,
    Whole,
)
from usnrt.utils.deprecation import DEPRECATED, check_renamed, renamed_parameter
from usnrt.utils.progress import FitStopped, Progress

MemberT = TypeVar("MemberT", bound=CalibratedRegressor)
ModelT = TypeVar("ModelT", bound=TreeModel)

ENSEMBLE_CONSTRAINTS: Mapping[str, Constraint] = {
    "estimator": Unchecked("estimator"),  # by `EnsembleOf._check_parameters`
    "n_estimators": Whole(2),
    "categorical_features": CATEGORICAL_FEATURES,
    "random_state": RANDOM_STATE,
    "n_jobs": Jobs(),
    "verbose": Verbosity(),
    "n_members": Either(Whole(2), DEPRECATED),
}


class EnsembleOf(CalibratedRegressor, Generic[MemberT]):
    """An ensemble of trees: its ``estimator`` describes the members, which are fitted on one table."""

    estimator: MemberT | None
    n_estimators: int
    n_members: int | str
    random_state: Any

    # The class of the members.
    _MEMBER: ClassVar[type[CalibratedRegressor]]

    def _set_by_ensemble(self) -> Mapping[str, str]:
        """Parameters of the estimator that the ensemble sets, each with the advice of the error message."""
        return {"n_jobs": "set n_jobs of the ensemble", "verbose": "set verbose of the ensemble"}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_renamed(self, "n_members")
        if self.estimator is not None and not isinstance(self.estimator, self._MEMBER):
            raise TypeError(f"estimator must be a {self._MEMBER.__name__} or None, got {self.estimator!r}")
        member = self._member()
        member._check_parameters()
        for name, advice in self._set_by_ensemble().items():
            if not has_default(member, name):
                raise ValueError(f"estimator.{name} is not used, {advice}, got {getattr(member, name)!r}")

    def _n_estimators(self) -> int:
        """Number of members, given by its former name or the new one."""
        return int(renamed_parameter(self, "n_members"))

    def _member(self) -> MemberT:
        """An unfitted member."""
        member: MemberT = clone(self._MEMBER() if self.estimator is None else self.estimator)
        return member

    def _parameter(self, name: str) -> Any:
        """The parameter of the ensemble or, if it is None, of its estimator."""
        own, inner = super()._parameter(name), getattr(self.estimator, name, None)
        if own is not None and inner is not None and not same_value(own, inner):
            raise ValueError(f"{name} and estimator.{name} must be equal if both are given, got {own!r} and {inner!r}")
        return inner if own is None else own

    def _seeds(self, member: MemberT) -> np.random.SeedSequence:
        """The seed sequence of the ensemble.

        It includes ``random_state`` of the estimator, which meta-estimators of scikit-learn also set.
        """
        inner = member.get_params(deep=False)["random_state"]
        states = [self.random_state, *([] if inner is None else [inner])]
        drawn = [int(check_random_state(state).randint(2**31 - 1)) for state in states]
        return np.random.SeedSequence(self._checkpoint.fixed("seed", drawn))

    def _fit_in_parallel(
        self, fit: Callable[..., FittedTree[ModelT]], arguments: Sequence[Sequence[Any]], progress: Progress
    ) -> list[FittedTree[ModelT]]:
        """Fit members in parallel, by threads or by the workers of a cluster.

        Parameters
        ----------
        fit : callable
            Called with the arguments of a member, its progress and its checkpoint.
        arguments : sequence of sequence
            One per member.
        progress : Progress
            Of the ensemble.

        Returns
        -------
        list of FittedTree
        """
        n_jobs = effective_n_jobs(self.n_jobs)
        own = zip(arguments, progress.members(len(arguments)))
        by_threads = getattr(get_active_backend(prefer="threads")[0], "supports_sharedmem", False)
        verbose = 0 if by_threads else 10 * self.verbose  # workers of a cluster cannot write to our stream
        try:
            fitted: list[FittedTree[ModelT]] = Parallel(n_jobs=n_jobs, prefer="threads", verbose=verbose)(
                delayed(_fit_member)(fit, given, of_member, self._checkpoint.within(f"member {number}"))
                for number, (given, of_member) in enumerate(own, 1)
            )
        except BaseException as error:
            first = progress.wait()  # joblib does not wait: threads would go on in the background
            if isinstance(error, FitStopped) and first is not None:
                raise first from None
            raise
        progress.finish()
        return fitted

    def _warn_if_diverged(self, histories: Sequence[Sequence[Mapping[str, History]]], learning_rate: float) -> None:
        """One warning for the trainings of all nodes of all members; to be called from ``_fit``."""
        trainings = {
            f"member {m} node {n}": history for m, nodes in enumerate(histories, 1) for n, history in enumerate(nodes)
        }
        warn_if_diverged(self, trainings, learning_rate)


def _fit_member(
    fit: Callable[..., FittedTree[ModelT]], arguments: Sequence[Any], progress: Progress, checkpoint: Checkpoint
) -> FittedTree[ModelT]:
    with progress.running():
        return fit(*arguments, progress, checkpoint=checkpoint)
