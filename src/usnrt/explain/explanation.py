"""The result of ``model.explain``: one explanation per row, as text, as a table and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload

import numpy as np

from usnrt.utils.names import escaped
from usnrt.utils.result_table import Table, json_value

N_SHOWN = 5  # contributions, and rows, that are printed


@dataclass(frozen=True)
class RowExplanation:
    """Why a row has its predicted mean and standard deviation.

    ``base_mean``, the sum of ``mean_contributions`` and ``mean_adjustment`` add up to ``mean``; likewise for ``std``.

    Attributes
    ----------
    row : int
        Position in the explained table, from 0.
    mean, std, lower, upper, coverage : float
        Prediction, and its interval of nominal coverage.
    region : int
    rule : str
        The row's region, and its rule in words.
    baseline : str
        Whether contributions are differences from the average of the region or of the table.
    values : dict of str to object
        The row, by column.
    base_mean, base_std : float
        Average prediction of the background rows.
    mean_contributions, std_contributions : dict of str to float
        By column of the table; dates and categories are one column.
    mean_errors, std_errors : dict of str to float
        Standard errors of the contributions, which are estimated by sampling.
    mean_adjustment, std_adjustment : float
        What is due to the row as a whole: lack of support, which widens distributions, or a row that training had.
    unsupported : list of str
        Why the row does not resemble the training rows, empty if it does.
    neighbors : list of dict or None
        Similar training rows: position, weight, target and, if kept, features. None without a memory.
    advice : list of str
        What would narrow the interval, as far as it is measured.
    """

    row: int
    mean: float
    std: float
    lower: float
    upper: float
    coverage: float
    region: int
    rule: str
    baseline: str
    values: dict[str, Any]
    base_mean: float
    base_std: float
    mean_contributions: dict[str, float]
    std_contributions: dict[str, float]
    mean_errors: dict[str, float]
    std_errors: dict[str, float]
    mean_adjustment: float
    std_adjustment: float
    unsupported: list[str]
    neighbors: list[dict[str, Any]] | None
    advice: list[str]

    def to_dict(self) -> dict[str, Any]:
        """All attributes as values that JSON can hold."""
        result: dict[str, Any] = json_value(asdict(self))
        return result

    def __repr__(self) -> str:
        return self.text(f"row {self.row}")

    def text(self, name: str) -> str:
        """The explanation in lines of text; ``name`` is that of the row."""
        lines = [
            f"{name}: {_number(self.mean)} ± {_number(self.std)}, "
            f"{100 * self.coverage:g} % interval {_number(self.lower)} to {_number(self.upper)}",
            f"region {self.region}: {self.rule}",
        ]
        lines.append(f"support: {'; '.join(self.unsupported) or 'resembles the training rows'}")
        lines += self._contribution_lines("standard deviation", "std") + self._contribution_lines("mean", "mean")
        if self.neighbors:
            lines.append("most similar training rows:")
            lines += [_neighbor_text(neighbor) for neighbor in self.neighbors]
        lines += ["what would narrow the interval:", *(f"  {sentence}" for sentence in self.advice)]
        return "\n".join(map(escaped, lines))

    def _contribution_lines(self, title: str, kind: str) -> list[str]:
        values, errors = getattr(self, f"{kind}_contributions"), getattr(self, f"{kind}_errors")
        lines = [f"{title}: average of the {self.baseline} {_number(getattr(self, f'base_{kind}'))}"]
        names = sorted(values, key=lambda name: -abs(values[name]))
        for name in names[:N_SHOWN]:
            lines.append(
                f"  {_signed(values[name]):>10}  {name} = {cell_text(self.values.get(name))}"
                f"  (± {_number(errors[name], 2)})"
            )
        rest = sum(values[name] for name in names[N_SHOWN:])
        if names[N_SHOWN:]:
            lines.append(f"  {_signed(rest):>10}  {len(names) - N_SHOWN} other columns")
        adjustment = getattr(self, f"{kind}_adjustment")
        if abs(adjustment) > 1e-9 * (abs(getattr(self, kind)) + self.std):
            why = (
                "the row does not resemble the training rows" if self.unsupported else "the row is known from training"
            )
            lines.append(f"  {_signed(adjustment):>10}  {why}")
        return [*lines, f"  {'= ' + _number(getattr(self, kind)):>10}"]


class Explanation(Sequence[RowExplanation]):
    """Explanations of the rows of a table, from ``model.explain(X)``.

    Examples
    --------
    >>> from usnrt.explain.explanation import Explanation
    >>> Explanation([], "price")
    explanation of 0 rows of price
    """

    def __init__(self, rows: list[RowExplanation], target: str | None = None) -> None:
        self._rows, self.target = rows, target

    @overload
    def __getitem__(self, index: int) -> RowExplanation: ...
    @overload
    def __getitem__(self, index: slice) -> "Explanation": ...
    def __getitem__(self, index: int | slice) -> "RowExplanation | Explanation":
        return Explanation(self._rows[index], self.target) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[RowExplanation]:
        return iter(self._rows)

    def table(self, kind: str = "std") -> Table:
        """Contributions of all rows to "std" or "mean", one column per column of the data.

        Returns
        -------
        Table
            ``row``, ``region``, the prediction (``std`` or ``mean``), its ``baseline`` and ``adjustment``, and one
            contribution per column, named ``contribution of <column>``.
        """
        if kind not in ("std", "mean"):
            raise ValueError(f"kind must be 'std' or 'mean', got {kind!r}")
        columns: dict[str, Any] = {
            "row": [row.row for row in self],
            "region": [row.region for row in self],
            kind: [getattr(row, kind) for row in self],
            "baseline": [getattr(row, f"base_{kind}") for row in self],
            "adjustment": [getattr(row, f"{kind}_adjustment") for row in self],
        }
        for name in getattr(self._rows[0], f"{kind}_contributions") if self._rows else ():
            columns[f"contribution of {name}"] = [getattr(row, f"{kind}_contributions")[name] for row in self]
        return Table(columns)

    def to_frame(self, kind: str = "std") -> Any:
        """`table` as a ``pandas.DataFrame``."""
        return self.table(kind).to_frame()

    def to_dict(self) -> dict[str, Any]:
        """All explanations as values that JSON can hold."""
        return {"target": self.target, "rows": [row.to_dict() for row in self]}

    def __repr__(self) -> str:
        head = f"explanation of {len(self)} row{'' if len(self) == 1 else 's'}"
        head += f" of {self.target}" if self.target else ""
        shown = [repr(row) for row in self._rows[:N_SHOWN]]
        more = [f"... and {len(self) - N_SHOWN} more rows"] if len(self) > N_SHOWN else []
        return "\n\n".join([head, *shown, *more])


def cell_text(value: Any) -> str:
    """A cell of a table as text.

    Examples
    --------
    >>> from usnrt.explain.explanation import cell_text
    >>> [cell_text(value) for value in (None, True, 1950, 0.123456, "old town")]
    ['missing', 'yes', '1950', '0.1235', 'old town']
    """
    if value is None:
        return "missing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"
    return str(value).removesuffix(" 00:00:00")


def _neighbor_text(neighbor: dict[str, Any]) -> str:
    features = neighbor.get("features")
    shown = ", ".join(f"{name} = {cell_text(value)}" for name, value in features.items()) if features else ""
    return (
        f"  position {neighbor['position']}, weight {neighbor['weight']:.2f}, target {_number(neighbor['target'])}"
        f"{': ' if shown else ''}{shown}"
    )


def _number(value: float, digits: int = 4) -> str:
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    text = f"{value:.{digits}g}"
    # no exponent where all digits before the point are significant or few
    return f"{value:.0f}" if "e+" in text and abs(value) < 1e15 else text


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'}{_number(abs(value), 3)}"
