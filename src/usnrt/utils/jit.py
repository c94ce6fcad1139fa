"""How the kernels are compiled."""

from collections.abc import Callable
from typing import Any

from numba import njit


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function with numba, off Python's lock, and keep the result on disk for the next process.

    Where no folder can be written, neither the package's nor the user's, numba refuses to keep anything; then the
    function is compiled anew in every process.

    Parameters
    ----------
    **options
        More options of `numba.njit`.
    """

    def compile_function(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:
            return njit(nogil=True, **options)(function)

    return compile_function
