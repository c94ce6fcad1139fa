"""Checks of single arguments and of parameters that depend on each other; `usnrt.utils.constraints` checks the rest."""

import inspect
from collections.abc import Iterable
from typing import Any

import numpy as np

from usnrt.utils.constraints import Callables, Choice, Jobs, Number, Verbosity, Whole, check_parameters


def check_number(name: str, value: Any, low: float, high: float, *, include_low: bool = False) -> None:
    """Raise a ValueError unless a value is a number in an open interval, with its lower bound if ``include_low``.

    Examples
    --------
    >>> from usnrt.utils.checks import check_number
    >>> check_number("alpha", 1.5, 0, 1)
    Traceback (most recent call last):
        ...
    ValueError: alpha must be in (0, 1), got 1.5
    """
    check_parameters({name: value}, {name: Number(low, high, include_low)})


def check_whole(name: str, value: Any, low: int, high: int | None = None) -> None:
    """Raise a ValueError unless a value is an int of at least ``low``, and at most ``high`` if given.

    Examples
    --------
    >>> from usnrt.utils.checks import check_whole
    >>> check_whole("batch_size", 0, 1)
    Traceback (most recent call last):
        ...
    ValueError: batch_size must be an int >= 1, got 0
    """
    check_parameters({name: value}, {name: Whole(low, high)})


def check_running(n_jobs: Any, verbose: Any, callbacks: Any) -> None:
    """Check the parameters that control how a fit runs, not its result.

    Examples
    --------
    >>> from usnrt.utils.checks import check_running
    >>> check_running(n_jobs=0, verbose=0, callbacks=None)
    Traceback (most recent call last):
        ...
    ValueError: n_jobs must be an int other than 0 or None, got 0
    """
    values = {"n_jobs": n_jobs, "verbose": verbose, "callbacks": callbacks}
    check_parameters(values, {"n_jobs": Jobs(), "verbose": Verbosity(), "callbacks": Callables()})


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise a ValueError unless a value is one of the given names.

    Examples
    --------
    >>> from usnrt.utils.checks import check_choice
    >>> check_choice("schedule", "linear", ("constant", "cosine"))
    Traceback (most recent call last):
        ...
    ValueError: schedule must be one of 'constant', 'cosine', got 'linear'
    """
    check_parameters({name: value}, {name: Choice(tuple(choices))})


def has_default(model: Any, name: str) -> bool:
    """Whether a parameter of a model has its default value; a list equals a tuple of the same elements.

    Examples
    --------
    >>> from usnrt import USNRTRegressor
    >>> from usnrt.utils.checks import has_default
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

    Parameters
    ----------
    model : estimator
    name : str
        The parameter; it may always have its default value.
    **modes
        Other parameters, each with the value, or a tuple of the values, for which the parameter has an effect.

    Examples
    --------
    >>> from usnrt.paper.baselines import HNNRegressor
    >>> from usnrt.utils.checks import check_applies
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
