"""The format of a CSV file, from its content: encoding and separator."""

import codecs
import csv
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

DELIMITERS = (",", "\t", ";", "|")
ONE_COLUMN = "\x1f"  # "unit separator": the delimiter of a file with one column, in which it does not occur
MAX_LINES = 500
_BOMS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8",  # the reader skips it
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_NO_CP1252 = b"\x81\x8d\x8f\x90\x9d"


@dataclass(frozen=True)
class CsvFormat:
    """How a file was read.

    Attributes
    ----------
    delimiter : str
        Between columns.
    decimal, thousands : str
        Marks in numbers; "" for no thousands mark.
    encoding : str
    """

    delimiter: str = ","
    decimal: str = "."
    thousands: str = ""
    encoding: str = "utf-8"


def find_encoding(blocks: Iterable[bytes]) -> str:
    """The encoding of a file: UTF-8, UTF-16, UTF-32, or else cp1252 or latin-1.

    Parameters
    ----------
    blocks : iterable of bytes
        The file, block by block.

    Examples
    --------
    >>> from usnrt.tables.csv_format import find_encoding
    >>> [find_encoding([text.encode(name)]) for text, name in (("Köln", "utf-8"), ("Köln", "latin-1"))]
    ['utf-8', 'latin-1']
    >>> [find_encoding(["10 €".encode(name)]) for name in ("cp1252", "utf-16")]
    ['cp1252', 'utf-16']
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    single_bytes: set[int] = set()
    is_utf8, is_first = True, True
    for block in blocks:
        if is_first:
            is_first = False
            start = next((name for bom, name in _BOMS.items() if block.startswith(bom)), "") or _without_bom(block)
            if start not in ("", "utf-8"):
                return start
            if b"\x00" in block:
                raise ValueError("it is binary, not text")
        if is_utf8:
            try:
                decoder.decode(block)
            except UnicodeDecodeError:
                is_utf8 = False
        if not is_utf8:
            single_bytes |= set(block.translate(None, bytes(range(0x80))))
    if is_utf8:
        try:
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            is_utf8 = False
    if is_utf8:
        return "utf-8"
    windows = any(0x80 <= byte < 0xA0 for byte in single_bytes) and not single_bytes & set(_NO_CP1252)
    return "cp1252" if windows else "latin-1"


def _without_bom(block: bytes) -> str:
    """UTF-16 of mostly Latin text: every other byte is zero."""
    sample = block[:4096]
    if len(sample) < 4 or b"\x00" not in sample:
        return ""
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if odd > 0.4 * len(sample) > 20 * even:
        return "utf-16-le"
    return "utf-16-be" if even > 0.4 * len(sample) > 20 * odd else ""


def decoded_start(data: bytes, encoding: str, is_whole: bool = False) -> str:
    """The first lines of a file as text with plain line ends, without a part of a line at the end.

    Examples
    --------
    >>> from usnrt.tables.csv_format import decoded_start
    >>> decoded_start(b"a,b\\r\\n1,2\\r\\n3", "utf-8")
    'a,b\\n1,2\\n'
    """
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(data, final=is_whole).lstrip("\ufeff")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if is_whole or "\n" not in text else text[: text.rindex("\n") + 1]


def find_delimiter(sample: str, expected: Collection[str] = (), preferred: str = ",") -> str:
    """The separator of the columns.

    It is the one that divides most lines into as many fields as the first line has names, then the one that leaves
    the most numbers; `ONE_COLUMN` if none divides the first line.

    Parameters
    ----------
    sample : str
        The first lines, without a part of a line at the end.
    expected : collection of str
        Names of columns, if known.
    preferred : str
        The separator of two that are equally good.

    Examples
    --------
    >>> from usnrt.tables.csv_format import find_delimiter
    >>> find_delimiter("width;price\\n1,5;2,25\\n")
    ';'
    >>> find_delimiter('name,price\\n"Meier; Huber",3\\n')
    ','
    """
    best: tuple[tuple[float, ...], str] | None = None
    for delimiter in (preferred, *DELIMITERS):
        rows = read_rows(sample, delimiter)
        if not rows or len(rows[0]) < 2:
            continue
        names, body = rows[0], rows[1:]
        n_expected = len(set(expected) & set(names))
        fitting = sum(len(row) == len(names) for row in body) / max(len(body), 1)
        cells = [cell for row in body for cell in row]
        numbers = sum(bool(_NUMBER.fullmatch(cell.strip())) for cell in cells) / max(len(cells), 1)
        quality = (float(n_expected), fitting, numbers)
        if best is None or quality > best[0]:
            best = quality, delimiter
    return ONE_COLUMN if best is None else best[1]


_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,' ]\d+)*|[.,]\d+)(?:[eE][+-]?\d+)?|")


def read_rows(sample: str, delimiter: str) -> list[list[str]]:
    """The first records of a text, empty lines left out."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(sample.splitlines(keepends=True), delimiter=delimiter):
            if row:
                rows.append(row)
            if len(rows) >= MAX_LINES:
                break
    except csv.Error:  # a field that is too long, or a NUL
        pass
    return rows


def declared_delimiter(line: str) -> str:
    """The separator that spreadsheets declare in a line of its own, ``sep=;``; "" if the first line is not one.

    Examples
    --------
    >>> from usnrt.tables.csv_format import declared_delimiter
    >>> declared_delimiter("sep=;"), declared_delimiter("a;b")
    (';', '')
    """
    found = re.fullmatch(r'"?sep=(.)"?\s*', line, flags=re.IGNORECASE)
    return found[1] if found else ""


def ragged_line(lines: Iterable[str], delimiter: str) -> tuple[int, int, int] | None:
    """The first line with another number of fields than the first: line number, its fields, fields of the first.

    None if there is none before a field that is longer than Python's reader takes.

    Parameters
    ----------
    lines : iterable of str
        With their line ends.
    delimiter : str

    Examples
    --------
    >>> from usnrt.tables.csv_format import ragged_line
    >>> ragged_line(["a,b\\n", '"1\\n', '2",3\\n', "4\\n"], ",")
    (4, 1, 2)
    """
    reader = csv.reader(lines, delimiter=delimiter)
    expected = 0
    start = 1
    try:
        for row in reader:
            if row and expected and len(row) != expected:
                return start, len(row), expected
            expected = expected or len(row)
            start = reader.line_num + 1
    except csv.Error:  # a field that is too long
        pass
    return None
