"""Recipes: everything that decides how a tree is grown and trained, typed, frozen and checked before data is read."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from usnrt.nn.train import Training

# Hidden layers as users write them: units, or multiples of the number of features such as "8d".
Hidden = Sequence[int | str]

# How often per epoch the networks of the paper are validated. Its authors validate after every batch: in the smallest
# regions, of 1,000 rows, these are about as many, in larger nodes it would cost far more than training.
PAPER_VALIDATIONS = 10
# Validation losses of variance networks that improve by less than this do not count, as in the code of the paper.
VARIANCE_STOP_MARGIN = 1e-4

# The smallest region that `max_leaves` allows, whatever the number of rows.
MIN_ROWS = 1000.0


@dataclass(frozen=True)
class SplitRule:
    """When and where a node is split.

    Attributes
    ----------
    alpha : float
        A node is split if the p-value of its best split is at most this.
    max_leaves : int
        Sets the smallest region to ``max(n / max_leaves, 1000)`` rows.
    min_samples_leaf : int or None
        The smallest number of rows of a region, instead of what follows from ``max_leaves``.
    max_depth : int or None
    bonferroni : bool
        Whether the p-value is multiplied by the number of splits tested.
    criterion : str
        A key of `usnrt.tree.criteria.CRITERIA`.
    step : int
        Every how many-th threshold of a numeric feature is tested.
    """

    alpha: float
    max_leaves: int
    min_samples_leaf: int | None
    max_depth: int | None
    bonferroni: bool = True
    criterion: str = "levene"
    step: int = 1

    def smallest_region(self, n_rows: float) -> float:
        """The smallest number of rows of a region in a table of ``n_rows``, both counted with their weights.

        Examples
        --------
        >>> from usnrt.tree.recipe import SplitRule
        >>> SplitRule(0.01, max_leaves=10, min_samples_leaf=None, max_depth=None).smallest_region(50_000)
        5000.0
        """
        if self.min_samples_leaf is not None:
            return float(self.min_samples_leaf)
        if self.max_leaves > max(n_rows, 10):  # the default is fine for the smallest table
            raise ValueError(f"max_leaves must be at most the number of rows, {n_rows:g}, got {self.max_leaves}")
        return max(n_rows / self.max_leaves, MIN_ROWS)


@dataclass(frozen=True)
class Schedule:
    """How long networks are trained, in steps; the number of epochs follows from the number of rows.

    Attributes
    ----------
    root_steps : int
        Steps of a training at the root.
    max_rounds : int
        How often a training at the root may be repeated from where it ended.
    min_relative_gain : float
        Share of the validation loss that a round must gain to be followed by another.
    late : float
        A training whose best epoch comes after this share of its epochs has not converged.
    child_steps : int
        Steps of fine-tuning the networks of a node below the root.
    child_rate : float
        Learning rate of fine-tuning, as a share of the root's.
    min_epochs : int
        Lower bound on the number of epochs, unless ``max_epochs`` is lower.
    """

    root_steps: int = 5000
    max_rounds: int = 4
    min_relative_gain: float = 0.03
    late: float = 0.9
    child_steps: int = 1000
    child_rate: float = 0.5
    min_epochs: int = 10


@dataclass(frozen=True)
class QuantileTreeRecipe:
    """Recipe of `usnrt.USNRTRegressor`: warm-started mean and quantile networks, one validation part for the tree.

    Attributes
    ----------
    split : SplitRule
    n_bins : int
        Bins of the piecewise-linear encoding of numeric features; 0 for none.
    mean_hidden, quantile_hidden : sequence of int or str
    learning_rate : float
    max_epochs : int
    validation_fraction : float
    calibration : {"region", "global"} or None
    calibration_fraction : float
    weight_decay, average : float
        See `usnrt.nn.train.Training`.
    schedule : Schedule
    """

    split: SplitRule
    n_bins: int
    mean_hidden: Hidden
    quantile_hidden: Hidden
    learning_rate: float
    max_epochs: int
    validation_fraction: float
    calibration: str | None
    calibration_fraction: float
    weight_decay: float = 0.1
    average: float = 0.99
    schedule: Schedule = field(default_factory=Schedule)

    def root_training(self, n_rows: float) -> Training:
        """Training at the root; ``n_rows`` training rows are counted with their weights.

        Copies count: a batch of few distinct rows of very different weights would be one of much fewer rows.
        """
        return Training(
            learning_rate=self.learning_rate,
            batch_size=batch_size_for(n_rows),
            max_epochs=self.max_epochs,
            schedule="cosine",
            weight_decay=self.weight_decay,
            average=self.average,
        )

    def epochs(self, training: Training, n_steps: int, n_rows: int) -> Training:
        """The training with as many epochs as make ``n_steps`` steps on ``n_rows`` rows, within the bounds."""
        wanted = round(n_steps * training.batch_size / max(n_rows, 1))
        epochs = int(np.clip(wanted, min(self.schedule.min_epochs, self.max_epochs), self.max_epochs))
        return replace(training, max_epochs=epochs, patience=epochs)


@dataclass(frozen=True)
class PaperTreeRecipe:
    """Recipe of the paper: a splitting network per node, a mean and a variance network per region, all from scratch.

    Attributes
    ----------
    split : SplitRule
    split_hidden, mean_hidden, variance_hidden : sequence of int or str
    n_alternations : int
        How often the mean and the variance network of a region are trained alternately.
    learning_rate : float
    batch_size, max_epochs : int
    validation_fraction : float
        Share of a node's rows that stops each training early, drawn anew for every training.
    validations : int
        See `usnrt.nn.train.Training`.
    variance_stop_margin : float
        See ``stop_margin`` of `usnrt.nn.train.Training`; of the variance networks.
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
    """A batch of about a sixty-fourth of the rows, counted with their weights, a power of two from 32 to 256.

    Examples
    --------
    >>> from usnrt.tree.recipe import batch_size_for
    >>> [batch_size_for(n) for n in (400, 6400, 40_000)]
    [32, 128, 256]
    """
    return int(np.clip(2 ** round(np.log2(max(n_rows, 1) / 64)), 32, 256))
