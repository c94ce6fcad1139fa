"""Paired differences between two recipes on a data set, with their errors: the ground of every comparison here."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from usnrt.metrics.differences import Z, error_over_splits, t_quantile
from usnrt_experiments.jackknife import error_over_rows

# Random splits of 80 and 20 %.
TEST_TO_TRAIN = 0.25
RULE = (
    "A difference between two models is taken on the splits that both were run on, and counts only if it is larger "
    "than its error, half of its 95 % confidence interval. From three splits on, this is the t interval over splits "
    "with the variance of Nadeau and Bengio (2003), since random splits overlap. With one split it is a jackknife over "
    "blocks of test rows, which lacks the variation of the training rows; with two, the larger of both standard errors "
    "is taken. A single split without stored errors of its rows has an unknown error, and no difference counts."
)


@dataclass(frozen=True)
class PairedDifference:
    """Difference of a metric between two recipes on a data set.

    Attributes
    ----------
    value : float
        First minus second, mean over the common splits; negative if the first is better.
    std_error : float
        NaN if unknown.
    half_width : float
        Half of the 95 % confidence interval; infinite if unknown.
    n_splits : int
    basis : {"splits", "rows", "unknown"}
        What the error is computed over.
    """

    value: float
    std_error: float
    half_width: float
    n_splits: int
    basis: str

    @property
    def counts(self) -> bool:
        """Whether the difference is larger than its error."""
        return abs(self.value) > self.half_width

    @property
    def verdict(self) -> str:
        """``"lower"``, ``"higher"``, ``"tie"`` or ``"unknown"``, of the first against the second."""
        if self.basis == "unknown":
            return "unknown"
        return "tie" if not self.counts else "lower" if self.value < 0 else "higher"


@dataclass(frozen=True)
class SplitValue:
    """A metric of a cell, and the metric without each block of test rows; empty if the record lacks it."""

    value: float
    blocks: tuple[float, ...] = ()


def paired(first: Mapping[int, SplitValue], second: Mapping[int, SplitValue]) -> PairedDifference | None:
    """Difference of two recipes over the splits that both have.

    Parameters
    ----------
    first, second : mapping of int to SplitValue
        By the seed of the split.

    Returns
    -------
    PairedDifference, or None without a common split

    Examples
    --------
    >>> from usnrt_experiments.pairs import SplitValue, paired
    >>> ours = {seed: SplitValue(1.0 + 0.01 * seed) for seed in range(5)}
    >>> theirs = {seed: SplitValue(2.0) for seed in range(1, 6)}
    >>> paired(ours, theirs).verdict, paired(ours, theirs).n_splits
    ('lower', 4)
    """
    seeds = sorted(set(first) & set(second))
    if not seeds:
        return None
    values = np.array([_minus(first[seed].value, second[seed].value) for seed in seeds])
    value, n_splits = float(values.mean()), len(seeds)
    if not np.isfinite(values).all():
        # A density of zero somewhere: the infinite NLL is worse, whatever the error.
        certain = not math.isnan(value)
        return PairedDifference(value, math.nan, 0.0 if certain else math.inf, n_splits, "rows")
    over_splits = error_over_splits(values, TEST_TO_TRAIN) if n_splits > 1 else math.nan
    if n_splits > 2:
        return PairedDifference(value, over_splits, t_quantile(n_splits - 1) * over_splits, n_splits, "splits")
    over_rows = _over_rows([(first[seed], second[seed]) for seed in seeds])
    if math.isnan(over_rows):
        reach = t_quantile(1) * over_splits if n_splits == 2 else math.inf
        return PairedDifference(value, over_splits, reach, n_splits, "splits" if n_splits == 2 else "unknown")
    error = float(np.nanmax([over_rows, over_splits]))
    return PairedDifference(value, error, Z * error, n_splits, "rows")


def _minus(first: float, second: float) -> float:
    return 0.0 if first == second else first - second  # also where both are infinite


def _over_rows(pairs: list[tuple[SplitValue, SplitValue]]) -> float:
    """Root mean square of the splits' known errors over rows: test rows overlap, so several gain little."""
    errors = [error_over_rows(one.blocks, other.blocks) for one, other in pairs if one.blocks and other.blocks]
    return math.sqrt(sum(error**2 for error in errors) / len(errors)) if errors else math.nan
