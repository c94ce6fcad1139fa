"""Deprecations: one table of what will be removed, and the warnings about it.

What is deprecated works in two more minor versions, with a ``FutureWarning``; CONTRIBUTING.md has the policy. A test
fails once the version of a removal is reached and the entry is still in the table.
"""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from usnrt.utils.checks import has_default
from usnrt.utils.notices import users_level

# Value of a deprecated parameter that is not given.
DEPRECATED = "deprecated"


class Deprecation(NamedTuple):
    """What is deprecated.

    Attributes
    ----------
    instead : str
        What to use instead: the new name, or an expression.
    since : str
        The version that deprecates it.
    removal : str
        The version without it.
    """

    instead: str
    since: str
    removal: str


# by the name that a user writes: of a parameter, or of a function, method or attribute with its dots
DEPRECATIONS: Mapping[str, Deprecation] = {
    "n_members": Deprecation(instead="n_estimators", since="0.2.0", removal="0.4.0"),
}


def warn_deprecated(name: str) -> None:
    """Warn that something deprecated is used; the warning points at the user's line.

    Parameters
    ----------
    name : str
        Key of `DEPRECATIONS`.

    Examples
    --------
    >>> import warnings
    >>> from usnrt.utils.deprecation import warn_deprecated
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_deprecated("n_members")
    >>> print(caught[0].message)
    n_members is deprecated since usnrt 0.2.0 and will be removed in usnrt 0.4.0: use n_estimators
    """
    instead, since, removal = DEPRECATIONS[name]
    warnings.warn(
        f"{name} is deprecated since usnrt {since} and will be removed in usnrt {removal}: use {instead}",
        FutureWarning,
        stacklevel=users_level(),
    )


def renamed_parameter(model: Any, old: str) -> Any:
    """The value of a parameter of an estimator that has a new name, given by the old or the new one.

    Parameters
    ----------
    model : estimator
        Its parameter ``old`` has the default `DEPRECATED`.
    old : str
        Former name, a key of `DEPRECATIONS`; ``instead`` is the new name.

    Returns
    -------
    object
        The value, without a warning: `check_renamed` warns, once per fit.

    Examples
    --------
    >>> from usnrt import USNRTEnsemble
    >>> from usnrt.utils.deprecation import renamed_parameter
    >>> renamed_parameter(USNRTEnsemble(n_members=3), "n_members")
    3
    """
    value = getattr(model, old)
    return getattr(model, DEPRECATIONS[old].instead) if _is_absent(value) else value


def check_renamed(model: Any, old: str) -> None:
    """Warn if a parameter is given by its former name; raise a ValueError if it is given by both names.

    Parameters
    ----------
    model : estimator
    old : str
        Former name, as in `renamed_parameter`.

    Examples
    --------
    >>> from usnrt import USNRTEnsemble
    >>> from usnrt.utils.deprecation import check_renamed
    >>> check_renamed(USNRTEnsemble(n_members=3, n_estimators=4), "n_members")
    Traceback (most recent call last):
        ...
    ValueError: n_members is the former name of n_estimators: give n_estimators only, got n_members=3 and n_estimators=4
    """
    value, new = getattr(model, old), DEPRECATIONS[old].instead
    if _is_absent(value):
        return
    if not has_default(model, new):
        raise ValueError(
            f"{old} is the former name of {new}: give {new} only, got {old}={value!r} and {new}={getattr(model, new)!r}"
        )
    warn_deprecated(old)


def overdue(version: str) -> list[str]:
    """Names that a version should not have any more.

    Examples
    --------
    >>> from usnrt.utils.deprecation import overdue
    >>> overdue("0.3.0"), overdue("0.4.0")
    ([], ['n_members'])
    """
    return [name for name, entry in DEPRECATIONS.items() if numbers_of(entry.removal) <= numbers_of(version)]


def numbers_of(version: str) -> tuple[int, ...]:
    """The numbers of a version, to compare it with others.

    Examples
    --------
    >>> from usnrt.utils.deprecation import numbers_of
    >>> numbers_of("0.10.0") > numbers_of("0.4.0")
    True
    """
    return tuple(map(int, version.split(".")))


def _is_absent(value: Any) -> bool:
    return isinstance(value, str) and value == DEPRECATED
