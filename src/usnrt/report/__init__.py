"""The report: one page about a model that needs no network, no server and no knowledge of Python to read.

The module can be called: ``usnrt.report(model, X, y, "report.html")`` is `write_report`.
"""

import sys
from types import ModuleType

from usnrt.report._page import write_report

__all__ = ["write_report"]


class _CallableModule(ModuleType):
    __call__ = staticmethod(write_report)  # no frame between: warnings name the line of the caller


sys.modules[__name__].__class__ = _CallableModule
