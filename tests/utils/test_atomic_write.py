"""Atomic writes: killed writers leave nothing behind, and errors name the file that was to be written."""

import errno
import os
import signal
import subprocess
import sys
import tempfile

import pytest

from usnrt.utils import atomic_write as module
from usnrt.utils.atomic_write import atomic_write


def has_unnamed_files():
    try:
        os.close(os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_RDWR))
    except (AttributeError, OSError):
        return False
    return True


needs_unnamed_files = pytest.mark.skipif(not has_unnamed_files(), reason="the file system has no files without a name")

KILLED = """
import sys, time
from usnrt.utils.atomic_write import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half of it")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


@needs_unnamed_files
def test_a_killed_writer_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "model.usnrt"
    path.write_text("old")
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["model.usnrt"]


KILLED_LATE = """
import os, signal, sys
from usnrt.utils.atomic_write import atomic_write
os.replace = os.chmod = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
with atomic_write(sys.argv[1]) as file:
    file.write(b"all of it")
"""


@needs_unnamed_files
def test_a_new_file_never_has_a_temporary_name(tmp_path):
    """A process killed between naming and renaming would leave it behind."""
    path = tmp_path / "model.usnrt"
    subprocess.run([sys.executable, "-c", KILLED_LATE, str(path)])
    assert os.listdir(tmp_path) == ["model.usnrt"]
    assert path.read_bytes() == b"all of it"


@pytest.mark.parametrize("unnamed", [True, False])
def test_an_error_names_the_file_and_leaves_the_old_one(tmp_path, monkeypatch, unnamed):
    path = tmp_path / "model.usnrt"
    path.write_text("old")
    if not unnamed:  # a file system without files that have no name
        monkeypatch.setattr(module, "_O_TMPFILE", None)

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(OSError, match=r"No space left on device: '.*/model\.usnrt'$") as caught,
        atomic_write(path) as file,
    ):
        file.write(b"new")
    assert caught.value.errno == errno.ENOSPC
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["model.usnrt"]


@pytest.mark.parametrize("unnamed", [True, False])
def test_a_folder_that_does_not_exist_is_named_by_the_file(tmp_path, monkeypatch, unnamed):
    if not unnamed:
        monkeypatch.setattr(module, "_O_TMPFILE", None)
    path = tmp_path / "absent" / "model.usnrt"
    with pytest.raises(FileNotFoundError) as caught, atomic_write(path):
        pass
    assert caught.value.filename == str(path)


def test_errors_about_other_files_keep_their_names(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, atomic_write(tmp_path / "copy"):
        (tmp_path / "original").read_bytes()
    assert caught.value.filename == str(tmp_path / "original")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("unnamed", [True, False])
def test_a_file_of_its_permissions_is_replaced(tmp_path, monkeypatch, unnamed):
    if not unnamed:
        monkeypatch.setattr(module, "_O_TMPFILE", None)
    path = tmp_path / "model.usnrt"
    for content in (b"first", b"second"):
        with atomic_write(path) as file:
            file.write(content)
            path.exists() and path.chmod(0o604)
        assert path.read_bytes() == content
    assert path.stat().st_mode & 0o777 == 0o604
    assert os.listdir(tmp_path) == ["model.usnrt"]
