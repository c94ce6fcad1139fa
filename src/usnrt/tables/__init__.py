"""Reading and encoding of tables: the layer between what users pass as X and the arrays that models are fitted on.

`read_table` validates arrays and data frames. `TableEncoder` encodes them numerically for the splits, with integer
codes for categories. `NetworkInputs` scales and one-hot encodes them for the networks. `TrainingTable` holds the result
after duplicate rows were merged (`usnrt.tables.rows`).
"""

from usnrt.tables.columns import Column
from usnrt.tables.encoder import TableEncoder
from usnrt.tables.inputs import NetworkInputs
from usnrt.tables.reading import FeatureTable, read_table
from usnrt.tables.training import TrainingTable

__all__ = ["Column", "FeatureTable", "NetworkInputs", "TableEncoder", "TrainingTable", "read_table"]
