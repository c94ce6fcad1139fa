"""Files whose contents were changed and whose checksums are right: they are refused in one sentence, or behave."""

import copy
import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors

import usnrt
from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.paper import baselines
from usnrt.persistence import ModelFileError, load
from usnrt.persistence._classes import CODEC
from usnrt.utils.codec import parameters_of

QUICK = {"random_state": 0, "n_jobs": 1}
SMALL = {"hidden": (4,), "max_epochs": 2}
TREE = USNRTRegressor(min_samples_leaf=30, alpha=0.9, n_bins=4, memory="examples", **SMALL, **QUICK)
MODELS = {
    "tree": TREE,
    "ensemble": USNRTEnsemble(USNRTRegressor(n_bins=4, **SMALL), n_estimators=2, **QUICK),
    "paper": USNRTRegressor.paper(min_samples_leaf=40, alpha=0.9, max_epochs=2, **QUICK),
    "paper ensemble": USNRTEnsemble.paper(estimator=USNRTRegressor.paper(max_epochs=2), n_estimators=2, **QUICK),
    "forest": baselines.ExtraTreesVarianceRegressor(n_estimators=3, **QUICK),
    "random forest": baselines.RandomForestVarianceRegressor(n_estimators=3, **QUICK),
    "hnn": baselines.HNNRegressor(**SMALL, **QUICK),
    "deep": baselines.DeepEnsembleRegressor(n_members=2, **SMALL, **QUICK),
    "dropout": baselines.MCDropoutRegressor(n_passes=5, **SMALL, **QUICK),
    "concrete": baselines.ConcreteDropoutRegressor(n_passes=5, **SMALL, **QUICK),
    "concrete heads": baselines.ConcreteDropoutRegressor(n_passes=5, separate_heads=True, **SMALL, **QUICK),
    "evidential": baselines.EvidentialRegressor(**SMALL, **QUICK),
}
# What a forger may write in place of a value; a missing entry is one more.
VALUES: list[Any] = [
    *(None, True, -1, 0, 7, 1000, 2**63 - 1, -(2**63), 0.5, -1.0, 1e300, -1e300, 5e-324, "x", [], {}),
    *({"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}, {"$tuple": []}, {"$texts": ["a"], "shape": [1]}),
    *({"$shared": "numeric"}, {"$table": {}}, {"$scalar": "0"}, {"$object": "MLP", "state": {}}),
]


def table(n: int = 280) -> tuple[np.ndarray, np.ndarray]:
    """Noise that depends on a category and a number, so that trees have splits on both."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(n, 2))
    X = np.column_stack([numbers.astype(object), rng.choice(["a", "b", "c"], n).astype(object)])
    noise = np.where(X[:, 2] == "a", 3.0, 0.1) * np.where(numbers[:, 1] > 0, 4.0, 1.0)
    return X, 0.3 * numbers[:, 0] + noise * rng.normal(size=n)


def all_experts(quantiles: np.ndarray, *arguments: Any) -> np.ndarray:
    """Weights for all experts, whatever these small models would choose."""
    return np.full((arguments[-2], len(quantiles)), 1.0 / len(quantiles))


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, tuple[dict[str, Any], Any, dict[str, np.ndarray]]]:
    """Manifest, state and arrays of every model."""
    path = tmp_path_factory.mktemp("models") / "m.usnrt"
    X, y = table()
    parts = {}
    for name, model in MODELS.items():
        rows = np.tile(np.arange(len(y)), 2) if name == "tree" else np.arange(len(y))  # rows that were seen
        with warnings.catch_warnings(), patch("usnrt.tree.model.fit_weights", all_experts):
            warnings.simplefilter("ignore")
            model.fit(X[rows], y[rows], **({"groups": rows // 4} if name == "ensemble" else {}))
        model.save(path)
        with zipfile.ZipFile(path) as archive:
            manifest, state = (json.loads(archive.read(member)) for member in ("manifest.json", "state.json"))
            parts[name] = manifest, state, read_tensors(archive.read("arrays.safetensors"))
    online = usnrt.OnlineCalibrator(MODELS["tree"])
    online.save(path)
    with zipfile.ZipFile(path) as archive:
        manifest, state = (json.loads(archive.read(member)) for member in ("manifest.json", "state.json"))
        parts["online"] = manifest, state, read_tensors(archive.read("arrays.safetensors"))
    return parts


def packed(manifest: dict[str, Any], state: Any, arrays: dict[str, np.ndarray]) -> bytes:
    """A file with right checksums."""
    members = {"state.json": json.dumps(state).encode(), "arrays.safetensors": write_tensors(arrays)}
    sizes = {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in members.items()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in {"manifest.json": json.dumps({**manifest, "members": sizes}), **members}.items():
            archive.writestr(name, data)
    return out.getvalue()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every field, item and number."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if key != "$array":
            yield (*path, key)
            yield from places(item, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def changed_arrays(array: np.ndarray) -> Iterator[np.ndarray]:
    """An array with another entry, order, shape or type."""
    if array.size and array.dtype != bool:
        is_float = array.dtype.kind == "f"
        largest = (np.finfo if is_float else np.iinfo)(array.dtype).max
        for hostile in (-1, 10**6, largest, *([np.nan, np.inf, -np.inf, 0.0, -largest] if is_float else [0])):
            with np.errstate(all="ignore"):
                for place in {0, array.size - 1}:
                    other = array.copy()
                    other.flat[place] = np.array(hostile).astype(array.dtype)
                    yield other
        yield np.zeros_like(array)
        yield np.full_like(array, largest)
        yield array[::-1].copy() if array.ndim else array + array.dtype.type(1)
    elif array.size:
        yield ~array
    yield np.zeros((0, *array.shape[1:]), array.dtype) if array.ndim else array[None]
    yield np.concatenate([array, array]) if array.ndim else array[None]
    yield array.astype(np.float16 if array.dtype.kind == "f" else np.int16)
    yield array[None]


def forgeries(parts: tuple[Any, Any, dict[str, np.ndarray]]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """What is changed, and a function that makes the file with this one change."""
    manifest, state, arrays = parts

    def with_value(path: tuple[Any, ...], value: Any) -> bytes:
        forged = copy.deepcopy(state)
        holder = at(forged, path[:-1])
        if value is ...:
            del holder[path[-1]]
        else:
            holder[path[-1]] = value
        return packed(manifest, forged, arrays)

    for path in places(state):
        for value in [*VALUES, ...]:
            yield f"{path} = {value}", partial(with_value, path, value)
        reference = at(state, path)
        if isinstance(reference, dict) and "$array" in reference:  # another array, which may be that of another field
            number = int(reference["$array"])
            for other in (number - 1, number + 1):
                yield f"{path} = array {other}", partial(with_value, (*path, "$array"), str(other))
    for name, array in arrays.items():
        for number, other in enumerate(changed_arrays(array)):
            yield f"array {name}, change {number}", partial(packed, manifest, state, {**arrays, name: other})


def behaves(model: Any) -> None:
    """Use what reads a model; raises what it raises, or an AssertionError for numbers that are not finite."""
    X, y = table(60)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        assert np.isfinite(model.predict_interval(X[:5])).all()
        if isinstance(model, usnrt.OnlineCalibrator):
            return
        assert np.isfinite(model.predict(X[:5])).all()
        assert np.isfinite(model.predict_quantiles(X[:5], [1e-3, 0.999])).all()
        if hasattr(model, "tree_"):
            model.rules()
            if getattr(model, "background_", None) is not None:
                model.explain(X[:1])
            model.predict_support(X[:5])
            model.calibrate(X, y)
            assert np.isfinite(model.predict_interval(X[:5])).all()


def outcome(data: bytes, path: Any) -> str:
    """ "refused", "behaves", or how it failed."""
    path.write_bytes(data)
    try:
        model = load(path)
    except ModelFileError as error:
        return "refused" if str(error).startswith(f"{path} is not a model file") else f"without the file: {error}"
    except Exception as error:
        return f"load: {type(error).__name__}: {error}"
    try:
        behaves(model)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "behaves"


@pytest.mark.parametrize("name", [*MODELS, "online"])
def test_the_file_itself_behaves(name, files, tmp_path):
    assert outcome(packed(*files[name]), tmp_path / "m.usnrt") == "behaves"


@pytest.mark.parametrize("name", [*MODELS, "online"])
def test_some_forged_files_are_refused_or_behave(name, files, tmp_path):
    forged = list(forgeries(files[name]))
    chosen = np.random.default_rng(0).choice(len(forged), 40, replace=False)
    failed = {forged[i][0]: outcome(forged[i][1](), tmp_path / "m.usnrt") for i in chosen}
    assert {what: how for what, how in failed.items() if how not in ("refused", "behaves")} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MODELS, "online"])
def test_all_forged_files_are_refused_or_behave(name, files, tmp_path):
    found = ((what, outcome(make(), tmp_path / "m.usnrt")) for what, make in forgeries(files[name]))
    assert {what: how for what, how in found if how not in ("refused", "behaves")} == {}


@pytest.mark.parametrize("name", [*MODELS, "online"])
def test_every_field_of_a_saved_model_has_an_entry(name, files, tmp_path):
    (tmp_path / "m.usnrt").write_bytes(packed(*files[name]))
    seen = set()

    def walk(value: Any) -> None:
        kind = type(value).__name__
        if isinstance(value, list | tuple | dict):
            for item in value.values() if isinstance(value, dict) else value:
                walk(item)
        elif kind in CODEC.classes:
            seen.add(kind)
            fields = set(CODEC.classes[kind].fields)
            state = {key: item for key, item in vars(value).items() if key in fields or key[0] != "_"}
            assert set(state) - set(parameters_of(type(value))) <= fields
            walk(state)

    walk(load(tmp_path / "m.usnrt"))
    assert len(seen) > 4
