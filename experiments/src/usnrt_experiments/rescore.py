"""Recompute metrics of records from their stored predictions: a new or corrected metric needs no refit."""

from dataclasses import dataclass

from usnrt_experiments.jackknife import leave_out_blocks
from usnrt_experiments.scores import score
from usnrt_experiments.store import Store


@dataclass(frozen=True)
class Rescored:
    """Number of records with changed metrics, unchanged metrics, and without stored predictions."""

    changed: int
    unchanged: int
    without_predictions: int


def rescore(store: Store) -> Rescored:
    """Recompute all metrics of every done cell and store those that differ.

    Records without per-row predictions, as in a clone of the results, keep their metrics.

    Examples
    --------
    >>> import tempfile
    >>> from usnrt_experiments import Cell, Store, run_grid
    >>> from usnrt_experiments.rescore import rescore
    >>> store = Store(tempfile.mkdtemp())
    >>> summary = run_grid([Cell("generated-piecewise-100", "constant-normal", 42)], store)
    >>> rescore(store)
    Rescored(changed=0, unchanged=1, without_predictions=0)
    """
    changed = unchanged = without = 0
    for record in store.records():
        if record.status != "done":
            continue
        try:
            rows = store.predictions(record.cell)
            metrics, blocks = score(rows), leave_out_blocks(rows)
        except KeyError:
            without += 1
            continue
        if store.amend(record.cell, metrics=metrics, leave_out_blocks=blocks):
            changed += 1
        else:
            unchanged += 1
    return Rescored(changed, unchanged, without)


def add_blocks(store: Store) -> int:
    """Add what errors over test rows need to records that lack it and have predictions; how many were changed."""
    changed = 0
    for record in store.records():
        if record.status == "done" and "leave_out_blocks" not in record.meta:
            try:
                blocks = leave_out_blocks(store.predictions(record.cell))
            except KeyError:
                continue
            changed += store.amend(record.cell, leave_out_blocks=blocks)
    return changed
