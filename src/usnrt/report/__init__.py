"""HTML reports on fitted models: one self-contained file per report.

The module is callable: ``usnrt.report(model, X, y, "report.html")`` is `write_report`.
"""

import sys
from types import ModuleType

from usnrt.report._page import write_report

__all__ = ["write_report"]


class _CallableModule(ModuleType):
    __call__ = staticmethod(write_report)  # static, so that warnings refer to the caller's line


sys.modules[__name__].__class__ = _CallableModule
