"""Quantile functions as calibrated distributions, and as bounds, logarithms and point masses of the target."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from usnrt.calibration.groups import GroupCalibration, standard_normal
from usnrt.distributions import ResidualDistribution
from usnrt.distributions.transformed import NODE_LEVELS, NODE_WEIGHTS, TargetMap
from usnrt.model.ensembles import TreeEnsemble
from usnrt.model.fitted import FittedModel
from usnrt.model.pairs import MAX_DISAGREEMENT
from usnrt.nn.quantiles import POSITIONS
from usnrt.onnx._graph import Graph, Value, ints
from usnrt.onnx._networks import HALF_WIDTH, MEAN_WEIGHTS, weighted


def mapped_outputs(graph: Graph, target_map: TargetMap, nodes: str, quantiles: str) -> list[str]:
    """Mean, std and quantiles of the target, from quantiles on the model's scale.

    Mean and std are integrals of the quantile function over the nodes, also where the library has closed forms.

    Parameters
    ----------
    nodes : str
        Quantiles at ``NODE_LEVELS``, shape (n, n_nodes).
    quantiles : str
        Quantiles at the levels of the graph, shape (n, k).

    Returns
    -------
    list of str
        Names of mean, std and quantiles, shapes (n,), (n,) and (n, k).
    """
    values = _unbounded(graph, target_map, nodes)
    inside = graph.op("Min", graph.op("Max", values, _number(target_map.low_end)), _number(target_map.high_end))
    centre = _expectation(graph, inside)
    deviation = graph.op("Sub", inside, centre)
    square = _expectation(graph, graph.op("Mul", deviation, deviation))
    offset = graph.op("Mul", centre, np.float64(0))
    low, high = (target_map.low, target_map.low_end), (target_map.high, target_map.high_end)
    for bound, end in (low, high):
        if bound != end:
            mass = _mass_below(graph, values, end)
            if bound > end:
                mass = graph.op("Sub", np.float64(1), mass)
            offset = graph.op("Add", offset, graph.op("Mul", mass, np.float64(bound - end)))
            to_bound, to_end = (graph.op("Sub", np.float64(value), centre) for value in (bound, end))
            change = graph.op("Sub", graph.op("Mul", to_bound, to_bound), graph.op("Mul", to_end, to_end))
            square = graph.op("Add", square, graph.op("Mul", mass, change))
    variance = graph.op("Max", graph.op("Sub", square, graph.op("Mul", offset, offset)), np.float64(0))
    mean = graph.op("Squeeze", graph.op("Add", centre, offset), ints(1))
    std = graph.op("Squeeze", graph.op("Sqrt", variance), ints(1))
    return [mean, std, _bounded(graph, target_map, _unbounded(graph, target_map, quantiles))]


def _unbounded(graph: Graph, target_map: TargetMap, z: str) -> str:
    """The map without bounds."""
    if not target_map.log:
        return z
    top = np.float64(np.log(target_map.knee))
    inside = graph.op("Exp", graph.op("Min", z, top))
    beyond = graph.op("Mul", graph.op("Max", graph.op("Sub", z, top), np.float64(0)), np.float64(target_map.knee))
    return graph.op("Add", graph.op("Add", inside, beyond), np.float64(target_map.low - target_map.shift))


def _bounded(graph: Graph, target_map: TargetMap, values: str) -> str:
    """Values with the ends mapped to the bounds."""
    if np.isfinite(target_map.low):
        is_low = graph.op("LessOrEqual", values, np.float64(target_map.low_end))
        values = graph.op("Where", is_low, np.float64(target_map.low), values)
    if np.isfinite(target_map.high):
        is_high = graph.op("GreaterOrEqual", values, np.float64(target_map.high_end))
        values = graph.op("Where", is_high, np.float64(target_map.high), values)
    return values


def _expectation(graph: Graph, values: str) -> str:
    """Sum over the nodes with their weights; name, shape (n, 1)."""
    return graph.op("ReduceSum", graph.op("Mul", values, NODE_WEIGHTS), ints(1), keepdims=1)


def _mass_below(graph: Graph, values: str, end: float) -> str:
    """Probability of values up to an end, by linear interpolation between the nodes; name, shape (n, 1)."""
    last = len(NODE_LEVELS) - 1
    left = graph.op("Gather", values, np.arange(last), axis=1)
    right = graph.op("Gather", values, np.arange(1, last + 1), axis=1)
    step = graph.op("Max", graph.op("Sub", right, left), np.float64(np.finfo(float).tiny))
    share = graph.op("Div", graph.op("Sub", np.float64(end), left), step)
    share = graph.op("Min", graph.op("Max", share, np.float64(0)), np.float64(1))
    return graph.op("ReduceSum", graph.op("Mul", share, np.diff(NODE_LEVELS)), ints(1), keepdims=1)


def _number(value: float) -> np.float64:
    """A bound; the largest float instead of infinity."""
    limit = np.finfo(np.float64).max
    return np.float64(np.clip(value, -limit, limit))


# Quantiles of mixtures: each iteration divides the bracket into this many parts. 17^7 is 4e8.
N_PARTS, N_ITERATIONS = 17, 7
# The normal cdf for z <= 0 is exp(-z^2 / 2) times a quotient of polynomials in |z|, with an error below 1e-15 (Hart et
# al., Computer Approximations, 1968, number 5666). ONNX has erf, but runtimes implement it in float32 only.
NUMERATOR = (
    3.52624965998911e-2, 0.700383064443688, 6.37396220353165, 33.912866078383, 112.079291497871, 221.213596169931,
    220.206867912376,
)  # fmt: skip
DENOMINATOR = (
    8.83883476483184e-2, 1.75566716318264, 16.064177579207, 86.7807322029461, 296.564248779674, 637.333633378831,
    793.826512519948, 440.413735824752,
)  # fmt: skip
MAX_ABS_Z = 7.07  # a tail of 1e-12; beyond, the quotient is inaccurate, and no quantile depends on it


def location_scale_outputs(
    graph: Graph, model: FittedModel, mean: str, scale: str, leaf: str, levels: NDArray[np.float64]
) -> list[str]:
    """Outputs of models that predict variances: residual distributions by group (or normal), shifted and scaled.

    Parameters
    ----------
    mean, scale, leaf : str
        Names, shape (n,); in units of the scaled target.
    levels : ndarray of shape (k,)

    Returns
    -------
    list of str
        Names of mean, std and quantiles, shapes (n,), (n,) and (n, k), in units of the target.
    """
    calibration = _calibration(model)
    if calibration is None:
        by_group = np.array([[0.0, 1.0, *ndtri(levels)]])
    else:
        residuals = calibration.residuals
        by_group = np.array([[residual.mean, residual.std, *residual.ppf(levels)] for residual in residuals])
    scaled = graph.op("Mul", _column(graph, scale), _by_group(graph, model, leaf, by_group))
    shift, std, distances = graph.ops("Split", 3, scaled, ints(1, 1, len(levels)), axis=1)
    quantiles = graph.op("Add", _column(graph, mean), distances)
    mean, std = graph.op("Add", mean, graph.op("Squeeze", shift, ints(1))), graph.op("Squeeze", std, ints(1))
    return _unscaled(graph, model, mean, std, quantiles)


def quantile_outputs(
    graph: Graph, model: FittedModel, quantiles: str, leaf: str, levels: NDArray[np.float64]
) -> list[str]:
    """Outputs of models that predict quantile functions, calibrated by residual distributions by group.

    Parameters
    ----------
    graph, model, leaf, levels
        As for `location_scale_outputs`.
    quantiles : str
        Name, shape (n, J).

    Returns
    -------
    list of str
        As from `location_scale_outputs`.
    """
    calibration = _calibration(model)
    residuals = [standard_normal()] if calibration is None else calibration.residuals
    weights, squares, products = (_by_group(graph, model, leaf, table) for table in _moment_forms(residuals))
    centre = graph.op("ReduceSum", graph.op("Mul", quantiles, weights), ints(1), keepdims=1)
    # About the mean, to avoid cancellation.
    deviation = graph.op("Sub", quantiles, centre)
    next_deviation = graph.op("Gather", deviation, np.append(np.arange(1, len(POSITIONS)), 0), axis=1)
    form = graph.op("Add", graph.op("Mul", squares, deviation), graph.op("Mul", products, next_deviation))
    variance = graph.op("ReduceSum", graph.op("Mul", deviation, form), ints(1), keepdims=0)
    std, mean = graph.op("Sqrt", graph.op("Max", variance, np.float64(0))), graph.op("Squeeze", centre, ints(1))
    at_levels = _values_at(graph, model, quantiles, leaf, residuals, levels)
    outputs = _unscaled(graph, model, mean, std, at_levels)
    if model.target.target_map is None:
        return outputs
    at_nodes = _values_at(graph, model, quantiles, leaf, residuals, NODE_LEVELS)
    return mapped_outputs(graph, model.target.target_map, _unscaled(graph, model, mean, std, at_nodes)[2], outputs[2])


def _values_at(
    graph: Graph,
    model: FittedModel,
    quantiles: str,
    leaf: str,
    residuals: Sequence[ResidualDistribution],
    levels: NDArray[np.float64],
) -> str:
    """Quantiles at some levels, from quantile functions and residual distributions by group; name, shape (n, k)."""
    z = np.array([residual.ppf(levels) for residual in residuals])
    segment = np.searchsorted(POSITIONS[1:-1], z, side="right")
    fraction = (z - POSITIONS[segment]) / np.diff(POSITIONS)[segment]
    if len(residuals) == 1:
        low, high = (graph.op("Gather", quantiles, knots[0], axis=1) for knots in (segment, segment + 1))
    else:
        by_row = (_by_group(graph, model, leaf, knots) for knots in (segment, segment + 1))
        low, high = (graph.op("GatherElements", quantiles, knots, axis=1) for knots in by_row)
    above_low = graph.op("Mul", graph.op("Sub", high, low), _by_group(graph, model, leaf, fraction))
    return graph.op("Add", low, above_low)


def _moment_forms(residuals: Sequence[ResidualDistribution]) -> NDArray[np.float64]:
    """Mean and mean square of a piecewise linear quantile function, as a linear and a quadratic form of its knots.

    For E from a residual distribution, the quantile function at E is the sum of its knots times hat functions of E: its
    mean is ``sum_j weights_j knot_j``, its mean square ``sum_j knot_j (squares_j knot_j + products_j knot_(j + 1))``.

    Parameters
    ----------
    residuals : sequence of G residual distributions

    Returns
    -------
    ndarray of shape (3, G, J)
        Weights, squares and products; the last product is 0.
    """
    tables = np.zeros((3, len(residuals), len(POSITIONS)))
    for (weights, squares, products), residual in zip(tables.swapaxes(0, 1), residuals):
        below = np.zeros((3, len(POSITIONS)))
        below[:, 1:-1] = residual.moments_below(POSITIONS[1:-1])
        below[:, -1] = 1.0, 0.0, residual.std**2
        mass, first, second = np.diff(below, axis=1)
        # From moments about the mean to moments of the relative position in a segment, from 0 to 1.
        width, shift = np.diff(POSITIONS), residual.mean - POSITIONS[:-1]
        first, second = first + shift * mass, second + 2.0 * shift * first + shift**2 * mass
        first, second = first / width, second / width**2
        weights[:-1] += mass - first
        weights[1:] += first
        squares[:-1] += mass - 2.0 * first + second
        squares[1:] += second
        products[:-1] = 2.0 * (first - second)
    return tables


def mixture_moments(graph: Graph, means: str, variances: str) -> tuple[str, str]:
    """Mean and standard deviation of a mixture of normal distributions, names, shape (n,).

    Parameters
    ----------
    means, variances : str
        Names, shape (n, M).
    """
    mean = graph.op("ReduceMean", means, axes=[1], keepdims=1)
    distance = graph.op("Sub", means, mean)
    within = graph.op("Add", variances, graph.op("Mul", distance, distance))
    std = graph.op("Sqrt", graph.op("ReduceMean", within, axes=[1], keepdims=0))
    return graph.op("Squeeze", mean, ints(1)), std


def combined_quantiles(graph: Graph, model: TreeEnsemble, member_quantiles: str, leaf: str) -> str:
    """Quantile functions of an ensemble whose members predict quantile functions.

    Parameters
    ----------
    member_quantiles : str
        Name, shape (n, M, J).
    leaf : str
        Name, shape (n,).

    Returns
    -------
    str
        Name, shape (n, J).
    """
    centres, stds = (weighted(graph, member_quantiles, weights) for weights in (MEAN_WEIGHTS, HALF_WIDTH))
    shrinkage = _shrinkage(graph, model, centres, graph.op("Mul", stds, stds), leaf)
    quantiles = graph.op("ReduceMean", member_quantiles, axes=[1], keepdims=0)
    return _shrunk(graph, quantiles, shrinkage)


def _shrinkage(graph: Graph, model: TreeEnsemble, centres: str, variances: str, leaf: str) -> str:
    """Shrinkage of an ensemble's conformity scores, sqrt(κ + c s² / (M v)), see `USNRTEnsemble`; name, shape (n,)."""
    n_members = len(model.members)
    mean = graph.op("ReduceMean", centres, axes=[1], keepdims=1)
    squares = graph.op("ReduceSumSquare", graph.op("Sub", centres, mean), axes=[1], keepdims=0)
    variance = graph.op("Max", graph.op("ReduceMean", variances, axes=[1], keepdims=0), np.float64(1e-30))
    disagreement = graph.op("Div", graph.op("Mul", squares, np.float64(1.0 / (n_members - 1))), variance)
    disagreement = graph.op("Min", disagreement, np.float64(MAX_DISAGREEMENT))
    own = graph.op("Mul", disagreement, np.float64(model.own_factor / n_members))
    return graph.op("Sqrt", graph.op("Add", graph.op("Gather", model.shared, leaf, axis=0), own))


def _shrunk(graph: Graph, quantiles: str, shrinkage: str) -> str:
    """Values of quantile functions, shape (n, J), at the positions times a positive factor per row, shape (n,).

    The value is the sum over all segments of their slope times the length of their overlap, without searching for the
    segment of a position.
    """
    width, n_segments = np.diff(POSITIONS), len(POSITIONS) - 1
    z = graph.op("Mul", graph.op("Unsqueeze", shrinkage, ints(1, 2)), POSITIONS[:, None])
    low, high = np.zeros(n_segments), width.copy()
    low[0], high[-1] = -np.inf, np.inf  # the outer segments extend to infinity
    overlaps = graph.op("Min", graph.op("Max", graph.op("Sub", z, POSITIONS[:-1]), low), high)  # (n, J, J - 1)
    differences = (np.eye(n_segments, n_segments + 1, 1) - np.eye(n_segments, n_segments + 1)).T / width
    slopes = graph.op("Unsqueeze", graph.op("MatMul", quantiles, differences), ints(1))
    above_first = graph.op("ReduceSum", graph.op("Mul", overlaps, slopes), ints(2), keepdims=0)
    return graph.op("Add", graph.op("Gather", quantiles, ints(0), axis=1), above_first)


def mixture_outputs(
    graph: Graph, model: FittedModel, means: str, variances: str, levels: NDArray[np.float64]
) -> list[str]:
    """Outputs of an equal mixture of the members' normal distributions; parameters as above."""
    mean, std = mixture_moments(graph, means, variances)
    quantiles = _mixture_quantiles(graph, means, graph.op("Sqrt", variances), levels)
    return _unscaled(graph, model, mean, std, quantiles)


def _mixture_quantiles(graph: Graph, means: str, stds: str, levels: NDArray[np.float64]) -> str:
    """Quantiles, shape (n, k), by repeated subdivision of the bracket between the quantiles of the members."""
    means, stds = (graph.op("Unsqueeze", value, ints(1)) for value in (means, stds))  # (n, 1, M)
    own = graph.op("Add", means, graph.op("Mul", stds, ndtri(levels)[:, None]))  # (n, k, M)
    low = graph.op("ReduceMin", own, axes=[2], keepdims=1)
    width = graph.op("Sub", graph.op("ReduceMax", own, axes=[2], keepdims=1), low)
    means, stds = (graph.op("Unsqueeze", value, ints(1)) for value in (means, stds))  # (n, 1, 1, M)

    body = graph.inner("bracket")
    body.input(f"{body.prefix}/iteration", np.int64, [])
    condition = body.input(f"{body.prefix}/condition", np.bool_, [])
    shape: list[int | str] = ["n", len(levels), 1]
    start, length = (body.input(f"{body.prefix}/{name}", np.float64, shape) for name in ("low", "width"))
    part = body.op("Mul", length, np.float64(1 / N_PARTS))
    points = body.op("Add", start, body.op("Mul", part, np.arange(1.0, N_PARTS)))  # (n, k, N_PARTS - 1)
    z = body.op("Div", body.op("Sub", body.op("Unsqueeze", points, ints(3)), means), stds)
    cdf = body.op("ReduceMean", _normal_cdf(body, z), axes=[3], keepdims=0)
    n_below = body.op("ReduceSum", body.cast(body.op("Less", cdf, levels[:, None]), np.float64), ints(2), keepdims=1)
    body.output(f"{body.prefix}/condition out", condition, np.bool_, [])
    body.output(f"{body.prefix}/low out", body.op("Add", start, body.op("Mul", n_below, part)), np.float64, shape)
    body.output(f"{body.prefix}/width out", part, np.float64, shape)
    low, width = graph.loop(np.int64(N_ITERATIONS), body, low, width)
    return graph.op("Squeeze", graph.op("Add", low, graph.op("Mul", width, np.float64(0.5))), ints(2))


def _normal_cdf(graph: Graph, z: str) -> str:
    size = graph.op("Min", graph.op("Abs", z), np.float64(MAX_ABS_Z))
    numerator, denominator = (_polynomial(graph, size, coefficients) for coefficients in (NUMERATOR, DENOMINATOR))
    density = graph.op("Exp", graph.op("Mul", graph.op("Mul", size, size), np.float64(-0.5)))
    tail = graph.op("Div", graph.op("Mul", density, numerator), denominator)
    return graph.op("Where", graph.op("Less", z, np.float64(0)), tail, graph.op("Sub", np.float64(1), tail))


def _polynomial(graph: Graph, x: str, coefficients: tuple[float, ...]) -> str:
    """Horner's scheme, highest power first."""
    value: Value = np.float64(coefficients[0])
    for coefficient in coefficients[1:]:
        value = graph.op("Add", graph.op("Mul", x, value), np.float64(coefficient))
    assert isinstance(value, str)
    return value


def _unscaled(graph: Graph, model: FittedModel, mean: str, std: str, quantiles: str) -> list[str]:
    """Mean, std and quantiles in units of the target, from units of the scaled target."""
    scale, shift = np.float64(model.target.std), np.float64(model.target.mean)
    return [
        graph.op("Add", graph.op("Mul", mean, scale), shift),
        graph.op("Mul", std, scale),
        graph.op("Add", graph.op("Mul", quantiles, scale), shift),
    ]


def _by_group(graph: Graph, model: FittedModel, leaf: str, table: NDArray[Any]) -> Value:
    """The entry of each row's group in a table with one entry per group; a single entry is broadcast."""
    if len(table) == 1:
        return table
    calibration = _calibration(model)
    assert calibration is not None
    return graph.op("Gather", table[calibration.group_of_leaf], leaf, axis=0)


def _calibration(model: FittedModel) -> GroupCalibration | None:
    """The calibration, which `to_onnx` has checked."""
    assert isinstance(model.calibration, GroupCalibration | None)
    return model.calibration


def _column(graph: Graph, values: str) -> str:
    return graph.op("Unsqueeze", values, ints(1))
