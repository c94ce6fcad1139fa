"""A fitted model as a program for the evaluator of the what-if page: the operators of its ONNX graph, as JSON."""

import base64
import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from usnrt.model.fitted import FittedModel
from usnrt.onnx._columns import NO_DATE, EncodedColumns, find_leaves, input_names, missing_text, takes_matrix
from usnrt.onnx._export import first_member, quantile_functions, read_rows
from usnrt.onnx._graph import Graph, Shape, Tensor, Value
from usnrt.onnx._networks import network_inputs
from usnrt.onnx._support import first_rows
from usnrt.tables import TableEncoder

SHORT = 8  # arrays of up to so many numbers are written as numbers


class Program(Graph):
    """A graph whose operators are written as JSON instead of ONNX; the graphs of one model share their constants.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.whatif.program import Program
    >>> program = Program("demo")
    >>> x = program.input("x", np.float64, ["n"])
    >>> program.output("twice", x * 2.0, np.float64, ["n"])
    >>> program.make()["nodes"][0][:2], list(program.arrays.values())
    (['Mul', ['x', 'constant 0']], [('constant 0', {'type': 'float64', 'shape': [], 'values': [2.0]})])
    """

    def __init__(
        self, prefix: str, depth: int = 0, arrays: dict[str, tuple[str, dict[str, Any]]] | None = None
    ) -> None:
        super().__init__(prefix, depth)
        self.arrays = {} if arrays is None else arrays
        self._steps: list[list[Any]] = []
        self._inputs: list[str] = []
        self._outputs: list[list[str]] = []

    def ops(self, kind: str, n_outputs: int, *inputs: Value, domain: str = "", **attributes: Any) -> list[Tensor]:
        """See `Graph.ops`."""
        outputs = [self._name(kind) for _ in range(n_outputs)]
        given = {name: self._attribute(value) for name, value in attributes.items()}
        step = [kind, [self._value(value) for value in inputs], outputs]
        self._steps.append([*step, given] if given else step)
        return [Tensor(self, name) for name in outputs]

    def cast(self, value: Value, dtype: DTypeLike) -> Tensor:
        """See `Graph.cast`."""
        return self.op("Cast", value, to=_type(np.dtype(dtype)))

    def inner(self, name: str) -> "Program":
        """See `Graph.inner`."""
        return Program(f"{self.prefix}/{name}", self.depth + 1, self.arrays)

    def input(self, name: str, dtype: DTypeLike, shape: Shape, doc: str = "") -> Tensor:
        """See `Graph.input`."""
        self._inputs.append(name)
        return Tensor(self, name)

    def output(self, name: str, value: Value, dtype: DTypeLike, shape: Shape, doc: str = "") -> None:
        """See `Graph.output`."""
        self._outputs.append([name, self._value(value)])

    def make(self) -> dict[str, Any]:
        """Inputs, steps and outputs as values that JSON can hold."""
        return {"inputs": self._inputs, "nodes": self._steps, "outputs": self._outputs}

    def _attribute(self, value: Any) -> Any:
        """An attribute of an operator: long ones, such as the nodes of a forest, are constants."""
        if isinstance(value, list) and len(value) > SHORT and all(isinstance(word, str) for word in value):
            words, codes = np.unique(value, return_inverse=True)
            return {"words": words.tolist(), "constant": self._value(codes)} if len(words) < len(value) / 2 else value
        if isinstance(value, np.ndarray):
            return {"constant": self._value(value)} if value.size > SHORT else value.tolist()
        return value

    def _constant(self, array: NDArray[Any]) -> str:
        written = _array(array)
        key = hashlib.sha256(json.dumps(written).encode()).hexdigest()
        return self.arrays.setdefault(key, (f"constant {len(self.arrays)}", written))[0]


def _type(dtype: np.dtype[Any]) -> str:
    """Name of a type in programs: integers of all widths are one, exact up to 2^53."""
    if dtype.kind in "iu":
        return "int"
    return {"b": "bool", "O": "text", "U": "text"}.get(dtype.kind) or f"float{8 * max(dtype.itemsize, 4)}"


def _array(array: NDArray[Any]) -> dict[str, Any]:
    written: dict[str, Any] = {"type": _type(array.dtype), "shape": list(array.shape)}
    if array.dtype.kind in "OU" or (array.size <= SHORT and np.isfinite(np.asarray(array, dtype=np.float64)).all()):
        return {**written, "values": array.ravel().tolist()}
    stored = array.astype(_stored(array))
    return {**written, "stored": stored.dtype.name, "base64": base64.b64encode(stored.tobytes()).decode()}


def _stored(array: NDArray[Any]) -> str:
    """The smallest little-endian type that holds the values of an array."""
    if array.dtype.kind == "b":
        return "|u1"
    if array.dtype.kind in "iu":
        fits = np.iinfo(np.int32).min <= array.min() and array.max() <= np.iinfo(np.int32).max
        return "<i4" if fits else "<f8"
    return f"<f{array.dtype.itemsize}"


def row_program(encoder: TableEncoder, model: FittedModel, arrays: dict[str, Any]) -> dict[str, Any]:
    """From the columns of a table to quantile functions and support: what `FittedModel.predict` returns for new rows.

    Outputs are ``quantiles``, ``leaf``, ``region``, ``supported``, flags of `RowSupport`, and the encoded row: ``all
    numbers``, ``numbers`` (the nearest supported ones) and ``category <position>``. Constants are added to ``arrays``.
    """
    graph = Program("row", arrays=arrays)
    rows = read_rows(graph, encoder, model)
    columns, found, numbers = rows.columns, rows.found, rows.columns.numbers
    if rows.evaluated_numbers is not None and rows.widening:
        numbers = first_rows(graph, found, rows.evaluated_numbers)
    outputs = {
        "quantiles": quantile_functions(graph, model, rows.inputs, rows.leaves, rows.widening),
        "leaf": rows.leaf,
        "region": rows.region,
        "supported": found.supported,
        "outside": found.outside,
        "far": found.far,
        "unlike": found.unlike,
        "all numbers": columns.numbers,
        "numbers": numbers,
    }
    return _with_outputs(graph, outputs | {f"category {j}": index for j, index in columns.categories.items()})


def moments_program(encoder: TableEncoder, model: FittedModel, arrays: dict[str, Any]) -> dict[str, Any]:
    """From encoded rows to quantile functions, without support; parameters as for `row_program`.

    Inputs are ``numbers``, shape (n, p), and ``category <position>``, shape (n,).
    """
    graph = Program("moments", arrays=arrays)
    positions = [j for j, column in enumerate(encoder.columns_) if not column.is_categorical]
    numbers = graph.input("numbers", np.float64, ["n", len(positions)]) if positions else None
    categories = {
        j: graph.input(f"category {j}", np.int64, ["n"])
        for j, column in enumerate(encoder.columns_)
        if column.is_categorical
    }
    first = next(iter(categories.values())) if numbers is None else numbers
    columns = EncodedColumns(first, numbers, positions, categories)
    leaves = find_leaves(graph, columns, [member.tree for member in model.members], encoder.n_categories_)
    inputs = network_inputs(graph, columns, model.inputs)
    quantiles = quantile_functions(graph, model, inputs, leaves, None)
    return _with_outputs(graph, {"quantiles": quantiles, "leaf": first_member(leaves)})


def _with_outputs(graph: Program, outputs: dict[str, Tensor | None]) -> dict[str, Any]:
    for name, value in outputs.items():
        if value is not None:
            graph.output(name, value, np.float64, [])
    return graph.make()


def input_columns_of(encoder: TableEncoder) -> dict[str, Any]:
    """How cells become inputs of `row_program`: the names of its inputs and what stands for a missing value."""
    is_matrix = takes_matrix(encoder)
    names = encoder.source_names_ if is_matrix else input_names(encoder)
    columns = [
        {
            "name": source,
            "input": name,
            "kind": "ignored" if kind == "empty" else kind,
            "missing": {"text": missing_text(encoder, i), "date": float(NO_DATE)}.get(kind),
        }
        for i, (source, name, kind) in enumerate(zip(encoder.source_names_, names, encoder.source_types_))
    ]
    return {"matrix": is_matrix, "columns": columns}
