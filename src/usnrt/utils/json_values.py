"""Values of Python and numpy as values that JSON can hold."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np


def json_value(value: Any, *, nonfinite: Literal["null", "text"] = "null", other: Callable[[Any], str] = str) -> Any:
    """Convert a value to what ``json.dumps(..., allow_nan=False)`` accepts.

    Mappings, lists, tuples and arrays are converted element by element, numpy scalars to Python scalars.

    Parameters
    ----------
    value : object
    nonfinite : {"null", "text"}, default="null"
        NaN and infinity become None, or text that ``float`` reads back.
    other : callable, default=str
        Converts objects of any other type to text.

    Returns
    -------
    dict, list, str, int, float, bool or None

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.utils.json_values import json_value
    >>> json_value({"mean": np.float64(1.5), "rows": np.array([1, 2]), "nll": np.inf})
    {'mean': 1.5, 'rows': [1, 2], 'nll': None}
    >>> json_value((float("-inf"), slice(2)), nonfinite="text", other=repr)
    ['-inf', 'slice(None, 2, None)']
    """

    def convert(item: Any) -> Any:
        if isinstance(item, Mapping):
            return {str(key): convert(element) for key, element in item.items()}
        if isinstance(item, np.ndarray | np.generic):
            return convert(item.tolist())
        if isinstance(item, list | tuple):
            return [convert(element) for element in item]
        if isinstance(item, float) and not math.isfinite(item):
            return None if nonfinite == "null" else str(item)
        if item is None or isinstance(item, bool | int | float | str):
            return item
        return other(item)

    return convert(value)
