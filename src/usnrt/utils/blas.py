"""Single-threaded BLAS: matrix products with the same bits whatever else is running."""

import functools
import threading
from typing import Any

from threadpoolctl import ThreadpoolController


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
