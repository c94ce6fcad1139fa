"""What a field of a stored object may be: types, shapes and ranges, checked before anything uses the value.

Sizes are symbolic: a name such as ``"n_nodes"`` stands for one number in all fields of an object, and the first field
that has it decides. An object shares its sizes with the object that holds it (`Object`), so that "the support has the
columns of the encoder" is declared, too. What relates fields in other ways is the ``relation`` of a class, see
`usnrt.utils.codec.Stored`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

# A name stands for one number in all fields of an object; any size for None.
Size = str | int | None
Special = Literal["finite", "inf", "any"]
Order = Literal["", "ascending", "strictly ascending"]


class Sizes(dict[str, int]):
    """Sizes of an object by their names; ``inner`` has those of the objects that it may hold, by their identity."""

    def __init__(self, inner: Mapping[int, Mapping[str, int]] | None = None) -> None:
        super().__init__()
        self.inner = {} if inner is None else inner

    def agree(self, name: Size, size: int) -> bool:
        """Whether a size is that of a name or number."""
        return name is None or size == (name if isinstance(name, int) else self.setdefault(name, size))


class Spec(Protocol):
    """What a value may be."""

    def fits(self, value: Any, sizes: Sizes) -> bool:
        """Whether the value is allowed; adds the sizes that it decides."""


Schema = Mapping[str, Spec]


@dataclass(frozen=True)
class Array:
    """An array of an exact dtype, a shape (any for None), and values in [low, high] and below a size.

    ``filled`` arrays have at least one value.
    """

    dtype: str
    shape: tuple[Size, ...] | None
    low: float = -math.inf
    high: float = math.inf
    special: Special = "finite"
    below: str | None = None
    order: Order = ""
    filled: bool = False

    def fits(self, value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, np.ndarray) or value.dtype.str[1:] != self.dtype:
            return False
        if self.shape is not None and (
            value.ndim != len(self.shape) or not all(map(sizes.agree, self.shape, value.shape))
        ):
            return False
        if self.filled and not value.size:
            return False
        if self.below is not None and self.below in sizes and (value >= sizes[self.below]).any():
            return False
        return self._has_allowed_values(value)

    def _has_allowed_values(self, value: Any) -> bool:
        if value.dtype.kind == "b":
            return True
        if value.dtype.kind == "f" and self.special != "any":
            is_allowed = np.isfinite(value) if self.special == "finite" else ~np.isnan(value)
            if not is_allowed.all():
                return False
        if self.order and not self._is_ordered(value):
            return False
        return not ((value < self.low) | (value > self.high)).any()

    def _is_ordered(self, value: Any) -> bool:
        before, after = value[:-1], value[1:]
        return bool(((before < after) if self.order == "strictly ascending" else (before <= after)).all())


@dataclass(frozen=True)
class Values:
    """A one-dimensional array of a user's values, of any dtype of some kinds."""

    kinds: str = "OUbiufmM"
    size: Size = None

    def fits(self, value: Any, sizes: Sizes) -> bool:
        return (
            isinstance(value, np.ndarray)
            and value.ndim == 1
            and value.dtype.kind in self.kinds
            and sizes.agree(self.size, len(value))
        )


@dataclass(frozen=True)
class Int:
    """An int in [low, high]; if it has a name, it is a size."""

    low: int = 0
    high: int = 2**53
    size: str | None = None

    def fits(self, value: Any, sizes: Sizes) -> bool:
        return type(value) is int and self.low <= value <= self.high and sizes.agree(self.size, value)


@dataclass(frozen=True)
class Float:
    """A float in [low, high]."""

    low: float = -math.inf
    high: float = math.inf
    special: Special = "finite"

    def fits(self, value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, float):
            return False
        if self.special == "any" and math.isnan(value):
            return True
        return self.low <= value <= self.high and (self.special != "finite" or math.isfinite(value))


@dataclass(frozen=True)
class Bool:
    """True or False."""

    def fits(self, value: Any, sizes: Sizes) -> bool:
        return type(value) is bool


@dataclass(frozen=True)
class Text:
    """A text, one of some choices if there are any."""

    choices: tuple[str, ...] = ()

    def fits(self, value: Any, sizes: Sizes) -> bool:
        return isinstance(value, str) and (not self.choices or value in self.choices)


@dataclass(frozen=True)
class Object:
    """An instance of one of some classes, whose own fields were checked when it was read.

    ``sizes`` are pairs of a size of that instance and a size of the object that holds it, which must be equal.
    """

    names: tuple[str, ...]
    sizes: tuple[tuple[str, Size], ...] = ()

    def fits(self, value: Any, sizes: Sizes) -> bool:
        return type(value).__name__ in self.names and all(
            sizes.agree(outer, sizes.inner[id(value)][inner]) for inner, outer in self.sizes
        )


def one(*names: str, **sizes: Size) -> Object:
    """An instance of one of some classes, with equal sizes.

    Examples
    --------
    >>> one("Tree", n_leaves="n_regions").sizes
    (('n_leaves', 'n_regions'),)
    """
    return Object(names, tuple(sizes.items()))


@dataclass(frozen=True)
class Maybe:
    """None, or what another spec allows."""

    inner: Spec

    def fits(self, value: Any, sizes: Sizes) -> bool:
        return value is None or self.inner.fits(value, sizes)


@dataclass(frozen=True)
class Optional:
    """Not there, or what another spec allows."""

    inner: Spec

    def fits(self, value: Any, sizes: Sizes) -> bool:
        return self.inner.fits(value, sizes)


@dataclass(frozen=True)
class Many:
    """A list or tuple of at least so many values of one spec; the first one may have to fit another one besides."""

    inner: Spec
    size: Size = None
    kind: type[list[Any]] | type[tuple[Any, ...]] = list
    least: int = 0
    first: Spec | None = None

    def fits(self, value: Any, sizes: Sizes) -> bool:
        if type(value) is not self.kind or len(value) < self.least or not sizes.agree(self.size, len(value)):
            return False
        return all(self.inner.fits(item, sizes) for item in value) and (
            self.first is None or not value or self.first.fits(value[0], sizes)
        )


@dataclass(frozen=True)
class ByName:
    """A dictionary from texts to values of one spec."""

    inner: Spec

    def fits(self, value: Any, sizes: Sizes) -> bool:
        return type(value) is dict and all(
            type(key) is str and self.inner.fits(item, sizes) for key, item in value.items()
        )


@dataclass(frozen=True)
class Anything:
    """Any value: one that only people read."""

    def fits(self, value: Any, sizes: Sizes) -> bool:
        return True


def first_misfit(schema: Schema, values: Mapping[str, Any], sizes: Sizes) -> str | None:
    """The first field whose value is not allowed; None if there is none.

    Fields that are not among the values are not looked at.
    """
    for _ in range(2):  # what is below a size may come before the field that decides the size
        for name, spec in schema.items():
            if name in values and not spec.fits(values[name], sizes):
                return name
    return None
