"""Shapley values of functions of rows, and those of a model's mean and standard deviation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt.estimators.base import DistributionalRegressor
from usnrt.estimators.tree_regressor import TreeRegressor
from usnrt.model.fitted import Stage
from usnrt.utils.types import Floats

# Cells (rows times columns) that are predicted at a time.
MAX_CELLS = 4_000_000


@dataclass(frozen=True)
class Contributions:
    """How much each feature contributes to q values of n rows.

    Attributes
    ----------
    base : ndarray of shape (n, q)
        Average value of the background rows.
    values : ndarray of shape (n, k, q)
        Their sum over the features and the base is the value of the row.
    errors : ndarray of shape (n, k, q)
        Standard errors, because background rows and permutations are samples.
    """

    base: Floats
    values: Floats
    errors: Floats


def shapley_values(
    value_of: Callable[[Floats], Floats],
    rows: Floats,
    backgrounds: Floats,
    group: NDArray[np.int64],
    features: Sequence[Sequence[int]],
    rounds: int = 1,
    seed: int = 0,
) -> Contributions:
    r"""Interventional Shapley values.

    A feature is a set of columns, e.g. the calendar parts of a date. Along a permutation of the features, a background
    row turns into the row to explain, one feature after the other; the change of the value at each step is a
    contribution. Their sum is exact for every permutation. Each background row is used with a permutation and its
    reverse, which cancels the errors of first order in interactions.

    All rows share the permutations, so the result of a row does not depend on the other rows.

    Parameters
    ----------
    value_of : callable
        From rows of shape (m, d) to values of shape (m, q).
    rows : ndarray of shape (n, d)
    backgrounds : ndarray of shape (n_groups, b, d)
    group : ndarray of int of shape (n,)
        The background of each row.
    features : sequence of k sequences of int
        The columns of each feature; together all columns.
    rounds : int, default=1
        Pairs of permutations per background row.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.explain.shapley import shapley_values
    >>> product = lambda rows: (rows[:, :1] + rows[:, 1:2] * rows[:, 2:])
    >>> row, features = np.array([[1.0, 2.0, 3.0]]), [[0], [1], [2]]
    >>> found = shapley_values(product, row, np.zeros((1, 1, 3)), np.array([0]), features)
    >>> found.base[0], found.values[0, :, 0]
    (array([0.]), array([1., 3., 3.]))
    """
    used, group = np.unique(group, return_inverse=True)
    backgrounds = backgrounds[used]
    k, (n_background, d) = len(features), backgrounds.shape[1:]
    start = value_of(backgrounds.reshape(-1, d)).reshape(*backgrounds.shape[:2], -1)
    end = value_of(rows)
    step, background_row = orders_of(k, n_background, rounds, seed)
    feature_of = np.empty(d, dtype=np.int64)
    for number, columns in enumerate(features):
        feature_of[list(columns)] = number
    n_orders = len(step)
    values, errors = np.empty((2, len(rows), k, end.shape[1]))
    rows_at_once = max(MAX_CELLS // (n_orders * k * d), 1)
    for first in range(0, len(rows), rows_at_once):
        own = np.arange(first, min(first + rows_at_once, len(rows)))
        row, order = np.repeat(own, n_orders), np.tile(np.arange(n_orders), len(own))
        before = backgrounds[group[row], background_row[order]]
        changes = np.empty((len(row), k, end.shape[1]))
        orders_at_once = max(MAX_CELLS // (k * d), 1)
        for i in range(0, len(row), orders_at_once):
            some = slice(i, i + orders_at_once)
            known = start[group[row[some]], background_row[order[some]]], end[row[some]]
            changes[some] = _changes(value_of, rows[row[some]], before[some], step[order[some]], feature_of, known)
        pairs = changes.reshape(len(own), n_orders // 2, 2, k, -1).mean(axis=2)
        values[own] = pairs.mean(axis=1)
        n_pairs = pairs.shape[1]
        errors[own] = pairs.std(axis=1, ddof=1) / np.sqrt(n_pairs) if n_pairs > 1 else np.nan
    return Contributions(start.mean(axis=1)[group], values, errors)


def orders_of(k: int, n_background: int, rounds: int = 1, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The step at which each feature changes in each order, shape (n_orders, k), and the background row of each order.

    An order and its reverse follow each other.
    """
    rng = np.random.default_rng(seed)
    n_pairs = rounds * n_background
    step = np.empty((2 * n_pairs, k), dtype=np.int64)
    for pair in range(n_pairs):
        step[2 * pair] = rng.permutation(k)
    step[1::2] = k - 1 - step[0::2]
    return step, np.repeat(np.tile(np.arange(n_background), rounds), 2)


def _changes(
    value_of: Callable[[Floats], Floats],
    after: Floats,
    before: Floats,
    step: NDArray[np.int64],
    feature_of: NDArray[np.int64],
    known: tuple[Floats, Floats],
) -> Floats:
    """Change of the value by each feature, shape (m, k, q), from the background rows to the rows in the given orders.

    ``step`` (m, k) is when each feature changes; ``known`` are the values (m, q) before the first and after the last
    step.
    """
    m, k = step.shape
    has_changed = step[:, None, feature_of] <= np.arange(k - 1)[None, :, None]
    mixed = np.where(has_changed, after[:, None], before[:, None]).reshape(m * (k - 1), after.shape[1])
    between = value_of(mixed).reshape(m, k - 1, -1) if k > 1 else np.empty((m, 0, known[0].shape[1]))
    path = np.concatenate([known[0][:, None], between, known[1][:, None]], axis=1)
    change: Floats = np.take_along_axis(np.diff(path, axis=1), step[:, :, None], axis=1)
    return change


class Moments:
    """Predicted mean and standard deviation, without what depends on whether a row resembles training rows.

    Explanations predict mixtures of rows, most of which resemble no training row. Their distributions must not be
    widened for this reason, or every feature would seem to make rows more uncertain. What support means for the row to
    explain is reported separately.
    """

    def __init__(self, model: DistributionalRegressor) -> None:
        self._model = model

    def __call__(self, raw: Floats) -> Floats:
        """Mean and standard deviation in units of the target, shape (n, 2)."""
        if isinstance(self._model, TreeRegressor):
            model, n_threads = self._model.model_, self._model._n_threads(len(raw))
            dist = model.distribution(model.predict(raw, Stage.NONE, n_threads), parts=False, n_threads=n_threads)
        else:
            dist = self._model._predict_dist(raw, parts=False)
        return np.column_stack([dist.mean(), dist.std()])

    def nearest_supported(self, raw: Floats) -> Floats:
        """The rows with numbers clipped to the ranges of their regions, where models that widen evaluate networks."""
        if not isinstance(self._model, TreeRegressor) or not self._model.model_.support.widens:
            return raw
        model = self._model.model_
        return model.support.clamp(raw, model.measured_support(raw))


def feature_groups(model: DistributionalRegressor) -> list[list[int]]:
    """The encoded columns of each column of the user's table: one, or the calendar parts of a date."""
    groups: list[list[int]] = [[] for _ in model.encoder_.source_names_]
    for position, column in enumerate(model.encoder_.columns_):
        groups[column.source_index].append(position)
    return groups
