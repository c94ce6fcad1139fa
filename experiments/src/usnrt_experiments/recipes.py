"""The models of the experiments by name; each is imported only when it is built."""

from typing import Any

from usnrt.comparison.models import Recipe

# The models of the paper's tables: by default, and by the paper's recipe.
_OURS = {
    "usnrt": ("usnrt:USNRTRegressor", "usnrt:PaperUSNRTRegressor"),
    "usnrt-ensemble": ("usnrt:USNRTEnsemble", "usnrt:PaperUSNRTEnsemble"),
}
_BASELINES = {
    "hnn": "usnrt.paper.baselines:HNNRegressor",
    "deep-ensemble": "usnrt.paper.baselines:DeepEnsembleRegressor",
    "evidential": "usnrt.paper.baselines:EvidentialRegressor",
    "random-forest": "usnrt.paper.baselines:RandomForestVarianceRegressor",
    "extra-trees": "usnrt.paper.baselines:ExtraTreesVarianceRegressor",
    "mc-dropout": "usnrt.paper.baselines:MCDropoutRegressor",
    "concrete-dropout": "usnrt.paper.baselines:ConcreteDropoutRegressor",
}
_PEERS = {
    "catboost": "usnrt.comparison.peers:CatBoostRegressor",
    "ngboost": "usnrt.comparison.peers:NGBoostRegressor",
    "lightgbm-quantile": "usnrt.comparison.peers:LightGBMQuantileRegressor",
    "quantile-forest": "usnrt.comparison.peers:QuantileForestRegressor",
    # The settings that the authors of each library, or of a benchmark of it, recommend.
    "quantile-extra-trees": "usnrt_experiments.peers:QuantileExtraTreesRegressor",
    "catboost-multiquantile": "usnrt.comparison.peers:CatBoostQuantileRegressor",
    "lightgbm-tuned": "usnrt_experiments.peers:LightGBMTunedRegressor",
    "catboost-tuned": "usnrt_experiments.peers:CatBoostTunedRegressor",
    "xgboost-quantile": "usnrt_experiments.peers:XGBoostQuantileRegressor",
    "crepes-lightgbm": "usnrt_experiments.peers:CrepesRegressor",
}
# Networks of the package pytabkit, in an environment of its own; not part of any preset.
_TORCH_PEERS = {
    "realmlp": "usnrt_experiments.peers:RealMLPRegressor",
    "tabm": "usnrt_experiments.peers:TabMRegressor",
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
    "no-network": {"experts": ("forest", "linear")},
    "no-memory": {"experts": ("network", "forest", "linear")},
    "no-forest": {"experts": ("network", "memory", "linear")},
    "no-linear": {"experts": ("network", "memory", "forest")},
    "global": {"calibration": "global"},
    "uncalibrated": {"calibration": None},
    "plain-inputs": {"n_bins": 0},
}


def _registry() -> dict[str, Recipe]:
    recipes = []
    for name, (default, paper) in _OURS.items():
        recipes += [Recipe(f"{name}-paper", paper), Recipe(name, default)]
    for name, home in _BASELINES.items():
        recipes += [Recipe(f"{name}-paper", f"{home}.paper"), Recipe(name, home)]
    for lam in LAMBDAS:
        recipes.append(Recipe(f"evidential-paper-lambda{lam}", f"{_BASELINES['evidential']}.paper", {"lam": lam}))
    ours, papers = _OURS["usnrt"]
    for name, (split, leaf) in STRUCTURES.items():
        changes = {"split_hidden": split, "mean_hidden": leaf, "variance_hidden": leaf}
        recipes.append(Recipe(f"usnrt-paper-{name}", papers, changes))
    for leaves in LEAVES:
        recipes.append(Recipe(f"usnrt-paper-leaves{leaves}", papers, {"max_leaves": leaves}))
    for alpha in ALPHAS:
        recipes.append(Recipe(f"usnrt-paper-alpha{alpha}", papers, {"alpha": alpha}))
    for name, changes in ABLATED.items():
        recipes.append(Recipe(f"usnrt-{name}", ours, changes))
    recipes.append(Recipe("usnrt-fast", f"{ours}.fast"))
    recipes += [Recipe(name, home) for name, home in {**_PEERS, **_TORCH_PEERS}.items()]
    recipes.append(Recipe("constant-normal", "usnrt_experiments.constant:ConstantNormal"))
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
# Not a model: the cells of the study of coverage per group, see usnrt_experiments.coverage.
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
    >>> from usnrt_experiments import get_recipe
    >>> get_recipe("usnrt-paper?alpha=0.02").changes
    {'alpha': 0.02}
    """
    base = name.partition("?")[0]
    if base not in RECIPES and ":" not in base:
        raise ValueError(f"recipe must be one of {sorted(RECIPES)} or 'module:Class', got {base!r}")
    return RECIPES.get(base, Recipe(base, base)).changed(name)
