"""What is known of one encoded column."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Column:
    """One column of the encoded table.

    A date of the input gives several encoded columns, one a calendar part; everything else gives one.

    Parameters
    ----------
    name : str
        Name to show, e.g. ``"price"`` or ``"date (month)"``.
    kind : {"numeric", "categorical"}
        Categorical columns hold codes ``0 .. K-1``, ``-1`` for a category that training did not see.
    source : str
        The input column it comes from.
    source_index : int
        Position of that input column.
    part : str
        Calendar part of a date, ``""`` for everything else.
    categories : tuple of str
        Labels by code; empty for numeric columns.
    codes : tuple of float
        The numbers behind ``categories`` where the input holds numbers (integer codes); empty for text.
    has_missing : bool
        Whether training rows had missing values here.
    boolean : bool
        Whether the input holds true/false, encoded 1/0.

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

    @property
    def is_categorical(self) -> bool:
        """Whether the column holds category codes."""
        return self.kind == "categorical"

    @property
    def n_categories(self) -> int:
        """Number of categories seen in training; 0 for numeric columns."""
        return len(self.categories)
