"""Tables as they are, turned into numbers: for the splits (codes) and for the networks (scaled, one-hot)."""

from usnrt.encode._columns import Column
from usnrt.encode._encoder import TableEncoder
from usnrt.encode._inputs import NetworkInputs
from usnrt.encode._reading import FeatureTable, read_table

__all__ = ["Column", "FeatureTable", "NetworkInputs", "TableEncoder", "read_table"]
