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
from usnrt.onnx._graph import Graph, Shape, Tensor, Value, ints
from usnrt.onnx._networks import HALF_WIDTH, MEAN_WEIGHTS, weighted


def mapped_outputs(graph: Graph, target_map: TargetMap, nodes: Tensor, quantiles: Tensor) -> list[Tensor]:
    """Mean, std and quantiles of the target, from quantiles on the model's scale, and those at ``NODE_LEVELS``.

    Mean and std are integrals of the quantile function over the nodes, also where the library has closed forms.
    """
    values = _unbounded(graph, target_map, nodes)
    inside = graph.op("Min", graph.op("Max", values, _number(target_map.low_end)), _number(target_map.high_end))
    centre = _expectation(inside)
    deviation = inside - centre
    square = _expectation(deviation * deviation)
    offset = centre * 0.0
    for bound, end in ((target_map.low, target_map.low_end), (target_map.high, target_map.high_end)):
        if bound != end:
            mass = _mass_below(graph, values, end)
            mass = 1.0 - mass if bound > end else mass
            offset = offset + mass * float(bound - end)
            to_bound, to_end = float(bound) - centre, float(end) - centre
            square = square + mass * (to_bound * to_bound - to_end * to_end)
    variance = graph.op("Max", square - offset * offset, 0.0)
    mean, std = (centre + offset).squeeze(1), graph.op("Sqrt", variance).squeeze(1)
    return [mean, std, _bounded(graph, target_map, _unbounded(graph, target_map, quantiles))]


def _unbounded(graph: Graph, target_map: TargetMap, z: Tensor) -> Tensor:
    """The map without bounds."""
    if not target_map.log:
        return z
    top = float(np.log(target_map.knee))
    inside = graph.op("Exp", graph.op("Min", z, top))
    beyond = graph.op("Max", z - top, 0.0) * float(target_map.knee)
    return inside + beyond + float(target_map.low - target_map.shift)


def _bounded(graph: Graph, target_map: TargetMap, values: Tensor) -> Tensor:
    """Values with the ends mapped to the bounds."""
    if np.isfinite(target_map.low):
        values = graph.op("Where", values <= float(target_map.low_end), float(target_map.low), values)
    if np.isfinite(target_map.high):
        values = graph.op("Where", values >= float(target_map.high_end), float(target_map.high), values)
    return values


def _expectation(values: Tensor) -> Tensor:
    """Sum over the nodes with their weights; shape (n, 1)."""
    return (values * NODE_WEIGHTS).sum(1, keepdims=1)


def _mass_below(graph: Graph, values: Tensor, end: float) -> Tensor:
    """Probability of values up to an end, by linear interpolation between the nodes; shape (n, 1)."""
    last = len(NODE_LEVELS) - 1
    left = graph.gather(values, np.arange(last), axis=1)
    right = graph.gather(values, np.arange(1, last + 1), axis=1)
    step = graph.op("Max", right - left, float(np.finfo(float).tiny))
    share = graph.op("Min", graph.op("Max", (float(end) - left) / step, 0.0), 1.0)
    return (share * np.diff(NODE_LEVELS)).sum(1, keepdims=1)


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
    graph: Graph, model: FittedModel, mean: Tensor, scale: Tensor, leaf: Tensor, levels: NDArray[np.float64]
) -> list[Tensor]:
    """Mean, std and quantiles (n, k) of models that predict variances, in units of the target.

    Residual distributions by group (or normal ones) are moved and scaled by ``mean`` and ``scale``, shape (n,), which
    are in units of the scaled target.
    """
    calibration = _calibration(model)
    if calibration is None:
        by_group = np.array([[0.0, 1.0, *ndtri(levels)]])
    else:
        residuals = calibration.residuals
        by_group = np.array([[residual.mean, residual.std, *residual.ppf(levels)] for residual in residuals])
    scaled = scale.unsqueeze(1) * _by_group(graph, model, leaf, by_group)
    shift, std, distances = graph.ops("Split", 3, scaled, ints(1, 1, len(levels)), axis=1)
    return _unscaled(model, mean + shift.squeeze(1), std.squeeze(1), mean.unsqueeze(1) + distances)


def quantile_outputs(
    graph: Graph, model: FittedModel, quantiles: Tensor, leaf: Tensor, levels: NDArray[np.float64]
) -> list[Tensor]:
    """Mean, std and quantiles (n, k), from quantile functions (n, J) calibrated by residual distributions by group."""
    calibration = _calibration(model)
    residuals = [standard_normal()] if calibration is None else calibration.residuals
    weights, squares, products = (_by_group(graph, model, leaf, table) for table in _moment_forms(residuals))
    centre = (quantiles * weights).sum(1, keepdims=1)
    # About the mean, to avoid cancellation.
    deviation = quantiles - centre
    next_deviation = graph.gather(deviation, np.append(np.arange(1, len(POSITIONS)), 0), axis=1)
    variance = (deviation * (deviation * squares + next_deviation * products)).sum(1)
    std, mean = graph.op("Sqrt", graph.op("Max", variance, 0.0)), centre.squeeze(1)
    if calibration is not None and calibration.mean_of_knots:
        mean = (quantiles * MEAN_WEIGHTS).sum(1)
    at_levels = _values_at(graph, model, quantiles, leaf, residuals, levels)
    outputs = _unscaled(model, mean, std, at_levels)
    if model.target.target_map is None:
        return outputs
    at_nodes = _values_at(graph, model, quantiles, leaf, residuals, NODE_LEVELS)
    return mapped_outputs(graph, model.target.target_map, _unscaled(model, mean, std, at_nodes)[2], outputs[2])


def _values_at(
    graph: Graph,
    model: FittedModel,
    quantiles: Tensor,
    leaf: Tensor,
    residuals: Sequence[ResidualDistribution],
    levels: NDArray[np.float64],
) -> Tensor:
    """Quantiles at some levels, from quantile functions and residual distributions by group; shape (n, k)."""
    z = np.array([residual.ppf(levels) for residual in residuals])
    segment = np.searchsorted(POSITIONS[1:-1], z, side="right")
    fraction = (z - POSITIONS[segment]) / np.diff(POSITIONS)[segment]
    if len(residuals) == 1:
        low, high = (graph.gather(quantiles, knots[0], axis=1) for knots in (segment, segment + 1))
    else:
        by_row = (_by_group(graph, model, leaf, knots) for knots in (segment, segment + 1))
        low, high = (graph.op("GatherElements", quantiles, knots, axis=1) for knots in by_row)
    return low + (high - low) * _by_group(graph, model, leaf, fraction)


def _moment_forms(residuals: Sequence[ResidualDistribution]) -> NDArray[np.float64]:
    """Mean and mean square of a piecewise linear quantile function, as a linear and a quadratic form of its knots.

    For E from a residual distribution, the quantile function at E is the sum of its knots times hat functions of E: its
    mean is ``sum_j weights_j knot_j``, its mean square ``sum_j knot_j (squares_j knot_j + products_j knot_(j + 1))``.

    The tables have shape (3, G, J) for G residual distributions; the last product is 0.
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


def mixture_moments(graph: Graph, means: Tensor, variances: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (n,) of mixtures of normal distributions, whose moments have shape (n, M)."""
    mean = graph.op("ReduceMean", means, axes=[1], keepdims=1)
    distance = means - mean
    std = graph.op("Sqrt", graph.op("ReduceMean", variances + distance * distance, axes=[1], keepdims=0))
    return mean.squeeze(1), std


def combined_quantiles(graph: Graph, model: TreeEnsemble, member_quantiles: Tensor, leaf: Tensor) -> Tensor:
    """Quantile functions (n, J) of an ensemble, from those of its members, shape (n, M, J)."""
    centres, stds = (weighted(member_quantiles, weights) for weights in (MEAN_WEIGHTS, HALF_WIDTH))
    shrinkage = _shrinkage(graph, model, centres, stds * stds, leaf)
    return _shrunk(graph, graph.op("ReduceMean", member_quantiles, axes=[1], keepdims=0), shrinkage)


def _shrinkage(graph: Graph, model: TreeEnsemble, centres: Tensor, variances: Tensor, leaf: Tensor) -> Tensor:
    """Shrinkage of an ensemble's conformity scores, sqrt(κ + c s² / (M v)), see `USNRTEnsemble`; shape (n,)."""
    n_members = len(model.members)
    mean = graph.op("ReduceMean", centres, axes=[1], keepdims=1)
    squares = graph.op("ReduceSumSquare", centres - mean, axes=[1], keepdims=0)
    variance = graph.op("Max", graph.op("ReduceMean", variances, axes=[1], keepdims=0), 1e-30)
    disagreement = graph.op("Min", squares * (1.0 / (n_members - 1)) / variance, float(MAX_DISAGREEMENT))
    return graph.op("Sqrt", graph.gather(model.shared, leaf) + disagreement * float(model.own_factor / n_members))


def _shrunk(graph: Graph, quantiles: Tensor, shrinkage: Tensor) -> Tensor:
    """Values of quantile functions, shape (n, J), at the positions times a positive factor per row, shape (n,).

    The value is the sum over all segments of their slope times the length of their overlap, without searching for the
    segment of a position.
    """
    width, n_segments = np.diff(POSITIONS), len(POSITIONS) - 1
    z = shrinkage.unsqueeze(1, 2) * POSITIONS[:, None]
    low, high = np.zeros(n_segments), width.copy()
    low[0], high[-1] = -np.inf, np.inf  # the outer segments extend to infinity
    overlaps = graph.op("Min", graph.op("Max", z - POSITIONS[:-1], low), high)  # (n, J, J - 1)
    differences = (np.eye(n_segments, n_segments + 1, 1) - np.eye(n_segments, n_segments + 1)).T / width
    slopes = (quantiles @ differences).unsqueeze(1)
    return graph.gather(quantiles, ints(0), axis=1) + (overlaps * slopes).sum(2)


def mixture_outputs(
    graph: Graph, model: FittedModel, means: Tensor, variances: Tensor, levels: NDArray[np.float64]
) -> list[Tensor]:
    """Mean, std and quantiles (n, k) of an equal mixture of the members' normal distributions."""
    mean, std = mixture_moments(graph, means, variances)
    return _unscaled(model, mean, std, _mixture_quantiles(graph, means, graph.op("Sqrt", variances), levels))


def _mixture_quantiles(graph: Graph, means: Tensor, stds: Tensor, levels: NDArray[np.float64]) -> Tensor:
    """Quantiles, shape (n, k), by repeated subdivision of the bracket between the quantiles of the members."""
    own = means.unsqueeze(1) + stds.unsqueeze(1) * ndtri(levels)[:, None]  # (n, k, M)
    low = graph.op("ReduceMin", own, axes=[2], keepdims=1)
    width = graph.op("ReduceMax", own, axes=[2], keepdims=1) - low
    means, stds = means.unsqueeze(1, 2), stds.unsqueeze(1, 2)  # (n, 1, 1, M)

    def divide(body: Graph, iteration: Tensor, start: Tensor, length: Tensor) -> list[Tensor]:
        part = length * (1 / N_PARTS)
        points = start + part * np.arange(1.0, N_PARTS)  # (n, k, N_PARTS - 1)
        cdf = body.op("ReduceMean", _normal_cdf(body, (points.unsqueeze(3) - means) / stds), axes=[3], keepdims=0)
        n_below = (cdf < levels[:, None]).cast(np.float64).sum(2, keepdims=1)
        return [start + n_below * part, part]

    shape: Shape = ["n", len(levels), 1]
    state = {"low": (low, np.float64, shape), "width": (width, np.float64, shape)}
    low, width = graph.loop("bracket", N_ITERATIONS, divide, state)
    return (low + width * 0.5).squeeze(2)


def _normal_cdf(graph: Graph, z: Tensor) -> Tensor:
    size = graph.op("Min", graph.op("Abs", z), float(MAX_ABS_Z))
    numerator, denominator = (_polynomial(size, coefficients) for coefficients in (NUMERATOR, DENOMINATOR))
    tail = graph.op("Exp", size * size * -0.5) * numerator / denominator
    return graph.op("Where", z < 0.0, tail, 1.0 - tail)


def _polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """Horner's scheme, highest power first."""
    value = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        value = x * value + coefficient
    return value


def _unscaled(model: FittedModel, mean: Tensor, std: Tensor, quantiles: Tensor) -> list[Tensor]:
    """Mean, std and quantiles in units of the target, from units of the scaled target."""
    scale, shift = float(model.target.std), float(model.target.mean)
    return [mean * scale + shift, std * scale, quantiles * scale + shift]


def _by_group(graph: Graph, model: FittedModel, leaf: Tensor, table: NDArray[Any]) -> Value:
    """The entry of each row's group in a table with one entry per group; a single entry is broadcast."""
    if len(table) == 1:
        return table
    calibration = _calibration(model)
    assert calibration is not None
    return graph.gather(table[calibration.group_of_leaf], leaf)


def _calibration(model: FittedModel) -> GroupCalibration | None:
    """The calibration, which `to_onnx` has checked."""
    assert isinstance(model.calibration, GroupCalibration | None)
    return model.calibration
