"""Arrays on the device, programs compiled for it, and what jax does to a process."""

import functools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.encoding import PiecewiseLinear
from usnrt.utils.folders import cache_folder, is_cache_off

if TYPE_CHECKING:
    from jax import Array


class _DiskCache:
    """Reentrant context manager, for the time of a fit: programs compiled in it are cached on disk for later processes.

    jax has one setting for the whole process, so active contexts are counted; the last exit restores the user's
    settings. jax is not imported before `use`, since not every fit needs it. A cache that the user configured in jax is
    left unchanged. ``USNRT_CACHE=off`` disables ours, another value is its folder.

    A process that has not imported jax before logs none of XLA's errors: on a busy machine it takes two minutes to
    compile a program, and XLA asks users to report that as a bug. What matters is raised.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_active = 0
        self._before: dict[str, Any] = {}

    def __enter__(self) -> None:
        with self._lock:
            self._n_active += 1
        if "jax" not in sys.modules:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # jax itself would set 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_active -= 1
            if self._n_active == 0 and self._before:
                _configure(self._before)
                self._before = {}

    def use(self) -> None:
        """Configure jax, until the context ends."""
        import jax

        with self._lock:
            if self._n_active == 0 or self._before or jax.config.values.get("jax_compilation_cache_dir"):
                return
            options = _options()
            self._before = {name: jax.config.values[name] for name in options}
            _configure(options)


DISK_CACHE = _DiskCache()


def _options() -> dict[str, Any]:
    """The settings of our cache; empty if there is none."""
    root = programs_folder()
    if root is None:
        return {}
    try:
        (root / "jax").mkdir(parents=True, exist_ok=True)
    except OSError:
        return {}  # without a writable folder programs are compiled again, nothing else
    return {
        "jax_compilation_cache_dir": str(root / "jax"),
        "jax_persistent_cache_min_compile_time_secs": 0.2,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }


def _configure(options: dict[str, Any]) -> None:
    if not options:
        return
    import jax
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    for name, value in options.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    reset_cache()  # jax looks at the folder once, when it compiles its first program


def programs_folder() -> Path | None:
    """The folder for compiled programs; None if ``USNRT_CACHE=off``."""
    return None if is_cache_off() else cache_folder()


# -- forked children ------------------------------------------------------------------------------------------------

_parent_used_jax = False


def check_not_forked() -> None:
    """Refuse jax in a child that was forked from a process that had used it: its threads are not in the child."""
    if _parent_used_jax:
        raise RuntimeError(
            "fit cannot run in a process that was forked after its parent had used jax, it would wait forever; start "
            'processes by multiprocessing.get_context("spawn"), or use threads'
        )


def _note_fork() -> None:
    global _parent_used_jax
    bridge = sys.modules.get("jax._src.xla_bridge")
    # The dictionary, since jax's function for it takes a lock that another thread of the parent may have held.
    _parent_used_jax = _parent_used_jax or bool(bridge is not None and getattr(bridge, "_backends", True))


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_note_fork)


# Padding after the last row, so that slicing the last batch never exceeds the array.
MARGIN = 4096


class DeviceTable:
    """The network inputs of all rows, transferred to the device once per fit.

    The number of rows is rounded up, so that tables of similar length share their compiled programs.

    Parameters
    ----------
    inputs : ndarray of shape (n, n_inputs), float32
    encoding : PiecewiseLinear, default=None
        Applied to each batch on the device, since the encoded table may be large.
    guides : ndarray of shape (n, n_guides), float32, default=None
        Further inputs, to the right of the others.
    """

    def __init__(
        self,
        inputs: NDArray[np.float32],
        encoding: PiecewiseLinear | None = None,
        guides: NDArray[np.float32] | None = None,
    ) -> None:
        import jax

        check_not_forked()
        DISK_CACHE.use()
        self.n_rows, n_own = inputs.shape
        self.n_inputs = n_own + (0 if guides is None else guides.shape[1])
        self.encoding = None if encoding is None else jax.device_put(encoding.constants)
        self.capacity = rounded_up(self.n_rows) + MARGIN
        padded = np.zeros((self.capacity, self.n_inputs), dtype=np.float32)
        padded[: self.n_rows, :n_own] = inputs
        if guides is not None:
            padded[: self.n_rows, n_own:] = guides
        self.inputs = jax.device_put(padded)

    def column(self, values: NDArray[Any]) -> "Array":
        """One value per row of the table, padded, float32, on the device."""
        import jax

        padded = np.zeros(self.capacity, dtype=np.float32)
        padded[: self.n_rows] = values
        column: Array = jax.device_put(padded)
        return column

    def rows(self, indices: NDArray[np.intp]) -> "Array":
        """Row indices, padded to the length of the table, int32, on the device."""
        import jax

        padded = np.zeros(self.capacity, dtype=np.int32)
        padded[: len(indices)] = indices
        rows: Array = jax.device_put(padded)
        return rows


def with_leaves(state: Any, leaves: list[Any]) -> Any:
    """A pytree on the device with the values of a list, as ``jax.tree.leaves`` returns it."""
    import jax

    return jax.device_put(jax.tree.unflatten(jax.tree.structure(state), leaves))


def rounded_up(n: int) -> int:
    """Round up to one of eight steps per power of two, at least 1024; at most an eighth above ``n`` beyond that.

    Examples
    --------
    >>> from usnrt.nn.device import rounded_up
    >>> [rounded_up(n) for n in (5, 1000, 8000, 8193)]
    [1024, 1024, 8192, 9216]
    """
    step = max(1024, (1 << max(n - 1, 1).bit_length()) // 16)
    return -(-n // step) * step


def compiled(program: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function so that its results do not depend on the number of threads that run it.

    Less is optimised than by default: the epoch of a training compiles in an eighth less time and runs as fast, with
    the same bits (networks of [256, 128, 64], 8 and 50 features). Its matrix products are calls of a library; what is
    compiled are loops over single numbers.
    """
    import jax

    return jax.jit(program, compiler_options=_compiler_options())


@functools.cache
def _compiler_options() -> dict[str, Any]:
    """Options under which no sum is divided by the number of threads; operations that are independent still share them.

    XLA runs a program on all cores, whatever ``n_jobs`` is, or on ``NPROC`` threads if that variable is set before jax
    is used. Versions of jax whose products and sums are divided by YNNPACK know an option against it.
    """
    import jax

    if jax.default_backend() != "cpu":
        return {}
    options = {
        "xla_cpu_multi_thread_eigen": False,
        "xla_backend_optimization_level": 1,
        "xla_llvm_disable_expensive_passes": True,
    }
    undivided = {**options, "xla_cpu_experimental_ynn_fusion_type": ""}
    try:
        jax.jit(lambda x: x, compiler_options=undivided).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return options
    return undivided
