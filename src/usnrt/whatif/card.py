"""What the what-if page shows of a model beside its predictions."""

from typing import Any

from usnrt.estimators.regions import has_examples, rows_in_memory
from usnrt.utils.result_table import json_value
from usnrt.whatif.columns import input_columns

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


def model_facts(model: Any) -> dict[str, Any]:
    """A model in facts, as values that JSON can hold; they contain no rows of the training table.

    Parameters
    ----------
    model : DistributionalRegressor
        Fitted.

    Examples
    --------
    >>> from usnrt import USNRTRegressor
    >>> from usnrt.whatif.card import model_facts
    >>> model = USNRTRegressor(max_epochs=1, random_state=0).fit([[i / 10, i % 2] for i in range(40)], range(40))
    >>> facts = model_facts(model)
    >>> facts["parameters"], facts["example"]
    ({'max_epochs': 1, 'random_state': 0}, {'x0': 1.95, 'x1': 0.5})
    """
    defaults, columns = type(model)().get_params(deep=False), input_columns(model)
    changed = {key: value for key, value in model.get_params(deep=False).items() if value != defaults[key]}
    facts = {
        "target": model.target_name_,
        "columns": [column.to_dict() for column in columns],
        "example": {column.name: column.middle() for column in columns},
        "regions": model.rules().rows() if hasattr(model, "rules") else [],
        "calibrated": getattr(model, "calibration_", None) is not None,
        "training_rows_in_memory": rows_in_memory(model),
        "unmodified_training_rows": has_examples(model),
        "parameters": {key: value for key, value in changed.items() if key not in ("verbose", "callbacks")},
    }
    result: dict[str, Any] = json_value(facts)
    return result
