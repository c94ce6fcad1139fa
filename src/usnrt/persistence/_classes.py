"""The classes that model files may contain, by their names in files.

A name does not change when its class moves to another module; a renamed class has an entry in
`usnrt.persistence._migration`. `load` never imports a class that is not in this table.
"""

from importlib import import_module

# name in files -> module and class
CLASSES: dict[str, tuple[str, str]] = {
    "Column": ("usnrt.tables", "Column"),
    "TableEncoder": ("usnrt.tables", "TableEncoder"),
    "NetworkInputs": ("usnrt.tables", "NetworkInputs"),
    "MLP": ("usnrt.nn.mlp", "MLP"),
    "History": ("usnrt.nn.train", "History"),
    "Tree": ("usnrt.tree.structure", "Tree"),
    "Table": ("usnrt.utils.result_table", "Table"),
    "Fingerprint": ("usnrt.tables.fingerprint", "Fingerprint"),
    "DropoutMLP": ("usnrt.nn.dropout", "DropoutMLP"),
    "ConcreteDropoutMLP": ("usnrt.nn.dropout", "ConcreteDropoutMLP"),
    "PiecewiseLinear": ("usnrt.nn.encoding", "PiecewiseLinear"),
    "QuantileTree": ("usnrt.tree.model", "QuantileTree"),
    "ExpertTree": ("usnrt.tree.model", "ExpertTree"),
    "Retrieval": ("usnrt.memory.retrieval", "Retrieval"),
    "VarianceTree": ("usnrt.tree.model", "VarianceTree"),
    "Refinement": ("usnrt.experts.refine", "Refinement"),
    "SeenRows": ("usnrt.calibration.familiar", "SeenRows"),
    "Calibration": ("usnrt.calibration.calibration", "Calibration"),
    "Support": ("usnrt.calibration.support", "Support"),
    "Landmarks": ("usnrt.calibration.landmarks", "Landmarks"),
    "Subjects": ("usnrt.calibration.subjects", "Subjects"),
    "TargetMap": ("usnrt.distributions.target_map", "TargetMap"),
    "ResidualDistribution": ("usnrt.distributions.residual_distribution", "ResidualDistribution"),
    "FlatForest": ("usnrt.baselines._trees", "FlatForest"),
    "USNRTRegressor": ("usnrt.estimators.regressor", "USNRTRegressor"),
    "USNRTEnsemble": ("usnrt.estimators.ensemble", "USNRTEnsemble"),
    "PaperUSNRTRegressor": ("usnrt.estimators.paper", "PaperUSNRTRegressor"),
    "PaperUSNRTEnsemble": ("usnrt.estimators.paper", "PaperUSNRTEnsemble"),
    "OnlineCalibrator": ("usnrt.estimators.online", "OnlineCalibrator"),
    "HNNRegressor": ("usnrt.baselines.hnn", "HNNRegressor"),
    "DeepEnsembleRegressor": ("usnrt.baselines.ensemble", "DeepEnsembleRegressor"),
    "MCDropoutRegressor": ("usnrt.baselines.mc_dropout", "MCDropoutRegressor"),
    "ConcreteDropoutRegressor": ("usnrt.baselines.concrete_dropout", "ConcreteDropoutRegressor"),
    "EvidentialRegressor": ("usnrt.baselines.evidential", "EvidentialRegressor"),
    "RandomForestVarianceRegressor": ("usnrt.baselines.forests", "RandomForestVarianceRegressor"),
    "ExtraTreesVarianceRegressor": ("usnrt.baselines.forests", "ExtraTreesVarianceRegressor"),
}


def class_named(name: str) -> type:
    """The class with this name in files; KeyError for names that are not in the table."""
    module, attribute = CLASSES[name]
    found = getattr(import_module(module), attribute)
    assert isinstance(found, type)
    return found


def name_of(kind: type) -> str | None:
    """The name of a class in files, or None if it cannot be stored."""
    for name, (module, attribute) in CLASSES.items():
        # Compared by name first, because importing every module would load all optional dependencies.
        if kind.__name__ == attribute and kind.__module__.startswith(module) and class_named(name) is kind:
            return name
    return None
