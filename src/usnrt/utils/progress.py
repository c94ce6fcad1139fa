"""Progress of a fit: events for callbacks, a progress bar on a terminal, lines in a log."""

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TextIO

from usnrt.utils.names import escaped, escaped_lines

# Seconds between two updates of the bar, and between two lines about a training in a log.
SHOW_INTERVAL, LOG_INTERVAL = 0.1, 60.0


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
    """Reports the progress of a fit to callbacks and to a stream, stderr by default; thread-safe.

    ``verbose`` is 0 for silence, 1 for a progress bar and one line per node; without a terminal, for the lines only,
    and one per minute about the training. 2 adds a line for every tenth epoch where there is no terminal.

    Each callback is called with a `FitEvent` after every epoch; an exception in one ends the fit, and so does setting
    ``stop``, at the next epoch. What cannot be written to the stream is left out: it never ends a fit. The fit is
    complete when the finished regions hold ``n_rows``, the rows of the whole table.
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
        self.stop = threading.Event()
        self._name = ""
        self._work = _Work(n_rows)
        self._display = _Display(stream or _STREAM.get() or sys.stderr, [self._work])

    def __reduce__(self) -> tuple[type["Progress"], tuple[Any, ...]]:
        # Workers of a cluster get a new object: locks and streams cannot be pickled. Members are silent there.
        return Progress, (0 if self._name else self.verbose, self.callbacks, self.n_rows)

    def members(self, number: int, are_all: bool = True) -> list["Progress"]:
        """Progress objects of the trees of an ensemble, which are shown together and stop together."""
        made = []
        for index in range(number):
            member = Progress(self.verbose, self.callbacks, self.n_rows if are_all else 0)
            member.stop, member._name, member._display = self.stop, f"member {index + 1}, ", self._display
            made.append(member)
        self._display.works = [member._work for member in made] + [self._work] * (not are_all)
        return made

    @contextmanager
    def running(self) -> Iterator[None]:
        """A task in a thread of its own, for which `wait` waits."""
        self.check()
        with self._display.is_idle:
            self._display.n_running += 1
        try:
            yield
        except FitStopped:
            raise
        except BaseException as error:
            self._display.errors.append(error)
            raise
        finally:
            with self._display.is_idle:
                self._display.n_running -= 1
                self._display.is_idle.notify_all()

    def wait(self) -> BaseException | None:
        """Stop all tasks that are `running`, wait until they have ended, and return the first error of one."""
        self.stop.set()
        with self._display.is_idle:
            self._display.is_idle.wait_for(lambda: self._display.n_running == 0)
        return next(iter(self._display.errors), None)

    def check(self) -> None:
        """Raise `FitStopped` if the fit is to end."""
        if self.stop.is_set():
            raise FitStopped

    def expect(self, n_rows: int) -> None:
        """Set the number of rows of the table, once it is known."""
        self.n_rows = self._work.n_rows = n_rows

    def plan(self, phases: Mapping[str, float]) -> None:
        """Set the phases of a fit with their typical shares of its time; the last one is that of the regions."""
        self._work.phases = dict(phases)
        self._work.phase = next(iter(phases))

    def begin(self, phase: str) -> None:
        """Begin a phase of the plan; those before are complete."""
        with self._display.lock:
            self._work.begin(phase)

    def epoch(self, event: FitEvent, n_epochs: int | None = None, unit: str = "epoch") -> None:
        """Report an epoch (or pass, or step) of at most ``n_epochs``; raises `FitStopped` if the fit is to end."""
        self.check()
        with self._display.lock:
            for callback in self.callbacks:
                callback(event)
            self._work.advance(event.epoch, n_epochs)
            if not self.verbose:
                return
            of = "" if n_epochs is None else f" of {n_epochs:,}"
            where = f"{self._name}{_rows_of(event.node, event.n_rows)}"
            self._display.training(
                f"{where}, {event.network}: {unit} {event.epoch + 1:,}{of}, validation loss {event.valid_loss:.4g}"
            )
            if self.verbose > 1 and event.epoch % 10 == 0 and not self._display.is_live:
                self._line(f"{where}, {event.network}: {unit} {event.epoch + 1}, loss {event.valid_loss:.4g}")

    def reporter(
        self, node: str, n_rows: int, network: str, n_epochs: int | None = None, unit: str = "epoch"
    ) -> Callable[[int, float, float], None]:
        """A function of epoch, training loss and validation loss that reports the epochs of one training."""
        return lambda epoch, train_loss, valid_loss: self.epoch(
            FitEvent(node, n_rows, network, epoch, train_loss, valid_loss), n_epochs, unit
        )

    def node_done(self, node: str, n_rows: int, outcome: str, is_leaf: bool, is_restored: bool = False) -> None:
        """Report that a node was split or became a region (a leaf of the tree), perhaps in an earlier call."""
        with self._display.lock:
            if is_leaf:
                self._work.finish_region(n_rows, is_restored)
            if self.verbose:
                restored = ", from the checkpoint" if is_restored else ""
                self._line(f"{self._name}{_rows_of(node, n_rows)}: {outcome}{restored}")

    def note(self, text: str) -> None:
        """Write a line about something that is not an epoch or a node, such as where files are."""
        if self.verbose:
            with self._display.lock:
                self._line(text)

    def finish(self) -> None:
        """Replace the bar with a line about the whole fit."""
        if self.verbose:
            n_regions = sum(work.n_regions for work in self._display.works)
            self._line(f"fitted {_regions(n_regions)} in {self.seconds:.1f} s")

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self._display.seconds

    def _line(self, text: str) -> None:
        self._display.line(text)


class _Work:
    """How much of a tree is done."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self.phases: dict[str, float] = {"regions": 1.0}
        self.phase = "regions"
        self.part_done = 0.0  # of the current phase
        self.restored = 0.0  # share that an earlier call has done
        self.rows_done = self.n_regions = 0
        self._is_computed = False  # whether this call has computed anything in the current phase

    @property
    def share(self) -> float:
        """Share of the work that is done, from 0 to 1."""
        before = 0.0
        for name, weight in self.phases.items():
            if name == self.phase:
                return before + weight * self.part_done
            before += weight
        return before

    def begin(self, phase: str) -> None:
        if phase == self.phase:  # a second training of the same phase
            return
        before = self.share
        self.phase, self.part_done = phase, 0.0
        if not self._is_computed:
            self.restored += self.share - before
        self._is_computed = False

    def advance(self, epoch: int, n_epochs: int | None) -> None:
        if n_epochs is None or self.phase == "regions":
            return
        if not self._is_computed:  # a training that goes on
            self.restored += self.phases[self.phase] * epoch / n_epochs
        self._is_computed = True
        self.part_done = max(self.part_done, min(1.0, (epoch + 1) / n_epochs))

    def finish_region(self, n_rows: int, is_restored: bool) -> None:
        self.n_regions += 1
        self.rows_done += n_rows
        self.part_done = self.rows_done / self.n_rows if self.n_rows else 0.0
        if is_restored and self.n_rows:
            self.restored += self.phases["regions"] * n_rows / self.n_rows


class _Display:
    """The stream, and what all members of an ensemble have in common."""

    def __init__(self, stream: TextIO, works: list[_Work]) -> None:
        self.stream, self.works = stream, works
        self.lock = threading.Lock()
        self.is_idle, self.n_running = threading.Condition(), 0
        self.errors: list[BaseException] = []
        self._start = time.monotonic()
        self._width = 0
        self._last_shown = self._last_logged = self._start

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    @property
    def is_live(self) -> bool:
        try:
            return bool(self.stream.isatty())
        except (AttributeError, ValueError):  # closed, or not a stream at all
            return False

    def training(self, text: str) -> None:
        """Show the state of the fit and of one training, but not too often."""
        now = time.monotonic()
        if self.is_live:
            if now - self._last_shown > SHOW_INTERVAL or self._width == 0:
                self._last_shown = now
                self._show(f"{self._bar()} {self._summary()}; {text}")
        elif now - self._last_logged > LOG_INTERVAL:
            self._last_logged = now
            self.line(f"{self._summary()}; {text}")

    def _bar(self, width: int = 20) -> str:
        filled = int(self._share * width)
        return f"[{'#' * filled}{'.' * (width - filled)}]"

    @property
    def _share(self) -> float:
        return sum(work.share for work in self.works) / len(self.works)

    def _summary(self) -> str:
        """For example "50%, about 3 min left, 412 MB, 2 regions with 2,000 of 4,000 rows"."""
        share = self._share
        computed = share - sum(work.restored for work in self.works) / len(self.works)
        parts = [f"{share:.0%}"]
        if computed > 0.02:
            parts.append(f"about {_duration(self.seconds * (1.0 - share) / computed)} left")
        memory = resident_bytes()
        if memory is not None:
            parts.append(f"{memory / 2**20:,.0f} MB")
        n_regions = sum(work.n_regions for work in self.works)
        if n_regions:
            done, total = (sum(getattr(work, name) for work in self.works) for name in ("rows_done", "n_rows"))
            parts.append(f"{_regions(n_regions)} with {done:,} of {total:,} rows")
        return ", ".join(parts)

    def _show(self, text: str) -> None:
        # a longer line could not be overwritten
        text = escaped(text)[: max(shutil.get_terminal_size().columns - 1, 20)]
        self._write("\r" + text.ljust(self._width))
        self._width = len(text)

    def line(self, text: str) -> None:
        """Write a line in place of the bar."""
        before = ""
        if self.is_live:
            before, self._width = "\r" + " " * self._width + "\r", 0
        self._write(before + escaped_lines(text) + "\n")

    def _write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # a closed terminal, a full disk: no reason to lose a fit
            pass


def resident_bytes() -> int | None:
    """Memory of this process that is in use, in bytes; the largest so far where the present one is not known.

    Examples
    --------
    >>> resident_bytes() > 10_000_000
    True
    """
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _duration(seconds: float) -> str:
    """For example "12 s", "3 min", "2.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _rows_of(node: str, n_rows: int) -> str:
    """The rows of a node in words; nodes of the tree are named by their paths, which say nothing to users."""
    if node == "root":
        return f"all {n_rows:,} rows"
    return f"a part of {n_rows:,} rows" if set(node) <= set("LR") else f"{node} ({n_rows:,} rows)"


def _regions(number: int) -> str:
    return "1 region" if number == 1 else f"{number} regions"
