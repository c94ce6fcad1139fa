"""Experts: what predicts quantile functions of rows, and how a region combines them.

`registry` has the names of all. The first three are trained together, since the second one is the first one with guides
from the third one. Others are registered by the modules that define them, in the order of the imports here; validation
rows then decide, region by region, how much each counts (`extension_templates/expert.py`).
"""

from usnrt.experts import (  # noqa: F401
    forest,
    linear,
)
