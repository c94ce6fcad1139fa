"""Metrics of records from their kept predictions: a new or mended metric needs no refit."""

from dataclasses import dataclass

from usnrt.bench.scores import score
from usnrt.bench.store import Store


@dataclass(frozen=True)
class Rescored:
    """How many records have other metrics now, the same as before, or no predictions to compute them from."""

    changed: int
    unchanged: int
    without_predictions: int


def rescore(store: Store) -> Rescored:
    """Compute every metric of every done cell again and write down what differs.

    Records without per-row predictions, as in a clone of the results, keep the metrics that they have.

    Parameters
    ----------
    store : Store

    Returns
    -------
    Rescored

    Examples
    --------
    >>> import tempfile
    >>> from usnrt.bench import Cell, Store, run_grid
    >>> from usnrt.bench.rescore import rescore
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
            metrics = score(store.predictions(record.cell))
        except KeyError:
            without += 1
            continue
        if store.amend(record.cell, metrics=metrics):
            changed += 1
        else:
            unchanged += 1
    return Rescored(changed, unchanged, without)
