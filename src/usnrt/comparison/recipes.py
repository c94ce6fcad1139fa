"""Models by name, with changed parameters; a class is imported only when its model is built."""

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Self


@dataclass(frozen=True)
class Recipe:
    """How an estimator is built.

    Attributes
    ----------
    name : str
    home : str
        ``"module:Class"``, or ``"module:Class.fast"`` for another constructor of the class.
    changes : mapping
        Parameters that differ from the defaults of the constructor.
    """

    name: str
    home: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    def changed(self, name: str) -> Self:
        """The recipe of a name with changes behind a question mark, as in ``"fast?alpha=0.02&max_leaves=4"``.

        Examples
        --------
        >>> from usnrt.comparison.recipes import Recipe
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
