"""A grown tree with the networks of its leaves: plain arrays that answer with a mean and a variance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import predict_grouped
from usnrt.nn.mlp import MLP
from usnrt.tree.structure import Tree


@dataclass
class TreeModel:
    """A tree, and a mean and one or more variance networks in each leaf.

    Attributes
    ----------
    tree : Tree
    mean_network, variance_network : MLP
        The architectures, the same in all leaves.
    mean_params : list of Params
        One a leaf.
    variance_params : list of list of Params
        For each of the variance networks of a leaf, one a leaf; the answer is their geometric mean.
    encoding : PiecewiseLinear or None
        What turns the inputs into what the networks see.
    """

    tree: Tree
    mean_network: MLP
    variance_network: MLP
    mean_params: Sequence[Any]
    variance_params: Sequence[Sequence[Any]]
    encoding: PiecewiseLinear | None = None

    def moments(
        self, raw: NDArray[np.float64], inputs: NDArray[np.float32], n_threads: int = 1
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Leaf, mean and variance of each row.

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
        mean = predict_grouped(self.mean_network, self.mean_params, inputs, leaf, None, n_threads, self.encoding)
        log_variance = [
            np.log(predict_grouped(self.variance_network, params, inputs, leaf, None, n_threads, self.encoding))
            for params in self.variance_params
        ]
        return leaf, mean, np.exp(np.mean(log_variance, axis=0))
