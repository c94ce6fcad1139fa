"""Tables as they are, turned into numbers: for the splits (codes) and for the networks (scaled, one-hot)."""

from usnrt.tables.columns import Column
from usnrt.tables.encoder import TableEncoder
from usnrt.tables.inputs import NetworkInputs
from usnrt.tables.reading import FeatureTable, read_table

__all__ = ["Column", "FeatureTable", "NetworkInputs", "TableEncoder", "read_table"]
