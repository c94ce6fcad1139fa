"""The first step of the graph: a table as users have it becomes numbers and places of categories.

A category's *place* is its code, 0 to K - 1; K for one that training did not see, K + 1 where it is missing. So
everything that a category decides, in networks as in splits, is a row of a table with K + 2 rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.onnx._graph import ML_DOMAIN, Graph, whole
from usnrt.tables import Column, TableEncoder, read_table

OUTPUTS = ("mean", "std", "region", "quantiles", "supported")
NO_DATE = np.iinfo(np.int64).min  # what numpy stores for NaT
MICROSECONDS_A_MINUTE = 60_000_000
ABOUT = {
    "number": "a number; NaN if it is missing",
    "empty": "a number; it is not looked at, as training had no value here",
    "date": "microseconds of wall time since 1970-01-01; the smallest int64 if it is missing",
}


@dataclass(frozen=True)
class EncodedColumns:
    """The encoded table in a graph.

    Attributes
    ----------
    first : str
        Name of an input: it has as many rows as all others.
    numbers : str
        Name of the numeric columns beside each other, shape (n, len(positions)), float64; "" if there are none.
    positions : list of int
        Which encoded columns those are.
    places : dict of int to str
        For each categorical one the name of its places, shape (n,), int64.
    """

    first: str
    numbers: str
    positions: list[int]
    places: dict[int, str]


def takes_matrix(encoder: TableEncoder) -> bool:
    """Whether the graph takes one matrix X: all columns hold numbers."""
    return set(encoder.source_types_) <= {"number", "empty"}


def input_names(encoder: TableEncoder) -> list[str]:
    """Names of the graph's inputs: the columns' own, with an underscore if an output is called so."""
    if takes_matrix(encoder):
        return ["X"]
    names: list[str] = []
    for index, column in enumerate(encoder.source_names_):
        name = column or f"x{index}"
        while name in OUTPUTS or name in names or (name != column and name in encoder.source_names_):
            name += "_"
        names.append(name)
    return names


def missing_text(encoder: TableEncoder, index: int) -> str:
    """How missing text is written in a column: as nothing, unless that is a category in itself."""
    known = {label for column in encoder.columns_ if column.source_index == index for label in column.categories}
    text = "" if "" not in known else "(missing)"
    while text in known:
        text += "_"
    return text


def feeds(model: Any, X: Any) -> dict[str, NDArray[Any]]:
    """A table as the inputs of the graph that `to_onnx` makes, for onnxruntime's ``session.run(None, feeds)``.

    Parameters
    ----------
    model : USNRTRegressor or USNRTEnsemble
        Fitted.
    X : array-like or data frame of shape (n_samples, n_features)
        Like the one in fit.

    Returns
    -------
    dict of str to ndarray
        ``X`` of shape (n_samples, n_features) if all columns hold numbers, else an array of shape (n_samples,) a
        column: float64 for numbers, text with "" where it is missing, microseconds since 1970 as int64 for dates.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt import USNRTRegressor
    >>> from usnrt.onnx import feeds
    >>> X = np.array([[1.5, "b"], [2.5, "a"]] * 20, dtype=object)
    >>> model = USNRTRegressor(max_epochs=1, random_state=0).fit(X, np.arange(40.0))
    >>> feeds(model, np.array([[None, "new"]], dtype=object))
    {'x0': array([nan]), 'x1': array(['new'], dtype=object)}
    """
    encoder = model.encoder_
    table = read_table(model, X, reset=False)
    columns = [encoder._checked(table.column(index), index) for index in range(table.n_columns)]
    if takes_matrix(encoder):
        return {"X": np.stack([column.values for column in columns], axis=1)}
    fed: dict[str, NDArray[Any]] = {}
    for index, (name, kind, column) in enumerate(zip(input_names(encoder), encoder.source_types_, columns)):
        values = column.values
        if kind == "text":
            missing = missing_text(encoder, index)
            present = (value if isinstance(value, str) else missing for value in values)
            fed[name] = np.array(list(present), dtype=object)
        elif kind == "date":
            dates = values if column.type == "date" else np.full(len(values), np.datetime64("NaT", "us"))
            fed[name] = dates.astype("datetime64[us]").astype(np.int64)
        else:
            fed[name] = np.asarray(values, dtype=np.float64)
    return fed


def read_columns(graph: Graph, encoder: TableEncoder) -> EncodedColumns:
    """Declare the inputs of the graph and encode them."""
    names, columns = input_names(encoder), encoder.columns_
    numeric = [position for position, column in enumerate(columns) if not column.is_categorical]
    sources: dict[int, str] = {}
    if takes_matrix(encoder):
        about = "columns in the order of training; NaN where a value is missing"
        matrix = graph.input("X", np.float64, ["n", len(encoder.source_names_)], about)
        numbers = matrix
        if len(numeric) < len(columns):
            numbers = graph.op("Gather", matrix, whole(*numeric), axis=1) if numeric else ""
        for index in set(range(len(columns))).difference(numeric):
            sources[index] = graph.op("Gather", matrix, np.int64(index), axis=1)
    else:
        kinds = {"text": str, "date": np.int64}
        for index, (name, kind) in enumerate(zip(names, encoder.source_types_)):
            about = ABOUT.get(kind) or f"text; {missing_text(encoder, index)!r} if it is missing"
            sources[index] = graph.input(name, kinds.get(kind, np.float64), ["n"], about)
        numbers = _side_by_side(graph, [_number(graph, sources, columns[position]) for position in numeric])
    empty = np.array([encoder.source_types_[columns[position].source_index] == "empty" for position in numeric])
    if empty.any():
        numbers = graph.op("Add", numbers, np.where(empty, np.nan, 0.0))
    places = {
        position: _place(graph, sources[column.source_index], column, missing_text(encoder, column.source_index))
        for position, column in enumerate(columns)
        if column.is_categorical
    }
    return EncodedColumns(names[0], numbers, numeric, places)


def _side_by_side(graph: Graph, columns: list[str]) -> str:
    """Columns of shape (n,) as a matrix."""
    if not columns:
        return ""
    return graph.op("Concat", *(graph.op("Unsqueeze", column, whole(1)) for column in columns), axis=1)


def _number(graph: Graph, sources: dict[int, str], column: Column) -> str:
    source = sources[column.source_index]
    return _calendar_part(graph, source, column.part) if column.part else source


def _place(graph: Graph, values: str, column: Column, missing: str) -> str:
    """Places of one column's categories, from text or from numbers that are codes."""
    n = column.n_categories
    if not column.codes:
        places = {**{label: code for code, label in enumerate(column.categories)}, missing: n + 1}
        attributes = {"keys_strings": list(places), "values_int64s": list(places.values()), "default_int64": n}
        return graph.op("LabelEncoder", values, domain=ML_DOMAIN, **attributes)
    found = graph.op("Equal", graph.op("Unsqueeze", values, whole(1)), np.array(column.codes))
    # The smallest of: the place where the code is found, n where it is not.
    candidates = graph.op("Where", found, np.arange(n), np.int64(n))
    place = graph.op("ReduceMin", candidates, axes=[1], keepdims=0)
    return graph.op("Where", graph.op("IsNaN", values), np.int64(n + 1), place)


def _calendar_part(graph: Graph, moments: str, part: str) -> str:
    """One calendar part of dates, as a float64 with NaN where there is none."""
    if part in ("hour", "minute"):
        minutes = _floor_divide(graph, moments, MICROSECONDS_A_MINUTE)
        hours = _floor_divide(graph, minutes, 60)
        value = graph.op("Mod", hours, np.int64(24)) if part == "hour" else graph.op("Mod", minutes, np.int64(60))
    else:
        days = _floor_divide(graph, moments, 1440 * MICROSECONDS_A_MINUTE)
        if part == "weekday":
            value = graph.op("Mod", graph.op("Add", days, np.int64(3)), np.int64(7))
        else:
            value = _year_month_day(graph, days)[part]
    missing = graph.op("Equal", moments, np.int64(NO_DATE))
    return graph.op("Where", missing, np.float64(np.nan), graph.cast(value, np.float64))


def _year_month_day(graph: Graph, days: str) -> dict[str, str]:
    """Calendar of days since 1970: years that begin in March have their leap day last, so all is division.

    An era of 400 years has 146,097 days; months counted from March begin floor((153 month + 2) / 5) days after it.
    """

    def op(kind: str, a: str, b: int | str) -> str:
        return graph.op(kind, a, b if isinstance(b, str) else np.int64(b))

    eras_before = 1000  # so that no number is negative: division of whole numbers cuts towards 0
    shifted = op("Add", days, 719_468 + eras_before * 146_097)  # since 1 March of year -400,000
    era = op("Div", shifted, 146_097)
    day_of_era = op("Mod", shifted, 146_097)
    # Leap days that have passed are taken out, then years have 365 days each.
    leap_days = op("Sub", op("Div", day_of_era, 1_460), op("Div", day_of_era, 36_524))
    without_leap_days = op("Sub", op("Sub", day_of_era, leap_days), op("Div", day_of_era, 146_096))
    year_of_era = op("Div", without_leap_days, 365)
    begun = op("Sub", op("Div", year_of_era, 4), op("Div", year_of_era, 100))
    day_of_year = op("Sub", day_of_era, op("Add", op("Mul", year_of_era, 365), begun))
    month_from_march = op("Div", op("Add", op("Mul", day_of_year, 5), 2), 153)
    first = op("Div", op("Add", op("Mul", month_from_march, 153), 2), 5)
    month = op("Add", op("Mod", op("Add", month_from_march, 2), 12), 1)
    next_year = op("Div", month_from_march, 10)  # January and February belong to the year before
    years = op("Add", op("Mul", op("Sub", era, eras_before), 400), year_of_era)
    return {
        "year": op("Add", years, next_year),
        "month": month,
        "day": op("Add", op("Sub", day_of_year, first), 1),
    }


def _floor_divide(graph: Graph, values: str, by: int) -> str:
    """Division that rounds down; ONNX cuts towards 0."""
    below = graph.op("Mod", values, np.int64(by))
    return graph.op("Div", graph.op("Sub", values, below), np.int64(by))
