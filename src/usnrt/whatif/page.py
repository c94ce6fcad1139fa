"""The what-if page: served beside its model, or with the model in it as one file."""

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from usnrt._version import __version__
from usnrt.calibration.groups import GroupCalibration, standard_normal
from usnrt.distributions.transformed import NODE_LEVELS, NODE_WEIGHTS
from usnrt.experts.registry import REMEMBERING
from usnrt.explain.shapley import feature_groups, orders_of
from usnrt.model.fitted import FittedModel
from usnrt.nn.quantiles import MEAN_WEIGHTS, POSITIONS
from usnrt.tree.model import ExpertTree
from usnrt.utils.atomic_write import atomic_write
from usnrt.utils.result_table import json_value
from usnrt.utils.types import Floats
from usnrt.whatif.card import CURVE_CELLS, CURVE_TAIL, REASONS, model_facts
from usnrt.whatif.program import input_columns_of, moments_program, row_program

FOLDER = Path(__file__).parent
COVERAGES = range(50, 100)  # those of the page's slider, in percent


def what_if_page(data: str = "") -> tuple[str, str]:
    """The page in one piece, and the policy that lets browsers run its scripts and its style only.

    With ``data``, a model as JSON, the page works without a service.
    """
    style, script = ((FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    evaluator = (FOLDER / "evaluator.js").read_text(encoding="utf-8") if data else ""
    scripts = " ".join(_hash(text) for text in (evaluator, script) if text)
    policy = f"default-src 'none'; script-src {scripts}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
    policy += "form-action 'none'" + ("" if data else "; connect-src 'self'; frame-ancestors 'none'")
    model = f'<script type="application/json" id="data">{data}</script>\n<script>{evaluator}</script>' if data else ""
    page = (FOLDER / "page.html").read_text(encoding="utf-8")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">' if data else ""
    for name, text in (("policy", meta), ("page.css", style), ("page.js", script), ("model", model)):
        page = page.replace(f"{{{{{name}}}}}", text)
    return page, policy


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def write_what_if(
    model: Any, path: str | os.PathLike[str] = "what-if.html", *, training_rows: bool = False, name: str = ""
) -> Path:
    """Write a page to play with the inputs of a model, as one file that works without Python and without a network.

    The page computes what `predict_table`, `predict_dist` and `explain` return, up to the rounding of 32-bit numbers
    (about 1e-6 of the target's standard deviation). A row of a table with duplicate rows is predicted as a new row.

    Parameters
    ----------
    model : USNRTRegressor or USNRTEnsemble
        Fitted.
    path : path-like, default="what-if.html"
        The file to write, atomically. An existing file is replaced.
    training_rows : bool, default=False
        Whether the page may contain training rows: those of the memory, without which a model with a memory cannot
        predict, and those that explanations compare with.
    name : str, optional
        Of the model, shown in links.

    Returns
    -------
    Path
        The file. Whoever has it has the model: rules, networks, and transformed features of up to 512 training rows.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import usnrt
    >>> X = np.random.default_rng(0).uniform(size=(60, 2))
    >>> model = usnrt.USNRTRegressor(memory=False, max_epochs=1, random_state=0).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = usnrt.what_if(model, f"{folder}/what-if.html").read_text(encoding="utf-8")
    >>> "http://" in page.replace("http://www.w3.org", "")
    False
    """
    check_is_fitted(model)
    data = model_data(model, name or Path(path).stem, training_rows)
    # "<" would let a category end the script that it is in
    page, _ = what_if_page(json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"))
    with atomic_write(path) as file:
        file.write(page.encode())
    return Path(path)


def model_data(model: Any, name: str, training_rows: bool = False) -> dict[str, Any]:
    """Everything that the page needs of a model, as values that JSON can hold; parameters as for `write_what_if`."""
    fitted = getattr(model, "model_", None)
    if not isinstance(fitted, FittedModel) or not isinstance(fitted.members[0], ExpertTree):
        raise ValueError(
            f"a what-if page needs a USNRTRegressor or USNRTEnsemble, got {type(model).__name__}; usnrt serve has one "
            "for all models"
        )
    if not isinstance(fitted.calibration, GroupCalibration | None):
        raise ValueError(f"a what-if page does not know the calibration of class {type(fitted.calibration).__name__}")
    remembering = remembering_experts(fitted)
    if remembering and not training_rows:
        names = " and ".join(remembering)
        raise ValueError(
            f"the model predicts with targets of training rows ({names}), so the page would contain them; "
            "allow it with training_rows=True (--training-rows), or fit with memory=False (--set memory=false)"
        )
    arrays: dict[str, Any] = {}
    encoder = model.encoder_
    explain, note = _explain_data(model, fitted, training_rows)
    columns = encoder.columns_
    data = {
        "card": _card(model, name, fitted, note),
        **input_columns_of(encoder),
        "row": row_program(encoder, fitted, arrays),
        "moments": moments_program(encoder, fitted, arrays) if explain else None,
        "numbers": [j for j, column in enumerate(columns) if not column.is_categorical],
        "categories": [[j, column.n_categories] for j, column in enumerate(columns) if column.is_categorical],
        "never_missing": fitted.support.never_missing,
        "positions": POSITIONS,
        **_distribution_data(fitted),
        "target": _target_data(fitted),
        "reasons": REASONS,
        "curve": {"tail": CURVE_TAIL, "cells": CURVE_CELLS},
        "explain": explain,
    }
    result: dict[str, Any] = json_value(data)
    return {**result, "constants": dict(arrays.values())}


def remembering_experts(fitted: FittedModel) -> list[str]:
    """Names of the experts that predict with targets of training rows."""
    names = {
        member.expert_names[expert]
        for member in fitted.members
        if isinstance(member, ExpertTree)
        for expert in np.flatnonzero(member.expert_weights.any(axis=0))
    }
    return [name for name in REMEMBERING if name in names or (name == "memory" and fitted.memories)]


def _card(model: Any, name: str, fitted: FittedModel, note: str) -> dict[str, Any]:
    notes = [note] if note else []
    if fitted.seen is not None:
        notes.append("Rows with the features of a training row are predicted as new rows here.")
    return {"name": name, "class": type(model).__name__, "library": __version__, "notes": notes, **model_facts(model)}


def _distribution_data(fitted: FittedModel) -> dict[str, Any]:
    """Residual distributions of the groups, and conformal bounds by coverage in percent."""
    calibration = fitted.calibration
    assert isinstance(calibration, GroupCalibration | None)
    residuals = [standard_normal()] if calibration is None else calibration.residuals
    parts = ("knots", "density", "tail_mass", "tail_index", "mean", "std")
    return {
        "residuals": [{part: getattr(residual, part) for part in parts} for residual in residuals],
        "mean_weights": MEAN_WEIGHTS if calibration is not None and calibration.mean_of_knots else None,
        "group_of_leaf": np.zeros(fitted.tree.n_leaves, int) if calibration is None else calibration.group_of_leaf,
        "bounds": None
        if calibration is None
        else {percent: [_finite(ends) for ends in calibration.bounds(percent / 100)] for percent in COVERAGES},
    }


def _finite(ends: Floats) -> list[float] | None:
    return ends.tolist() if np.isfinite(ends).all() else None


def _target_data(fitted: FittedModel) -> dict[str, Any]:
    scale, target_map = fitted.target, fitted.target.target_map
    data: dict[str, Any] = {"mean": scale.mean, "std": scale.std, "map": None}
    if target_map is not None:
        names = ("low", "high", "log", "shift", "knee", "low_end", "high_end")
        data["map"] = {name: getattr(target_map, name) for name in names}
        if target_map.log:
            data["map"] |= {"levels": NODE_LEVELS, "weights": NODE_WEIGHTS}
    return data


def _explain_data(model: Any, fitted: FittedModel, training_rows: bool) -> tuple[dict[str, Any] | None, str]:
    """Background rows and orders of the columns, or why there are none."""
    background = fitted.kept.background
    if background is None:
        return None, ""
    if not training_rows and getattr(model._model_recipe().tree, "memory", False):
        return None, (
            "What drives the width is left out: it compares with training rows of the region "
            "(usnrt report --what-if --training-rows)."
        )
    columns = model.encoder_.columns_
    numeric = [j for j, column in enumerate(columns) if not column.is_categorical]
    rows = background.copy()
    for j, column in enumerate(columns):
        if column.is_categorical:  # category indices, see `usnrt.onnx`
            codes = background[..., j]
            n = column.n_categories
            rows[..., j] = np.where(np.isnan(codes), n + 1, np.where(codes < 0, n, codes))
    order = numeric + [j for j, column in enumerate(columns) if column.is_categorical]
    feature_of = {j: feature for feature, positions in enumerate(feature_groups(model)) for j in positions}
    orders, _ = orders_of(len(model.encoder_.source_names_), rows.shape[1])
    return {
        "backgrounds": rows[..., order],
        "orders": orders,
        "feature_of": [feature_of[j] for j in order],
        "names": model.encoder_.source_names_,
    }, ""
