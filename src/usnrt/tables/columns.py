"""Metadata of an encoded column."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Column:
    """One column of the encoded table.

    A date column of the input is encoded as several columns, one per calendar part; any other as one.

    Parameters
    ----------
    name : str
        Display name, e.g. ``"price"`` or ``"date (month)"``.
    kind : {"numeric", "categorical"}
        Categorical columns hold codes ``0 .. K-1``, ``-1`` for a category unseen in training.
    source : str
        Name of the input column.
    source_index : int
        Position of that input column.
    part : str
        Calendar part of a date, ``""`` for other columns.
    categories : tuple of str
        Labels by code; empty for numeric columns.
    codes : tuple of float
        The input values of ``categories`` if the input is numeric (integer codes); empty for text. The rest has none.
    has_missing : bool
        Whether the column has missing values in the training rows.
    boolean : bool
        Whether the input is boolean, encoded as 1 and 0.
    rest : bool
        Whether the last category stands for all values that are not listed: rare ones of a table larger than memory,
        and those unseen in training.

    Examples
    --------
    >>> from usnrt.tables import Column
    >>> Column("size", "categorical", "size", categories=("large", "small")).n_categories
    2
    """

    name: str
    kind: Literal["numeric", "categorical"]
    source: str
    source_index: int = 0
    part: str = ""
    categories: tuple[str, ...] = ()
    codes: tuple[float, ...] = ()
    has_missing: bool = False
    boolean: bool = False
    rest: bool = False

    @property
    def is_categorical(self) -> bool:
        """Whether the column holds category codes."""
        return self.kind == "categorical"

    @property
    def n_categories(self) -> int:
        """Number of categories seen in training; 0 for numeric columns."""
        return len(self.categories)
