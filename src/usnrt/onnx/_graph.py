"""A pen for ONNX graphs: operators are called like functions, and numbers and arrays become constants."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Old enough for every onnxruntime since 1.14, new enough for all that is needed here.
OPSET, ML_OPSET, IR_VERSION = 17, 3, 8
ML_DOMAIN = "ai.onnx.ml"

# What flows through a graph is known by its name; constants may be given as they are.
Value = str | NDArray[Any] | np.generic


class Graph:
    """A graph that is being written.

    Names of its own begin with ``prefix``, so that they meet neither names of columns nor those of another graph.

    Parameters
    ----------
    prefix : str

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
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def op(self, kind: str, *inputs: Value, domain: str = "", **attributes: Any) -> str:
        """Apply an operator with one output; returns the name of that output."""
        return self.ops(kind, 1, *inputs, domain=domain, **attributes)[0]

    def ops(self, kind: str, n_outputs: int, *inputs: Value, domain: str = "", **attributes: Any) -> list[str]:
        """Apply an operator; returns the names of its outputs."""
        from onnx import helper

        outputs = [self._name(kind) for _ in range(n_outputs)]
        names = [self._value(value) for value in inputs]
        self.nodes.append(helper.make_node(kind, names, outputs, domain=domain, **attributes))
        return outputs

    def cast(self, value: Value, dtype: Any) -> str:
        """Another type of number."""
        from onnx import helper

        return self.op("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def loop(self, n_rounds: Value, body: "Graph", *start: Value) -> list[str]:
        """Run ``body`` some times; its state, one output for each of ``start``, is what comes out.

        The body has an input for the number of the round, one for a condition, and one for each part of the state;
        its outputs are the condition and the state. It sees all of this graph.
        """
        self.constants += body.constants  # beside those of the outer graph, where runtimes prepare them once
        body.constants = []
        return self.ops("Loop", len(start), n_rounds, "", *start, body=body.make())

    def input(self, name: str, dtype: Any, shape: Sequence[int | str], about: str = "") -> str:
        """Declare an input; returns its name."""
        self.inputs.append(_declaration(name, dtype, shape, about))
        return name

    def output(self, name: str, value: Value, dtype: Any, shape: Sequence[int | str], about: str = "") -> None:
        """Declare that a value is an output under this name."""
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [self._value(value)], [name]))
        self.outputs.append(_declaration(name, dtype, shape, about))

    def make(self) -> Any:
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


def whole(*numbers: int) -> NDArray[np.int64]:
    """Axes or a shape, as operators take them.

    Examples
    --------
    >>> from usnrt.onnx._graph import whole
    >>> whole(-1, 3)
    array([-1,  3])
    """
    return np.array(numbers, dtype=np.int64)


def _declaration(name: str, dtype: Any, shape: Sequence[int | str], about: str) -> Any:
    from onnx import TensorProto, helper

    kind = TensorProto.STRING if dtype is str else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, list(shape), about)
