"""The fields of every class that a model file may contain.

Estimators have the fields that `fit` sets; their parameters have constraints of their own
(`usnrt.utils.constraints`).
"""

from collections.abc import Mapping

from usnrt.memory.retrieval import N_GUIDES
from usnrt.persistence._schema import (
    Absent,
    Anything,
    Array,
    Bool,
    ByName,
    Float,
    Int,
    Many,
    Maybe,
    Object,
    Spec,
    Text,
    Values,
)
from usnrt.experts.weights import EXPERTS

Schema = Mapping[str, Spec]

TINY = 5e-324  # the smallest positive number
LARGE = 1e150  # squares of larger numbers overflow
SIZE = 10**6  # no file holds the weights of a layer with more units
N_EXPERTS = len(EXPERTS)


def one(*names: str) -> Object:
    """An instance of one of some classes."""
    return Object(names)


WEIGHT = Array("f4", None, -1e9, 1e9)  # far beyond those of any training; products of several are finite
LAYERS = Many(Many(WEIGHT, kind=tuple), kind=tuple)  # weights and biases of each layer
NODE_INT, NODE_FLOAT, NODE_FLAG = (
    Array("i8", ("n_nodes",), low=-1),
    Array("f8", ("n_nodes",)),
    Array("b1", ("n_nodes",)),
)
NODE_NUMBER = Array("f8", ("n_nodes",), special="any")  # NaN where a leaf has none
RANGE = Array("f8", ("n_regions", "n_columns"), special="inf")
UNIT = Array("f8", ("n_regions", "n_columns"), low=TINY)
KNOT, PAIR = Array("f8", ("n_knots",)), Array("f8", (2,))
PLACE = Array("f8", ("n_places",))
SHARE = Array("f8", ("n_leaves",), 0.0, 1.0)
HISTORY = one("History")

PARTS: dict[str, Schema] = {
    "Column": {
        "name": Text(),
        "kind": Text(("numeric", "categorical")),
        "source": Text(),
        "source_index": Int(),
        "part": Text(),
        "categories": Many(Text(), kind=tuple),
        "codes": Many(Float(), kind=tuple),
        "has_missing": Bool(),
        "boolean": Bool(),
        "rest": Bool(),
    },
    "TableEncoder": {
        "columns_": Many(one("Column"), "n_columns"),
        "source_names_": Many(Text(), "n_sources"),
        "source_types_": Many(Text(("number", "text", "date", "empty")), "n_sources"),
        "date_formats_": Absent(ByName(Text())),
        "n_categories_": Array("i8", ("n_columns",), low=0),
        "reading_": Maybe(ByName(Text())),
    },
    "NetworkInputs": {
        "n_outputs_": Int(size="n_inputs"),
        "names_": Many(Text(), "n_inputs"),
        "source_": Array("i8", ("n_inputs",), low=0),
        "mean_": Array("f8", ("n_columns",)),
        "factor_": Array("f8", ("n_columns",)),
        "indicator_": Array("b1", ("n_columns",)),
        "level_": Many(Array("i8", (None,), low=0), "n_columns"),
    },
    "MLP": {
        "sizes": Many(Int(1, SIZE), kind=tuple),
        "activation": Text(("relu", "tanh", "algebraic")),
        "output": Text(("linear", "softplus", "exp")),
    },
    "DropoutMLP": {"sizes": Many(Int(1, SIZE), kind=tuple), "rate": Float(0.0, 1.0)},
    "ConcreteDropoutMLP": {
        "sizes": Many(Int(1, SIZE), kind=tuple),
        "first_rate": Float(0.0, 1.0),
        "temperature": Float(TINY),
        "activation": Text(("relu", "elu")),
        "separate_heads": Bool(),
    },
    "History": {
        "train_loss": Many(Float(special="any")),
        "valid_loss": Many(Float(special="any")),
        "best_epoch": Int(-1),
        "diverged": Bool(),
        "initial_loss": Float(special="any"),
    },
    "Tree": {
        "n_features": Int(1),
        "feature": NODE_INT,
        "threshold": NODE_NUMBER,
        "left": NODE_INT,
        "right": NODE_INT,
        "parent": NODE_INT,
        "depth": Array("i8", ("n_nodes",), low=0),
        "missing_left": NODE_FLAG,
        "larger_left": NODE_FLAG,
        "category_row": NODE_INT,
        "left_categories": Array("b1", (None, None)),
        "n_rows": Array("f8", ("n_nodes",), low=0.0),
        "statistic": NODE_NUMBER,
        "log10_p": NODE_NUMBER,
        "residual_mean": NODE_NUMBER,
        "residual_std": NODE_NUMBER,
        "leaf_index": NODE_INT,
    },
    "Fingerprint": {"hashes": Array("u8", (None,)), "repeated": Float(0.0, 1.0)},
    "PiecewiseLinear": {
        "n_inputs": Int(1, SIZE),
        "columns": Array("i8", ("n_encoded",), low=0),
        "slope": Array("f4", ("n_encoded", "n_bins")),
        "offset": Array("f4", ("n_encoded", "n_bins")),
    },
    "ExpertTree": {
        "tree": one("Tree"),
        "encoding": Maybe(one("PiecewiseLinear")),
        "network": one("MLP"),
        "params": Many(LAYERS),
        "network_of": Array("i8", ("n_leaves",), low=0),
        "memory": Maybe(one("Retrieval")),
        "expert_weights": Array("f8", ("n_leaves", N_EXPERTS), 0.0, 1.0 + 1e-9),
        "refinement": Maybe(one("Refinement")),
    },
    "QuantileTree": {
        "tree": one("Tree"),
        "encoding": Maybe(one("PiecewiseLinear")),
        "mean_network": one("MLP"),
        "mean_params": Many(LAYERS, "n_leaves"),
        "quantile_network": one("MLP"),
        "quantile_params": Many(LAYERS, "n_leaves"),
        "blend": Float(),
        "refinement": Maybe(one("Refinement")),
    },
    "VarianceTree": {
        "tree": one("Tree"),
        "encoding": Maybe(one("PiecewiseLinear")),
        "mean_network": one("MLP"),
        "mean_params": Many(LAYERS, "n_leaves"),
        "variance_network": one("MLP"),
        "variance_params": Many(Many(LAYERS, "n_leaves")),
    },
    "Refinement": {
        "spread_share": SHARE,
        "log_half_width": Array("f8", ("n_leaves",), -700.0, 700.0),
        "location_share": SHARE,
    },
    "Retrieval": {
        "encoding": Maybe(one("PiecewiseLinear")),
        "metric": Array("f4", ("n_encoded", "n_dims")),
        "cells": Array("f2", ("n_cells", "n_dims", None), special="inf"),
        "centres": Array("f4", ("n_dims", "n_cells")),
        "row": Array("i8", ("n_places",), low=-1),
        "target": Array("f8", ("n_places",), special="any"),
        "log_weight": PLACE,
        "guide_mean": Array("f8", (N_GUIDES,)),
        "guide_std": Array("f8", (N_GUIDES,), low=TINY),
        "n_probes": Int(1, 1000),
        "n_neighbors": Int(1, 1000),
    },
    "SeenRows": {
        "hashes": Array("u8", ("n_hashes",)),
        "target": Maybe(Array("f8", ("n_hashes",))),
        "weight": Float(0.0, 1.0),
    },
    "Calibration": {
        "group_of_leaf": Array("i8", (None,), low=0),
        "residuals": Many(one("ResidualDistribution"), "n_groups"),
        "scores": Many(Array("f8", (None,)), "n_groups"),
        "weights": Maybe(Many(Array("f8", (None,), low=TINY), "n_groups")),
        "has_familiar": Bool(),
    },
    "ResidualDistribution": {
        "knots": KNOT,
        "density": Array("f8", ("n_knots",), low=TINY),
        "tail_mass": Array("f8", (2,), TINY, 1.0),
        "tail_index": Array("f8", (2,), TINY, 1.0),
        "mean": Float(),
        "std": Float(TINY),
        "_tail_scale": PAIR,
        "_cdf": KNOT,
        "_survival": KNOT,
        "_left_square": KNOT,
        "_right_square": KNOT,
    },
    "Support": {
        "categorical": Array("b1", ("n_columns",)),
        "low": RANGE,
        "high": RANGE,
        "below": UNIT,
        "above": UNIT,
        "never_missing": Array("b1", ("n_columns",)),
        "landmarks": Maybe(one("Landmarks")),
        "missing_value_variance": Array("f8", ("n_columns",), low=0.0),
        "typical_variance": Array("f8", ("n_regions",), low=0.0),
        "widens": Bool(),
        "target_variance": Float(TINY, special="inf"),
        "subjects": Maybe(one("Subjects")),
    },
    "Landmarks": {
        "centre": Array("f8", ("n_columns",)),
        "scale": Array("f8", ("n_columns",), low=0.0),
        "offset": Array("f4", ("n_columns",)),
        "whitening": Array("f4", ("n_columns", "n_directions")),
        "points": Array("f4", ("n_points", "n_directions")),
        "threshold": Float(TINY),
    },
    "Subjects": {"columns": Array("i8", (None,), low=0), "landmarks": one("Landmarks")},
    "TargetMap": {
        "low": Float(special="inf"),
        "high": Float(special="inf"),
        "log": Bool(),
        "shift": Float(0.0),
        "knee": Float(TINY),
        "low_end": Float(special="inf"),
        "high_end": Float(special="inf"),
        "low_at": Float(special="inf"),
        "high_at": Float(special="inf"),
    },
    "FlatForest": {
        "root": Array("i8", (None,), low=0),
        "feature": Array("i4", ("n_nodes",)),
        "left": Array("i4", ("n_nodes",)),
        "right": Array("i4", ("n_nodes",)),
        "threshold": NODE_NUMBER,
        "mean": Array("f8", ("n_nodes",)),
        "variance": Array("f8", ("n_nodes",), low=0.0),
    },
    "OnlineCalibrator": {
        "model": one("USNRTRegressor", "USNRTEnsemble", "PaperUSNRTRegressor", "PaperUSNRTEnsemble"),
        "coverage": Float(TINY, 1.0 - 1e-16),
        "surplus_": PAIR,
        "region_surplus_": Array("f8", (None, 2)),
        "n_rows_": Int(),
        "n_covered_": Int(),
    },
}

_FITTED: Schema = {
    "n_features_in_": Int(1),
    "feature_names_in_": Absent(Values("OU")),
    "encoder_": one("TableEncoder"),
    "target_name_": Maybe(Text()),
    "fingerprint_": Absent(Maybe(one("Fingerprint"))),
    "target_moments_": Maybe(Many(Float(), 2, tuple)),
    "inputs_": one("NetworkInputs"),
    "target_mean_": Float(-LARGE, LARGE),
    "target_std_": Float(TINY, LARGE),
}
_REGIONS: Schema = {
    **_FITTED,
    "support_": Maybe(one("Support")),
    "calibration_": Maybe(one("Calibration")),
    "familiar_": Maybe(one("SeenRows")),
    "own_mean_": Bool(),
}
_MEMORY: Schema = {
    "target_map_": Maybe(one("TargetMap")),
    "expert_weights_": Maybe(Array("f8", (None, N_EXPERTS), 0.0, 1.0 + 1e-9)),
    "row_positions_": Maybe(Array("i8", ("n_rows",), low=-1)),
    "examples_": Maybe(Many(Values(size="n_rows"))),
    "background_": Maybe(Array("f8", (None, None, None), special="any")),
}
_TREE: Schema = {"min_samples_leaf_": Float(0.0), "history_": Many(ByName(HISTORY))}
_ENSEMBLE: Schema = {
    "shared_": Array("f8", (None,), low=0.0),
    "own_factor_": Float(0.0),
    "epistemic_factor_": Float(0.0),
}
_BASELINE: Schema = {**_FITTED, "spread_": Float(TINY)}
_NETWORK: Schema = {
    **_BASELINE,
    "seed_": Int(),
    "encoding_": Maybe(one("PiecewiseLinear")),
    "history_": ByName(ByName(HISTORY)),
}
_FOREST: Schema = {
    **_BASELINE,
    "chosen_": ByName(Anything()),
    "search_": Absent(one("Table")),
    "forest_": one("FlatForest"),
}

ESTIMATORS: dict[str, Schema] = {
    "USNRTRegressor": {
        **_REGIONS,
        **_MEMORY,
        **_TREE,
        "model_": one("ExpertTree", "QuantileTree", "VarianceTree"),
    },
    "USNRTEnsemble": {**_REGIONS, **_MEMORY, **_ENSEMBLE, "members_": Many(one("ExpertTree", "QuantileTree"))},
    "PaperUSNRTRegressor": {
        **_REGIONS,
        **_TREE,
        "model_": one("VarianceTree"),
        "split_params_": Many(Maybe(LAYERS)),
    },
    "PaperUSNRTEnsemble": {**_REGIONS, "members_": Many(one("VarianceTree"))},
    "HNNRegressor": {**_NETWORK, "networks_": Many(one("MLP"), 2, tuple), "params_": Many(LAYERS, 2, tuple)},
    "DeepEnsembleRegressor": {
        **_NETWORK,
        "networks_": Many(one("MLP"), 2, tuple),
        "params_": Many(Many(LAYERS, 2, tuple)),
    },
    "MCDropoutRegressor": {**_NETWORK, "network_": one("DropoutMLP"), "params_": LAYERS, "noise_": Float(0.0)},
    "ConcreteDropoutRegressor": {
        **_NETWORK,
        "network_": one("ConcreteDropoutMLP"),
        "params_": LAYERS,
        "rates_": Array("f8", (None,), 0.0, 1.0),
    },
    "EvidentialRegressor": {**_NETWORK, "network_": one("MLP"), "params_": LAYERS},
    "RandomForestVarianceRegressor": _FOREST,
    "ExtraTreesVarianceRegressor": _FOREST,
}
