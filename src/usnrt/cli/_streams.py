"""Files to read and write, where ``-`` is standard input or output."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from usnrt.cli._errors import UserError
from usnrt.tables.files import format_of
from usnrt.utils.atomic_write import atomic_write

_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
BLOCK = 1 << 20


def is_standard(path: Path | None) -> bool:
    """Whether a path stands for standard input or output."""
    return path is not None and str(path) == "-"


def shown(path: Path) -> str:
    """The name of an input in messages."""
    return "standard input" if is_standard(path) else str(path)


@dataclass(frozen=True)
class Source:
    """An input that can be read more than once: a file, or all bytes of standard input.

    Attributes
    ----------
    path : Path
    kind : {"csv", "tsv", "parquet"}
    compression : str or None
    data : bytes or None
        Of standard input.
    """

    path: Path
    kind: str
    compression: str | None = None
    data: bytes | None = None

    @property
    def name(self) -> str:
        """Name in messages."""
        return shown(self.path)

    def open(self) -> pa.NativeFile:
        """The uncompressed content."""
        if self.data is None:
            return pa.input_stream(str(self.path), compression=self.compression)
        buffer = pa.BufferReader(self.data)
        return pa.CompressedInputStream(buffer, self.compression) if self.compression else buffer

    def blocks(self) -> Iterator[bytes]:
        """The uncompressed content, block by block."""
        with self.open() as stream:
            while block := stream.read(BLOCK):
                yield block


def source_of(path: Path) -> Source:
    """The input of a path, with checks that it can be read at all."""
    if is_standard(path):
        return _standard_source(path)
    if path.is_dir():
        raise UserError(f"{path} is a directory, not a table")
    kind, compression = format_of(path)
    if not path.exists():
        raise UserError(f"{path} does not exist")
    path.open("rb").close()  # raises PermissionError
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty")
    return Source(path, kind, compression)


def _standard_source(path: Path) -> Source:
    data = read_standard_input()
    compression = next((name for magic, name in _MAGIC.items() if data.startswith(magic)), None)
    source = Source(path, "csv", compression, data)
    try:
        start = next(source.blocks(), b"")
    except OSError as error:
        raise UserError(f"standard input cannot be read: {' '.join(str(error).split())[:300]}") from None
    if not start:
        raise UserError("standard input is empty")
    return Source(path, "parquet" if start.startswith(b"PAR1") else "csv", compression, data)


def read_standard_input() -> bytes:
    """All bytes of standard input."""
    stream = sys.stdin
    if stream is None or stream.isatty():
        raise UserError("- is standard input, but nothing is piped into it")
    return bytes(stream.buffer.read())


def check_one_input(*paths: Path | None) -> None:
    """Refuse two inputs that are both standard input."""
    if sum(is_standard(path) for path in paths) > 1:
        raise UserError("only one input can be standard input (-)")


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears only when it is complete, or standard output."""
    if not is_standard(path):
        with atomic_write(path) as file:
            yield file
        return
    buffer = io.BytesIO()
    yield buffer
    sys.stdout.flush()
    sys.stdout.buffer.write(buffer.getvalue())
    sys.stdout.buffer.flush()


@contextmanager
def messages_to_stderr(*outputs: Path | None) -> Iterator[None]:
    """Print messages to standard error if one of the outputs is standard output."""
    if any(is_standard(path) for path in outputs):
        with redirect_stdout(sys.stderr):
            yield
    else:
        yield
