"""The folder of the cache, and folders for temporary files, which are removed in all cases.

A process that is killed cannot remove its folder. The folder has a lock file whose lock ends with the process, so that
the next process that makes a folder in the same place can tell, and removes it.
"""

import errno
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OFF = "off"


def cache_folder() -> Path:
    """``USNRT_CACHE``, or the system's cache folder if that is not set, or ``off`` (see `is_cache_off`)."""
    setting = os.environ.get("USNRT_CACHE", "")
    if setting and setting != OFF:
        return Path(setting)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "usnrt"


def is_cache_off() -> bool:
    """Whether ``USNRT_CACHE=off``: no compiled programs are kept."""
    return os.environ.get("USNRT_CACHE") == OFF


try:
    import fcntl
except ImportError:  # Windows; there a folder is not locked
    fcntl = None  # type: ignore[assignment]


class FolderLocked(Exception):
    """Another process holds the lock; the message names it."""


class FolderLock:
    """A lock file with the number of the process that holds it.

    The operating system releases the lock when the process ends, however it ends, so a lock file that was left behind
    is taken over.

    Examples
    --------
    >>> path = Path(tempfile.mkdtemp()) / "lock"
    >>> lock = FolderLock(path)
    >>> path.exists()
    True
    >>> lock.release()
    >>> path.exists()
    False
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = self._acquired()
        os.truncate(self._descriptor, 0)
        with suppress(OSError):  # on a full disk the file stays empty; the lock is none the weaker
            os.write(self._descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())

    def _acquired(self) -> int:
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                if fcntl is not None:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_current(descriptor):
                    return descriptor
            except OSError:
                holder = _holder(descriptor)
                os.close(descriptor)
                raise FolderLocked(holder) from None
            os.close(descriptor)  # its last holder has removed the file in the meantime

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Remove the lock file."""
        with suppress(OSError):
            os.unlink(self.path)
        os.close(self._descriptor)


def is_abandoned(path: Path) -> bool:
    """Whether a lock file was left behind by a process of this user and machine that has ended.

    False if that cannot be known: for lock files of other machines, which may share the disk, and where files cannot be
    locked.

    Examples
    --------
    >>> path = Path(tempfile.mkdtemp()) / "lock"
    >>> lock = FolderLock(path)
    >>> is_abandoned(path)
    False
    """
    if fcntl is None:
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return bool(json.loads(os.pread(descriptor, 1000, 0))["host"] == socket.gethostname())
    except (OSError, ValueError, TypeError, KeyError):  # it is held, or being written, or not one of ours
        return False
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    """For example "process 4711 on host"."""
    try:
        known = json.loads(os.pread(descriptor, 1000, 0))
        return f"process {int(known['pid'])} on {known['host']}"
    except (ValueError, TypeError, KeyError, OSError):
        return "another process"


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_PREFIX, _LOCK = "usnrt-", "scratch.lock"


@contextmanager
def scratch_folder(parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """A new folder for temporary files, by default in the folder of the system (``TMPDIR``).

    It is removed with its files when the block ends, fails or is interrupted. Folders in the same place that killed
    processes of this machine left behind are removed too.
    """
    place = Path(tempfile.gettempdir() if parent is None else parent)
    _remove_abandoned(place)
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    except OSError as error:
        raise OSError(f"the scratch folder {place} cannot be written: {reason(error)}") from None
    lock = _locked(folder)
    try:
        yield folder
    except OSError as error:
        if error.errno in _FULL:
            raise OSError(f"the disk of the scratch folder {place} is full; scratch= names another folder") from None
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            lock.release()


def _locked(folder: Path) -> FolderLock | None:
    """A lock on a new folder; None where files cannot be locked, and then nobody will remove the folder."""
    if os.name == "nt":  # an open file would keep the folder from being removed
        return None
    try:
        return FolderLock(folder / _LOCK)
    except (FolderLocked, OSError):
        return None


def _remove_abandoned(place: Path) -> None:
    """Remove the scratch folders of processes that were killed."""
    for lock in place.glob(f"{_PREFIX}*/{_LOCK}"):
        if is_abandoned(lock):
            shutil.rmtree(lock.parent, ignore_errors=True)


def check_space(folder: Path, n_bytes: int) -> None:
    """Raise an OSError if the disk of a folder has less free space than will be needed.

    Examples
    --------
    >>> check_space(Path("."), 0)
    """
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise OSError(
            f"the table needs {size_text(n_bytes)} of scratch space, but the disk of {folder.parent} has "
            f"{size_text(free)} free; scratch= names another folder"
        )


def size_text(n_bytes: int) -> str:
    """A number of bytes in words.

    Examples
    --------
    >>> size_text(1_500), size_text(9_600_000), size_text(2_345_000_000)
    ('2 kB', '10 MB', '2.3 GB')
    """
    if n_bytes >= 1e9:
        return f"{n_bytes / 1e9:.1f} GB"
    return f"{n_bytes / 1e6:.0f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.0f} kB"


def reason(error: OSError) -> str:
    """For example "no space left on device"."""
    text = error.strerror or str(error) or type(error).__name__
    return text[0].lower() + text[1:]
