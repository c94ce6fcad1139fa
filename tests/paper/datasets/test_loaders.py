"""Parsers read exactly the formats UCI publishes; real files give the paper's counts."""

import dataclasses
import os
import random
from math import floor

import numpy as np
import pandas as pd
import pytest

from usnrt.paper.datasets import fetch, get_spec, seeds_for, train_test_rows
from usnrt.paper.datasets.loaders import _bunch, parse

AT_HAND = ["electrical", "conditional", "appliances", "realtime", "industry", "facebook1", "beijing"]
AT_HAND += ["physicochemical", "traffic", "blog", "power", "gpu"]

needs_data = pytest.mark.skipif(not os.environ.get("USNRT_DATA"), reason="USNRT_DATA names no folder")


def csv_line(*values):
    return ",".join(str(value) for value in values) + "\n"


ONLINE = (
    "id\tduration\tcodec\twidth\theight\tbitrate\tframerate\ti\tp\tb\tframes\ti_size\tp_size\tb_size\tsize\t"
    "o_codec\to_bitrate\to_framerate\to_width\to_height\tumem\tutime\n"
    "04t6-jw9czg\t130.35667\tmpeg4\t176\t144\t54590\t12.0\t27\t1537\t0\t1564\t64483\t825054\t0\t889537\t"
    "mpeg4\t56000\t12.0\t176\t144\t22508\t0.612\n"
    "04t6-jw9czg\t130.35667\tmpeg4\t176\t144\t54590\t12.0\t27\t1537\t0\t1564\t64483\t825054\t0\t889537\t"
    "h264\t56000\t12.0\t320\t240\t25164\t0.98\n"
)
FACEBOOK2 = csv_line(634995, 0, 463, *range(3, 53), 7) + csv_line(1, 0.5, 2, *range(3, 53), 0)
YEAR = csv_line(2001, *(j / 8 for j in range(90))) + csv_line(1922, *(-j for j in range(90)))
QUERY = (
    ",x,y,x_range,y_range,count,sum_,avg\n"
    "0,1144949.0,1915270.6,105.1,229.9,10.0,5.0,0.5\n"
    "1,1144950.0,1915271.6,105.2,228.9,0.0,0.0,\n"
    "2,1144951.0,1915272.6,105.3,227.9,2.0,1.0,0.25\n"
)
WAVE = [csv_line(*(j + city for j in range(48)), 1000 + city) for city in range(4)]


def parsed(name, *texts):
    return parse(get_spec(name), [text.encode() for text in texts])


def test_online_has_two_categories_and_no_constant_column():
    frame = parsed("online", ONLINE)
    assert frame.shape == (2, 19)
    assert frame.columns[-1] == "utime"
    assert list(frame["utime"]) == [0.612, 0.98]
    assert list(frame["o_codec"].cat.categories) == ["h264", "mpeg4"]
    assert not {"id", "umem", "b_size"} & set(frame.columns)


def test_facebook2_has_no_header_and_the_target_last():
    frame = parsed("facebook2", FACEBOOK2)
    assert frame.shape == (2, 53)
    assert list(frame["c53"]) == [7.0, 0.0]
    assert "c37" not in frame
    assert list(frame["c38"]) == [38.0, 38.0]


def test_year_comes_first_and_features_after():
    frame = parsed("year", YEAR)
    assert frame.shape == (2, 91)
    assert list(frame["year"]) == [2001.0, 1922.0]
    assert list(frame["timbre_avg2"]) == [0.125, -1.0]
    assert frame.columns[-2] == "timbre_cov78"


def test_year_keeps_the_rows_the_papers_code_draws():
    spec = dataclasses.replace(get_spec("year"), sample=3)
    rows = [csv_line(2000 + i, *([i] * 90)) for i in range(10)]
    frame = parse(spec, ["".join(rows).encode()])
    expected = pd.Series(range(2000, 2010)).sample(n=3, random_state=42)
    assert list(frame["year"]) == list(expected)


def test_query_leaves_out_rows_without_an_average():
    frame = parsed("query", QUERY)
    assert list(frame.columns) == ["x", "y", "x_range", "y_range", "avg"]
    assert list(frame["avg"]) == [0.5, 0.25]


def test_wave_puts_four_cities_below_one_another():
    frame = parsed("wave", *WAVE)
    assert frame.shape == (4, 49)
    assert list(frame["Powerall"]) == [1000.0, 1001.0, 1002.0, 1003.0]
    assert list(frame.columns[[0, 16, 32, 47]]) == ["X1", "Y1", "P1", "P16"]


def test_the_text_none_is_a_holiday():
    text = (
        "holiday,temp,rain_1h,snow_1h,clouds_all,weather_main,weather_description,date_time,traffic_volume\n"
        "None,288.28,0.0,0.0,40,Clouds,scattered clouds,2012-10-02 09:00:00,5545\n"
        "Columbus Day,289.36,0.0,0.0,75,Clouds,broken clouds,2012-10-08 00:00:00,455\n"
    )
    frame = parsed("traffic", text)
    assert list(frame["holiday"]) == ["None", "Columbus Day"]
    assert frame.shape == (2, 7)


def test_the_first_row_of_conditional_is_data():
    line = "   1.1380000e+00" + "".join(f"   {j}.0000000e+00" for j in range(1, 18)) + "\n"
    frame = parsed("conditional", line * 3)
    assert frame.shape == (3, 16)
    assert list(frame["lp"]) == [1.138] * 3
    assert list(frame["kMc"]) == [16.0] * 3
    assert "T1" not in frame
    assert "P1" in frame


def test_bunch_says_what_is_what():
    spec = dataclasses.replace(get_spec("online"), n_rows=2)
    bunch = _bunch(spec, [ONLINE.encode()])
    assert bunch.data.shape == (2, 18)
    assert bunch.target.name == bunch.target_name == "utime"
    assert bunch.categorical_names == ["codec", "o_codec"]
    assert len(bunch.numeric_names) == 16
    assert set(bunch.frame.columns) == {*bunch.feature_names, "utime"}
    assert bunch.DESCR == (
        "Online Video Characteristics and Transcoding Time: 2 rows, 18 features, 2 of them categorical; "
        "target 'utime'. b_size is constant."
    )
    assert bunch.citation == (
        "T. Deneke. Online Video Characteristics and Transcoding Time. UCI Machine Learning Repository, "
        "https://archive.ics.uci.edu/dataset/335."
    )


def test_a_file_with_too_few_rows_is_refused():
    message = (
        "^data set 'online' must have 68784 rows and 18 features, got 2 rows and 18 features; "
        "the file is damaged or another version$"
    )
    with pytest.raises(ValueError, match=message):
        _bunch(get_spec("online"), [ONLINE.encode()])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("query", "a,b\n1,2\n", "must have the columns .'Unnamed: 0', 'avg', 'count', 'sum_'."),
        ("query", "", "the file of data set 'query' must be a table, got No columns to parse from file"),
        ("year", csv_line("x", *range(90)), "must be numeric except .., got could not convert"),
        ("electrical", "\x00\x00", "must have the columns"),
    ],
)
def test_files_that_are_no_such_table_are_refused(name, text, message):
    with pytest.raises(ValueError, match=message):
        parsed(name, text)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"^name must be one of \['electrical', .*\], got 'iris'$"):
        fetch("iris")


def test_splits_are_those_of_the_papers_code():
    for n, seed in [(10, 42), (1003, 142), (57, 442)]:
        random.seed(seed)
        expected = random.sample(range(n), floor(0.8 * n))
        train, test = train_test_rows(n, seed)
        assert list(train) == expected
        assert list(test) == sorted(set(range(n)) - set(expected))


def test_splits_leave_the_global_generator_alone():
    random.seed(7)
    expected = random.random()
    random.seed(7)
    train_test_rows(100, 42)
    assert random.random() == expected


def test_seeds_and_errors_of_splits():
    assert seeds_for(99_999) == (42, 142, 242, 342, 442)
    assert seeds_for(100_000) == (42,)
    with pytest.raises(ValueError, match=r"^n_rows must be at least 2, got 1$"):
        train_test_rows(1, 42)


@pytest.mark.real
@needs_data
@pytest.mark.parametrize("name", AT_HAND)
def test_real_files_give_the_counts_of_their_spec(name):
    bunch = fetch(name, download=False)
    spec = get_spec(name)
    assert bunch.data.shape == (spec.n_rows, spec.n_features)
    assert len(bunch.categorical_names) == len(spec.categorical)
    assert not bunch.frame.isna().any().any()
    constant = [column for column in bunch.data if bunch.data[column].nunique() == 1]
    assert constant == (["P1"] if name == "conditional" else [])
    assert np.isfinite(bunch.target).all()


@pytest.mark.real
@needs_data
def test_no_row_of_traffic_is_lost_to_the_text_none():
    holidays = fetch("traffic", download=False).data["holiday"]
    assert (holidays == "None").sum() == 48_143
