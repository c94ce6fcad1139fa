"""What a field of a stored object may be: types, shapes and ranges, checked before anything uses the value.

Shapes are symbolic: a name such as ``"n_nodes"`` stands for one number in all fields of an object, and the first field
that has it decides. What relates fields in other ways is checked in `usnrt.persistence._checks`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

Sizes = dict[str, int]
Special = Literal["finite", "inf", "any"]


class Spec(Protocol):
    """What a value may be."""

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """Whether the value is allowed; adds the sizes that it decides."""


def same_size(name: str | int | None, size: int, sizes: Sizes) -> bool:
    """Whether a size is that of a name or number; any size for None."""
    return name is None or size == (name if isinstance(name, int) else sizes.setdefault(name, size))


@dataclass(frozen=True)
class Array:
    """An array of an exact dtype, a symbolic shape (any for None), and values in [low, high]."""

    dtype: str
    shape: tuple[str | int | None, ...] | None
    low: float = -math.inf
    high: float = math.inf
    special: Special = "finite"

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """See `Spec`."""
        if not isinstance(value, np.ndarray) or value.dtype.str[1:] != self.dtype:
            return False
        if self.shape is not None and (
            value.ndim != len(self.shape)
            or not all(same_size(name, size, sizes) for name, size in zip(self.shape, value.shape))
        ):
            return False
        if value.dtype.kind == "f" and self.special != "any":
            is_allowed = np.isfinite(value) if self.special == "finite" else ~np.isnan(value)
            if not is_allowed.all():
                return False
        return value.dtype.kind == "b" or not ((value < self.low) | (value > self.high)).any()


@dataclass(frozen=True)
class Values:
    """A one-dimensional array of a user's values, of any dtype of some kinds."""

    kinds: str = "OUbiufmM"
    size: str | None = None

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """See `Spec`."""
        return (
            isinstance(value, np.ndarray)
            and value.ndim == 1
            and value.dtype.kind in self.kinds
            and same_size(self.size, len(value), sizes)
        )


@dataclass(frozen=True)
class Int:
    """An int in [low, high]; if it has a name, it is a size."""

    low: int = 0
    high: int = 2**53
    size: str | None = None

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """See `Spec`."""
        return type(value) is int and self.low <= value <= self.high and same_size(self.size, value, sizes)


@dataclass(frozen=True)
class Float:
    """A float in [low, high]."""

    low: float = -math.inf
    high: float = math.inf
    special: Special = "finite"

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """See `Spec`."""
        if not isinstance(value, float):
            return False
        if self.special == "any" and math.isnan(value):
            return True
        return self.low <= value <= self.high and (self.special != "finite" or math.isfinite(value))


@dataclass(frozen=True)
class Bool:
    """True or False."""

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """See `Spec`."""
        return type(value) is bool


@dataclass(frozen=True)
class Text:
    """A text, one of some choices if there are any."""

    choices: tuple[str, ...] = ()

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """See `Spec`."""
        return isinstance(value, str) and (not self.choices or value in self.choices)


@dataclass(frozen=True)
class Object:
    """An instance of one of some classes, by their names in files; its own fields were checked when it was read."""

    names: tuple[str, ...]

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """See `Spec`."""
        return type(value).__name__ in self.names


@dataclass(frozen=True)
class Maybe:
    """None, or what another spec allows."""

    inner: Spec

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """See `Spec`."""
        return value is None or self.inner.fits(value, sizes)


@dataclass(frozen=True)
class Many:
    """A list or tuple of values of one spec."""

    inner: Spec
    size: str | int | None = None
    kind: type[list[Any]] | type[tuple[Any, ...]] = list

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """See `Spec`."""
        if type(value) is not self.kind or not same_size(self.size, len(value), sizes):
            return False
        return all(self.inner.fits(item, sizes) for item in value)


@dataclass(frozen=True)
class ByName:
    """A dictionary from texts to values of one spec."""

    inner: Spec

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """See `Spec`."""
        return type(value) is dict and all(
            type(key) is str and self.inner.fits(item, sizes) for key, item in value.items()
        )


@dataclass(frozen=True)
class Anything:
    """Any value: a parameter of ``fit``, which a fitted model does not read."""

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """See `Spec`."""
        return True


@dataclass(frozen=True)
class Absent:
    """Not there, or what another spec allows."""

    inner: Spec

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """See `Spec`."""
        return self.inner.fits(value, sizes)


def first_misfit(schema: Mapping[str, Spec], values: Mapping[str, Any]) -> str | None:
    """The first field whose value is not allowed; None if there is none.

    Fields that are not among the values are not looked at.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.persistence._schema import Array, Int, first_misfit
    >>> schema = {"n": Int(size="n"), "weight": Array("f8", ("n",), low=0.0)}
    >>> first_misfit(schema, {"n": 2, "weight": np.ones(2)}), first_misfit(schema, {"n": 2, "weight": np.ones(3)})
    (None, 'weight')
    """
    sizes: Sizes = {}
    return next((name for name in schema if name in values and not schema[name].fits(values[name], sizes)), None)
