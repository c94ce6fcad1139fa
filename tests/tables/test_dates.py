"""Dates written as text, in Python: formats, ambiguous ones, and what stays text."""

import datetime as dt
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from usnrt.tables import TableEncoder
from usnrt.tables.dates import DateFormat, DateFormatError, compile_format, find_format, parse_dates
from usnrt.utils.notices import AmbiguousDateWarning, IgnoredColumnWarning

DAYS = [dt.datetime(2015, 12, 31), dt.datetime(2016, 2, 1), dt.datetime(1999, 7, 14)]
NOON = [dt.datetime(2015, 12, 31, 23, 59), dt.datetime(2016, 2, 1, 0, 5), dt.datetime(1999, 7, 14, 12, 0)]


@pytest.mark.parametrize(
    "format",
    [
        "%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y", "%m/%d/%y",
        "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%B %d, %Y", "%b %d %Y", "%a, %d %b %Y", "%d%b%Y",
    ],
)  # fmt: skip
def test_dates_without_time(format):
    texts = [f"{day:{format}}" for day in DAYS]
    found = find_format(texts)
    assert not found.ambiguous
    np.testing.assert_array_equal(parse_dates(texts, found.format), np.array(DAYS, dtype="datetime64[us]"))


@pytest.mark.parametrize(
    "format",
    ["%Y%m%dT%H%M%S", "%Y%m%dT%H%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S.%fZ", "%d/%m/%Y %H:%M",
     "%m/%d/%Y %I:%M %p", "%d.%m.%Y, %H:%M", "%Y-%m-%d %H:%M:%S+01:00", "%a, %d %b %Y %H:%M:%S GMT"],
)  # fmt: skip
def test_dates_with_time(format):
    texts = [f"{day:{format}}" for day in NOON]
    np.testing.assert_array_equal(
        parse_dates(texts, find_format(texts).format), np.array(NOON, dtype="datetime64[us]")
    )  # a zone is dropped: dates are wall time


@pytest.mark.parametrize(
    ("texts", "format"),
    [
        (["3. März 2015", "14. Okt 2015"], "%d. %b %Y"),
        (["1 août 2015"], "%d %b %Y"),
        (["Mar 2015", "Dez 2016"], "%b %Y"),
        (["2015-03"], "%Y-%m"),
        (["2015-01-02", "2015-03-04 10:00"], "%Y-%m-%d %H:%M:%S"),  # some without time
        (["20150101", "20150102", "20150103", "20150104", "20150228"], "%Y%m%d"),
        (["01/01/2015", "01/02/2015", "01/12/2015"], "%d/%m/%Y"),  # the first day of every month
        (["01/01/2015", "02/01/2015", "12/01/2015"], "%m/%d/%Y"),
    ],
)
def test_other_formats(texts, format):
    assert find_format(texts) == find_format(texts[::-1]) == DateFormat(format)


@pytest.mark.parametrize(
    "texts",
    [
        ["a", "b"], ["2015"], ["12"], ["1-1"], ["2015-13-01"], ["2015-02-30", "2015-02-28"], ["1200-11"],
        ["10.11.12"],  # a version, a chapter, or a date in one of three orders
        ["20150101", "20150102"],  # two numbers may look like dates by chance
        ["20150101", "20150102", "20150103", "20150104", "20150230"],
        ["2015-12-31", "unknown"], ["31/12/2015", "12/31/2015"], ["x" * 1000 + "1"], [None, None], [],
    ],
)  # fmt: skip
def test_what_is_no_date(texts):
    assert find_format(texts) is None


def test_an_ambiguous_order_is_said_and_can_be_told():
    texts = ["01/02/2015", "03/04/2015", "05/06/2015"]
    assert find_format(texts) == DateFormat("%m/%d/%Y", ambiguous=True)
    assert find_format(texts, "dmy") == DateFormat("%d/%m/%Y")
    assert find_format(texts, "%d/%m/%Y") == DateFormat("%d/%m/%Y")
    assert find_format([*texts, "13/01/2015"], "mdy") == DateFormat("%d/%m/%Y")  # an order that cannot be is ignored
    assert find_format(["01-02-2015"]) == DateFormat("%d-%m-%Y", ambiguous=True)
    assert find_format(["01.02.2015"]) == DateFormat("%d.%m.%Y")  # nobody writes dots month first
    assert find_format(["15-02-01"], "ymd") == DateFormat("%y-%m-%d")


def test_errors():
    with pytest.raises(DateFormatError, match=r"^dates must be written as %d/%m/%Y, got '2015-01-01'$"):
        parse_dates(["31/12/2015", "2015-01-01"], "%d/%m/%Y")
    with pytest.raises(ValueError, match="must have a year"):
        compile_format("%d.%m.")
    with pytest.raises(ValueError, match=re.escape("got '%Q' in '%Y-%Q'")):
        compile_format("%Y-%Q")
    for twice in ("%Y%Y", "%B %b %Y", "%H:%I %Y", "%Y" + "%a" * 8):  # the last one takes seconds for 40 letters
        with pytest.raises(ValueError, match=f"a date format must have each directive once, got '{twice}'"):
            compile_format(twice)


def tables_of(texts):
    return [
        pd.DataFrame({"x0": texts}), pd.DataFrame({"x0": pd.array(texts, dtype="string")}), pl.DataFrame({"x0": texts}),
        pa.table({"x0": texts}), np.array([[t] for t in texts], dtype=object), [[t] for t in texts],
    ]  # fmt: skip


@pytest.mark.parametrize("table", tables_of(["31/12/2015 10:00", None, "01/02/2016 11:30"]))
def test_text_of_every_library_becomes_dates(table):
    encoder = TableEncoder().fit(table)
    assert encoder.source_types_ == ["date"]
    assert encoder.date_formats_ == {"x0": "%d/%m/%Y %H:%M:%S"}
    assert [c.part for c in encoder.columns_] == ["year", "month", "day", "weekday", "hour", "minute"]
    encoded = encoder.transform(table)
    np.testing.assert_array_equal(encoded[:, 2], [31, np.nan, 1])
    # an ambiguous date is read in the order of fit; other formats and real dates are understood as well
    for other in (["02/01/2016"], ["2016-01-02"], ["2 Jan 2016"]):
        for same in tables_of(other):
            assert encoder.transform(same)[0, :3].tolist() == [2016, 1, 2]
    assert encoder.transform(pl.DataFrame({"x0": [dt.date(2016, 1, 2)]}))[0, :3].tolist() == [2016, 1, 2]


def test_a_date_that_is_none_is_refused_with_the_columns_name():
    encoder = TableEncoder().fit(pd.DataFrame({"sold": ["31/12/2015", "01/02/2016"]}))
    message = "column 'sold' must hold dates as in fit (%d/%m/%Y), got 'soon'"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        encoder.transform(pd.DataFrame({"sold": ["31/12/2015", "soon"]}))


def test_categories_stay_categories():
    texts = ["2015-12-31", "2016-02-01"]
    for table in (
        pd.DataFrame({"x0": pd.Categorical(texts)}),
        pl.DataFrame({"x0": pl.Series(texts).cast(pl.Categorical)}),
    ):
        assert TableEncoder().fit(table).source_types_ == ["text"]
    assert TableEncoder().fit(pd.DataFrame({"x0": texts}), categorical_features=["x0"]).source_types_ == ["text"]
    encoder = TableEncoder().fit(pd.DataFrame({"x0": ["2015-12-31", "unknown"]}))
    assert encoder.transform(pd.DataFrame({"x0": texts})).ravel().tolist() == [0, -1]


def test_a_guess_is_a_warning_with_the_columns_name():
    with pytest.warns(AmbiguousDateWarning, match="column 'sold' holds dates such as '01/02/2015', read as %m/%d/%Y"):
        TableEncoder().fit(pd.DataFrame({"sold": ["01/02/2015", "03/04/2015"]}))


def test_text_that_differs_in_every_row_is_ignored_with_warning():
    names = pd.DataFrame({"name": [f"n{i}" for i in range(60)], "x": np.arange(60.0)})
    with pytest.warns(IgnoredColumnWarning, match="^column 'name' is ignored: its text differs in every row"):
        encoder = TableEncoder().fit(names)
    assert encoder.source_types_ == ["empty", "number"]
    assert np.isnan(encoder.transform(names)[:, 0]).all()
    kept = TableEncoder().fit(names, categorical_features=["name"])
    assert kept.source_types_ == ["text", "number"]
    with_missing = names.assign(name=[None, *names["name"][1:]])  # whether it is missing may help
    assert TableEncoder().fit(with_missing).source_types_ == ["text", "number"]
    assert TableEncoder().fit(names[:20]).source_types_ == ["text", "number"]  # few rows may differ by chance
