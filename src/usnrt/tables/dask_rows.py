"""Dask collections as sources of rows: partition by partition, here or on the workers of a cluster."""

import math
import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from usnrt.tables.sources import TableSource, as_arrow, check_columns, unreadable
from usnrt.tables.streaming import TrainingBlock, TrainingSource
from usnrt.utils.names import check_different, need_column
from usnrt.utils.types import TableLike

Partition = tuple[Any, Any, Any, Any]  # features, target, weights or None, groups or None


def is_dask(X: TableLike) -> bool:
    """Whether X is a Dask DataFrame, Series or Array; never imports Dask.

    Examples
    --------
    >>> is_dask(np.zeros((3, 2)))
    False
    """
    dask = sys.modules.get("dask.base")
    return dask is not None and dask.is_dask_collection(X) and hasattr(X, "ndim") and hasattr(X, "to_delayed")


@dataclass(frozen=True)
class PartitionKind:
    """What the partitions of a collection have in common."""

    names: tuple[str, ...] | None  # columns of a Dask DataFrame; None for an Array
    target: str | None  # name of the target
    word: str  # ``"partition"`` or ``"block"``, for messages
    leaves_out: bool = False  # see `TrainingSource`

    def source(self, number: int, X: TableLike, y: Any, weight: Any, groups: Any) -> TrainingSource:
        """The rows of a partition in memory, a data frame or an array; partitions are numbered from 0."""
        place = f"{self.word} {number + 1:,} of X"
        for name, values in (("y", y), ("sample_weight", weight), ("groups", groups)):
            if values is not None and len(values) != len(X):
                raise ValueError(f"{name} must have {len(X):,} rows in {place}, got {len(values):,}")
        if self.names is None:
            target, weight = (
                None if values is None else np.asarray(values, dtype=np.float64) for values in (y, weight)
            )
            labels = None if groups is None else np.asarray(groups)
            return TrainingSource(_Piece(np.asarray(X), place), target, weight, labels)
        own: list[str | None] = []
        columns, new = {}, [str(name) for name in X.columns]
        check_columns(new, list(self.names), place, "the first partition")
        for name, values in ((self.target or "y", y), ("sample_weight", weight), ("groups", groups)):
            while name in self.names or name in columns:
                name += "_"
            if values is not None:
                columns[name] = values
            own.append(None if values is None else name)
        table = as_arrow(X, place).select(list(self.names))
        for name, values in columns.items():
            table = table.append_column(name, _as_arrow_array(values, name, place))
        return TrainingSource(_Piece(table, place), *own, leaves_out=self.leaves_out)


class _Piece(TableSource):
    """A table in memory as a source of one piece."""

    def __init__(self, table: Any, name: str) -> None:
        self.table, self.name = table, name

    def pieces(self, block_rows: int) -> Iterator[tuple[Any, str]]:
        """The table."""
        yield self.table, self.name


class DaskTable(TableSource):
    """A Dask collection of features, with a name for messages; the number of rows may be unknown."""

    def __init__(self, name: str, n_columns: int, n_rows: int | None) -> None:
        self.name = name
        self._n_columns, self._n_rows = n_columns, n_rows

    @property
    def n_columns(self) -> int:
        return self._n_columns

    def known_rows(self) -> int | None:
        return self._n_rows

    def pieces(self, block_rows: int) -> Iterator[tuple[Any, str]]:
        """Not defined: features and targets are computed together, by `DaskRows.blocks`."""
        raise NotImplementedError("blocks of Dask collections come from DaskRows")


@dataclass(frozen=True)
class DaskRows(TrainingSource):
    """A Dask collection with its target, weights and groups; see `dask_rows`."""

    kind: PartitionKind = PartitionKind(None, None, "block")
    partitions: tuple[Partition, ...] = ()  # of each partition, delayed

    def blocks(self, block_rows: int) -> Iterator[TrainingBlock]:
        """The rows in blocks; partitions are computed one after the other, by the scheduler that Dask is set to."""
        from dask.base import compute

        dask_compute: Any = compute  # it has no types
        for number, partition in enumerate(self.partitions):
            yield from self.kind.source(number, *dask_compute(*partition)).blocks(block_rows)


def dask_rows(X: TableLike, y: Any, sample_weight: Any = None, groups: Any = None) -> DaskRows:
    """A Dask collection with its target, weights and groups, which have the same partitions or are names of columns."""
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions, rows and columns, got a Dask {type(X).__name__} of {X.ndim}")
    given = {"y": y, "sample_weight": sample_weight, "groups": groups}
    return _frame_rows(X, given) if hasattr(X, "columns") else _array_rows(X, given)


def _frame_rows(X: TableLike, given: dict[str, Any]) -> DaskRows:
    from dask.delayed import delayed

    named = {argument: name for argument, name in given.items() if isinstance(name, str)}
    for name in named.values():
        need_column([str(column) for column in X.columns], name, "the Dask DataFrame")
    check_different(named)
    features, parts, column = (
        [name for name in X.columns if name not in named.values()],
        _delayed(X),
        delayed(operator.getitem),
    )

    def parts_of(argument: str, values: Any) -> list[Any]:
        if isinstance(values, str):  # a partition is computed once for all of its columns
            return [column(part, values) for part in parts]
        return _partitions_of(argument, values, "Series", "partition", len(parts))

    y = given["y"]
    target = y if isinstance(y, str) else getattr(y, "name", None)
    target = target if isinstance(target, str) else None
    kind = PartitionKind(tuple(str(name) for name in features), target, "partition", isinstance(y, str))
    own = [column(part, features) for part in parts] if named else parts
    source = DaskTable("the Dask DataFrame", len(features), None)
    return _rows_of(source, target, kind, own, given, parts_of)


def _array_rows(X: TableLike, given: dict[str, Any]) -> DaskRows:
    X = X.rechunk({1: -1})
    parts = _delayed(X)

    def parts_of(argument: str, values: Any) -> list[Any]:
        return _partitions_of(argument, _like_rows(argument, values, X), "Array", "block", len(parts))

    n_rows = None if math.isnan(X.shape[0]) else int(X.shape[0])
    source, kind = DaskTable("the Dask Array", int(X.shape[1]), n_rows), PartitionKind(None, None, "block")
    return _rows_of(source, None, kind, parts, given, parts_of)


def _rows_of(
    source: DaskTable,
    target: str | None,
    kind: PartitionKind,
    features: list[Any],
    given: dict[str, Any],
    parts_of: Callable[[str, Any], list[Any]],
) -> DaskRows:
    """Rows of features, and of what is given besides; weights and groups may be None."""
    optional = {argument for argument in ("sample_weight", "groups") if given[argument] is None}
    columns = [[None] * len(features) if name in optional else parts_of(name, given[name]) for name in given]
    weight, group = (None if name in optional else name for name in ("sample_weight", "groups"))
    return DaskRows(source, target, weight, group, kind, tuple(zip(features, *columns)))


def _partitions_of(argument: str, values: Any, kind: str, word: str, n_parts: int) -> list[Any]:
    """The partitions of a target, of weights or of groups."""
    if not is_dask(values) or values.ndim != 1:
        what = "label" if argument == "groups" else "number"
        raise TypeError(f"{argument} must be a Dask {kind} with one {what} per row of X, got {type(values).__name__}")
    parts = _delayed(values)
    if len(parts) != n_parts:
        raise ValueError(f"{argument} must have the {n_parts} {word}s of X, got {len(parts)}")
    return parts


def _like_rows(name: str, values: Any, X: TableLike) -> Any:
    """An Array in the blocks of X, if both have known sizes."""
    if not is_dask(values) or hasattr(values, "divisions"):
        return values
    if math.isnan(X.shape[0]) or math.isnan(values.shape[0]):
        return values
    if values.shape[0] != X.shape[0]:
        raise ValueError(f"{name} must have {X.shape[0]:,} rows as X, got {values.shape[0]:,}")
    return values.rechunk((X.chunks[0],))


def _delayed(collection: Any) -> list[Any]:
    """The partitions of a collection, as many for a column as for the whole table."""
    if hasattr(collection, "simplify"):
        # Only needed columns are read, as after all optimisations, but files of narrow columns are not fused.
        parts = collection.simplify().to_delayed(optimize_graph=False)
    else:
        parts = collection.to_delayed()
    return list(parts.ravel()) if isinstance(parts, np.ndarray) else list(parts)


def _as_arrow_array(values: Any, name: str, place: str) -> Any:
    import pyarrow as pa

    try:
        return pa.chunked_array([pa.Array.from_pandas(values)])
    except TypeError:  # a chunked array already
        return pa.Array.from_pandas(values)
    except pa.ArrowException as error:
        raise unreadable(f"{name!r} in {place}", error) from None
