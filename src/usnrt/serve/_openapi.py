"""The OpenAPI description: one path per model, with the model's own columns."""

from collections.abc import Sequence
from typing import Any

from usnrt._version import __version__
from usnrt.serve._models import ServedModel

NUMBER, TEXT = {"type": "number"}, {"type": "string"}
OPTIONS: dict[str, Any] = {
    "coverage": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.9},
    "quantiles": {"type": "array", "items": NUMBER, "default": [0.1, 0.5, 0.9], "description": "Levels in (0, 1)."},
    "above": {"type": ["number", "null"], "description": "Also predict the probability of values above this limit."},
    "explain": {"type": "boolean", "default": False, "description": "Explain mean and standard deviation."},
    "curve": {"type": "boolean", "default": False, "description": "Add the distribution in cells, for drawing."},
}
PREDICTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "mean": NUMBER,
        "std": NUMBER,
        "lower": {**NUMBER, "description": "Lower end of the interval."},
        "upper": {**NUMBER, "description": "Upper end of the interval."},
        "quantiles": {"type": "object", "additionalProperties": NUMBER, "description": "By level."},
        "probability_above": NUMBER,
        "region": {"type": "integer"},
        "rule": {**TEXT, "description": "The region in words."},
        "supported": {"type": "boolean", "description": "Whether the row resembles the training rows."},
        "reasons": {"type": "array", "items": TEXT, "description": "Why it does not."},
        "guaranteed": {
            "type": "boolean",
            "description": "Whether there are enough calibration rows to guarantee the coverage.",
        },
        "curve": {"type": "object"},
        "explanation": {"type": "object"},
    },
    "required": ["mean", "std", "lower", "upper"],
}
ERROR: dict[str, Any] = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"code": TEXT, "message": TEXT, "row": {"type": "integer"}, "column": TEXT},
            "required": ["code", "message"],
        }
    },
}
STATUSES = {
    "400": "The body cannot be read",
    "401": "The token is missing or wrong",
    "408": "The body did not arrive in time",
    "413": "The body is too large, or has too many rows",
    "415": "The body is neither JSON nor CSV",
    "422": "Rows or options are invalid",
    "503": "The service is busy, or the prediction took too long",
}


def openapi(models: Sequence[ServedModel], has_token: bool) -> dict[str, Any]:
    """The description of the service.

    Parameters
    ----------
    models : sequence of ServedModel
    has_token : bool
        Whether requests need one.
    """
    paths = {f"/models/{model.name}/predict": {"post": _predict(model)} for model in models}
    paths["/predict"] = {
        "post": {**_predict(models[0]), "operationId": "predict", "summary": "Predict by the first model"}
    }
    for path, summary in (
        ("/health", "Whether the service is ready"),
        ("/version", "Versions"),
        ("/models", "Names of the models"),
        ("/metrics", "Figures for monitoring, as Prometheus reads them"),
        *((f"/models/{model.name}", f"Model card of {model.name}") for model in models),
    ):
        paths[path] = {"get": {"summary": summary, "responses": {"200": {"description": summary}}}}
    paths["/reload"] = {
        "post": {"summary": "Load model files that have changed", "responses": {"200": {"description": "Done"}}}
    }
    components: dict[str, Any] = {"schemas": {"Prediction": PREDICTION, "Error": ERROR}}
    components["schemas"] |= {f"Row of {model.name}": model.columns.schema() for model in models}
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "usnrt", "version": __version__, "description": "Calibrated predictive distributions."},
        "paths": paths,
        "components": components,
    }
    if has_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        described["security"] = [{"token": []}]
    return described


def _predict(model: ServedModel) -> dict[str, Any]:
    """The operation that predicts rows by a model."""
    row = {"$ref": f"#/components/schemas/Row of {model.name}".replace(" ", "%20")}
    rows = {"type": "array", "items": row, "minItems": 1}
    body = {"type": "object", "properties": {"rows": rows, **OPTIONS}, "required": ["rows"]}
    answer = {
        "type": "object",
        "properties": {
            "model": TEXT,
            "target": {"type": ["string", "null"]},
            "predictions": {"type": "array", "items": {"$ref": "#/components/schemas/Prediction"}},
            "ignored": {"type": "array", "items": TEXT, "description": "Columns that the model does not have."},
        },
    }
    errors = {
        status: {
            "description": text,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
        for status, text in STATUSES.items()
    }
    example = {"rows": [model.columns.example()]}
    return {
        "operationId": f"predict_{model.name}",
        "summary": f"Predict {model.card['target'] or 'the target'} by {model.name}",
        "description": "CSV has a header; options are then in the query string. `Accept: text/csv` gets CSV.",
        "parameters": [
            {"name": name, "in": "query", "required": False, "schema": schema} for name, schema in OPTIONS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": body, "example": example}, "text/csv": {"schema": TEXT}},
        },
        "responses": {
            "200": {
                "description": "Predictions, one per row",
                "content": {"application/json": {"schema": answer}, "text/csv": {"schema": TEXT}},
            },
            **errors,
        },
    }
