"""The models of a comparison: those of users, and recipes by name."""

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Self

from sklearn.base import clone

from usnrt.comparison.forecasts import SplitConformal, kind_of
from usnrt.utils.sklearn_trees import MIN_ROWS_FOR_THREADS


@dataclass(frozen=True)
class Recipe:
    """How an estimator is built.

    Its home is ``"module:Class"``, or ``"module:Class.fast"`` for another constructor of the class; changes are
    parameters that differ from the defaults of the constructor.
    """

    name: str
    home: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    def changed(self, name: str) -> Self:
        """The recipe of a name with changes behind a question mark, as in ``"fast?alpha=0.02&max_leaves=4"``.

        Examples
        --------
        >>> from usnrt.comparison.models import Recipe
        >>> Recipe("fast", "usnrt:USNRTRegressor.fast").changed("fast?alpha=0.02").changes
        {'alpha': 0.02}
        """
        _, _, query = name.partition("?")
        changes = dict(self.changes)
        for part in filter(None, query.split("&")):
            key, equals, value = part.partition("=")
            if not (key and equals):
                raise ValueError(f"changes must read 'parameter=value', got {part!r} in {name!r}")
            changes[key] = _value(value)
        return replace(self, name=name, changes=changes)

    def build(self, random_state: int, n_jobs: int | None = 1) -> Any:
        """An unfitted model; ``n_jobs`` is passed on only to models that have it."""
        module, _, path = self.home.partition(":")
        class_name, _, constructor = path.partition(".")
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
        return (getattr(model_class, constructor) if constructor else model_class)(**params)


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


@dataclass(frozen=True)
class Contender:
    """A model to compare: how the unfitted model is made, and what readers should know of it."""

    name: str
    make: Callable[[], Any]
    note: str = ""


# Name in the comparison -> how it is built, and the module that must be installed.
_BUILT_IN: dict[str, tuple[str, str]] = {
    "usnrt fast": ("usnrt:USNRTRegressor.fast", ""),
    "usnrt balanced": ("usnrt:USNRTRegressor", ""),
    "usnrt ensemble": ("usnrt:USNRTEnsemble", ""),
    "CatBoost": ("usnrt.comparison.peers:CatBoostRegressor", "catboost"),
    "CatBoost quantiles": ("usnrt.comparison.peers:CatBoostQuantileRegressor", "catboost"),
    "LightGBM quantiles": ("usnrt.comparison.peers:LightGBMQuantileRegressor", "lightgbm"),
    "NGBoost": ("usnrt.comparison.peers:NGBoostRegressor", "ngboost"),
    "quantile forest": ("usnrt.comparison.peers:QuantileForestRegressor", "quantile_forest"),
    "conformal booster": ("usnrt.comparison.peers:ConformalBoosterRegressor", ""),
    "constant": ("usnrt.comparison.forecasts:ConstantDistribution", ""),
}
# Other ways to write these names.
_SHORT = {
    "fast": "usnrt fast",
    "balanced": "usnrt balanced",
    "ensemble": "usnrt ensemble",
    "lightgbm": "LightGBM quantiles",
}
OURS = ("usnrt fast", "usnrt balanced", "usnrt ensemble")


def installed_models() -> list[str]:
    """Names of the models that are compared by default: all whose package is installed.

    Examples
    --------
    >>> from usnrt.comparison.models import installed_models
    >>> [name for name in installed_models() if name.startswith("usnrt")]
    ['usnrt fast', 'usnrt balanced', 'usnrt ensemble']
    """
    return [name for name, (_, module) in _BUILT_IN.items() if not module or find_spec(module)]


def missing_packages() -> list[str]:
    """Packages of further models that are not installed."""
    modules = dict.fromkeys(module for _, module in _BUILT_IN.values() if module)
    return [module.replace("_", "-") for module in modules if not find_spec(module)]


def contenders(
    models: Mapping[str, Any] | Iterable[Any] | None,
    seed: int,
    n_jobs: int | None,
    categorical_features: Any,
    n_rows: int = MIN_ROWS_FOR_THREADS,
) -> list[Contender]:
    """The models to compare, for a table of so many rows.

    Names are those of `installed_models`, or ``"fast"``, ``"balanced"``, ``"ensemble"``, ``"lightgbm"``, perhaps with
    changed parameters, as in ``"fast?max_leaves=4"``; a mapping may have a name as its value too. Models that are
    chosen by name get ``n_jobs`` and ``categorical_features``, other libraries one thread for small tables: several
    would wait for each other. All models whose ``random_state`` is None get the seed.
    """
    if models is None:
        models = installed_models()
    if isinstance(models, str):
        models = [models]
    items = list(models.items()) if isinstance(models, Mapping) else [(name, name) for name in models]
    if not items:
        raise ValueError("models must name at least one model, got none")
    found = []
    for name, model in items:
        if isinstance(model, str):
            found.append(_by_name(str(name), model, seed, n_jobs, categorical_features, n_rows))
        elif not isinstance(models, Mapping):
            raise TypeError(f"models must be a dict of names and estimators, or a list of names, got {model!r} in it")
        else:
            found.append(_of_user(str(name), model, seed))
    names = [contender.name for contender in found]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"models must have different names, got {repeated!r} twice")
    return found


def _by_name(name: str, model: str, seed: int, n_jobs: int | None, categorical_features: Any, n_rows: int) -> Contender:
    by_lower_case = {known.lower(): known for known in _BUILT_IN} | _SHORT
    base, change, _ = model.partition("?")
    known = by_lower_case.get(base.lower().strip())
    if known is None:
        raise ValueError(f"models must be among {', '.join(_BUILT_IN)}, got {model!r}")
    recipe = Recipe(known, _BUILT_IN[known][0]).changed(model)
    if known not in OURS and n_rows < MIN_ROWS_FOR_THREADS:
        n_jobs = 1

    def make() -> Any:
        built = recipe.build(seed, -1 if n_jobs is None else n_jobs)
        if categorical_features is not None and "categorical_features" in built.get_params(deep=False):
            built.set_params(categorical_features=categorical_features)
        return built

    return Contender(known if name == model and not change else name, make)


def _of_user(name: str, model: Any, seed: int) -> Contender:
    if isinstance(model, type) or not hasattr(model, "fit"):
        raise TypeError(f"models[{name!r}] must be an estimator with fit, got {model!r}")
    if kind_of(model) == "point":
        note = "point forecasts, with split conformal intervals calibrated on a fifth of the training rows"
        return Contender(name, lambda: SplitConformal(seeded(model, seed), random_state=seed), note)
    return Contender(name, lambda: seeded(model, seed))


def seeded(model: Any, seed: int) -> Any:
    """A copy with ``seed`` for every ``random_state`` that is None, also inside pipelines."""
    if not hasattr(model, "get_params"):
        return model
    copy = clone(model)
    unset = {
        name: seed
        for name, value in copy.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    }
    return copy.set_params(**unset) if unset else copy
