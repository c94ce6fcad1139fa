"""Tables as users have them, turned into split features (codes) and network inputs (scaled, one-hot)."""

from usnrt.tables.columns import Column
from usnrt.tables.encoder import TableEncoder
from usnrt.tables.inputs import NetworkInputs
from usnrt.tables.reading import FeatureTable, read_table
from usnrt.tables.training import DistinctRows, TrainingTable

__all__ = ["Column", "DistinctRows", "FeatureTable", "NetworkInputs", "TableEncoder", "TrainingTable", "read_table"]
