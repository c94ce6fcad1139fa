"""Calibration by scores that count half on either side."""

from dataclasses import replace

import numpy as np

from usnrt.calibration.groups import Calibration, ScoredRows, by_region
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
