"""Tasks in threads that stop together: nodes of a tree, members of a model."""

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from usnrt.utils.progress import FitStopped, Progress

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_in_threads(
    task: Callable[[Item], Result],
    items: Iterable[Item],
    n_threads: int,
    progress: Progress,
    follow_up: Callable[[Result], Iterable[Item]] = lambda _: (),
) -> list[Result]:
    """Run a task on every item, and on the items that follow from a result as soon as it is there.

    An exception, Ctrl-C included, stops all tasks and is raised after their threads have ended.

    Parameters
    ----------
    task : callable
        Reports its epochs to ``progress``, which is how it is stopped.
    items : iterable
    n_threads : int
    progress : Progress
    follow_up : callable, optional
        Returns the items that follow from a result; none by default.

    Returns
    -------
    list
        The results, in the order in which the tasks ended.

    Examples
    --------
    >>> from usnrt.utils.progress import Progress
    >>> from usnrt.utils.threads import run_in_threads
    >>> halves = lambda n: (n // 2, n // 2) if n > 1 else ()
    >>> sorted(run_in_threads(lambda n: n, [4], 2, Progress(), halves))
    [1, 1, 1, 1, 2, 2, 4]
    """
    errors: list[BaseException] = []
    results: list[Result] = []

    def run(item: Item) -> list[Result]:
        """The result in a list, or an empty list if the task was stopped or failed."""
        if progress.stop.is_set():
            return []
        try:
            return [task(item)]
        except FitStopped:  # caused by the error of another thread
            return []
        except BaseException as error:
            errors.append(error)
            progress.stop.set()
            return []

    with ThreadPoolExecutor(max(n_threads, 1)) as pool:
        running: set[Future[list[Result]]] = {pool.submit(run, item) for item in items}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for result in (result for future in done for result in future.result()):
                    results.append(result)
                    running |= {pool.submit(run, item) for item in follow_up(result)}
        except BaseException:
            progress.stop.set()
            for future in running:
                future.cancel()
            raise
    if errors:
        raise errors[0]
    progress.check()  # stopped by another member of an ensemble: results are missing
    return results
