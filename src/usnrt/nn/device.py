"""Arrays on the device, and programs compiled for it."""

import functools
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.jax_process import DISK_CACHE, check_not_forked, programs_folder

if TYPE_CHECKING:
    from jax import Array

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
    """Compile a function for a single thread: nodes are trained in parallel, and results do not depend on it.

    Less is optimised than by default: the epoch of a training is compiled in 1.65 s of processor time instead of 2.1, and
    runs as fast, with the same bits (networks of [256, 128, 64], 8 and 50 features). Its matrix products are those of a
    library; loops over single numbers remain, which need no more.
    """
    import jax

    return jax.jit(program, compiler_options=_options())


@functools.cache
def _options() -> dict[str, Any]:
    import jax

    if jax.default_backend() != "cpu":
        return {}
    return {
        "xla_cpu_multi_thread_eigen": False,
        "xla_backend_optimization_level": 1,
        "xla_llvm_disable_expensive_passes": True,
    }


_USED_SHAPES: set[str] = set()


def compilation_notice(n_rows: int, n_inputs: int, *architecture: object) -> str:
    """Why the first fit of a table of this shape takes longer; empty from the second fit on this machine on.

    Parameters
    ----------
    n_rows, n_inputs : int
        Of the table of network inputs; tables of similar length share their programs.
    *architecture : objects
        What else determines the compiled programs; compared by their text.
    """
    import jax

    key = repr((jax.__version__, rounded_up(n_rows), n_inputs, *architecture, str(programs_folder())))
    name = hashlib.sha256(key.encode()).hexdigest()[:24]
    root = programs_folder()
    marker = None if root is None else root / "shapes" / name
    if name in _USED_SHAPES or (marker is not None and marker.exists()):
        return ""
    _USED_SHAPES.add(name)
    kept = "in this process"
    if marker is not None and root is not None:
        try:
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()
            kept = f"in {root}"
        except OSError:
            pass  # without a writable folder the notice comes again in the next process, and so does the compilation
    return (
        f"the first fit of a table of this shape (up to {rounded_up(n_rows):,} rows, {n_inputs} inputs) compiles its "
        f"programs and takes longer; they are kept {kept} for later fits"
    )
