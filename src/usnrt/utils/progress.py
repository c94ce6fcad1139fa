"""Progress of a fit: events for callbacks, a progress bar on a terminal, lines in a log."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TextIO


@dataclass(frozen=True)
class FitEvent:
    """One epoch of one network.

    Attributes
    ----------
    node : str
        The node of the tree: ``"root"``, or ``"L"`` and ``"R"`` for each step down, e.g. ``"LRL"``. For models without
        a tree, the name of the member.
    n_rows : int
        Rows of the node.
    network : str
        Name of the training, e.g. ``"split"``, ``"mean 1"``, ``"variance 2"``.
    epoch : int
        Counted from 0.
    train_loss, valid_loss : float
    """

    node: str
    n_rows: int
    network: str
    epoch: int
    train_loss: float
    valid_loss: float


# Where the progress of fits is written; None for sys.stderr.
_STREAM: ContextVar[TextIO | None] = ContextVar("_STREAM", default=None)


@contextmanager
def progress_stream(stream: Any) -> Iterator[None]:
    """Write the progress of the fits of this thread to a stream.

    Examples
    --------
    >>> import io
    >>> from usnrt.utils.progress import Progress, progress_stream
    >>> stream = io.StringIO()
    >>> with progress_stream(stream):
    ...     Progress(verbose=1).note("read 10 rows")
    >>> stream.getvalue()
    'read 10 rows\\n'
    """
    token = _STREAM.set(stream)
    try:
        yield
    finally:
        _STREAM.reset(token)


class FitStopped(Exception):
    """Raised inside worker threads to end them early; it never reaches users."""


class Progress:
    """Reports the progress of a fit to callbacks and to a stream; thread-safe.

    Parameters
    ----------
    verbose : int
        0 for silence. 1 for a progress bar and one line per node; without a terminal, the lines only. 2 adds a line
        for every tenth epoch where there is no terminal.
    callbacks : sequence of callables
        Each is called with a `FitEvent` after every epoch. An exception in one ends the fit.
    n_rows : int
        Rows of the whole table; the fit is complete when the finished regions hold as many.
    stream : text stream, default=sys.stderr
    """

    def __init__(
        self,
        verbose: int = 0,
        callbacks: Sequence[Callable[[FitEvent], Any]] | None = None,
        n_rows: int = 0,
        stream: TextIO | None = None,
    ) -> None:
        self.verbose = int(verbose)
        self.callbacks = list(callbacks or [])
        self.n_rows = n_rows
        self.stream = stream or _STREAM.get() or sys.stderr
        self.stop = threading.Event()
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._rows_done = 0
        self._n_regions = 0
        self._width = 0
        self._last_shown = 0.0

    def __reduce__(self) -> tuple[type["Progress"], tuple[Any, ...]]:
        # Workers of a cluster get a new object: locks and streams cannot be pickled.
        return Progress, (self.verbose, self.callbacks, self.n_rows)

    def epoch(self, event: FitEvent) -> None:
        """Report an epoch; raises `FitStopped` if the fit is to end."""
        self.check()
        with self._lock:
            for callback in self.callbacks:
                callback(event)
            if self.verbose and self._live and time.monotonic() - self._last_shown > 0.1:
                self._last_shown = time.monotonic()
                self._show(
                    f"{self._bar()} {event.node} ({event.n_rows:,} rows) {event.network}: "
                    f"epoch {event.epoch + 1}, validation loss {event.valid_loss:.4g}"
                )
            elif self.verbose > 1 and not self._live and event.epoch % 10 == 0:
                self._line(f"{event.node} {event.network}: epoch {event.epoch + 1}, loss {event.valid_loss:.4g}")

    def check(self) -> None:
        """Raise `FitStopped` if the fit is to end."""
        if self.stop.is_set():
            raise FitStopped

    def reporter(self, node: str, n_rows: int, network: str) -> Callable[[int, float, float], None]:
        """A function of epoch, training loss and validation loss that reports the epochs of one training."""
        return lambda epoch, train_loss, valid_loss: self.epoch(
            FitEvent(node, n_rows, network, epoch, train_loss, valid_loss)
        )

    def node_done(self, node: str, n_rows: int, outcome: str, is_leaf: bool) -> None:
        """Report that a node was split or became a region (a leaf of the tree)."""
        with self._lock:
            if is_leaf:
                self._rows_done += n_rows
                self._n_regions += 1
            if self.verbose:
                self._line(f"{node} ({n_rows:,} rows): {outcome}")

    def note(self, text: str) -> None:
        """Write a line about something that is not an epoch or a node, such as where files are."""
        if self.verbose:
            with self._lock:
                self._line(text)

    def finish(self) -> None:
        """Replace the bar with a line about the whole fit."""
        if self.verbose:
            seconds = time.monotonic() - self._start
            regions = "1 region" if self._n_regions == 1 else f"{self._n_regions} regions"
            self._line(f"fitted {regions} in {seconds:.1f} s")

    @property
    def _live(self) -> bool:
        return bool(getattr(self.stream, "isatty", lambda: False)())

    def _bar(self, width: int = 20) -> str:
        share = self._rows_done / self.n_rows if self.n_rows else 0.0
        filled = int(share * width)
        seconds = time.monotonic() - self._start
        left = f", about {seconds * (1 - share) / share:.0f} s left" if share > 0.05 else ""
        return f"[{'#' * filled}{'.' * (width - filled)}] {share:.0%}{left}"

    def _show(self, text: str) -> None:
        self.stream.write("\r" + text.ljust(self._width))
        self._width = len(text)
        self.stream.flush()

    def _line(self, text: str) -> None:
        if self._live:
            self.stream.write("\r" + " " * self._width + "\r")
            self._width = 0
        self.stream.write(text + "\n")
        self.stream.flush()
