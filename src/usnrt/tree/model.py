"""Grown trees with the networks of their regions: plain arrays that predict a mean and a quantile function per row."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import GroupedNetworks
from usnrt.nn.mlp import MLP, Params
from usnrt.nn.quantiles import POSITIONS, predicted_quantiles, quantile_function_mean
from usnrt.tree.refine import Refinement, blend_and_refine
from usnrt.tree.structure import Tree
from usnrt.utils.types import Floats

# Region of each row (counted from 0, left to right), means of shape (n,), quantiles of shape (n, n_positions).
Predicted = tuple[NDArray[np.int64], Floats, Floats]


@dataclass
class TreeModel(ABC):
    """A tree with a mean network in each region; subclasses add the networks that estimate the noise.

    Attributes
    ----------
    tree : Tree
    mean_network : MLP
        The architecture, the same in all regions.
    mean_params : list of Params
        One per region.
    encoding : PiecewiseLinear or None
        Encoding of the network inputs.
    """

    tree: Tree
    mean_network: MLP
    mean_params: Sequence[Params]
    encoding: PiecewiseLinear | None

    @abstractmethod
    def quantile_functions(self, raw: Floats, inputs: NDArray[np.float32], n_threads: int = 1) -> Predicted:
        """Region, mean and quantile function of each row.

        Parameters
        ----------
        raw : ndarray of shape (n, d)
            Split features.
        inputs : ndarray of shape (n, p), float32
            Network inputs.
        n_threads : int

        Returns
        -------
        leaf : ndarray of int of shape (n,)
            Counted from 0, left to right.
        mean : ndarray of shape (n,)
        quantiles : ndarray of shape (n, n_positions)
            At `usnrt.nn.quantiles.POSITIONS`.
        """

    def _outputs(
        self,
        network: MLP,
        params: Sequence[Params],
        inputs: NDArray[np.float32],
        leaf: NDArray[np.int64],
        n_threads: int,
    ) -> Floats:
        """Outputs for each row of the network of its region."""
        prepared = self.__dict__.setdefault("_prepared", {})  # not a field: it is not stored in files
        networks: GroupedNetworks | None = prepared.get(id(params))
        if networks is None or networks.params_of_group is not params:
            networks = prepared[id(params)] = GroupedNetworks(network, params, self.encoding)
        return networks.predict(inputs, leaf, None, n_threads)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_prepared"}


@dataclass
class VarianceTree(TreeModel):
    """A tree with a mean network and variance networks in each region, as in the paper.

    Attributes
    ----------
    variance_network : MLP
    variance_params : list of list of Params
        For each of the variance networks, one per region; the prediction is their geometric mean. Trees of the paper
        have one variance network, some models of format 1 have two.
    """

    variance_network: MLP
    variance_params: Sequence[Sequence[Params]]

    def moments(
        self, raw: Floats, inputs: NDArray[np.float32], n_threads: int = 1
    ) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Region, mean and variance of each row; parameters as for `quantile_functions`.

        Returns
        -------
        leaf : ndarray of int of shape (n,)
        mean, variance : ndarray of shape (n,)
        """
        leaf = self.tree.leaf_of(raw)
        log_variance = [
            np.log(self._outputs(self.variance_network, params, inputs, leaf, n_threads))
            for params in self.variance_params
        ]
        mean = self._outputs(self.mean_network, self.mean_params, inputs, leaf, n_threads)
        return leaf, mean, np.exp(np.mean(log_variance, axis=0))

    def quantile_functions(self, raw: Floats, inputs: NDArray[np.float32], n_threads: int = 1) -> Predicted:
        """Region, mean and quantile function of each row, that of a normal distribution."""
        leaf, mean, variance = self.moments(raw, inputs, n_threads)
        return leaf, mean, mean[:, None] + np.sqrt(variance)[:, None] * POSITIONS


@dataclass
class QuantileTree(TreeModel):
    """A tree with a mean network and a quantile network in each region.

    Attributes
    ----------
    quantile_network : MLP
    quantile_params : list of Params
        One per region.
    blend : float
        Weight of the mean of the quantile function in the predicted mean; the mean network has the rest.
    refinement : Refinement or None
        Refinement of the quantile functions by validation rows; None in models of old files.
    """

    quantile_network: MLP
    quantile_params: Sequence[Params]
    blend: float = 0.0
    refinement: Refinement | None = None

    def quantile_functions(self, raw: Floats, inputs: NDArray[np.float32], n_threads: int = 1) -> Predicted:
        """Region, blended mean and refined quantile function of each row."""
        leaf = self.tree.leaf_of(raw)
        outputs = self._outputs(self.quantile_network, self.quantile_params, inputs, leaf, n_threads)
        quantiles = predicted_quantiles(outputs, n_threads=n_threads)
        mean = self._outputs(self.mean_network, self.mean_params, inputs, leaf, n_threads)
        if self.refinement is None:
            mean = mean + self.blend * (quantile_function_mean(quantiles) - mean)
        else:
            blend_and_refine(leaf, mean, quantiles, self.blend, self.refinement, n_threads)
        return leaf, mean, quantiles

    def refine(self, raw: Floats, inputs: NDArray[np.float32], y: Floats, weight: Floats) -> Floats:
        """Choose `blend` and `refinement` by validation rows.

        Parameters
        ----------
        raw, inputs
            As for `quantile_functions`.
        y, weight : ndarray of shape (n,)

        Returns
        -------
        ndarray of shape (n, n_positions)
            The refined quantile functions of these rows.
        """
        leaf, mean, quantiles = self.quantile_functions(raw, inputs)
        other = quantile_function_mean(quantiles)
        self.blend = blend_share(mean, other, y, weight)
        mean = mean + self.blend * (other - mean)
        self.refinement = Refinement.fit(leaf, mean, quantiles, y, weight, self.tree.n_leaves)
        return self.refinement.apply(leaf, mean, quantiles)


def blend_share(mean: Floats, other: Floats, y: Floats, weight: Floats) -> float:
    """The weight of another prediction of the mean that minimises the squared error of validation rows.

    The errors of two networks are not fully correlated, so their average has a smaller error; but the other prediction
    may be biased, because quantiles contain little information about far tails.

    Parameters
    ----------
    mean, other, y, weight : ndarray of shape (n,)

    Returns
    -------
    float
        In [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.tree.model import blend_share
    >>> blend_share(np.zeros(2), np.ones(2), np.full(2, 0.25), np.ones(2))
    0.25
    """
    gap = other - mean
    share = np.average(gap * (y - mean), weights=weight) / max(np.average(gap**2, weights=weight), 1e-12)
    return float(np.clip(share, 0.0, 1.0))
