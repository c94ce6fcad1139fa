"""The models of the experiments by name; each is imported only when it is built."""

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """How an estimator is built.

    Attributes
    ----------
    name : str
        Its name in records, which never changes.
    home : str
        ``"module:Class"``.
    paper : bool
        Whether to start from the class's ``.paper()``.
    changes : mapping
        Parameters that differ from there.
    fast : bool
        Whether to start from the class's ``.fast()``.
    """

    name: str
    home: str
    paper: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)
    fast: bool = False

    def build(self, random_state: int, n_jobs: int = 1) -> Any:
        """An unfitted model; ``n_jobs`` is passed on only to models that have it."""
        module, _, class_name = self.home.partition(":")
        try:
            model_class = getattr(import_module(module), class_name)
        except ImportError as error:
            raise ImportError(f"recipe {self.name!r} cannot be used: {error}") from error
        except AttributeError as error:
            raise ValueError(f"recipe {self.name!r} must name a class, but {self.home} has none") from error
        known = inspect.signature(model_class.__init__).parameters
        given = {"random_state": random_state, "n_jobs": n_jobs}
        params = {**{name: value for name, value in given.items() if name in known}, **self.changes}
        if unknown := sorted(set(params) - set(known)):
            raise ValueError(f"recipe {self.name!r} must change parameters of {class_name}, got {unknown}")
        if self.fast:
            return model_class.fast(**params)
        return model_class.paper(**params) if self.paper else model_class(**params)


# The models of the paper's tables: by default, and by the paper's recipe.
_OURS = {
    "usnrt": ("usnrt.estimators.regressor:USNRTRegressor", "usnrt.estimators.paper:PaperUSNRTRegressor"),
    "usnrt-ensemble": ("usnrt.estimators.ensemble:USNRTEnsemble", "usnrt.estimators.paper:PaperUSNRTEnsemble"),
}
_BASELINES = {
    "hnn": "usnrt.baselines:HNNRegressor",
    "deep-ensemble": "usnrt.baselines:DeepEnsembleRegressor",
    "evidential": "usnrt.baselines:EvidentialRegressor",
    "random-forest": "usnrt.baselines:RandomForestVarianceRegressor",
    "extra-trees": "usnrt.baselines:ExtraTreesVarianceRegressor",
    "mc-dropout": "usnrt.baselines:MCDropoutRegressor",
    "concrete-dropout": "usnrt.baselines:ConcreteDropoutRegressor",
}
_PEERS = {
    "catboost": "usnrt.bench.peers:CatBoostRegressor",
    "ngboost": "usnrt.bench.peers:NGBoostRegressor",
    "lightgbm-quantile": "usnrt.bench.peers:LightGBMQuantileRegressor",
    "quantile-forest": "usnrt.bench.peers:QuantileForestRegressor",
    # The settings that the authors of each library, or of a benchmark of it, recommend.
    "quantile-extra-trees": "usnrt.bench.peers:QuantileExtraTreesRegressor",
    "catboost-multiquantile": "usnrt.bench.peers:CatBoostQuantileRegressor",
    "lightgbm-tuned": "usnrt.bench.peers:LightGBMTunedRegressor",
    "catboost-tuned": "usnrt.bench.peers:CatBoostTunedRegressor",
    "xgboost-quantile": "usnrt.bench.peers:XGBoostQuantileRegressor",
    "crepes-lightgbm": "usnrt.bench.peers:CrepesRegressor",
}
# Networks of the package pytabkit, in an environment of its own; not part of any preset.
_TORCH_PEERS = {
    "realmlp": "usnrt.bench.peers:RealMLPRegressor",
    "tabm": "usnrt.bench.peers:TabMRegressor",
}
LAMBDAS = (0, 0.005, 0.05)

# The stability study varies one thing at a time, from the paper's recipe.
STRUCTURES = {
    "S1": (("4d", "2d"), ("4d", "2d")),
    "S2": (("8d", "4d"), ("4d", "2d")),
    "S3": (("16d", "8d"), ("8d", "4d")),
    "S4": (("8d", "16d", "4d"), ("4d", "8d", "2d")),
    "S5": (("16d", "16d", "8d"), ("8d", "8d", "4d")),
}
LEAVES = (1, 2, 4, 6, 8, 10, 15, 20)
ALPHAS = (0.001, 0.002, 0.005, 0.01, 0.02)

# Ablation of the default recipe: one part removed at a time.
ABLATED: dict[str, dict[str, Any]] = {
    "no-tree": {"max_leaves": 1},
    "no-memory": {"memory": False},
    "global": {"calibration": "global"},
    "uncalibrated": {"calibration": None},
    "plain-inputs": {"n_bins": 0},
}


def _registry() -> dict[str, Recipe]:
    recipes = []
    for name, (default, paper) in _OURS.items():
        recipes += [Recipe(f"{name}-paper", paper), Recipe(name, default)]
    for name, home in _BASELINES.items():
        recipes += [Recipe(f"{name}-paper", home, paper=True), Recipe(name, home)]
    for lam in LAMBDAS:
        recipes.append(Recipe(f"evidential-paper-lambda{lam}", _BASELINES["evidential"], True, {"lam": lam}))
    ours, papers = _OURS["usnrt"]
    for name, (split, leaf) in STRUCTURES.items():
        changes = {"split_hidden": split, "mean_hidden": leaf, "variance_hidden": leaf}
        recipes.append(Recipe(f"usnrt-paper-{name}", papers, changes=changes))
    for leaves in LEAVES:
        recipes.append(Recipe(f"usnrt-paper-leaves{leaves}", papers, changes={"max_leaves": leaves}))
    for alpha in ALPHAS:
        recipes.append(Recipe(f"usnrt-paper-alpha{alpha}", papers, changes={"alpha": alpha}))
    for name, changes in ABLATED.items():
        recipes.append(Recipe(f"usnrt-{name}", ours, changes=changes))
    recipes.append(Recipe("usnrt-fast", ours, fast=True))
    recipes += [Recipe(name, home) for name, home in {**_PEERS, **_TORCH_PEERS}.items()]
    recipes.append(Recipe("constant-normal", "usnrt.bench.constant:ConstantNormal"))
    return {recipe.name: recipe for recipe in recipes}


RECIPES = _registry()

# In the order in which they are run.
COMPARED = [
    "usnrt-paper",
    "usnrt-fast",
    "usnrt",
    "hnn-paper",
    "hnn",
    "usnrt-ensemble-paper",
    "usnrt-ensemble",
    "deep-ensemble-paper",
    "deep-ensemble",
    "evidential-paper",
    "evidential",
    "random-forest-paper",
    "extra-trees-paper",
    "random-forest",
    "extra-trees",
    "mc-dropout-paper",
    "concrete-dropout-paper",
    "mc-dropout",
    "concrete-dropout",
    *(f"evidential-paper-lambda{lam}" for lam in LAMBDAS),
    *_PEERS,
]
# On the small tables: our presets, one baseline, the peers that are quick, and a constant.
SMALL_COMPARED = [
    *(
        "usnrt-fast",
        "usnrt",
        "constant-normal",
        "catboost",
        "quantile-forest",
        "quantile-extra-trees",
        "ngboost",
        "hnn",
    ),
    *("crepes-lightgbm", "lightgbm-quantile", "usnrt-ensemble"),
]
# Not a model: the cells of the study of coverage per group, see usnrt.bench.coverage.
COVERAGE = "coverage"
ABLATION = ["usnrt", *(f"usnrt-{name}" for name in ABLATED), "usnrt-ensemble"]
STABILITY = [
    *(f"usnrt-paper-{name}" for name in STRUCTURES),
    *(f"usnrt-paper-leaves{leaves}" for leaves in LEAVES),
    *(f"usnrt-paper-alpha{alpha}" for alpha in ALPHAS),
]


def get_recipe(name: str) -> Recipe:
    """The recipe of a name.

    Parameters
    ----------
    name : str
        A registered name, or ``"module:Class"`` for any scikit-learn style regressor with ``predict_dist``; either
        may be followed by changes, as in ``"usnrt-paper?alpha=0.02&max_leaves=4"``.

    Examples
    --------
    >>> from usnrt.bench import get_recipe
    >>> get_recipe("usnrt-paper?alpha=0.02").changes
    {'alpha': 0.02}
    """
    base, _, query = name.partition("?")
    if base in RECIPES:
        recipe = RECIPES[base]
    elif ":" in base:
        recipe = Recipe(base, base)
    else:
        raise ValueError(f"recipe must be one of {sorted(RECIPES)} or 'module:Class', got {base!r}")
    if not query:
        return recipe
    changes = dict(recipe.changes)
    for part in query.split("&"):
        key, equals, value = part.partition("=")
        if not (key and equals):
            raise ValueError(f"changes must read 'parameter=value', got {part!r} in recipe={name!r}")
        changes[key] = _value(value)
    return replace(recipe, name=name, changes=changes)


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
