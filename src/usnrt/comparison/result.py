"""The result of a comparison: metrics, paired differences with their errors, and who is best."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from usnrt.comparison.regions import Regions, gap_by_chance, worst_gap
from usnrt.comparison.splits import Splits
from usnrt.comparison.words import compared_metrics, notes, shown_metrics, shown_rows, verdict
from usnrt.metrics.accuracy import CRPS
from usnrt.metrics.differences import Difference, paired_difference
from usnrt.utils.atomic_write import atomic_write
from usnrt.utils.result_table import Table, json_value
from usnrt.utils.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Metrics of each test row, by name.
RowMetrics = dict[str, Floats]


@dataclass(frozen=True)
class Entry:
    """A model of the comparison: metrics of each test row by name, or the error for which it failed."""

    name: str
    metrics: RowMetrics | None
    note: str = ""
    fit_seconds: float = float("nan")  # processor time of all threads, mean over the folds
    predict_seconds: float = float("nan")
    error: str = ""


class Comparison:
    """Models compared on the same test rows, the best by CRPS first; printed as a table.

    Attributes
    ----------
    table : Table
        One row per model: ``model``, ``crps``, ``rmse``, ``coverage``, ``width``, ``interval_score``, ``worst_gap``
        (deviation of the coverage from the nominal one in the region where it is largest, signed), ``difference`` of
        the CRPS to that of the best model, its ``std_error``, whether it is a ``tie``, ``fit_seconds``,
        ``predict_seconds`` and ``error``.
    best : str
        The model with the smallest CRPS.
    verdict : str
        Who is best, ahead of whom, and who is tied, in words.
    rules : list of str
        The rules of the regions.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        splits: Splits,
        regions: Regions,
        coverage: float,
        *,
        interrupted: bool = False,
        seed: int = 0,
        target: str | None = None,
    ) -> None:
        done = sorted((e for e in entries if e.metrics is not None), key=_mean_crps)
        self.entries = [*done, *(e for e in entries if e.metrics is None)]
        self.n_done = len(done)
        self.splits, self.rules, self.coverage = splits, regions.rules, coverage
        self.interrupted, self.seed, self.target = interrupted, seed, target
        self._region = regions.region[splits.test_rows]
        self.gap_by_chance = gap_by_chance(self._region, coverage)
        self.table = self._make_table()

    @property
    def best(self) -> str:
        """The model with the smallest CRPS."""
        self._need_one()
        return self.entries[0].name

    @property
    def errors(self) -> dict[str, str]:
        """Why models failed, by name."""
        return {entry.name: entry.error for entry in self.entries if entry.metrics is None}

    @property
    def n_train(self) -> int:
        """Mean number of training rows of a fold."""
        return round(float(np.mean([len(train) for train, _ in self.splits.folds])))

    @property
    def n_test(self) -> int:
        """Number of test rows in all folds."""
        return len(self._region)

    @property
    def verdict(self) -> str:
        """Who is best, ahead of whom, and who is tied, in words."""
        return verdict(self)

    def differences(self, metric: str = "crps", to: str | None = None) -> Table:
        """Paired differences of a metric to one model, by default the best, with their standard errors.

        Parameters
        ----------
        metric : str, default="crps"
            "crps", "rmse" or "interval_score", or a registered metric that comparisons show.
        to : str, default=None
            The model to compare with; None for the best by this metric.

        Returns
        -------
        Table
            ``model``; ``difference``, positive if the model is worse; ``std_error``, the larger one of
            ``std_error_rows`` (of the mean over test rows, the fitted models taken as given) and ``std_error_folds``
            (over the folds, corrected for their shared training rows; NaN for one split); ``tie``, whether the
            difference is inside its 95 % confidence interval around 0.
        """
        pairs = self._differences(metric, to)
        columns: dict[str, list[Any]] = {"model": [name for name, _ in pairs]}
        for field in ("value", "std_error", "std_error_rows", "std_error_folds", "tie"):
            columns["difference" if field == "value" else field] = [getattr(d, field) for _, d in pairs]
        return Table(columns)

    def _differences(self, metric: str, to: str | None) -> list[tuple[str, Difference]]:
        compared = compared_metrics()
        if metric not in compared:
            raise ValueError(f"metric must be one of {', '.join(map(repr, compared))}, got {metric!r}")
        self._need_one()
        loss_of, is_root = compared[metric].oriented_loss, compared[metric].root
        losses = {e.name: loss_of(e.metrics[metric], self.coverage) for e in self.entries if e.metrics is not None}
        if to is None:
            to = min(losses, key=lambda name: float(losses[name].mean()))
        if to not in losses:
            raise ValueError(f"to must be one of {', '.join(map(repr, losses))}, got {to!r}")
        test, fold = self.splits.test_rows, self.splits.fold_of
        ratio = float(np.mean([len(test) / len(train) for train, test in self.splits.folds]))
        pairs = [
            (name, paired_difference(loss, losses[to], self.splits.cluster[test], fold, ratio, is_root=is_root))
            for name, loss in losses.items()
        ]
        return sorted(pairs, key=lambda pair: pair[1].value)

    def _make_table(self) -> Table:
        done = [(e, e.metrics) for e in self.entries if e.metrics is not None]
        differences = dict(self._differences("crps", None)) if done else {}
        nothing, failed = float("nan"), len(self.entries) - len(done)
        gaps = [worst_gap(m["coverage"], self._region, self.coverage) for _, m in done]
        columns: dict[str, list[Any]] = {
            **{metric.name: [metric.average(m[metric.name]) for _, m in done] for metric in shown_metrics()},
            "worst_gap": [gap for gap, _ in gaps],
            "difference": [differences[e.name].value for e, _ in done],
            "std_error": [differences[e.name].std_error for e, _ in done],
            "fit_seconds": [e.fit_seconds for e, _ in done],
            "predict_seconds": [e.predict_seconds for e, _ in done],
        }
        table: dict[str, Any] = {"model": [e.name for e in self.entries]}
        for name, values in columns.items():
            table[name] = np.array([*values, *[nothing] * failed], dtype=np.float64)
            if name == "std_error":
                table["tie"] = np.array([*(differences[e.name].tie for e, _ in done), *[False] * failed], dtype=bool)
        table["worst_region"] = [*(self.rules[region] for _, region in gaps), *[""] * failed]
        table["error"] = [e.error for e in self.entries]
        return Table(table)

    def _need_one(self) -> None:
        if self.n_done == 0:
            reasons = "; ".join(f"{name}: {error}" for name, error in self.errors.items())
            raise ValueError(f"no model could be compared: {reasons}")

    # -- formats -------------------------------------------------------------------------------------------------

    def to_frame(self) -> Any:
        """The table as a ``pandas.DataFrame``."""
        return self.table.to_frame()

    def to_dict(self) -> dict[str, Any]:
        """The comparison as values that JSON can hold."""
        result: dict[str, Any] = json_value(
            {
                "best": self.best if self.n_done else None,
                "verdict": self.verdict,
                "target": self.target,
                "coverage": self.coverage,
                "folds": len(self.splits.folds),
                "split": self.splits.how,
                "training rows": self.n_train,
                "test rows": self.n_test,
                "worst gap by chance": self.gap_by_chance,
                "regions": self.rules,
                "interrupted": self.interrupted,
                "random_state": self.seed,
                "models": self.table.rows(),
                "differences": {m: self.differences(m).rows() for m in compared_metrics()} if self.n_done else {},
            }
        )
        return result

    def plot(self, ax: Any = None) -> "Figure":
        """Draw the CRPS differences, the coverage and the time of the models (needs matplotlib).

        Parameters
        ----------
        ax : sequence of 3 matplotlib Axes, default=None
            None for a new figure.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from usnrt.comparison.picture import draw

        return draw(self, ax)

    def to_html(self, path: str | os.PathLike[str], *, source: str | None = None, command: str | None = None) -> Path:
        """Write a self-contained HTML page (needs jinja2).

        Parameters
        ----------
        path : path-like
            The file to write, atomically. An existing file is replaced.
        source, command : str, optional
            Where the rows come from; how to repeat the comparison.

        Returns
        -------
        Path
        """
        from usnrt.comparison.page import render

        page = render(self, source, command)
        with atomic_write(path) as file:
            file.write(page.encode())
        return Path(path)

    def __repr__(self) -> str:
        rows = shown_rows(self)
        table = Table({name: [row[name] for row in rows] for name in rows[0]})
        return "\n".join([repr(table), self.verdict, *notes(self)])

    def _repr_html_(self) -> str:
        from html import escape

        rows = shown_rows(self)
        table = Table({name: [row[name] for row in rows] for name in rows[0]})
        sentences = "".join(f"<p>{escape(text)}</p>" for text in (self.verdict, *notes(self)))
        return table._repr_html_() + sentences


def _mean_crps(entry: Entry) -> float:
    return np.inf if entry.metrics is None else CRPS.average(entry.metrics["crps"])
