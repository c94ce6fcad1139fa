"""A model in facts: the columns that it asks for, in the user's terms, and what pages show beside its predictions."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from usnrt.estimators.regions import has_examples, rows_in_memory
from usnrt.utils.result_table import json_value

# Why a row does not resemble the training rows, by the columns of `predict_support`.
REASONS = {
    "outside_range": "a number is outside the range that it had in the training rows of its region",
    "unseen_category": "a category that training did not have",
    "unexpected_missing": "a value is missing that never was in training",
    "far": "the combination of its numbers is far from all training rows",
    "unlike_subjects": "its subject is unlike all training subjects",
}
# Probability that the drawn part of a distribution leaves out on each side, and the cells that it is drawn in.
CURVE_TAIL, CURVE_CELLS = 0.002, 120

Kind = Literal["number", "boolean", "text", "date", "ignored"]


@dataclass(frozen=True)
class InputColumn:
    """A column of the model's table; one whose values were all missing in fit is ignored.

    The range is that of the numbers, or of the years of dates, in the training rows, with the margin of the model's
    support.
    """

    name: str
    kind: Kind
    categories: tuple[Any, ...] = ()  # numbers if they are codes
    low: float | None = None
    high: float | None = None
    has_missing: bool = False  # in fit
    typical: float | None = None  # as it is encoded

    def schema(self) -> dict[str, Any]:
        """The column as JSON schema; values beyond the range or the categories are allowed, but not supported."""
        types = {"number": "number", "boolean": "boolean", "text": "string", "date": "string"}
        described: dict[str, Any] = {"type": [types.get(self.kind, "null"), "null"]}
        sentences = []
        if self.kind == "ignored":
            return {"description": "Ignored: it was empty in the training rows."}
        if self.kind == "date":
            described["format"] = "date-time"
        if self.categories:
            described["x-categories"] = list(self.categories)
            sentences.append(f"one of {len(self.categories)} categories of the training rows")
        if self.low is not None:
            described["x-range"] = [self.low, self.high]
            what = "years" if self.kind == "date" else "range"
            sentences.append(f"{what} of the training rows: {self.low:g} to {self.high:g}")
        if not self.has_missing:
            sentences.append("never missing in the training rows")
        return described | ({"description": "; ".join(sentences)} if sentences else {})

    def to_dict(self) -> dict[str, Any]:
        """The column for the model card."""
        categories = {"categories": list(self.categories)} if self.categories else {}
        bounds = {} if self.low is None else {"range": [self.low, self.high]}
        return {"name": self.name, "type": self.kind, **categories, **bounds, "missing_in_training": self.has_missing}

    def example(self) -> Any:
        """What a typical training row has: the most frequent category, or the median of the numbers."""
        if self.kind == "boolean":
            return bool(self.typical)
        if self.categories:
            return self.categories[int(self.typical or 0)]
        if self.typical is None:
            return {"number": 0.0, "date": "2000-01-01"}.get(self.kind)
        return f"{round(self.typical):04d}-07-01" if self.kind == "date" else float(f"{self.typical:.4g}")


def input_columns(model: Any) -> list[InputColumn]:
    """The columns of the user's table, from those that the encoder of a fitted model made of them.

    Examples
    --------
    >>> from usnrt import USNRTRegressor
    >>> from usnrt.whatif.card import input_columns
    >>> model = USNRTRegressor(max_epochs=1, random_state=0).fit([[i / 10, i % 2] for i in range(40)], range(40))
    >>> [column.to_dict()["type"] for column in input_columns(model)]
    ['number', 'number']
    """
    encoder, (low, high), typical = model.encoder_, _ranges(model), _typical(model)
    result = []
    for index, (name, kind) in enumerate(zip(encoder.source_names_, encoder.source_types_)):
        encoded = [(j, column) for j, column in enumerate(encoder.columns_) if column.source_index == index]
        if kind == "empty" or not encoded:
            result.append(InputColumn(name, "ignored" if kind == "empty" else kind))
            continue
        of_range = [j for j, column in encoded if column.part in ("", "year") and not column.is_categorical]
        position = of_range[0] if of_range else -1
        first, column = encoded[0]
        is_boolean = column.boolean and kind == "number"
        ends = (None, None) if is_boolean else (low.get(position), high.get(position))
        if kind == "date" and ends[0] is not None and ends[1] is not None:  # whole years, without the margin
            ends = (math.ceil(ends[0]), math.floor(ends[1]))
        result.append(
            InputColumn(
                name,
                "boolean" if is_boolean else kind,
                () if is_boolean else tuple(column.codes or column.categories),
                *ends,
                column.has_missing,
                typical.get(first if column.is_categorical else position),
            )
        )
    return result


def _ranges(model: Any) -> tuple[dict[int, float], dict[int, float]]:
    """Ranges of the encoded columns in all training rows, by position; the only place that knows where they are."""
    support = getattr(getattr(model, "model_", None), "support", None)
    if support is None:
        return {}, {}
    ends = zip(support.low[-1].tolist(), support.high[-1].tolist())
    finite = {j: pair for j, pair in enumerate(ends) if all(map(math.isfinite, pair))}
    return {j: low for j, (low, _) in finite.items()}, {j: high for j, (_, high) in finite.items()}


def _typical(model: Any) -> dict[int, float]:
    """The typical value of each encoded column in all training rows: their medians, or most frequent codes."""
    background = getattr(model, "background_", None)
    if background is None:  # such as a model of the paper: the middle of the range
        low, high = _ranges(model)
        return {j: (low[j] + high[j]) / 2.0 for j in low}
    found = {}
    for j, column in enumerate(model.encoder_.columns_):
        values = np.sort(background[-1, :, j])
        values = values[np.isfinite(values)]
        if column.is_categorical:  # neither missing nor the rest of many categories, which has no value
            values = values[(values >= 0) & (values < column.n_categories - column.rest)]
        if len(values):
            codes, counts = np.unique(values, return_counts=True)
            found[j] = float(codes[np.argmax(counts)] if column.is_categorical else values[len(values) // 2])
    return found


def model_facts(model: Any) -> dict[str, Any]:
    """A fitted model in facts, as values that JSON can hold; they contain no rows of the training table."""
    defaults, columns = type(model)().get_params(deep=False), input_columns(model)
    changed = {key: value for key, value in model.get_params(deep=False).items() if value != defaults[key]}
    facts = {
        "target": model.target_name_,
        "columns": [column.to_dict() for column in columns],
        "example": {column.name: column.example() for column in columns},
        "regions": model.rules().rows() if hasattr(model, "rules") else [],
        "calibrated": getattr(model, "calibration_", None) is not None,
        "training_rows_in_memory": rows_in_memory(model),
        "unmodified_training_rows": has_examples(model),
        "parameters": {key: value for key, value in changed.items() if key not in ("verbose", "callbacks")},
    }
    result: dict[str, Any] = json_value(facts)
    return result
