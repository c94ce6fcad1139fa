"""Values of Python as arrays and JSON, and back: for files that cannot run code."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


def pack(value: Any, shared: Mapping[str, NDArray[Any]] = MappingProxyType({})) -> tuple[Arrays, Any]:
    """Split a value into its arrays and a description that JSON can hold.

    Parameters
    ----------
    value : object
        Of None, booleans, numbers, text, arrays (those of jax become numpy's), lists, tuples, dictionaries with keys of
        text, and objects with a dictionary of attributes.
    shared : mapping of str to ndarray
        Arrays that other objects refer to as well: their names are written in place of them.

    Returns
    -------
    arrays : dict of str to ndarray
        In C order.
    description : JSON value
        Names the arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.utils.packing import pack, unpack
    >>> arrays, description = pack({"losses": [0.5, 0.25], "weights": (np.ones(2), None)})
    >>> arrays
    {'0': array([1., 1.])}
    >>> unpack(arrays, description)
    {'losses': [0.5, 0.25], 'weights': (array([1., 1.]), None)}
    """
    arrays: Arrays = {}
    written = {id(array): (array, {"shared": name}) for name, array in shared.items()}

    def write(item: Any) -> Any:
        if isinstance(item, np.ndarray | np.generic) or hasattr(item, "__array__"):  # arrays of jax have that
            if id(item) not in written:
                written[id(item)] = item, write_array(item)
            return written[id(item)][1]
        if item is None or isinstance(item, bool | int | float | str):
            return item
        if isinstance(item, list | tuple):
            return {type(item).__name__: [write(element) for element in item]}
        if isinstance(item, dict):
            return {"dict": {key: write(element) for key, element in item.items()}}
        return {"object": type(item).__name__, "state": write(item.__getstate__())}

    def write_array(item: Any) -> Any:
        name, array = str(len(arrays)), np.asarray(item)
        # the order of the elements in memory is kept: sums over them depend on it
        is_transposed = array.flags.f_contiguous and not array.flags.c_contiguous
        arrays[name] = np.asarray(array.T if is_transposed else array, order="C")
        return {"scalar" if isinstance(item, np.generic) else "transposed" if is_transposed else "array": name}

    return arrays, write(value)


def unpack(
    arrays: Arrays,
    description: Any,
    classes: Iterable[type] = (),
    shared: Mapping[str, NDArray[Any]] = MappingProxyType({}),
) -> Any:
    """The value that `pack` has split.

    Parameters
    ----------
    arrays : dict of str to ndarray
    description : JSON value
    classes : iterable of type
        Classes of objects that may occur. They are made without calling them: their attributes are set.
    shared : mapping of str to ndarray
        The arrays that `pack` was given.

    Returns
    -------
    object
        Its arrays are writable copies. What was one array is one array again.
    """
    copies = {name: array.copy() for name, array in arrays.items()}
    known = {cls.__name__: cls for cls in classes}

    def read(item: Any) -> Any:
        if not isinstance(item, dict):
            return item
        kind, content = next(iter(item.items()))
        if kind == "shared":
            return shared[content]
        if kind == "array":
            return copies[content]
        if kind == "transposed":
            return copies[content].T
        if kind == "scalar":
            return arrays[content][()]
        if kind == "list":
            return [read(element) for element in content]
        if kind == "tuple":
            return tuple(read(element) for element in content)
        if kind == "dict":
            return {key: read(element) for key, element in content.items()}
        made: Any = object.__new__(known[content])
        made.__dict__.update(read(item["state"]))
        return made

    return read(description)
