"""Forty awkward files: each gives the table that was meant, the same in one block and in many, or one sentence."""

import importlib.util
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from usnrt.tables.find_source import as_source, whole_table

spec = importlib.util.spec_from_file_location("awkward", Path(__file__).with_name("awkward.py"))
awkward = importlib.util.module_from_spec(spec)
spec.loader.exec_module(awkward)
FILES = awkward.files()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("awkward")
    awkward.write(place)
    return place


@pytest.mark.parametrize("name", [name for name, (_, given) in FILES.items() if not isinstance(given, str)])
@pytest.mark.parametrize("read_bytes", [None, 128])
def test_awkward_tables(name, read_bytes, folder, monkeypatch):
    if read_bytes:
        monkeypatch.setattr("usnrt.tables.csv_files.READ_BYTES", read_bytes)
    given = FILES[name][1]
    ((column, values),) = (given if isinstance(given, dict) else {"a": given}).items()
    table = whole_table(as_source(folder / name, notify=lambda sentence: None))
    assert table.column_names == [column, "b"]
    assert table["b"].to_pylist() == [f"x{i % 3}" for i in range(len(values))]
    kind = table[column].type
    if isinstance(values[0], str):
        found = [None if value is None else str(value) for value in table[column].to_pylist()]
        assert found == values
        assert pa.types.is_timestamp(kind) == values[0].endswith(" 00:00:00")
    else:
        assert pa.types.is_floating(kind) or pa.types.is_integer(kind)
        np.testing.assert_allclose(table[column].to_numpy().astype(float), values)


@pytest.mark.parametrize("name", [name for name, (_, given) in FILES.items() if isinstance(given, str)])
def test_awkward_files_that_are_no_tables(name, folder):
    with pytest.raises(ValueError) as caught:
        whole_table(as_source(folder / name))
    assert name in str(caught.value)
    assert FILES[name][1] in str(caught.value)
    assert "\n" not in str(caught.value)
