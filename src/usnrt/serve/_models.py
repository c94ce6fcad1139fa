"""The models of a service: loaded from files, replaced as a whole when they are reloaded."""

import hashlib
import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from usnrt.persistence import load, read_manifest
from usnrt.serve._answers import Options, predict_rows
from usnrt.serve._columns import InputColumns
from usnrt.serve._errors import RequestError
from usnrt.serve._monitor import ModelMonitor
from usnrt.utils.notices import UnguaranteedIntervalWarning
from usnrt.whatif.card import model_facts


@dataclass(frozen=True)
class ServedModel:
    """A fitted model and what its answers need; never changed, so that requests in progress finish with it."""

    name: str
    model: Any
    columns: InputColumns
    rules: dict[int, str]  # by region
    card: dict[str, Any]  # the model in facts
    monitor: ModelMonitor  # what its requests looked like


class ModelStore:
    """Models by name, from files.

    Parameters
    ----------
    paths : sequence of path-like
        The stem of a file is the name of its model; the first one is the default.

    Examples
    --------
    >>> from usnrt.serve import ModelStore
    >>> ModelStore(["a/price.usnrt", "b/price.usnrt"])
    Traceback (most recent call last):
        ...
    ValueError: model files must have different names, got 'price' twice
    """

    def __init__(self, paths: Sequence[Any]) -> None:
        self.paths: dict[str, Path] = {}
        for path in map(Path, paths):
            if path.stem in self.paths:
                raise ValueError(f"model files must have different names, got {path.stem!r} twice")
            self.paths[path.stem] = path
        if not self.paths:
            raise ValueError("at least one model file is needed")
        # Every answer has ``guaranteed``. For the whole process: `catch_warnings` is not safe in threads.
        warnings.filterwarnings("ignore", category=UnguaranteedIntervalWarning)
        self._reloading = threading.Lock()
        self._models = {name: load_served(name, path) for name, path in self.paths.items()}

    def get(self, name: str | None = None) -> ServedModel:
        """A model by its name, the first one by default."""
        models = self._models  # one reference: a reload replaces the dictionary
        if name is None:
            return models[next(iter(self.paths))]
        if name not in models:
            names = ", ".join(map(repr, models))
            raise RequestError(404, "unknown_model", f"there is no model of this name, there are {names}")
        return models[name]

    def all(self) -> list[ServedModel]:
        """All models, in the order of the files."""
        return list(self._models.values())

    def reload(self) -> list[str]:
        """Load all files that have changed; models stay as they are if one cannot be loaded.

        Returns
        -------
        list of str
            Names of the models that were replaced.
        """
        with self._reloading:
            before, after = self._models, {}
            for name, path in self.paths.items():
                is_same = digest_of(path) == before[name].card["sha256"]
                after[name] = before[name] if is_same else load_served(name, path)
            self._models = after
        return [name for name in after if after[name] is not before[name]]


def load_served(name: str, path: Path) -> ServedModel:
    """Load a model, and predict once, so that no request waits for compiled code."""
    digest = digest_of(path)
    model: Any = load(path)
    columns = InputColumns(model)
    rules = dict(zip(*(model.rules()[key].tolist() for key in ("region", "rule")))) if hasattr(model, "rules") else {}
    table = columns.table([columns.example()])
    predict_rows(model, table, Options(above=0.0, curve=True), rules)
    card = {**model_card(name, path, model), "sha256": digest}
    return ServedModel(name, model, columns, rules, card, ModelMonitor(name, model))


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def model_card(name: str, path: Path, model: Any) -> dict[str, Any]:
    """A model and its file in facts, as values that JSON can hold; it contains no rows of the training table."""
    manifest = read_manifest(path)
    return {
        "name": name,
        "class": manifest["class"],
        "library": manifest["library"],
        "loaded_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "size_in_bytes": path.stat().st_size,
        **model_facts(model),
    }
