"""Numba kernel that routes rows from the root to their leaves."""

from usnrt.utils.jit import kernel


@kernel()
def route(  # type: ignore[no-untyped-def]
    table, n_rows, row_step, column_step, feature, threshold, left, right, missing_left, category_row, left_categories,
    larger_left, out,
):  # fmt: skip
    """Write the leaf of each row to `out`; `table` is the flat memory of an (n_rows, n_features) array."""
    n_codes = left_categories.shape[1]
    for i in range(n_rows):
        node = 0
        while feature[node] >= 0:
            x = table[i * row_step + feature[node] * column_step]
            if x != x:
                goes_left = missing_left[node]
            elif category_row[node] < 0:
                goes_left = x <= threshold[node]
            elif 0.0 <= x < n_codes:
                goes_left = left_categories[category_row[node], int(x)]
            else:  # a category unseen in training
                goes_left = larger_left[node]
            node = left[node] if goes_left else right[node]
        out[i] = node
