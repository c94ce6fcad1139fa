"""Tables of results go into data frames, pickles and model files."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

from usnrt.utils.codec import PLAIN
from usnrt.utils.result_table import Table

TABLE = Table({"rule": ["x <= 1", "x > 1"], "rows": [3, 4]})


def test_data_frames():
    expected = pd.DataFrame({"rule": ["x <= 1", "x > 1"], "rows": [3, 4]})
    pd.testing.assert_frame_equal(pd.DataFrame(TABLE), expected)
    pd.testing.assert_frame_equal(TABLE.to_frame(), expected)
    assert pl.DataFrame(TABLE).rows() == [("x <= 1", 3), ("x > 1", 4)]
    assert np.asarray(Table({"a": [1, 2], "b": [3, 4]})).tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda table: pickle.loads(pickle.dumps(table))])
def test_copies(again):
    assert type(again(TABLE)) is Table
    assert again(TABLE).rows() == TABLE.rows()


def test_values_of_model_files():
    assert PLAIN.decode(*PLAIN.encode(TABLE)).rows() == TABLE.rows()


def test_lengths():
    assert (TABLE.shape, TABLE.columns, Table({}).shape) == ((2, 2), ["rule", "rows"], (0, 0))
    with pytest.raises(ValueError, match="^columns must have equal lengths"):
        Table({"a": [1], "b": [1, 2]})
