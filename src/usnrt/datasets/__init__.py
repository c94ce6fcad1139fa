"""Data sets: the paper's 17 from UCI, and generated tables whose noise is known."""

from usnrt.datasets.generators import Truth, make_heteroscedastic

__all__ = ["Truth", "make_heteroscedastic"]
