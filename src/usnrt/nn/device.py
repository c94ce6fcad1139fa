"""Tables on the device, and how programs are compiled: the settings of jax in one place."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.encoding import PiecewiseLinear

# Room behind the last row, so that the last batch of a full table can be sliced without leaving the array.
MARGIN = 4096


class DeviceTable:
    """The network inputs of all rows, on the device once for a whole fit.

    The number of rows is rounded up, so that tables of about the same length share their compiled programs.

    Parameters
    ----------
    inputs : ndarray of shape (n, n_inputs), float32
    encoding : PiecewiseLinear, default=None
        Turns the inputs of a batch into what networks see, on the device: the encoded table may be large.
    """

    def __init__(self, inputs: NDArray[np.float32], encoding: PiecewiseLinear | None = None) -> None:
        import jax

        use_disk_cache()
        self.n_rows, self.n_inputs = inputs.shape
        self.encoding = None if encoding is None else jax.device_put(encoding.constants)
        self.capacity = rounded_up(self.n_rows) + MARGIN
        padded = np.zeros((self.capacity, self.n_inputs), dtype=np.float32)
        padded[: self.n_rows] = inputs
        self.inputs = jax.device_put(padded)

    def column(self, values: NDArray[Any]) -> Any:
        """One number a row of the table, float32, on the device."""
        import jax

        padded = np.zeros(self.capacity, dtype=np.float32)
        padded[: self.n_rows] = values
        return jax.device_put(padded)

    def rows(self, numbers: NDArray[np.intp]) -> Any:
        """A list of row numbers, in an array as long as the table."""
        import jax

        padded = np.zeros(self.capacity, dtype=np.int32)
        padded[: len(numbers)] = numbers
        return jax.device_put(padded)


def rounded_up(n: int) -> int:
    """The next of eight steps between two powers of two; at most an eighth above ``n``.

    Examples
    --------
    >>> from usnrt.nn.device import rounded_up
    >>> [rounded_up(n) for n in (5, 1000, 8000, 8193)]
    [1024, 1024, 8192, 9216]
    """
    step = max(1024, 2 ** max(n - 1, 1).bit_length() // 16)
    return -(-n // step) * step


def compiled(program: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a program to use one thread: nodes run in parallel, and bits do not depend on it."""
    import jax

    return jax.jit(program, compiler_options=_options())


@functools.cache
def _options() -> dict[str, Any]:
    import jax

    return {"xla_cpu_multi_thread_eigen": False} if jax.default_backend() == "cpu" else {}


@functools.cache
def use_disk_cache() -> None:
    """Keep compiled programs on disk, so that the second process starts fast.

    Leaves jax alone if its user has set a cache; ``USNRT_CACHE=off`` turns ours off, another value moves it.
    """
    import jax

    place = os.environ.get("USNRT_CACHE", "")
    if place == "off" or jax.config.values.get("jax_compilation_cache_dir"):
        return
    root = Path(place) if place else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "usnrt"
    try:
        (root / "jax").mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # a read-only home only costs time
    jax.config.update("jax_compilation_cache_dir", str(root / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
