"""Atomic file writes."""

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NoReturn

# Linux: opens a file without a name, which vanishes if its writer is killed. None elsewhere.
_O_TMPFILE: int | None = getattr(os, "O_TMPFILE", None)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only once it is complete and on disk.

    Data is written to a temporary file in the same folder. When the block succeeds, that file is renamed atomically and
    replaces an existing file; when it fails or is interrupted, the temporary file is removed and an existing file is
    untouched. Where the file system allows it, the temporary file has no name until it is complete, so that even a
    process that is killed leaves nothing behind (but a complete file of a temporary name, if it is killed in the very
    moment of replacing an existing file). Devices and pipes, such as ``/dev/stdout``, are written directly. An OSError
    has the path as its ``filename``.
    """
    target = Path(os.path.realpath(path))  # replace the target of a symbolic link, not the link
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)} is a directory, not a file to write")
    part = target.with_name(f".{target.name[:50]}.{secrets.token_hex(6)}.part")
    try:
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            with open(target, "wb") as device:
                yield device
            return
        with _removed_on_failure(part):
            with _temporary(part) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                name = _give_name(file, target, part)
            if name == part:
                os.replace(part, target)
    except OSError as error:
        _raise_with_path(error, path, part)
    _sync_folder(target.parent)


@contextmanager
def _removed_on_failure(part: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def _temporary(part: Path) -> BinaryIO:
    """A new file to write, without a name if possible, else of this name."""
    descriptor = _unnamed(part.parent)
    if descriptor is None:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    return os.fdopen(descriptor, "w+b")


def _unnamed(folder: Path) -> int | None:
    """Descriptor of a new file without a name; None if the file system has no such files."""
    if _O_TMPFILE is None or not os.path.isdir("/proc/self/fd"):
        return None
    with suppress(OSError):
        return os.open(folder, _O_TMPFILE | os.O_RDWR, 0o600)
    return None


def _give_name(file: BinaryIO, target: Path, part: Path) -> Path:
    """Give a complete file its permissions, and the name of the target if that is free; returns the name it has now."""
    permissions = _permissions(target)
    if os.fstat(file.fileno()).st_nlink == 0:
        os.fchmod(file.fileno(), permissions)
        for name in (target, part):
            with suppress(OSError):  # the name is taken, or refused by the file system or the rules of a container
                _link(file, name)
                return name
        file.seek(0)
        with open(part, "xb") as copy:
            shutil.copyfileobj(file, copy)
            copy.flush()
            os.fsync(copy.fileno())
    os.chmod(part, permissions)
    return part


def _link(file: BinaryIO, name: Path) -> None:
    folder = os.open(name.parent, os.O_RDONLY)
    try:
        # With a descriptor of a folder Python calls linkat, which follows the link in /proc.
        os.link(f"/proc/self/fd/{file.fileno()}", name, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _raise_with_path(error: OSError, path: str | os.PathLike[str], part: Path) -> NoReturn:
    """Raise an error with the name of the file that was to be written, unless it is about another file."""
    if error.errno is None or error.filename not in (None, str(part), part, str(part.parent)):
        raise error
    raise OSError(error.errno, error.strerror, os.fspath(path)) from None


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
