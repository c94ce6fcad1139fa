"""The regions of a fitted tree as plain rows: what ``usnrt explain`` prints and the report draws."""

from typing import Any

import numpy as np


def region_rows(model: Any) -> list[dict[str, Any]]:
    """One row a region, the least sure first.

    Parameters
    ----------
    model : fitted model
        A model without a tree has one region, all rows.

    Returns
    -------
    list of dict
        Keys ``leaf`` (as in ``apply``), ``region`` (the rule in words), ``rows`` and ``share`` of training, and
        ``residual std`` in the target's units.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from usnrt.regions import region_rows
    >>> region_rows(SimpleNamespace())
    []
    """
    from usnrt.tree.rules import region_text

    tree = getattr(model, "tree_", None)
    if tree is None:
        return []
    rows = [
        {
            "leaf": int(node),
            "region": region_text(tree, int(node), model.columns_),
            "rows": round(float(tree.n_rows[node])),
            "share": float(tree.n_rows[node] / tree.n_rows[0]),
            "residual std": float(tree.residual_std[node]),
        }
        for node in tree.leaves
    ]
    return sorted(rows, key=lambda row: -np.nan_to_num(row["residual std"]))
