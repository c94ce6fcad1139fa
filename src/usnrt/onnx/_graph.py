"""A builder of ONNX graphs: values have the operators of numpy, and numbers and arrays become constants."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto, ValueInfoProto

# Supported by every onnxruntime since 1.14.
OPSET, ML_OPSET, IR_VERSION = 17, 3, 8
ML_DOMAIN = "ai.onnx.ml"

Shape = Sequence[int | str]


def _operator(kind: str, reflected: bool = False) -> "Callable[[Tensor, Value], Tensor]":
    """A method that applies a binary operator of ONNX."""

    def apply(self: "Tensor", other: "Value") -> "Tensor":
        graph = self.graph
        if isinstance(other, Tensor) and other.graph.depth > graph.depth:
            graph = other.graph
        return graph.op(kind, other, self) if reflected else graph.op(kind, self, other)

    return apply


class Tensor:
    """A value in a graph, by its name; the operators of numpy add nodes to the graph.

    An operator belongs to the inner one of two graphs: the body of a loop can use the values around it.
    """

    __array_ufunc__ = None  # numpy leaves the operators to this class

    def __init__(self, graph: "Graph", name: str) -> None:
        self.graph, self.name = graph, name

    def __str__(self) -> str:
        return self.name

    __add__, __radd__ = _operator("Add"), _operator("Add", reflected=True)
    __sub__, __rsub__ = _operator("Sub"), _operator("Sub", reflected=True)
    __mul__, __rmul__ = _operator("Mul"), _operator("Mul", reflected=True)
    __truediv__, __mod__, __matmul__ = _operator("Div"), _operator("Mod"), _operator("MatMul")
    __and__, __or__ = _operator("And"), _operator("Or")
    __lt__, __le__ = _operator("Less"), _operator("LessOrEqual")
    __gt__, __ge__ = _operator("Greater"), _operator("GreaterOrEqual")

    def unsqueeze(self, *axes: int) -> "Tensor":
        """With axes of length 1."""
        return self.graph.op("Unsqueeze", self, ints(*axes))

    def squeeze(self, axis: int) -> "Tensor":
        """Without an axis of length 1."""
        return self.graph.op("Squeeze", self, ints(axis))

    def sum(self, axis: int, keepdims: int = 0) -> "Tensor":
        """Sum over an axis."""
        return self.graph.op("ReduceSum", self, ints(axis), keepdims=keepdims)

    def cast(self, dtype: DTypeLike) -> "Tensor":
        """Converted to another type."""
        return self.graph.cast(self, dtype)


# What operators take; numbers and arrays become constants.
Value = Tensor | str | NDArray[Any] | np.generic | float


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
    >>> graph.output("twice", 2.0 + x, np.float64, ["n"])
    >>> [node.op_type for node in graph.make().node]
    ['Add', 'Identity']
    """

    def __init__(self, prefix: str, depth: int = 0) -> None:
        self.prefix, self.depth = prefix, depth  # of loops around the graph
        self.n_names = 0
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []

    def op(self, kind: str, *inputs: Value, domain: str = "", **attributes: Any) -> Tensor:
        """Apply an operator with one output."""
        return self.ops(kind, 1, *inputs, domain=domain, **attributes)[0]

    def ops(self, kind: str, n_outputs: int, *inputs: Value, domain: str = "", **attributes: Any) -> list[Tensor]:
        """Apply an operator with several outputs."""
        from onnx import helper

        outputs = [self._name(kind) for _ in range(n_outputs)]
        names = [self._value(value) for value in inputs]
        self.nodes.append(helper.make_node(kind, names, outputs, domain=domain, **attributes))
        return [Tensor(self, name) for name in outputs]

    def cast(self, value: Value, dtype: DTypeLike) -> Tensor:
        """A value converted to another type."""
        from onnx import helper

        return self.op("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def gather(self, table: Value, index: Value, axis: int = 0) -> Tensor:
        """Entries of a table along an axis."""
        return self.op("Gather", table, index, axis=axis)

    def concat(self, values: Sequence[Tensor], axis: int) -> Tensor:
        """Values one after the other along an axis; a single one as it is."""
        return values[0] if len(values) == 1 else self.op("Concat", *values, axis=axis)

    def loop(
        self,
        name: str,
        n_iterations: Value,
        step: Callable[..., Sequence[Tensor]],
        state: Mapping[str, tuple[Tensor, DTypeLike, Shape]],
        stacked: Mapping[str, tuple[DTypeLike, Shape]] = MappingProxyType({}),
    ) -> list[Tensor]:
        """Repeat a step; returns the last state, and what all iterations add, stacked along a new first axis.

        Parameters
        ----------
        name : str
            Distinct from that of other loops.
        step : callable
            ``step(body, iteration, *state)`` returns the next state, then what the iteration adds.
        state : mapping
            The start, the type and the shape of each part of the state, by name.
        stacked : mapping
            The type and the shape of each value that an iteration adds, by name.
        """
        body = self.inner(name)
        iteration = body.input(f"{body.prefix}/iteration", np.int64, [])
        condition = body.input(f"{body.prefix}/condition", np.bool_, [])
        before = [body.input(f"{body.prefix}/{part}", dtype, shape) for part, (_, dtype, shape) in state.items()]
        after = step(body, iteration, *before)
        body.output(f"{body.prefix}/condition out", condition, np.bool_, [])
        kinds = {f"{part} out": (dtype, shape) for part, (_, dtype, shape) in state.items()} | dict(stacked)
        for (part, kind), value in zip(kinds.items(), after):
            body.output(f"{body.prefix}/{part}", value, *kind)
        start = [value for value, _, _ in state.values()]
        self.constants += body.constants  # in the outer graph, where runtimes prepare them only once
        body.constants = []
        return self.ops("Loop", len(kinds), n_iterations, "", *start, body=body.make())

    def inner(self, name: str) -> "Graph":
        """An empty graph for the body of a loop."""
        return Graph(f"{self.prefix}/{name}", self.depth + 1)

    def input(self, name: str, dtype: DTypeLike, shape: Shape, doc: str = "") -> Tensor:
        """Declare an input."""
        self.inputs.append(_value_info(name, dtype, shape, doc))
        return Tensor(self, name)

    def output(self, name: str, value: Value, dtype: DTypeLike, shape: Shape, doc: str = "") -> None:
        """Declare a value as the output of this name."""
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [self._value(value)], [name]))
        self.outputs.append(_value_info(name, dtype, shape, doc))

    def make(self) -> Any:
        """The graph as an ``onnx.GraphProto``."""
        from onnx import helper

        return helper.make_graph(self.nodes, self.prefix, self.inputs, self.outputs, self.constants)

    def _value(self, value: Value) -> str:
        if isinstance(value, Tensor | str):
            return str(value)
        return self._constant(np.asarray(value, dtype=np.int64 if isinstance(value, int) else None))

    def _constant(self, array: NDArray[Any]) -> str:
        """The name of a constant."""
        from onnx import numpy_helper

        name = self._name("constant")
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return name

    def _name(self, kind: str) -> str:
        self.n_names += 1
        return f"{self.prefix}/{kind}/{self.n_names}"


def ints(*numbers: int) -> NDArray[np.int64]:
    """Axes, indices or a shape as an operator's input."""
    return np.array(numbers, dtype=np.int64)


def _value_info(name: str, dtype: DTypeLike, shape: Shape, doc: str) -> "ValueInfoProto":
    from onnx import TensorProto, helper

    kind = TensorProto.STRING if dtype is str else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, list(shape), doc)
