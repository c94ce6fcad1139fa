"""Names and values from files in messages: nothing of them acts on a terminal."""

import io
import json

import pytest

from usnrt.utils.names import escaped, escaped_json, escaped_lines, need_column
from usnrt.utils.progress import Progress, progress_stream
from usnrt.utils.result_table import Table

UNSAFE = [*map(chr, range(32)), *map(chr, range(0x7F, 0xA0)), *"\u061c\u200e\u200f\u2028\u202a\u202e\u2066\u2069\ud800"]


@pytest.mark.parametrize("letter", UNSAFE, ids=ascii)
def test_every_control_character_is_escaped_as_by_repr(letter):
    assert escaped(f"a{letter}b") == f"a{ascii(letter)[1:-1]}b"


def test_letters_of_all_languages_stay():
    text = "größe °C, 面积, مساحة, क्‍ष, 👩‍🔬, a\\b"  # with joiners, which letters need
    assert escaped(text) == text


def test_lines_stay_lines():
    assert escaped_lines("a\x1b\nb") == "a\\x1b\nb"


def test_json_keeps_its_values_without_control_characters():
    value = {"a\x1b\x9b": ["".join(UNSAFE), "ä"]}
    document = escaped_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(document) == value
    assert document.replace("\n", "").isprintable()


def test_tables_progress_and_errors_are_escaped():
    assert repr(Table({"a\x1b": ["b\u202e"]})) == "   a\\x1b\n0  b\\u202e".replace("   a", "     a")
    stream = io.StringIO()
    with progress_stream(stream):
        Progress(1).note("read a\x1b]0;b\x07")
    assert stream.getvalue() == "read a\\x1b]0;b\\x07\n"
    with pytest.raises(ValueError, match=r"^t has no column 'z'; its columns are a\\x9b$"):
        need_column(["a\x9b"], "z", "t")
