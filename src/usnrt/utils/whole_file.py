"""Atomic file writes."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only once it is complete and on disk.

    Data is written to a temporary file in the same folder. When the block succeeds, that file is renamed atomically
    and replaces an existing file; when it fails or is interrupted, the temporary file is removed and an existing file
    is untouched. Devices and pipes, such as ``/dev/stdout``, are written directly.

    Parameters
    ----------
    path : path-like

    Yields
    ------
    binary file

    Examples
    --------
    >>> import os, tempfile
    >>> from usnrt.utils.whole_file import whole_file
    >>> folder = tempfile.mkdtemp()
    >>> try:
    ...     with whole_file(os.path.join(folder, "a.txt")) as file:
    ...         _ = file.write(b"half of")
    ...         raise KeyboardInterrupt
    ... except KeyboardInterrupt:
    ...     os.listdir(folder)
    []
    """
    target = Path(os.path.realpath(path))  # replace the target of a symbolic link, not the link
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)} is a directory, not a file to write")
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        with open(target, "wb") as device:
            yield device
        return
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _permissions(target))
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    _sync_folder(target.parent)


def _permissions(target: Path) -> int:
    """Permissions of the file to be replaced, else the default of the user's umask."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every file system supports it; the file itself is on disk by now
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
