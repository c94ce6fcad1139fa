"""The five data sets whose files are not at hand: generated files of the same layout, from the archive to a cell."""

import dataclasses
import io
import zipfile

import numpy as np
import pandas as pd
import pytest

from usnrt.bench.cells import run_cell
from usnrt.bench.grid import Cell, load_table
from usnrt.datasets import available_datasets, fetch
from usnrt.datasets.specs import SPECS
from usnrt.utils.notices import UnverifiedFileWarning

pytestmark = pytest.mark.filterwarnings(f"ignore::{UnverifiedFileWarning.__module__}.{UnverifiedFileWarning.__name__}")
ONLINE_COLUMNS = [
    "id", "duration", "codec", "width", "height", "bitrate", "framerate", "i", "p", "b", "frames", "i_size", "p_size",
    "b_size", "size", "o_codec", "o_bitrate", "o_framerate", "o_width", "o_height", "umem", "utime",
]  # fmt: skip
CODECS = ("mpeg4", "h264", "vp8", "flv")


def csv_bytes(frame, **options):
    return frame.to_csv(index=False, lineterminator="\r\n", **options).encode()


def nested(*names_and_contents):
    """A zip archive of these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in names_and_contents:
            archive.writestr(name, content)
    return buffer.getvalue()


def online(n, rng):
    frame = pd.DataFrame({name: rng.integers(1, 1000, n) for name in ONLINE_COLUMNS})
    frame["id"] = [f"04t6-{k:06d}" for k in range(n)]
    frame["codec"], frame["o_codec"] = rng.choice(CODECS, n), rng.choice(CODECS, n)
    frame["duration"], frame["b_size"] = rng.uniform(10, 900, n).round(5), 0
    frame["utime"] = (frame["o_width"] / 100 + rng.exponential(1, n)).round(3)
    file = csv_bytes(frame, sep="\t")
    return nested(
        ("readme.txt", b"-"), ("youtube_videos.tsv", b"a\tb\r\n1\t2\r\n"), ("transcoding_mesurment.tsv", file)
    )


def facebook2(n, rng):
    frame = pd.DataFrame(rng.integers(0, 50, (n, 54)))
    frame[37] = 0
    training = nested(
        ("Dataset/Training/Features_Variant_1.csv", b"1,2\r\n"),
        ("Dataset/Training/Features_Variant_2.csv", csv_bytes(frame, header=False)),
    )
    return nested(("Dataset.zip", training), ("__MACOSX/Dataset/Training/Features_Variant_2.csv", b"junk"))


def year(n, rng):
    frame = pd.DataFrame(rng.normal(size=(2 * n, 91)).round(5))
    frame[0] = rng.integers(1922, 2012, 2 * n)
    return nested(("YearPredictionMSD.txt.zip", nested(("YearPredictionMSD.txt", csv_bytes(frame, header=False)))))


def query(n, rng):
    names = ["x", "y", "x_range", "y_range", "count", "sum_", "avg"]
    frame = pd.DataFrame(rng.uniform(1, 9, (n + 7, 7)), columns=names)
    frame.loc[rng.permutation(n + 7)[:7], "avg"] = np.nan  # queries without results
    file = frame.to_csv(lineterminator="\r\n").encode()
    return nested(("Datasets/Range-Queries-Aggregates.csv", file), ("Datasets/Radius-Queries.csv", b"a\r\n"))


def wave(n, rng):
    parts = []
    for place, city in enumerate(("Tasmania", "Sydney", "Perth", "Adelaide")):
        powers = rng.uniform(1e4, 1e5, (n // 4, 16))
        frame = pd.DataFrame(
            np.hstack([rng.uniform(0, 566, (n // 4, 32)) + 1000 * place, powers, powers.sum(1)[:, None]])
        )
        parts.append((f"WECs_DataSet/{city}_Data.csv", csv_bytes(frame.round(4), header=False)))
    return nested(("WECs_DataSet.zip", nested(*parts)))


MAKERS = {"online": online, "facebook2": facebook2, "year": year, "query": query, "wave": wave}


@pytest.fixture(params=list(MAKERS))
def generated(request, tmp_path, monkeypatch):
    """A data set of 400 rows in the folder of USNRT_DATA, as UCI's archive has it; its name."""
    name = request.param
    spec = SPECS[name]
    smaller = dataclasses.replace(spec, n_rows=400, sample=400 if spec.sample else None)
    monkeypatch.setitem(SPECS, name, smaller)
    monkeypatch.setenv("USNRT_DATA", str(tmp_path))
    monkeypatch.setenv("USNRT_CACHE", str(tmp_path / "empty"))
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / f"{name}.zip").write_bytes(MAKERS[name](400, np.random.default_rng(0)))
    load_table.cache_clear()
    yield name
    load_table.cache_clear()


def test_the_archive_gives_the_papers_columns(generated):
    assert available_datasets() == [generated]
    bunch, spec = fetch(generated, download=False), SPECS[generated]
    assert bunch.data.shape == (400, spec.n_features)
    assert bunch.categorical_names == list(spec.categorical)
    assert bunch.target.name == spec.target
    assert not bunch.frame.isna().any().any()
    assert bunch.data[bunch.numeric_names].dtypes.eq("float64").all()
    constant = [column for column in bunch.data if bunch.data[column].nunique() == 1]
    assert constant == []


def test_the_columns_are_in_their_places(generated):
    frame = fetch(generated, download=False).frame
    if generated == "wave":  # the target is the sum of the powers, and cities are in the order of their names
        powers = frame[[f"P{j}" for j in range(1, 17)]].sum(axis=1)
        np.testing.assert_allclose(frame["Powerall"], powers, rtol=1e-6)
        lowest = [frame["X1"].iloc[k * 100 : (k + 1) * 100].min() // 1000 for k in range(4)]
        assert lowest == [3, 2, 1, 0]  # Adelaide, Perth, Sydney, Tasmania
    ranges = {"online": (0, 1000), "facebook2": (0, 49), "year": (1922, 2011), "query": (1, 9), "wave": (1.6e5, 1.6e6)}
    low, high = ranges[generated]
    assert low <= frame[SPECS[generated].target].min() < frame[SPECS[generated].target].max() <= high


def test_a_cell_runs_from_the_archive(generated):
    """What `usnrt bench run` does with the data set, by a model that takes no time."""
    meta, arrays = run_cell(Cell(generated, "constant-normal", 42))
    assert (meta["n_train"], meta["n_test"]) == (320, 80)
    assert meta["n_features"] == SPECS[generated].n_features
    assert np.isfinite(arrays["mean"]).all()


def test_a_file_of_another_number_of_rows_is_refused(generated, tmp_path):
    path = tmp_path / "uci" / f"{generated}.zip"
    path.write_bytes(MAKERS[generated](200 if generated != "year" else 100, np.random.default_rng(0)))
    with pytest.raises(ValueError, match=f"^data set '{generated}' must have 400 rows and .* features, got 200 rows"):
        fetch(generated, download=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["online", "query", "facebook2"])
def test_at_full_size_the_specs_hold(name, tmp_path, monkeypatch):
    monkeypatch.setenv("USNRT_DATA", str(tmp_path))
    (tmp_path / f"{name}.zip").write_bytes(MAKERS[name](SPECS[name].n_rows, np.random.default_rng(0)))
    bunch = fetch(name, download=False)
    assert bunch.data.shape == (SPECS[name].n_rows, SPECS[name].n_features)
