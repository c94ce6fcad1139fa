"""Start-up of commands without packages that only other packages import, and that take longer than a prediction."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


class DeferredModule(ModuleType):
    """Stands for a module in `sys.modules` until an attribute of it is used.

    Examples
    --------
    >>> from usnrt.cli._light_imports import DeferredModule
    >>> DeferredModule("colorsys").rgb_to_hsv(1.0, 1.0, 1.0)
    (0.0, 0.0, 1.0)
    """

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

    Importing them takes 0.5 s of processor time, as much as all the rest of ``usnrt predict``.

    Parameters
    ----------
    uses_pandas : bool, default=False
        Whether the command runs other packages, which may need pandas.
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
