"""What is left to be run of the presets, in hours of processor time, estimated from the records."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from usnrt_experiments.grid import Cell, n_features_of, n_rows_of, preset
from usnrt_experiments.store import Record, Store

# Presets whose records are in the store's own folder.
PRESETS = ("paper", "ablation", "stability")


@dataclass(frozen=True)
class Estimate:
    """Processor seconds of a cell, and what they are estimated from: "splits", "regression" or "neighbours"."""

    seconds: float
    basis: str


class CostModel:
    """Processor seconds of a fit and its predictions, by data set and recipe.

    A cell costs what other splits of its data set by its recipe cost on average. Without such a record, a regression of
    log seconds on log rows, log features and the recipe decides; a recipe without any record costs what the one with
    the most similar name does, as ``usnrt-paper-leaves6`` and ``usnrt-paper-leaves8``.

    Parameters
    ----------
    records : iterable of Record
        Those of done cells are used.

    Attributes
    ----------
    n_records : int
    factor : float
        Typical error of the regression: the exponential of the standard deviation of its residuals; infinite if there
        are not more records of data sets and recipes than coefficients.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        done = [record for record in records if record.status == "done"]
        self.n_records = len(done)
        self._splits: dict[tuple[str, str], list[float]] = {}
        for record in done:
            self._splits.setdefault((record.cell.dataset, record.cell.recipe), []).append(seconds_of(record))
        self._recipes = sorted({record.cell.recipe for record in done})
        self._coefficients, self.factor = self._regression()

    def _regression(self) -> tuple[NDArray[np.float64], float]:
        pairs = list(self._splits)
        if not pairs:
            return np.zeros(2), np.inf
        y = np.log([max(float(np.mean(self._splits[pair])), 0.01) for pair in pairs])
        X = np.array([self._row(dataset, recipe) for dataset, recipe in pairs])
        # A little ridge, so that few data sets or recipes do not give wild slopes.
        found = np.linalg.solve(X.T @ X + 1e-3 * np.eye(X.shape[1]), X.T @ y)
        spare = len(y) - X.shape[1]
        return found, float(np.exp(np.sqrt(np.sum((y - X @ found) ** 2) / spare))) if spare > 0 else np.inf

    def _row(self, dataset: str, recipe: str) -> NDArray[np.float64]:
        size = [np.log(n_rows_of(dataset)), np.log(n_features_of(dataset))]
        return np.array([*size, *(float(recipe == name) for name in self._recipes)])

    def estimate(self, cell: Cell) -> Estimate | None:
        """The cost of a cell; None without any record.

        Returns
        -------
        Estimate or None
        """
        if not self._recipes:
            return None
        if found := self._splits.get((cell.dataset, cell.recipe)):
            return Estimate(float(np.mean(found)), "splits")
        recipe, basis = cell.recipe, "regression"
        if recipe not in self._recipes:
            recipe, basis = max(self._recipes, key=lambda name: _common_start(name, cell.recipe)), "neighbours"
        return Estimate(float(np.exp(self._row(cell.dataset, recipe) @ self._coefficients)), basis)


def seconds_of(record: Record) -> float:
    """Processor seconds of a fit, and seconds of its predictions."""
    return float(record.meta["fit_cpu_seconds"]) + float(record.meta.get("predict_seconds", 0.0))


def _common_start(first: str, second: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(first, second)) if a != b), min(len(first), len(second)))


def left_lines(store: Store) -> list[str]:
    """One line per preset that the store has records of: cells that are left, and processor hours; then their basis."""
    records = list(store.records())
    started = {record.cell for record in records}
    costs = CostModel(records)
    seen: set[Cell] = set()
    lines, estimates = [], []
    for name in PRESETS:
        cells = [cell for cell in preset(name) if cell not in seen]
        seen.update(cells)
        if started.isdisjoint(cells):
            continue
        left = [cell for cell in cells if cell not in started]
        found = [estimate for cell in left if (estimate := costs.estimate(cell))]
        estimates += found
        hours = sum(estimate.seconds for estimate in found) / 3600
        lines.append(f"left of preset {name}: {len(left)} of {len(cells)} cells, about {hours:.1f} processor hours")
    return lines + ([_basis(estimates, costs)] if estimates else [])


def _basis(estimates: Sequence[Estimate], costs: CostModel) -> str:
    counts = {basis: sum(each.basis == basis for each in estimates) for basis in ("splits", "regression", "neighbours")}
    error = (
        f"typically within a factor of {costs.factor:.1f}" if np.isfinite(costs.factor) else "too few to know its error"
    )
    return (
        f"estimated from {costs.n_records} records: {counts['splits']} cells by other splits of their data set, "
        f"{counts['regression']} by a regression on rows, features and recipe ({error}), "
        f"{counts['neighbours']} by that of the recipe with the most similar name"
    )
