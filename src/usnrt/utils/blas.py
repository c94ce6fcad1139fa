"""One BLAS thread at a time: products of matrices that have the same bits whatever else is running."""

import functools
import threading
from typing import Any

from threadpoolctl import ThreadpoolController


class _OneBlasThread:
    """Keeps BLAS at one thread while anyone is inside; the last one out restores what the first one found.

    Our threads do the sharing: a second layer of threads in BLAS would get in their way, and how it cuts a product
    up could change bits; numpy's weighted averages are such products too. So every fit and every prediction is inside.
    The setting belongs to the whole process, hence the count of those inside.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = _blas().limit(limits=1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


@functools.cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of this process; finding them takes milliseconds, so it is done once."""
    return ThreadpoolController().select(user_api="blas")


ONE_BLAS_THREAD = _OneBlasThread()
