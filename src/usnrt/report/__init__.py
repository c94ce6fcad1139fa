"""The report: one page about a model that needs no network, no server and no knowledge of Python to read.

The module can be called: ``usnrt.report(model, X, y, "report.html")`` is `write_report`.
"""

import sys
from types import ModuleType
from typing import Any

from usnrt.report._page import write_report

__all__ = ["write_report"]


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return write_report(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
