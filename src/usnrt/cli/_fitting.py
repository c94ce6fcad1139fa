"""The parts of ``usnrt fit``: a model from options, rows kept aside, and what was understood of the table."""

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.cli._errors import UserError
from usnrt.estimators.regions import region_rows

# parameters that an ensemble has itself and its trees need not have
WHOLE = ("categorical_features", "random_state", "n_jobs", "verbose")


def make_model(
    paper: bool, members: int, settings: Sequence[str], categorical: Sequence[str], seed: int, verbose: int
) -> Any:
    """An unfitted model with the parameters of the command line; ``settings`` are those of one tree."""
    from usnrt import USNRTEnsemble, USNRTRegressor

    model = USNRTRegressor.paper() if paper else USNRTRegressor()
    known = model.get_params(deep=False)
    changes: dict[str, Any] = {"random_state": seed, "verbose": verbose}
    if categorical:
        changes["categorical_features"] = list(categorical)
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in known:
            names = ", ".join(sorted(known))
            raise UserError(f"--set must be name=value with a parameter's name, got {setting!r}; names: {names}")
        changes[name] = _value(value)
    if members == 1:
        return model.set_params(**changes)
    whole = {name: changes.pop(name) for name in WHOLE if name in changes}
    return USNRTEnsemble(model.set_params(**changes), n_members=members, **whole)


def _value(text: str) -> Any:
    """A number, a tuple or the like; what is none of these is text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def split_rows(n_rows: int, holdout: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to learn from and rows kept aside, each in their order in the file."""
    n_aside = round(n_rows * holdout)
    order = np.random.default_rng(seed).permutation(n_rows)
    return np.sort(order[n_aside:]), np.sort(order[:n_aside])


def summary(model: Any, X: Any, output: Path) -> dict[str, Any]:
    """What was learnt from what."""
    return {
        "model": str(output),
        "target": model.target_name_,
        "rows": X.num_rows,
        "columns": _columns_said(model),
        "regions": region_rows(model),
    }


def _columns_said(model: Any) -> list[str]:
    """What was made of the columns, where it is not plain."""
    lines = []
    columns = model.columns_
    categorical = [f"{c.name} ({c.n_categories})" for c in columns if c.is_categorical]
    if categorical:
        lines.append(f"categories: {', '.join(categorical)}")
    for source in dict.fromkeys(c.source for c in columns if c.part):
        parts = ", ".join(c.part for c in columns if c.source == source)
        lines.append(f"the date {source!r} became {parts}")
    missing = list(dict.fromkeys(c.source for c in columns if c.has_missing))
    if missing:
        lines.append(f"missing values in {', '.join(missing)}")
    for column in columns:
        if column.n_categories > max(100, len(columns)):
            lines.append(
                f"{column.name!r} has {column.n_categories:,} different texts; is it a name or an id to --drop?"
            )
    return lines
