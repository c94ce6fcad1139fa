"""Support of rows in the graph: measurement, rows to evaluate the networks at, and wider distributions.

The operators follow `usnrt.calibration.support`. The networks are evaluated at the n clamped rows, followed by the m
rows outside their range, which are clamped to the range extended by one unit.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from usnrt.calibration.landmarks import LARGEST, Landmarks
from usnrt.calibration.support import MAX_DELTA, REACH, Support
from usnrt.nn.quantiles import MEDIAN, POSITIONS
from usnrt.onnx._columns import EncodedColumns
from usnrt.onnx._graph import Graph, Value, ints
from usnrt.onnx._networks import HALF_WIDTH

END = np.iinfo(np.int64).max


@dataclass(frozen=True)
class MeasuredSupport:
    """Names of the measured values, each of shape (n,) except ``rows``.

    Attributes
    ----------
    supported : str
        bool.
    region : str
        Index of the ranges that apply, int64.
    unknown_variance, walk, distance : str
        As in `usnrt.calibration.support.RowSupport`, float64.
    rows : str
        Indices of the m rows outside their range, shape (m,), int64; "" if the table has no numeric columns.
    outside, far, unlike : str
        As in `RowSupport`, bool; "" if none can be.
    """

    supported: str
    region: str
    unknown_variance: str
    walk: str
    distance: str
    rows: str = ""
    outside: str = ""
    far: str = ""
    unlike: str = ""


def measure(
    graph: Graph, support: Support, columns: EncodedColumns, n_categories: NDArray[np.int64], leaf: str
) -> tuple[MeasuredSupport, EncodedColumns]:
    """Measure rows, and clamp them.

    Parameters
    ----------
    n_categories : ndarray of int of shape (n_encoded,)
        0 for numeric columns.
    leaf : str
        Name, shape (n,), int64, counted from 0.

    Returns
    -------
    EncodedColumns
        The n + m rows at which the networks are evaluated.
    """
    unknown_variance, unknown = _unknown_columns(graph, support, columns, n_categories, leaf)
    region = graph.op("Where", unknown, np.int64(len(support.low) - 1), leaf)
    if not columns.positions:
        zeros = graph.op("Mul", unknown_variance, np.float64(0))
        return MeasuredSupport(graph.op("Not", unknown), region, unknown_variance, zeros, zeros), columns
    tables = (table[:, columns.positions] for table in (support.low, support.high, support.below, support.above))
    low, high, below, above = (graph.op("Gather", table, region, axis=0) for table in tables)
    numbers = columns.numbers
    cells = graph.op("Or", graph.op("Less", numbers, low), graph.op("Greater", numbers, high))
    outside = _any(graph, cells)
    under = graph.op("Div", graph.op("Sub", low, numbers), below)
    over = graph.op("Div", graph.op("Sub", numbers, high), above)
    delta = graph.op("Where", cells, graph.op("Max", under, over), np.float64(0))
    delta = graph.op("Min", delta, np.float64(MAX_DELTA))
    growth = support.growth
    walk = _weighted(graph, delta, growth[columns.positions])
    squares = graph.op("Mul", delta, delta)
    distance = _weighted(graph, squares, (growth / growth.max())[columns.positions])
    unsupported = graph.op("Or", outside, unknown)
    assert support.landmarks is not None
    spaces = [(numbers, support.landmarks)]
    if support.subjects is not None:
        of_subject = np.searchsorted(columns.positions, support.subjects.columns)
        spaces.append((graph.op("Gather", numbers, of_subject, axis=1), support.subjects.landmarks))
    beyond_landmarks = []
    for values, landmarks in spaces:
        excess = _excess(graph, landmarks, values)
        distance = graph.op("Add", distance, graph.op("Mul", excess, excess))
        beyond_landmarks.append(graph.op("Greater", excess, np.float64(0)))
        unsupported = graph.op("Or", unsupported, beyond_landmarks[-1])
    rows = graph.op("Squeeze", graph.op("NonZero", outside), ints(0))
    measured = MeasuredSupport(
        graph.op("Not", unsupported), region, unknown_variance, walk, distance, rows, outside, *beyond_landmarks
    )
    clamped = _clipped(graph, numbers, low, high)
    reach = np.float64(REACH)
    lowest = graph.op("Sub", low, graph.op("Mul", below, reach))
    highest = graph.op("Add", high, graph.op("Mul", above, reach))
    beyond = graph.op("Gather", _clipped(graph, numbers, lowest, highest), rows, axis=0)
    evaluated = graph.op("Concat", clamped, beyond, axis=0)
    categories = {
        position: graph.op("Concat", index, graph.op("Gather", index, rows, axis=0), axis=0)
        for position, index in columns.categories.items()
    }
    return measured, replace(columns, first=evaluated, numbers=evaluated, categories=categories)


def widened_quantiles(graph: Graph, support: Support, found: MeasuredSupport, quantiles: str) -> str:
    """Quantile functions of n rows, widened where support is lacking.

    Parameters
    ----------
    quantiles : str
        Name, shape (n + m, J), of the predictions of the networks.

    Returns
    -------
    str
        Name, shape (n, J).
    """
    median = graph.op("Gather", quantiles, np.int64(MEDIAN), axis=1)
    quantiles, shift = first_rows(graph, found, quantiles), _shift(graph, found, median)
    quantiles = graph.op("Add", quantiles, graph.op("Unsqueeze", shift, ints(1)))
    half_width = _weighted(graph, quantiles, HALF_WIDTH)
    variance = graph.op("Unsqueeze", added_variance(graph, support, found, half_width), ints(1))
    median = graph.op("Gather", quantiles, ints(MEDIAN), axis=1)
    off = graph.op("Sub", quantiles, median)
    squares = graph.op("Add", graph.op("Mul", off, off), graph.op("Mul", variance, POSITIONS**2))
    wider = graph.op("Add", median, graph.op("Mul", graph.op("Sqrt", squares), np.sign(POSITIONS)))
    return graph.op("Where", graph.op("Unsqueeze", found.supported, ints(1)), quantiles, wider)


def added_variance(graph: Graph, support: Support, found: MeasuredSupport, half_width: str) -> str:
    """Variance added for lack of support, see `Support.added_variance`; name, shape (n,)."""
    typical = graph.op("Gather", support.typical_variance, found.region, axis=0)
    square = graph.op("Mul", half_width, half_width)
    deficit = graph.op("Max", graph.op("Sub", typical, square), np.float64(0))
    room = graph.op("Max", graph.op("Sub", np.float64(support.target_variance), square), np.float64(0))
    near = graph.op("Exp", graph.op("Mul", found.distance, np.float64(-0.5)))
    far = graph.op("Mul", graph.op("Sub", np.float64(1), near), graph.op("Add", deficit, np.float64(1)))
    return graph.op("Add", graph.op("Add", graph.op("Min", found.unknown_variance, room), found.walk), far)


def _unknown_columns(
    graph: Graph, support: Support, columns: EncodedColumns, n_categories: NDArray[np.int64], leaf: str
) -> tuple[str, str]:
    """Sum of the missing-value variances of unknown columns, and whether there are any; names, shape (n,)."""
    # Starts with a column of zeros, so that there is something to sum without numbers and categories.
    flags = [graph.op("Unsqueeze", graph.op("Less", leaf, np.int64(0)), ints(1))]
    variances = [np.zeros(1)]
    if columns.positions:
        expected = support.never_missing[columns.positions]
        flags.append(graph.op("And", graph.op("IsNaN", columns.numbers), expected))
        variances.append(support.missing_value_variance[columns.positions])
    for position, index in columns.categories.items():
        table = np.zeros((n_categories[position] + 2, 1), dtype=bool)
        table[-2:, 0] = True, support.never_missing[position]
        flags.append(graph.op("Gather", table, index, axis=0))
        variances.append(support.missing_value_variance[[position]])
    matrix = graph.op("Concat", *flags, axis=1)
    return _weighted(graph, graph.cast(matrix, np.float64), np.concatenate(variances)), _any(graph, matrix)


def _excess(graph: Graph, landmarks: Landmarks, numbers: str) -> str:
    """Excess distance from the landmarks, see `Landmarks.excess`; name, shape (n,)."""
    scale = np.where(landmarks.scale > 0, landmarks.scale, np.inf)
    units = graph.op("Div", graph.op("Sub", numbers, landmarks.centre), scale)
    units = graph.cast(graph.op("Clip", units, np.float64(-LARGEST), np.float64(LARGEST)), np.float32)
    size = graph.op("Log", graph.op("Add", graph.op("Abs", units), np.float32(1)))
    squashed = graph.op("Mul", size, graph.op("Sign", units))
    filled = graph.op("Where", graph.op("IsNaN", squashed), np.float32(0), squashed)
    at = graph.op("MatMul", graph.op("Sub", filled, landmarks.offset), landmarks.whitening)
    half = 0.5 * np.sum(landmarks.points * landmarks.points, axis=1)
    products = graph.op("Sub", graph.op("MatMul", at, np.ascontiguousarray(landmarks.points.T)), half)
    nearest = graph.cast(graph.op("ReduceMax", products, axes=[1], keepdims=0), np.float64)
    norm = graph.op("ReduceSumSquare", graph.cast(at, np.float64), axes=[1], keepdims=0)
    squares = graph.op("Sub", norm, graph.op("Mul", nearest, np.float64(2)))
    distance = graph.op("Sqrt", graph.op("Max", squares, np.float64(0)))
    relative = graph.op("Sub", graph.op("Div", distance, np.float64(landmarks.threshold)), np.float64(1))
    return graph.op("Max", relative, np.float64(0))


def _clipped(graph: Graph, numbers: str, low: str, high: str) -> str:
    """Numbers clipped to bounds; NaN is kept."""
    above = graph.op("Where", graph.op("Less", numbers, low), low, numbers)
    return graph.op("Where", graph.op("Greater", numbers, high), high, above)


def first_rows(graph: Graph, found: MeasuredSupport, values: str) -> str:
    """The first n of n + m values."""
    if not found.rows:
        return values
    return graph.op("Slice", values, ints(0), graph.op("Shape", found.supported), ints(0))


def _shift(graph: Graph, found: MeasuredSupport, values: str) -> str:
    """Difference between the values at the m extended rows and at the same clamped rows; 0 for other rows."""
    first = first_rows(graph, found, values)
    zeros = graph.op("Mul", first, np.float64(0))
    if not found.rows:
        return zeros
    rest = graph.op("Slice", values, graph.op("Shape", found.supported), ints(END), ints(0))
    change = graph.op("Sub", rest, graph.op("Gather", first, found.rows, axis=0))
    return graph.op("ScatterND", zeros, graph.op("Unsqueeze", found.rows, ints(1)), change)


def _weighted(graph: Graph, values: str, weights: Value) -> str:
    """Weighted sum of the columns; name, shape (n,)."""
    return graph.op("ReduceSum", graph.op("Mul", values, weights), ints(1), keepdims=0)


def _any(graph: Graph, flags: str) -> str:
    """Whether any flag of each row is set; name, shape (n,)."""
    count = graph.op("ReduceSum", graph.cast(flags, np.float32), ints(1), keepdims=0)
    return graph.op("Greater", count, np.float32(0))
