"""Several trees that predict together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from usnrt.model.pairs import MAX_DISAGREEMENT, disagreement
from usnrt.nn.quantile_functions import value_at
from usnrt.nn.quantiles import POSITIONS
from usnrt.tree.model import ExpertTree, Predicted, VarianceTree
from usnrt.tree.structure import Tree
from usnrt.utils.types import Floats


@dataclass(frozen=True)
class TreeEnsemble:
    """Members whose quantile functions are averaged and narrowed, see `usnrt.USNRTEnsemble`.

    Attributes
    ----------
    members : sequence of ExpertTree
    shared : ndarray of shape (n_leaves,)
        κ, the share of a member's variance that all members have in common; the same in all regions.
    own_factor : float
        c, the factor of the variance between members' means.
    epistemic_factor : float
        Squared error of the ensemble's mean in units of the variance between members' means, by the folds.
    """

    members: Sequence[ExpertTree]
    shared: Floats
    own_factor: float
    epistemic_factor: float

    @property
    def tree(self) -> Tree:
        """The regions, which all members have in common."""
        return self.members[0].tree

    @property
    def expert_names(self) -> list[str]:
        """Names of the experts, in the order of their weights."""
        return self.members[0].expert_names

    @property
    def expert_weights(self) -> Floats:
        """Weights of the experts in each region, which all members have in common."""
        return self.members[0].expert_weights

    def with_tree(self, tree: Tree) -> "TreeEnsemble":
        """The same networks with other residual moments or numbers of rows in the regions."""
        return replace(self, members=[replace(member, tree=tree) for member in self.members])

    def without_folds(self) -> "TreeEnsemble":
        """See `ExpertTree.without_folds`."""
        return replace(self, members=[member.without_folds() for member in self.members])

    def quantile_functions(self, raw: Floats, inputs: NDArray[np.float32], n_threads: int = 1) -> Predicted:
        """Region, mean, narrowed quantile functions, and disagreement of the members."""
        predicted = [member.quantile_functions(raw, inputs, n_threads) for member in self.members]
        quantiles = np.stack([each.quantiles for each in predicted])
        leaf, apart = self.tree.leaf_of(raw), disagreement(quantiles)
        share = self.shared[leaf] + self.own_factor * np.minimum(apart, MAX_DISAGREEMENT) / len(self.members)
        mean = np.mean([each.mean for each in predicted], axis=0)
        narrowed = value_at(quantiles.mean(axis=0), POSITIONS, np.sqrt(share)[:, None] * POSITIONS)
        return Predicted(leaf, mean, narrowed, apart)


@dataclass(frozen=True)
class PaperEnsemble:
    """Members whose normal distributions are mixed, as in the paper."""

    members: Sequence[VarianceTree]

    @property
    def tree(self) -> Tree:
        """The regions: those of the first member."""
        return self.members[0].tree

    def with_tree(self, tree: Tree) -> "PaperEnsemble":
        """The same networks with other residual moments or numbers of rows in the regions."""
        return PaperEnsemble([replace(self.members[0], tree=tree), *self.members[1:]])

    def quantile_functions(self, raw: Floats, inputs: NDArray[np.float32], n_threads: int = 1) -> Predicted:
        """Region, mean, quantile functions of a normal of the mixture's moments, and disagreement of the members."""
        normals = [member.quantile_functions(raw, inputs, n_threads).normals for member in self.members]
        means, variances = (np.concatenate(part) for part in zip(*(each for each in normals if each is not None)))
        mean, within, between = means.mean(axis=0), variances.mean(axis=0), means.var(axis=0)
        quantiles = mean[:, None] + np.sqrt(within + between)[:, None] * POSITIONS
        return Predicted(self.tree.leaf_of(raw), mean, quantiles, between / within, (means, variances))
