"""Progress of a run: a live bar with the remaining time on a terminal, one line per cell elsewhere."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from usnrt_experiments.grid import Cell

if TYPE_CHECKING:
    from rich.progress import Progress


class Reporter:
    """Shows progress and remaining time, which is estimated from the sizes of finished and remaining cells.

    Parameters
    ----------
    quiet : bool, default=False
        No output.
    stream : text stream, default=sys.stderr
    """

    def __init__(self, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.quiet = quiet
        self.stream = sys.stderr if stream is None else stream
        self._live: Progress | None = None

    @contextmanager
    def watch(self, cells: Sequence[tuple[Cell, int]]) -> Iterator[None]:
        """Show the progress of these cells, given with their sizes, during the block."""
        self._weights = dict(cells)
        self._left = sum(self._weights.values())
        self._total = len(self._weights)
        self._finished = 0
        self._work = 0
        self._start = time.monotonic()
        if self.quiet or not self.stream.isatty():
            yield
            return
        with _rich_bar() as bar:
            self._live = bar
            self._task = bar.add_task("cells", total=self._left)
            yield
        self._live = None

    def done(self, cell: Cell, meta: dict[str, Any]) -> None:
        """A cell was recorded."""
        metrics = meta["metrics"]
        shown = [name for name in ("ece", "rmse", "nll", "crps") if name in metrics] or list(metrics)
        values = ", ".join(f"{name} {float(metrics[name]):.2f}" for name in shown)
        self._report(cell, f"{cell}: {values}; fitted in {meta['fit_seconds']:.1f} s")

    def failed(self, cell: Cell, error: str) -> None:
        """A cell failed."""
        self._report(cell, f"{cell} FAILED: {error}")

    def _report(self, cell: Cell, text: str) -> None:
        self._finished += 1
        self._work += self._weights.get(cell, 0)
        if self.quiet:
            return
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
            self._live.update(self._task, advance=self._weights.get(cell, 0))
        else:
            print(f"[{self._finished} of {self._total}{self._time_left()}] {text}", file=self.stream, flush=True)

    def _time_left(self) -> str:
        if not self._work:
            return ""
        seconds = (time.monotonic() - self._start) / self._work * (self._left - self._work)
        return f", about {duration_text(seconds)} left"


def duration_text(seconds: float) -> str:
    """A duration as text.

    Examples
    --------
    >>> from usnrt_experiments.progress import duration_text
    >>> duration_text(42), duration_text(600), duration_text(9000)
    ('42 s', '10 min', '2 h 30 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _rich_bar() -> "Progress":
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    except ImportError as error:
        raise ImportError("a progress bar needs rich: pip install 'usnrt[cli]'") from error
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=Console(stderr=True),
    )
