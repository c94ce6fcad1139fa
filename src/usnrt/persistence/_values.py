"""Lossless conversion of fitted state to JSON values and arrays, and back.

JSON has no tuples, NaN, infinities, numpy arrays or class instances; each becomes a JSON object whose first key starts
with ``$``. Arrays are collected separately and referenced by their index.
"""

import dataclasses
import inspect
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.persistence._checks import check_fields, check_object
from usnrt.persistence._classes import class_named, name_of
from usnrt.persistence._errors import ModelFileError
from usnrt.utils.result_table import Table

MAX_DEPTH = 100  # of nested values


class Writer:
    """Converts values to JSON values; their arrays are collected in ``arrays``."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self._seen: dict[int, tuple[Any, str]] = {}

    def write(self, value: Any, where: str, depth: int = 0) -> Any:
        """The JSON value of a Python value; ``where`` is its name in error messages."""
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
        if type(value) is np.str_:  # joined, because an array, like str(value), would drop trailing NULs
            return {"$text": "".join(value)}
        if isinstance(value, np.generic):
            return {"$scalar": self._store(np.asarray(value), where), **_type_entry(np.asarray(value))}
        if isinstance(value, np.ndarray) or _is_jax(value):
            return self._write_array(np.asarray(value), value, where)
        name = name_of(type(value))
        if name is None:
            raise TypeError(f"{where} cannot be saved: it is of type {type(value).__name__}")
        return {"$object": name, "state": self._write_state(value, where, depth)}

    def _write_dict(self, value: dict[Any, Any], where: str, depth: int) -> Any:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self.write(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}
        pairs = [
            [self.write(key, where, depth + 1), self.write(item, f"{where}[{key!r}]", depth + 1)]
            for key, item in value.items()
        ]
        return {"$dict": pairs}

    def _write_state(self, value: Any, where: str, depth: int) -> dict[str, Any]:
        parameters = set(value.get_params(deep=False)) if hasattr(value, "get_params") else set()
        state = {}
        for name, item in state_of(value).items():
            try:
                state[name] = self.write(item, f"{where}.{name}", depth + 1)
            except TypeError:
                # Parameters only affect fit; callbacks and generators are not part of a fitted model.
                if name not in parameters:
                    raise
        return state

    def _write_array(self, array: NDArray[Any], original: Any, where: str) -> Any:
        if array.dtype.kind == "O":
            flat = array.ravel().tolist()
            if not all(type(item) is str or item is None for item in flat):
                raise TypeError(f"{where} cannot be saved: it is an array of objects that are not strings")
            return {"$texts": flat, "shape": list(array.shape)}
        key = id(original)
        if key not in self._seen:  # an array that several attributes share is stored once
            self._seen[key] = (original, self._store(array, where))
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        return {"$array": self._seen[key][1], **_type_entry(array), **({"order": "F"} if fortran else {})}

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


class Reader:
    """Converts JSON values back; raises `ModelFileError` for anything that `Writer` does not write."""

    def __init__(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.arrays = arrays
        self._in_fortran_order: dict[str, NDArray[Any]] = {}

    def read(self, value: Any, depth: int = 0) -> Any:
        """The Python value of a JSON value."""
        if depth > 2 * MAX_DEPTH + 2:
            raise ModelFileError("values are nested too deeply")
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
        if kind == "$scalar":
            return self._with_dtype(_entry(value, kind, str), value.get("dtype")).reshape(())[()]
        if kind == "$text":
            return np.str_(_entry(value, kind, str))
        if kind == "$texts":
            return _read_texts(_entry(value, kind, list), _entry(value, "shape", list))
        raise ModelFileError(f"it contains a value of unknown kind {kind[:20]!r}")

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
            raise ModelFileError("the declared type of an array is wrong")
        return array.view(kind).reshape(array.shape[:-1])

    def _read_object(self, name: str, state: dict[str, Any], depth: int) -> Any:
        try:
            kind = class_named(name)
        except KeyError:
            raise ModelFileError(f"it contains an object of unknown class {name[:40]!r}") from None
        values = {key: self.read(item, depth + 1) for key, item in state.items()}
        if kind is Table:
            return _make_table(values)
        check_fields(name, kind, values)
        instance: Any = object.__new__(kind)
        for key, item in {**_defaults(kind), **values}.items():
            object.__setattr__(instance, key, item)
        check_object(name, instance)
        return instance


def _entry(value: dict[str, Any], key: str, kind: type) -> Any:
    found = value[key]
    if type(found) is not kind:
        raise ModelFileError(f"the value of {key!r} has the wrong type")
    return found


def _read_texts(texts: list[Any], shape: list[Any]) -> NDArray[Any]:
    if not all(type(item) is str or item is None for item in texts):
        raise ModelFileError("an array of strings contains other values")
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array.reshape(shape)


def _has_only_fields(kind: type) -> bool:
    """Whether all attributes are dataclass fields; estimators that are dataclasses have fitted attributes too."""
    return dataclasses.is_dataclass(kind) and not hasattr(kind, "get_params")


def state_of(value: Any) -> dict[str, Any]:
    """The attributes of an object that are stored."""
    if isinstance(value, Table):
        return {"_columns": dict(value), "_n_rows": value.shape[0]}
    if _has_only_fields(type(value)):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return dict(vars(value))


def _make_table(state: dict[str, Any]) -> Table:
    """A table of the columns in a file."""
    columns = state.get("_columns")
    if type(columns) is not dict or not all(
        type(name) is str and isinstance(values, np.ndarray) and values.ndim == 1 for name, values in columns.items()
    ):
        raise ModelFileError("a table has invalid columns")
    return Table(columns)


def _defaults(kind: type) -> dict[str, Any]:
    """Default values of parameters and fields, for those that are newer than the file."""
    if _has_only_fields(kind):
        defaults = {}
        for field in dataclasses.fields(kind):
            if field.default is not dataclasses.MISSING:
                defaults[field.name] = field.default
            elif field.default_factory is not dataclasses.MISSING:
                defaults[field.name] = field.default_factory()
        return defaults
    if hasattr(kind, "get_params"):
        parameters = inspect.signature(kind).parameters.values()
        return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    return {}


def _is_jax(value: Any) -> bool:
    return type(value).__module__.startswith("jax")
