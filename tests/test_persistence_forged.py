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
import pandas as pd
import pytest
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors

import usnrt
from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.model.target import bounds_of
from usnrt.paper import baselines
from usnrt.persistence import ModelFileError, load, save
from usnrt.persistence._classes import CODEC
from usnrt.utils.codec import parameters_of

QUICK = {"random_state": 0, "n_jobs": 1}
SMALL = {"hidden": (4,), "max_epochs": 2}
FOLDS = {"n_bins": 4, "validation": 5, **SMALL}


class Zero:
    """A model of the user."""

    def fit(self, X: Any, y: np.ndarray) -> "Zero":
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.zeros(len(X))


TREE = USNRTRegressor(min_samples_leaf=30, alpha=0.9, memory="examples", **FOLDS, **QUICK)
MODELS = {
    "tree": TREE,
    "file": USNRTRegressor(
        min_samples_leaf=40,
        alpha=0.9,
        target_transform="log",
        target_bounds=(0, 100),
        categorical_features=["size"],
        experts=["network", "memory", "forest", "linear", Zero()],
        **FOLDS,
        **QUICK,
    ),
    "ensemble": USNRTEnsemble(USNRTRegressor(**FOLDS), n_estimators=2, **QUICK),
    "paper": USNRTRegressor.paper(min_samples_leaf=40, alpha=0.9, max_epochs=2, **QUICK),
    "paper ensemble": USNRTEnsemble.paper(estimator=USNRTRegressor.paper(max_epochs=2), n_estimators=2, **QUICK),
    "forest": baselines.ExtraTreesVarianceRegressor(n_estimators=3, **QUICK),
    "hnn": baselines.HNNRegressor(**SMALL, **QUICK),
    "deep": baselines.DeepEnsembleRegressor(n_members=2, **SMALL, **QUICK),
    "dropout": baselines.MCDropoutRegressor(n_passes=5, **SMALL, **QUICK),
    "concrete": baselines.ConcreteDropoutRegressor(n_passes=5, **SMALL, **QUICK),
    "concrete heads": baselines.ConcreteDropoutRegressor(n_passes=5, separate_heads=True, **SMALL, **QUICK),
    "random forest": baselines.RandomForestVarianceRegressor(n_estimators=3, **QUICK),
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


def frame(n: int = 280) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns of all kinds: dates, flags, integer codes, texts, missing values, attributes of subjects."""
    rng = np.random.default_rng(1)
    height = rng.normal(size=n).round(3)[np.arange(n) // 4]
    columns = {
        "day": pd.date_range("2019-01-01", periods=n, freq="3D").strftime("%d/%m/%Y"),
        "size": rng.choice([10, 20, 30], n),
        "flag": rng.random(n) < 0.5,
        "word": rng.choice(["a", "b", None], n),
        "height": height,
        "number": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n).round(3)),
    }
    noise = np.where(columns["flag"], 1.0, 0.1) * rng.normal(size=n)
    return pd.DataFrame(columns), np.maximum(np.exp(0.3 * height + noise) - 0.5, 0.0).round(3)


def all_experts(quantiles: np.ndarray, *arguments: Any) -> np.ndarray:
    """Weights for all experts, whatever these small models would choose."""
    return np.full((arguments[-2], len(quantiles)), 1.0 / len(quantiles))


def fit(name: str, folder: Any) -> Any:
    """A model of this name."""
    model, (X, y) = MODELS[name], table()
    if name == "file":
        X, y = frame()
        X.assign(y=y, subject=np.arange(len(y)) // 4).to_csv(folder / "table.csv", index=False)
        return model.fit(folder / "table.csv", y="y", groups="subject")
    if name == "ensemble":
        return model.fit(X, y, groups=np.arange(len(y)) // 4)
    rows = np.r_[: len(y), : len(y) // 2] if name == "tree" else np.arange(len(y))  # rows that were seen
    return model.fit(X[rows], y[rows])


def parts_of(model: Any, path: Any) -> tuple[dict[str, Any], Any, dict[str, np.ndarray]]:
    """Manifest, state and arrays of a model's file."""
    save(model, path, user_models=lambda own: b"zero")
    with zipfile.ZipFile(path) as archive:
        manifest, state = (json.loads(archive.read(member)) for member in ("manifest.json", "state.json"))
        return manifest, state, read_tensors(archive.read("arrays.safetensors"))


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, tuple[dict[str, Any], Any, dict[str, np.ndarray]]]:
    """Manifest, state and arrays of every model."""
    folder = tmp_path_factory.mktemp("models")
    parts = {}
    for name in MODELS:
        with warnings.catch_warnings(), patch("usnrt.tree.model.fit_weights", all_experts):
            warnings.simplefilter("ignore")
            parts[name] = parts_of(fit(name, folder), folder / "m.usnrt")
    parts["online"] = parts_of(usnrt.OnlineCalibrator(MODELS["tree"]), folder / "m.usnrt")
    return parts


def packed(
    manifest: dict[str, Any], state: bytes, arrays: bytes, path: tuple[Any, ...] = (), value: Any = ...
) -> bytes:
    """A file with right checksums; one value of its manifest may be another one, or left out."""
    members = {"state.json": state, "arrays.safetensors": arrays}
    if "user_models" in manifest:
        members["user_models/0.bin"] = b"zero"
    sizes = {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in members.items()}
    manifest = {**copy.deepcopy(manifest), "members": sizes}
    if path:
        changed(manifest, path, value)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in {"manifest.json": json.dumps(manifest), **members}.items():
            archive.writestr(name, data)
    return out.getvalue()


def unchanged(parts: tuple[Any, Any, dict[str, np.ndarray]]) -> bytes:
    """The file of a model itself."""
    manifest, state, arrays = parts
    return packed(manifest, json.dumps(state).encode(), write_tensors(arrays))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every field and item; of lists, whose items are declared once, the ends, of long ones the middle."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if key != "$array" and (isinstance(value, dict) or key in (0, len(value) - 1) or key == len(value) // 2 > 2):
            yield (*path, key)
            yield from places(item, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def changed(value: Any, path: tuple[Any, ...], item: Any) -> None:
    """Put another item into a value, or leave it out for ``...``."""
    holder = at(value, path[:-1])
    if item is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = item


def changed_arrays(array: np.ndarray) -> Iterator[np.ndarray]:
    """An array with another entry, order, shape or type."""
    if array.size and array.dtype != bool:
        is_float = array.dtype.kind == "f"
        largest = (np.finfo if is_float else np.iinfo)(array.dtype).max
        for hostile in (-1, 10**6, largest, *([np.nan, np.inf, -np.inf, 0.0, -largest] if is_float else [0])):
            with np.errstate(all="ignore"):
                for place in {0, array.size // 2, array.size - 1}:
                    other = array.copy()
                    other.flat[place] = np.array(hostile).astype(array.dtype)
                    yield other
        for hostile in (0, largest, *([np.nan, -largest, np.finfo(array.dtype).tiny] if is_float else [])):
            yield np.full_like(array, hostile)
        yield array[::-1].copy() if array.ndim else np.asarray(array + array.dtype.type(1))
    elif array.size:
        yield ~array
    yield array[None]
    yield array[..., None]
    yield array.astype(np.float16 if array.dtype.kind == "f" else np.int16)
    if array.ndim:  # empty, longer, without the last row, and what could be broadcast
        for other in (array[:0], np.concatenate([array, array]), array[:-1], array[:1], array[..., :1], array.T):
            yield np.ascontiguousarray(other)
    if array.ndim > 1:  # of no memory
        yield np.zeros((0, *array.shape[1:-1], 2**40), array.dtype)


def forgeries(parts: tuple[Any, Any, dict[str, np.ndarray]]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """What is changed, and a function that makes the file with this one change."""
    manifest, state, arrays = parts
    tensors = write_tensors(arrays)
    # the trees' own files have the changes of a model that an online calibrator holds
    skipped = ("state", "model", "state") if state["$object"] == "OnlineCalibrator" else (None,)
    references: dict[str, tuple[Any, ...]] = {}

    def with_value(before: str, after: str, value: Any) -> bytes:
        return packed(manifest, f"{before}{json.dumps(value)}{after}".encode(), tensors)

    def without(path: tuple[Any, ...]) -> bytes:
        forged = copy.deepcopy(state)
        changed(forged, path, ...)
        return packed(manifest, json.dumps(forged).encode(), tensors)

    def with_array(name: str, array: np.ndarray) -> bytes:
        return packed(manifest, json.dumps(state).encode(), write_tensors({**arrays, name: array}))

    for path in places(manifest):
        for value in [*VALUES, ...]:
            make = partial(packed, manifest, json.dumps(state).encode(), tensors, path, value)
            yield f"manifest {path} = {value}", make
    for path in places(state):
        if path[: len(skipped)] == skipped:
            continue
        holder, reference = at(state, path[:-1]), at(state, path)
        holder[path[-1]] = "<here>"
        before, after = json.dumps(state).split('"<here>"')
        holder[path[-1]] = reference
        for value in VALUES:
            yield f"{path} = {value}", partial(with_value, before, after, value)
        yield f"{path} is missing", partial(without, path)
        if isinstance(reference, dict) and "$array" in reference:  # another array, which may be that of another field
            name = reference["$array"]
            references.setdefault(name, path)
            for other in (int(name) - 1, int(name) + 1):
                yield f"{path} = array {other}", partial(with_value, before, after, {**reference, "$array": str(other)})
    for name, path in references.items():
        for number, other in enumerate(changed_arrays(arrays[name])):
            yield f"array {path}, change {number}", partial(with_array, name, other)


def behaves(model: Any, X: Any, y: np.ndarray) -> None:
    """Use what reads a model; raises what it raises, or an AssertionError for numbers that are not finite."""
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
                model.explain(X[-1:])  # its date has one meaning, also for a model that knows no format of dates
            model.predict_support(X[:5])
            model.calibrate(X, np.clip(y, *bounds_of(getattr(model, "target_bounds", None))))
            assert np.isfinite(model.predict_interval(X[:5])).all()


def outcome(data: bytes, path: Any, rows: Callable[[int], tuple[Any, np.ndarray]] = table) -> str:
    """ "refused", "behaves", or how it failed."""
    path.write_bytes(data)
    try:
        model = load(path, user_models=lambda own: Zero())
    except ModelFileError as error:
        return "refused" if str(error).startswith(f"{path} is not a model file") else f"without the file: {error}"
    except Exception as error:
        return f"load: {type(error).__name__}: {error}"
    try:
        X, y = rows(60)
        if rows is frame:  # columns may have other names
            X = X.set_axis(model.encoder_.source_names_, axis=1)
        behaves(model, X, y)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "behaves"


ROWS = {"file": frame}  # others are given those of `table`


@pytest.mark.parametrize("name", [*MODELS, "online"])
def test_the_file_itself_behaves(name, files, tmp_path):
    assert outcome(unchanged(files[name]), tmp_path / "m.usnrt", ROWS.get(name, table)) == "behaves"


@pytest.mark.parametrize("name", [*MODELS, "online"])
def test_some_forged_files_are_refused_or_behave(name, files, tmp_path):
    forged = list(forgeries(files[name]))
    chosen = np.random.default_rng(0).choice(len(forged), 40, replace=False)
    failed = {forged[i][0]: outcome(forged[i][1](), tmp_path / "m.usnrt", ROWS.get(name, table)) for i in chosen}
    assert {what: how for what, how in failed.items() if how not in ("refused", "behaves")} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MODELS, "online"])
def test_all_forged_files_are_refused_or_behave(name, files, tmp_path):
    path, rows = tmp_path / "m.usnrt", ROWS.get(name, table)
    found = ((what, outcome(make(), path, rows)) for what, make in forgeries(files[name]))
    assert {what: how for what, how in found if how not in ("refused", "behaves")} == {}


FITTED = ("state", "model_", "state")
OWN_MODEL = (*FITTED, "trees", "state", "members", 0, "state", "further", "$tuple", 2, "state")
TARGET_MAP = (*FITTED, "target", "state", "target_map", "state")
REFUSED = [
    ("paper", ("state", "fingerprint_"), None),
    ("file", ("state", "feature_names_in_", "$texts", 0), "x"),
    ("file", ("state", "encoder_", "state", "date_formats_", "day"), "%d/%m/%Y" + "x" * 100 + "%Q"),
    ("file", ("state", "encoder_", "state", "date_formats_", "day"), "%Y" + "%a" * 8),
    ("file", (*TARGET_MAP, "shift"), 1e300),
    ("file", (*TARGET_MAP, "shift"), 100.0),  # more than the knee
    ("file", (*TARGET_MAP, "low_at"), {"$float": "-inf"}),  # of a finite bound
    ("file", (*TARGET_MAP, "low_at"), 1e9),  # above that of the upper bound
    ("file", (*OWN_MODEL, "form", "state", "typical"), lambda typical: np.full_like(typical, -1e308)),
    ("file", (*OWN_MODEL, "form", "state", "typical"), lambda typical: np.full_like(typical, np.inf)),
    ("file", (*OWN_MODEL, "form", "state", "columns", 4, "state", "name"), "x"),  # not that of the encoder
    ("online", ("state", "surplus_"), lambda surplus: np.full_like(surplus, 1e200)),
    ("online", ("state", "region_surplus_"), lambda surplus: np.full_like(surplus, -21.0)),
    ("forest", ("state", "forest_", "state", "mean"), lambda mean: np.full_like(mean, 1e308)),
    ("forest", ("state", "forest_", "state", "variance"), lambda variance: np.full_like(variance, 1e308)),
]


@pytest.mark.parametrize(("name", "path", "value"), REFUSED, ids=range(len(REFUSED)))
def test_forged_values_are_refused(name, path, value, files, tmp_path):
    manifest, state, arrays = copy.deepcopy(files[name])
    if callable(value):
        number = at(state, path)["$array"]
        arrays[number] = value(arrays[number])
    else:
        at(state, path[:-1])[path[-1]] = value
    assert outcome(unchanged((manifest, state, arrays)), tmp_path / "m.usnrt", ROWS.get(name, table)) == "refused"


BEHAVES = [
    ("tree", (*FITTED, "inputs", "state", "mean_"), -1e308),  # experts are far from each other, and widths are 0
    ("file", (*FITTED, "inputs", "state", "factor_"), -1e308),
    ("file", (*OWN_MODEL, "form", "state", "dtypes", 0), "(10000000,10000000)f8"),
    ("file", ("state", "target_bounds", "$tuple", 1), 5e-324),
]


@pytest.mark.parametrize(("name", "path", "value"), BEHAVES, ids=range(len(BEHAVES)))
def test_forged_values_that_are_allowed_behave(name, path, value, files, tmp_path):
    manifest, state, arrays = copy.deepcopy(files[name])
    if isinstance(at(state, path), dict):
        arrays[at(state, path)["$array"]][:] = value
    else:
        at(state, path[:-1])[path[-1]] = value
    assert outcome(unchanged((manifest, state, arrays)), tmp_path / "m.usnrt", ROWS.get(name, table)) == "behaves"


@pytest.mark.parametrize("name", [*MODELS, "online"])
def test_every_field_of_a_saved_model_has_an_entry(name, files, tmp_path):
    (tmp_path / "m.usnrt").write_bytes(unchanged(files[name]))
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

    walk(load(tmp_path / "m.usnrt", user_models=lambda own: Zero()))
    assert len(seen) > 4
