"""Checkpoints: what a long fit has finished, and the state of what is running, in a folder.

A fit is a sequence of computations that data, parameters and seed determine. Each of them may store its result, or its
state, under a key of its own; a fit that starts again finds them and computes the rest. Any entry may be missing: then
that part is computed again, with the same result. So entries need no order, and a process may be killed between any two
writes.

Entries are values of `usnrt.utils.codec`, in safetensors files with JSON and a checksum in the header, written
atomically.
"""

import hashlib
import json
import os
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from usnrt.utils.atomic_write import atomic_write
from usnrt.utils.codec import PLAIN, Arrays, Codec
from usnrt.utils.folders import FolderLock, FolderLocked, reason

FORMAT, FORMAT_VERSION = "usnrt-checkpoint", 2
MANIFEST, LOCK, SUFFIX = "checkpoint.json", "checkpoint.lock", ".entry.safetensors"
# Between the parts of the name of an entry; no part contains it, and names end with `SUFFIX`, which does not start so.
SEPARATOR = "_"
ADVICE = "use another folder or delete this one"
# Longer parts of a file name are shortened by a hash: names of nodes grow with every step down the tree.
MAX_PART = 80
# Seconds between two saves of the state of a running training.
INTERVAL = 120.0

Shared = Mapping[str, NDArray[Any]]
NOTHING: Shared = MappingProxyType({})


class CheckpointError(ValueError):
    """A checkpoint cannot be used; the message is one sentence."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the fit continues."""


class Checkpoint:
    """No checkpoint: stores nothing. `FolderCheckpoint` has the same methods and stores entries.

    Examples
    --------
    >>> NO_CHECKPOINT.save("epoch", {"number": 3}), NO_CHECKPOINT.load("epoch")
    (False, None)
    """

    def within(self, name: str) -> "Checkpoint":
        """The same checkpoint with keys of its own, e.g. those of a node or of a member of an ensemble."""
        return self

    def load(self, key: str, codec: Codec = PLAIN, shared: Shared = NOTHING) -> Any:
        """The value of an entry, or None if there is none; other parameters as for `save`."""
        return None

    def save(self, key: str, value: Any, codec: Codec = PLAIN, shared: Shared = NOTHING) -> bool:
        """Store an entry, replacing one of the same key; returns whether it was stored. No value is None.

        The codec knows the classes of the objects in the value; ``shared`` as of `usnrt.utils.codec.Codec.encode`.
        """
        return False

    def is_due(self, key: str) -> bool:
        """Whether the last save of an entry, or the start of the fit, was at least ``INTERVAL`` seconds ago."""
        return False

    @property
    def is_active(self) -> bool:
        """Whether entries are stored at all."""
        return False

    def clear(self) -> None:
        """Remove all entries of this checkpoint; of one from `within`, its own only."""

    def fixed(self, name: str, value: Any) -> Any:
        """A JSON value that must not change when the fit starts again, such as a drawn seed: the first one given."""
        return value


NO_CHECKPOINT = Checkpoint()


class FolderCheckpoint(Checkpoint):
    """A checkpoint in a folder, in files whose names start alike; thread-safe. Made by `opened` and `Folder.resume`.

    Copies of it in other processes (it can be pickled) write to the same folder.
    """

    def __init__(self, folder: Path, prefix: str = "", common: "_Common | None" = None) -> None:
        self.folder, self.prefix = folder, prefix
        self._common = _Common() if common is None else common

    def __reduce__(self) -> tuple[type["FolderCheckpoint"], tuple[Path, str]]:
        return FolderCheckpoint, (self.folder, self.prefix)

    @property
    def is_active(self) -> bool:
        """True."""
        return True

    def within(self, name: str) -> "FolderCheckpoint":
        """The same checkpoint with keys of its own."""
        return FolderCheckpoint(self.folder, f"{self.prefix}{file_part(name)}{SEPARATOR}", self._common)

    def load(self, key: str, codec: Codec = PLAIN, shared: Shared = NOTHING) -> Any:
        """The value of an entry, or None if there is none; a damaged one is a `CheckpointError`."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CheckpointError(f"checkpoint file {path} cannot be read: {reason(error)}") from None
        try:
            return codec.decode(*parsed(path.name, data), shared)
        except Exception:  # a damaged file may cause any exception
            raise CheckpointError(
                f"checkpoint file {path} is damaged; delete it, and the fit computes this part again"
            ) from None

    def save(self, key: str, value: Any, codec: Codec = PLAIN, shared: Shared = NOTHING) -> bool:
        """Store an entry; if that fails, the fit continues with one warning, and the previous entry is kept."""
        path = self._path(key)
        data = entry_bytes(path.name, *codec.encode(value, shared))
        with self._common.lock:  # one at a time, and none after the end of the fit
            if self._common.is_closed:
                return False
            self._common.saved_at[path.name] = time.monotonic()
            try:
                with atomic_write(path) as file:
                    file.write(data)
            except OSError as error:
                self._warn(error)
                return False
        return True

    def _warn(self, error: OSError) -> None:
        if not self._common.has_warned:
            self._common.has_warned = True
            warnings.warn(
                f"the checkpoint in {self.folder} could not be written: {reason(error)}; the fit continues, "
                "and a later call would start from what was written before",
                CheckpointWarning,
                stacklevel=2,
            )

    def is_due(self, key: str) -> bool:
        last = self._common.saved_at.get(self._path(key).name, self._common.started_at)
        return time.monotonic() - last >= INTERVAL

    def clear(self) -> None:
        for path in self.folder.iterdir():
            if path.name.startswith(self.prefix) and path.name.endswith(SUFFIX):
                with suppress(OSError):
                    path.unlink()

    def fixed(self, name: str, value: Any) -> Any:
        """The first value given under this name, which is stored with the manifest."""
        manifest = read_manifest(self.folder)
        if name not in manifest["fixed"]:
            manifest["fixed"][name] = value
            write_manifest(self.folder, manifest)
        return manifest["fixed"][name]

    def _path(self, key: str) -> Path:
        return self.folder / f"{self.prefix}{file_part(key)}{SUFFIX}"


class _Common:
    """State that all parts of a checkpoint have in common."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.started_at = time.monotonic()
        self.saved_at: dict[str, float] = {}
        self.has_warned = False
        self.is_closed = False


class Folder:
    """A folder that this process has locked for a fit. Made by `opened`."""

    def __init__(self, given: Path, is_new: bool) -> None:
        self.given, self.is_new = given, is_new
        # the fit may change the working folder, and workers of a cluster have another one
        self.path = given.absolute()
        self._common = _Common()

    def resume(self, identity: Mapping[str, Any]) -> FolderCheckpoint:
        """The checkpoint of a fit; refused if the folder holds that of another one.

        The identity is what determines the fit, JSON values by topic and name: ``{"parameters": {"alpha": 0.01}}``.
        Versions are added.
        """
        wanted = {"versions": _versions(), **json.loads(json.dumps(identity))}
        if (self.path / MANIFEST).exists():
            found = read_manifest(self.path)
            difference = _difference(found["identity"], wanted)
            if difference:
                raise CheckpointError(f"checkpoint {self.given} is of another fit: {difference}; {ADVICE}")
            self.is_new = bool(found["is_new_folder"])
        else:
            write_manifest(self.path, {"identity": wanted, "fixed": {}, "is_new_folder": self.is_new})
        return FolderCheckpoint(self.path, "", self._common)

    def close(self, is_complete: bool) -> None:
        """Remove all files of a complete fit; of another one, those that are of no further use."""
        with self._common.lock:
            self._common.is_closed = True
        has_manifest = (self.path / MANIFEST).exists()
        if is_complete and has_manifest:
            for path in [*self.path.glob(f"*{SUFFIX}"), self.path / MANIFEST]:  # entries are never without a manifest
                with suppress(OSError):
                    path.unlink()
            has_manifest = False
        _remove_partial(self.path)
        if self.is_new and not has_manifest:
            with suppress(OSError):  # there may be files of the user
                if [path.name for path in self.path.iterdir()] == [LOCK]:
                    (self.path / LOCK).unlink()
                    self.path.rmdir()


@contextmanager
def opened(folder: str | os.PathLike[str] | None) -> Iterator[Folder | None]:
    """Lock a folder for a fit, and remove the checkpoint when the fit has succeeded; None for no checkpoint.

    The folder is new, empty or has a checkpoint. If the fit fails, is interrupted or killed, the checkpoint stays.
    """
    if folder is None:
        yield None
        return
    path = _checked_path(folder)
    try:
        is_new = not path.exists()
        path.mkdir(parents=True, exist_ok=True)
        _check_own(path)
        lock = FolderLock(path.absolute() / LOCK)
    except FolderLocked as error:
        raise CheckpointError(f"checkpoint {path} is in use by {error}; wait for it or use another folder") from None
    except OSError as error:
        raise CheckpointError(f"checkpoint {path} cannot be written: {reason(error)}") from None
    own = Folder(path, is_new)
    is_complete = False
    try:
        _remove_partial(path)  # of a process that was killed
        yield own
        is_complete = True
    finally:
        try:
            own.close(is_complete)
        finally:
            lock.release()


def _checked_path(folder: Any) -> Path:
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise TypeError(f"checkpoint must be the path of a folder or None, got {folder!r}")
    path = Path(os.fspath(folder))
    if path.exists() and not path.is_dir():
        raise CheckpointError(f"checkpoint must be a folder, got the file {path}")
    return path


def _check_own(path: Path) -> None:
    """Refuse a folder with other files: they would be in danger, and the user has probably made a mistake."""
    names = [entry.name for entry in path.iterdir()]
    if MANIFEST in names:
        return
    others = sorted(name for name in names if name != LOCK and not name.startswith(f".{MANIFEST}."))
    if others:
        raise CheckpointError(f"checkpoint must be a new or empty folder or one of a fit, got {path} with {others[0]}")


def _remove_partial(path: Path) -> None:
    for leftover in path.glob(".*.part"):
        with suppress(OSError):
            leftover.unlink()


def _versions() -> dict[str, str]:
    """Versions of what determines the bits of a fit."""
    from importlib.metadata import version

    from usnrt._version import __version__

    return {"format": str(FORMAT_VERSION), "usnrt": __version__} | {
        name: version(name) for name in ("jax", "numba", "numpy", "optax", "scikit-learn")
    }


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The first difference in words, or nothing."""
    for topic in dict.fromkeys([*wanted, *found]):
        old, new = found.get(topic, {}), wanted.get(topic, {})
        for name in dict.fromkeys([*new, *old]):
            if old.get(name) != new.get(name):
                return f"it was written with {name}={old.get(name)!r}, got {name}={new.get(name)!r}"
    return ""


# -- files: entries with a checksum, and a manifest -------------------------------------------------------------------


def entry_bytes(entry: str, arrays: Arrays, state: Any) -> bytes:
    """The content of the file of an entry: safetensors, with JSON and the checksum in its header.

    Examples
    --------
    >>> import numpy as np
    >>> parsed("a", entry_bytes("a", {"0": np.ones(1)}, {"epoch": 3}))
    ({'0': array([1.])}, {'epoch': 3})
    """
    from safetensors.numpy import save

    text = json.dumps(state, allow_nan=False)
    return save(arrays, {"state": text, "sha256": _digest(entry, arrays, text)})


def parsed(entry: str, data: bytes) -> tuple[Arrays, Any]:
    """The entry in a file; any exception if it is damaged."""
    from safetensors.numpy import load as from_bytes

    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])["__metadata__"]
    arrays = from_bytes(data)
    if header["sha256"] != _digest(entry, arrays, header["state"]):
        raise ValueError
    return arrays, json.loads(header["state"])


def _digest(entry: str, arrays: Arrays, state: str) -> str:
    """Checksum of an entry, its name and the shapes of its arrays included."""
    digest = hashlib.sha256(json.dumps([entry, state]).encode())
    for name in sorted(arrays):
        digest.update(json.dumps([name, arrays[name].dtype.str, arrays[name].shape]).encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest in a folder."""
    try:
        content = json.loads((path / MANIFEST).read_bytes())
        text = json.dumps(content["manifest"])
        if content["format"] != FORMAT or content["sha256"] != hashlib.sha256(text.encode()).hexdigest():
            raise ValueError
        manifest: dict[str, Any] = content["manifest"]
        return manifest
    except OSError as error:
        raise CheckpointError(f"checkpoint {path} cannot be read: {reason(error)}") from None
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(f"checkpoint {path} is damaged: {MANIFEST} is not valid; {ADVICE}") from None


def write_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest of a folder."""
    digest = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    content = {"format": FORMAT, "sha256": digest, "manifest": manifest}
    try:
        with atomic_write(path / MANIFEST) as file:
            file.write(json.dumps(content, indent=1).encode())
    except OSError as error:
        raise CheckpointError(f"checkpoint {path} cannot be written: {reason(error)}") from None


def file_part(name: str) -> str:
    """A part of a file name; long ones are shortened by their hash."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in name)
    if len(plain) <= MAX_PART:
        return plain
    return f"{plain[: MAX_PART - 17]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
