"""HTML reports on fitted models: one self-contained file per report; ``usnrt.report`` is `write_report`."""

from usnrt.reporting._page import write_report

__all__ = ["write_report"]
