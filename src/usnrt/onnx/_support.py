"""The support of rows in the graph: what is measured, the rows that networks are asked for, and wider distributions.

It is `usnrt.calibration.support` operator by operator. Networks predict n clamped rows and, after those, once more each
row that is outside its range, where numbers may go one unit beyond it.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from usnrt.calibration.landmarks import LARGEST, Landmarks
from usnrt.calibration.support import MAX_DELTA, REACH, Support
from usnrt.nn.quantiles import MEDIAN, POSITIONS
from usnrt.onnx._columns import EncodedColumns
from usnrt.onnx._graph import Graph, Value, whole
from usnrt.onnx._networks import HALF_WIDTH

END = np.iinfo(np.int64).max


@dataclass(frozen=True)
class MeasuredSupport:
    """Names of what was measured, each of shape (n,) but ``rows``.

    Attributes
    ----------
    supported : str
        bool.
    region : str
        Whose spread counts, int64.
    blank, walk, distance : str
        As in `usnrt.calibration.support.RowSupport`, float64.
    rows : str
        The m rows that are outside their range, shape (m,), int64; "" where no row can be.
    """

    supported: str
    region: str
    blank: str
    walk: str
    distance: str
    rows: str = ""


def measure(
    graph: Graph, support: Support, columns: EncodedColumns, n_categories: NDArray[np.int64], leaf: str
) -> tuple[MeasuredSupport, EncodedColumns]:
    """Measure rows, and clamp them.

    Parameters
    ----------
    graph : Graph
    support : Support
    columns : EncodedColumns
    n_categories : ndarray of int of shape (n_encoded,)
        0 for numeric columns.
    leaf : str
        Name, shape (n,), int64, counted from 0.

    Returns
    -------
    MeasuredSupport
    EncodedColumns
        Of the n + m rows that networks are asked for.
    """
    blank, unknown = _unknown_columns(graph, support, columns, n_categories, leaf)
    region = graph.op("Where", unknown, np.int64(len(support.low) - 1), leaf)
    if not columns.positions:
        nothing = graph.op("Mul", blank, np.float64(0))
        return MeasuredSupport(graph.op("Not", unknown), region, blank, nothing, nothing), columns
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
    excess = _excess(graph, support.landmarks, numbers)
    distance = graph.op(
        "Add",
        _weighted(graph, squares, (growth / growth.max())[columns.positions]),
        graph.op("Mul", excess, excess),
    )
    lacking = graph.op("Or", graph.op("Or", outside, unknown), graph.op("Greater", excess, np.float64(0)))
    rows = graph.op("Squeeze", graph.op("NonZero", outside), whole(0))
    measured = MeasuredSupport(graph.op("Not", lacking), region, blank, walk, distance, rows)
    near = _clipped(graph, numbers, low, high)
    reach = np.float64(REACH)
    lowest = graph.op("Sub", low, graph.op("Mul", below, reach))
    highest = graph.op("Add", high, graph.op("Mul", above, reach))
    beyond = graph.op("Gather", _clipped(graph, numbers, lowest, highest), rows, axis=0)
    asked = graph.op("Concat", near, beyond, axis=0)
    places = {
        position: graph.op("Concat", place, graph.op("Gather", place, rows, axis=0), axis=0)
        for position, place in columns.places.items()
    }
    return measured, replace(columns, first=asked, numbers=asked, places=places)


def widened_quantiles(
    graph: Graph, support: Support, found: MeasuredSupport, mean: str, quantiles: str
) -> tuple[str, str]:
    """Mean and quantile functions of n rows, widened where support is lacking.

    Parameters
    ----------
    graph : Graph
    support : Support
    found : MeasuredSupport
    mean, quantiles : str
        Names, shapes (n + m,) and (n + m, J), of the rows that networks were asked for.

    Returns
    -------
    mean, quantiles : str
        Names, shapes (n,) and (n, J).
    """
    median = graph.op("Gather", quantiles, np.int64(MEDIAN), axis=1)
    quantiles, shift = first_rows(graph, found, quantiles), _shift(graph, found, median)
    quantiles = graph.op("Add", quantiles, graph.op("Unsqueeze", shift, whole(1)))
    mean = graph.op("Add", first_rows(graph, found, mean), _shift(graph, found, mean))
    half_width = _weighted(graph, quantiles, HALF_WIDTH)
    variance = graph.op("Unsqueeze", added_variance(graph, support, found, half_width), whole(1))
    median = graph.op("Gather", quantiles, whole(MEDIAN), axis=1)
    off = graph.op("Sub", quantiles, median)
    squares = graph.op("Add", graph.op("Mul", off, off), graph.op("Mul", variance, POSITIONS**2))
    wider = graph.op("Add", median, graph.op("Mul", graph.op("Sqrt", squares), np.sign(POSITIONS)))
    return mean, graph.op("Where", graph.op("Unsqueeze", found.supported, whole(1)), quantiles, wider)


def widened_scale(graph: Graph, support: Support, found: MeasuredSupport, mean: str, scale: str) -> tuple[str, str]:
    """Location and scale of n rows, shape (n,), widened where support is lacking; the arguments are as above."""
    mean = graph.op("Add", first_rows(graph, found, mean), _shift(graph, found, mean))
    scale = first_rows(graph, found, scale)
    variance = graph.op("Add", graph.op("Mul", scale, scale), added_variance(graph, support, found, scale))
    return mean, graph.op("Where", found.supported, scale, graph.op("Sqrt", variance))


def widened_variances(
    graph: Graph, support: Support, found: MeasuredSupport, means: str, variances: str
) -> tuple[str, str]:
    """Means and variances of n rows and M members, widened where support is lacking.

    Parameters
    ----------
    graph : Graph
    support : Support
    found : MeasuredSupport
    means, variances : str
        Names, shape (n + m, M), of the rows that networks were asked for.

    Returns
    -------
    means, variances : str
        Names, shape (n, M).
    """
    means = graph.op("Add", first_rows(graph, found, means), _shift(graph, found, means))
    variances = first_rows(graph, found, variances)
    half = graph.op("Sqrt", graph.op("ReduceMean", variances, axes=[1], keepdims=0))
    added = graph.op("Unsqueeze", added_variance(graph, support, found, half), whole(1))
    return means, graph.op("Add", variances, added)


def added_variance(graph: Graph, support: Support, found: MeasuredSupport, half_width: str) -> str:
    """What lack of support adds to the variance, see `Support.added_variance`; name, shape (n,)."""
    typical = graph.op("Gather", support.typical_variance, found.region, axis=0)
    short = graph.op("Max", graph.op("Sub", typical, graph.op("Mul", half_width, half_width)), np.float64(0))
    near = graph.op("Exp", graph.op("Mul", found.distance, np.float64(-0.5)))
    far = graph.op("Mul", graph.op("Sub", np.float64(1), near), graph.op("Add", short, np.float64(1)))
    return graph.op("Add", graph.op("Add", found.blank, found.walk), far)


def _unknown_columns(
    graph: Graph, support: Support, columns: EncodedColumns, n_categories: NDArray[np.int64], leaf: str
) -> tuple[str, str]:
    """The sum of the blank variances of unknown columns, and whether there is one; names, shape (n,)."""
    # A first column of zeros: with neither numbers nor categories there would be nothing to sum.
    flags = [graph.op("Unsqueeze", graph.op("Less", leaf, np.int64(0)), whole(1))]
    variances = [np.zeros(1)]
    if columns.positions:
        expected = support.never_missing[columns.positions]
        flags.append(graph.op("And", graph.op("IsNaN", columns.numbers), expected))
        variances.append(support.blank_variance[columns.positions])
    for position, places in columns.places.items():
        table = np.zeros((n_categories[position] + 2, 1), dtype=bool)
        table[-2:, 0] = True, support.never_missing[position]
        flags.append(graph.op("Gather", table, places, axis=0))
        variances.append(support.blank_variance[[position]])
    beside = graph.op("Concat", *flags, axis=1)
    return _weighted(graph, graph.cast(beside, np.float64), np.concatenate(variances)), _any(graph, beside)


def _excess(graph: Graph, landmarks: Landmarks | None, numbers: str) -> str:
    """How much farther rows are from the landmarks than the threshold, see `Landmarks.excess`; name, shape (n,)."""
    assert landmarks is not None
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
    """Numbers within bounds; NaN stays NaN."""
    above = graph.op("Where", graph.op("Less", numbers, low), low, numbers)
    return graph.op("Where", graph.op("Greater", numbers, high), high, above)


def first_rows(graph: Graph, found: MeasuredSupport, values: str) -> str:
    """Values of the n rows, without those of the m rows after them."""
    if not found.rows:
        return values
    return graph.op("Slice", values, whole(0), graph.op("Shape", found.supported), whole(0))


def _shift(graph: Graph, found: MeasuredSupport, values: str) -> str:
    """How much values at the m rows after the n rows exceed those at the clamped rows; 0 for all others."""
    first = first_rows(graph, found, values)
    zeros = graph.op("Mul", first, np.float64(0))
    if not found.rows:
        return zeros
    rest = graph.op("Slice", values, graph.op("Shape", found.supported), whole(END), whole(0))
    change = graph.op("Sub", rest, graph.op("Gather", first, found.rows, axis=0))
    return graph.op("ScatterND", zeros, graph.op("Unsqueeze", found.rows, whole(1)), change)


def _weighted(graph: Graph, values: str, weights: Value) -> str:
    """Sums of the columns times weights; name, shape (n,)."""
    return graph.op("ReduceSum", graph.op("Mul", values, weights), whole(1), keepdims=0)


def _any(graph: Graph, flags: str) -> str:
    """Whether one of the flags of each row is set; name, shape (n,)."""
    count = graph.op("ReduceSum", graph.cast(flags, np.float32), whole(1), keepdims=0)
    return graph.op("Greater", count, np.float32(0))
