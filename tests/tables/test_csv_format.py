"""Encoding and separator of a file, format of numbers, and lines that do not fit."""

import numpy as np
import pytest

from usnrt.tables.csv_format import ONE_COLUMN, declared_delimiter, find_delimiter, find_encoding, ragged_line
from usnrt.tables.numbers import NumberFormat, parse_number, parse_numbers


@pytest.mark.parametrize(
    ("text", "encoding", "found"),
    [
        ("a,b\n1,2\n", "ascii", "utf-8"),
        ("größe\n1\n", "utf-8", "utf-8"),
        ("größe\n1\n", "utf-8-sig", "utf-8"),
        ("größe\n1\n", "utf-16", "utf-16"),
        ("größe,preis\n1,2\n", "utf-16-le", "utf-16-le"),
        ("größe,preis\n1,2\n", "utf-16-be", "utf-16-be"),
        ("größe\n1\n", "utf-32", "utf-32"),
        ("größe\n1\n", "latin-1", "latin-1"),
        ("10 €\n", "cp1252", "cp1252"),
        ("größe\x81\n", "latin-1", "latin-1"),  # not defined in cp1252
    ],
)
def test_encodings(text, encoding, found):
    data = text.encode(encoding)
    assert find_encoding([data]) == found
    assert data.decode(found).lstrip("\ufeff") == text


def test_an_encoding_that_shows_late():
    assert find_encoding([b"a" * 1000, "ö".encode("latin-1"), b"b"]) == "latin-1"
    assert find_encoding(["ö".encode()[:1], "ö".encode()[1:]]) == "utf-8"  # divided between blocks
    assert find_encoding([b"abc", "ö".encode()[:1]]) == "latin-1"  # ends in the middle of a character


def test_binary_files():
    with pytest.raises(ValueError, match="^it is binary, not text$"):
        find_encoding([b"\x00" * 5000])


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2,5\n", ";"),
        ("a\tb\n1,5\t2\n", "\t"),
        ("a|b\n1|2\n", "|"),
        ("a;b,c\n1;2,5\n3;4,5\n", ";"),  # both divide every line; decimal commas are numbers
        ("name, first;age\nSmith;3\n", ";"),
        ('a,b\n"x;y;z",2\n"u;v;w",2\n', ","),
        ('"a;1","b"\n"1;2","3"\n', ","),
        ("x\n1,5\n2,5\n", ONE_COLUMN),
        ("x\n1\n2\n", ONE_COLUMN),
        ("a,b\n1,2\n3\n", ","),  # ragged: an error for the reader
        ("a,b\n", ","),
    ],
)
def test_separators(text, delimiter):
    assert find_delimiter(text) == delimiter


def test_known_columns_and_the_separator_of_the_fit_decide():
    text = "a;b,c\n1;2,3\n"
    assert find_delimiter(text, expected=["c"]) == ","
    assert find_delimiter(text, expected=["b,c"]) == ";"
    assert find_delimiter("a;b|c\nx;y|z\n", preferred="|") == "|"
    assert declared_delimiter("SEP=;\r\n") == ";"


def test_ragged_lines_are_counted_as_an_editor_counts_them():
    assert ragged_line(["a,b\n", "1,2\n"], ",") is None
    assert ragged_line(["a,b\n", '"x\n', 'y",2\n', "\n", "1,2,3\n"], ",") == (5, 3, 2)
    assert ragged_line(["a,b\n", "1,2\n", '"x\n', 'y",2,3\n'], ",") == (3, 3, 2)  # where the record begins


@pytest.mark.parametrize(
    ("text", "format", "value"),
    [
        ("1.234.567,5", (",", "."), 1234567.5),
        ("-1,5e3", (",", ""), -1500.0),
        ("1 234,5", (",", " "), 1234.5),
        ("1\u00a0234,5", (",", " "), 1234.5),
        ("1'234.5", (".", "'"), 1234.5),
        ("12,34,567", (".", ","), None),
        ("0,123", (".", ","), None),
        ("1.2", (",", "."), None),
        ("1_000", (".", ""), None),
        ("inf", (",", "."), np.inf),
        ("", (".", ""), None),
    ],
)
def test_numbers(text, format, value):
    assert parse_number(text, NumberFormat(*format)) == value


def test_columns_of_numbers():
    np.testing.assert_array_equal(parse_numbers(["1,5", None, "NA"], NumberFormat(",")), [1.5, np.nan, np.nan])
    assert parse_numbers(["1,5", "x"], NumberFormat(",")) is None
