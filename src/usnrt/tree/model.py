"""Grown trees with the networks of their regions: plain arrays that predict a mean and a quantile function per row."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from usnrt.experts.base import Expert, FurtherExpert, Query
from usnrt.experts.builtin import TOGETHER, GuidedExpert, MemoryExpert, NetworkExpert, RegionNetworks
from usnrt.experts.cross_fit import CrossFitted
from usnrt.experts.refine import Refinement, blend_and_refine
from usnrt.experts.user_model import ModelExpert
from usnrt.experts.weights import GUIDED, MEMORY, MIN_GAIN, NETWORK, Traits, fit_weights
from usnrt.memory.retrieval import N_GUIDES, PREDICT_ROWS, Retrieval, Retrieved
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import GroupedNetworks
from usnrt.nn.mlp import MLP, Params
from usnrt.nn.quantiles import POSITIONS, is_constant, quantile_function_mean
from usnrt.tables.training import TrainingTable
from usnrt.tree.structure import Tree
from usnrt.utils.types import Floats, Rows


class Predicted(NamedTuple):
    """What a tree, or several together, predict for n rows, in units of the scaled target.

    Attributes
    ----------
    leaf : ndarray of int of shape (n,)
        Index of the region, counted from 0, left to right.
    mean : ndarray of shape (n,)
    quantiles : ndarray of shape (n, n_positions)
        Quantile functions at `usnrt.nn.quantiles.POSITIONS`.
    disagreement : ndarray of shape (n,) or None
        Variance between members in units of that within them; None for a single tree.
    normals : tuple of ndarray of shape (n_members, n), or None
        Means and variances of the normal distributions that trees of the paper predict.
    """

    leaf: NDArray[np.int64]
    mean: Floats
    quantiles: Floats
    disagreement: Floats | None = None
    normals: tuple[Floats, Floats] | None = None


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
        Predicted
        """

    def with_tree(self, tree: Tree) -> Self:
        """The same networks with other residual moments or numbers of rows in the regions."""
        return replace(self, tree=tree)


@dataclass
class VarianceTree(TreeModel):
    """A tree with a mean network and a variance network in each region, as in the paper.

    Attributes
    ----------
    mean_network : MLP
        The architecture, the same in all regions.
    mean_params : list of Params
        One per region.
    variance_network : MLP
    variance_params : list of Params
        One per region.
    """

    mean_network: MLP
    mean_params: Sequence[Params]
    variance_network: MLP
    variance_params: Sequence[Params]

    @cached_property
    def _networks(self) -> tuple[GroupedNetworks, GroupedNetworks]:
        """Mean and variance networks; not a field, so that they are not stored in files."""
        mean = GroupedNetworks(self.mean_network, self.mean_params, self.encoding)
        return mean, GroupedNetworks(self.variance_network, self.variance_params, self.encoding)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_networks"}

    def quantile_functions(
        self, raw: Floats, inputs: NDArray[np.float32], n_threads: int = 1, without: Rows | None = None
    ) -> Predicted:
        """Region, mean and quantile function of each row, that of a normal distribution."""
        leaf = self.tree.leaf_of(raw)
        mean, variance = (networks.predict(inputs, leaf, None, n_threads) for networks in self._networks)
        quantiles = mean[:, None] + np.sqrt(variance)[:, None] * POSITIONS
        return Predicted(leaf, mean, quantiles, normals=(mean[None], variance[None]))


@dataclass
class ExpertTree(TreeModel):
    """A tree whose regions combine experts.

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
    expert_weights : ndarray of shape (n_leaves, 3 + n_further)
        Weights of the network, of the network guided by the memory, of the memory, and of further experts; each row
        sums to 1.
    further : tuple of FurtherExpert
    refinement : Refinement or None
        Set by `refined`.
    """

    network: MLP
    params: Sequence[Params]
    network_of: NDArray[np.int64]
    memory: Retrieval | None
    expert_weights: Floats
    further: tuple[FurtherExpert, ...] = ()
    refinement: Refinement | None = None

    @cached_property
    def _experts(self) -> dict[int, Expert]:
        """The experts by their position in the weights; not a field, so that it is not stored in files."""
        networks = RegionNetworks(self.network, self.params, self.network_of, self.encoding)
        experts: dict[int, Expert] = {NETWORK: NetworkExpert(networks, self.memory is not None)}
        if self.memory is not None:
            experts |= {GUIDED: GuidedExpert(networks, self.memory), MEMORY: MemoryExpert(self.memory)}
        return experts | dict(enumerate(self.further, len(TOGETHER)))

    @property
    def _candidates(self) -> dict[int, Expert]:
        """The experts that may have a weight: a constant only beside one that needs another to have a width."""
        return {number: expert for number, expert in self._experts.items() if number >= _first(self, self.further)}

    @property
    def expert_names(self) -> list[str]:
        """Names of the experts, in the order of their weights."""
        return [kind.name for kind in (*TOGETHER, *self.further)]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_experts"}

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
            leaf, mean, quantiles = (np.concatenate(part) for part in zip(*(part[:3] for part in parts)))
            return Predicted(leaf, mean, quantiles)
        leaf = self.tree.leaf_of(raw)
        query = Query(raw, inputs, leaf, without, self._retrieved(inputs, leaf, without, n_threads), n_threads)
        quantiles = np.zeros((len(leaf), len(POSITIONS)))
        for expert, weights in enumerate(self.expert_weights.T):
            if not weights.any():
                continue
            rows = np.flatnonzero(weights[leaf] > 0)
            own = self._experts[expert].quantile_functions(query.take(rows))
            quantiles[rows] += weights[leaf[rows], None] * own
        mean = quantile_function_mean(quantiles)
        if self.refinement is not None:
            blend_and_refine(leaf, mean, quantiles, 1.0, self.refinement, n_threads)
        return Predicted(leaf, mean, quantiles)

    def _retrieved(
        self, inputs: NDArray[np.float32], leaf: NDArray[np.int64], without: Rows | None, n_threads: int
    ) -> Retrieved | None:
        """What the memory predicts, in regions that use it; NaN elsewhere."""
        if self.memory is None:
            return None
        uses_memory: NDArray[np.bool_] = np.any(self.expert_weights[:, [GUIDED, MEMORY]] > 0, axis=1)
        if uses_memory.all():
            return self.memory.predict(inputs, without, n_threads)
        rows = np.flatnonzero(uses_memory[leaf])
        found = self.memory.predict(inputs[rows], None if without is None else without[rows], n_threads)
        retrieved = Retrieved(*(np.full((len(leaf), *part.shape[1:]), np.nan) for part in found))
        for part, values in zip(retrieved, found):
            part[rows] = values
        return retrieved

    @property
    def has_no_network(self) -> bool:
        """Whether the network is a constant, because experts were chosen without it."""
        return is_constant(self.params[0])

    @property
    def n_experts(self) -> int:
        """Number of experts that there are."""
        return len(self._candidates)

    @property
    def traits(self) -> list[Traits]:
        """What the choice of weights knows of each expert that there is."""
        return [
            Traits(expert.max_weight, expert.min_errors, number < len(TOGETHER), getattr(expert, "min_gain", MIN_GAIN))
            for number, expert in self._candidates.items()
        ]

    def expert_quantiles(self, table: TrainingTable, rows: Rows) -> Floats:
        """What each expert predicts of rows of the training table, without them, shape (n, n_experts, n_positions)."""
        raw, inputs = table.raw[rows], table.inputs[rows]
        retrieved = None if self.memory is None else self.memory.predict(inputs, rows)
        query = Query(raw, inputs, self.tree.leaf_of(raw), rows, retrieved)
        return np.stack([expert.quantile_functions(query) for expert in self._candidates.values()], axis=1)

    def fitted_weights(self, quantiles: Floats, leaf: NDArray[np.int64], y: Floats, weight: Floats) -> Floats:
        """Weights of the experts by what they predict of held-out rows; those that are not there have none.

        Parameters
        ----------
        quantiles : ndarray of shape (n_experts, n, n_positions)
        leaf, y, weight : ndarray of shape (n,)

        Returns
        -------
        ndarray of shape (n_leaves, 3 + n_further)
        """
        weights = np.zeros((self.tree.n_leaves, len(self.expert_names)))
        weights[:, list(self._candidates)] = fit_weights(quantiles, leaf, y, weight, self.tree.n_leaves, self.traits)
        return weights

    def with_further(self, further: tuple[FurtherExpert, ...]) -> "ExpertTree":
        """The model with other further experts; their weights are as they are, or 0 if their number changes."""
        n_known, n_leaves = len(self.further), self.tree.n_leaves
        if len(further) == n_known:
            return replace(self, further=further)
        weights = np.tile(np.eye(len(TOGETHER) + len(further))[_first(self, further)], (n_leaves, 1))
        return replace(self, further=further, expert_weights=weights)

    @property
    def uses_memory(self) -> bool:
        """Whether any region gives a weight to the memory or to the network that it guides."""
        return bool(self.expert_weights[:, [GUIDED, MEMORY]].any())

    @property
    def user_models(self) -> list[ModelExpert]:
        """The experts that are models of the user."""
        finals = (getattr(expert, "final", expert) for expert in self.further)
        return [expert for expert in finals if isinstance(expert, ModelExpert)]

    def without_unused(self) -> "ExpertTree":
        """The model without experts that no region uses; without a memory the network has no guides."""
        model = self.without_unused_further()
        return model if model.memory is None or model.uses_memory else model._without_memory(model.memory)

    def without_unused_further(self) -> "ExpertTree":
        """The model without those further experts that no region uses."""
        first = len(TOGETHER)
        used = np.flatnonzero(self.expert_weights[:, first:].any(axis=0)).tolist()
        columns = [*range(first), *(first + number for number in used)]
        further, weights = tuple(self.further[number] for number in used), self.expert_weights[:, columns]
        return replace(self, further=further, expert_weights=np.ascontiguousarray(weights))

    def without_folds(self) -> "ExpertTree":
        """The model for new rows: without what experts need to predict training rows as if they were new."""
        finals = (expert.final if isinstance(expert, CrossFitted) else expert for expert in self.further)
        return replace(self, further=tuple(finals))

    def _without_memory(self, memory: Retrieval) -> "ExpertTree":
        encoding, first = self.encoding, memory.n_inputs
        if encoding is not None:
            encoding = encoding.with_first(first)
            first = len(encoding.kept)
        guides = slice(first, first + N_GUIDES)
        (n_inputs, *sizes), params = self.network.sizes, []
        for (weights, bias), *others in self.params:
            params.append(((np.delete(weights, guides, axis=0), bias), *others))
        network = replace(self.network, sizes=(n_inputs - N_GUIDES, *sizes))
        return replace(self, network=network, params=params, encoding=encoding, memory=None)


def _first(tree: ExpertTree, further: Sequence[FurtherExpert]) -> int:
    """Position of the expert that the others are compared with: not of a constant if the next one can stand alone."""
    return len(TOGETHER) if further and further[0].max_weight >= 1.0 and tree.has_no_network else NETWORK
