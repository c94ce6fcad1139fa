"""Compilation with and without a folder to keep the result in."""

import numba

from usnrt.utils import jit


def test_kernels_are_kept_on_disk_and_run_without_the_lock():
    @jit.kernel()
    def double(x):
        return 2 * x

    assert double(4) == 8
    assert double.targetoptions["nogil"] is True
    assert type(double._cache).__name__ == "FunctionCache"


def test_kernels_work_where_nothing_can_be_written(monkeypatch):
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
