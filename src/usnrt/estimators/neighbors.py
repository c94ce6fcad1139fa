"""Training rows in the memory of a fitted model: how many there are, and which ones are similar to given rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.estimators.background import background_of, marginal_background_of
from usnrt.estimators.calibrated import CalibratedRegressor
from usnrt.memory.retrieval import N_NEIGHBORS, Neighbors, Retrieval
from usnrt.tables.groups import groups_and_table
from usnrt.tables.reading import as_table
from usnrt.tables.training import DistinctRows
from usnrt.tree.model import ExpertTree, TreeModel
from usnrt.utils.checks import check_whole
from usnrt.utils.result_table import Table
from usnrt.utils.types import Floats


class RememberingRegressor(CalibratedRegressor):
    """An estimator that may have a memory of training rows; it calls ``_keep_positions`` in fit."""

    # Position in the table given to fit of each row that the memory numbers; None without a memory.
    row_positions_: NDArray[np.int64] | None = None
    # With memory="examples", the same rows as they were given: one array per column.
    examples_: list[NDArray[Any]] | None = None

    def _keep_positions(self, rows: DistinctRows) -> None:
        """Keep the positions of the rows that are in the memory, and the background of explanations."""
        n_numbered = 1 + max((int(memory.row.max()) for memory in memories(self)), default=-1)
        self.row_positions_ = rows.position[:n_numbered].astype(np.int64) if n_numbered else None
        self._keep_examples()
        leaf, n_leaves = self.tree_.leaf_of(rows.raw), self.tree_.n_leaves
        if self._remembers():
            self.background_ = background_of(rows.raw, leaf, n_leaves, rows.weight)
        else:
            categorical = np.array([column.is_categorical for column in self.columns_], dtype=bool)
            self.background_ = marginal_background_of(rows.raw, leaf, n_leaves, categorical, rows.weight)

    def _read_rows(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, groups: Any = None) -> DistinctRows:
        rows = super()._read_rows(X, y, sample_weight, groups)
        if self._memory() == "examples":  # those that are in the memory are known after the fit
            table = as_table(groups_and_table(X, groups)[0])
            self._given_columns = [table.column(index).values for index in range(table.n_columns)]
        return rows

    def _check_fits_store(self) -> None:
        super()._check_fits_store()
        if self._memory() == "examples":
            raise ValueError("memory='examples' needs a table that fits in memory, got a larger one; use memory=True")

    def _keep_examples(self) -> None:
        """Of the rows that were read, keep those that the memory numbers."""
        given: list[NDArray[Any]] | None = self.__dict__.pop("_given_columns", None)
        keeps = given is not None and self.row_positions_ is not None
        self.examples_ = [values[self.row_positions_] for values in given or []] if keeps else None

    def _memory(self) -> bool | str:
        """The parameter ``memory``."""
        raise NotImplementedError(f"{type(self).__name__} must define _memory")

    def _remembers(self) -> bool:
        """Whether the model may contain training rows."""
        return bool(self._memory())

    def neighbors(self, X: Any, n_neighbors: int = 5) -> Table:
        """The training rows that are most similar to each row, with their targets.

        The memory predicts the weighted distribution of these targets. How much it counts depends on the region: see
        the columns ``guided`` and ``memory`` of `rules`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        n_neighbors : int, default=5
            At most the number that predictions use, `usnrt.memory.retrieval.N_NEIGHBORS`.

        Returns
        -------
        Table
            Up to ``n_neighbors`` rows per row of X, the largest weight first: ``row`` (position in X), ``position``
            (of the training row in the table given to fit; of the first of equal rows), ``weight`` (in the prediction
            of the memory, averaged over the members of an ensemble) and ``target``.

        Examples
        --------
        >>> import numpy as np
        >>> from usnrt import USNRTRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, (600, 2))
        >>> y = np.sign(X[:, 0]) + 0.1 * rng.normal(size=600)
        >>> model = USNRTRegressor(hidden=(16, 8), max_epochs=5, random_state=0).fit(X, y)
        >>> similar = model.neighbors([[0.5, 0.0]], n_neighbors=3)
        >>> similar.columns, bool((X[similar["position"], 0] > 0).all())
        (['row', 'position', 'weight', 'target'], True)
        """
        raw = self._encode(X)
        check_whole("n_neighbors", n_neighbors, 1, N_NEIGHBORS)
        held = memories(self)
        if not held or self.row_positions_ is None:
            why = "without a memory that any region uses" if self._remembers() else "fitted with memory=False"
            raise ValueError(f"neighbors needs a model with memory, got one {why}")
        found = similar_rows(held, self.inputs_.transform(raw), n_neighbors, self._n_threads(len(raw)))
        is_row = found.row >= 0
        return Table(
            {
                "row": np.nonzero(is_row)[0],
                "position": self.row_positions_[found.row[is_row]],
                "weight": found.weight[is_row],
                "target": self._to_target(found.target[is_row]),
            }
        )


def memories(model: object) -> list[Retrieval]:
    """The memories of a tree, or of the members of an ensemble; empty for models without memory.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from usnrt.estimators.neighbors import memories
    >>> memories(SimpleNamespace())
    []
    """
    trees: Sequence[TreeModel | None] = getattr(model, "members_", [getattr(model, "model_", None)])
    return [tree.memory for tree in trees if isinstance(tree, ExpertTree) and tree.memory is not None]


def rows_in_memory(model: object) -> int:
    """Number of training rows that a fitted model contains: in its memory, or as targets that it recalls.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from usnrt.estimators.neighbors import rows_in_memory
    >>> rows_in_memory(SimpleNamespace())
    0
    """
    # The members of an ensemble remember the same rows.
    held = max((memory.n_rows for memory in memories(model)), default=0)
    familiar = getattr(model, "familiar_", None)
    return held if familiar is None or familiar.target is None else max(held, len(familiar.target))


def memory_sentence(n_rows: int, in_clear: bool = False) -> str:
    """A sentence with the number of training rows that a model contains; empty for 0.

    Parameters
    ----------
    n_rows : int
    in_clear : bool, default=False
        Whether it contains them as they were given, with ``memory="examples"``.

    Examples
    --------
    >>> from usnrt.estimators.neighbors import memory_sentence
    >>> memory_sentence(3000)
    'The model contains training data: the targets and transformed features of 3,000 rows.'
    >>> memory_sentence(3000, in_clear=True)
    'The model contains training data in clear: 3,000 rows with their targets, as they were given.'
    """
    if n_rows == 0:
        return ""
    if in_clear:
        return f"The model contains training data in clear: {n_rows:,} rows with their targets, as they were given."
    return f"The model contains training data: the targets and transformed features of {n_rows:,} rows."


def has_examples(model: object) -> bool:
    """Whether a fitted model contains training rows as they were given."""
    return getattr(model, "examples_", None) is not None


def similar_rows(
    memories: Sequence[Retrieval], inputs: NDArray[np.float32], n_neighbors: int, n_threads: int = 1
) -> Neighbors:
    """The rows with the largest weights, averaged over several memories of one table.

    Parameters
    ----------
    memories : sequence of Retrieval
        At least one.
    inputs : ndarray of shape (n, p), float32
    n_neighbors : int
        At most ``N_NEIGHBORS``.
    n_threads : int

    Returns
    -------
    Neighbors
        The largest weight first.
    """
    found = [memory.neighbors(inputs, N_NEIGHBORS, n_threads) for memory in memories]
    row, target = (np.concatenate([getattr(part, name) for part in found], axis=1) for name in ("row", "target"))
    weight: Floats = np.concatenate([part.weight for part in found], axis=1) / len(memories)
    # Sorted by row, so that the copies that several memories found are adjacent: the first one gets the sum.
    order = np.argsort(row, axis=1, kind="stable")
    row, weight, target = (np.take_along_axis(values, order, axis=1) for values in (row, weight, target))
    is_first = np.ones(row.shape, dtype=bool)
    is_first[:, 1:] = row[:, 1:] != row[:, :-1]
    distinct = np.cumsum(is_first.ravel()) - 1
    weight = np.where(is_first, np.bincount(distinct, weight.ravel())[distinct].reshape(row.shape), -1.0)
    is_row = is_first & (row >= 0)
    best = np.argsort(np.where(is_row, -weight, 1.0), axis=1, kind="stable")[:, :n_neighbors]
    row, weight, target, is_row = (np.take_along_axis(part, best, axis=1) for part in (row, weight, target, is_row))
    return Neighbors(np.where(is_row, row, -1), np.where(is_row, weight, 0.0), np.where(is_row, target, np.nan))
