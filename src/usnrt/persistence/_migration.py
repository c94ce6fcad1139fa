"""Migration of files of older formats: one table per format of renamed classes and attributes.

It transforms the JSON values of a file before any object is created; names and values are validated afterwards as for
any other file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

State = dict[str, Any]


@dataclass(frozen=True)
class Renamed:
    """How a class of an older format was renamed.

    Attributes
    ----------
    name : str
        Its current name in files.
    attributes : mapping of str to str
        Current names of renamed attributes, by their old names.
    removed : frozenset of str
        Attributes that no longer exist.
    values : mapping of str to mapping
        Current values of attributes whose values were renamed, by the old names of the attributes.
    added : mapping of str to JSON value
        Newer attributes whose value for old models is not the default.
    """

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    added: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, state: State) -> State:
        """The state with the names of the next format."""
        renamed = {
            self.attributes.get(name, name): self.values[name].get(value, value)
            if name in self.values and isinstance(value, str)
            else value
            for name, value in state.items()
            if name not in self.removed
        }
        return {**renamed, **self.added}


_BY_REGION = {"calibration": {"leaf": "region"}}
_PAPERS = frozenset(
    {"bonferroni", "holdout", "inherit", "spread", "encoding", "n_bins", "weight_decay", "average", "calibration",
     "calibration_fraction"}
)  # fmt: skip
_OURS = frozenset(
    {"bonferroni", "criterion", "holdout", "inherit", "spread", "encoding", "split_hidden", "n_alternations",
     "weight_decay", "average", "batch_size"}
)  # fmt: skip

# Classes that changed after format 1. Two of them became two classes each, distinguished by the word after the comma.
FORMAT_1: Mapping[str, Renamed] = {
    "Shape": Renamed("ResidualDistribution"),
    "Calibration": Renamed("Calibration", {"shapes": "residuals"}),
    "TreeModel, quantiles": Renamed(
        "QuantileTree", {"variance_network": "quantile_network", "variance_params": "quantile_params"}
    ),
    "TreeModel, variance": Renamed("VarianceTree", removed=frozenset({"blend", "refinement"})),
    "USNRTRegressor, tree": Renamed("USNRTRegressor", {"variance_hidden": "quantile_hidden"}, _OURS, _BY_REGION),
    "USNRTRegressor, node": Renamed("PaperUSNRTRegressor", removed=_PAPERS),
}

# Classes that changed after format 2, whose trees had two networks per region and no memory.
FORMAT_2: Mapping[str, Renamed] = {
    "USNRTRegressor": Renamed(
        "USNRTRegressor", {"quantile_hidden": "hidden"}, frozenset({"mean_hidden"}), added={"memory": False}
    ),
}


# Ensembles, whose ``n_members`` is called ``n_estimators`` now.
ENSEMBLES = frozenset({"USNRTEnsemble", "PaperUSNRTEnsemble"})


def migrated(value: Any, version: int) -> Any:
    """A JSON value of a file, with the names of the current format.

    Parameters
    ----------
    value : JSON value
    version : int
        Format version of the file.

    Returns
    -------
    JSON value
    """
    if version <= 1:
        value = _with_objects(value, _from_format_1)
    if version <= 2:
        value = _with_objects(value, _from_format_2)
    return _with_renamed_members(value)


def _with_objects(value: Any, change: Callable[[str, State], tuple[str, State]]) -> Any:
    """The value with all its objects changed, the innermost first."""
    if isinstance(value, list):
        return [_with_objects(item, change) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: _with_objects(item, change) for key, item in value.items()}
    name, state = value.get("$object"), value.get("state")
    if not isinstance(name, str) or not isinstance(state, dict):
        return value
    name, state = change(name, state)
    return {**value, "$object": name, "state": state}


def _from_format_1(name: str, state: State) -> tuple[str, State]:
    key = name
    if name == "TreeModel":
        is_quantiles = _last_size(state) > 1
        key = "TreeModel, quantiles" if is_quantiles else "TreeModel, variance"
        if is_quantiles and isinstance(state.get("variance_params"), list):  # format 1 had a list of several networks
            state = {**state, "variance_params": state["variance_params"][0]}
    elif name == "USNRTRegressor":
        key = "USNRTRegressor, node" if state.get("holdout") == "node" else "USNRTRegressor, tree"
    renamed = FORMAT_1.get(key)
    return (name, state) if renamed is None else (renamed.name, renamed.apply(state))


def _from_format_2(name: str, state: State) -> tuple[str, State]:
    renamed = FORMAT_2.get(name)
    return (name, state) if renamed is None else (renamed.name, renamed.apply(state))


def _with_renamed_members(model: Any) -> Any:
    """The model with the current name of its number of members; format 3 was written with both names."""
    if not isinstance(model, dict) or model.get("$object") not in ENSEMBLES or not isinstance(model.get("state"), dict):
        return model
    state = model["state"]
    if "n_estimators" in state or "n_members" not in state:
        return model
    return {**model, "state": {**state, "n_estimators": state["n_members"], "n_members": "deprecated"}}


def _last_size(tree: State) -> int:
    """Number of outputs of the second network of a tree: 1 for a variance network, more for a quantile network."""
    try:
        return int(tree["variance_network"]["state"]["sizes"]["$tuple"][-1])
    except (KeyError, TypeError, ValueError, IndexError):
        return 1  # the file is invalid: the reader raises an error
