"""How the classes that model files may contain are stored; those of trees are in `usnrt.tree.stored`."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from usnrt.distributions.residual_distribution import ResidualDistribution
from usnrt.model.target import LARGEST, SMALLEST
from usnrt.nn.quantile_functions import LARGEST_SCORE
from usnrt.nn.stored import LAYERS, TINY, has_weights
from usnrt.tables.csv_format import CsvFormat
from usnrt.tables.dates import compile_format
from usnrt.tables.inputs import MAX_RANKED_VALUE
from usnrt.tree.stored import HISTORY, TREES
from usnrt.utils.codec import Classes, Codec, Stored
from usnrt.utils.schema import (
    Anything,
    Array,
    Bool,
    ByName,
    Float,
    Int,
    Many,
    Maybe,
    Optional,
    Schema,
    Text,
    Values,
    one,
)

# Parameters that predictions use: threads, passes of a row through a network, floors of evidential parameters.
MOST = {"n_jobs": 4096, "n_passes": 10**5, "min_evidence": 10**6, "min_alpha": 10**6}

LARGEST_LEAF = 1e100  # mean or variance of scaled targets

RANGE = Array("f8", ("n_ranges", "n_columns"), special="inf")
UNIT = Array("f8", ("n_ranges", "n_columns"), low=TINY)
KNOT, PAIR = Array("f8", ("n_knots",)), Array("f8", (2,))


# -- tables -------------------------------------------------------------------------------------------------------


def _has_categories(column: Any) -> bool:
    """Whether codes and categories match, so that no code is beyond them."""
    has_rest = bool(column.categories) or not column.rest
    return has_rest and len(column.codes) in (0, len(column.categories) - column.rest)


def _has_columns(encoder: Any) -> bool:
    """Whether columns have their sources, and formats of dates and numbers are ones."""
    sources, names = [column.source_index for column in encoder.columns_], dict(enumerate(encoder.source_names_))
    return (
        [column.n_categories for column in encoder.columns_] == encoder.n_categories_.tolist()
        and [column.source for column in encoder.columns_] == [names.get(source) for source in sources]
        and sources == sorted(sources)
        and _has_formats(encoder)
    )


def _has_formats(encoder: Any) -> bool:
    try:
        for text in encoder.date_formats_.values():
            compile_format(text)
        if encoder.reading_ is None:
            return True
        format_of_file = CsvFormat(**encoder.reading_)
    except (TypeError, ValueError):
        return False
    return all(len(mark) <= 1 for mark in (format_of_file.decimal, format_of_file.thousands))


def _has_inputs(inputs: Any) -> bool:
    """Whether each column has as many network inputs as its levels and its missing values need, and knots ascend."""
    widths = [int(level.max(initial=0)) + 1 for level in inputs.level_] + inputs.indicator_
    return (
        sum(widths.tolist()) == inputs.n_outputs_
        and bool((np.repeat(np.arange(len(widths)), widths) == inputs.source_).all())
        and all(len(knots) != 1 and bool((np.diff(knots, axis=0) > 0).all()) for knots in inputs.knots_)
    )


TABLES: Classes = {
    "Column": Stored(
        "usnrt.tables.columns",
        {
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
        _has_categories,
    ),
    "TableEncoder": Stored(
        "usnrt.tables.encoder",
        {
            "columns_": Many(one("Column"), "n_columns"),
            "source_names_": Many(Text(), "n_sources"),
            "source_types_": Many(Text(("number", "text", "date", "empty")), "n_sources"),
            "date_formats_": ByName(Text()),
            "n_categories_": Array("i8", ("n_columns",), low=0),
            "reading_": Maybe(ByName(Text())),
        },
        _has_columns,
    ),
    "NetworkInputs": Stored(
        "usnrt.tables.inputs",
        {
            "n_outputs_": Int(size="n_inputs"),
            "names_": Many(Text(), "n_inputs"),
            "source_": Array("i8", ("n_inputs",), low=0, below="n_columns"),
            "mean_": Array("f8", ("n_columns",)),
            "factor_": Array("f8", ("n_columns",)),
            "knots_": Many(Array("f8", (None, 2), -MAX_RANKED_VALUE, MAX_RANKED_VALUE), "n_columns"),
            "indicator_": Array("b1", ("n_columns",)),
            "level_": Many(Array("i8", (None,), low=0), "n_columns"),
        },
        _has_inputs,
    ),
    "Fingerprint": Stored("usnrt.tables.rows", {"hashes": Array("u8", (None,)), "repeated": Float(0.0, 1.0)}),
}


# -- support, calibration, distributions --------------------------------------------------------------------------


def _has_support(support: Any) -> bool:
    """Whether ranges are in order, categories have none, and landmarks have the numeric columns."""
    numeric, landmarks, subjects = np.flatnonzero(~support.categorical), support.landmarks, support.subjects
    return bool(
        (support.low <= support.high).all()
        and (support.low[:, support.categorical] == -np.inf).all()
        and (support.high[:, support.categorical] == np.inf).all()
        and (landmarks is None or len(landmarks.centre) == len(numeric))
        and (subjects is None or np.isin(subjects.columns, numeric).all())
    )


def _is_residual_distribution(residual: Any) -> bool:
    """Whether the tables of a residual distribution are those that its density and its tails have."""
    try:
        with np.errstate(all="ignore"):
            again = ResidualDistribution(residual.knots, residual.density, residual.tail_mass, residual.tail_index)
    except ValueError:
        return False
    # computed again from rounded ones; squares of tiny tails are far below the others
    return all(np.allclose(vars(again)[name], value, rtol=1e-6, atol=1e-9) for name, value in vars(residual).items())


def _is_calibration(calibration: Any) -> bool:
    """Whether regions are there with and without seen rows, if any are, and each score has its weight."""
    lengths = [list(map(len, each)) for each in (calibration.scores, calibration.weights)]
    return len(calibration.group_of_leaf) % (1 + calibration.has_seen) == 0 and lengths[0] == lengths[1]


def _is_target_map(target_map: Any) -> bool:
    """Whether bounds are in order, and bounds have places on the model's scale."""
    bounds = [(target_map.low, target_map.low_at), (target_map.high, target_map.high_at)]
    return (
        target_map.low <= target_map.low_end < target_map.high_end <= target_map.high
        and all(math.isfinite(bound) == math.isfinite(place) for bound, place in bounds)
        and target_map.low_at <= target_map.high_at
        and (not target_map.log or (math.isfinite(target_map.low) and target_map.shift <= target_map.knee))
    )


REGIONS: Classes = {
    "Support": Stored(
        "usnrt.calibration.support",
        {
            "categorical": Array("b1", ("n_columns",)),
            "low": RANGE,
            "high": RANGE,
            "below": UNIT,
            "above": UNIT,
            "never_missing": Array("b1", ("n_columns",)),
            "landmarks": Maybe(one("Landmarks")),
            "missing_value_variance": Array("f8", ("n_columns",), low=0.0),
            "typical_variance": Array("f8", ("n_ranges",), low=0.0),
            "widens": Bool(),
            "target_variance": Float(TINY, special="inf"),
            "subjects": Maybe(one("Subjects")),
        },
        _has_support,
    ),
    "Landmarks": Stored(
        "usnrt.calibration.landmarks",
        {
            "centre": Array("f8", ("n_columns",)),
            "scale": Array("f8", ("n_columns",), low=0.0),
            "offset": Array("f4", ("n_columns",)),
            "whitening": Array("f4", ("n_columns", "n_directions")),
            "points": Array("f4", ("n_points", "n_directions"), filled=True),
            "threshold": Float(TINY),
        },
    ),
    "Subjects": Stored(
        "usnrt.calibration.landmarks",
        {
            "columns": Array("i8", ("n_columns",), low=0, order="strictly ascending"),
            "landmarks": one("Landmarks", n_columns="n_columns"),
        },
    ),
    "SeenRows": Stored(
        "usnrt.calibration.seen_rows",
        {
            "hashes": Array("u8", ("n_hashes",), order="strictly ascending", filled=True),
            "target": Maybe(Array("f8", ("n_hashes",))),
            "weight": Float(0.0, 1.0 - 1e-16),
        },
    ),
    "GroupCalibration": Stored(
        "usnrt.calibration.groups",
        {
            "group_of_leaf": Array("i8", (None,), low=0, below="n_groups"),
            "residuals": Many(one("ResidualDistribution"), "n_groups"),
            "scores": Many(Array("f8", (None,), -LARGEST_SCORE, LARGEST_SCORE, order="ascending"), "n_groups", least=1),
            "weights": Many(Array("f8", (None,), low=TINY), "n_groups"),
            "has_seen": Bool(),
            "mean_of_knots": Bool(),
        },
        _is_calibration,
        {"n_leaves": lambda calibration: len(calibration.group_of_leaf) // (1 + calibration.has_seen)},
    ),
    "ResidualDistribution": Stored(
        "usnrt.distributions.residual_distribution",
        {
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
        _is_residual_distribution,
    ),
    "TargetMap": Stored(
        "usnrt.distributions.transformed",
        {
            "low": Float(special="inf"),
            "high": Float(special="inf"),
            "log": Bool(),
            "shift": Float(0.0, LARGEST),
            "knee": Float(TINY, 2.0 * LARGEST),
            "low_end": Float(special="inf"),
            "high_end": Float(special="inf"),
            "low_at": Float(special="inf"),
            "high_at": Float(special="inf"),
        },
        _is_target_map,
    ),
}


# -- fitted models ------------------------------------------------------------------------------------------------


def _is_model(model: Any) -> bool:
    """Whether what a model keeps of its training rows fits to its other parts."""
    kept, shape = model.kept, (model.tree.n_leaves + 1, len(model.support.categorical))
    return (kept.background is None or kept.background.shape[::2] == shape) and (
        kept.examples is None
        if kept.positions is None
        else all(memory.row.max() < len(kept.positions) for memory in model.memories)
    )


_OF_TREE = {"n_columns": "n_columns", "n_inputs": "n_inputs"}
_OF_REGIONS = {"n_leaves": "n_leaves", "n_ranges": "n_ranges"}


def _has_common_experts(ensemble: Any) -> bool:
    """Whether all members have the same tree and experts."""
    first = ensemble.members[0]
    return all(
        member.expert_names == first.expert_names and np.array_equal(member.tree.feature, first.tree.feature)
        for member in ensemble.members
    )


MODELS: Classes = {
    "TargetScale": Stored(
        "usnrt.model.target",
        {
            "mean": Float(-LARGEST, LARGEST),
            # the least is that of a deviation of SMALLEST in a single one of many rows
            "std": Float(1e-10 * SMALLEST, LARGEST),
            "target_map": Maybe(one("TargetMap")),
            "moments": Maybe(Many(Float(), 2, tuple)),
        },
    ),
    "TrainingRows": Stored(
        "usnrt.model.fitted",
        {
            "background": Maybe(Array("f8", (None, None, None), special="any", filled=True)),
            "positions": Maybe(Array("i8", ("n_rows",), low=-1)),
            "examples": Maybe(Many(Values(size="n_rows"))),
        },
    ),
    "TreeEnsemble": Stored(
        "usnrt.model.ensembles",
        {
            "members": Many(one("ExpertTree", **_OF_TREE, **_OF_REGIONS), least=2),
            "shared": Array("f8", ("n_leaves",), low=0.0),
            "own_factor": Float(0.0),
            "epistemic_factor": Float(0.0),
        },
        _has_common_experts,
    ),
    "PaperEnsemble": Stored(
        "usnrt.model.ensembles",
        {"members": Many(one("VarianceTree", **_OF_TREE), least=2, first=one("VarianceTree", **_OF_REGIONS))},
    ),
    "FittedModel": Stored(
        "usnrt.model.fitted",
        {
            "inputs": one("NetworkInputs", **_OF_TREE),
            "target": one("TargetScale"),
            "trees": one("ExpertTree", "VarianceTree", "TreeEnsemble", "PaperEnsemble", **_OF_TREE, **_OF_REGIONS),
            "support": one("Support", n_columns="n_columns", n_ranges="n_ranges"),
            "seen": Maybe(one("SeenRows")),
            "calibration": Maybe(one("GroupCalibration", n_leaves="n_leaves")),
            "kept": one("TrainingRows"),
        },
        _is_model,
    ),
}


# -- estimators ---------------------------------------------------------------------------------------------------


def _is_estimator(model: Any, inputs: Any) -> bool:
    """Whether names and network inputs are those of the columns, and parameters that predictions use are not absurd."""
    encoder, names = model.encoder_, getattr(model, "feature_names_in_", None)
    return (
        (names is None or names.tolist() == encoder.source_names_)
        and [len(level) for level in inputs.level_] == encoder.n_categories_.tolist()
        and all(abs(getattr(model, name, None) or 1) <= most for name, most in MOST.items())
    )


def _has_trees(*kinds: str) -> Callable[[Any], bool]:
    """Whether the trees are of one of some kinds and split on the columns, and examples have all columns."""

    def check(model: Any) -> bool:
        fitted, encoder = model.model_, model.encoder_
        examples = fitted.kept.examples
        return (
            type(fitted.trees).__name__ in kinds
            and _is_estimator(model, fitted.inputs)
            and all(_splits_on(member.tree, encoder) for member in fitted.members)
            and _is_encoded(fitted.kept.background, encoder)
            and (examples is None or len(examples) == len(encoder.source_names_))
            and all(expert.form.columns == encoder.columns_ for expert in fitted.user_models)
        )

    return check


def _splits_on(tree: Any, encoder: Any) -> bool:
    """Whether a tree splits on categories where the columns of an encoder have them."""
    inner = tree.feature >= 0
    n_categories = encoder.n_categories_[tree.feature[inner]]
    return bool(
        ((n_categories > 0) == (tree.category_row[inner] >= 0)).all()
        and n_categories.max(initial=0) <= tree.left_categories.shape[1]
    )


def _is_encoded(rows: Any, encoder: Any) -> bool:
    """Whether categories in encoded rows, if there are any, are NaN or those of the columns."""
    if rows is None:
        return True
    for column, n_categories in enumerate(encoder.n_categories_):
        codes = rows[..., column][~np.isnan(rows[..., column])]
        if n_categories and not np.isin(codes, np.arange(n_categories)).all():
            return False
    return True


def _has_networks(model: Any) -> bool:
    """Whether the networks of a competing model take its inputs and have weights of their sizes."""
    if hasattr(model, "networks_"):
        members = model.params_ if isinstance(model.params_, list) else [model.params_]
        pairs = [pair for member in members for pair in zip(model.networks_, member)]
    else:
        pairs = [(model.network_, model.params_)]
    first = pairs[0][0]
    return (
        _is_estimator(model, model.inputs_)
        and all(has_weights(network, params) for network, params in pairs)
        and (model.encoding_ is not None or first.sizes[0] == model.inputs_.n_outputs_)
        and (len(pairs) == 1 or pairs[1][0].output != "linear")  # a variance is positive
    )


def _is_forest(forest: Any) -> bool:
    """Whether children follow their parents (no cycles), and indices are in bounds."""
    n = len(forest.feature)
    inner, numbers = forest.feature >= 0, np.arange(n)
    return all(((child > numbers) & (child < n))[inner].all() for child in (forest.left, forest.right)) and bool(
        not np.isnan(forest.threshold[inner]).any()
    )


def _has_learned(online: Any) -> bool:
    """Whether an online calibrator covered no more rows than there were, and no surplus is beyond the largest one."""
    from usnrt.estimators.online import MAX_SURPLUS  # here: scikit-learn takes longer to import than all the rest

    surpluses = (online.surplus_, online.region_surplus_)
    return online.n_covered_ <= online.n_rows_ and all((np.abs(each) <= MAX_SURPLUS).all() for each in surpluses)


_FITTED: Schema = {
    "n_features_in_": Int(1, size="n_sources"),
    "feature_names_in_": Optional(Values("OU", "n_sources")),
    "encoder_": one("TableEncoder", n_sources="n_sources", n_columns="n_columns"),
    "target_name_": Maybe(Text()),
    "fingerprint_": one("Fingerprint"),
}
_TREES: Schema = {**_FITTED, "model_": one("FittedModel", n_columns="n_columns", n_leaves="n_leaves")}
_HISTORY: Schema = {"min_samples_leaf_": Float(0.0), "history_": HISTORY}
_BASELINE: Schema = {
    **_FITTED,
    "inputs_": one("NetworkInputs", n_columns="n_columns", n_inputs="n_inputs"),
    "target_scale_": one("TargetScale"),
    "spread_": Float(TINY),
}
_NETWORK: Schema = {
    **_BASELINE,
    "seed_": Int(),
    "encoding_": Maybe(one("PiecewiseLinear", n_inputs="n_inputs", n_encoded="n_encoded")),
    "history_": ByName(ByName(one("History"))),
}
_TWO_NETWORKS: Schema = {**_NETWORK, "networks_": Many(one("MLP", n_inputs="n_encoded", n_outputs=1), 2, tuple)}


def _network(name: str, n_outputs: int) -> Schema:
    return {**_NETWORK, "network_": one(name, n_inputs="n_encoded", n_outputs=n_outputs), "params_": LAYERS}


def _forest() -> Stored:
    fields: Schema = {
        **_BASELINE,
        "chosen_": ByName(Anything()),
        "search_": Optional(one("Table")),
        "forest_": one("FlatForest"),
    }

    def splits_on_inputs(model: Any) -> bool:
        return _is_estimator(model, model.inputs_) and bool((model.forest_.feature < model.inputs_.n_outputs_).all())

    return Stored("usnrt.paper.baselines.forests", fields, splits_on_inputs)


ESTIMATORS: Classes = {
    "USNRTRegressor": Stored(
        "usnrt.estimators.regressor", {**_TREES, **_HISTORY}, _has_trees("ExpertTree", "TreeEnsemble")
    ),
    "USNRTEnsemble": Stored("usnrt.estimators.ensemble", _TREES, _has_trees("TreeEnsemble")),
    "PaperUSNRTRegressor": Stored(
        "usnrt.estimators.paper",
        {**_TREES, **_HISTORY, "split_params_": Many(Maybe(LAYERS))},
        _has_trees("VarianceTree"),
    ),
    "PaperUSNRTEnsemble": Stored("usnrt.estimators.ensemble", _TREES, _has_trees("PaperEnsemble")),
    "OnlineCalibrator": Stored(
        "usnrt.estimators.online",
        {
            "model": one(
                "USNRTRegressor", "USNRTEnsemble", "PaperUSNRTRegressor", "PaperUSNRTEnsemble", n_leaves="n_leaves"
            ),
            "coverage": Float(TINY, 1.0 - 1e-16),
            "surplus_": PAIR,
            "region_surplus_": Array("f8", ("n_leaves", 2)),
            "n_rows_": Int(),
            "n_covered_": Int(),
        },
        _has_learned,
    ),
    "HNNRegressor": Stored(
        "usnrt.paper.baselines.hnn", {**_TWO_NETWORKS, "params_": Many(LAYERS, 2, tuple)}, _has_networks
    ),
    "DeepEnsembleRegressor": Stored(
        "usnrt.paper.baselines.hnn", {**_TWO_NETWORKS, "params_": Many(Many(LAYERS, 2, tuple), least=1)}, _has_networks
    ),
    "MCDropoutRegressor": Stored(
        "usnrt.paper.baselines.dropout", {**_network("DropoutMLP", 1), "noise_": Float(0.0)}, _has_networks
    ),
    "ConcreteDropoutRegressor": Stored(
        "usnrt.paper.baselines.dropout",
        {**_network("ConcreteDropoutMLP", 2), "rates_": Array("f8", (None,), 0.0, 1.0)},
        _has_networks,
    ),
    "EvidentialRegressor": Stored("usnrt.paper.baselines.evidential", _network("MLP", 4), _has_networks),
    "RandomForestVarianceRegressor": _forest(),
    "ExtraTreesVarianceRegressor": _forest(),
    "FlatForest": Stored(
        "usnrt.utils.sklearn_trees",
        {
            "root": Array("i8", (None,), low=0, below="n_nodes", filled=True),
            "feature": Array("i4", ("n_nodes",)),
            "left": Array("i4", ("n_nodes",)),
            "right": Array("i4", ("n_nodes",)),
            "threshold": Array("f8", ("n_nodes",), special="any"),
            "mean": Array("f8", ("n_nodes",), -LARGEST_LEAF, LARGEST_LEAF),
            "variance": Array("f8", ("n_nodes",), 0.0, LARGEST_LEAF),
        },
        _is_forest,
    ),
}

CODEC = Codec({**TREES, **TABLES, **REGIONS, **MODELS, **ESTIMATORS})
