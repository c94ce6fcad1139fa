"""Compilation of kernels with and without a writable cache folder."""

import subprocess
import sys

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


FITS = """
import sys
import numpy as np
from usnrt import USNRTRegressor

rng = np.random.default_rng(0)
for n in (300, 6000):  # folds, or not
    X = rng.uniform(size=(n, 5))
    X[:, 1], X[::7, 2] = rng.integers(0, 4, n), np.nan
    y = X[:, 0] + X[:, 1] + rng.standard_normal(n) * (0.1 + 0.3 * (X[:, 3] > 0.5))
    USNRTRegressor(max_epochs=2, categorical_features=[1], random_state=0).fit(X, y).predict_interval(X)
modules = [module for name, module in sys.modules.items() if name.startswith("usnrt.")]
kernels = {kernel for module in modules for kernel in vars(module).values() if hasattr(kernel, "signatures")}
print(len(kernels), *(kernel.__name__ for kernel in kernels if len(kernel.signatures) > 1))
"""


def test_default_fits_compile_each_kernel_for_one_signature():
    run = subprocess.run([sys.executable, "-c", FITS], capture_output=True, text=True)
    number, *compiled_twice = run.stdout.split()
    assert int(number) > 20, run.stderr
    assert compiled_twice == []


def test_a_kernel_is_compiled_again_if_one_that_it_calls_has_changed(tmp_path):
    inner, outer = tmp_path / "inner.py", tmp_path / "outer.py"
    outer.write_text(
        "from inner import step\nfrom usnrt.utils.jit import kernel\n"
        "@kernel()\ndef twice(x):\n    return step(step(x))\n"
    )

    def run(size):
        inner.write_text(f"from usnrt.utils.jit import kernel\n@kernel()\ndef step(x):\n    return x + {size}\n")
        words = [sys.executable, "-c", "from outer import twice; print(twice(0), sum(twice.stats.cache_hits.values()))"]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()

    assert run(1) == ["2", "0"]
    assert run(100) == ["200", "0"]
    words = [sys.executable, "-c", "from outer import twice; print(twice(0), sum(twice.stats.cache_hits.values()))"]
    again = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()
    assert again == ["200", "1"]


def test_kernels_that_round_freely_are_part_of_those_that_call_them():
    """Else the process that compiles them has other bits than those that read them from the cache."""
    from usnrt.memory import _metric_steps
    from usnrt.nn import _steps

    n_free = 0
    for module in (_steps, _metric_steps):
        for value in vars(module).values():
            if isinstance(value, numba.core.dispatcher.Dispatcher) and value.targetoptions.get("fastmath"):
                n_free += 1
                assert value.targetoptions["forceinline"], value
    assert n_free > 15
