"""Models of the user as experts: cross-fitted, with the distribution of their errors in each region."""

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from usnrt.experts.base import MIN_STANDARD_ERRORS, Query
from usnrt.experts.cross_fit import CrossFitted
from usnrt.nn.quantiles import LEVELS, POSITIONS
from usnrt.tables.form import TableForm
from usnrt.tables.training import GivenRows, TrainingTable, TreeRows
from usnrt.utils.context import FitContext
from usnrt.utils.schema import Array, Bool, Float, Int, Many, Schema, Text, one
from usnrt.utils.types import Floats, Rows

N_FOLDS = 5
# The errors of the whole table, scaled to the region's, count as much as this many rows of a region.
PRIOR_ROWS = 30.0


@dataclass(frozen=True)
class ModelExpert:
    """A fitted model of the user, whose predictions are the centre of a distribution of errors.

    Attributes
    ----------
    name : str
    form : TableForm
        The form of the rows that the model is given.
    center, unit : float
        The model predicts ``center + unit * y``, where y is the scaled target.
    spread : ndarray of shape (n_leaves, n_positions)
        Quantiles of the errors in each region.
    n_inputs : int
    _model : object
        With ``predict``; no part of model files.
    """

    name: str
    form: TableForm
    center: float
    unit: float
    spread: Floats
    n_inputs: int
    _model: Any = None

    max_weight: ClassVar[float] = 1.0
    min_errors: ClassVar[float] = MIN_STANDARD_ERRORS
    FIELDS: ClassVar[Schema] = {
        "name": Text(),
        "form": one("TableForm"),
        "center": Float(),
        "unit": Float(5e-324),
        "spread": Array("f8", ("n_leaves", len(POSITIONS))),
        "n_inputs": Int(1, size="n_inputs"),
    }

    def means(self, raw: Floats) -> Floats:
        """Predictions of the model for encoded rows, in units of the scaled target, shape (n,)."""
        if len(raw) == 0:
            return np.zeros(0)
        predicted = np.asarray(self._model.predict(self.form.decode(raw)), dtype=np.float64)
        if predicted.size != len(raw) or not np.isfinite(predicted).all():
            raise ValueError(
                f"{self.name}.predict must return one finite number per row, got an array of shape {predicted.shape}"
                + ("" if np.isfinite(predicted).all() else " with NaN or infinite values")
            )
        return (predicted.reshape(len(raw)) - self.center) / self.unit

    def quantile_functions(self, query: Query) -> Floats:
        """See `usnrt.experts.base.Expert`."""
        quantiles: Floats = self.means(query.raw)[:, None] + self.spread[query.leaf]
        return quantiles

    def fits_together(self) -> bool:
        """See `usnrt.experts.base.FittedExpert`."""
        return bool((np.diff(self.spread, axis=1) >= 0).all())

    def to_onnx(self, graph: Any, query: Mapping[str, str]) -> str:
        """Refused: there is no graph of an unknown model."""
        raise ValueError(f"to_onnx needs a model of usnrt's own experts only, got one with {self.name}")


FORM_FIELDS: Schema = {
    "columns": Many(one("Column"), "n_columns"),
    "dtypes": Many(Text(), "n_columns"),
    "is_frame": Bool(),
    "typical": Array("f8", ("n_columns",), special="any"),
}


def fit_models(models: Sequence[Any], rows: TreeRows, context: FitContext, in_time_order: bool) -> list[CrossFitted]:
    """Fit clones of models to the rows without each fold.

    `completed` fits those with a weight to all rows.

    Parameters
    ----------
    models : sequence of regressors
    rows : TreeRows
    context : FitContext
    in_time_order : bool
        Whether validation rows are later than training rows: then there are two folds, these and those.
    """
    fold_of = np.where(rows.is_validation, 0, 1)
    if not in_time_order:
        rng = np.random.default_rng(np.random.SeedSequence(context.seed, spawn_key=(3, 0, 7)))
        fold_of = draw_folds(rows.table, rng)
    n_folds, names = int(fold_of.max()) + 1, model_names(models)
    cross_fitted = []
    for model, name in zip(models, names):
        parts = []
        for fold in range(n_folds):
            others = np.flatnonzero(fold_of != fold)
            parts.append(_fitted(model, name, rows, others if len(others) else np.arange(len(fold_of)), context))
        expert = CrossFitted(parts[0], tuple(parts), fold_of)
        cross_fitted.append(with_spread(expert, rows.table, np.zeros(len(fold_of), dtype=np.int64), 1))
    return cross_fitted


def completed(expert: CrossFitted, model: Any, rows: TreeRows, context: FitContext, in_time_order: bool) -> CrossFitted:
    """The expert whose final model is fitted to all rows; in the order of time, to the training rows."""
    part = expert.parts[0]
    if in_time_order:
        return replace(expert, final=part)
    fitted = _fitted(model, part.name, rows, np.arange(len(expert.fold_of)), context)
    return replace(expert, final=replace(fitted, spread=part.spread))


def with_spread(expert: CrossFitted, table: TrainingTable, leaf: NDArray[np.int64], n_leaves: int) -> CrossFitted:
    """The expert with the distribution of its out-of-fold errors in each region.

    Parameters
    ----------
    expert : CrossFitted
        Of a model of the user.
    table : TrainingTable
    leaf : ndarray of int of shape (n,)
        Region of each row.
    n_leaves : int
    """
    errors = table.y.copy()
    for fold, part in enumerate(expert.parts):
        own = np.flatnonzero(expert.fold_of == fold)
        errors[own] -= part.means(table.raw[own])
    spread = _region_quantiles(errors, table.weight, leaf, n_leaves)
    final, *parts = (replace(part, spread=spread) for part in (expert.final, *expert.parts))
    return replace(expert, final=final, parts=tuple(parts))


def draw_folds(table: TrainingTable, rng: np.random.Generator) -> NDArray[np.int64]:
    """A fold of each row; rows of a group are together."""
    _, group = np.unique(np.arange(table.n_rows) if table.group is None else table.group, return_inverse=True)
    n_groups = int(group.max()) + 1
    folds: NDArray[np.int64] = rng.permutation(np.arange(n_groups) % min(N_FOLDS, n_groups))[group]
    return folds


def model_names(models: Sequence[Any]) -> list[str]:
    """Names of models: their classes, of pipelines those of their last steps, numbered where they are equal.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from usnrt.experts.user_model import model_names
    >>> model_names([Ridge(), make_pipeline(StandardScaler(), Ridge())])
    ['Ridge', 'Ridge 2']
    """
    names: list[str] = []
    for model in models:
        name = type(_last_step(model)).__name__
        count = sum(other.split(" ")[0] == name for other in names)
        names.append(name if count == 0 else f"{name} {count + 1}")
    return names


def _last_step(model: Any) -> Any:
    steps = getattr(model, "steps", None)
    return _last_step(steps[-1][1]) if steps else model


def _fitted(model: Any, name: str, rows: TreeRows, training: Rows, context: FitContext) -> ModelExpert:
    """A clone, fitted to some rows."""
    context.progress.check()
    given, table = rows.given, rows.table
    assert given is not None
    own = _clone(model, context.seed)
    training, arguments = _weighted(own, training, table.weight)
    own.fit(given.form.decode(table.raw[training]), given.target[training], **arguments)
    return _expert(own, name, given, table.inputs.shape[1])


def _expert(model: Any, name: str, given: GivenRows, n_inputs: int) -> ModelExpert:
    return ModelExpert(name, given.form, given.center, given.unit, np.zeros((1, len(LEVELS))), n_inputs, model)


def _clone(model: Any, seed: Any) -> Any:
    """An unfitted copy whose random states, where they are None, follow from the seed."""
    from sklearn.base import clone

    try:
        own = clone(model, safe=False)
    except RuntimeError:  # CatBoost copies its list of categorical features, which `clone` does not allow
        own = copy.deepcopy(model)
    if hasattr(own, "get_params"):
        drawn = int(np.random.SeedSequence(seed, spawn_key=(4, 0, 7)).generate_state(1)[0]) % 2**31
        names = [name for name in own.get_params() if name.split("__")[-1] == "random_state"]
        own.set_params(**{name: drawn for name in names if own.get_params()[name] is None})
    return own


def _weighted(model: Any, training: Rows, weight: Floats) -> tuple[Rows, dict[str, Floats]]:
    """Rows and further arguments of ``fit``: weights if it takes them, else each row as often as it counts."""
    own = weight[training]
    if (own == own[0]).all():
        return training, {}
    argument = _weight_argument(model)
    if argument is not None:
        return training, {argument: own}
    return np.repeat(training, np.maximum(np.rint(own), 1).astype(np.intp)), {}


def _weight_argument(model: Any) -> str | None:
    """Name of the weights among the arguments of ``fit``; of a pipeline, those of its last step."""
    steps = getattr(model, "steps", None)
    if steps:
        name, last = steps[-1]
        inner = _weight_argument(last)
        return None if inner is None else f"{name}__{inner}"
    try:
        parameters = inspect.signature(model.fit).parameters
    except (TypeError, ValueError):
        return None
    return "sample_weight" if "sample_weight" in parameters else None


def _region_quantiles(errors: Floats, weight: Floats, leaf: NDArray[np.int64], n_leaves: int) -> Floats:
    """Quantiles of errors in each region, with those of the table, scaled to the region, as a prior."""
    counts = np.bincount(leaf, weights=weight, minlength=n_leaves)
    overall = float(np.average(np.abs(errors), weights=weight))
    sums = np.bincount(leaf, weights=weight * np.abs(errors), minlength=n_leaves)
    typical = (sums + PRIOR_ROWS * overall) / (counts + PRIOR_ROWS)
    quantiles = np.empty((n_leaves, len(LEVELS)))
    for region in range(n_leaves):
        own = leaf == region
        values = np.concatenate([errors[own], errors * (typical[region] / max(overall, 1e-300))])
        weights = np.concatenate([weight[own], weight * (PRIOR_ROWS / weight.sum())])
        order = np.argsort(values, kind="stable")
        total = np.cumsum(weights[order])
        quantiles[region] = np.interp(LEVELS * total[-1], total - 0.5 * weights[order], values[order])
    return quantiles
