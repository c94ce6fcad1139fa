"""The methods of calibration by name.

A method is a function of the scored rows of a fit and its tree, and returns a `usnrt.calibration.groups.Calibration`.
To add one, write it in a module of its own and enter it here: the parameter ``calibration`` of the estimators then
takes its name (`extension_templates/calibration.py`).
"""

from collections.abc import Callable

from usnrt.calibration.groups import Calibration, ScoredRows, by_region, by_table
from usnrt.tree.structure import Tree

METHODS: dict[str, Callable[[ScoredRows, Tree], Calibration]] = {
    "region": by_region,
    "global": by_table,
}
