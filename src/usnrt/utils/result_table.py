"""Results as tables, and their values as those that JSON can hold."""

import math
from collections.abc import Callable, Mapping
from html import escape
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from usnrt.utils.names import escaped


def json_value(value: Any, *, nonfinite: Literal["null", "text"] = "null", other: Callable[[Any], str] = str) -> Any:
    """Convert a value to what ``json.dumps(..., allow_nan=False)`` accepts.

    Mappings, lists, tuples and arrays are converted element by element, numpy scalars to Python scalars. NaN and
    infinity become None, or text that ``float`` reads back; ``other`` converts objects of any other type to text.

    Examples
    --------
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


class Table(dict[str, NDArray[Any]]):
    """Named columns of equal length, printed like a data frame.

    It is a dictionary of arrays by column name, so ``pandas.DataFrame(table)`` and ``polars.DataFrame(table)`` work.

    Examples
    --------
    >>> table = Table({"region": ["x <= 1", "x > 1"], "std": [0.5, 2.0]})
    >>> table
       region  std
    0  x <= 1  0.5
    1   x > 1    2
    >>> table["std"]
    array([0.5, 2. ])
    >>> table.row(1)
    {'region': 'x > 1', 'std': 2.0}
    """

    def __init__(self, columns: Mapping[str, ArrayLike]) -> None:
        super().__init__({name: np.asarray(values) for name, values in columns.items()})
        lengths = {name: len(values) for name, values in self.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns must have equal lengths, got {lengths}")

    @property
    def _n_rows(self) -> int:
        return len(next(iter(self.values()), ()))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self._n_rows, len(self)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self)

    def row(self, index: int) -> dict[str, Any]:
        """One row as a dictionary of plain Python values."""
        return {name: getattr(values[index], "item", lambda v=values[index]: v)() for name, values in self.items()}

    def rows(self) -> list[dict[str, Any]]:
        """All rows, each a dictionary."""
        return [self.row(index) for index in range(self._n_rows)]

    def to_frame(self) -> Any:
        """Convert to a ``pandas.DataFrame``."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install 'usnrt[data]'") from error
        return pd.DataFrame(self)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.column_stack(list(self.values())).astype(dtype or float)

    def _cells(self) -> list[list[str]]:
        return [[_text(values[i]) for values in self.values()] for i in range(self._n_rows)]

    def __repr__(self) -> str:
        shown = self._cells()
        index = [str(i) for i in range(self._n_rows)]
        if len(shown) > 60:
            shown, index = (shown[:30] + [["..."] * len(self)] + shown[-30:], index[:30] + ["..."] + index[-30:])
        rows = [["", *self], *([i, *cells] for i, cells in zip(index, shown))]
        rows = [[escaped(cell) for cell in row] for row in rows]
        widths = [max(len(row[j]) for row in rows) for j in range(len(self) + 1)]
        lines = [
            "  ".join(cell.rjust(width) if j else cell.ljust(width) for j, (cell, width) in enumerate(zip(row, widths)))
            for row in rows
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>" for cells in self._cells()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    return str(value)
