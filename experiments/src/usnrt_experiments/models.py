"""The models of the tables: a column each, and the recipes behind it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """One column: its header, and the recipes behind the second and third line of a data set."""

    label: str
    paper_recipe: str
    default_recipe: str


def _model(label: str, recipe: str) -> Model:
    return Model(label, f"{recipe}-paper", recipe)


_LAMBDA = "Evidential lambda="
ALEATORIC = (
    _model("HNN", "hnn"),
    _model("Extra Trees", "extra-trees"),
    _model("Random Forest", "random-forest"),
    _model("USNRT", "usnrt"),
)
TOTAL = (
    _model("MC Dropout", "mc-dropout"),
    _model("Concrete Dropout", "concrete-dropout"),
    _model("Deep Ensemble", "deep-ensemble"),
    _model("Evidential", "evidential"),
    _model("USNRT Ensemble", "usnrt-ensemble"),
)
# The authors' code of these floors densities.
ENSEMBLES = ("Deep Ensemble", "USNRT Ensemble")
LAMBDAS = (
    Model(f"{_LAMBDA}0", "evidential-paper-lambda0", ""),
    Model(f"{_LAMBDA}0.005", "evidential-paper-lambda0.005", ""),
    Model(f"{_LAMBDA}0.01", "evidential-paper", ""),
    Model(f"{_LAMBDA}0.05", "evidential-paper-lambda0.05", ""),
    _model("USNRT Ensemble", "usnrt-ensemble"),
)
# Other libraries, whatever their settings, that the default recipes are to beat.
LIBRARIES = (
    Model("CatBoost", "", "catboost"),
    Model("NGBoost", "", "ngboost"),
    Model("LightGBM quantiles", "", "lightgbm-quantile"),
    Model("Quantile forest", "", "quantile-forest"),
    Model("Quantile extra-trees", "", "quantile-extra-trees"),
    Model("CatBoost MultiQuantile", "", "catboost-multiquantile"),
    Model("CatBoost, tuned", "", "catboost-tuned"),
    Model("LightGBM quantiles, tuned", "", "lightgbm-tuned"),
    Model("XGBoost quantiles", "", "xgboost-quantile"),
    Model("crepes on LightGBM", "", "crepes-lightgbm"),
    Model("RealMLP", "", "realmlp"),
    Model("TabM", "", "tabm"),
)
PEERS = (
    Model("USNRT fast", "", "usnrt-fast"),
    Model("USNRT", "", "usnrt"),
    Model("USNRT Ensemble", "", "usnrt-ensemble"),
    Model("HNN", "", "hnn"),
    Model("Deep Ensemble", "", "deep-ensemble"),
    Model("Evidential", "", "evidential"),
    *LIBRARIES,
)
PARTS = (
    Model("Default", "", "usnrt"),
    Model("No tree", "", "usnrt-no-tree"),
    Model("No network", "", "usnrt-no-network"),
    Model("No memory", "", "usnrt-no-memory"),
    Model("No forest", "", "usnrt-no-forest"),
    Model("No linear model", "", "usnrt-no-linear"),
    Model("Global calibration", "", "usnrt-global"),
    Model("Not calibrated", "", "usnrt-uncalibrated"),
    Model("No piecewise encoding", "", "usnrt-plain-inputs"),
    Model("Ensemble", "", "usnrt-ensemble"),
)

_SMALL = ("usnrt-fast", "usnrt", "usnrt-ensemble", "hnn", "catboost", "ngboost", "lightgbm-quantile", "quantile-forest")
SMALL_PEERS = (
    *(model for model in PEERS if model.default_recipe in (*_SMALL, "quantile-extra-trees", "crepes-lightgbm")),
    Model("Constant", "", "constant-normal"),
)
# Of the three that this library is: presets and ensemble.
OURS = ("USNRT fast", "USNRT", "USNRT Ensemble")
