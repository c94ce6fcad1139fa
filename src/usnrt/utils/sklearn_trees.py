"""Trees of scikit-learn: what its boosting asks of callers, and forests as flat arrays."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from usnrt.utils.types import Floats

# Fewer rows are boosted on one thread: threads that wait for each other cost more than they save.
MIN_ROWS_FOR_THREADS = 20_000
# Of scikit-learn's histograms; columns with more categories are treated as numbers.
MAX_CATEGORIES = 255


def boosting_threads(n_jobs: int | None, n_rows: int) -> threadpool_limits:
    """Context in which scikit-learn's boosting uses at most ``n_jobs`` threads, and one for small tables."""
    return threadpool_limits(effective_n_jobs(n_jobs) if n_rows >= MIN_ROWS_FOR_THREADS else 1, user_api="openmp")


def without_empty_columns(raw: Floats) -> Floats:
    """Training rows whose columns all have bins: a column without any value becomes 0, and is never split.

    Examples
    --------
    >>> without_empty_columns(np.array([[1.0, np.nan], [np.nan, np.nan]]))
    array([[ 1.,  0.],
           [nan,  0.]])
    """
    return np.where(np.isnan(raw).all(axis=0), 0.0, raw)


CHUNK = 2048
NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class FlatForest:
    """All trees of a forest, with their nodes concatenated."""

    root: NDArray[np.int64]  # shape (n_trees,); root node of each tree
    # feature, left, right: shape (n_nodes,); column of the split (-1 at leaves), and the two children
    feature: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    # threshold, mean, variance: shape (n_nodes,); values at most the threshold go left. Mean and variance of the target
    # over the training rows of the node, for inner nodes too
    threshold: Floats
    mean: Floats
    variance: Floats

    @classmethod
    def of(cls, trees: Sequence[Any]) -> "FlatForest":
        """The forest of fitted decision trees of scikit-learn (criterion "squared_error")."""
        parts = [tree.tree_ for tree in trees]
        root = np.concatenate([[0], np.cumsum([part.node_count for part in parts])[:-1]]).astype(np.int64)

        def children(name: str) -> NDArray[np.int32]:
            nodes = [getattr(part, name) + first for part, first in zip(parts, root)]
            return np.concatenate(nodes).astype(np.int32)

        return cls(
            root=root,
            feature=np.maximum(np.concatenate([part.feature for part in parts]), -1).astype(np.int32),  # leaves have -2
            left=children("children_left"),
            right=children("children_right"),
            threshold=np.concatenate([part.threshold for part in parts]),
            mean=np.concatenate([part.value[:, 0, 0] for part in parts]),
            variance=np.concatenate([part.impurity for part in parts]),
        )

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.root)

    def moments(
        self,
        x: NDArray[np.float32],
        min_variance: float = 0.0,
        depths: Sequence[int] = (NO_LIMIT,),
        counts: Sequence[int] | None = None,
        n_threads: int = 1,
    ) -> Floats:
        """Mean, and variance within and between the trees, shape (n_depths, n_counts, 3, n), in one pass.

        The variance within is the mean of the variances of the leaves, at least ``min_variance`` each, that between the
        variance of their means; they sum to the variance. Several forests can be had at once: the trees pruned at
        increasing depths, and the first trees, of increasing counts; all by default.
        """
        counts = (self.n_trees,) if counts is None else counts
        result = np.empty((len(depths), len(counts), 3, len(x)))
        limits, sizes = np.array(depths, dtype=np.int64), np.array(counts, dtype=np.int64)
        kernel = _kernels().forest_moments

        def fill(part: slice) -> None:
            kernel(
                *self._structure(), self.mean, self.variance, np.ascontiguousarray(x[part]), min_variance, limits,
                sizes, result[..., part],
            )  # fmt: skip

        _in_chunks(fill, len(x), n_threads)
        return result

    def leaf_means(self, x: NDArray[np.float32], n_threads: int = 1) -> Floats:
        """The mean of the leaf that each row reaches in each tree, shape (n, n_trees)."""
        result = np.empty((len(x), self.n_trees))
        kernel = _kernels().leaf_means

        def fill(part: slice) -> None:
            kernel(*self._structure(), self.mean, np.ascontiguousarray(x[part]), result[part])

        _in_chunks(fill, len(x), n_threads)
        return result

    def _structure(self) -> tuple[NDArray[Any], ...]:
        return self.root, self.feature, self.left, self.right, self.threshold


def _in_chunks(task: Callable[[slice], None], n: int, n_threads: int) -> None:
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(task, (slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK))))


def _kernels() -> Any:
    """The compiled functions, imported here so that numba is loaded only when they are needed."""
    from usnrt.utils import _forest_kernel

    return _forest_kernel
