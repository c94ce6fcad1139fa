"""Several trees that predict together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from usnrt.model.pairs import MAX_DISAGREEMENT, disagreement
from usnrt.nn.quantile_functions import value_at
from usnrt.nn.quantiles import POSITIONS
from usnrt.tables.training import TrainingTable
from usnrt.tree.model import ExpertTree, Predicted, VarianceTree
from usnrt.tree.structure import Tree
from usnrt.utils.types import Floats

# Share of the rows that validate two members, to measure the disagreement of members on rows that neither trained on.
PAIRED = 0.25


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
        """The regions: those of the first member."""
        return self.members[0].tree

    def with_tree(self, tree: Tree) -> "TreeEnsemble":
        """The same networks with other residual moments or numbers of rows in the regions."""
        return replace(self, members=[replace(self.members[0], tree=tree), *self.members[1:]])

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

    @property
    def expert_names(self) -> list[str]:
        """Names of the experts of all members, in the order of `mean_expert_weights`."""
        return list(dict.fromkeys(name for member in self.members for name in member.expert_names))

    def mean_expert_weights(self, table: TrainingTable) -> Floats:
        """Weights of the experts, averaged over members and over the training rows of each region.

        Returns
        -------
        ndarray of shape (n_leaves, n_experts)
            Each row sums to 1.
        """
        names, regions, n_regions = self.expert_names, self.tree.leaf_of(table.raw), self.tree.n_leaves
        of_row = np.zeros((len(regions), len(names)))
        for member in self.members:
            weights = member.expert_weights[member.tree.leaf_of(table.raw)]
            of_row[:, [names.index(name) for name in member.expert_names]] += weights
        total = np.bincount(regions, table.weight, n_regions)
        sums = [np.bincount(regions, table.weight * weights, n_regions) for weights in of_row.T / len(self.members)]
        return np.stack(sums, axis=1) / total[:, None]


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


def draw_folds(n_rows: int, n_members: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Validation rows of each member: every row validates one member, a quarter of them two.

    Parameters
    ----------
    n_rows, n_members : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of bool of shape (n_members, n_rows)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.model.ensembles import draw_folds
    >>> is_validation = draw_folds(1000, 5, np.random.default_rng(0))
    >>> is_validation.sum(axis=1)
    array([250, 250, 250, 250, 250])
    >>> np.bincount(is_validation.sum(axis=0))
    array([  0, 750, 250])
    """
    is_validation = np.zeros((n_members, n_rows), dtype=bool)
    shuffled = rng.permutation(n_rows)
    n_paired = round(PAIRED * n_rows)
    pairs = list(combinations(range(n_members), 2))
    for pair, row_group in zip(pairs, np.array_split(shuffled[:n_paired], len(pairs))):
        is_validation[np.array(pair)[:, None], row_group] = True
    for member, row_group in enumerate(np.array_split(shuffled[n_paired:], n_members)):
        is_validation[member, row_group] = True
    return is_validation
