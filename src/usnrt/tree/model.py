"""A grown tree with the networks of its leaves: plain arrays that answer with a mean and a quantiles of quantiles."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import predict_grouped
from usnrt.nn.mlp import MLP
from usnrt.nn.quantiles import POSITIONS, quantile_function_mean, to_quantiles
from usnrt.tree.refine import Refinement
from usnrt.tree.structure import Tree


@dataclass
class TreeModel:
    """A tree, and in each leaf a mean network and one or more networks of the spread.

    Attributes
    ----------
    tree : Tree
    mean_network, variance_network : MLP
        The architectures, the same in all leaves; the second says a variance, or quantiles if it has many outputs.
    mean_params : list of Params
        One a leaf.
    variance_params : list of list of Params
        For each of the second networks of a leaf, one a leaf; the answer is their mean, of variances the geometric.
    encoding : PiecewiseLinear or None
        What turns the inputs into what the networks see.
    blend : float
        Share that the mean of the quantiles has in the mean; the rest is the mean network's.
    refinement : Refinement or None
        What validation rows change about the quantile functions.
    """

    tree: Tree
    mean_network: MLP
    variance_network: MLP
    mean_params: Sequence[Any]
    variance_params: Sequence[Sequence[Any]]
    encoding: PiecewiseLinear | None = None
    blend: float = 0.0
    refinement: Refinement | None = None

    @property
    def predicts_quantiles(self) -> bool:
        """Whether the second networks say quantiles, not a variance."""
        return self.variance_network.sizes[-1] > 1

    def moments(
        self, raw: NDArray[np.float64], inputs: NDArray[np.float32], n_threads: int = 1
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Leaf, mean and variance of each row, of networks that say variances.

        Parameters
        ----------
        raw : ndarray of shape (n, d)
            For the splits.
        inputs : ndarray of shape (n, p), float32
            For the networks.
        n_threads : int

        Returns
        -------
        leaf : ndarray of int of shape (n,)
            Counted from 0, left to right.
        mean, variance : ndarray of shape (n,)
        """
        leaf = self.tree.leaf_of(raw)
        log_variance = [np.log(answer) for answer in self._second_answers(inputs, leaf, n_threads)]
        return leaf, self._means(inputs, leaf, n_threads), np.exp(np.mean(log_variance, axis=0))

    def quantile_functions(
        self, raw: NDArray[np.float64], inputs: NDArray[np.float32], n_threads: int = 1
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Leaf, mean and quantiles of each row; a variance says those of a normal distribution.

        Parameters
        ----------
        raw, inputs, n_threads
            As for `moments`.

        Returns
        -------
        leaf : ndarray of int of shape (n,)
        mean : ndarray of shape (n,)
            Of the mean network, blended with that of the quantile network.
        quantiles : ndarray of shape (n, n_positions)
            Refined quantile functions, at `usnrt.nn.quantiles.POSITIONS`.
        """
        if not self.predicts_quantiles:
            leaf, mean, variance = self.moments(raw, inputs, n_threads)
            return leaf, mean, mean[:, None] + np.sqrt(variance)[:, None] * POSITIONS
        leaf = self.tree.leaf_of(raw)
        answers = self._second_answers(inputs, leaf, n_threads)
        quantiles = np.mean([to_quantiles(answer) for answer in answers], axis=0)
        mean = self._means(inputs, leaf, n_threads)
        mean = mean + self.blend * (quantile_function_mean(quantiles) - mean)
        return leaf, mean, quantiles if self.refinement is None else self.refinement.apply(leaf, mean, quantiles)

    def _means(self, inputs: NDArray[np.float32], leaf: NDArray[np.int64], n_threads: int) -> NDArray[np.float64]:
        return predict_grouped(self.mean_network, self.mean_params, inputs, leaf, None, n_threads, self.encoding)

    def _second_answers(
        self, inputs: NDArray[np.float32], leaf: NDArray[np.int64], n_threads: int
    ) -> list[NDArray[np.float64]]:
        return [
            predict_grouped(self.variance_network, params, inputs, leaf, None, n_threads, self.encoding)
            for params in self.variance_params
        ]
