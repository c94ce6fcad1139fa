"""A mean network and a variance network, trained in turns: the two of a leaf, or of a whole table."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.device import DeviceTable
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import predict
from usnrt.nn.losses import squared_error, variance_nll
from usnrt.nn.mlp import MLP, Params
from usnrt.nn.train import History, Training, train

# Squared residuals below this are taken as this when they become weights: no row may outweigh all others.
MIN_RELATIVE_VARIANCE = 1e-4


@dataclass
class MeanAndVariance:
    """A trained pair of networks.

    Attributes
    ----------
    mean, variance : Params
    history : dict of str to History
        By the name of the training, e.g. ``"mean 1"``, ``"variance 2"``.
    """

    mean: Params
    variance: Params
    history: dict[str, History] = field(default_factory=dict)


def train_alternately(
    networks: tuple[MLP, MLP],
    table: DeviceTable,
    inputs: NDArray[np.float32],
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    train_rows: NDArray[np.intp],
    valid_rows: NDArray[np.intp],
    how: Training,
    rng: np.random.Generator,
    *,
    n_alternations: int = 2,
    start: tuple[Params | None, Params | None] = (None, None),
    encoding: PiecewiseLinear | None = None,
    on_epoch: Callable[[str, int, float, float], None] | None = None,
) -> MeanAndVariance:
    r"""Train a mean network by least squares, a variance network by likelihood, and each again with the other fixed.

    The first mean network minimises :math:`\sum (y - f)^2`, later ones :math:`\sum (y - f)^2 / \sigma^2`; the
    variance network minimises :math:`\sum \log \sigma^2 + (y - f)^2 / \sigma^2`.

    Parameters
    ----------
    networks : (MLP, MLP)
        Of the mean and of the variance.
    table : DeviceTable
        The inputs of all rows on the device; ``inputs`` are the same on the host.
    y, weight : ndarray of shape (n_table,)
    train_rows, valid_rows : ndarray of int
    how : Training
    rng : numpy.random.Generator
    n_alternations : int, default=2
        How often each network is trained.
    start : pair of Params or None
        Weights to start from; drawn anew where None.
    encoding : PiecewiseLinear, default=None
        The one of the table, if it has one.
    on_epoch : callable, default=None
        Called with the name of the training, epoch, training loss and validation loss.

    Returns
    -------
    MeanAndVariance
    """
    rows = np.concatenate([train_rows, valid_rows])
    mean = networks[0].init(rng) if start[0] is None else start[0]
    variance = networks[1].init(rng) if start[1] is None else start[1]
    pair = MeanAndVariance(mean, variance)

    def run(name: str, network: MLP, loss: Any, params: Params, target: Any, row_weight: Any) -> Params:
        report = None if on_epoch is None else lambda *state: on_epoch(name, *state)
        params, pair.history[name] = train(
            network, loss, params, table, target, row_weight, train_rows, valid_rows, how, rng, report
        )
        return params

    row_weight = weight
    squared_residual = np.zeros_like(y)
    for turn in range(1, n_alternations + 1):
        pair.mean = run(f"mean {turn}", networks[0], squared_error, pair.mean, y, row_weight)
        squared_residual[rows] = (y[rows] - predict(networks[0], pair.mean, inputs, rows, encoding=encoding)) ** 2
        pair.variance = run(f"variance {turn}", networks[1], variance_nll, pair.variance, squared_residual, weight)
        if turn < n_alternations:
            row_weight = weight * inverse_variance(networks[1], pair.variance, inputs, rows, encoding)
    return pair


def inverse_variance(
    network: MLP,
    params: Params,
    inputs: NDArray[np.float32],
    rows: NDArray[np.intp],
    encoding: PiecewiseLinear | None = None,
) -> NDArray[np.float64]:
    """Weights 1 / variance of some rows, averaging 1 over them; 0 for all other rows of the table.

    Parameters
    ----------
    network : MLP
        The variance network.
    params : Params
    inputs : ndarray of shape (n_table, n_inputs)
    rows : ndarray of int
    encoding : PiecewiseLinear, default=None

    Returns
    -------
    ndarray of shape (n_table,)
    """
    variance = predict(network, params, inputs, rows, encoding=encoding)
    inverse = 1.0 / np.maximum(variance, MIN_RELATIVE_VARIANCE * np.median(variance))
    weights = np.zeros(len(inputs))
    weights[rows] = inverse / inverse.mean()
    return weights
