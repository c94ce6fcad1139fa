"""What the figures show of a fitted tree, recorded while the model is in memory."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.metrics.models import PredictsDistribution
from usnrt_experiments.grid import TrainTestSplit

CURVE_POINTS = 200
SHOWN_ROWS = 2000
SPLIT_RESIDUALS = "splitting network on training rows"
MEAN_RESIDUALS = "predicted mean on test rows"


def describe_tree(
    model: PredictsDistribution, split: TrainTestSplit
) -> tuple[dict[str, Any] | None, dict[str, NDArray[Any]]]:
    """Size and heterogeneity of a fitted tree, its predicted noise along one feature, and the split of its root.

    Returns
    -------
    facts : dict, or None for a model without ``tree_``
    arrays : dict of str to ndarray
        ``curve_x``, ``curve_std`` and ``curve_leaf`` (m,): predicted standard deviation along one feature, the others
        at their mean (categories at the most frequent); ``root_x``, ``root_other`` and ``root_residual`` (k,): rows in
        the plane of the root's feature and another, with their residuals. These are the residuals of the root's
        splitting network on a sample of the training rows if the model has ``split_residuals(X, y)``, else those of
        the predicted mean on test rows; see ``root_residuals_of`` of the facts.
    """
    tree = getattr(model, "tree_", None)
    if tree is None:
        return None, {}
    feature = np.asarray(tree.feature)
    leaves = np.flatnonzero(feature < 0)
    facts: dict[str, Any] = {
        "n_leaves": len(leaves),
        "max_depth": int(tree.max_depth),
        "leaf_rows": [float(rows) for rows in np.asarray(tree.n_rows)[leaves]],
        "leaf_residual_std": [float(f"{std:.6g}") for std in np.asarray(tree.residual_std)[leaves]],
        "heterogeneity": float(getattr(model, "heterogeneity_", np.nan)),
    }
    names = [str(name) for name in split.X_train.columns]
    numeric = [j for j, kind in enumerate(split.X_train.dtypes) if getattr(kind, "kind", "O") in "if"]
    # Features of splits come first, in the order of their nodes, so that of the root is the first.
    used = [int(j) for j in dict.fromkeys(feature[feature >= 0]) if j in numeric]
    ranked = used + [j for j in numeric if j not in used]
    arrays: dict[str, NDArray[Any]] = {}
    if ranked:
        facts["curve_feature"] = names[ranked[0]]
        arrays |= _curve(model, split.X_train, names[ranked[0]])
    if len(ranked) > 1 and feature[0] == ranked[0]:
        facts |= {"root_feature": names[ranked[0]], "root_other": names[ranked[1]]}
        facts["root_threshold"] = float(tree.threshold[0])
        facts["root_residuals_of"] = SPLIT_RESIDUALS if hasattr(model, "split_residuals") else MEAN_RESIDUALS
        arrays |= _root_plane(model, split, names[ranked[0]], names[ranked[1]])
    return facts, arrays


def _curve(model: PredictsDistribution, X: Any, name: str) -> dict[str, NDArray[Any]]:
    rows = X.iloc[np.zeros(CURVE_POINTS, dtype=int)].copy()
    for column in X.columns:
        values = X[column]
        if values.dtype.kind in "if":
            rows[column] = float(values.mean())
        else:
            rows[column] = values.mode().iloc[0]
            rows[column] = rows[column].astype(values.dtype)
    low, high = np.quantile(X[name].to_numpy(dtype=float), [0.01, 0.99])
    x = np.linspace(low, high, CURVE_POINTS)
    rows[name] = x
    curve = {"curve_x": x, "curve_std": model.predict_dist(rows).std().astype(np.float32)}
    if hasattr(model, "apply"):
        curve["curve_leaf"] = np.asarray(model.apply(rows)).astype(np.int16)
    return curve


def _root_plane(model: PredictsDistribution, split: TrainTestSplit, name: str, other: str) -> dict[str, NDArray[Any]]:
    if hasattr(model, "split_residuals"):
        n_train = len(split.y_train)
        shown = np.sort(np.random.default_rng(0).choice(n_train, min(SHOWN_ROWS, n_train), replace=False))
        rows = split.X_train.iloc[shown]
        residual = np.asarray(model.split_residuals(rows, split.y_train[shown]))
    else:
        shown = np.linspace(0, len(split.y_test) - 1, min(SHOWN_ROWS, len(split.y_test))).astype(int)
        rows = split.X_test.iloc[shown]
        residual = split.y_test[shown] - model.predict_dist(rows).mean()
    return {
        "root_x": rows[name].to_numpy(dtype=float),
        "root_other": rows[other].to_numpy(dtype=float),
        "root_residual": residual.astype(np.float32),
    }
