"""A lock on a folder that ends with the process that holds it."""

import json
import os
import socket
from contextlib import suppress
from pathlib import Path

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

    Parameters
    ----------
    path : Path
        The lock file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from usnrt.utils.folder_lock import FolderLock
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
    >>> import tempfile
    >>> from pathlib import Path
    >>> from usnrt.utils.folder_lock import FolderLock, is_abandoned
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
