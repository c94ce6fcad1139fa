"""Compiled traversal of the trees of the forest expert."""

# mypy: disable-error-code="no-untyped-def"

from usnrt.utils.jit import kernel


@kernel()
def sorted_leaves(root, feature, right, value, x, result):
    """Fill `result` (n, n_trees) with the sorted values of the leaves that each row reaches."""
    for row in range(x.shape[0]):
        for tree in range(len(root)):
            node = root[tree]
            while feature[node] >= 0:
                node = node + 1 if x[row, feature[node]] <= value[node] else right[node]
            result[row, tree] = value[node]
        result[row].sort()
