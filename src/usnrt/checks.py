"""Checks of parameters, each with one sentence: what must be, and what was."""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


def check_number(name: str, value: Any, low: float, high: float, *, include_low: bool = False) -> None:
    """A number strictly between two bounds (the lower one included if asked).

    Examples
    --------
    >>> from usnrt.checks import check_number
    >>> check_number("alpha", 1.5, 0, 1)
    Traceback (most recent call last):
        ...
    ValueError: alpha must be in (0, 1), however: alpha=1.5
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not ((low <= value if include_low else low < value) and value < high):
        opening = "[" if include_low else "("
        raise ValueError(f"{name} must be in {opening}{low:g}, {high:g}), however: {name}={value!r}")


def check_whole(name: str, value: Any, low: int, *, optional: bool = False) -> None:
    """A whole number from a bound on, or None if that is allowed.

    Examples
    --------
    >>> from usnrt.checks import check_whole
    >>> check_whole("batch_size", 0, 1)
    Traceback (most recent call last):
        ...
    ValueError: batch_size must be a whole number from 1 on, however: batch_size=0
    """
    if optional and value is None:
        return
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        none = " or None" if optional else ""
        raise ValueError(f"{name} must be a whole number from {low} on{none}, however: {name}={value!r}")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """One of some names.

    Examples
    --------
    >>> from usnrt.checks import check_choice
    >>> check_choice("schedule", "linear", ("constant", "cosine"))
    Traceback (most recent call last):
        ...
    ValueError: schedule must be one of 'constant', 'cosine', however: schedule='linear'
    """
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, however: {name}={value!r}")
