"""Template of a calibration method: copy this file, replace the function, and import the copy.

Within the library the file belongs in ``src/usnrt/calibration``, and the one line to add is its import in
``src/usnrt/calibration/__init__.py``. In your own project import it before anything else of usnrt. From then on
``USNRTRegressor(calibration="symmetric")`` and ``model.calibrate(X, y, by="symmetric")`` take its name.

A method returns a `usnrt.calibration.groups.Calibration`: distributions, intervals, and whether they are guaranteed.
Most make a `GroupCalibration` of other scores or other groups; it can be stored, exported to ONNX and followed online.
"""

from dataclasses import replace

import numpy as np

from usnrt.calibration.groups import METHODS, Calibration, ScoredRows, by_region
from usnrt.tree.structure import Tree


def symmetric_by_region(scored: ScoredRows, tree: Tree) -> Calibration:
    """Every score counts half on either side, so that intervals are symmetric about the median.

    ``scored`` are rows that no network was trained on, with their conformity scores, regions, weights and groups;
    ``tree`` has the regions.
    """
    group = None if scored.group is None else np.tile(scored.group, 2)
    both = replace(
        scored,
        scores=np.concatenate([scored.scores, -scored.scores]),
        leaf=np.tile(scored.leaf, 2),
        weight=np.tile(scored.weight, 2),
        group=group,
    )
    return by_region(both, tree)


METHODS["symmetric"] = symmetric_by_region
