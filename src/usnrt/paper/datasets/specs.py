"""Specifications of the paper's 17 data sets, which `specs.json` has: source, target, features and peculiarities."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class DataFile:
    """One file of a data set: its name, alternative names, and its SHA-256 where known."""

    name: str
    sha256: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spec:
    """Specification of one data set.

    Attributes
    ----------
    key, title : str
        Name for :func:`usnrt.paper.datasets.fetch`, and name in the paper's tables.
    full_name, authors : str
        Name and donors in the UCI repository.
    uci_id : int
        Id in the UCI repository; ``slug`` is the last part of the download URL.
    files : tuple of DataFile
        Concatenated in this order.
    target : str
        Column to predict; rows without it are left out.
    n_rows, n_features : int
        Shape of the table that :func:`usnrt.paper.datasets.fetch` returns.
    drop, categorical : tuple of str
        Columns to leave out, and categorical columns.
    columns : tuple of str
        Column names of files without a header; empty if there is a header.
    read : dict
        Further arguments of ``pandas.read_csv``.
    sample : int or None
        Number of rows to keep, drawn with seed 42 (as the paper does for Year).
    note : str
        Peculiarities of the data set.
    """

    key: str
    title: str
    full_name: str
    authors: str
    uci_id: int
    slug: str
    files: tuple[DataFile, ...]
    target: str
    n_rows: int
    n_features: int
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    read: dict[str, Any] = field(default_factory=dict)
    sample: int | None = None
    note: str = ""

    @property
    def page(self) -> str:
        """URL of the data set's page at UCI."""
        return f"https://archive.ics.uci.edu/dataset/{self.uci_id}"

    @property
    def citation(self) -> str:
        """Citation in one line."""
        return f"{self.authors}. {self.full_name}. UCI Machine Learning Repository, {self.page}."


def _spec(entry: dict[str, Any]) -> Spec:
    tuples = {name: tuple(entry.get(name, ())) for name in ("drop", "categorical", "columns")}
    files = tuple(DataFile(**{**file, "aliases": tuple(file.get("aliases", ()))}) for file in entry["files"])
    return Spec(**{**entry, **tuples, "files": files})


SPECS: dict[str, Spec] = {
    entry["key"]: _spec(entry) for entry in json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
}


def get_spec(name: str) -> Spec:
    """Specification of one data set.

    Parameters
    ----------
    name : str
        One of :func:`usnrt.paper.datasets.list_datasets`.

    Examples
    --------
    >>> from usnrt.paper.datasets import get_spec
    >>> get_spec("electrical").target
    'stab'
    """
    if name not in SPECS:
        raise ValueError(f"name must be one of {list(SPECS)}, got {name!r}")
    return SPECS[name]
