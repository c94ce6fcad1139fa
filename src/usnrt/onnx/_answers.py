"""The last step of the graph: members join, then calibration, or a mixture, and the units of the target."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from usnrt.distributions import ResidualDistribution
from usnrt.estimators.calibrated import standard_normal
from usnrt.estimators.ensemble import MAX_DISAGREEMENT
from usnrt.nn.quantiles import POSITIONS
from usnrt.onnx._graph import Graph, Value, whole
from usnrt.onnx._networks import HALF_WIDTH, MEAN_WEIGHTS, weighted

# Quantiles of mixtures: every round cuts the bracket into so many parts. 17^7 is 4e8.
PARTS, ROUNDS = 17, 7
# The normal cdf for z <= 0 is exp(-z^2 / 2) times a quotient of polynomials in |z|, with an error below 1e-15 (Hart et
# al., Computer Approximations, 1968, number 5666). ONNX has erf, but runtimes know it in float32 only.
NUMERATOR = (
    3.52624965998911e-2, 0.700383064443688, 6.37396220353165, 33.912866078383, 112.079291497871, 221.213596169931,
    220.206867912376,
)  # fmt: skip
DENOMINATOR = (
    8.83883476483184e-2, 1.75566716318264, 16.064177579207, 86.7807322029461, 296.564248779674, 637.333633378831,
    793.826512519948, 440.413735824752,
)  # fmt: skip
FARTHEST_Z = 7.07  # a tail of 1e-12: further out the quotient is not good, and nothing depends on it


def located(graph: Graph, model: Any, mean: str, scale: str, leaf: str, levels: NDArray[np.float64]) -> list[str]:
    """Answers where variances are said: location and scale, and the shape of the row's leaf; normal without one.

    Parameters
    ----------
    graph : Graph
    model : USNRTRegressor or USNRTEnsemble
    mean, scale, leaf : str
        Names, shape (n,); in units of the scaled target.
    levels : ndarray of shape (k,)

    Returns
    -------
    list of str
        Names of mean, std and quantiles, shapes (n,), (n,) and (n, k), in units of the target.
    """
    if model.calibration_ is None:
        shapes = np.array([[0.0, 1.0, *ndtri(levels)]])
    else:
        centres = [shape.mean if model.own_mean_ else 0.0 for shape in model.calibration_.shapes]
        table = [[m, shape.std, *shape.ppf(levels)] for m, shape in zip(centres, model.calibration_.shapes)]
        shapes = np.array(table)
    around = graph.op("Mul", _column(graph, scale), _of_group(graph, model, leaf, shapes))
    off, std, distances = graph.ops("Split", 3, around, whole(1, 1, len(levels)), axis=1)
    quantiles = graph.op("Add", _column(graph, mean), distances)
    mean, std = graph.op("Add", mean, graph.op("Squeeze", off, whole(1))), graph.op("Squeeze", std, whole(1))
    return _in_units(graph, model, mean, std, quantiles)


def curved(graph: Graph, model: Any, mean: str, quantiles: str, leaf: str, levels: NDArray[np.float64]) -> list[str]:
    """Answers where quantiles are said: a row's quantiles, corrected by the residual distribution of its group.

    Parameters
    ----------
    graph, model, mean, leaf, levels
        As for `located`.
    quantiles : str
        Name, shape (n, J).

    Returns
    -------
    list of str
        As from `located`.
    """
    shapes = [standard_normal()] if model.calibration_ is None else model.calibration_.shapes
    weights, squares, products = (_of_group(graph, model, leaf, table) for table in _squares(shapes))
    centre = graph.op("ReduceSum", graph.op("Mul", quantiles, weights), whole(1), keepdims=1)
    # About the mean itself, so that no two large numbers are subtracted.
    off = graph.op("Sub", quantiles, centre)
    next_off = graph.op("Gather", off, np.append(np.arange(1, len(POSITIONS)), 0), axis=1)
    forms = graph.op("Add", graph.op("Mul", squares, off), graph.op("Mul", products, next_off))
    variance = graph.op("ReduceSum", graph.op("Mul", off, forms), whole(1), keepdims=0)
    std = graph.op("Sqrt", graph.op("Max", variance, np.float64(0)))

    z = np.array([shape.ppf(levels) for shape in shapes])
    piece = np.searchsorted(POSITIONS[1:-1], z, side="right")
    part = (z - POSITIONS[piece]) / np.diff(POSITIONS)[piece]
    if len(shapes) == 1:
        low, high = (graph.op("Gather", quantiles, places[0], axis=1) for places in (piece, piece + 1))
    else:
        places = (_of_group(graph, model, leaf, table) for table in (piece, piece + 1))
        low, high = (graph.op("GatherElements", quantiles, place, axis=1) for place in places)
    climbed = graph.op("Mul", graph.op("Sub", high, low), _of_group(graph, model, leaf, part))
    if model.own_mean_:
        mean = graph.op("Squeeze", centre, whole(1))
    return _in_units(graph, model, mean, std, graph.op("Add", low, climbed))


def _squares(shapes: Sequence[ResidualDistribution]) -> NDArray[np.float64]:
    """Mean and variance of a quantiles of straight pieces, as a linear and a quadratic form of its knots.

    With E of a shape, the quantiles is the sum of its knots times tent functions of E: the mean of the quantiles is
    ``sum_j weights_j knot_j``, its mean square ``sum_j knot_j (squares_j knot_j + products_j knot_(j + 1))``.

    Parameters
    ----------
    shapes : sequence of G shapes

    Returns
    -------
    ndarray of shape (3, G, J)
        Weights, squares and products; the last of the products is 0.
    """
    tables = np.zeros((3, len(shapes), len(POSITIONS)))
    for (weights, squares, products), shape in zip(tables.swapaxes(0, 1), shapes):
        below = np.zeros((3, len(POSITIONS)))
        below[:, 1:-1] = shape.moments_below(POSITIONS[1:-1])
        below[:, -1] = 1.0, 0.0, shape.std**2
        mass, first, second = np.diff(below, axis=1)
        # From moments about the shape's mean to those of the part of a piece's way, 0 at its left end, 1 at its right.
        width, shift = np.diff(POSITIONS), shape.mean - POSITIONS[:-1]
        first, second = first + shift * mass, second + 2.0 * shift * first + shift**2 * mass
        first, second = first / width, second / width**2
        weights[:-1] += mass - first
        weights[1:] += first
        squares[:-1] += mass - 2.0 * first + second
        squares[1:] += second
        products[:-1] = 2.0 * (first - second)
    return tables


def joined(graph: Graph, model: Any, means: str, variances: str, leaf: str) -> tuple[str, str]:
    """Location and scale of a calibrated ensemble whose members say variances.

    Parameters
    ----------
    graph : Graph
    model : USNRTEnsemble
    means, variances : str
        Names, shape (n, M).
    leaf : str
        Name, shape (n,).

    Returns
    -------
    mean, scale : str
        Names, shape (n,).
    """
    stated = graph.op("ReduceMean", graph.op("Sqrt", variances), axes=[1], keepdims=0)
    scale = graph.op("Mul", _shrinkage(graph, model, means, variances, leaf), stated)
    return graph.op("ReduceMean", means, axes=[1], keepdims=0), scale


def joined_quantiles(graph: Graph, model: Any, means: str, member_quantiles: str, leaf: str) -> tuple[str, str]:
    """Mean and quantiles of an ensemble whose members say quantiles.

    Parameters
    ----------
    graph : Graph
    model : USNRTEnsemble
    means : str
        Name, shape (n, M).
    member_quantiles : str
        Name, shape (n, M, J).
    leaf : str
        Name, shape (n,).

    Returns
    -------
    mean, quantiles : str
        Names, shapes (n,) and (n, J).
    """
    centres, stds = (weighted(graph, member_quantiles, weights) for weights in (MEAN_WEIGHTS, HALF_WIDTH))
    shrinkage = _shrinkage(graph, model, centres, graph.op("Mul", stds, stds), leaf)
    quantiles = graph.op("ReduceMean", member_quantiles, axes=[1], keepdims=0)
    return graph.op("ReduceMean", means, axes=[1], keepdims=0), _shrunk(graph, quantiles, shrinkage)


def _shrinkage(graph: Graph, model: Any, centres: str, variances: str, leaf: str) -> str:
    """What scores of an ensemble shrink by, the root of κ + c s² / (M v), see `USNRTEnsemble`; name, shape (n,)."""
    n_members = len(model.members_)
    mean = graph.op("ReduceMean", centres, axes=[1], keepdims=1)
    squares = graph.op("ReduceSumSquare", graph.op("Sub", centres, mean), axes=[1], keepdims=0)
    stated = graph.op("Max", graph.op("ReduceMean", variances, axes=[1], keepdims=0), np.float64(1e-30))
    apart = graph.op("Div", graph.op("Mul", squares, np.float64(1.0 / (n_members - 1))), stated)
    if model.own_mean_:
        apart = graph.op("Min", apart, np.float64(MAX_DISAGREEMENT))
    own = graph.op("Mul", apart, np.float64(model.own_factor_ / n_members))
    return graph.op("Sqrt", graph.op("Add", graph.op("Gather", model.shared_, leaf, axis=0), own))


def _shrunk(graph: Graph, quantiles: str, shrinkage: str) -> str:
    """Heights of member_quantiles, shape (n, J), at the positions times the row's own positive factor, shape (n,).

    A quantiles climbs on each of its pieces for the part of the way that is on it, so no piece need be looked for.
    """
    width, n_pieces = np.diff(POSITIONS), len(POSITIONS) - 1
    z = graph.op("Mul", graph.op("Unsqueeze", shrinkage, whole(1, 2)), POSITIONS[:, None])
    low, high = np.zeros(n_pieces), width.copy()
    low[0], high[-1] = -np.inf, np.inf  # the outer pieces go on
    ways = graph.op("Min", graph.op("Max", graph.op("Sub", z, POSITIONS[:-1]), low), high)  # (n, J, J - 1)
    steepness = (np.eye(n_pieces, n_pieces + 1, 1) - np.eye(n_pieces, n_pieces + 1)).T / width
    slopes = graph.op("Unsqueeze", graph.op("MatMul", quantiles, steepness), whole(1))
    climbed = graph.op("ReduceSum", graph.op("Mul", ways, slopes), whole(2), keepdims=0)
    return graph.op("Add", graph.op("Gather", quantiles, whole(0), axis=1), climbed)


def mixed(graph: Graph, model: Any, means: str, variances: str, levels: NDArray[np.float64]) -> list[str]:
    """Answers of an equal mixture of the members' normal distributions; the arguments are as above."""
    mean = graph.op("ReduceMean", means, axes=[1], keepdims=0)
    distance = graph.op("Sub", means, _column(graph, mean))
    squares = graph.op("Add", variances, graph.op("Mul", distance, distance))
    std = graph.op("Sqrt", graph.op("ReduceMean", squares, axes=[1], keepdims=0))
    quantiles = _mixture_quantiles(graph, means, graph.op("Sqrt", variances), levels)
    return _in_units(graph, model, mean, std, quantiles)


def _mixture_quantiles(graph: Graph, means: str, stds: str, levels: NDArray[np.float64]) -> str:
    """Quantiles, shape (n, k): a bracket between the members' own is cut into parts, again and again."""
    means, stds = (graph.op("Unsqueeze", value, whole(1)) for value in (means, stds))  # (n, 1, M)
    own = graph.op("Add", means, graph.op("Mul", stds, ndtri(levels)[:, None]))  # (n, k, M)
    low = graph.op("ReduceMin", own, axes=[2], keepdims=1)
    width = graph.op("Sub", graph.op("ReduceMax", own, axes=[2], keepdims=1), low)
    means, stds = (graph.op("Unsqueeze", value, whole(1)) for value in (means, stds))  # (n, 1, 1, M)

    body = Graph(f"{graph.prefix}/cut")
    body.input(f"{body.prefix}/round", np.int64, [])
    go_on = body.input(f"{body.prefix}/condition", np.bool_, [])
    shape: list[int | str] = ["n", len(levels), 1]
    start, length = (body.input(f"{body.prefix}/{name}", np.float64, shape) for name in ("low", "width"))
    part = body.op("Mul", length, np.float64(1 / PARTS))
    cuts = body.op("Add", start, body.op("Mul", part, np.arange(1.0, PARTS)))  # (n, k, PARTS - 1)
    z = body.op("Div", body.op("Sub", body.op("Unsqueeze", cuts, whole(3)), means), stds)
    cdf = body.op("ReduceMean", _normal_cdf(body, z), axes=[3], keepdims=0)
    passed = body.op("ReduceSum", body.cast(body.op("Less", cdf, levels[:, None]), np.float64), whole(2), keepdims=1)
    body.output(f"{body.prefix}/go on", go_on, np.bool_, [])
    body.output(f"{body.prefix}/new low", body.op("Add", start, body.op("Mul", passed, part)), np.float64, shape)
    body.output(f"{body.prefix}/new width", part, np.float64, shape)
    low, width = graph.loop(np.int64(ROUNDS), body, low, width)
    return graph.op("Squeeze", graph.op("Add", low, graph.op("Mul", width, np.float64(0.5))), whole(2))


def _normal_cdf(graph: Graph, z: str) -> str:
    distance = graph.op("Min", graph.op("Abs", z), np.float64(FARTHEST_Z))
    above, below = (_polynomial(graph, distance, coefficients) for coefficients in (NUMERATOR, DENOMINATOR))
    bell = graph.op("Exp", graph.op("Mul", graph.op("Mul", distance, distance), np.float64(-0.5)))
    tail = graph.op("Div", graph.op("Mul", bell, above), below)
    return graph.op("Where", graph.op("Less", z, np.float64(0)), tail, graph.op("Sub", np.float64(1), tail))


def _polynomial(graph: Graph, x: str, coefficients: tuple[float, ...]) -> str:
    """Horner's scheme, the highest power first."""
    value: Value = np.float64(coefficients[0])
    for coefficient in coefficients[1:]:
        value = graph.op("Add", graph.op("Mul", x, value), np.float64(coefficient))
    assert isinstance(value, str)
    return value


def _in_units(graph: Graph, model: Any, mean: str, std: str, quantiles: str) -> list[str]:
    """Answers in units of the target, from those in units of the scaled one."""
    scale, shift = np.float64(model.target_std_), np.float64(model.target_mean_)
    return [
        graph.op("Add", graph.op("Mul", mean, scale), shift),
        graph.op("Mul", std, scale),
        graph.op("Add", graph.op("Mul", quantiles, scale), shift),
    ]


def _of_group(graph: Graph, model: Any, leaf: str, table: NDArray[Any]) -> Value:
    """The line of each row's group, or the only one there is, which fits all rows."""
    if len(table) == 1:
        return table
    return graph.op("Gather", table[model.calibration_.group_of_leaf], leaf, axis=0)


def _column(graph: Graph, values: str) -> str:
    return graph.op("Unsqueeze", values, whole(1))
