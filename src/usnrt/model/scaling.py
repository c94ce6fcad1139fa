"""Rows scaled for networks, with the scales."""

from collections.abc import Sequence
from dataclasses import dataclass

from usnrt.distributions import TargetMap
from usnrt.model.target import TargetScale, scale_target
from usnrt.tables import Column, NetworkInputs
from usnrt.tables.training import DistinctRows, TrainingTable


@dataclass(frozen=True)
class ScaledRows:
    """Rows that networks learn from, and how their features and targets were scaled."""

    table: TrainingTable
    inputs: NetworkInputs
    target: TargetScale


def scale_rows(
    rows: DistinctRows, columns: Sequence[Column], target_map: TargetMap | None = None, ranks_if_skewed: bool = True
) -> ScaledRows:
    """Learn the scales of network inputs and target from some rows, and apply them.

    Parameters
    ----------
    rows : DistinctRows
    columns : sequence of Column
        Of the encoder.
    target_map : TargetMap, optional
    ranks_if_skewed : bool, default=True
        See `NetworkInputs.fit`.
    """
    scale, y = scale_target(rows.target, rows.weight, target_map)
    inputs = NetworkInputs().fit(rows.raw, columns, rows.weight, ranks_if_skewed)
    scaled, weight = inputs.transform(rows.raw), rows.weight
    table = TrainingTable(rows.raw, scaled, y, weight, group=rows.group, has_groups=rows.has_groups)
    return ScaledRows(table, inputs, scale)
