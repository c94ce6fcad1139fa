"""A folder of records, one per cell, that is safe against killed processes, full disks and concurrent runners.

A record is ``cells/DATA/RECIPE/SEED.json`` (facts and metrics, with a checksum) and ``SEED.npz`` (per-row predictions,
whose checksum is in the JSON). Both are written to a temporary file, flushed to disk and renamed, the JSON last: it
exists only if the record is complete. The npz may be absent, as in a clone of the results without predictions.

A running cell has a ``SEED.claim`` file that its runner touches regularly. A claim whose runner is dead, or has not
touched it for long, is taken over.
"""

import errno
import hashlib
import io
import json
import math
import os
import socket
import time
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from usnrt.utils.atomic_write import atomic_write
from usnrt.utils.result_table import json_value
from usnrt_experiments.cells import Arrays
from usnrt_experiments.grid import Cell

FORMAT = 1
# Predictions are hundreds of megabytes; a repository keeps facts and metrics only.
_GITIGNORE = "*.npz\n*.claim\n*.part\nstore.lock\n"


@dataclass(frozen=True)
class Record:
    """The record of a cell.

    Attributes
    ----------
    cell : Cell
    status : {"done", "failed"}
    meta : dict
        Facts and metrics of a done cell; ``error`` of a failed one.
    """

    cell: Cell
    status: str
    meta: dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """The exclusive right to run a cell."""

    cell: Cell
    token: str


class DamagedRecord(ValueError):
    """A record that does not match its checksum."""


class Store:
    """Durable records of cells below one folder.

    Parameters
    ----------
    root : path
        Created if it does not exist.
    stale_after : float, default=120
        Seconds without a touch after which a claim is taken over.

    Examples
    --------
    >>> import tempfile
    >>> from usnrt_experiments import Cell, Store
    >>> store = Store(tempfile.mkdtemp())
    >>> cell = Cell("electrical", "hnn", 42)
    >>> claim = store.claim(cell)
    >>> store.claim(cell) is None  # it is running
    True
    >>> store.finish(claim, {"metrics": {"ece": 1.5}}, {})
    True
    >>> store.status(cell)
    'done'
    """

    def __init__(self, root: str | Path, stale_after: float = 120.0) -> None:
        self.root = Path(root)
        self.stale_after = stale_after
        self._open()

    def _open(self) -> None:
        marker = self.root / "store.json"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if not marker.exists():
                _write_durably(self.root / ".gitignore", _GITIGNORE.encode())
                _write_durably(marker, json.dumps({"format": FORMAT}).encode())
            found = json.loads(marker.read_text()).get("format")
        except (OSError, ValueError, AttributeError) as error:
            raise ValueError(f"store must be a folder of records, got {self.root}: {error}") from error
        if found != FORMAT:
            raise ValueError(f"store must have format {FORMAT}, got format {found} in {self.root}")
        for leftover in self.root.rglob(".*.part"):
            if _seconds_since_touch(leftover) > self.stale_after:
                leftover.unlink(missing_ok=True)

    # -- reading ------------------------------------------------------------------------------------------------

    def status(self, cell: Cell) -> str:
        """``"done"``, ``"failed"``, ``"damaged"``, ``"running"`` or ``"missing"``."""
        try:
            return self.read(cell).status
        except DamagedRecord:
            return "damaged"
        except KeyError:
            return "running" if self._holder(cell) else "missing"

    def read(self, cell: Cell) -> Record:
        """The record of a cell; raises KeyError if there is none, `DamagedRecord` if it is damaged."""
        path = self._path(cell, ".json")
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise KeyError(f"no record of {cell} in {self.root}") from None
        return self._parse(path, content)

    def _parse(self, path: Path, content: bytes) -> Record:
        try:
            body = json.loads(content)
            if body.pop("sha256") != _digest(_canonical(body)):
                raise ValueError("checksum mismatch")
            cell = Cell(**body.pop("cell"))
            status = body.pop("status")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedRecord(f"record {path} is damaged ({error}) and will be run again") from error
        predictions = path.with_suffix(".npz")
        if predictions.exists() and _digest(predictions.read_bytes()) != body.get("npz_sha256"):
            raise DamagedRecord(f"predictions {predictions} are damaged (checksum mismatch) and will be run again")
        return Record(cell, status, body)

    def predictions(self, cell: Cell) -> Arrays:
        """Per-row predictions of a done cell."""
        self.read(cell)
        path = self._path(cell, ".npz")
        if not path.exists():
            raise KeyError(f"no per-row predictions of {cell} in {self.root}: run the cell again")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}

    def records(self) -> Iterator[Record]:
        """All undamaged records, ordered by path."""
        for path in sorted((self.root / "cells").glob("*/*/*.json")):
            try:
                yield self._parse(path, path.read_bytes())
            except (DamagedRecord, FileNotFoundError):
                continue

    def part(self, name: str) -> "Store | None":
        """The store in a folder of this one, such as ``"small"``; None if there is none."""
        folder = self.root / name
        return Store(folder, self.stale_after) if (folder / "store.json").is_file() else None

    # -- working ------------------------------------------------------------------------------------------------

    def claim(self, cell: Cell, retry: bool = False) -> Claim | None:
        """Claim a cell; None if it is done, failed (unless ``retry``) or running elsewhere."""
        with self._mutex():
            status = self.status(cell)
            if status in ("done", "running") or (status == "failed" and not retry):
                if status != "running" and not self._holder(cell):  # killed between its record and its claim
                    self._path(cell, ".claim").unlink(missing_ok=True)
                return None
            if status in ("failed", "damaged") and self._holder(cell):
                return None
            claim = Claim(cell, uuid.uuid4().hex)
            owner = {"token": claim.token, "pid": os.getpid(), "host": socket.gethostname()}
            _write_durably(self._path(cell, ".claim"), json.dumps(owner).encode())
        return claim

    def touch(self, claim: Claim) -> None:
        """Record that the claim's runner is alive."""
        if self._owns(claim):
            os.utime(self._path(claim.cell, ".claim"))

    def release(self, claim: Claim) -> None:
        """Release a claim without a record."""
        with self._mutex():
            if self._owns(claim):
                self._path(claim.cell, ".claim").unlink(missing_ok=True)

    def forget(self, cell: Cell) -> bool:
        """Remove a cell's record, so that it is run again; False if it is running or has none."""
        with self._mutex():
            if self._holder(cell) or not self._path(cell, ".json").exists():
                return False
            self._path(cell, ".json").unlink()
            self._path(cell, ".npz").unlink(missing_ok=True)
        return True

    def amend(self, cell: Cell, **facts: Any) -> bool:
        """Change facts of a record, keeping its predictions; False if nothing changes, it is running or missing."""
        with self._mutex():
            try:
                now = self.read(cell)
            except (KeyError, DamagedRecord):
                return False
            body = {**now.meta, **json_value(facts, nonfinite="text")}
            if body == now.meta or self._holder(cell):
                return False
            self._write_json(cell, {**body, "status": now.status})
        return True

    def finish(self, claim: Claim, meta: dict[str, Any], arrays: Arrays) -> bool:
        """Write the record of a done cell; False, and nothing is written, if the claim was taken over."""
        return self._write(claim, {**meta, "status": "done"}, arrays)

    def fail(self, claim: Claim, error: str) -> bool:
        """Record that a cell failed, with the error."""
        return self._write(claim, {"error": error, "status": "failed"}, {})

    def _write(self, claim: Claim, body: dict[str, Any], arrays: Arrays) -> bool:
        cell = claim.cell
        npz = _compressed(arrays) if arrays else None
        body = {**body, "npz_sha256": _digest(npz) if npz else None}
        with self._mutex():
            if not self._owns(claim):
                return False
            # An older JSON does not match the new predictions: it is removed first, so that no mixed record exists.
            self._path(cell, ".json").unlink(missing_ok=True)
            self._path(cell, ".npz").unlink(missing_ok=True)
            if npz is not None:
                _write_durably(self._path(cell, ".npz"), npz)
            self._write_json(cell, body)
            self._path(cell, ".claim").unlink(missing_ok=True)
        return True

    def _write_json(self, cell: Cell, body: dict[str, Any]) -> None:
        body = json_value({**body, "cell": vars(cell)}, nonfinite="text")  # read back by float()
        body["sha256"] = _digest(_canonical(body))
        _write_durably(self._path(cell, ".json"), _canonical(body, indent=1))

    # -- claims -------------------------------------------------------------------------------------------------

    def _owns(self, claim: Claim) -> bool:
        return self._owner(claim.cell).get("token") == claim.token

    def _owner(self, cell: Cell) -> dict[str, Any]:
        try:
            owner = json.loads(self._path(cell, ".claim").read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return owner if isinstance(owner, dict) else {}

    def _holder(self, cell: Cell) -> dict[str, Any]:
        """The live runner of a cell; empty if there is none."""
        owner = self._owner(cell)
        same_host = owner.get("host") == socket.gethostname()
        dead = same_host and not _is_alive(owner.get("pid"))
        return {} if dead or _seconds_since_touch(self._path(cell, ".claim")) > self.stale_after else owner

    @contextmanager
    def _mutex(self) -> Iterator[None]:
        """One process at a time may change claims; the kernel releases the lock of a killed process."""
        import fcntl

        with open(self.root / "store.lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _path(self, cell: Cell, ending: str) -> Path:
        return self.root / "cells" / f"{cell.path}{ending}"


def _seconds_since_touch(path: Path) -> float:
    """Seconds since a file was last touched; infinite if it does not exist."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return math.inf


def _is_alive(pid: object) -> bool:
    if not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _canonical(body: dict[str, Any], indent: int | None = None) -> bytes:
    return json.dumps(body, sort_keys=True, indent=indent).encode()


def _compressed(arrays: Arrays) -> bytes:
    """The arrays as npz with fixed dates, so that equal predictions give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in sorted(arrays.items()):
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, content.getvalue())
    return buffer.getvalue()


def _write_durably(path: Path, content: bytes) -> None:
    """Write atomically, also in case of a system crash."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(content)
    except OSError as error:
        number = error.errno if error.errno is not None else errno.EIO
        reason = error.strerror or str(error)
        raise OSError(number, f"cannot write {path}: {reason}; earlier records are unchanged") from error
