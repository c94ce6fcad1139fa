"""Base of the ensembles: the member, its checks and seeds, and one warning for all members."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from usnrt.estimators.calibrated import CalibratedRegressor
from usnrt.estimators.convergence import warn_if_diverged
from usnrt.nn.train import History
from usnrt.utils.checks import has_default, same_value
from usnrt.utils.constraints import (
    CATEGORICAL_FEATURES,
    RANDOM_STATE,
    Constraint,
    Jobs,
    Unchecked,
    Verbosity,
    Whole,
)

MemberT = TypeVar("MemberT", bound=CalibratedRegressor)

ENSEMBLE_CONSTRAINTS: Mapping[str, Constraint] = {
    "estimator": Unchecked("estimator"),  # by `EnsembleOf._check_parameters`
    "n_members": Whole(2),
    "categorical_features": CATEGORICAL_FEATURES,
    "random_state": RANDOM_STATE,
    "n_jobs": Jobs(),
    "verbose": Verbosity(),
}


class EnsembleOf(CalibratedRegressor, Generic[MemberT]):
    """An ensemble of trees: its ``estimator`` describes the members, which are fitted on one table."""

    estimator: MemberT | None
    n_members: int
    random_state: Any

    # The class of the members.
    _MEMBER: ClassVar[type[CalibratedRegressor]]

    def _set_by_ensemble(self) -> Mapping[str, str]:
        """Parameters of the estimator that the ensemble sets, each with the advice of the error message."""
        return {"n_jobs": "set n_jobs of the ensemble", "verbose": "set verbose of the ensemble"}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.estimator is not None and not isinstance(self.estimator, self._MEMBER):
            raise TypeError(f"estimator must be a {self._MEMBER.__name__} or None, got {self.estimator!r}")
        member = self._member()
        member._check_parameters()
        for name, advice in self._set_by_ensemble().items():
            if not has_default(member, name):
                raise ValueError(f"estimator.{name} is not used, {advice}, got {getattr(member, name)!r}")

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
        return np.random.SeedSequence([int(check_random_state(state).randint(2**31 - 1)) for state in states])

    def _warn_if_diverged(self, histories: Sequence[Sequence[Mapping[str, History]]], learning_rate: float) -> None:
        """One warning for the trainings of all nodes of all members; to be called from ``_fit``."""
        trainings = {
            f"member {m} node {n}": history for m, nodes in enumerate(histories, 1) for n, history in enumerate(nodes)
        }
        warn_if_diverged(self, trainings, learning_rate, stacklevel=5)
