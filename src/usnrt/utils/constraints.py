"""Constraints of parameters and arguments: declared once, checked before any data is read.

A constraint checks a value and describes itself in the words of a docstring, so that the table also tests the
documentation.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np


class Constraint(Protocol):
    """What a parameter may be."""

    @property
    def kind(self) -> str:
        """The type of the parameter as its docstring states it."""

    @property
    def must(self) -> str:
        """What must hold, to follow "alpha must"."""

    def allows(self, value: Any) -> bool:
        """Whether a value is allowed."""


@dataclass(frozen=True)
class Number:
    """A real number in an interval; its upper bound is open unless ``include_high``."""

    low: float
    high: float
    include_low: bool = False
    include_high: bool = False
    kind: str = "float"

    @property
    def must(self) -> str:
        opening, closing = "[" if self.include_low else "(", "]" if self.include_high else ")"
        return f"be in {opening}{self.low:g}, {self.high:g}{closing}"

    def allows(self, value: Any) -> bool:
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        number = float(value)
        above = self.low <= number if self.include_low else self.low < number
        return above and (number <= self.high if self.include_high else number < self.high)


@dataclass(frozen=True)
class Whole:
    """An int of at least ``low``, and at most ``high`` if given."""

    low: int
    high: int | None = None
    kind: str = "int"

    @property
    def must(self) -> str:
        return f"be an int >= {self.low}" if self.high is None else f"be an int in [{self.low}, {self.high}]"

    def allows(self, value: Any) -> bool:
        if not isinstance(value, Integral) or isinstance(value, bool):
            return False
        return int(value) >= self.low and (self.high is None or int(value) <= self.high)


@dataclass(frozen=True)
class ShareOrWhole:
    """A float in (0, 1), or an int of at least ``low``."""

    low: int
    kind: str = "float, int"

    @property
    def must(self) -> str:
        return f"be a float in (0, 1), an int >= {self.low}"

    def allows(self, value: Any) -> bool:
        return Whole(self.low).allows(value) or (isinstance(value, float) and 0 < value < 1)


@dataclass(frozen=True)
class Choice:
    """One of some names."""

    choices: tuple[str, ...]

    @property
    def kind(self) -> str:
        return "{" + ", ".join(f'"{choice}"' for choice in self.choices) + "}"

    @property
    def must(self) -> str:
        return f"be one of {', '.join(map(repr, self.choices))}"

    def allows(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.choices


@dataclass(frozen=True)
class Optional:
    """None, or what another constraint allows."""

    inner: Constraint

    @property
    def kind(self) -> str:
        inner = self.inner.kind
        return f"{inner[:-1]}, None}}" if inner.endswith("}") else inner

    @property
    def must(self) -> str:
        return f"{self.inner.must} or None"

    def allows(self, value: Any) -> bool:
        return value is None or self.inner.allows(value)


@dataclass(frozen=True)
class Either:
    """A certain name, or what another constraint allows."""

    inner: Constraint
    name: str

    @property
    def kind(self) -> str:
        return f'{self.inner.kind} or "{self.name}"'

    @property
    def must(self) -> str:
        return f"{self.inner.must} or {self.name!r}"

    def allows(self, value: Any) -> bool:
        return (isinstance(value, str) and value == self.name) or self.inner.allows(value)


@dataclass(frozen=True)
class NamesOrRegressors:
    """Some of certain names, each at most once, and regressors; at least one of them.

    ``names`` returns the names, which extensions may add to.
    """

    names: Callable[[], Sequence[str]]
    kind: str = "sequence of str and regressors"

    @property
    def must(self) -> str:
        return f"hold some of {', '.join(map(repr, self.names()))}, each once, and regressors with fit and predict"

    def allows(self, value: Any) -> bool:
        if not isinstance(value, list | tuple) or not value:
            return False
        names = [entry for entry in value if isinstance(entry, str)]
        others = [entry for entry in value if not isinstance(entry, str)]
        has_methods = (hasattr(other, "fit") and hasattr(other, "predict") for other in others)
        return (
            len(set(names)) == len(names)
            and set(names) <= set(self.names())
            and all(has_methods)
            and not any(isinstance(other, type) for other in others)
        )


@dataclass(frozen=True)
class Rule:
    """A constraint without parameters."""

    kind: str
    must: str
    allows: Callable[[Any], bool]


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _are_layers(value: Any) -> bool:
    sizes = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    return all(layer_size(size, n_features=10**6) >= 1 for size in sizes)


def _are_bounds(value: Any) -> bool:
    if not isinstance(value, tuple | list) or len(value) != 2:
        return False
    low, high = (bound if bound is not None else sign * np.inf for bound, sign in zip(value, (-1, 1)))
    numbers = all(isinstance(bound, Real) and not isinstance(bound, bool) for bound in (low, high))
    return numbers and bool(low < high) and value != (None, None)


def _unchecked(kind: str) -> Rule:
    """Anything here: it is checked where it is used, against the data or by scikit-learn."""
    return Rule(kind, "", lambda value: True)


FLAG = Rule("bool", "be True or False", lambda value: isinstance(value, bool | np.bool_))
HIDDEN_LAYERS = Rule("sequence of int or str", "hold ints >= 1 or multiples like '8d'", _are_layers)
JOBS = Rule("int", "be an int other than 0 or None", lambda value: value is None or (_is_whole(value) and value != 0))
VERBOSITY = Rule("int", "be an int >= 0", lambda value: isinstance(value, bool) or Whole(0).allows(value))
CALLABLES = Rule(
    "list of callables",
    "be a list of callables or None",
    lambda value: value is None or (isinstance(value, Iterable) and all(map(callable, value))),
)
ESTIMATOR = _unchecked("estimator")
CATEGORICAL_FEATURES = _unchecked("list of names or positions, or bool mask")
RANDOM_STATE = _unchecked("int, RandomState or None")
TARGET_BOUNDS = Optional(
    Rule("pair of floats or None", "be a pair (low, high) of numbers or None, with low < high", _are_bounds)
)
TARGET_TRANSFORM = Optional(Choice(("log", "auto")))
TIME_COLUMN = Optional(
    Rule(
        "str or int",
        "be the name or the position of a column",
        lambda value: isinstance(value, str) or _is_whole(value),
    )
)


def check_parameters(values: Mapping[str, Any], constraints: Mapping[str, Constraint]) -> None:
    """Raise a ValueError, one sentence, about the first parameter that is not allowed, in the order of the table.

    Examples
    --------
    >>> check_parameters({"alpha": 1.5}, {"alpha": Number(0, 1)})
    Traceback (most recent call last):
        ...
    ValueError: alpha must be in (0, 1), got 1.5
    """
    for name, constraint in constraints.items():
        if not constraint.allows(values[name]):
            raise ValueError(f"{name} must {constraint.must}, got {values[name]!r}")


def layer_size(size: int | str, n_features: int) -> int:
    """Units of a hidden layer, 0 if it is not a size.

    Examples
    --------
    >>> layer_size(64, n_features=12), layer_size("8d", n_features=12), layer_size("wide", n_features=12)
    (64, 96, 0)
    """
    try:
        if isinstance(size, str) and size.endswith("d"):
            return round(float(size[:-1]) * n_features)
        return int(size)
    except (TypeError, ValueError):
        return 0


def check_number(name: str, value: Any, low: float, high: float) -> None:
    """Raise a ValueError unless a value is a number in an open interval."""
    check_parameters({name: value}, {name: Number(low, high)})


def check_whole(name: str, value: Any, low: int, high: int | None = None) -> None:
    """Raise a ValueError unless a value is an int of at least ``low``, and at most ``high`` if given.

    Examples
    --------
    >>> check_whole("batch_size", 0, 1)
    Traceback (most recent call last):
        ...
    ValueError: batch_size must be an int >= 1, got 0
    """
    check_parameters({name: value}, {name: Whole(low, high)})


def check_running(n_jobs: Any, verbose: Any, callbacks: Any) -> None:
    """Check the parameters that control how a fit runs, not its result."""
    values = {"n_jobs": n_jobs, "verbose": verbose, "callbacks": callbacks}
    check_parameters(values, {"n_jobs": JOBS, "verbose": VERBOSITY, "callbacks": CALLABLES})


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise a ValueError unless a value is one of the given names."""
    check_parameters({name: value}, {name: Choice(tuple(choices))})


def has_default(model: Any, name: str) -> bool:
    """Whether a parameter of a model has its default value; a list equals a tuple of the same elements.

    Examples
    --------
    >>> from usnrt import USNRTRegressor
    >>> has_default(USNRTRegressor(hidden=[256, 128, 64]), "hidden")
    True
    """
    default = inspect.signature(type(model)).parameters[name].default
    return same_value(getattr(model, name), default)


def same_value(one: Any, other: Any) -> bool:
    """Whether two values of a parameter are equal; lists, tuples and arrays are compared elementwise."""
    return bool(np.array_equal(np.asarray(one, dtype=object), np.asarray(other, dtype=object)))


def check_applies(model: Any, name: str, **modes: Any) -> None:
    """Raise a ValueError if a parameter is set that has no effect given the values of others.

    ``modes`` has these, each with the value, or a tuple of the values, for which the parameter has an effect. It may
    always have its default value.

    Examples
    --------
    >>> from usnrt.paper.baselines import HNNRegressor
    >>> check_applies(HNNRegressor(n_bins=4), "n_bins", encoding="piecewise")
    >>> check_applies(HNNRegressor(n_bins=4, encoding=None), "n_bins", encoding="piecewise")
    Traceback (most recent call last):
        ...
    ValueError: n_bins applies to encoding='piecewise' only, got 4 with encoding=None
    """
    allowed = {mode: values if isinstance(values, tuple) else (values,) for mode, values in modes.items()}
    if has_default(model, name) or any(getattr(model, mode) in values for mode, values in allowed.items()):
        return
    needed = " or ".join(f"{mode}={value!r}" for mode, values in allowed.items() for value in values)
    found = ", ".join(f"{mode}={getattr(model, mode)!r}" for mode in modes)
    raise ValueError(f"{name} applies to {needed} only, got {getattr(model, name)!r} with {found}")
