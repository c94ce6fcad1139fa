"""The form in which a table was given, and encoded rows in that form again, for models that know no encodings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.columns import Column
from usnrt.tables.encoder import TableEncoder
from usnrt.utils.types import Floats, TableLike


@dataclass(frozen=True)
class GivenForm:
    """How a table was given."""

    dtypes: Sequence[str] = ()  # of its columns; empty if they are unknown
    is_frame: bool = True  # whether its columns have names

    @classmethod
    def of(cls, X: TableLike) -> "GivenForm":
        """The form of a table in memory."""
        if not hasattr(X, "columns") and not hasattr(X, "column_names"):
            return cls(is_frame=False)
        is_pandas = type(X).__module__.split(".")[0] == "pandas"
        return cls([str(dtype) for dtype in X.dtypes] if is_pandas else ())


@dataclass(frozen=True)
class TableForm:
    """Columns, their dtypes and the kind of table that a model of the user is given.

    It has the user's columns in their order, of the user's dtypes. Only dates differ, which are one column per calendar
    part, named like ``"date (month)"``, and a time column that is a number, which is left out.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"size": [2, 3], "color": pd.Categorical(["red", "blue"])})
    >>> encoder = TableEncoder().fit(table)
    >>> rows = encoder.transform(table)
    >>> form = TableForm.of(GivenForm.of(table), encoder, rows)
    >>> form.decode(rows).equals(table)
    True
    """

    columns: Sequence[Column]  # of the encoded table
    dtypes: Sequence[str]  # of each encoded column in the user's table; ``""`` where it is unknown
    is_frame: bool  # whether the table is a pandas DataFrame rather than an array
    # shape (n_columns,); median or most frequent category of columns without missing values, NaN for others. It stands
    # for a value that is missing all the same, and for a category that training did not see, which a model may not be
    # able to take
    typical: Floats

    @classmethod
    def of(cls, given: GivenForm | None, encoder: TableEncoder, raw: Floats) -> "TableForm":
        """The form of a table that an encoder has encoded as ``raw``; None for a table that is not in memory."""
        given = given or GivenForm()
        known = {column.name: given.dtypes[column.source_index] for column in encoder.columns_ if given.dtypes}
        parts = {column.name for column in encoder.columns_ if column.part}
        dtypes = ["" if name in parts else known.get(name, "") for name in (c.name for c in encoder.columns_)]
        typical = [_typical(raw[:, number], column) for number, column in enumerate(encoder.columns_)]
        return cls(encoder.columns_, dtypes, given.is_frame, np.array(typical))

    def decode(self, raw: Floats) -> Any:
        """Encoded rows as a table of the user's form; an array is one of objects if some columns hold text."""
        missing = np.isnan(raw) | ((raw < 0) & np.array([column.is_categorical for column in self.columns]))
        known = np.where(missing, self.typical, raw)
        values = [_decoded(known[:, number], column) for number, column in enumerate(self.columns)]
        if not self.is_frame:
            kind = object if any(column.dtype == object for column in values) else np.float64
            return np.column_stack([column.astype(kind) for column in values])
        import pandas as pd

        named = zip(self.columns, values, self.dtypes)
        return pd.DataFrame({column.name: _with_dtype(own, column, dtype) for column, own, dtype in named})


def _typical(values: Floats, column: Column) -> float:
    """Median, or the most frequent code; NaN if values are missing."""
    if np.isnan(values).any() or len(values) == 0:
        return np.nan
    if column.is_categorical:
        return float(np.argmax(np.bincount(np.maximum(values, 0).astype(np.intp))))
    return float(np.sort(values)[len(values) // 2])


def _decoded(codes: Floats, column: Column) -> NDArray[Any]:
    """Numbers, or labels with None where they are missing."""
    if not column.is_categorical:
        return codes
    is_known = ~np.isnan(codes)
    position = np.where(is_known, codes, 0).astype(np.intp)
    if column.codes:
        numbers: Floats = np.array([*column.codes, *[np.nan] * column.rest])[position]
        return np.where(is_known, numbers, np.nan)
    labels: NDArray[Any] = np.array(column.categories, dtype=object)[position]
    labels[~is_known] = None
    return labels


def _with_dtype(values: NDArray[Any], column: Column, dtype: str) -> Any:
    """A column with the dtype that the user's table had, where the values allow it."""
    import pandas as pd

    if values.dtype == object:
        if dtype == "category":
            return pd.Categorical(values, categories=list(column.categories))
        return pd.Series(values, dtype=dtype if dtype in ("str", "string") else object)
    try:
        kind = np.dtype(dtype) if dtype else values.dtype
    except (TypeError, ValueError):
        return values
    if kind.kind == "f":
        return values.astype(kind)
    is_whole = kind.kind in "biu" and np.isfinite(values).all()
    return np.rint(values).astype(kind) if is_whole else values
