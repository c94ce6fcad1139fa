"""Alternating training of a mean network and a variance network, of a region or of a whole table."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.device import DeviceTable
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import predict
from usnrt.nn.jax_epochs import JaxEpochs
from usnrt.nn.losses import squared_error, variance_nll
from usnrt.nn.mlp import MLP, Params
from usnrt.nn.train import History, Training, train
from usnrt.utils.checkpoint import NO_CHECKPOINT, Checkpoint
from usnrt.utils.types import Floats, Rows

# Training rows and validation rows.
Parts = tuple[Rows, Rows]


@dataclass
class MeanAndVariance:
    """A trained pair of networks.

    Attributes
    ----------
    history : dict of str to History
        By the name of the training, e.g. ``"mean 1"``, ``"variance 2"``.
    """

    mean: Params
    variance: Params
    history: dict[str, History] = field(default_factory=dict)


@dataclass(frozen=True)
class Alternation:
    """How the two networks are trained in turns.

    Attributes
    ----------
    training : (Training, Training)
        Of the mean network and of the variance network.
    reinitialize : bool
        Whether every training starts from new weights and draws its validation rows anew, as in the code of the
        paper's authors. Otherwise each training of a network starts from its previous weights, with the same
        validation rows.
    min_relative_variance : float, default=0
        Lower bound on the variances that become weights, as a share of their median, so that noise-free rows do not
        dominate.
    n_alternations : int, default=2
        Number of trainings of each network.
    """

    training: tuple[Training, Training]
    reinitialize: bool
    min_relative_variance: float = 0.0
    n_alternations: int = 2


@dataclass(frozen=True)
class NetworkRows:
    """All rows of a table, as networks take them.

    Attributes
    ----------
    table : DeviceTable
        The network inputs on the device.
    inputs : ndarray of shape (n, p), float32
        The same on the host.
    y, weight : ndarray of shape (n,)
    encoding : PiecewiseLinear, default=None
        Of the table, if it has one.
    """

    table: DeviceTable
    inputs: NDArray[np.float32]
    y: Floats
    weight: Floats
    encoding: PiecewiseLinear | None = None


def train_alternately(
    networks: tuple[MLP, MLP],
    data: NetworkRows,
    draw_parts: Callable[[], Parts],
    alternation: Alternation,
    rng: np.random.Generator,
    *,
    on_epoch: Callable[[str, int, float, float], None] | None = None,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> MeanAndVariance:
    r"""Train a mean network by least squares, a variance network by likelihood, and each again with the other fixed.

    The first mean network minimises :math:`\sum (y - f)^2`, later ones :math:`\sum (y - f)^2 / \sigma^2`; the
    variance network minimises :math:`\sum \log \sigma^2 + (y - f)^2 / \sigma^2`.

    Parameters
    ----------
    networks : (MLP, MLP)
        The mean network and the variance network.
    draw_parts : callable
        Returns training rows and validation rows.
    on_epoch : callable, default=None
        Called with the name of the training, epoch, training loss and validation loss.
    """
    parts = draw_parts()
    rows = np.concatenate(parts)
    pair = MeanAndVariance(networks[0].init(rng), networks[1].init(rng))

    def run(name: str, which: int, loss: Any, params: Params, target: Floats, row_weight: Floats) -> Params:
        nonlocal parts
        if alternation.reinitialize and name != "mean 1":
            params, parts = networks[which].init(rng), draw_parts()
        report = None if on_epoch is None else lambda *state: on_epoch(name, *state)
        epochs = JaxEpochs(networks[which], loss, data.table, target, row_weight, parts, alternation.training[which])
        params, pair.history[name] = train(epochs, params, rng, report, checkpoint=checkpoint.within(name))
        return params

    def outputs(which: int, params: Params) -> Floats:
        return predict(networks[which], params, data.inputs, rows, encoding=data.encoding)

    y, weight = data.y, data.weight
    row_weight = weight
    squared_residual = np.zeros_like(y)
    for turn in range(1, alternation.n_alternations + 1):
        pair.mean = run(f"mean {turn}", 0, squared_error, pair.mean, y, row_weight)
        squared_residual[rows] = (y[rows] - outputs(0, pair.mean)) ** 2
        pair.variance = run(f"variance {turn}", 1, variance_nll, pair.variance, squared_residual, weight)
        if turn < alternation.n_alternations:
            variance = outputs(1, pair.variance)
            row_weight = np.zeros_like(weight)
            row_weight[rows] = weight[rows] * inverse_variance_weights(variance, alternation.min_relative_variance)
    return pair


def inverse_variance_weights(variance: Floats, min_relative_variance: float = 0.0) -> Floats:
    """Weights 1 / variance, scaled to average 1.

    Parameters
    ----------
    variance : ndarray of shape (n,)
    min_relative_variance : float, default=0
        Lower bound on the variances, as a share of their median.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.alternate import inverse_variance_weights
    >>> inverse_variance_weights(np.array([1.0, 0.5]))
    array([0.66666667, 1.33333333])
    """
    inverse: Floats = 1.0 / np.maximum(variance, min_relative_variance * np.median(variance))
    return inverse / float(inverse.mean())
