"""Export of the rules of a tree: as a table, as indented text, and as Graphviz source."""

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usnrt.tree.structure import Tree
from usnrt.utils.names import escaped
from usnrt.utils.result_table import Table
from usnrt.utils.types import Floats

#: number of categories listed in a rule that is displayed; the others are counted
MAX_LABELS = 6
# Weights from which an expert is called the only one or the main one, and from which a third one is mentioned;
# difference from which two weights are no longer called halves.
ALONE, MOSTLY, MENTIONED, HALVES = 0.95, 0.65, 0.15, 0.15
# What is said of an expert that has all weight, and most of it, the three that are trained together first; others are
# called by their names.
EXPERT_WORDS = {
    "network": ("network alone", "mostly network"),
    "guided network": ("network guided by similar rows", "mostly network guided by similar rows"),
    "memory": ("memory of similar rows alone", "mostly memory of similar rows"),
    "linear": ("linear model alone", "mostly linear model"),
}


class ColumnInfo(Protocol):
    """The column metadata that rules use, e.g. a `usnrt.tables.Column`."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def categories(self) -> tuple[str, ...]: ...
    @property
    def has_missing(self) -> bool: ...


class ModelWithTree(Protocol):
    """A fitted model with a tree, e.g. `usnrt.USNRTRegressor`."""

    tree_: Tree
    columns_: Sequence[ColumnInfo]


def rules_table(
    tree: Tree,
    columns: Sequence[ColumnInfo],
    *,
    expert_weights: Floats | None = None,
    expert_names: Sequence[str] = (),
    decimals: int = 3,
    max_labels: int | None = None,
) -> Table:
    """The regions of a tree, one row per region.

    Parameters
    ----------
    tree : Tree
    columns : sequence of objects with name, kind, categories and has_missing, one per feature
        E.g. the ``columns_`` of a fitted model.
    expert_weights : ndarray of shape (n_leaves, n_experts), optional
        Weights of the experts in each region.
    expert_names : sequence of str, default=()
        Their names; those of the experts that are trained together by default.
    decimals : int, default=3
        Decimals of the thresholds.
    max_labels : int, optional
        Number of categories listed in a rule; all by default.

    Returns
    -------
    Table
        ``region`` (its id, as from ``apply``), ``rule`` (as text), ``rows`` and ``share`` of the training rows,
        ``residual_std``, ``statistic`` and ``log10_p`` of the last split on the path (NaN without splits), and
        ``statistics`` and ``log10_ps`` of all splits on the path, as text. With weights also ``network``, ``guided``
        and ``memory`` (the weights) and ``experts`` (in words, see `experts_text`).

    Examples
    --------
    >>> from usnrt.tables import Column
    >>> from usnrt.tree import Split, TreeBuilder
    >>> builder = TreeBuilder(n_features=1)
    >>> split = Split(0, 2.5, None, True, -7.0, -11.2, 30, 10, 25)
    >>> for node, std in zip((builder.add_root(40), *builder.add_children(0, split)), (2.0, 1.0, 4.0)):
    ...     builder.set_residuals(node, 0.0, std)
    >>> table = rules_table(builder.build()[0], [Column("load", "numeric", "load")])
    >>> table["region"], table["rule"], table["residual_std"]
    (array([1, 2]), array(['load <= 2.5', 'load > 2.5'], ...), array([1., 4.]))
    """
    integral = bool((tree.n_rows == np.floor(tree.n_rows)).all())  # weights may be fractional
    rows = []
    for leaf in tree.leaves:
        splits = tree.path(leaf)[:-1]
        rows.append(
            {
                "region": int(leaf),
                "rule": region_text(tree, leaf, columns, decimals=decimals, max_labels=max_labels),
                "rows": int(tree.n_rows[leaf]) if integral else float(tree.n_rows[leaf]),
                "share": tree.n_rows[leaf] / tree.n_rows[0],
                "residual_std": tree.residual_std[leaf],
                "statistic": tree.statistic[splits[-1]] if splits else np.nan,
                "log10_p": tree.log10_p[splits[-1]] if splits else np.nan,
                "statistics": ", ".join(f"{tree.statistic[node]:.2f}" for node in splits),
                "log10_ps": ", ".join(f"{tree.log10_p[node]:.1f}" for node in splits),
            }
        )
    table = {name: [row[name] for row in rows] for name in rows[0]}
    if expert_weights is not None:
        names = list(expert_names) or list(EXPERT_WORDS)[:3]
        table |= dict(zip(("guided" if name == "guided network" else name for name in names), expert_weights.T))
        table["experts"] = [experts_text(weights, names) for weights in expert_weights]
    return Table(table)


def experts_text(weights: ArrayLike, names: Sequence[str] = ()) -> str:
    """The weights of the experts of a region in words.

    Parameters
    ----------
    weights : array-like of shape (k,)
        They sum to 1.
    names : sequence of k str, default=()
        Of the experts; those of the experts that are trained together by default.

    Examples
    --------
    >>> from usnrt.tree.rules import experts_text
    >>> experts_text([1, 0, 0])
    'network alone'
    >>> experts_text([0.1, 0.2, 0.7])
    'mostly memory of similar rows'
    >>> experts_text([0.5, 0, 0.5]), experts_text([0.4, 0.6, 0])
    ('half network, half memory', 'more guided network than network')
    >>> experts_text([0.3, 0.2, 0.5])
    'memory, network and guided network'
    """
    names = list(names) or list(EXPERT_WORDS)[:3]
    shares = np.asarray(weights, dtype=np.float64).round(6)  # averages of equal weights may differ in their last bits
    order = np.argsort(-shares, kind="stable")[:3]
    first, second, third = (*order, *order[-1:], *order[-1:])[:3]
    alone, mostly = EXPERT_WORDS.get(names[first], (f"{names[first]} alone", f"mostly {names[first]}"))
    if shares[first] >= ALONE:
        return alone
    if shares[first] >= MOSTLY:
        return mostly
    names = ["linear model" if name == "linear" else name for name in names]
    one, other = names[first], names[second]
    if len(order) > 2 and shares[third] >= MENTIONED:
        return f"{one}, {other} and {names[third]}"
    if shares[first] - shares[second] < HALVES:
        one, other = (names[expert] for expert in sorted((first, second)))
        return f"half {one}, half {other}"
    return f"more {one} than {other}"


def region_text(
    tree: Tree, node: int, columns: Sequence[ColumnInfo], *, decimals: int = 3, max_labels: int | None = MAX_LABELS
) -> str:
    """The region of a node as text, with merged conditions per feature; "all rows" at the root."""
    conditions: dict[int, _Condition] = {}
    path = tree.path(node)
    for split, child in pairwise(path):
        feature = int(tree.feature[split])
        condition = conditions.setdefault(feature, _Condition(columns[feature]))
        condition.narrow(tree, split, to_left=bool(tree.left[split] == child))
    alone = len(conditions) == 1
    return " and ".join(own.text(decimals, alone, max_labels) for own in conditions.values()) or "all rows"


def split_text(
    tree: Tree,
    node: int,
    columns: Sequence[ColumnInfo],
    *,
    to_left: bool = True,
    decimals: int = 3,
    max_labels: int | None = MAX_LABELS,
) -> str:
    """The condition of a node's split as text, for its left or its right child.

    Categories and missing values that cannot reach the node are left out.
    """
    return _split_condition(tree, node, columns[int(tree.feature[node])], to_left).text(decimals, True, max_labels)


def n_categories(tree: Tree, node: int, columns: Sequence[ColumnInfo], to_left: bool) -> int:
    """Number of categories on one side of a node's split."""
    return len(_split_condition(tree, node, columns[int(tree.feature[node])], to_left).codes)


def _split_condition(tree: Tree, node: int, column: ColumnInfo, to_left: bool) -> "_Condition":
    condition = _Condition(column)
    for split, child in pairwise(tree.path(node)):
        if tree.feature[split] == tree.feature[node]:
            condition.narrow(tree, split, to_left=bool(tree.left[split] == child))
    condition.lower, condition.upper = -np.inf, np.inf  # one threshold, that of this split
    condition.narrow(tree, node, to_left)
    return condition


class _Condition:
    """The condition of a path on one feature: an interval or a set of codes, and whether it may be missing."""

    def __init__(self, column: ColumnInfo) -> None:
        self.column, self.name = column, escaped(column.name)
        self.lower, self.upper = -np.inf, np.inf
        self.codes = set(range(len(column.categories)))
        self.missing = True
        self.present = True

    def narrow(self, tree: Tree, split: int, to_left: bool) -> None:
        """Add the condition of one side of a split."""
        self.missing &= bool(tree.missing_left[split]) == to_left
        if tree.category_row[split] >= 0:
            goes_left: NDArray[np.bool_] = tree.left_categories[tree.category_row[split]]
            self.codes &= {code for code in self.codes if bool(goes_left[code]) == to_left}
            self.present &= bool(self.codes)
        elif to_left:
            self.upper = min(self.upper, float(tree.threshold[split]))
        else:
            self.lower = max(self.lower, float(tree.threshold[split]))
            self.present &= self.lower < np.inf

    def text(self, decimals: int, alone: bool, max_labels: int | None = MAX_LABELS) -> str:
        name = self.name
        if not self.present:
            return f"{name} missing"
        missing_too = self.missing and self.column.has_missing
        if self.column.kind == "categorical":
            rule = self._categories_text(missing_too, max_labels)
        else:
            rule = self._interval_text(decimals)
        if not missing_too:
            return rule or f"{name} not missing"
        return f"{rule} or missing" if alone else f"({rule} or missing)"

    def _interval_text(self, decimals: int) -> str:
        name, low, high = self.name, self.lower, self.upper
        if isfinite(low) and isfinite(high):
            # enough digits to distinguish the bounds
            while number_text(low, decimals) == number_text(high, decimals) and decimals < 17:
                decimals += 1
            return f"{number_text(low, decimals)} < {name} <= {number_text(high, decimals)}"
        if isfinite(low):
            return f"{name} > {number_text(low, decimals)}"
        return f"{name} <= {number_text(high, decimals)}" if high < np.inf else ""

    def _categories_text(self, missing_too: bool, max_labels: int | None) -> str:
        labels = [escaped(str(self.column.categories[code])) for code in sorted(self.codes)]
        if len(labels) == len(self.column.categories) and not missing_too:
            return ""
        if len(labels) == 1:
            return f"{self.name} = {labels[0]}"
        shown = ", ".join(labels[:max_labels])
        if max_labels is not None and len(labels) > max_labels:
            shown += f", ... ({len(labels) - max_labels} more)"
        return f"{self.name} in {{{shown}}}"


def export_text(model: ModelWithTree, *, decimals: int = 3) -> str:
    """The tree as indented text.

    Parameters
    ----------
    model : fitted estimator
        With ``tree_`` and ``columns_``, e.g. a `usnrt.USNRTRegressor`.
    decimals : int, default=3
        Decimals of thresholds and standard deviations.

    Returns
    -------
    str
        One line per branch. T and log10 p of a split are shown at its first branch.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from usnrt.tables import Column
    >>> from usnrt.tree import Split, TreeBuilder, export_text
    >>> builder = TreeBuilder(n_features=1)
    >>> split = Split(0, 2.5, None, True, -7.0, -11.2, 30, 10, 25)
    >>> for node, std in zip((builder.add_root(40), *builder.add_children(0, split)), (2.0, 1.0, 4.0)):
    ...     builder.set_residuals(node, 0.0, std)
    >>> model = SimpleNamespace(tree_=builder.build()[0], columns_=[Column("load", "numeric", "load")])
    >>> print(export_text(model))
    all rows: 40 rows, residual std 2
    |-- load <= 2.5   [T = -7.00, log10 p = -11.2]
    |   region 1: 30 rows (75.0 %), residual std 1
    |-- load > 2.5
    |   region 2: 10 rows (25.0 %), residual std 4
    """
    tree, columns = model.tree_, model.columns_
    lines = [f"all rows: {count_text(tree.n_rows[0])} rows, residual std {number_text(tree.residual_std[0], decimals)}"]
    for node in range(tree.n_nodes):
        indent = "|   " * int(tree.depth[node])
        parent = int(tree.parent[node])
        if parent >= 0:
            to_left = bool(tree.left[parent] == node)
            branch = split_text(tree, parent, columns, to_left=to_left, decimals=decimals)
            test = f"   [T = {tree.statistic[parent]:.2f}, log10 p = {tree.log10_p[parent]:.1f}]"
            lines.append(f"{indent[:-4]}|-- {branch}{test if to_left else ''}")
        if tree.feature[node] < 0:
            lines.append(f"{indent}region {node}: {size_text(tree, node, decimals)}")
    return "\n".join(lines)


def export_graphviz(model: ModelWithTree, *, decimals: int = 3) -> str:
    """The tree in Graphviz's DOT language, coloured by the logarithm of the residuals' standard deviation.

    Parameters
    ----------
    model : fitted estimator
        With ``tree_`` and ``columns_``, e.g. a `usnrt.USNRTRegressor`.
    decimals : int, default=3
        Decimals of thresholds and standard deviations.

    Returns
    -------
    str
        DOT source, e.g. for ``dot -Tsvg``.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from usnrt.tree import TreeBuilder, export_graphviz
    >>> builder = TreeBuilder(n_features=0)
    >>> root = builder.add_root(40, residual_mean=0.0, residual_std=2.0)
    >>> print(export_graphviz(SimpleNamespace(tree_=builder.build()[0], columns_=[])))
    digraph tree {
      node [shape=box, style="rounded,filled", fontname="Helvetica"];
      edge [fontname="Helvetica"];
      0 [label="region 0\\n40 rows (100.0 %), residual std 2", fillcolor="#b2cce0"];
    }
    """
    tree, columns = model.tree_, model.columns_
    shades = log_std_share(tree)
    lines = ['  node [shape=box, style="rounded,filled", fontname="Helvetica"];', '  edge [fontname="Helvetica"];']
    for node in range(tree.n_nodes):
        if tree.feature[node] < 0:
            head = f"region {node}"
        else:
            head = (
                f"{split_text(tree, node, columns, decimals=decimals)}\n"
                f"T = {tree.statistic[node]:.2f}, log10 p = {tree.log10_p[node]:.1f}"
            )
        label = _quoted(f"{head}\n{size_text(tree, node, decimals)}")
        lines.append(f'  {node} [label={label}, fillcolor="{_blue(shades[node])}"];')
        for child, holds in ((tree.left[node], "yes"), (tree.right[node], "no")):
            if child >= 0:
                lines.append(f'  {node} -> {child} [label="{holds}"];')
    return "\n".join(["digraph tree {", *lines, "}"])


def size_text(tree: Tree, node: int, decimals: int) -> str:
    """Rows, share and residual standard deviation of a node, as text."""
    share = tree.n_rows[node] / tree.n_rows[0]
    std = number_text(tree.residual_std[node], decimals)
    return f"{count_text(tree.n_rows[node])} rows ({share:.1%}), residual std {std}".replace("%", " %")


def log_std_share(tree: Tree) -> NDArray[np.float64]:
    """Log residual standard deviation of each node, scaled to [0, 1]; 0.5 where it is unknown or constant."""
    known = np.isfinite(tree.residual_std) & (tree.residual_std > 0)
    logs = np.full(tree.n_nodes, np.nan)
    logs[known] = np.log(tree.residual_std[known])
    if not known.any() or np.ptp(logs[known]) == 0:
        return np.full(tree.n_nodes, 0.5)
    low, high = logs[known].min(), logs[known].max()
    # a standard deviation of 0 has the smallest logarithm
    return np.where(known, (logs - low) / (high - low), np.where(tree.residual_std == 0, 0.0, 0.5))


def number_text(value: float, decimals: int) -> str:
    """A number with at most ``decimals`` decimals, or as many significant digits if it would be rounded away.

    Examples
    --------
    >>> from usnrt.tree.rules import number_text
    >>> number_text(2.5, 3), number_text(0.00012345, 3), number_text(1234567.891, 1), number_text(12345678901, 2)
    ('2.5', '0.000123', '1234567.9', '12345678901')
    """
    value = float(value)
    if not isfinite(value):
        return str(value)
    if value != 0 and (abs(value) < 10.0 ** (1 - decimals) or abs(value) >= 1e15):
        return f"{value:.{max(decimals, 1)}g}"
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def count_text(count: float) -> str:
    """A number of rows as text; with weights it may be fractional."""
    return f"{count:,.0f}" if float(count).is_integer() else f"{count:,.1f}"


def _quoted(text: str) -> str:
    """A DOT string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", " ").replace("\n", "\\n")
    return f'"{escaped}"'


def _blue(share: float) -> str:
    """A colour between a pale and a medium blue, both readable with dark text."""
    low, high = np.array([242, 247, 251]), np.array([114, 161, 198])
    red, green, blue = np.round(low + share * (high - low)).astype(int)
    return f"#{red:02x}{green:02x}{blue:02x}"
