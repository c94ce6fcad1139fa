"""The OpenAPI description: one path per model, with the model's own columns."""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

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
    """The description of the service; ``has_token`` if requests need one."""
    paths = {f"{path_of(model)}/predict": {"post": _predict(model)} for model in models}
    paths["/predict"] = {
        "post": {**_predict(models[0]), "operationId": "predict", "summary": "Predict by the first model"}
    }
    for path, summary in (
        ("/health", "Whether the service is ready"),
        ("/version", "Versions"),
        ("/models", "Names of the models"),
        ("/metrics", "Figures for monitoring, as Prometheus reads them"),
        *((path_of(model), f"Model card of {model.name}") for model in models),
    ):
        paths[path] = {"get": {"summary": summary, "responses": {"200": {"description": summary}}}}
    paths["/reload"] = {
        "post": {"summary": "Load model files that have changed", "responses": {"200": {"description": "Done"}}}
    }
    components: dict[str, Any] = {"schemas": {"Prediction": PREDICTION, "Error": ERROR}}
    components["schemas"] |= {row_name(model): model.columns.schema() for model in models}
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


def path_of(model: ServedModel) -> str:
    """The path of a model, whatever its name."""
    return f"/models/{quote(model.name, safe='')}"


def row_name(model: ServedModel) -> str:
    """The name of the schema of a model's rows; OpenAPI allows letters, digits, dots, hyphens and underscores."""
    plain = re.sub(r"[^A-Za-z0-9.-]", "_", model.name)
    return f"Row_{plain}" if plain == model.name else f"Row_{plain}_{model.card['sha256'][:8]}"


def _predict(model: ServedModel) -> dict[str, Any]:
    """The operation that predicts rows by a model."""
    row = {"$ref": f"#/components/schemas/{row_name(model)}"}
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
        "operationId": f"predict_{row_name(model)}",
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
