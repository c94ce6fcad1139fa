"""Folders for temporary files and their locks, and the folder of the cache."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from usnrt.nn.device import programs_folder
from usnrt.utils.folders import cache_folder, scratch_folder


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


SCRATCHING = """
import sys, time
from usnrt.utils.folders import scratch_folder
with scratch_folder(sys.argv[1]) as folder:
    (folder / "rows-0000").write_bytes(b"rows")
    print("writing", flush=True)
    time.sleep(60)
"""
# the command with a long fit that writes scratch files
COMMAND = """
import sys
import usnrt.cli._run
from usnrt.cli import main
def run(arguments):
    try:
        exec(sys.argv.pop())
    except KeyboardInterrupt:
        return 130
usnrt.cli._run.run = run
sys.exit(main())
"""


def started(*arguments):
    process = subprocess.Popen([sys.executable, "-c", *map(str, arguments)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    return process


def end(process, number):
    process.send_signal(number)
    process.communicate(timeout=30)
    return process.returncode


def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path):
    for number in (signal.SIGKILL, signal.SIGTERM):
        end(started(SCRATCHING, tmp_path), number)
        assert len(os.listdir(tmp_path)) == 1
        with scratch_folder(tmp_path) as folder:
            assert os.listdir(tmp_path) == [folder.name]
        assert os.listdir(tmp_path) == []


def test_the_folder_of_a_running_process_is_left_alone(tmp_path):
    process = started(SCRATCHING, tmp_path)
    try:
        (other,) = tmp_path.iterdir()
        with scratch_folder(tmp_path) as folder, scratch_folder(tmp_path) as inner:
            assert sorted(tmp_path.iterdir()) == sorted([other, folder, inner])
        assert (other / "rows-0000").exists()
    finally:
        end(process, signal.SIGKILL)


@pytest.mark.parametrize(
    "lock",
    [None, b"", b"not json", b"[]", json.dumps({"pid": 1, "host": "another-host"}).encode()],
)
def test_folders_of_others_are_left_alone(tmp_path, lock):
    """Without a lock file, with one that is being written, and of another machine that shares the disk."""
    other = tmp_path / "usnrt-abcdefgh"
    other.mkdir()
    if lock is not None:
        (other / "scratch.lock").write_bytes(lock)
    (tmp_path / "usnrt-file").touch()
    with scratch_folder(tmp_path):
        pass
    assert sorted(os.listdir(tmp_path)) == ["usnrt-abcdefgh", "usnrt-file"]
    assert lock is None or (other / "scratch.lock").read_bytes() == lock


def test_the_command_removes_its_folder_when_it_is_terminated(tmp_path):
    process = started(COMMAND, "fit", SCRATCHING.replace("sys.argv[1]", repr(str(tmp_path))))
    assert end(process, signal.SIGTERM) == 143
    assert os.listdir(tmp_path) == []
