"""Grown trees with the networks of their regions: plain arrays that predict a mean and a quantile function per row."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.memory.retrieval import N_GUIDES, PREDICT_ROWS, Retrieval, Retrieved
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import GroupedNetworks
from usnrt.nn.mlp import MLP, Params
from usnrt.nn.quantiles import POSITIONS, predicted_quantiles, quantile_function_mean
from usnrt.tree.experts import EXPERTS, GUIDED, MEMORY, fit_weights
from usnrt.tree.refine import Refinement, blend_and_refine
from usnrt.tree.structure import Tree
from usnrt.utils.types import Floats, Rows

# Region of each row (counted from 0, left to right), means of shape (n,), quantiles of shape (n, n_positions).
Predicted = tuple[NDArray[np.int64], Floats, Floats]


@dataclass
class TreeModel(ABC):
    """A tree with networks in its regions.

    Attributes
    ----------
    tree : Tree
    encoding : PiecewiseLinear or None
        Encoding of the network inputs.
    """

    tree: Tree
    encoding: PiecewiseLinear | None

    @abstractmethod
    def quantile_functions(
        self, raw: Floats, inputs: NDArray[np.float32], n_threads: int = 1, without: Rows | None = None
    ) -> Predicted:
        """Region, mean and quantile function of each row.

        Parameters
        ----------
        raw : ndarray of shape (n, d)
            Split features.
        inputs : ndarray of shape (n, p), float32
            Network inputs.
        n_threads : int
        without : ndarray of int of shape (n,), optional
            The rows of the training table that these are: a memory does not find them. Ignored without a memory.

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
    mean_network : MLP
        The architecture, the same in all regions.
    mean_params : list of Params
        One per region.
    variance_network : MLP
    variance_params : list of list of Params
        A list of one list, with one per region.
    """

    mean_network: MLP
    mean_params: Sequence[Params]
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

    def quantile_functions(
        self, raw: Floats, inputs: NDArray[np.float32], n_threads: int = 1, without: Rows | None = None
    ) -> Predicted:
        """Region, mean and quantile function of each row, that of a normal distribution."""
        leaf, mean, variance = self.moments(raw, inputs, n_threads)
        return leaf, mean, mean[:, None] + np.sqrt(variance)[:, None] * POSITIONS


@dataclass
class ExpertTree(TreeModel):
    """A tree whose regions combine three experts: a network, the same network guided by a memory, and the memory.

    Attributes
    ----------
    network : MLP
        The architecture. The last inputs before the encoding are the guides, if there is a memory.
    params : list of Params
        The networks; regions share the first one unless fine-tuning helped.
    network_of : ndarray of int of shape (n_leaves,)
        The network of each region.
    memory : Retrieval or None
        None if no region uses it.
    expert_weights : ndarray of shape (n_leaves, 3)
        Weights of the experts in the order of `usnrt.tree.experts.EXPERTS`; each row sums to 1.
    refinement : Refinement or None
        Set by `refine`.
    """

    network: MLP
    params: Sequence[Params]
    network_of: NDArray[np.int64]
    memory: Retrieval | None
    expert_weights: Floats
    refinement: Refinement | None = None

    def quantile_functions(
        self, raw: Floats, inputs: NDArray[np.float32], n_threads: int = 1, without: Rows | None = None
    ) -> Predicted:
        """Region, mean and quantile function of each row; ``without`` as for `usnrt.memory.Retrieval.predict`."""
        if len(raw) > PREDICT_ROWS:  # block by block: what the experts predict takes more memory than the result
            blocks = [slice(start, start + PREDICT_ROWS) for start in range(0, len(raw), PREDICT_ROWS)]
            parts = [
                self.quantile_functions(raw[own], inputs[own], n_threads, None if without is None else without[own])
                for own in blocks
            ]
            leaf, mean, quantiles = (np.concatenate(part) for part in zip(*parts))
            return leaf, mean, quantiles
        leaf = self.tree.leaf_of(raw)
        retrieved = self._retrieved(inputs, leaf, without, n_threads)
        quantiles = np.zeros((len(leaf), len(POSITIONS)))
        for expert, weights in enumerate(self.expert_weights.T):
            if not weights.any():
                continue
            rows = np.flatnonzero(weights[leaf] > 0)
            own = self._expert(expert, inputs[rows], leaf[rows], retrieved and retrieved.take(rows), n_threads)
            quantiles[rows] += weights[leaf[rows], None] * own
        mean = quantile_function_mean(quantiles)
        if self.refinement is not None:
            blend_and_refine(leaf, mean, quantiles, 1.0, self.refinement, n_threads)
        return leaf, mean, quantiles

    def _retrieved(
        self, inputs: NDArray[np.float32], leaf: NDArray[np.int64], without: Rows | None, n_threads: int
    ) -> Retrieved | None:
        """What the memory predicts, in regions that use it; NaN elsewhere."""
        if self.memory is None:
            return None
        uses_memory: NDArray[np.bool_] = np.any(self.expert_weights[:, GUIDED:] > 0, axis=1)
        if uses_memory.all():
            return self.memory.predict(inputs, without, n_threads)
        rows = np.flatnonzero(uses_memory[leaf])
        found = self.memory.predict(inputs[rows], None if without is None else without[rows], n_threads)
        retrieved = Retrieved(*(np.full((len(leaf), *part.shape[1:]), np.nan) for part in found))
        for part, values in zip(retrieved, found):
            part[rows] = values
        return retrieved

    def _expert(
        self,
        expert: int,
        inputs: NDArray[np.float32],
        leaf: NDArray[np.int64],
        retrieved: Retrieved | None,
        n_threads: int,
    ) -> Floats:
        """Quantile functions of one expert."""
        if expert == MEMORY:
            assert retrieved is not None
            return retrieved.quantiles
        if self.memory is not None:
            guides = np.zeros((len(inputs), N_GUIDES), dtype=np.float32)
            if expert == GUIDED:
                assert retrieved is not None
                guides = self.memory.guides(retrieved)
            inputs = np.concatenate([inputs, guides], axis=1)
        outputs = self._outputs(self.network, self.params, inputs, self.network_of[leaf], n_threads)
        return predicted_quantiles(outputs, n_threads=n_threads)

    def refine(self, raw: Floats, inputs: NDArray[np.float32], y: Floats, weight: Floats, rows: Rows) -> Floats:
        """Choose the weights of the experts and the refinement by validation rows.

        Parameters
        ----------
        raw, inputs
            As for `quantile_functions`.
        y, weight : ndarray of shape (n,)
        rows : ndarray of int of shape (n,)
            The rows of the training table that these are.

        Returns
        -------
        ndarray of shape (n, n_positions)
            The refined quantile functions of these rows.
        """
        leaf, n_leaves = self.tree.leaf_of(raw), self.tree.n_leaves
        if self.memory is not None:
            few = slice(PREDICT_ROWS)  # rows are in random order; weights do not need more of them
            retrieved = self.memory.predict(inputs[few], rows[few])
            experts = np.stack(
                [self._expert(expert, inputs[few], leaf[few], retrieved, 1) for expert in range(len(EXPERTS))]
            )
            self.expert_weights = fit_weights(experts, leaf[few], y[few], weight[few], n_leaves)
        _, mean, quantiles = self.quantile_functions(raw, inputs, without=rows)
        self.refinement = Refinement.fit(leaf, mean, quantiles, y, weight, n_leaves)
        return self.refinement.apply(leaf, mean, quantiles)

    @property
    def uses_memory(self) -> bool:
        """Whether any region gives a weight to the memory or to the network that it guides."""
        return bool(self.expert_weights[:, GUIDED:].any())

    def without_unused(self) -> "ExpertTree":
        """The model without its memory if no region uses it; the network then has no guides."""
        if self.memory is None or self.uses_memory:
            return self
        first = self.memory.n_inputs
        guides = slice(first, first + N_GUIDES)
        encoding = self.encoding
        if encoding is not None:
            encoding = PiecewiseLinear(first, encoding.columns, encoding.slope, encoding.offset)
        (n_inputs, *sizes), params = self.network.sizes, []
        for (weights, bias), *others in self.params:
            params.append(((np.delete(weights, guides, axis=0), bias), *others))
        network = replace(self.network, sizes=(n_inputs - N_GUIDES, *sizes))
        return replace(self, network=network, params=params, encoding=encoding, memory=None)
