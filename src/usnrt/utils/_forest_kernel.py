"""Compiled traversal of the trees of a forest."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from usnrt.utils.jit import kernel


@kernel()
def forest_moments(root, feature, left, right, threshold, mean, variance, x, min_variance, depths, counts, result):
    """Fill `result` (n_depths, n_counts, 3, n) with mean, variance within and variance between the trees.

    `depths` and `counts` increase. Each row traverses each tree once; its node is read at each of the depths.
    """
    n_depths = len(depths)
    middle, within, squares = np.empty(n_depths), np.empty(n_depths), np.empty(n_depths)
    for row in range(x.shape[0]):
        middle[:], within[:], squares[:] = 0.0, 0.0, 0.0
        size = 0  # index into `counts`
        for tree in range(counts[-1]):
            node, depth = root[tree], 0
            for level in range(n_depths):
                while depth < depths[level] and feature[node] >= 0:
                    node = left[node] if x[row, feature[node]] <= threshold[node] else right[node]
                    depth += 1
                distance = mean[node] - middle[level]  # Welford's update, which avoids cancellation
                middle[level] += distance / (tree + 1)
                squares[level] += distance * (mean[node] - middle[level])
                within[level] += max(variance[node], min_variance)
            if tree + 1 == counts[size]:
                for level in range(n_depths):
                    result[level, size, 0, row] = middle[level]
                    result[level, size, 1, row] = within[level] / (tree + 1)
                    result[level, size, 2, row] = squares[level] / (tree + 1)
                size += 1


@kernel()
def leaf_means(root, feature, left, right, threshold, mean, x, result):
    """Fill `result` (n, n_trees) with the mean of the leaf that each row reaches in each tree."""
    for row in range(x.shape[0]):
        for tree in range(len(root)):
            node = root[tree]
            while feature[node] >= 0:
                node = left[node] if x[row, feature[node]] <= threshold[node] else right[node]
            result[row, tree] = mean[node]
