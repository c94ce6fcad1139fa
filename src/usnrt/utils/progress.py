"""Progress of a fit: events for callbacks, a line on a terminal, quiet lines in a log."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO


@dataclass(frozen=True)
class FitEvent:
    """One epoch of one network.

    Attributes
    ----------
    node : str
        Where in the tree: ``"root"``, then ``"L"`` and ``"R"`` for each step down, e.g. ``"LRL"``.
    n_rows : int
        Rows of the node.
    network : str
        Which training, e.g. ``"split"``, ``"mean 1"``, ``"variance 2"``.
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


class FitStopped(Exception):
    """Raised inside worker threads to end them early; never seen by users."""


class Progress:
    """Tells callbacks and the terminal how a fit goes on; may be called from several threads.

    Parameters
    ----------
    verbose : int
        0 says nothing, 1 shows a bar (a line a node where there is no terminal), 2 also every tenth epoch.
    callbacks : sequence of callables
        Each is called with a `FitEvent` after every epoch. An exception in one ends the fit.
    n_rows : int
        Rows of the whole table: done when that many rows lie in finished leaves.
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
        self.stream = sys.stderr if stream is None else stream
        self.stop = threading.Event()
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._rows_done = 0
        self._leaves = 0
        self._width = 0
        self._last_shown = 0.0

    def __reduce__(self) -> tuple[type["Progress"], tuple[Any, ...]]:
        # On a worker of a cluster it starts anew: locks and terminals stay where they are.
        return Progress, (self.verbose, self.callbacks, self.n_rows)

    def epoch(self, event: FitEvent) -> None:
        """Tell of an epoch; raises `FitStopped` if the fit is to end."""
        if self.stop.is_set():
            raise FitStopped
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

    def reporter(self, node: str, n_rows: int, network: str) -> Callable[[int, float, float], None]:
        """What a training calls with epoch, training loss and validation loss."""
        return lambda epoch, train_loss, valid_loss: self.epoch(
            FitEvent(node, n_rows, network, epoch, train_loss, valid_loss)
        )

    def node_done(self, node: str, n_rows: int, outcome: str, is_leaf: bool) -> None:
        """Tell that a node was split or became a leaf."""
        with self._lock:
            if is_leaf:
                self._rows_done += n_rows
                self._leaves += 1
            if self.verbose:
                self._line(f"{node} ({n_rows:,} rows): {outcome}")

    def finish(self) -> None:
        """Remove the bar and say how long it took."""
        if self.verbose:
            seconds = time.monotonic() - self._start
            leaves = "1 leaf" if self._leaves == 1 else f"{self._leaves} leaves"
            self._line(f"fitted {leaves} in {seconds:.1f} s")

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
