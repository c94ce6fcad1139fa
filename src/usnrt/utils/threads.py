"""Threads: one for BLAS, blocks of rows in several, and tasks that run in parallel and stop together."""

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

from usnrt.utils.context import FitContext
from usnrt.utils.progress import FitStopped, Progress
from usnrt.utils.types import Floats


class _OneBlasThread:
    """Reentrant context manager that limits BLAS to one thread; the last exit restores the original limit.

    Fits and predictions run their own threads. BLAS threads on top would compete with them, and the way BLAS
    partitions a product among threads can change bits (numpy's weighted averages are such products too). The limit
    applies to the whole process, so active contexts are counted.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_active = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._n_active == 0:
                self._limit = _blas().limit(limits=1)
            self._n_active += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_active -= 1
            if self._n_active == 0:
                self._limit.restore_original_limits()


@functools.cache
def _blas() -> ThreadpoolController:
    """Controller of the BLAS libraries of this process; finding them takes milliseconds, so it is cached."""
    return ThreadpoolController().select(user_api="blas")


ONE_BLAS_THREAD = _OneBlasThread()


# Fewer rows are not worth a thread.
MIN_ROWS = 2048
# Several tasks per thread, because other programs may slow one of them down.
TASKS_PER_THREAD = 4


def run_in_blocks(task: Callable[[int, int], None], n_rows: int, n_threads: int) -> None:
    """Call ``task(start, stop)`` for blocks that partition ``n_rows`` rows, in threads if there are many.

    The results that the task writes must not depend on the partition.

    Examples
    --------
    >>> squares = np.empty(10_000)
    >>> def task(start, stop):
    ...     squares[start:stop] = np.arange(start, stop) ** 2
    >>> run_in_blocks(task, 10_000, n_threads=2)
    >>> float(squares[-1])
    99980001.0
    """
    n_tasks = 1 if n_threads == 1 else min(TASKS_PER_THREAD * n_threads, n_rows // MIN_ROWS)
    if n_tasks <= 1:
        task(0, n_rows)
        return
    cuts = [i * n_rows // n_tasks for i in range(n_tasks + 1)]
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(task, cuts[:-1], cuts[1:]))


def flat_memory(table: Floats) -> tuple[Floats, int, int]:
    """The memory of a table in C or Fortran order, and its steps between rows and between columns.

    Kernels that take these are compiled once for both orders; other tables are copied.

    Examples
    --------
    >>> flat_memory(np.array([[1.0, 2.0], [3.0, 4.0]]))
    (array([1., 2., 3., 4.]), 2, 1)
    """
    n, d = table.shape
    if table.flags.f_contiguous and not table.flags.c_contiguous:
        flat, steps = table.reshape(-1, order="F"), (1, n)
    else:
        flat, steps = np.ascontiguousarray(table).reshape(-1), (d, 1)
    # numba compiles another program for memory that is read-only
    return (flat if flat.flags.writeable else flat.copy()), *steps


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

    The results are in the order in which the tasks ended. A task reports its epochs to ``progress``, which is how it is
    stopped: an exception, Ctrl-C included, stops all tasks and is raised after their threads have ended.

    Examples
    --------
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
    fit: Callable[[int, FitContext], Result],
    seeds: Sequence[Any],
    context: FitContext,
    is_all: bool = True,
    goes_on: Callable[[Result], bool] | None = None,
) -> list[Result]:
    """Fit members in parallel, by threads or by the workers of a cluster; threads that remain are shared between them.

    ``fit(number, context)`` fits one member, with a seed of its own. ``is_all`` if nothing follows that the progress of
    the fit has to show. If ``goes_on`` is given, the first member is fitted before the others, on all threads, and they
    are fitted only if its result goes on.
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
    fitted: list[Result] = []
    try:
        if goes_on is not None:
            fitted.append(_fit_member(fit, 0, replace(contexts[0], n_threads=n_jobs)))
            if not goes_on(fitted[0]):
                return fitted
        fitted += Parallel(n_jobs=n_jobs, prefer="threads", verbose=verbose)(
            delayed(_fit_member)(fit, number, contexts[number]) for number in range(len(fitted), len(contexts))
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
