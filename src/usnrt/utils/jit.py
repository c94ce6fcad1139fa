"""Compilation of numba kernels."""

import hashlib
import os
from collections.abc import Callable
from typing import Any

import numba
from numba import njit

from usnrt._version import __version__
from usnrt.utils.folders import cache_folder, is_cache_off


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: compile a function with numba, without the GIL, and cache the machine code on disk.

    If neither the package's nor the user's cache folder is writable, numba raises; the function is then compiled in
    every process.
    """

    def compile_function(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled: Callable[..., Any]
        try:
            compiled = njit(cache=True, nogil=True, **options)(function)
            _stamp(compiled, function)
        except RuntimeError:
            compiled = njit(nogil=True, **options)(function)
        return compiled

    return compile_function


def helper(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: a function that only kernels call; it becomes part of them, without an entry from Python or a file.

    A call would find one copy of it in the process that compiled it, and in those that read the kernel from the cache
    another one, optimised together with the kernel: if the compiler may choose how to round, their last bits differ.

    Parameters
    ----------
    **options
        Further options of `numba.njit`.

    Returns
    -------
    callable
        The decorator.
    """
    compile_with: Any = njit  # its types do not know all options
    decorator: Callable[[Callable[..., Any]], Any] = compile_with(
        nogil=True, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options
    )
    return decorator


def _stamp(compiled: Any, function: Callable[..., Any]) -> None:
    """Let cached machine code be out of date if any file that it was made from has changed.

    It includes that of the kernels and intrinsics that a kernel calls, but numba looks only at the kernel's own file.
    """
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if file is not None:
        paths = sorted(_sources(function, set()))
        file._source_stamp = tuple((path, os.stat(path).st_mtime, os.stat(path).st_size) for path in paths)


def _sources(function: Callable[..., Any], seen: set[Any]) -> set[str]:
    """Files of a function and of the kernels and intrinsics that it calls."""
    seen.add(function)
    called = (function.__globals__.get(name) for name in function.__code__.co_names)
    inner = (getattr(value, "py_func", None) or getattr(value, "_defn", None) for value in called)
    own = {function.__code__.co_filename}
    return own.union(*(_sources(other, seen) for other in inner if other is not None and other not in seen))


def compilation_notice() -> str:
    """Why the first fit on this machine takes longer; empty from the second one on."""
    if is_cache_off():
        return ""
    key = repr((numba.__version__, __version__, os.environ.get("NUMBA_CACHE_DIR")))
    marker = cache_folder() / "kernels" / hashlib.sha256(key.encode()).hexdigest()[:24]
    if marker.exists():
        return ""
    try:
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
    except OSError:
        return ""
    return "the first fit on this machine compiles its kernels and takes some seconds longer; they are kept"
