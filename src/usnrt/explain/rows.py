"""Why a row is predicted as it is: contributions of its features, support, similar rows, in words."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from usnrt.estimators.tree_regressor import TreeRegressor
from usnrt.explain.explanation import Explanation, RowExplanation
from usnrt.explain.shapley import Moments, feature_groups, shapley_values
from usnrt.memory.retrieval import N_NEIGHBORS
from usnrt.model.background import background_of
from usnrt.tree.rules import number_text, region_text
from usnrt.utils.constraints import check_choice, check_number, check_whole
from usnrt.utils.types import Floats, TableLike

# Share of the variance from which the uncertainty of the mean is called a reason.
MUCH_DISAGREEMENT = 0.25
# Standard deviations below the average log density of training rows from which similar rows are called few.
SPARSE = -1.5
# Factor on the standard deviation from which the widening for lack of support is mentioned.
WIDENED = 1.01


class Evidence(NamedTuple):
    """What is measured about the uncertainty of a row; NaN what is not."""

    epistemic: float  # share of the variance that is uncertainty of the mean or lack of support; not of a single tree
    widening: float  # factor on the standard deviation for lack of support
    density: float  # log density of similar training rows in a memory, standardised by that of training rows
    spread: float  # standard deviation of the targets of similar training rows in a memory


def support_reasons(model: TreeRegressor, raw: Floats) -> list[list[str]]:
    """Why encoded rows do not resemble the training rows, empty for those that do."""
    support, found = model.model_.support, model.model_.measured_support(raw)
    low, high = support.low[found.region], support.high[found.region]
    reasons: list[list[str]] = []
    for i in range(len(raw)):
        own = []
        for j in np.flatnonzero((raw[i] < low[i]) | (raw[i] > high[i])):
            name, value = model.columns_[j].name, raw[i, j]
            side, bound = ("below", low[i, j]) if value < low[i, j] else ("above", high[i, j])
            own.append(f"{name} = {number_text(value, 3)} is {side} {number_text(bound, 3)}, the limit of its region")
        if found.unseen[i]:
            unseen = np.flatnonzero(support.categorical & (raw[i] == -1))
            own += [f"{model.columns_[j].name} is a category that training did not have" for j in unseen]
        if found.missing[i]:
            missing = np.flatnonzero(support.never_missing & np.isnan(raw[i]))
            own += [f"{model.columns_[j].name} is missing, which it never was in training" for j in missing]
        if found.far[i]:
            own.append("the combination of its numbers is far from all training rows")
        if found.unlike[i]:
            assert support.subjects is not None
            names = ", ".join(model.columns_[j].name for j in support.subjects.columns[:5])
            own.append(f"its subject is unlike all training subjects in {names}")
        reasons.append(own)
    return reasons


def advice(evidence: Evidence, unsupported: list[str]) -> list[str]:
    """What would narrow the interval of a row, in sentences; ``unsupported`` is from `support_reasons`.

    Examples
    --------
    >>> from usnrt.explain.rows import Evidence, advice
    >>> advice(Evidence(0.4, 1.0, 0.2, 2.0), [])
    ['More rows like this one: members disagree; uncertainty of the mean is 40 % of the variance.']
    """
    sentences = []
    if unsupported:
        factor = f", which makes the standard deviation {evidence.widening:.3g} times larger"
        sentences.append(
            f"More rows like this one: it does not resemble the training rows ({'; '.join(unsupported)})"
            f"{factor if evidence.widening > WIDENED else ''}."
        )
    # The epistemic part includes the widening, which is mentioned above.
    if evidence.epistemic >= MUCH_DISAGREEMENT and not unsupported:
        sentences.append(
            "More rows like this one: members disagree; uncertainty of the mean is "
            f"{100 * evidence.epistemic:.0f} % of the variance."
        )
    if evidence.density <= SPARSE:
        sentences.append(
            "More rows like this one: similar training rows are fewer or less similar than usual (log density "
            f"{-evidence.density:.1f} standard deviations below that of training rows)."
        )
    return sentences or [_noise_sentence(evidence)]


def _noise_sentence(evidence: Evidence) -> str:
    known = []
    if not np.isnan(evidence.epistemic):
        known.append(f"uncertainty of the mean is only {100 * evidence.epistemic:.0f} % of the variance")
    if not np.isnan(evidence.density):
        known.append("similar training rows are as many and as close as usual")
    if not known:
        return (
            "Not measured: a single tree without memory does not separate noise from lack of data. An ensemble would."
        )
    spread = ""
    if not np.isnan(evidence.spread):
        spread = f" The targets of similar training rows have a standard deviation of {evidence.spread:.3g}."
    return (
        f"Probably noise that stays with these columns: {' and '.join(known)}.{spread} More rows would help little; "
        "further columns may."
    )


def explain_rows(
    model: TreeRegressor,
    X: TableLike,
    coverage: float = 0.9,
    baseline: str = "region",
    *,
    n_neighbors: int = 5,
    background: TableLike = None,
    rounds: int = 1,
    seed: int = 0,
) -> Explanation:
    """Explain the predictions of rows; see `usnrt.USNRTRegressor.explain` for the parameters."""
    check_choice("baseline", baseline, ("region", "table"))
    check_number("coverage", coverage, 0, 1)
    check_whole("rounds", rounds, 1)
    check_whole("n_neighbors", n_neighbors, 1, N_NEIGHBORS)
    raw = model._encode(X)
    leaf, n_leaves = model.tree_.leaf_of(raw), model.tree_.n_leaves
    backgrounds = _backgrounds(model, background)
    group = leaf if baseline == "region" else np.full_like(leaf, n_leaves)
    moments = Moments(model)
    nearest = moments.nearest_supported(raw)
    found = shapley_values(moments, nearest, backgrounds, group, feature_groups(model), rounds, seed)
    predicted = model._predict_encoded(raw, [coverage])
    full = np.column_stack([predicted.distribution.mean(), predicted.distribution.std()])
    adjustment = full - moments(nearest)  # 0 for supported rows
    names, values = model.encoder_.source_names_, row_values(X, model.encoder_.source_names_)
    reasons, similar = support_reasons(model, raw), similar_training_rows(model, X, n_neighbors)
    evidence = measured(model, X, raw)
    rules = {
        node: region_text(model.tree_, node, model.columns_) for node in np.unique(model.tree_.apply(raw)).tolist()
    }
    rows = []
    for i, node in enumerate(model.tree_.apply(raw).tolist()):
        rows.append(
            RowExplanation(
                row=i,
                mean=float(full[i, 0]),
                std=float(full[i, 1]),
                lower=float(predicted.bounds[i, 0, 0]),
                upper=float(predicted.bounds[i, 1, 0]),
                coverage=coverage,
                region=node,
                rule=rules[node],
                baseline=baseline,
                values=values[i],
                base_mean=float(found.base[i, 0]),
                base_std=float(found.base[i, 1]),
                mean_contributions=dict(zip(names, found.values[i, :, 0].tolist())),
                std_contributions=dict(zip(names, found.values[i, :, 1].tolist())),
                mean_errors=dict(zip(names, found.errors[i, :, 0].tolist())),
                std_errors=dict(zip(names, found.errors[i, :, 1].tolist())),
                mean_adjustment=float(adjustment[i, 0]),
                std_adjustment=float(adjustment[i, 1]),
                unsupported=reasons[i],
                neighbors=None if similar is None else similar[i],
                advice=advice(evidence[i], reasons[i]),
            )
        )
    return Explanation(rows, model.target_name_)


def _backgrounds(model: TreeRegressor, background: TableLike) -> Floats:
    """Background rows per region and of the whole table, shape (n_leaves + 1, b, d)."""
    if background is not None:
        raw = model._encode(background)
        return background_of(raw, model.tree_.leaf_of(raw), model.tree_.n_leaves)
    kept = model.model_.kept.background
    if kept is None:
        raise ValueError(
            "explain needs background rows, since this model kept none in fit; pass some rows of the training table "
            "as background"
        )
    return kept


def measured(model: TreeRegressor, X: TableLike, raw: Floats) -> list[Evidence]:
    """What is known about the reasons for the uncertainty of each row."""
    n = len(raw)
    dist = model._predict_dist(raw)
    epistemic = np.full(n, np.nan) if dist.epistemic is None else dist.epistemic / np.maximum(dist.var(), 1e-300)
    widening = model.predict_support(X)["widening"]
    held = model.model_.memories
    density, spread = np.full((2, n), np.nan)
    if held:
        inputs = model.model_.inputs.transform(raw)
        retrieved = [memory.predict(inputs) for memory in held]
        # The third guide of the network is the log density, standardised by the training rows.
        density = np.mean([memory.guides(found)[:, 2] for memory, found in zip(held, retrieved)], axis=0)
    if held and model.row_positions_ is not None:
        spread = _spread_of_neighbors(model, X, n)
    return [Evidence(*map(float, values)) for values in zip(epistemic, widening, density, spread)]


def _spread_of_neighbors(model: TreeRegressor, X: TableLike, n: int) -> Floats:
    """Weighted standard deviation of the targets of similar training rows."""
    found = model.neighbors(X, N_NEIGHBORS)
    row, weight, target = found["row"], found["weight"], found["target"]
    total = np.maximum(np.bincount(row, weight, n), 1e-300)
    mean = np.bincount(row, weight * target, n) / total
    return np.sqrt(np.bincount(row, weight * (target - mean[row]) ** 2, n) / total)


def similar_training_rows(model: TreeRegressor, X: TableLike, n_neighbors: int) -> list[list[dict[str, Any]]] | None:
    """The most similar training rows of each row; None for models without memory.

    Each has ``position``, ``weight`` and ``target``, and ``features`` if the model was fitted with
    ``memory="examples"``.
    """
    if model.row_positions_ is None or not model.model_.memories:
        return None
    found = model.neighbors(X, n_neighbors)
    place = {position: place for place, position in enumerate(model.row_positions_.tolist())}
    similar: list[list[dict[str, Any]]] = [[] for _ in range(len(model._encode(X)))]
    for row, position, weight, target in zip(*(found[name].tolist() for name in found.columns)):
        entry = {"position": position, "weight": weight, "target": target}
        if model.model_.kept.examples is not None:
            entry["features"] = _example(model, model.model_.kept.examples, place[position])
        similar[row].append(entry)
    return similar


def _example(model: TreeRegressor, examples: list[NDArray[Any]], place: int) -> dict[str, Any]:
    """A row of the memory as it was given."""
    booleans = {column.source for column in model.columns_ if column.boolean}
    row = {}
    for name, values in zip(model.encoder_.source_names_, examples):
        value = values[place]
        row[name] = bool(value) if name in booleans and value == value else plain_value(value)
    return row


def row_values(X: TableLike, names: Sequence[str], rows: NDArray[Any] | None = None) -> list[dict[str, Any]]:
    """Rows of a table in the user's terms, all by default; ``names`` are those of the columns of tables without names.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.explain.rows import row_values
    >>> row_values(np.array([[1.5, 2.0], [3.0, np.nan]]), ["x0", "x1"])
    [{'x0': 1.5, 'x1': 2.0}, {'x0': 3.0, 'x1': None}]
    """
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        chosen = frame if rows is None else frame[[int(row) for row in rows]]
        return [{str(k): plain_value(v) for k, v in row.items()} for row in chosen.rows(named=True)]
    table = np.asarray(X, dtype=object if isinstance(X, list) else None)
    table = table if rows is None else table[rows]
    return [dict(zip(names, map(plain_value, row))) for row in table.tolist()]


def plain_value(value: Any) -> Any:
    """A cell as a Python value; None if it is missing."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value.astype("datetime64[s]").item().isoformat(sep=" ")
    value = value.item() if isinstance(value, np.generic) else value
    try:
        return None if value is None or bool(value != value) else value
    except TypeError:  # pandas.NA
        return None
