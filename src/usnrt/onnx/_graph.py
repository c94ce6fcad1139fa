"""A builder of ONNX graphs: operators are called like functions, and numbers and arrays become constants."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto

# Supported by every onnxruntime since 1.14.
OPSET, ML_OPSET, IR_VERSION = 17, 3, 8
ML_DOMAIN = "ai.onnx.ml"

# A value in a graph is referred to by its name; constants may be passed directly.
Value = str | NDArray[Any] | np.generic


class Graph:
    """An ONNX graph under construction.

    Names of intermediate values start with ``prefix``, so that they are distinct from column names and from names in
    other graphs.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.onnx._graph import Graph
    >>> graph = Graph("demo")
    >>> x = graph.input("x", np.float64, ["n"])
    >>> graph.output("twice", graph.op("Mul", x, np.float64(2)), np.float64, ["n"])
    >>> [node.op_type for node in graph.make().node]
    ['Mul', 'Identity']
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.n_names = 0
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []

    def op(self, kind: str, *inputs: Value, domain: str = "", **attributes: Any) -> str:
        """Apply an operator with one output and return the name of the output."""
        return self.ops(kind, 1, *inputs, domain=domain, **attributes)[0]

    def ops(self, kind: str, n_outputs: int, *inputs: Value, domain: str = "", **attributes: Any) -> list[str]:
        """Apply an operator and return the names of its outputs."""
        from onnx import helper

        outputs = [self._name(kind) for _ in range(n_outputs)]
        names = [self._value(value) for value in inputs]
        self.nodes.append(helper.make_node(kind, names, outputs, domain=domain, **attributes))
        return outputs

    def cast(self, value: Value, dtype: DTypeLike) -> str:
        """Convert a value to another type and return the name of the result."""
        from onnx import helper

        return self.op("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def inner(self, name: str) -> "Graph":
        """An empty graph for the body of a `loop`; the name is distinct from that of other loops."""
        return Graph(f"{self.prefix}/{name}")

    def loop(self, n_iterations: Value, body: "Graph", *start: Value, n_scans: int = 0) -> list[str]:
        """Iterate ``body`` and return the names of the final state, one per initial value in ``start``.

        The body has inputs for the iteration, for a condition, and for each part of the state; its outputs are the
        condition and the new state. It can use all values of this graph. The ``n_scans`` further outputs of the body
        are stacked along a new first axis.
        """
        self.constants += body.constants  # in the outer graph, where runtimes prepare them only once
        body.constants = []
        return self.ops("Loop", len(start) + n_scans, n_iterations, "", *start, body=body.make())

    def input(self, name: str, dtype: DTypeLike, shape: Sequence[int | str], doc: str = "") -> str:
        """Declare an input and return its name."""
        self.inputs.append(_value_info(name, dtype, shape, doc))
        return name

    def output(self, name: str, value: Value, dtype: DTypeLike, shape: Sequence[int | str], doc: str = "") -> None:
        """Declare a value as the output of this name."""
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [self._value(value)], [name]))
        self.outputs.append(_value_info(name, dtype, shape, doc))

    def make(self) -> "GraphProto":
        """The graph as an ``onnx.GraphProto``."""
        from onnx import helper

        return helper.make_graph(self.nodes, self.prefix, self.inputs, self.outputs, self.constants)

    def _value(self, value: Value) -> str:
        if isinstance(value, str):
            return value
        from onnx import numpy_helper

        name = self._name("constant")
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), name))
        return name

    def _name(self, kind: str) -> str:
        self.n_names += 1
        return f"{self.prefix}/{kind}/{self.n_names}"


def ints(*numbers: int) -> NDArray[np.int64]:
    """Axes, indices or a shape as an operator's input.

    Examples
    --------
    >>> from usnrt.onnx._graph import ints
    >>> ints(-1, 3)
    array([-1,  3])
    """
    return np.array(numbers, dtype=np.int64)


def _value_info(name: str, dtype: DTypeLike, shape: Sequence[int | str], doc: str) -> "ValueInfoProto":
    from onnx import TensorProto, helper

    kind = TensorProto.STRING if dtype is str else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, list(shape), doc)
