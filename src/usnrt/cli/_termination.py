"""SIGTERM, as from ``kill`` or a scheduler, ends a command like Ctrl-C: temporary files are removed."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TERMINATED = 128 + signal.SIGTERM


@contextmanager
def termination_as_interrupt() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt in the block if the process receives SIGTERM.

    Yields
    ------
    list of int
        The signals received.

    Examples
    --------
    >>> import signal
    >>> from usnrt.cli._termination import termination_as_interrupt
    >>> try:
    ...     with termination_as_interrupt() as received:
    ...         signal.raise_signal(signal.SIGTERM)
    ... except KeyboardInterrupt:
    ...     len(received)
    1
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # which alone may handle signals
        yield received
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, before)
