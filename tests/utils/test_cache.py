from pathlib import Path

import pytest

from usnrt.nn.jax_process import programs_folder
from usnrt.utils.cache import cache_folder


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in ("USNRT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_the_folder_can_be_named(monkeypatch, tmp_path):
    monkeypatch.setenv("USNRT_CACHE", str(tmp_path))
    assert cache_folder() == programs_folder() == tmp_path


def test_the_default_is_the_cache_folder_of_the_system(monkeypatch, tmp_path):
    assert cache_folder() == Path.home() / ".cache" / "usnrt"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == programs_folder() == tmp_path / "usnrt"


def test_off_does_not_concern_downloads(monkeypatch, tmp_path):
    monkeypatch.setenv("USNRT_CACHE", "off")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert programs_folder() is None
    assert cache_folder() == tmp_path / "usnrt"
