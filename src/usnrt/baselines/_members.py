"""The members of a model learn in threads and tell how far they are."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from usnrt.utils.progress import FitStopped, Progress


class MemberProgress(Progress):
    """Progress of a model that is one or several networks instead of a tree."""

    def finish(self) -> None:
        """Remove the bar and say how long it took."""
        if self.verbose:
            self._line(f"fitted in {time.monotonic() - self._start:.1f} s")


def in_threads(work: Callable[[int], Any], n: int, n_threads: int, progress: Progress) -> list[Any]:
    """The results of ``work(0) .. work(n - 1)``; an error in one, Ctrl-C included, ends all before it is raised."""
    causes: list[BaseException] = []

    def guarded(index: int) -> Any:
        try:
            return work(index)
        except FitStopped:  # the cause is the error of another thread
            return None
        except BaseException as error:
            causes.append(error)
            progress.stop.set()
            return None

    with ThreadPoolExecutor(min(n_threads, n)) as pool:
        try:
            results = list(pool.map(guarded, range(n)))
        except BaseException:
            progress.stop.set()
            raise
    if causes:
        raise causes[0]
    return results
