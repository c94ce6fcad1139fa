"""The last step of the graph: calibration, or a mixture, and the units of the target."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from usnrt.onnx._graph import Graph, Value, whole

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


def located(graph: Graph, model: Any, mean: str, variance: str, leaf: str, levels: NDArray[np.float64]) -> list[str]:
    """Answers of a location-scale distribution with the shape of the row's leaf; normal without calibration.

    Parameters
    ----------
    graph : Graph
    model : USNRTRegressor or USNRTEnsemble
    mean, variance, leaf : str
        Names, shape (n,); in units of the scaled target.
    levels : ndarray of shape (k,)

    Returns
    -------
    list of str
        Names of mean, std and quantiles, shapes (n,), (n,) and (n, k), in units of the target.
    """
    stretched: Value
    if model.calibration_ is None:
        stretched = np.array([[0.0, 1.0, *ndtri(levels)]]) * model.target_std_
    else:
        n_leaves = model.tree_.n_leaves
        unit = model.calibration_.distribution(np.zeros(n_leaves), np.ones(n_leaves), np.arange(n_leaves))
        shapes = np.column_stack([unit.mean(), unit.std(), unit.ppf(levels)])
        stretched = graph.op("Gather", shapes * model.target_std_, leaf, axis=0)
    around = graph.op("Mul", _column(graph, graph.op("Sqrt", variance)), stretched)
    # The standard deviation, in the second place, does not move with the location.
    moves = np.array([[1.0, 0.0] + [1.0] * len(levels)])
    at = graph.op("Mul", _column(graph, mean), moves * model.target_std_)
    everything = graph.op("Add", graph.op("Add", at, around), moves * model.target_mean_)
    mean, std, quantiles = graph.ops("Split", 3, everything, whole(1, 1, len(levels)), axis=1)
    return [graph.op("Squeeze", mean, whole(1)), graph.op("Squeeze", std, whole(1)), quantiles]


def joined(graph: Graph, model: Any, means: str, variances: str, leaf: str) -> tuple[str, str]:
    """Mean and variance of a calibrated ensemble: κ v + c s² / M, see `USNRTEnsemble`.

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
    mean, variance : str
        Names, shape (n,).
    """
    n_members = len(model.members_)
    mean = graph.op("ReduceMean", means, axes=[1], keepdims=0)
    squares = graph.op("ReduceSumSquare", graph.op("Sub", means, _column(graph, mean)), axes=[1], keepdims=0)
    own_factor = getattr(model, "own_factor_", 1.0)  # c; models of older files have none
    epistemic = graph.op("Mul", squares, np.float64(own_factor / (n_members * (n_members - 1))))
    noise = graph.op("ReduceMean", variances, axes=[1], keepdims=0)
    aleatoric = graph.op("Mul", graph.op("Gather", model.shared_, leaf, axis=0), noise)
    return mean, graph.op("Add", aleatoric, epistemic)


def mixed(graph: Graph, model: Any, means: str, variances: str, levels: NDArray[np.float64]) -> list[str]:
    """Answers of an equal mixture of the members' normal distributions; the arguments are as in the other two."""
    mean = graph.op("ReduceMean", means, axes=[1], keepdims=0)
    distance = graph.op("Sub", means, _column(graph, mean))
    squares = graph.op("Add", variances, graph.op("Mul", distance, distance))
    std = graph.op("Sqrt", graph.op("ReduceMean", squares, axes=[1], keepdims=0))
    quantiles = _mixture_quantiles(graph, means, graph.op("Sqrt", variances), levels)
    scale, shift = np.float64(model.target_std_), np.float64(model.target_mean_)
    return [
        graph.op("Add", graph.op("Mul", mean, scale), shift),
        graph.op("Mul", std, scale),
        graph.op("Add", graph.op("Mul", quantiles, scale), shift),
    ]


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


def _column(graph: Graph, values: str) -> str:
    return graph.op("Unsqueeze", values, whole(1))
