"""Files to read and write, where ``-`` is standard input or output."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import BinaryIO

from usnrt.cli._errors import UserError
from usnrt.utils.atomic_write import atomic_write


def is_standard(path: Path | None) -> bool:
    """Whether a path stands for standard input or output."""
    return path is not None and str(path) == "-"


def shown(path: Path) -> str:
    """The name of an input in messages."""
    return "standard input" if is_standard(path) else str(path)


def read_standard_input() -> bytes:
    """All bytes of standard input."""
    stream = sys.stdin
    if stream is None or stream.isatty():
        raise UserError("- is standard input, but nothing is piped into it")
    data = bytes(stream.buffer.read())
    if not data:
        raise UserError("standard input is empty")
    return data


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
