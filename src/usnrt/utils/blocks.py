"""Blocks of rows in threads, and tables as kernels take them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

# Fewer rows are not worth a thread.
MIN_ROWS = 2048
# Several tasks per thread, because other programs may slow one of them down.
TASKS_PER_THREAD = 4


def run_in_blocks(task: Callable[[int, int], None], n_rows: int, n_threads: int) -> None:
    """Call ``task(start, stop)`` for blocks that partition ``n_rows`` rows, in threads if there are many.

    Parameters
    ----------
    task : callable
        Writes its results; these must not depend on the partition.
    n_rows, n_threads : int

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.utils.blocks import run_in_blocks
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


def flat_memory(table: NDArray[np.float64]) -> tuple[NDArray[np.float64], int, int]:
    """The memory of a table in C or Fortran order, and its steps between rows and between columns.

    Kernels that take these are compiled once for both orders; other tables are copied.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.utils.blocks import flat_memory
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
