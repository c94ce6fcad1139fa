"""Names and values in messages: those that are missing, those that were perhaps meant, those that are long."""

import difflib
import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

MAX_NAMED = 5
MAX_SHOWN = 60  # characters of a value
# Characters that act on a terminal or reorder its text: C0 and C1 controls, separators of lines, bidirectional
# controls; and lone surrogates, which cannot be written.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    """One line of text with control characters as Python's ``repr`` shows them: names come from files."""
    return _UNSAFE.sub(lambda unsafe: unsafe.group().encode("unicode_escape").decode(), text)


def escaped_lines(text: str) -> str:
    """Text of several lines, each `escaped`."""
    return "\n".join(map(escaped, text.split("\n")))


def escaped_json(document: str) -> str:
    """The same JSON document without control characters; JSON itself escapes only some of them."""
    return "\n".join(_UNSAFE.sub(lambda unsafe: f"\\u{ord(unsafe.group()):04x}", line) for line in document.split("\n"))


def close_name(name: str, names: Collection[str]) -> str | None:
    """The name that was perhaps meant: equal but for case, spaces and punctuation, or else similar.

    Examples
    --------
    >>> close_name("width", ["Width", "widths"]), close_name("price", ["prise"]), close_name("a", ["b"])
    ('Width', 'prise', None)
    """
    alike = [other for other in names if _bare(other) == _bare(name)]
    found = alike or difflib.get_close_matches(name, list(names), n=1)
    if not found:  # similar but for case
        by_bare = {_bare(other): other for other in names}
        found = [by_bare[bare] for bare in difflib.get_close_matches(_bare(name), list(by_bare), n=1)]
    return found[0] if found else None


def missing_names(missing: Sequence[str], present: Collection[str]) -> str:
    """State which names are missing, and which were perhaps meant.

    Examples
    --------
    >>> missing_names(["width"], ["Width", "price"])
    "'width' is missing; did you mean 'Width'?"
    >>> missing_names(["width", "b"], ["price"])
    "'width', 'b' are missing"
    """
    shown = ", ".join(map(repr, missing[:MAX_NAMED])) + (", ..." if len(missing) > MAX_NAMED else "")
    verb = "is" if len(missing) == 1 else "are"
    close = [found for name in missing[:MAX_NAMED] if (found := close_name(name, present))]
    meant = ", ".join(map(repr, dict.fromkeys(close)))
    return f"{shown} {verb} missing" + (f"; did you mean {meant}?" if meant else "")


def need_column(names: Collection[str], name: str, place: str) -> None:
    """Raise a ValueError unless a table has a column."""
    if name in names:
        return
    close = close_name(name, names)
    hint = f"did you mean {close!r}?" if close else f"its columns are {', '.join(map(escaped, list(names)[:12]))}"
    raise ValueError(f"{place} has no column {name!r}; {hint}")


def check_different(given: Mapping[str, str]) -> None:
    """Raise a ValueError if two arguments name one column.

    Examples
    --------
    >>> check_different({"y": "price", "sample_weight": "count", "groups": "price"})
    Traceback (most recent call last):
        ...
    ValueError: y and groups must be different columns, got 'price' for both
    """
    for (one, name), (other, second) in itertools.combinations(given.items(), 2):
        if name == second:
            raise ValueError(f"{one} and {other} must be different columns, got {name!r} for both")


def first_text(values: Iterable[Any]) -> int | None:
    """The position of the first value that is neither a number nor missing; None if there is none.

    Examples
    --------
    >>> first_text([1, None, "2.5", "large"])
    3
    """
    for position, value in enumerate(values):
        try:
            float(0 if value is None else value)
        except (TypeError, ValueError):
            return position
    return None


def shown_value(value: object) -> str:
    """A value of a table in a message: its repr, shortened if it is long.

    Examples
    --------
    >>> shown_value("n/a"), shown_value(3.5)
    ("'n/a'", '3.5')
    >>> shown_value("9" * 1_000_000)
    "'99999999999999999999999999999999999999999999999999999999...' (1,000,000 characters)"
    """
    shown = repr(value[: MAX_SHOWN + 1] if isinstance(value, str) else value)
    if len(shown) <= MAX_SHOWN + 2:
        return shown
    if not isinstance(value, str):
        return f"{shown[: MAX_SHOWN - 3]}..."
    return f"{shown[: MAX_SHOWN - 3]}...{shown[0]} ({len(value):,} characters)"


def _bare(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()
