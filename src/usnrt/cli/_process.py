"""What the command changes in its process: imports that it does not need, and how it ends by SIGTERM."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any

# As from ``kill`` or a scheduler: the command ends like after Ctrl-C, so that temporary files are removed.
TERMINATED = 128 + signal.SIGTERM


@contextmanager
def termination_as_interrupt() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt in the block if the process receives SIGTERM; yields the signals received."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # which alone may handle signals
        yield received
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, before)


class DeferredModule(ModuleType):
    """Stands for a module in `sys.modules` until an attribute of it is used."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


class _Hidden:
    """A finder of modules for which a package is not installed. None in `sys.modules` is no module for pyarrow."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Refuse the package; None for any other, which the next finder finds."""
        if name == self.name:
            raise ModuleNotFoundError(f"{name} is hidden from this command", name=name)


@contextmanager
def light_imports(uses_pandas: bool = False) -> Iterator[None]:
    """Defer ``scipy.stats`` and hide pandas: scikit-learn and pyarrow import them, and our commands use neither.

    Importing them takes 0.5 s of processor time, as much as all the rest of ``usnrt predict``. Commands that run other
    packages may need pandas.
    """
    deferred, hidden = DeferredModule("scipy.stats"), _Hidden("pandas")
    sys.modules.setdefault("scipy.stats", deferred)
    if not uses_pandas:
        sys.meta_path.insert(0, hidden)
    try:
        yield
    finally:
        if sys.modules.get("scipy.stats") is deferred:
            del sys.modules["scipy.stats"]
        if hidden in sys.meta_path:
            sys.meta_path.remove(hidden)
