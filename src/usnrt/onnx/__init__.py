"""Export of models as a single ONNX graph, from the columns of a table to mean, std, region and quantiles.

There is one module per step of a prediction: ``_columns`` encodes the table and finds the leaves, ``_support`` measures
support, ``_networks`` evaluates the networks of the leaves, ``_experts`` combines them with the memory and other
experts, ``_distributions`` calibrates. ``_graph`` builds the graph.
"""

from usnrt.onnx._columns import feeds
from usnrt.onnx._export import to_onnx

__all__ = ["feeds", "to_onnx"]
