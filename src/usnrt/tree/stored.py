"""How trees and what belongs to them are stored in model files and checkpoints; see `usnrt.utils.codec`."""

from typing import Any

import numpy as np

from usnrt.experts.base import FURTHER_EXPERTS
from usnrt.experts.builtin import TOGETHER
from usnrt.experts.cross_fit import stored_fields
from usnrt.experts.refine import LARGEST
from usnrt.experts.user_model import FORM_FIELDS, ModelExpert
from usnrt.experts.weights import GUIDED, MEMORY
from usnrt.memory.retrieval import N_GUIDES
from usnrt.nn.quantiles import N_OUTPUTS
from usnrt.nn.stored import LAYERS, NETWORKS, TINY, has_weights
from usnrt.utils.codec import Classes, Codec, Stored
from usnrt.utils.schema import Array, Bool, ByName, Float, Int, Many, Maybe, one

FURTHER = {
    kind.__name__: Stored(kind.__module__, kind.FIELDS, lambda expert: expert.fits_together())
    for kind in FURTHER_EXPERTS
}

NODE_INT, NODE_FLAG = Array("i8", ("n_nodes",), low=-1), Array("b1", ("n_nodes",))
NODE_NUMBER = Array("f8", ("n_nodes",), special="any")  # NaN where a leaf has none
SHARE = Array("f8", ("n_leaves",), 0.0, 1.0)
PLACE = Array("f8", ("n_places",))
HISTORY = Many(ByName(one("History")))


def _is_tree(tree: Any) -> bool:
    """Whether children follow their parents and have no other one, and nothing contradicts that."""
    n = len(tree.feature)
    numbers, inner = np.arange(n), tree.feature >= 0
    below = tree.parent[1:]
    return bool(
        n >= 1
        and all(((c > numbers) & (c < n))[inner].all() and (c == -1)[~inner].all() for c in (tree.left, tree.right))
        and tree.parent[0] == -1
        and ((below >= 0) & (below < numbers[1:])).all()
        and all((tree.parent[child[inner]] == numbers[inner]).all() for child in (tree.left, tree.right))
        and ((tree.left[below] == numbers[1:]) | (tree.right[below] == numbers[1:])).all()
        and (tree.left != tree.right)[inner].all()
        and tree.depth[0] == 0
        and (tree.depth[1:] == tree.depth[below] + 1).all()
        and not np.isnan(tree.threshold[inner & (tree.category_row < 0)]).any()
        and (tree.leaf_index == np.where(inner, -1, np.cumsum(~inner) - 1)).all()
    )


def _is_memory(memory: Any) -> bool:
    """Whether exactly the places of cells with a row are finite."""
    n_cells, _, size = memory.cells.shape
    has_row = memory.row >= 0
    return bool(
        len(memory.row) == n_cells * size
        and has_row.any()
        and (np.isfinite(memory.cells) == has_row.reshape(n_cells, 1, size)).all()
        and np.isfinite(memory.target[has_row]).all()
    )


def _is_form(form: Any) -> bool:
    """Whether typical values are those that columns may have, or missing."""
    return all(
        np.isnan(value) or (value in range(column.n_categories) if column.is_categorical else np.isfinite(value))
        for column, value in zip(form.columns, form.typical)
    )


def _n_inputs(model: Any) -> int:
    """Number of network inputs before the encoding, without guides."""
    number: int = model.network.sizes[0] if model.encoding is None else model.encoding.n_inputs
    return number - N_GUIDES if model.memory is not None else number


def _n_ranges(model: Any) -> int:
    """Number of regions, and the whole table."""
    number: int = model.tree.n_leaves
    return number + 1


def _has_experts(model: Any) -> bool:
    weights, memory = model.expert_weights, model.memory
    return bool(
        all(has_weights(model.network, params) for params in model.params)
        and weights.shape[1] == len(TOGETHER) + len(model.further)
        and all(expert.n_inputs == _n_inputs(model) for expert in model.further)
        and all(len(expert.spread) == model.tree.n_leaves for expert in model.user_models)
        and all(len(expert.form.columns) == model.tree.n_features for expert in model.user_models)
        and np.allclose(weights.sum(axis=1), 1.0)
        and (memory.n_inputs == _n_inputs(model) if memory is not None else not weights[:, [GUIDED, MEMORY]].any())
    )


def _has_variance(model: Any) -> bool:
    return (
        all(has_weights(model.mean_network, params) for params in model.mean_params)
        and all(has_weights(model.variance_network, params) for params in model.variance_params)
        and model.variance_network.output != "linear"
    )


TREES: Classes = {
    **NETWORKS,
    **FURTHER,
    "ModelExpert": Stored("usnrt.experts.user_model", ModelExpert.FIELDS, lambda expert: expert.fits_together()),
    "TableForm": Stored("usnrt.tables.form", FORM_FIELDS, _is_form),
    "CrossFitted": Stored("usnrt.experts.cross_fit", stored_fields([*FURTHER]), lambda expert: expert.fits_together()),
    "Tree": Stored(
        "usnrt.tree.structure",
        {
            "n_features": Int(1, size="n_columns"),
            "feature": Array("i8", ("n_nodes",), low=-1, below="n_columns"),
            "threshold": NODE_NUMBER,
            "left": NODE_INT,
            "right": NODE_INT,
            "parent": NODE_INT,
            "depth": Array("i8", ("n_nodes",), low=0),
            "missing_left": NODE_FLAG,
            "larger_left": NODE_FLAG,
            "category_row": Array("i8", ("n_nodes",), low=-1, below="n_categorical"),
            "left_categories": Array("b1", ("n_categorical", None)),
            "n_rows": Array("f8", ("n_nodes",), low=0.0),
            "statistic": NODE_NUMBER,
            "log10_p": NODE_NUMBER,
            "residual_mean": NODE_NUMBER,
            "residual_std": NODE_NUMBER,
            "leaf_index": NODE_INT,
        },
        _is_tree,
        {"n_leaves": lambda tree: tree.n_leaves},
    ),
    "Split": Stored(
        "usnrt.tree.split",
        {
            "feature": Int(),
            "threshold": Float(special="any"),
            "left_categories": Maybe(Many(Int(), kind=tuple)),
            "missing_left": Bool(),
            "statistic": Float(special="any"),
            "log10_p": Float(special="any"),
            "n_left": Float(0.0),
            "n_right": Float(0.0),
            "n_candidates": Int(),
        },
    ),
    "Refinement": Stored(
        "usnrt.experts.refine",
        {
            "spread_share": SHARE,
            "log_half_width": Array("f8", ("n_leaves",), -700.0, 700.0),
            "location_share": SHARE,
            "low": Float(-LARGEST, LARGEST),
            "high": Float(-LARGEST, LARGEST),
        },
    ),
    "Retrieval": Stored(
        "usnrt.memory.retrieval",
        {
            "encoding": Maybe(one("PiecewiseLinear", n_encoded="n_encoded")),
            # squares of distances are finite: encoded inputs are at most 1e6, and embedded rows are float16
            "metric": Array("f4", ("n_encoded", "n_dims"), -1e6, 1e6),
            "cells": Array("f2", ("n_cells", "n_dims", None), special="inf"),
            "centres": Array("f4", ("n_dims", "n_cells"), -65504.0, 65504.0),
            "row": Array("i8", ("n_places",), low=-1),
            # of the scaled target; squares of what is made of them are finite
            "target": Array("f8", ("n_places",), -1e9, 1e9, special="any"),
            "log_weight": PLACE,
            "guide_mean": Array("f8", (N_GUIDES,)),
            "guide_std": Array("f8", (N_GUIDES,), low=TINY),
            "n_probes": Int(1, 1000),
            "n_neighbors": Int(1, 1000),
        },
        _is_memory,
    ),
    "ExpertTree": Stored(
        "usnrt.tree.model",
        {
            "tree": one("Tree", n_leaves="n_leaves", n_columns="n_columns"),
            "encoding": Maybe(one("PiecewiseLinear", n_encoded="n_encoded")),
            "network": one("MLP", n_inputs="n_encoded", n_outputs=N_OUTPUTS),
            "params": Many(LAYERS, "n_networks"),
            "network_of": Array("i8", ("n_leaves",), low=0, below="n_networks"),
            "memory": Maybe(one("Retrieval")),
            "expert_weights": Array("f8", ("n_leaves", "n_experts"), 0.0, 1.0 + 1e-9),
            "further": Many(one("CrossFitted", "ModelExpert", *FURTHER), kind=tuple),
            "refinement": one("Refinement", n_leaves="n_leaves"),
        },
        _has_experts,
        {"n_inputs": _n_inputs, "n_ranges": _n_ranges},
    ),
    "VarianceTree": Stored(
        "usnrt.tree.model",
        {
            "tree": one("Tree", n_leaves="n_leaves", n_columns="n_columns"),
            "encoding": Maybe(one("PiecewiseLinear", n_inputs="n_inputs", n_encoded="n_encoded")),
            "mean_network": one("MLP", n_inputs="n_encoded", n_outputs=1),
            "mean_params": Many(LAYERS, "n_leaves"),
            "variance_network": one("MLP", n_inputs="n_encoded", n_outputs=1),
            "variance_params": Many(LAYERS, "n_leaves"),
        },
        _has_variance,
        {
            "n_inputs": lambda m: m.mean_network.sizes[0] if m.encoding is None else m.encoding.n_inputs,
            "n_ranges": _n_ranges,
        },
    ),
    "FittedTree": Stored(
        "usnrt.tree.fit",
        {
            "members": Many(one("ExpertTree", "VarianceTree"), least=1),
            "history": HISTORY,
            "quantiles": Many(Array("f8", (None, None))),
            "split_params": Many(Maybe(LAYERS)),
        },
    ),
}
CODEC = Codec(TREES)
