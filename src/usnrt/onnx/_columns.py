"""Columns of the table in the graph, and the leaf of each row.

The *index* of a category is its code, 0 to K - 1; K for a category unseen in training, K + 1 for a missing value.
Whatever depends on a category, in networks and in splits, is then a lookup in a table with K + 2 rows.

All splits of all trees are evaluated at once, with 1 for left and 0 for right. A row is in a leaf if the decision is 1
at all ancestors of which the leaf is a left descendant, and 0 at all others. So the sum over the former, minus the sum
over the latter, minus the number of the former is 0 for the row's leaf and at most -1 for all other leaves: a matrix
product and an argmax replace the traversal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from usnrt.onnx._graph import ML_DOMAIN, Graph, Tensor, ints
from usnrt.tables import Column, TableEncoder, read_table
from usnrt.tree.structure import Tree
from usnrt.utils.types import TableLike

if TYPE_CHECKING:
    from usnrt.estimators.tree_regressor import TreeRegressor

OUTPUTS = ("mean", "std", "region", "quantiles", "supported")
NO_DATE = np.iinfo(np.int64).min  # the value of NaT in numpy
MICROSECONDS_PER_MINUTE = 60_000_000
INPUT_DOCS = {
    "number": "a number; NaN if missing",
    "empty": "a number; ignored, as all values were missing in training",
    "date": "microseconds of wall time since 1970-01-01; the smallest int64 if missing",
}


@dataclass(frozen=True)
class EncodedColumns:
    """The encoded table in a graph.

    Attributes
    ----------
    first : Tensor
        With one entry per row along its first axis.
    numbers : Tensor of shape (n, len(positions)), or None
        The numeric columns, float64; None if there are none.
    positions : list of int
        Of the numeric columns among the encoded columns.
    categories : dict of int to Tensor of shape (n,)
        The category indices of the categorical column at each position.
    """

    first: Tensor
    numbers: Tensor | None
    positions: list[int]
    categories: dict[int, Tensor]


def takes_matrix(encoder: TableEncoder) -> bool:
    """Whether the graph has a single input, a matrix X, as all columns are numeric."""
    return set(encoder.source_types_) <= {"number", "empty"}


def input_names(encoder: TableEncoder) -> list[str]:
    """Names of the graph's inputs: column names, with an underscore appended to the name of an output."""
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
    """The string that represents a missing value: the empty string, unless it is a category."""
    known = {label for column in encoder.columns_ if column.source_index == index for label in column.categories}
    text = "" if "" not in known else "(missing)"
    while text in known:
        text += "_"
    return text


def feeds(model: "TreeRegressor", X: TableLike) -> dict[str, NDArray[Any]]:
    """Convert a table to the inputs of the graph of `to_onnx`, for onnxruntime's ``session.run(None, feeds)``.

    Parameters
    ----------
    model : USNRTRegressor or USNRTEnsemble
        Fitted.
    X : array-like or data frame of shape (n_samples, n_features)
        With the columns seen in fit.

    Returns
    -------
    dict of str to ndarray
        ``X`` of shape (n_samples, n_features) if all columns are numeric, else one array of shape (n_samples,) per
        column: float64 for numbers, strings with "" for missing text, microseconds since 1970 as int64 for dates.

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
    inputs: dict[str, NDArray[Any]] = {}
    for index, (name, kind, column) in enumerate(zip(input_names(encoder), encoder.source_types_, columns)):
        values = column.values
        if kind == "text":
            missing = missing_text(encoder, index)
            present = (value if isinstance(value, str) else missing for value in values)
            inputs[name] = np.array(list(present), dtype=object)
        elif kind == "date":
            dates = values if column.type == "date" else np.full(len(values), np.datetime64("NaT", "us"))
            inputs[name] = dates.astype("datetime64[us]").astype(np.int64)
        else:
            inputs[name] = np.asarray(values, dtype=np.float64)
    return inputs


def read_columns(graph: Graph, encoder: TableEncoder) -> EncodedColumns:
    """Declare the inputs of the graph and encode them."""
    columns = encoder.columns_
    numeric = [position for position, column in enumerate(columns) if not column.is_categorical]
    numbers: Tensor | None = None
    if takes_matrix(encoder):
        doc = "columns in the order of training; NaN for missing values"
        first = graph.input("X", np.float64, ["n", len(encoder.source_names_)], doc)
        used = [columns[position].source_index for position in numeric]
        if used:
            is_all = len(used) == len(encoder.source_names_)
            numbers = first if is_all else graph.gather(first, ints(*used), axis=1)
        others = {column.source_index for column in columns}.difference(used)
        sources = {index: graph.gather(first, index, axis=1) for index in others}
    else:
        kinds = {"text": str, "date": np.int64}
        sources = {}
        for index, (name, kind) in enumerate(zip(input_names(encoder), encoder.source_types_)):
            doc = INPUT_DOCS.get(kind) or f"text; {missing_text(encoder, index)!r} if missing"
            sources[index] = graph.input(name, kinds.get(kind, np.float64), ["n"], doc)
        first = sources[0]
        if numeric:
            each = [_number(graph, sources, columns[position]).unsqueeze(1) for position in numeric]
            numbers = graph.op("Concat", *each, axis=1)
    empty = np.array([encoder.source_types_[columns[position].source_index] == "empty" for position in numeric])
    if numbers is not None and empty.any():
        numbers = numbers + np.where(empty, np.nan, 0.0)
    categories = {
        position: _index(graph, sources[column.source_index], column, missing_text(encoder, column.source_index))
        for position, column in enumerate(columns)
        if column.is_categorical
    }
    return EncodedColumns(first, numbers, numeric, categories)


def _number(graph: Graph, sources: dict[int, Tensor], column: Column) -> Tensor:
    source = sources[column.source_index]
    return _calendar_part(graph, source, column.part) if column.part else source


def _index(graph: Graph, values: Tensor, column: Column, missing: str) -> Tensor:
    """Category indices of one column, from text or from numeric codes."""
    n = column.n_categories
    unlisted = n - 1 if column.rest else n
    if not column.codes:
        index_of = {**{label: code for code, label in enumerate(column.categories)}, missing: n + 1}
        attributes = {
            "keys_strings": list(index_of),
            "values_int64s": list(index_of.values()),
            "default_int64": unlisted,
        }
        return graph.op("LabelEncoder", values, domain=ML_DOMAIN, **attributes)
    equal = graph.op("Equal", values.unsqueeze(1), np.array(column.codes))
    # The minimum over all codes: the index of the equal one, the largest number if there is none.
    candidates = graph.op("Where", equal, np.arange(len(column.codes)), unlisted)
    index = graph.op("ReduceMin", candidates, axes=[1], keepdims=0)
    return graph.op("Where", graph.op("IsNaN", values), n + 1, index)


def _calendar_part(graph: Graph, moments: Tensor, part: str) -> Tensor:
    """One calendar part of dates as float64, NaN for missing dates."""
    if part in ("hour", "minute"):
        minutes = _floor_divide(moments, MICROSECONDS_PER_MINUTE)
        value = _floor_divide(minutes, 60) % 24 if part == "hour" else minutes % 60
    else:
        days = _floor_divide(moments, 1440 * MICROSECONDS_PER_MINUTE)
        value = (days + 3) % 7 if part == "weekday" else _year_month_day(days)[part]
    missing = graph.op("Equal", moments, NO_DATE)
    return graph.op("Where", missing, np.nan, value.cast(np.float64))


def _year_month_day(days: Tensor) -> dict[str, Tensor]:
    """Year, month and day from days since 1970: years start in March, with the leap day last, so that divisions do.

    An era of 400 years has 146,097 days; a month counted from March starts floor((153 month + 2) / 5) days after it.
    """
    eras_before = 1000  # an offset against negative numbers: integer division truncates towards 0
    shifted = days + (719_468 + eras_before * 146_097)  # since 1 March of year -400,000
    era, day_of_era = shifted / 146_097, shifted % 146_097
    # Without the past leap days, years have 365 days each.
    without_leap_days = day_of_era - (day_of_era / 1_460 - day_of_era / 36_524) - day_of_era / 146_096
    year_of_era = without_leap_days / 365
    day_of_year = day_of_era - (year_of_era * 365 + (year_of_era / 4 - year_of_era / 100))
    month_from_march = (day_of_year * 5 + 2) / 153
    first = (month_from_march * 153 + 2) / 5
    next_year = month_from_march / 10  # January and February belong to the year before
    return {
        "year": (era - eras_before) * 400 + year_of_era + next_year,
        "month": (month_from_march + 2) % 12 + 1,
        "day": day_of_year - first + 1,
    }


def _floor_divide(values: Tensor, by: int) -> Tensor:
    """Integer division that rounds down; ONNX truncates towards 0."""
    return (values - values % by) / by


NO_LEAF = -1e6  # for the surplus columns of trees with fewer leaves than others

# A split is identified by its tree and its node.
Split = tuple[int, int]


def find_leaves(
    graph: Graph, columns: EncodedColumns, trees: Sequence[Tree], n_categories: NDArray[np.int64]
) -> Tensor:
    """Leaves of the rows, shape (n, n_trees), from left to right; ``n_categories`` is 0 for numeric columns."""
    inner = [(t, int(node)) for t, tree in enumerate(trees) for node in np.flatnonzero(tree.feature >= 0)]
    order = [(t, node) for t, node in inner if trees[t].category_row[node] < 0]
    decisions = [_by_numbers(graph, columns, trees, order)] if order else []
    for position, index in columns.categories.items():
        splits = [(t, node) for t, node in inner if trees[t].feature[node] == position]
        if splits:
            sides = np.stack([_sides(trees[t], node, n_categories[position]) for t, node in splits], axis=1)
            decisions.append(graph.gather(sides, index))
            order = order + splits
    if not order:
        n_rows = graph.op("Shape", columns.first, start=0, end=1)
        return graph.op("Expand", 0, graph.op("Concat", n_rows, ints(len(trees)), axis=0))
    reached = graph.op("Gemm", graph.concat(decisions, axis=1), *_paths(trees, order))
    width = max(tree.n_leaves for tree in trees)
    return graph.op("ArgMax", graph.op("Reshape", reached, ints(-1, len(trees), width)), axis=2, keepdims=0)


def _by_numbers(graph: Graph, columns: EncodedColumns, trees: Sequence[Tree], splits: list[Split]) -> Tensor:
    """Decisions of numeric splits, 1 for left, shape (n, n_splits), float32."""
    assert columns.numbers is not None
    where = [columns.positions.index(trees[t].feature[node]) for t, node in splits]
    values = graph.gather(columns.numbers, ints(*where), axis=1)
    # In float64 as in training, so that a value equal to the threshold goes left. Comparisons with NaN are false.
    left = values <= np.array([trees[t].threshold[node] for t, node in splits])
    missing_left = np.array([trees[t].missing_left[node] for t, node in splits])
    if missing_left.any():
        left = left | (graph.op("IsNaN", values) & missing_left)
    return left.cast(np.float32)


def _sides(tree: Tree, node: int, n_categories: int) -> NDArray[np.float32]:
    """Decisions by category index, 1 for left: the categories of training, an unseen one, a missing value."""
    known = tree.left_categories[tree.category_row[node], :n_categories]
    return np.array([*known, tree.larger_left[node], tree.missing_left[node]], dtype=np.float32)


def _paths(trees: Sequence[Tree], order: list[Split]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Matrix and offset of the linear map from decisions to scores of the leaves, 0 for the leaf of a row."""
    width = max(tree.n_leaves for tree in trees)
    row_of = {split: row for row, split in enumerate(order)}
    matrix = np.zeros((len(order), len(trees), width), dtype=np.float32)
    offset = np.full((len(trees), width), NO_LEAF, dtype=np.float32)
    for t, tree in enumerate(trees):
        for index, leaf in enumerate(tree.leaves):
            path = tree.path(leaf)
            goes_left = [tree.left[node] == child for node, child in pairwise(path)]
            for node, left in zip(path, goes_left):
                matrix[row_of[t, node], t, index] = 1.0 if left else -1.0
            offset[t, index] = -sum(goes_left)
    return matrix.reshape(len(order), -1), offset.reshape(-1)
