"""The codec of model files and checkpoints: values of Python as JSON and arrays, and back, without running code.

JSON has no tuples, NaN, infinities, numpy arrays or class instances; each becomes a JSON object whose first key starts
with ``$``. Arrays are collected separately and referenced by their names. Objects are of the classes of a table, which
declares what each field may be; reading checks every object against it.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.utils.constraints import check_parameters
from usnrt.utils.result_table import Table
from usnrt.utils.schema import Optional, Schema, Sizes, first_misfit

Arrays = dict[str, NDArray[Any]]
MAX_DEPTH = 100  # of nested values
_NONE: Mapping[str, Any] = MappingProxyType({})


class DecodingError(ValueError):
    """What is to be read was not written by the codec; the message says why, without a capital letter."""


def _holds(value: Any) -> bool:
    return True


@dataclass(frozen=True)
class Stored:
    """How objects of a class are stored.

    An estimator also stores its parameters, which have constraints of their own; without any of the fields it is one
    that is not fitted.
    """

    module: str  # that defines the class; it is imported when such an object is read
    fields: Schema  # all stored attributes
    relation: Callable[[Any], bool] = _holds  # whether the fields, each of which is valid, fit together
    # sizes of an object that its fields do not have by themselves, for the objects that hold it
    sizes: Mapping[str, Callable[[Any], int]] = field(default_factory=dict)


Classes = Mapping[str, Stored]


class Codec:
    """Writes and reads values that consist of the instances of some classes, by their names, and of plain values.

    Nothing else is made, whatever a file says.

    Examples
    --------
    >>> codec = Codec({})
    >>> arrays, state = codec.encode({"losses": [0.5, np.nan], "weights": (np.ones(2), None)})
    >>> state
    {'losses': [0.5, {'$float': 'nan'}], 'weights': {'$tuple': [{'$array': '0'}, None]}}
    >>> codec.decode(arrays, state)
    {'losses': [0.5, nan], 'weights': (array([1., 1.]), None)}
    """

    def __init__(self, classes: Classes = _NONE) -> None:
        self.classes = classes

    def encode(
        self, value: Any, shared: Mapping[str, NDArray[Any]] = _NONE, where: str = "value"
    ) -> tuple[Arrays, Any]:
        """Split a value into its arrays and a description that JSON can hold.

        The value consists of plain values, arrays (those of jax become numpy's), lists, tuples, dictionaries and
        instances of the classes. ``shared`` are arrays that other objects refer to as well: their names are written in
        place of them. Error messages say ``where`` the value is.
        """
        writer = _Writer(self, shared)
        return writer.arrays, writer.write(value, where)

    def decode(self, arrays: Arrays, state: Any, shared: Mapping[str, NDArray[Any]] = _NONE) -> Any:
        """The value that `encode` has split; a `DecodingError` or another exception if it was not `encode`.

        It is made of the arrays, not of copies, and of the ``shared`` ones. What was one array is one array again.
        """
        return _Reader(self, arrays, shared).read(state)

    def name_of(self, kind: type) -> str | None:
        """The name of a class, or None if its objects cannot be stored."""
        name = kind.__name__
        return name if name in self.classes and self.classes[name].module == kind.__module__ else None


PLAIN = Codec()  # of values without objects


class _Writer:
    def __init__(self, codec: Codec, shared: Mapping[str, NDArray[Any]]) -> None:
        self.codec, self.arrays = codec, Arrays()
        self._written = {id(array): (array, {"$shared": name}) for name, array in shared.items()}

    def write(self, value: Any, where: str, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise ValueError(f"{where[:60]}... cannot be saved: it is nested deeper than {MAX_DEPTH} levels")
        if value is None or type(value) in (bool, str, int):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if type(value) is list:
            return [self.write(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
        if type(value) is tuple:
            return {"$tuple": [self.write(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]}
        if type(value) is dict:
            return self._write_dict(value, where, depth)
        if type(value) is Table:
            return {"$table": {key: self.write(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}}
        if type(value) is np.str_:  # joined, because an array, like str(value), would drop trailing NULs
            return {"$text": "".join(value)}
        if isinstance(value, np.generic):
            return {"$scalar": self._store(np.asarray(value), where), **_type_entry(np.asarray(value))}
        if isinstance(value, np.ndarray) or type(value).__module__.startswith("jax"):
            return self._write_array(value, where)
        name = self.codec.name_of(type(value))
        if name is None:
            raise TypeError(f"{where} cannot be saved: it is of type {type(value).__name__}")
        return {"$object": name, "state": self._write_fields(name, value, where, depth)}

    def _write_dict(self, value: dict[Any, Any], where: str, depth: int) -> Any:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self.write(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}
        pairs = [
            [self.write(key, where, depth + 1), self.write(item, f"{where}[{key!r}]", depth + 1)]
            for key, item in value.items()
        ]
        return {"$dict": pairs}

    def _write_fields(self, name: str, value: Any, where: str, depth: int) -> dict[str, Any]:
        defaults, fields = parameters_of(type(value)), self.codec.classes[name].fields
        unknown = next((key for key in vars(value) if not (key in fields or key in defaults or key[0] == "_")), None)
        if unknown is not None:
            raise TypeError(f"{where}.{unknown} cannot be saved: class {name} has no such stored attribute")
        state = {}
        for key, default in defaults.items():
            try:
                state[key] = self.write(getattr(value, key), f"{where}.{key}", depth + 1)
            except TypeError:  # parameters only affect fit; callbacks and generators are not part of a fitted model
                state[key] = self.write(default, f"{where}.{key}", depth + 1)
        present = [key for key in fields if hasattr(value, key)]
        if defaults and not set(present) & set(vars(value)):  # not fitted: what is there is an attribute of the class
            return state
        return state | {key: self.write(getattr(value, key), f"{where}.{key}", depth + 1) for key in present}

    def _write_array(self, value: Any, where: str) -> Any:
        if id(value) in self._written:  # an array that several attributes share is stored once
            return self._written[id(value)][1]
        array = np.asarray(value)
        if array.dtype.kind == "O":
            flat = array.ravel().tolist()
            if not all(type(item) is str or item is None for item in flat):
                raise TypeError(f"{where} cannot be saved: it is an array of objects that are not strings")
            return {"$texts": flat, "shape": list(array.shape)}
        # the order of the elements in memory is kept: sums over them depend on it
        is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        order = {"order": "F"} if is_fortran else {}
        entry = {"$array": self._store(array, where), **_type_entry(array), **order}
        self._written[id(value)] = value, entry
        return entry

    def _store(self, array: NDArray[Any], where: str) -> str:
        # safetensors writes the memory unchanged, so it must be in C order and in native byte order
        shape = array.shape
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        if array.dtype.kind in "mM":
            array = array.view(np.int64).reshape(shape)
        elif array.dtype.kind == "U":  # the last axis holds the characters
            array = array.view(np.uint32).reshape(*shape, array.dtype.itemsize // 4)
        else:
            array = array.reshape(shape)
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise TypeError(f"{where} cannot be saved: it is an array of type {array.dtype}")
        name = str(len(self.arrays))
        self.arrays[name] = array
        return name


def _type_entry(array: NDArray[Any]) -> dict[str, str]:
    """The dtype of times and strings, which are stored as integers."""
    return {"dtype": array.dtype.newbyteorder("=").str} if array.dtype.kind in "mMU" else {}


class _Reader:
    def __init__(self, codec: Codec, arrays: Arrays, shared: Mapping[str, NDArray[Any]]) -> None:
        self.codec, self.arrays, self.shared = codec, arrays, shared
        self._in_fortran_order: Arrays = {}
        self._sizes: dict[int, Sizes] = {}
        self._objects: list[Any] = []  # kept, so that no other object has the identity of one of them

    def read(self, value: Any, depth: int = 0) -> Any:
        if depth > 2 * MAX_DEPTH + 2:
            raise DecodingError("values are nested too deeply")
        if value is None or isinstance(value, bool | str | int | float):
            return value
        if isinstance(value, list):
            return [self.read(item, depth + 1) for item in value]
        if not any(key.startswith("$") for key in value):
            return {key: self.read(item, depth + 1) for key, item in value.items()}
        kind = next(iter(value))
        if kind == "$object":
            return self._read_object(_entry(value, "$object", str), _entry(value, "state", dict), depth)
        if kind == "$tuple":
            return tuple(self.read(item, depth + 1) for item in _entry(value, kind, list))
        if kind == "$float":
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[_entry(value, kind, str)]
        if kind == "$dict":
            return {self.read(k, depth + 1): self.read(v, depth + 1) for k, v in _entry(value, kind, list)}
        if kind == "$array":
            return self._read_array(value)
        if kind == "$table":
            return _made_table({key: self.read(item, depth + 1) for key, item in _entry(value, kind, dict).items()})
        if kind == "$shared":
            return self.shared[_entry(value, kind, str)]
        if kind == "$scalar":
            return self._with_dtype(_entry(value, kind, str), value.get("dtype")).reshape(())[()]
        if kind == "$text":
            return np.str_(_entry(value, kind, str))
        if kind == "$texts":
            return _read_texts(_entry(value, kind, list), _entry(value, "shape", list))
        raise DecodingError(f"it contains a value of unknown kind {kind[:20]!r}")

    def _read_array(self, value: dict[str, Any]) -> NDArray[Any]:
        name = _entry(value, "$array", str)
        if value.get("order") == "F" and name not in self._in_fortran_order:
            self._in_fortran_order[name] = np.asfortranarray(self._with_dtype(name, value.get("dtype")))
        # At most these two copies of an array exist, however often a file refers to it.
        return self._in_fortran_order[name] if value.get("order") == "F" else self._with_dtype(name, value.get("dtype"))

    def _with_dtype(self, name: str, dtype: str | None) -> NDArray[Any]:
        array = self.arrays[name]
        if dtype is None:
            return array
        kind = np.dtype(dtype)
        if kind.kind in "mM":
            return array.view(kind)
        if kind.kind != "U" or kind.itemsize != 4 * array.shape[-1] or (array > 0x10FFFF).any():
            raise DecodingError("the declared type of an array is wrong")
        return array.view(kind).reshape(array.shape[:-1])

    def _read_object(self, name: str, state: dict[str, Any], depth: int) -> Any:
        if name not in self.codec.classes:
            raise DecodingError(f"it contains an object of unknown class {name[:40]!r}")
        stored = self.codec.classes[name]
        kind = getattr(import_module(stored.module), name)
        values = {key: self.read(item, depth + 1) for key, item in state.items()}
        sizes = Sizes(self._sizes)
        is_fitted = _check_fields(name, kind, stored.fields, values, sizes)
        made: Any = object.__new__(kind)
        for key, item in values.items():
            object.__setattr__(made, key, item)
        if is_fitted and not stored.relation(made):
            raise DecodingError(f"the attributes of an object of class {name} do not fit together")
        sizes.update({size: count(made) for size, count in stored.sizes.items()})
        self._sizes[id(made)] = sizes
        self._objects.append(made)
        return made


def _check_fields(name: str, kind: type, fields: Schema, values: Mapping[str, Any], sizes: Sizes) -> bool:
    """Check fields, and parameters of an estimator; returns False if it is an estimator that is not fitted."""
    parameters = parameters_of(kind)
    unknown = next((key for key in values if key not in fields and key not in parameters), None)
    if unknown is not None:
        raise DecodingError(f"class {name} has no stored attribute {unknown[:40]!r}")
    misfit = first_misfit(fields, values, sizes)
    if misfit is not None:
        raise DecodingError(f"attribute {misfit!r} of class {name} is invalid")
    is_fitted = not parameters or any(key in values for key in fields)
    required = [key for key, spec in fields.items() if is_fitted and not isinstance(spec, Optional)]
    missing = next((key for key in [*parameters, *required] if key not in values), None)
    if missing is not None:
        raise DecodingError(f"attribute {missing!r} of class {name} is missing")
    try:
        check_parameters({key: values[key] for key in parameters}, getattr(kind, "_CONSTRAINTS", {}))
    except ValueError:
        raise DecodingError(f"the parameters of class {name} are invalid") from None
    return is_fitted


def parameters_of(kind: type) -> dict[str, Any]:
    """The parameters of an estimator with their defaults; none for other classes."""
    if not hasattr(kind, "get_params"):
        return {}
    return {name: parameter.default for name, parameter in inspect.signature(kind).parameters.items()}


def _entry(value: dict[str, Any], key: str, kind: type) -> Any:
    content = value[key]
    if type(content) is not kind:
        raise DecodingError(f"the value of {key!r} has the wrong type")
    return content


def _read_texts(texts: list[Any], shape: list[Any]) -> NDArray[Any]:
    if not all(type(item) is str or item is None for item in texts):
        raise DecodingError("an array of strings contains other values")
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array.reshape(shape)


def _made_table(columns: dict[str, Any]) -> Table:
    if not all(isinstance(values, np.ndarray) and values.ndim == 1 for values in columns.values()):
        raise DecodingError("a table has invalid columns")
    return Table(columns)
