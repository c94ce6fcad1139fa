"""Compilation of kernels with and without a writable cache folder."""

import numba

from usnrt.utils import jit


def test_kernels_are_cached_on_disk_and_release_the_gil():
    @jit.kernel()
    def double(x):
        return 2 * x

    assert double(4) == 8
    assert double.targetoptions["nogil"] is True
    assert type(double._cache).__name__ == "FunctionCache"


def test_kernels_work_without_a_writable_cache(monkeypatch):
    def refuse(**options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function 'double': no locator available for file 'x.py'")
        return numba.njit(**options)

    monkeypatch.setattr(jit, "njit", refuse)

    @jit.kernel()
    def double(x):
        return 2 * x

    assert double(4) == 8
    assert type(double._cache).__name__ == "NullCache"
