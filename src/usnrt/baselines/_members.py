"""Training the members of a model in threads, and the progress of it."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from usnrt.utils.progress import FitStopped, Progress


class MemberProgress(Progress):
    """Progress of a model of one or several networks, without a tree."""

    def finish(self) -> None:
        """Replace the bar with a line about the whole fit."""
        if self.verbose:
            self._line(f"fitted in {time.monotonic() - self._start:.1f} s")


def in_threads(task: Callable[[int], Any], n: int, n_threads: int, progress: Progress) -> list[Any]:
    """The results of ``task(0), ..., task(n - 1)``; an error in one, Ctrl-C included, ends all before it is raised."""
    errors: list[BaseException] = []

    def run(index: int) -> Any:
        try:
            return task(index)
        except FitStopped:  # caused by the error of another thread
            return None
        except BaseException as error:
            errors.append(error)
            progress.stop.set()
            return None

    with ThreadPoolExecutor(min(n_threads, n)) as pool:
        try:
            results = list(pool.map(run, range(n)))
        except BaseException:
            progress.stop.set()
            raise
    if errors:
        raise errors[0]
    return results
