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
_OTHER_KINDS = {
    b"PK\x03\x04": "an Excel workbook or another zip file; if it is a workbook, name it .xlsx",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook (.xls); save it as .xlsx or as CSV",
    b"PAR1": "a Parquet file; name it .parquet",
    b"ARROW1": "a Feather file; name it .feather",
    b"%PDF": "a PDF",
    b"\x1f\x8b": "compressed by gzip; the name of the file must end in .gz",
    b"BZh": "compressed by bzip2; the name of the file must end in .bz2",
    b"\x28\xb5\x2f\xfd": "compressed by Zstandard; the name of the file must end in .zst",
}
MAX_TITLES = 10
_NO_CP1252 = b"\x81\x8d\x8f\x90\x9d"


@dataclass(frozen=True)
class CsvFormat:
    """How a file was read."""

    delimiter: str = ","  # between columns
    # decimal, thousands: marks in numbers; "" for no thousands mark
    decimal: str = "."
    thousands: str = ""
    encoding: str = "utf-8"


def find_encoding(blocks: Iterable[bytes]) -> str:
    """The encoding of a file, given in blocks: UTF-8, UTF-16, UTF-32, or else cp1252 or latin-1."""
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
    >>> decoded_start(b"a,b\\r\\n1,2\\r\\n3", "utf-8")
    'a,b\\n1,2\\n'
    """
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(data, final=is_whole).lstrip("\ufeff")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if is_whole or "\n" not in text else text[: text.rindex("\n") + 1]


def find_delimiter(sample: str, expected: Collection[str] = (), preferred: str = ",") -> str:
    """The separator of the columns, by the first lines of a file.

    It is the one that finds most of the expected names, then the one that divides most lines into as many fields as the
    first line has names, then the one that leaves the most numbers, then the preferred one; `ONE_COLUMN` if none
    divides the first line.

    Examples
    --------
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


@dataclass(frozen=True)
class Preamble:
    """What comes before the names of the columns."""

    n_lines: int = 0  # lines before the names: titles, comments, and that of `declared_delimiter`
    comment: str = ""  # what comments begin with, here and between the rows; "" if there are none
    delimiter: str = ""  # the separator that is declared; "" if none is


def find_preamble(sample: str) -> Preamble:
    """What comes before the names of the columns, where it is clear from the first lines.

    Comments are lines that begin with ``#``, unless the last of them has the names. A title is a line of one field in a
    table of several columns, one of which holds numbers, if all names follow it and are text.

    Examples
    --------
    >>> find_preamble("# by a program\\na,b\\n1,2\\n")
    Preamble(n_lines=1, comment='#', delimiter='')
    >>> find_preamble("Sales of 2024\\n\\nshop,sales\\nA,2\\nB,5\\n").n_lines
    2
    """
    lines = sample.splitlines()
    declared = declared_delimiter(lines[0]) if lines else ""
    start = 1 if declared else 0
    first = next((i for i, line in enumerate(lines[start:], start) if not line.startswith("#")), len(lines))
    comment = "#" if first > start else ""
    if comment and first < len(lines):
        rest = "\n".join(lines[first : first + MAX_LINES])
        names, row = (read_rows(text, find_delimiter(rest))[:1] for text in (lines[first - 1], rest))
        is_header = names and row and len(names[0]) == len(row[0]) > 1
        first, comment = (first - 1, "") if is_header else (first, comment)
    return Preamble(first + _n_titles([line for line in lines[first:] if not (comment and line.startswith(comment))]),
                    comment, declared)  # fmt: skip


def _n_titles(lines: list[str]) -> int:
    """Lines before the names of the columns, empty ones included; 0 if it is not clear."""
    for n_titles in range(min(MAX_TITLES, len(lines) - 2)):
        body = "\n".join(lines[n_titles : n_titles + MAX_LINES])
        delimiter = find_delimiter(body)
        if delimiter == ONE_COLUMN or not lines[n_titles].strip():
            continue
        names, *rows = read_rows(body, delimiter)
        is_title = len(names) > 1 and names[0].strip() and not any(name.strip() for name in names[1:])
        if is_title or not rows or sum(len(row) == len(names) for row in rows) < 0.9 * len(rows):
            continue
        if n_titles == 0:
            return 0
        numbers = [
            sum(bool(_NUMBER.fullmatch(cell.strip())) and cell != "" for cell in column) for column in zip(*rows)
        ]
        is_header = all(name.strip() and not _NUMBER.fullmatch(name.strip()) for name in names)
        titles = [row for line in lines[:n_titles] for row in read_rows(line, delimiter)]
        are_titles = all(not any(field.strip() for field in row[1:]) for row in titles)
        return n_titles if is_header and are_titles and max(numbers) >= 0.5 * len(rows) else 0
    return 0


def what_it_is(start: bytes) -> str:
    """What a file is that is no CSV file, in words, from its first bytes; "" if it may be one.

    Examples
    --------
    >>> what_it_is(b" <!DOCTYPE html>"), what_it_is(b"a,b")
    ('an HTML page; was a login needed to download it?', '')
    """
    for magic, words in _OTHER_KINDS.items():
        if start.startswith(magic):
            return words
    text = start.removeprefix(codecs.BOM_UTF8).lstrip()[:200].lower()
    if text.startswith((b"<!doctype", b"<html", b"<head", b"<body", b"<table", b"<?xml", b"<meta", b"<script")):
        return "an HTML page; was a login needed to download it?" if b"<?xml" not in text else "an XML document"
    is_json = re.match(rb'(?:\[\s*)?\{\s*"[^"]*"\s*:', text)
    return "JSON; save it as one object per line, .jsonl" if is_json else ""


def declared_delimiter(line: str) -> str:
    """The separator that spreadsheets declare in a line of its own, ``sep=;``; "" if the first line is not one."""
    found = re.fullmatch(r'"?sep=(.)"?\s*', line, flags=re.IGNORECASE)
    return found[1] if found else ""


def ragged_line(lines: Iterable[str], delimiter: str) -> tuple[int, int, int] | None:
    """The first line with another number of fields than the first: line number, its fields, fields of the first.

    None if there is none before a field that is longer than Python's reader takes. Lines have their line ends.
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


def delimiter_name(delimiter: str) -> str:
    """A separator in messages."""
    return {"\t": "tab", ONE_COLUMN: "none"}.get(delimiter, repr(delimiter))
