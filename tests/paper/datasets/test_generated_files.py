"""The five data sets whose files are not at hand: generated files of the same layout."""

import numpy as np
import pytest
from archives import MAKERS, put_archive

from usnrt.paper.datasets import available_datasets, fetch
from usnrt.paper.datasets.specs import SPECS
from usnrt.utils.notices import UnverifiedFileWarning

pytestmark = pytest.mark.filterwarnings(f"ignore::{UnverifiedFileWarning.__module__}.{UnverifiedFileWarning.__name__}")


@pytest.fixture(params=list(MAKERS))
def generated(request, tmp_path, monkeypatch):
    """A data set of 400 rows in the folder of USNRT_DATA, as UCI's archive has it; its name."""
    put_archive(request.param, tmp_path, monkeypatch)
    return request.param


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
