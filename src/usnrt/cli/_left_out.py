"""Columns that a model should not learn from unless the user says so: identifiers and free text."""

import re

import pyarrow as pa
import pyarrow.compute as pc

MIN_ROWS = 20  # in fewer rows, anything may differ in all
MIN_DISTINCT = 0.95  # share of distinct values of an identifier
MIN_DISTINCT_TEXT = 0.5  # and of free text,
MIN_WORDS = 4.0  # which has this many words on average
YEARS = (1500, 2200)
MIN_DENSE = 50  # different integers of which it is no chance that they are all within
DENSE = 2.0  # ... a range of this many times their number: they number rows
# "id", "customer_id", "orderId", "ID2"; "uuid", "key"; "order_no"; the index that pandas writes
_NAMES = re.compile(
    r"(?:.*[\W_])?(?:id|ids|uuid|guid|key|index|idx|rowid|row|nr)\d*"
    r"|(?:order|invoice|customer|client|patient|article|item|product|serial|ticket|case|record|account)[\W_]?"
    r"(?:no|num|number|code)\.?|unnamed: 0|",
    re.IGNORECASE,
)
_CAMEL = re.compile(r".*[a-z](?:Id|ID|No|Nr)")


def reason_to_leave_out(name: str, column: pa.ChunkedArray) -> str:
    """Why a column should be left out; "" for columns to learn from.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from usnrt.cli._left_out import reason_to_leave_out
    >>> reason_to_leave_out("id", pa.chunked_array([list(range(100, 200))]))
    'a different number in every row'
    >>> reason_to_leave_out("size", pa.chunked_array([[3, 5] * 50]))
    ''
    """
    present = column.drop_null()
    if len(present) < MIN_ROWS:
        return ""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _reason_of_text(present)
    if pa.types.is_integer(column.type):
        return _reason_of_integers(name, present, len(column))
    return ""


def _reason_of_text(present: pa.ChunkedArray) -> str:
    distinct = pc.count_distinct(present).as_py() / len(present)
    if distinct < MIN_DISTINCT_TEXT:
        return ""
    words = pc.mean(pc.add(pc.count_substring(pc.utf8_trim_whitespace(present), " "), 1)).as_py()
    if words >= MIN_WORDS:
        return "free text"
    if distinct == 1:
        return "a different text in every row"
    return "a different text in nearly every row" if distinct >= MIN_DISTINCT else ""


def _reason_of_integers(name: str, present: pa.ChunkedArray, n_rows: int) -> str:
    n_distinct = pc.count_distinct(present).as_py()
    if n_distinct < MIN_DISTINCT * len(present):
        return ""
    ends = pc.min_max(present).as_py()
    span = ends["max"] - ends["min"] + 1
    in_sequence = n_distinct == len(present) and (
        span == n_distinct or (n_distinct >= MIN_DENSE and span <= DENSE * n_distinct)
    )
    is_year = YEARS[0] <= ends["min"] and ends["max"] <= YEARS[1]
    if _is_id_name(name) or (in_sequence and not is_year):
        return "a different number in every row" if n_distinct == n_rows else "a different number in nearly every row"
    return ""


def question_about(name: str, column: pa.ChunkedArray) -> str:
    """What to ask about a column that is kept: numbers of subjects with several rows each; "" for others.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from usnrt.cli._left_out import question_about
    >>> question_about("patient_id", pa.chunked_array([[1, 1, 2, 2] * 10]))
    "are 'patient_id' subjects with several rows each? --group-column patient_id keeps theirs together"
    """
    if not _is_id_name(name) or not (pa.types.is_integer(column.type) or pa.types.is_string(column.type)):
        return ""
    present = column.drop_null()
    if len(present) < MIN_ROWS or pc.count_distinct(present).as_py() < 2:
        return ""
    return f"are {name!r} subjects with several rows each? --group-column {name} keeps theirs together"


def _is_id_name(name: str) -> bool:
    return bool(_CAMEL.fullmatch(name) or _NAMES.fullmatch(name))
