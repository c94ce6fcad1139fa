"""Files of checkpoints: entries with a checksum, and a manifest."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from usnrt.utils.atomic_write import atomic_write
from usnrt.utils.codec import Arrays

FORMAT, FORMAT_VERSION = "usnrt-checkpoint", 2
MANIFEST, LOCK, SUFFIX = "checkpoint.json", "checkpoint.lock", ".entry.safetensors"
# Between the parts of the name of an entry; no part contains it, and names end with `SUFFIX`, which does not start so.
SEPARATOR = "_"
ADVICE = "use another folder or delete this one"
# Longer parts of a file name are shortened by a hash: names of nodes grow with every step down the tree.
MAX_PART = 80


class CheckpointError(ValueError):
    """A checkpoint cannot be used; the message is one sentence."""


def entry_bytes(entry: str, arrays: Arrays, state: Any) -> bytes:
    """The content of the file of an entry: safetensors, with JSON and the checksum in its header.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.utils.checkpoint_files import entry_bytes, parsed
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


def reason(error: OSError) -> str:
    """For example "no space left on device"."""
    text = error.strerror or str(error) or type(error).__name__
    return text[0].lower() + text[1:]
