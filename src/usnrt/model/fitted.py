"""A fitted model as a value: parts that predict encoded rows together."""

from dataclasses import dataclass, field, replace
from enum import Flag, auto
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.calibration.groups import Calibration, uncalibrated
from usnrt.calibration.seen_rows import SeenRows
from usnrt.calibration.support import REACH, RowSupport, Support
from usnrt.distributions import Distribution, Mixture, Normal, QuantileDistribution
from usnrt.experts.forest import ForestExpert
from usnrt.experts.user_model import ModelExpert
from usnrt.memory.retrieval import Retrieval
from usnrt.model.ensembles import PaperEnsemble, TreeEnsemble
from usnrt.model.target import TargetScale
from usnrt.nn.quantiles import MEDIAN
from usnrt.tables import NetworkInputs
from usnrt.tree.model import ExpertTree, Predicted, TreeModel, VarianceTree
from usnrt.tree.structure import Tree
from usnrt.utils.types import Floats


class Stage(Flag):
    """What predictions take into account beside the networks and the memory."""

    SUPPORT = auto()  # rows unlike the training rows
    SEEN = auto()  # rows with the features of a training row
    NONE = 0
    ALL = SUPPORT | SEEN


@dataclass(frozen=True)
class Prediction:
    """Predictions of n encoded rows, in units of the scaled target, before calibration.

    Attributes
    ----------
    leaf : ndarray of int of shape (n,)
        Index of the region.
    calibration_leaf : ndarray of int of shape (n,)
        The same for the calibration, which may have regions of their own for seen rows.
    quantiles : ndarray of shape (n, n_positions)
        Quantile functions at `usnrt.nn.quantiles.POSITIONS`.
    narrow : ndarray of shape (n, n_positions)
        The quantile functions before widening for lack of support.
    disagreement, normals
        See `usnrt.tree.model.Predicted`.
    row_support : RowSupport or None
        None if support was not measured.
    """

    leaf: NDArray[np.int64]
    calibration_leaf: NDArray[np.int64]
    quantiles: Floats
    narrow: Floats
    disagreement: Floats | None = None
    normals: tuple[Floats, Floats] | None = None
    row_support: RowSupport | None = None

    @property
    def unsupported(self) -> NDArray[np.intp]:
        """The rows without full support."""
        none = np.zeros(0, dtype=np.intp)
        return none if self.row_support is None else np.flatnonzero(~self.row_support.supported)


@dataclass(frozen=True)
class TrainingRows:
    """What a model keeps of its training rows beside its memory.

    Attributes
    ----------
    background : ndarray of shape (n_leaves + 1, n_background, n_encoded) or None
        Encoded rows that explanations compare rows with; the last sample is that of the whole table.
    positions : ndarray of int or None
        Position in the table given to fit of each row that the memory numbers.
    examples : list of ndarray or None
        The same rows as they were given, one array per column.
    """

    background: Floats | None = None
    positions: NDArray[np.int64] | None = None
    examples: list[NDArray[Any]] | None = None


@dataclass(frozen=True)
class FittedModel:
    """Everything that predicts encoded rows; immutable, so that a calibrated copy shares its other parts.

    Attributes
    ----------
    inputs : NetworkInputs
    target : TargetScale
    trees : ExpertTree, VarianceTree, TreeEnsemble or PaperEnsemble
        Regions, networks and memories; the residual moments of the regions are in units of the target.
    support : Support
    seen : SeenRows or None
        Set if feature rows of the training table are repeated.
    calibration : Calibration or None
    kept : TrainingRows
    """

    inputs: NetworkInputs
    target: TargetScale
    trees: ExpertTree | VarianceTree | TreeEnsemble | PaperEnsemble
    support: Support
    seen: SeenRows | None = None
    calibration: Calibration | None = None
    kept: TrainingRows = field(default_factory=TrainingRows)

    @property
    def tree(self) -> Tree:
        """The regions."""
        return self.trees.tree

    @property
    def members(self) -> list[TreeModel]:
        """The single tree, or the members of an ensemble."""
        return [self.trees] if isinstance(self.trees, TreeModel) else list(self.trees.members)

    @property
    def memories(self) -> list[Retrieval]:
        """The memories of the members that have one; all of the same rows."""
        return [tree.memory for tree in self.members if isinstance(tree, ExpertTree) and tree.memory is not None]

    @property
    def user_models(self) -> list[ModelExpert]:
        """The experts that are models of the user, members after members."""
        return [expert for tree in self.members if isinstance(tree, ExpertTree) for expert in tree.user_models]

    @property
    def expert_names(self) -> list[str]:
        """Names of the experts, in the order of their weights; empty for models of the paper."""
        return self.trees.expert_names if isinstance(self.trees, ExpertTree | TreeEnsemble) else []

    @property
    def expert_weights(self) -> Floats | None:
        """Weights of the experts in each region, shape (n_leaves, n_experts); None for models of the paper."""
        return self.trees.expert_weights if isinstance(self.trees, ExpertTree | TreeEnsemble) else None

    @property
    def rows_in_memory(self) -> int:
        """Number of training rows that the model contains: in its memory or forest, or as targets that it recalls."""
        recalled = 0 if self.seen is None or self.seen.target is None else len(self.seen.target)
        further = [expert for tree in self.members if isinstance(tree, ExpertTree) for expert in tree.further]
        forests = [expert.n_rows for expert in further if isinstance(expert, ForestExpert)]
        return max([memory.n_rows for memory in self.memories] + [*forests, recalled])

    # -- predicting ------------------------------------------------------------------------------------------------

    def predict(self, raw: Floats, stages: Stage = Stage.ALL, n_threads: int = 1) -> Prediction:
        """Predictions of encoded rows.

        Parameters
        ----------
        raw : ndarray of shape (n, n_encoded)
        stages : Stage, default=Stage.ALL
        n_threads : int, default=1
        """
        if Stage.SUPPORT in stages and self.support.widens:
            predicted = self._widened(raw, n_threads)
        else:
            leaf, _, quantiles, disagreement, normals = self._by_networks(raw, n_threads)
            predicted = Prediction(leaf, leaf, quantiles, quantiles, disagreement, normals)
        return predicted if Stage.SEEN not in stages or self.seen is None else self._recalled(raw, predicted)

    def _by_networks(self, raw: Floats, n_threads: int) -> Predicted:
        return self.trees.quantile_functions(raw, self.inputs.transform(raw), n_threads)

    def _widened(self, raw: Floats, n_threads: int) -> Prediction:
        """Predictions that are wider where rows lack support."""
        support = self.support
        row_support = self.measured_support(raw, n_threads)
        leaf, _, quantiles, disagreement, _ = self._by_networks(support.clamp(raw, row_support), n_threads)
        rows = np.flatnonzero(row_support.outside)
        if len(rows):  # the location is extrapolated up to REACH, the spread is that at the boundary
            beyond = support.clamp(raw[rows], row_support.take(rows), REACH)
            other = self._by_networks(beyond, n_threads).quantiles
            quantiles = quantiles.copy()
            quantiles[rows] += (other - quantiles[rows])[:, [MEDIAN]]
        wide = support.widen(quantiles, row_support)
        return Prediction(leaf, leaf, wide, quantiles, disagreement, row_support=row_support)

    def _recalled(self, raw: Floats, predicted: Prediction) -> Prediction:
        """Predictions that recall the targets of seen rows."""
        assert self.seen is not None
        index, is_seen = self.seen.locate(raw)
        has_regions = getattr(self.calibration, "has_seen", False)
        return replace(
            predicted,
            calibration_leaf=predicted.leaf + self.tree.n_leaves * is_seen if has_regions else predicted.leaf,
            quantiles=self.seen.recall(index, is_seen, predicted.quantiles),
            narrow=self.seen.recall(index, is_seen, predicted.narrow),
        )

    def measured_support(self, raw: Floats, n_threads: int = 1) -> RowSupport:
        """Support of encoded rows by the training rows."""
        return self.support.measure(raw, self.tree.leaf_of(raw), n_threads)

    # -- from predictions to distributions and intervals -----------------------------------------------------------

    def distribution(self, predicted: Prediction, parts: bool = True, n_threads: int = 1) -> Distribution:
        """Predictive distributions of the target.

        Parameters
        ----------
        predicted : Prediction
        parts : bool, default=True
            Whether the aleatoric and epistemic parts of the variance are computed, which takes time.
        n_threads : int, default=1
        """
        dist = self._calibrated(predicted, n_threads)
        if parts:
            dist = self._with_parts(dist, predicted)
        return self.target.in_units(dist)

    def _calibrated(self, predicted: Prediction, n_threads: int) -> Distribution:
        if self.calibration is None and predicted.normals is not None:
            means, variances = predicted.normals
            components = [Normal(mean, np.sqrt(variance)) for mean, variance in zip(means, variances)]
            return Mixture(components) if len(components) > 1 else components[0].with_parts(variances[0], None)
        return self.from_quantiles(predicted.calibration_leaf, predicted.quantiles, n_threads)

    def from_quantiles(self, leaf: NDArray[np.int64], quantiles: Floats, n_threads: int = 1) -> Distribution:
        """Distributions of the scaled target from quantile functions and calibration regions."""
        dist = uncalibrated(quantiles) if self.calibration is None else self.calibration.distribution(quantiles, leaf)
        if isinstance(dist, QuantileDistribution):
            dist._n_threads = n_threads
        return dist

    def _with_parts(self, dist: Distribution, predicted: Prediction) -> Distribution:
        """The distributions with the parts of their variance that the model knows."""
        if isinstance(self.trees, TreeEnsemble):
            assert predicted.disagreement is not None
            # By the law of total variance; `disagreement` is the variance between members in units of that within
            # them. The widening for lack of support is epistemic.
            factor = 1.0 + self.trees.epistemic_factor * predicted.disagreement
            aleatoric = self._narrow_variance(dist, predicted) / factor
            return dist.with_parts(aleatoric, dist.var() - aleatoric)
        if predicted.row_support is None:
            return dist
        return dist.with_parts(self._narrow_variance(dist, predicted), None)

    def _narrow_variance(self, dist: Distribution, predicted: Prediction) -> Floats:
        """Variance of distributions without the widening for lack of support, shape (n,)."""
        variance, rows = dist.var(), predicted.unsupported
        if len(rows):
            variance = variance.copy()
            variance[rows] = self.from_quantiles(predicted.calibration_leaf[rows], predicted.narrow[rows]).var()
        return variance

    def interval(self, predicted: Prediction, coverage: float, guaranteed: bool = False, n_threads: int = 1) -> Floats:
        """Intervals of the target from the calibration, shape (n, 2); see `Calibration.interval`."""
        assert self.calibration is not None
        leaf, quantiles = predicted.calibration_leaf, predicted.quantiles
        return self.target.to_target(self.calibration.interval(quantiles, leaf, coverage, n_threads, guaranteed))

    def widening(self, raw: Floats, row_support: RowSupport, n_threads: int = 1) -> Floats:
        """Standard deviations divided by those without widening, shape (n,)."""
        factor, rows = np.ones(len(raw)), np.flatnonzero(~row_support.supported)
        if self.support.widens and len(rows):
            predicted = self.predict(raw[rows], n_threads=n_threads)
            leaf = predicted.calibration_leaf
            wide, narrow = (
                self.from_quantiles(leaf, quantiles).std() for quantiles in (predicted.quantiles, predicted.narrow)
            )
            factor[rows] = wide / np.maximum(narrow, np.finfo(float).tiny)
        return factor

    def with_examples(self, columns: list[NDArray[Any]]) -> "FittedModel":
        """The model with the rows that its memory numbers as they were given, from the columns of the whole table."""
        assert self.kept.positions is not None
        examples = [values[self.kept.positions] for values in columns]
        return replace(self, kept=replace(self.kept, examples=examples))

    def with_tree(self, tree: Tree) -> "FittedModel":
        """The same networks with other residual moments or numbers of rows in the regions."""
        return replace(self, trees=self.trees.with_tree(tree))
