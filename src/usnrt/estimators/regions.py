"""The regions of a fitted tree: their table, and the ratio of their uncertainties.

A region is a leaf of the tree; its id is the node number that ``apply`` returns.
"""

from typing import Any

import numpy as np

from usnrt.tree.rules import rules_table


def region_rows(model: object, max_labels: int | None = None) -> list[dict[str, Any]]:
    """The rows of ``model.rules()``, the least certain region first.

    Parameters
    ----------
    model : fitted model
        The list is empty for a model without a tree.
    max_labels : int, optional
        Number of categories listed in a rule; all by default.

    Returns
    -------
    list of dict
        With the keys of `usnrt.tree.rules.rules_table`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from usnrt.estimators.regions import region_rows
    >>> region_rows(SimpleNamespace())
    []
    """
    if not hasattr(model, "tree_") or not hasattr(model, "columns_"):
        return []
    weights = getattr(model, "expert_weights_", None)
    names = getattr(getattr(model, "model_", None), "expert_names", [])
    table = rules_table(model.tree_, model.columns_, expert_weights=weights, expert_names=names, max_labels=max_labels)
    return sorted(table.rows(), key=lambda row: -np.nan_to_num(row["residual_std"]))


def uncertainty_ratio(model: object) -> float:
    """Residual standard deviation of the least certain region, divided by that of the most certain one.

    Parameters
    ----------
    model : fitted model

    Returns
    -------
    float
        NaN for fewer than two regions, or if the smallest standard deviation is 0 or unknown.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> from usnrt.estimators.regions import uncertainty_ratio
    >>> tree = SimpleNamespace(leaves=np.array([1, 2]), residual_std=np.array([2.0, 0.5, 3.0]))
    >>> uncertainty_ratio(SimpleNamespace(tree_=tree))
    6.0
    """
    tree = getattr(model, "tree_", None)
    stds = np.empty(0) if tree is None else tree.residual_std[tree.leaves]
    if len(stds) < 2 or not stds.min() > 0:
        return float("nan")
    return float(stds.max() / stds.min())


def ratio_sentence(ratio: float) -> str:
    """A sentence with the ratio of `uncertainty_ratio`; empty if it is NaN.

    Examples
    --------
    >>> from usnrt.estimators.regions import ratio_sentence
    >>> ratio_sentence(7.1234)
    'The residual std of the least certain region is 7.12 times that of the most certain one.'
    """
    if np.isnan(ratio):
        return ""
    text = f"{ratio:,.0f}" if ratio >= 1000 else f"{ratio:.3g}"
    return f"The residual std of the least certain region is {text} times that of the most certain one."
