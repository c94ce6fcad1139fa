"""Recipes: all settings of growing and training a tree, typed, frozen, and made before any data is read."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from usnrt.memory.metric import MetricTraining
from usnrt.nn.train import Training

# Hidden layers as users write them: units, or multiples of the number of features such as "8d".
Hidden = Sequence[int | str]

# Validations per epoch of the networks of the paper. Its authors validate after every batch, which is about as often in
# the smallest regions (1,000 rows) but would cost far more than training in larger nodes.
PAPER_VALIDATIONS = 10
# Variance networks stop if their validation loss improves by less than this, as in the code of the paper's authors.
VARIANCE_STOP_MARGIN = 1e-4

# The smallest region that `max_leaves` allows, whatever the number of rows.
MIN_ROWS = 1000.0
# Where the smallest region follows the table, it may be this share of small tables, but never have fewer rows.
SMALL_SHARE, FEWEST_ROWS = 0.2, 100.0


@dataclass(frozen=True)
class SplitRule:
    """When and where a node is split.

    Attributes
    ----------
    alpha : float
        A node is split if the p-value of its best split is at most this.
    max_leaves : int
        Sets the smallest region to ``n / max_leaves`` rows, and at least 1000.
    min_samples_leaf : int or None
        The smallest number of rows of a region; overrides ``max_leaves``.
    max_depth : int or None
    bonferroni : bool
        Whether the p-value is multiplied by the number of splits tested.
    criterion : str
        A key of `usnrt.tree.criteria.CRITERIA`.
    step : int
        Every ``step``-th threshold of a numeric feature is tested.
    follows_table : bool
        Whether a fifth of a table takes the place of 1000 rows if that is less; at least 100 rows.
    min_tested : float
        Each side of a split has at least this many times the square root of the number of tested rows.
    """

    alpha: float
    max_leaves: int
    min_samples_leaf: int | None
    max_depth: int | None
    bonferroni: bool = True
    criterion: str = "levene"
    step: int = 1
    follows_table: bool = False
    min_tested: float = 0.0

    def smallest_region(self, n_rows: float) -> float:
        """The smallest weighted number of rows of a region, for a table with a weighted number ``n_rows`` of rows.

        Examples
        --------
        >>> from usnrt.tree.recipe import SplitRule
        >>> SplitRule(0.01, max_leaves=10, min_samples_leaf=None, max_depth=None).smallest_region(50_000)
        5000.0
        """
        if self.min_samples_leaf is not None:
            return float(self.min_samples_leaf)
        if self.max_leaves > max(n_rows, 10):  # the default, 10, is valid for any table
            raise ValueError(f"max_leaves must be at most the number of rows, {n_rows:g}, got {self.max_leaves}")
        least = min(MIN_ROWS, max(SMALL_SHARE * n_rows, FEWEST_ROWS)) if self.follows_table else MIN_ROWS
        return max(n_rows / self.max_leaves, least)


@dataclass(frozen=True)
class Schedule:
    """How long networks are trained, in steps; the number of epochs follows from the number of rows.

    Attributes
    ----------
    root_steps : int
        Steps of a training at the root.
    batch_size : int
        The largest one. Where a training has not converged, further ones have up to twice as many rows a batch: with
        little noise their gradients matter.
    patience : float
        Training at the root stops after this share of its epochs without a smaller validation loss.
    more_steps : int
        Steps of each further training at the root, if the first one has not converged.
    more_decay : float
        Weight decay of further trainings, as a share of the first one's.
    max_rounds : int
        The largest number of consecutive trainings of a network at the root.
    few_epochs, max_large_rounds : int
        There may be more of them in large tables, as long as the network has seen every row less often than this.
    min_relative_gain : float
        Relative decrease of the validation loss that a round must achieve to be followed by another.
    late : float
        A training whose best epoch comes after this share of its epochs has not converged,
    late_gain : float
        if its validation loss decreased by this share in the second half of the epochs.
    probe_steps : int
        Steps of a probe that decides whether the network is fine-tuned in a region.
    min_probe_gain : float
        Relative decrease of the validation loss that the probe must achieve.
    child_steps : int
        Steps of fine-tuning the network in a region; 0 for no fine-tuning.
    child_patience : float
        Probe and fine-tuning stop after this share of their epochs without a smaller validation loss.
    child_rate : float
        Learning rate of fine-tuning, as a share of the root's.
    child_rows : int
        Training rows that the probe and the fine-tuning of a region use at most: its first ones, a random sample.
    min_epochs : int
        Lower bound on the number of epochs, unless ``max_epochs`` is lower.
    enough_rows : int
        Large tables need fewer epochs than that: as many as present this number of rows to the network.
    """

    root_steps: int = 2000
    batch_size: int = 128
    patience: float = 0.3
    more_steps: int = 4000
    more_decay: float = 0.1
    max_rounds: int = 3
    few_epochs: int = 100
    max_large_rounds: int = 8
    min_relative_gain: float = 0.03
    late: float = 0.9
    late_gain: float = 0.1
    probe_steps: int = 100
    min_probe_gain: float = 0.005
    child_steps: int = 400
    child_patience: float = 0.5
    child_rate: float = 0.5
    child_rows: int = 65_536
    min_epochs: int = 10
    enough_rows: int = 4_000_000

    def least_epochs(self, n_rows: int) -> int:
        """Lower bound on the number of epochs of a training at the root on ``n_rows`` rows.

        Examples
        --------
        >>> from usnrt.tree.recipe import Schedule
        >>> [Schedule().least_epochs(n) for n in (1000, 400_000, 800_000, 10_000_000)]
        [10, 10, 5, 1]
        """
        return int(np.clip(-(-self.enough_rows // max(n_rows, 1)), 1, self.min_epochs))


@dataclass(frozen=True)
class Streaming:
    """How the network of the root is trained on rows that are read from a store, pass by pass.

    Attributes
    ----------
    piece_rows, window_pieces : int
        See `usnrt.nn.windows.Passes`.
    validation_rows : int
        Validation rows on which the weights are evaluated after each window.
    batch_size : int
    passes, max_passes : int
        Passes over the rows, and at most so many over few rows,
    least_rows, most_rows : int
        as long as they present so many rows to the network, within one pass.
    """

    piece_rows: int = 8192
    window_pieces: int = 32
    validation_rows: int = 32_768
    batch_size: int = 256
    passes: int = 5
    max_passes: int = 10
    least_rows: int = 5_120_000
    most_rows: int = 20_480_000

    def n_passes(self, n_rows: int) -> int:
        """Number of passes over ``n_rows`` training rows.

        Examples
        --------
        >>> from usnrt.tree.recipe import Streaming
        >>> [Streaming().n_passes(n) for n in (800_000, 2_400_000, 8_000_000, 80_000_000)]
        [7, 5, 3, 1]
        """
        rows_seen = min(max(self.passes * n_rows, self.least_rows), self.most_rows)
        return int(np.clip(-(-rows_seen // max(n_rows, 1)), 1, self.max_passes))


@dataclass(frozen=True)
class QuantileTreeRecipe:
    """Recipe of `usnrt.USNRTRegressor`: a network for all regions, a memory, one validation part for the tree.

    Attributes
    ----------
    split : SplitRule
    n_bins : int
        Bins of the piecewise-linear encoding of numeric features; 0 for none.
    hidden : sequence of int or str
    memory : bool
        Whether there is a memory of training rows.
    further : sequence of str
        Names of the further experts, see `usnrt.experts.registry`.
    models : sequence of regressors
        Models of the user that are experts, too.
    network : bool
        Whether there is a network; without one there is no memory.
    learning_rate : float
    max_epochs : int
    n_folds : int or None
        None for as many as the table has rows for.
    validation_fraction : float
    calibration : {"region", "global"} or None
    calibration_fraction : float
    weight_decay, average : float
        See `usnrt.nn.train.Training`.
    guide_dropout : float
        Share of the rows whose guides are missing in training.
    in_time_order : bool
        Whether validation rows are later than training rows. The memory then holds the training rows only: neighbours
        from the future would make validation rows look more predictable than new rows are.
    metric : MetricTraining
    schedule : Schedule
    streaming : Streaming
    """

    split: SplitRule
    n_bins: int
    hidden: Hidden
    memory: bool
    learning_rate: float
    max_epochs: int
    n_folds: int | None
    validation_fraction: float
    calibration: str | None
    calibration_fraction: float
    weight_decay: float = 0.1
    average: float = 0.99
    guide_dropout: float = 0.3
    in_time_order: bool = False
    further: Sequence[str] = ()
    models: Sequence[Any] = ()
    network: bool = True
    metric: MetricTraining = field(default_factory=MetricTraining)
    schedule: Schedule = field(default_factory=Schedule)
    streaming: Streaming = field(default_factory=Streaming)

    def for_sample(self, share: float) -> "QuantileTreeRecipe":
        """The recipe for a sample of the rows: regions are as large a share of it as of the whole table."""
        smallest = self.split.min_samples_leaf
        if smallest is None:
            return self
        return replace(self, split=replace(self.split, min_samples_leaf=max(1, round(smallest * share))))

    @property
    def tested_fraction(self) -> float:
        """Share of the rows that are tested; without a network that validates, all but those that order categories."""
        return self.validation_fraction if self.network or self.further else 1.0 - self.validation_fraction

    def training(self, n_rows: float) -> Training:
        """Training of a network on rows of this weight, without its number of epochs.

        Weights count here: a batch of few distinct rows with very different weights has a much smaller effective size.
        """
        return Training(
            learning_rate=self.learning_rate,
            batch_size=min(batch_size_for(n_rows), self.schedule.batch_size),
            max_epochs=self.max_epochs,
            schedule="cosine",
            weight_decay=self.weight_decay,
            average=self.average,
        )

    def epochs(
        self, training: Training, n_steps: int, n_rows: int, patience: float = 1.0, min_epochs: int | None = None
    ) -> Training:
        """The training with the number of epochs that gives ``n_steps`` steps on ``n_rows`` rows, within bounds."""
        wanted = round(n_steps * training.batch_size / max(n_rows, 1))
        least = self.schedule.min_epochs if min_epochs is None else min_epochs
        epochs = int(np.clip(wanted, min(least, self.max_epochs), self.max_epochs))
        return replace(training, max_epochs=epochs, patience=max(1, round(patience * epochs)))


@dataclass(frozen=True)
class PaperTreeRecipe:
    """Recipe of the paper: a splitting network per node, a mean and a variance network per region, all from scratch.

    Attributes
    ----------
    split : SplitRule
    split_hidden, mean_hidden, variance_hidden : sequence of int or str
    n_alternations : int
        Number of trainings of the mean network and of the variance network of a region.
    learning_rate : float
    batch_size, max_epochs : int
    validation_fraction : float
        Share of a node's rows for validation, drawn anew for every training.
    validations : int
        See `usnrt.nn.train.Training`.
    variance_stop_margin : float
        ``stop_margin`` of the variance networks, see `usnrt.nn.train.Training`.
    """

    split: SplitRule
    split_hidden: Hidden
    mean_hidden: Hidden
    variance_hidden: Hidden
    n_alternations: int
    learning_rate: float
    batch_size: int
    max_epochs: int
    validation_fraction: float
    validations: int | None = PAPER_VALIDATIONS
    variance_stop_margin: float = VARIANCE_STOP_MARGIN

    @property
    def training(self) -> Training:
        """Training of splitting and mean networks."""
        return Training(
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            max_epochs=self.max_epochs,
            validations=self.validations,
        )

    @property
    def variance_training(self) -> Training:
        """Training of variance networks."""
        return replace(self.training, stop_margin=self.variance_stop_margin)


def batch_size_for(n_rows: float) -> int:
    """The batch size for a weighted number of rows: about 1/64 of it, a power of two from 32 to 256.

    Examples
    --------
    >>> from usnrt.tree.recipe import batch_size_for
    >>> [batch_size_for(n) for n in (400, 6400, 40_000)]
    [32, 128, 256]
    """
    return int(np.clip(2 ** round(np.log2(max(n_rows, 1) / 64)), 32, 256))
