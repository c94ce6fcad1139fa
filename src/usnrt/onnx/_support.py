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
from usnrt.onnx._graph import Graph, Tensor, ints
from usnrt.onnx._networks import HALF_WIDTH

END = np.iinfo(np.int64).max


@dataclass(frozen=True)
class MeasuredSupport:
    """The measured values of `usnrt.calibration.support.RowSupport`, each of shape (n,) except ``rows``.

    Attributes
    ----------
    region : Tensor
        Index of the ranges that apply.
    rows : Tensor of shape (m,), or None
        Indices of the rows outside their range; None if the table has no numeric columns.
    outside, far, unlike : Tensor or None
        None if no row can be so.
    """

    supported: Tensor
    region: Tensor
    unknown_variance: Tensor
    walk: Tensor
    distance: Tensor
    rows: Tensor | None = None
    outside: Tensor | None = None
    far: Tensor | None = None
    unlike: Tensor | None = None


def measure(
    graph: Graph, support: Support, columns: EncodedColumns, n_categories: NDArray[np.int64], leaf: Tensor
) -> tuple[MeasuredSupport, EncodedColumns]:
    """Measure rows, and return the n + m rows at which the networks are evaluated."""
    unknown_variance, unknown = _unknown_columns(graph, support, columns, n_categories, leaf)
    region = graph.op("Where", unknown, np.int64(len(support.low) - 1), leaf)
    numbers = columns.numbers
    if numbers is None:
        zeros = unknown_variance * 0.0
        return MeasuredSupport(graph.op("Not", unknown), region, unknown_variance, zeros, zeros), columns
    tables = (table[:, columns.positions] for table in (support.low, support.high, support.below, support.above))
    low, high, below, above = (graph.gather(table, region) for table in tables)
    cells = (numbers < low) | (numbers > high)
    outside = _any(cells)
    units = graph.op("Max", (low - numbers) / below, (numbers - high) / above)
    delta = graph.op("Min", graph.op("Where", cells, units, 0.0), float(MAX_DELTA))
    growth = support.growth
    walk = (delta * growth[columns.positions]).sum(1)
    distance = (delta * delta * (growth / growth.max())[columns.positions]).sum(1)
    unsupported = outside | unknown
    assert support.landmarks is not None
    spaces = [(numbers, support.landmarks)]
    if support.subjects is not None:
        of_subject = np.searchsorted(columns.positions, support.subjects.columns)
        spaces.append((graph.gather(numbers, of_subject, axis=1), support.subjects.landmarks))
    beyond_landmarks = []
    for values, landmarks in spaces:
        excess = _excess(graph, landmarks, values)
        distance = distance + excess * excess
        beyond_landmarks.append(excess > 0.0)
        unsupported = unsupported | beyond_landmarks[-1]
    rows = graph.op("NonZero", outside).squeeze(0)
    measured = MeasuredSupport(
        graph.op("Not", unsupported), region, unknown_variance, walk, distance, rows, outside, *beyond_landmarks
    )
    clamped = _clipped(graph, numbers, low, high)
    beyond = graph.gather(_clipped(graph, numbers, low - below * float(REACH), high + above * float(REACH)), rows)
    evaluated = graph.concat([clamped, beyond], axis=0)
    categories = {
        position: graph.concat([index, graph.gather(index, rows)], axis=0)
        for position, index in columns.categories.items()
    }
    return measured, replace(columns, first=evaluated, numbers=evaluated, categories=categories)


def widened_quantiles(graph: Graph, support: Support, found: MeasuredSupport, quantiles: Tensor) -> Tensor:
    """Quantile functions (n, J), widened where support is lacking, from the networks' predictions (n + m, J)."""
    shift = _shift(graph, found, graph.gather(quantiles, MEDIAN, axis=1))
    quantiles = first_rows(graph, found, quantiles) + shift.unsqueeze(1)
    half_width = (quantiles * HALF_WIDTH).sum(1)
    variance = added_variance(graph, support, found, half_width).unsqueeze(1)
    median = graph.gather(quantiles, ints(MEDIAN), axis=1)
    off = quantiles - median
    wider = median + graph.op("Sqrt", off * off + variance * POSITIONS**2) * np.sign(POSITIONS)
    return graph.op("Where", found.supported.unsqueeze(1), quantiles, wider)


def added_variance(graph: Graph, support: Support, found: MeasuredSupport, half_width: Tensor) -> Tensor:
    """Variance added for lack of support, see `Support.added_variance`; shape (n,)."""
    square = half_width * half_width
    deficit = graph.op("Max", graph.gather(support.typical_variance, found.region) - square, 0.0)
    room = graph.op("Max", float(support.target_variance) - square, 0.0)
    near = graph.op("Exp", found.distance * -0.5)
    return graph.op("Min", found.unknown_variance, room) + found.walk + (1.0 - near) * (deficit + 1.0)


def _unknown_columns(
    graph: Graph, support: Support, columns: EncodedColumns, n_categories: NDArray[np.int64], leaf: Tensor
) -> tuple[Tensor, Tensor]:
    """Sum of the missing-value variances of unknown columns, and whether there are any; shape (n,)."""
    # Starts with a column of zeros, so that there is something to sum without numbers and categories.
    flags = [(leaf < 0).unsqueeze(1)]
    variances = [np.zeros(1)]
    if columns.numbers is not None:
        flags.append(graph.op("IsNaN", columns.numbers) & support.never_missing[columns.positions])
        variances.append(support.missing_value_variance[columns.positions])
    for position, index in columns.categories.items():
        table = np.zeros((n_categories[position] + 2, 1), dtype=bool)
        table[-2:, 0] = True, support.never_missing[position]
        flags.append(graph.gather(table, index))
        variances.append(support.missing_value_variance[[position]])
    matrix = graph.concat(flags, axis=1)
    return (matrix.cast(np.float64) * np.concatenate(variances)).sum(1), _any(matrix)


def _excess(graph: Graph, landmarks: Landmarks, numbers: Tensor) -> Tensor:
    """Excess distance from the landmarks, see `Landmarks.excess`; shape (n,)."""
    scale = np.where(landmarks.scale > 0, landmarks.scale, np.inf)
    units = graph.op("Clip", (numbers - landmarks.centre) / scale, float(-LARGEST), float(LARGEST)).cast(np.float32)
    squashed = graph.op("Log", graph.op("Abs", units) + np.float32(1)) * graph.op("Sign", units)
    filled = graph.op("Where", graph.op("IsNaN", squashed), np.float32(0), squashed)
    at = (filled - landmarks.offset) @ landmarks.whitening
    half = 0.5 * np.sum(landmarks.points * landmarks.points, axis=1)
    products = at @ np.ascontiguousarray(landmarks.points.T) - half
    nearest = graph.op("ReduceMax", products, axes=[1], keepdims=0).cast(np.float64)
    norm = graph.op("ReduceSumSquare", at.cast(np.float64), axes=[1], keepdims=0)
    distance = graph.op("Sqrt", graph.op("Max", norm - nearest * 2.0, 0.0))
    return graph.op("Max", distance / float(landmarks.threshold) - 1.0, 0.0)


def _clipped(graph: Graph, numbers: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Numbers clipped to bounds; NaN is kept."""
    above = graph.op("Where", numbers < low, low, numbers)
    return graph.op("Where", numbers > high, high, above)


def first_rows(graph: Graph, found: MeasuredSupport, values: Tensor) -> Tensor:
    """The first n of n + m values."""
    if found.rows is None:
        return values
    return graph.op("Slice", values, ints(0), graph.op("Shape", found.supported), ints(0))


def _shift(graph: Graph, found: MeasuredSupport, values: Tensor) -> Tensor:
    """Difference between the values at the m extended rows and at the same clamped rows; 0 for other rows."""
    first = first_rows(graph, found, values)
    zeros = first * 0.0
    if found.rows is None:
        return zeros
    rest = graph.op("Slice", values, graph.op("Shape", found.supported), ints(END), ints(0))
    return graph.op("ScatterND", zeros, found.rows.unsqueeze(1), rest - graph.gather(first, found.rows))


def _any(flags: Tensor) -> Tensor:
    """Whether any flag of each row is set; shape (n,)."""
    return flags.cast(np.float32).sum(1) > np.float32(0)
