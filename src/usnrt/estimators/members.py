"""What ensembles have in common: their member, its checks, shared parameters and seeds."""

from collections.abc import Mapping
from typing import Any, TypeVar

from sklearn.base import clone
from sklearn.utils import check_random_state

from usnrt.estimators.tree_regressor import TreeRegressor
from usnrt.utils.constraints import (
    CATEGORICAL_FEATURES,
    RANDOM_STATE,
    Constraint,
    Jobs,
    Unchecked,
    Verbosity,
    Whole,
    has_default,
    same_value,
)

MemberT = TypeVar("MemberT", bound=TreeRegressor)

ENSEMBLE_CONSTRAINTS: Mapping[str, Constraint] = {
    "estimator": Unchecked("estimator"),  # by `check_member`
    "n_estimators": Whole(2),
    "categorical_features": CATEGORICAL_FEATURES,
    "random_state": RANDOM_STATE,
    "n_jobs": Jobs(),
    "verbose": Verbosity(),
}
# Parameters of the member that every ensemble sets, each with the advice of the error message.
SET_BY_ENSEMBLE = {"n_jobs": "set n_jobs of the ensemble", "verbose": "set verbose of the ensemble"}


def member_of(ensemble: Any, kind: type[MemberT]) -> MemberT:
    """An unfitted member: a copy of the estimator of the ensemble, or the default one of its kind."""
    member: MemberT = clone(kind() if ensemble.estimator is None else ensemble.estimator)
    return member


def check_member(ensemble: Any, kind: type[TreeRegressor]) -> None:
    """Check the estimator of an ensemble, its parameters, and that those that the ensemble sets have their defaults.

    Parameters
    ----------
    ensemble : TreeRegressor
    kind : type
        Of the members.
    """
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
