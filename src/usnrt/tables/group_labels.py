"""Labels of groups as codes, by a hash: the code of a label depends on no other label, row, file or block.

So groups are the same whether a table is read at once, block by block or on several machines, and no list of all labels
is ever needed.
"""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.tables.rows import mix_bits
from usnrt.utils.types import Rows

CODE_BITS = 53  # float64 holds all codes; about one pair among 100 million labels shares a code
_PORTION = 65_536  # labels whose characters are hashed at a time
_Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class GroupLabels:
    """The codes of labels."""

    codes: Rows  # shape (n,); at least 0 and below 2**53
    kind: str  # ``"text"``, ``"numbers"``, ``"dates"`` or the name of another type


@dataclass
class LabelSurvey:
    """What makes labels of groups acceptable: they are of one kind, and not all the same.

    Examples
    --------
    >>> survey = LabelSurvey()
    >>> survey.add(read_labels(["a", "a"]))
    >>> survey.check()
    Traceback (most recent call last):
        ...
    ValueError: groups must have at least 2 different labels, got 1
    """

    kinds: set[str] = field(default_factory=set)
    low: int = 2**CODE_BITS
    high: int = -1

    def add(self, labels: GroupLabels) -> None:
        """Learn from the labels of some rows."""
        self.merge(LabelSurvey({labels.kind}, int(labels.codes.min()), int(labels.codes.max())))

    def merge(self, other: "LabelSurvey") -> None:
        """Learn what a survey of other rows has learnt."""
        self.kinds = self.kinds | other.kinds
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    def check(self) -> None:
        """Raise a ValueError if the labels cannot be those of groups."""
        if len(self.kinds) > 1 or any(" and " in kind for kind in self.kinds):
            raise ValueError(f"groups must be all text or all numbers, got {' and '.join(sorted(self.kinds))}")
        check_codes_differ(self.low, self.high)


def check_codes_differ(low: int, high: int) -> None:
    """Raise a ValueError if the smallest and the largest code are one."""
    if low == high:
        raise ValueError("groups must have at least 2 different labels, got 1")


def read_labels(labels: Any, row_name: Callable[[int], str] = "row {}".format) -> GroupLabels:
    """The codes of labels, an array-like or a column of pyarrow; a number has one code in all types that hold it.

    ``row_name`` gives the place of a row in words.
    """
    hashes, kind, missing = _of_arrow(labels) if hasattr(labels, "combine_chunks") else _of_array(np.asarray(labels))
    if missing.any():
        row = row_name(int(np.argmax(missing)))
        raise ValueError(f"groups must have a label for every row, got a missing one in {row}")
    return GroupLabels(codes_of(hashes), kind)


def joined_labels(parts: Sequence[GroupLabels]) -> GroupLabels:
    """The labels of several blocks as one.

    Examples
    --------
    >>> joined_labels([read_labels([1]), read_labels(["a"])]).kind
    'numbers and text'
    """
    kinds = sorted({part.kind for part in parts})
    return GroupLabels(np.concatenate([part.codes for part in parts]), " and ".join(kinds))


def codes_of(hashes: _Hashes) -> Rows:
    """Codes of groups from hashes: integers that float64 holds.

    Examples
    --------
    >>> codes_of(np.array([2**64 - 1], dtype=np.uint64)) == 2**53 - 1
    array([ True])
    """
    return (hashes >> np.uint64(64 - CODE_BITS)).astype(np.intp)


def _of_arrow(column: Any) -> tuple[_Hashes, str, NDArray[np.bool_]]:
    """Hashes, kind and missing values of a column of a pyarrow table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    missing = np.asarray(column.is_null(nan_is_null=True).to_numpy(), dtype=bool)
    if missing.any():
        return np.zeros(len(column), dtype=np.uint64), "", missing
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        encoded = pc.dictionary_encode(pa.chunked_array(column.chunks, column.type).combine_chunks())
        if isinstance(encoded, pa.ChunkedArray):  # combined chunks of newer versions
            encoded = encoded.combine_chunks()
        hashes = _text_hashes(encoded.dictionary.to_pylist())
        return hashes[encoded.indices.to_numpy(zero_copy_only=False)], "text", missing
    return _of_array(column.to_numpy())


def _of_array(labels: NDArray[Any]) -> tuple[_Hashes, str, NDArray[np.bool_]]:
    """Hashes, kind and missing values of an array."""
    if labels.dtype.kind in "biuf":
        return _number_hashes(labels), "numbers", np.isnan(labels)
    if labels.dtype.kind == "M":
        instants = labels.astype("datetime64[us]").astype(np.int64)
        return _number_hashes(instants), "dates", np.isnat(labels)
    values = labels.astype(object).tolist()
    distinct = list(dict.fromkeys(values))
    number = {label: position for position, label in enumerate(distinct)}
    position = np.fromiter(map(number.__getitem__, values), np.intp, len(values))
    kinds = sorted({_kind(own) for own in set(map(type, distinct))})
    missing = np.array([kinds != ["text"] and _is_missing(label) for label in distinct], dtype=bool)
    if missing.any():
        return np.zeros(len(values), dtype=np.uint64), "", missing[position]
    hashes = _object_hashes(distinct, kinds[0]) if len(kinds) == 1 else np.zeros(len(distinct), dtype=np.uint64)
    return hashes[position], " and ".join(kinds), missing[position]


def _is_missing(label: Any) -> bool:
    return label is None or type(label).__name__ in ("NAType", "NaTType") or bool(label != label)


def _kind(type_of_label: type) -> str:
    kinds: dict[str, Any] = {
        "text": str,
        "numbers": (bool, int, float, np.bool_, np.integer, np.floating),
        "dates": (datetime.date, np.datetime64),
    }
    return next((kind for kind, types in kinds.items() if issubclass(type_of_label, types)), type_of_label.__name__)


def _object_hashes(labels: list[Any], kind: str) -> _Hashes:
    """Hashes of different objects of one kind; those of other kinds than text, numbers and dates are their text."""
    if kind == "dates":
        utc = [label.astimezone(datetime.UTC).replace(tzinfo=None) if _has_zone(label) else label for label in labels]
        return _of_array(np.array(utc, dtype="datetime64[us]"))[0]
    if kind == "numbers" and (values := np.array(labels)).dtype.kind in "biuf":
        return _number_hashes(values)
    return _text_hashes(list(map(str, labels)))  # of integers beyond 64 bits too


def _has_zone(label: Any) -> bool:
    return getattr(label, "tzinfo", None) is not None


def _number_hashes(values: NDArray[Any]) -> _Hashes:
    """Whole numbers are hashed as integers, so that identifiers of 64 bits are not rounded; others by their bits."""
    if values.dtype.kind != "f":
        return mix_bits(values.astype(np.uint64 if values.dtype.kind == "u" else np.int64).view(np.uint64))
    numbers = values.astype(np.float64)
    whole = (numbers == np.floor(numbers)) & (np.abs(numbers) < 2.0**63)
    integers = np.where(whole, numbers, 0.0).astype(np.int64).view(np.uint64)
    return mix_bits(np.where(whole, integers, numbers.view(np.uint64)))


def _text_hashes(labels: list[str]) -> _Hashes:
    """Hashes of texts: the sum of the hashes of their characters at their places."""
    hashes = np.empty(len(labels), dtype=np.uint64)
    for start in range(0, len(labels), _PORTION):
        hashes[start : start + _PORTION] = _hashes_of_portion(labels[start : start + _PORTION])
    return hashes


def _hashes_of_portion(labels: list[str]) -> _Hashes:
    lengths = np.fromiter(map(len, labels), np.int64, len(labels))
    characters = np.frombuffer("".join(labels).encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)
    ends = np.cumsum(lengths)
    place = (np.arange(len(characters)) - np.repeat(ends - lengths, lengths)).astype(np.uint64)
    sums = np.append(np.uint64(0), np.cumsum(mix_bits(characters + (place << np.uint64(32)))))  # modulo 2**64
    return mix_bits(sums[ends] - sums[ends - lengths] + lengths.astype(np.uint64))
