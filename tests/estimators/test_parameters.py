"""Every parameter of every estimator is used or refused: each one is changed, and gives another model or an error."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.paper import baselines
from usnrt.paper.baselines import forests

N_ROWS, N_PREDICTED = 600, 60
LEVELS = (0.1, 0.5, 0.9)
# How a fit runs, not what it learns; `test_parameters_of_how_a_fit_runs` looks at these.
OPERATIONAL = {"n_jobs", "verbose", "callbacks", "estimator__callbacks"}


@dataclass(frozen=True)
class Change:
    """Another value of a parameter.

    Attributes
    ----------
    value : Any
    refused : str
        The sentence of the error; empty if another model is expected.
    given : dict or callable
        Parameters that differ from the recipe in both fits, where the parameter matters; a callable gets the recipe.
    n_rows : int
    """

    value: Any
    refused: str = ""
    given: Any = field(default_factory=dict)
    n_rows: int = N_ROWS


@functools.cache
def table(n_rows: int = N_ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers and a column of codes; the noise differs by a factor of ten along the first."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, (n_rows, 2)), rng.integers(0, 3, n_rows)])
    return X, X[:, 1] + np.where(X[:, 0] > 0, 1.0, 0.1) * rng.normal(size=n_rows)


# -- the recipes: small models that fit in a moment -------------------------------------------------------------

QUICK = {"max_epochs": 3, "min_samples_leaf": 100}
SMALL = {**QUICK, "hidden": (4,), "validation": 1}
SCRATCH = {**QUICK, "mean_hidden": (4,), "split_hidden": (4,), "variance_hidden": (4,)}
SEED = {"random_state": 0, "n_jobs": 1}
NETWORK = {"hidden": (4,), "batch_size": 64, "max_epochs": 3, **SEED}
OWN = {
    "ConcreteDropoutRegressor": {"n_passes": 10},
    "DeepEnsembleRegressor": {"n_members": 2},
    "MCDropoutRegressor": {"n_passes": 10},
}


def ensemble_of(make: Callable[..., Any], tree: dict[str, Any], **changes: Any) -> USNRTEnsemble:
    inner = {name.removeprefix("estimator__"): changes.pop(name) for name in list(changes) if "__" in name}
    return make(**{"estimator": None, "n_estimators": 2, **SEED, **changes}).set_params(
        **({} if "estimator" in changes else {"estimator": tree["make"](**{**tree["base"], **inner})})
    )


def recipes() -> dict[str, Callable[..., Any]]:
    """Every estimator by both of its recipes: a function from changed parameters to a model."""
    found: dict[str, Callable[..., Any]] = {
        "tree": lambda **changes: USNRTRegressor(**{**SMALL, **SEED, **changes}),
        "tree, paper": lambda **changes: USNRTRegressor.paper(**{**SCRATCH, **SEED, **changes}),
    }
    for name, make, tree, base in (
        ("ensemble", USNRTEnsemble, USNRTRegressor, SMALL),
        ("ensemble, paper", USNRTEnsemble.paper, USNRTRegressor.paper, SCRATCH),
    ):
        found[name] = functools.partial(ensemble_of, make, {"make": tree, "base": base})
    for name in baselines.__all__:
        model = getattr(baselines, name)
        is_forest = issubclass(model, forests.ForestRegressor)
        own = {**(SEED if is_forest else NETWORK), **OWN.get(name, {})}
        quick = {"n_estimators": 10} if is_forest else {}
        found[name] = lambda model=model, own=own, quick=quick, **changes: model(**{**own, **quick, **changes})
        found[f"{name}, paper"] = lambda model=model, own=own, **changes: model.paper(**{**own, **changes})
    return found


RECIPES = recipes()


@functools.cache
def _fitted(recipe: str, n_rows: int, given: tuple[tuple[str, Any], ...]) -> Any:
    return RECIPES[recipe](**dict(given)).fit(*table(n_rows))


def fitted(recipe: str, n_rows: int = N_ROWS, **given: Any) -> Any:
    return _fitted(recipe, n_rows, tuple(given.items()))


def predictions(model: Any) -> np.ndarray:
    X = table()[0][:N_PREDICTED]
    return np.column_stack([model.predict(X), model.predict_quantiles(X, LEVELS), model.predict_interval(X, 0.8)])


def predict_alike(one: Any, other: Any) -> bool:
    """Whether two models predict the same but for rounding; another model differs by more than that."""
    return bool(np.allclose(predictions(one), predictions(other), rtol=1e-5, atol=1e-5))


# -- the changes ------------------------------------------------------------------------------------------------

GROWTH: dict[str, list[Change]] = {
    "alpha": [Change(1e-100)],
    "max_leaves": [
        Change(4, refused="max_leaves applies to min_samples_leaf=None only, got 4 with min_samples_leaf=100"),
        Change(1, given={"min_samples_leaf": None}, n_rows=2400),
    ],
    "min_samples_leaf": [Change(400)],
    "max_depth": [Change(0)],
    "learning_rate": [Change(0.1)],
    "max_epochs": [Change(2)],
    "categorical_features": [Change([2])],
    "random_state": [Change(1)],
}
TARGET: dict[str, list[Change]] = {
    "target_bounds": [
        Change((0, None), refused="y must be within target_bounds=(0, None), got y[0]=-0.16400371470994113"),
        Change((-5, 0.5), refused="y must be within target_bounds=(-5, 0.5), got y[2]=0.6094728510975818"),
    ],
    "target_transform": [
        Change(
            "log",
            refused="y must be at least 0 for target_transform='log', got y[0]=-0.16400371470994113; "
            "target_bounds=(low, None) sets another lower bound",
        ),
        Change("log", given={"target_bounds": (-6, None)}),
    ],
    "time_column": [Change(1)],
}
TREE: dict[str, list[Change]] = {
    **GROWTH,
    **TARGET,
    "n_bins": [Change(4), Change(0)],
    "hidden": [Change((5,))],
    "memory": [Change(False)],
    "validation": [Change(0.4), Change(2)],
    "experts": [
        Change(["network"]),
        Change(["network", "memory", LinearRegression()]),
        Change(["memory"], refused="experts must hold 'network' if they hold 'memory', which guides it"),
    ],
    "calibration": [Change("global"), Change(None)],
    "calibration_fraction": [
        Change(0.3),
        Change(
            0.3,
            refused="calibration_fraction applies to calibration='region' or calibration='global' only, got 0.3 with "
            "calibration=None",
            given={"calibration": None},
        ),
    ],
}
TREE_PAPER: dict[str, list[Change]] = {
    **GROWTH,
    "validation_fraction": [Change(0.4)],
    "criterion": [Change("cart"), Change("support")],
    "center": [
        Change("median"),
        Change(
            "median",
            refused="center applies to criterion='levene' or criterion='levene-p' only, got 'median' with "
            "criterion='cart'",
            given={"criterion": "cart"},
        ),
    ],
    "step": [Change(25)],
    "split_hidden": [Change((5,))],
    "mean_hidden": [Change((5,))],
    "variance_hidden": [Change((5,))],
    "n_alternations": [Change(1)],
    "batch_size": [Change(32)],
}


def members(of_tree: dict[str, list[Change]], member: Any) -> dict[str, list[Change]]:
    """The changes of a tree, made to the members of an ensemble, and those of the ensemble itself."""

    def inner(change: Change) -> Change:
        given = change.given
        if not callable(given):
            given = {f"estimator__{name}": value for name, value in given.items()}
        return Change(change.value, change.refused, given, change.n_rows)

    changes = {f"estimator__{name}": [inner(change) for change in found] for name, found in of_tree.items()}
    for name, value in (("n_jobs", 2), ("verbose", 1)):
        sentence = f"estimator.{name} is not used, set {name} of the ensemble, got {value}"
        changes[f"estimator__{name}"] = [Change(value, refused=sentence)]
    changes["estimator__categorical_features"] += [
        Change(
            [2],
            refused="categorical_features and estimator.categorical_features must be equal if both are given, "
            "got [1, 2] and [2]",
            given={"categorical_features": [1, 2]},
        ),
    ]
    return {
        **changes,
        "estimator": [Change(member)],
        "n_estimators": [Change(3)],
        "categorical_features": [Change([2])],
        "random_state": [Change(1)],
    }


OF_TREES = members(TREE, USNRTRegressor(**{**SMALL, "max_epochs": 2}))
ENSEMBLE = {
    **OF_TREES,
    **TARGET,
    "estimator__validation": [
        Change(2),
        Change(0.4, refused="estimator.validation must be an int >= 1 or 'auto' without time_column, got 0.4"),
    ],
}
ENSEMBLE_PAPER = members(TREE_PAPER, USNRTRegressor.paper(**{**SCRATCH, "max_epochs": 2}))

# Large steps: the loss goes up and down, so that training that stops early misses the best epoch.
RESTLESS = {"learning_rate": 0.3, "max_epochs": 20}
NETWORKS: dict[str, list[Change]] = {
    "hidden": [Change((5,))],
    "learning_rate": [Change(0.1)],
    "batch_size": [Change("auto")],
    "max_epochs": [Change(2)],
    "patience": [Change(1, given=RESTLESS)],
    "schedule": [Change("constant")],
    "weight_decay": [Change(0.5)],
    "encoding": [Change(None)],
    "n_bins": [
        Change(4),
        Change(
            4,
            refused="n_bins applies to encoding='piecewise' only, got 4 with encoding=None",
            given={"encoding": None},
        ),
    ],
    "validation_fraction": [Change(0.4)],
    "calibrate": [Change(False)],
    "categorical_features": [Change([2])],
    "random_state": [Change(1)],
}
NETWORKS_PAPER: dict[str, list[Change]] = {
    **NETWORKS,
    "schedule": [Change("cosine")],
    "encoding": [Change("piecewise")],
    "n_bins": [Change(4, refused="n_bins applies to encoding='piecewise' only, got 4 with encoding=None")],
    "calibrate": [Change(True)],
}
TOGETHER = "calibrate must be False if reinitialize is True, got True"
ALTERNATING: dict[str, list[Change]] = {
    "n_alternations": [Change(1)],
    "reinitialize": [Change(True, refused=TOGETHER), Change(True, given={"calibrate": False})],
}
ALTERNATING_PAPER: dict[str, list[Change]] = {
    "n_alternations": [Change(1)],
    "reinitialize": [Change(False)],
    "calibrate": [Change(True, refused=TOGETHER), Change(True, given={"reinitialize": False})],
}
OWN_CHANGES: dict[str, dict[str, list[Change]]] = {
    "ConcreteDropoutRegressor": {
        "activation": [Change("elu")],
        "length_scale": [Change(1.0)],
        "separate_heads": [Change(True)],
        "epistemic": [Change(False)],
        "n_passes": [Change(20)],
    },
    "DeepEnsembleRegressor": {**ALTERNATING, "n_members": [Change(3)]},
    "EvidentialRegressor": {"lam": [Change(1.0)], "min_evidence": [Change(0.1)], "min_alpha": [Change(1.5)]},
    "HNNRegressor": ALTERNATING,
    "MCDropoutRegressor": {
        "rate": [Change(0.3)],
        "n_passes": [Change(20)],
        "observation_noise": [Change(False)],
        "calibrate": [
            Change(
                False,
                refused="calibrate applies to observation_noise=False only, got False with observation_noise=True",
            ),
            Change(False, given={"observation_noise": False}),
        ],
    },
}
OWN_CHANGES_PAPER = {
    **OWN_CHANGES,
    "ConcreteDropoutRegressor": {
        **OWN_CHANGES["ConcreteDropoutRegressor"],
        "activation": [Change("relu")],
        "separate_heads": [Change(False)],
        "epistemic": [Change(True)],
    },
    "DeepEnsembleRegressor": {**ALTERNATING_PAPER, "n_members": [Change(3)]},
    "HNNRegressor": ALTERNATING_PAPER,
    "MCDropoutRegressor": {
        **OWN_CHANGES["MCDropoutRegressor"],
        "observation_noise": [Change(True)],
        "calibrate": [Change(True)],
    },
}
FORESTS: dict[str, list[Change]] = {
    "n_estimators": [Change(20)],
    "max_depth": [Change(2)],
    "max_features": [Change(0.7)],
    "min_samples_leaf": [Change(20)],
    "min_variance": [Change(0.5)],
    "search": [Change(True, given={"n_estimators": 200})],
    "calibrate": [Change(False)],
    "validation_fraction": [
        Change(0.4),
        Change(
            0.4,
            refused="validation_fraction applies to search=True or calibrate=True only, got 0.4 with search=False, "
            "calibrate=False",
            given={"calibrate": False},
        ),
    ],
    "categorical_features": [Change([2])],
    "random_state": [Change(1)],
}
FORESTS_PAPER: dict[str, list[Change]] = {
    **FORESTS,
    **{
        name: [Change(value, refused=f"{name} applies to search=False only, got {value!r} with search=True")]
        for name, value in (("n_estimators", 20), ("max_depth", 2), ("max_features", 0.7))
    },
    "search": [Change(False)],
    "calibrate": [Change(True)],
    "validation_fraction": [Change(0.4, given={"calibrate": True})],
}


def all_changes() -> dict[str, dict[str, list[Change]]]:
    found = {
        "tree": TREE,
        "tree, paper": TREE_PAPER,
        "ensemble": ENSEMBLE,
        "ensemble, paper": ENSEMBLE_PAPER,
    }
    for name in baselines.__all__:
        if issubclass(getattr(baselines, name), forests.ForestRegressor):
            found |= {name: FORESTS, f"{name}, paper": FORESTS_PAPER}
        else:
            found[name] = {**NETWORKS, **OWN_CHANGES[name]}
            found[f"{name}, paper"] = {**NETWORKS_PAPER, **OWN_CHANGES_PAPER[name]}
    return found


CHANGES = all_changes()


# Parameters that each need a program of their own, seconds to compile. All networks share the code that reads them, so
# that two of the models stand for the others in a quick run.
COMPILED = {"hidden", "batch_size", "schedule", "encoding", "n_bins", "categorical_features"}
STOOD_FOR = {"ConcreteDropoutRegressor", "EvidentialRegressor", "MCDropoutRegressor"}


def marks(recipe: str, name: str, change: Change) -> list[Any]:
    slow = name in COMPILED and recipe.split(",")[0] in STOOD_FOR and not change.refused
    return [pytest.mark.slow] if slow else []


def cases():
    for recipe, parameters in CHANGES.items():
        for name, changes in parameters.items():
            for number, change in enumerate(changes):
                case = f"{recipe}-{name}-{number}"
                yield pytest.param(recipe, name, change, id=case, marks=marks(recipe, name, change))


# -- the tests --------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def small_search(monkeypatch):
    """A search over few small forests; the paper's grid takes a second a fit."""
    grid = {"n_estimators": (2, 4, 8), "max_depth": (2, 4), "max_features": (0.4, 0.9)}
    monkeypatch.setattr(forests, "SEARCH_GRID", grid)


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_parameter_has_an_entry(recipe):
    model = RECIPES[recipe]()
    parameters = set(model.get_params(deep=True))
    assert set(CHANGES[recipe]) == parameters - (OPERATIONAL - set(CHANGES[recipe]))


@pytest.mark.parametrize(("recipe", "name", "change"), list(cases()))
def test_every_parameter_is_used_or_refused(recipe, name, change):
    given = change.given(recipe) if callable(change.given) else change.given
    if change.refused:
        model = RECIPES[recipe](**{**given, name: change.value})
        with pytest.raises(ValueError) as caught:
            model.fit(*table())
        assert str(caught.value) == change.refused
        return
    before = fitted(recipe, change.n_rows, **given)
    after = RECIPES[recipe](**{**given, name: change.value}).fit(*table(change.n_rows))
    assert not predict_alike(before, after)


@pytest.mark.parametrize("recipe", RECIPES)
def test_parameters_of_how_a_fit_runs(recipe, capfd):
    """They change nothing in the model; so what the other tests see comes from the parameter that they change."""
    events = []
    known = RECIPES[recipe]().get_params(deep=True)
    callbacks = {name: [events.append] for name in ("callbacks", "estimator__callbacks") if name in known}
    model = RECIPES[recipe](n_jobs=2, verbose=1, **callbacks).fit(*table())
    assert predict_alike(model, fitted(recipe))
    assert bool(events) == bool(callbacks)
    assert capfd.readouterr().err
