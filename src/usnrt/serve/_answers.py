"""Answers of the service: predictions of rows, with what a client asked for."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from usnrt.distributions import Distribution
from usnrt.serve._columns import InputColumns, take_rows
from usnrt.serve._errors import RequestError
from usnrt.utils.names import shown_value
from usnrt.utils.result_table import json_value
from usnrt.whatif.card import CURVE_CELLS, CURVE_TAIL, REASONS

MOST_QUANTILES = 100


@dataclass(frozen=True)
class Options:
    """What a request asks for."""

    coverage: float = 0.9
    quantiles: tuple[float, ...] = (0.1, 0.5, 0.9)
    above: float | None = None  # a limit whose exceedance gets a probability
    explain: bool = False
    curve: bool = False  # whether the distribution is described for drawing


def options_of(given: Mapping[str, Any]) -> Options:
    """Options from the members of a JSON body, or from the query string, whose values are text."""
    unknown = sorted(set(given) - set(Options.__dataclass_fields__))
    if unknown:
        names = ", ".join(Options.__dataclass_fields__)
        raise RequestError(422, "invalid_option", f"options must be among {names}, got {unknown[0]!r}")
    options = Options(**{name: _option(name, value) for name, value in given.items() if value is not None})
    for name, levels in (("coverage", [options.coverage]), ("quantiles", options.quantiles)):
        outside = [level for level in levels if not 0 < level < 1]
        if outside:
            raise RequestError(422, "invalid_option", f"{name} must be in (0, 1), got {outside[0]:g}")
    if len(options.quantiles) > MOST_QUANTILES:
        sentence = f"quantiles must be at most {MOST_QUANTILES}, got {len(options.quantiles)}"
        raise RequestError(422, "invalid_option", sentence)
    return options


def _option(name: str, value: Any) -> Any:
    try:
        if name in ("explain", "curve"):
            return {"true": True, "1": True, "false": False, "0": False}[str(value).lower()]
        if name == "quantiles":
            levels = value.split(",") if isinstance(value, str) else value
            return tuple(_finite(level) for level in levels)
        return _finite(value)
    except (KeyError, OverflowError, TypeError, ValueError):
        kinds = {"explain": "true or false", "curve": "true or false", "quantiles": "a list of numbers"}
        sentence = f"{name} must be {kinds.get(name, 'a number')}, got {shown_value(value)}"
        raise RequestError(422, "invalid_option", sentence) from None


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not np.isfinite(number := float(value)):
        raise ValueError
    return number


def predict_rows(model: Any, table: Any, options: Options, rules: Mapping[int, str]) -> list[dict[str, Any]]:
    """One dictionary of JSON values per row; ``rules`` are those of the regions."""
    predicted = model.predict_table(table, options.coverage)
    names = predicted.column_names if hasattr(predicted, "column_names") else predicted.columns
    columns = {name: np.asarray(predicted[name]) for name in names}
    if "region" in columns:
        columns["rule"] = np.array([rules.get(region) for region in columns["region"].tolist()], dtype=object)
    if "supported" in columns:
        columns["reasons"] = _reasons(model, table, columns["supported"])
    if options.quantiles or options.above is not None or options.curve:
        columns |= _of_distribution(model.predict_dist(table), options)
    if options.explain:
        columns["explanation"] = _explanations(model, table, options.coverage)
    lists = [values.tolist() for values in columns.values()]
    rows: list[dict[str, Any]] = json_value([dict(zip(columns, values)) for values in zip(*lists)])
    return rows


def _of_distribution(dist: Distribution, options: Options) -> dict[str, Any]:
    """Columns that need the distributions."""
    columns: dict[str, Any] = {}
    if options.quantiles:
        names = [f"{level:g}" for level in options.quantiles]
        values = dist.ppf(list(options.quantiles)).tolist()
        columns["quantiles"] = _objects([dict(zip(names, row)) for row in values])
    if options.above is not None:
        columns["probability_above"] = dist.sf(options.above)
    if options.curve:
        columns["curve"] = _objects([curve(dist[row]) for row in range(len(dist))])
    return columns


def curve(dist: Distribution) -> dict[str, list[float]]:
    """The distribution of one row in cells: their edges, and the probability of each.

    The first and the last cell contain what is beyond them, so that the probabilities sum to 1; a point mass is a high
    cell.
    """
    low, high = dist.ppf([CURVE_TAIL, 1.0 - CURVE_TAIL])[0].tolist()
    margin = max((high - low) / CURVE_CELLS, 1e-9 * max(abs(low), abs(high), 1e-300))
    edges = np.linspace(low - margin, high + margin, CURVE_CELLS + 1)
    below = dist.cdf(edges[None, :])[0]
    below[0], below[-1] = 0.0, 1.0
    return {"edges": edges.tolist(), "probability": np.diff(below).tolist()}


def _reasons(model: Any, table: Any, supported: Any) -> Any:
    """Why rows do not resemble the training rows; empty lists for those that do."""
    reasons: list[list[str]] = [[] for _ in range(len(supported))]
    lacking = np.flatnonzero(~supported)
    if len(lacking):
        found = model.predict_support(take_rows(table, lacking))
        for place, row in enumerate(lacking.tolist()):
            reasons[row] = [text for name, text in REASONS.items() if name in found and found[name][place]]
    return _objects(reasons)


def _explanations(model: Any, table: Any, coverage: float) -> Any:
    if not hasattr(model, "explain"):
        raise RequestError(422, "invalid_option", f"explain must be false for a {type(model).__name__}")
    try:
        explained = model.explain(table, coverage=coverage).to_dict()["rows"]
    except ValueError as error:
        raise RequestError(422, "invalid_option", f"the rows cannot be explained: {error}") from None
    kept = ("base_mean", "base_std", "mean_contributions", "std_contributions", "mean_adjustment", "std_adjustment")
    return _objects([{name: row[name] for name in (*kept, "unsupported", "neighbors", "advice")} for row in explained])


def _objects(values: Sequence[Any]) -> Any:
    """A column of lists or dictionaries."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Predictions as CSV: quantiles are columns, reasons are joined; explanations and curves are left out."""
    flat = []
    for row in rows:
        own = {name: value for name, value in row.items() if name not in ("quantiles", "explanation", "curve")}
        own |= {f"q{level}": value for level, value in (row.get("quantiles") or {}).items()}
        flat.append(own | ({"reasons": "; ".join(own["reasons"])} if "reasons" in own else {}))
    text = io.StringIO()
    writer = csv.DictWriter(text, list(flat[0]) if flat else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def check_rows(columns: InputColumns, rows: Any, most: int) -> None:
    """Raise a `RequestError` unless rows are a list of 1 to ``most`` entries."""
    if not isinstance(rows, list):
        example = json_value(columns.example())
        raise RequestError(
            422, "invalid_rows", 'the body must be {"rows": [{column: value, ...}, ...]}', example={"rows": [example]}
        )
    if not rows:
        raise RequestError(422, "invalid_rows", "rows must have at least one entry")
    if len(rows) > most:
        raise RequestError(413, "too_many_rows", f"a request may have at most {most:,} rows")
