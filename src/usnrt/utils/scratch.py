"""Folders for temporary files, which are removed in all cases, and sentences about disks that are full.

A process that is killed cannot remove its folder. The folder has a lock file whose lock ends with the process, so that
the next process that makes a folder in the same place can tell, and removes it.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from usnrt.utils.folder_lock import FolderLock, FolderLocked, is_abandoned

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_PREFIX, _LOCK = "usnrt-", "scratch.lock"


@contextmanager
def scratch_folder(parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """A new folder for temporary files; it is removed with its files when the block ends, fails or is interrupted.

    Folders in the same place that killed processes of this machine left behind are removed too.

    Parameters
    ----------
    parent : path-like, default=None
        Where to make it; None for the folder of the system (``TMPDIR``).

    Yields
    ------
    Path

    Examples
    --------
    >>> from usnrt.utils.scratch import scratch_folder
    >>> try:
    ...     with scratch_folder() as folder:
    ...         _ = (folder / "rows").write_bytes(b"...")
    ...         raise KeyboardInterrupt
    ... except KeyboardInterrupt:
    ...     folder.exists()
    False
    """
    place = Path(tempfile.gettempdir() if parent is None else parent)
    _remove_abandoned(place)
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    except OSError as error:
        raise OSError(f"the scratch folder {place} cannot be written: {_reason(error)}") from None
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
    >>> from pathlib import Path
    >>> from usnrt.utils.scratch import check_space
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
    >>> from usnrt.utils.scratch import size_text
    >>> size_text(1_500), size_text(9_600_000), size_text(2_345_000_000)
    ('2 kB', '10 MB', '2.3 GB')
    """
    if n_bytes >= 1e9:
        return f"{n_bytes / 1e9:.1f} GB"
    return f"{n_bytes / 1e6:.0f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.0f} kB"


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
