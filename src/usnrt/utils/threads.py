"""Tasks that run in parallel and stop together: nodes of a tree, members of a model."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, TypeVar

from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

from usnrt.utils.context import FitContext
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


def run_members(
    fit: Callable[[int, FitContext], Result], seeds: Sequence[Any], context: FitContext, is_all: bool = True
) -> list[Result]:
    """Fit members in parallel, by threads or by the workers of a cluster; threads that remain are shared between them.

    Parameters
    ----------
    fit : callable
        ``fit(number, context)`` fits one member.
    seeds : sequence
        One per member.
    context : FitContext
    is_all : bool, default=True
        Whether nothing follows that the progress of the fit has to show.

    Returns
    -------
    list
    """
    progress, n_jobs = context.progress, context.n_threads
    if len(seeds) == 1:
        return [fit(0, replace(context, seed=seeds[0]))]
    n_threads = max(1, n_jobs // len(seeds))
    by_threads = getattr(get_active_backend(prefer="threads")[0], "supports_sharedmem", False)
    verbose = 0 if by_threads else 10 * progress.verbose  # workers of a cluster cannot write to our stream
    contexts = [
        FitContext(seed, n_threads, own, context.checkpoint.within(f"member {number}"))
        for number, (seed, own) in enumerate(zip(seeds, progress.members(len(seeds), is_all)), 1)
    ]
    try:
        fitted: list[Result] = Parallel(n_jobs=n_jobs, prefer="threads", verbose=verbose)(
            delayed(_fit_member)(fit, number, own) for number, own in enumerate(contexts)
        )
    except BaseException as error:
        first = progress.wait()  # joblib does not wait: threads would go on in the background
        if isinstance(error, FitStopped) and first is not None:
            raise first from None
        raise
    return fitted


def _fit_member(fit: Callable[[int, FitContext], Result], number: int, context: FitContext) -> Result:
    with context.progress.running():
        return fit(number, context)
