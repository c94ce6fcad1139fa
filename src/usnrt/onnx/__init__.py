"""Models as one ONNX graph: a row of the table goes in as it is, mean, std, leaf and quantiles come out.

The way of the data is that of the library, a module a step: ``_columns`` reads the table, ``_routing`` finds the
leaves, ``_networks`` asks the networks of those leaves, ``_answers`` calibrates. ``_graph`` is the pen they write with.
"""

from usnrt.onnx._columns import feeds
from usnrt.onnx._export import to_onnx

__all__ = ["feeds", "to_onnx"]
