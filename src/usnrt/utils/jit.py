"""Compilation of numba kernels."""

from collections.abc import Callable
from typing import Any

from numba import njit


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: compile a function with numba, without the GIL, and cache the machine code on disk.

    If neither the package's nor the user's cache folder is writable, numba raises; the function is then compiled in
    every process.

    Parameters
    ----------
    **options
        Further options of `numba.njit`.

    Returns
    -------
    callable
        The decorator.
    """

    def compile_function(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled: Callable[..., Any]
        try:
            compiled = njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:
            compiled = njit(nogil=True, **options)(function)
        return compiled

    return compile_function
