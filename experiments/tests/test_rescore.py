"""A new metric reaches old records without a refit, and nothing else of them changes."""

import numpy as np
import pytest

from usnrt_experiments import Cell, Store, run_grid
from usnrt_experiments.page import cells_csv
from usnrt_experiments.rescore import Rescored, rescore
from usnrt_experiments.scores import METRICS

CELLS = [Cell("generated-piecewise-300", "constant-normal", seed) for seed in (42, 142)]


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    run_grid(CELLS, store)
    return store


def mean_error(rows):
    return float(100 * np.mean(rows["y"] - rows["mean"]))


def test_metrics_from_kept_predictions_are_those_of_the_run(store):
    before = [record.meta for record in store.records()]
    assert rescore(store) == Rescored(changed=0, unchanged=2, without_predictions=0)
    assert [record.meta for record in store.records()] == before


def test_a_new_metric_needs_no_refit(store, monkeypatch):
    before = {record.cell: record.meta for record in store.records()}
    monkeypatch.setitem(METRICS, "mean_error", mean_error)
    assert cells_csv(list(store.records())).splitlines()[1].count(",,") == 2  # not known yet: blank, as regions are
    assert rescore(store) == Rescored(changed=2, unchanged=0, without_predictions=0)
    for cell in CELLS:
        meta = store.read(cell).meta
        rows = store.predictions(cell)  # still agree with their checksum
        assert meta["metrics"].pop("mean_error") == mean_error(rows)
        assert meta == before[cell]


def test_older_records_get_what_errors_over_rows_need(store):
    """From their predictions, as if they had been made today; without predictions they stay as they are."""
    from usnrt_experiments.rescore import add_blocks

    before = {record.cell: record.meta for record in store.records()}
    assert all(len(meta["leave_out_blocks"]["crps"]) == 25 for meta in before.values())
    assert add_blocks(store) == 0
    for record in list(store.records()):
        old = {name: value for name, value in record.meta.items() if name not in ("leave_out_blocks", "npz_sha256")}
        rows = store.predictions(record.cell)
        store.forget(record.cell)
        store.finish(store.claim(record.cell), old, rows)
    (store.root / "cells" / f"{CELLS[1].path}.npz").unlink()
    assert add_blocks(store) == 1
    assert store.read(CELLS[0]).meta == before[CELLS[0]]
    assert "leave_out_blocks" not in store.read(CELLS[1]).meta


def test_records_without_predictions_and_failed_ones_stay(store):
    (store.root / "cells" / f"{CELLS[0].path}.npz").unlink()
    failed = Cell("generated-piecewise-200", "hnn", 42)
    store.fail(store.claim(failed), "ValueError: no")
    assert rescore(store) == Rescored(changed=0, unchanged=1, without_predictions=1)
    assert store.status(failed) == "failed"


def test_a_record_that_is_gone_or_damaged_is_not_amended(store):
    first, second = CELLS
    store.forget(first)
    assert not store.amend(first, metrics={})
    assert store.status(first) == "missing"
    (store.root / "cells" / f"{second.path}.json").write_text("{")
    assert not store.amend(second, metrics={})
    assert store.status(second) == "damaged"


def test_a_record_in_work_again_is_not_amended(store):
    failed = Cell("generated-piecewise-200", "hnn", 42)
    store.fail(store.claim(failed), "ValueError: no")
    claim = store.claim(failed, retry=True)
    assert not store.amend(failed, error="other")
    store.release(claim)
    assert store.amend(failed, error="other")
    assert store.read(failed).meta["error"] == "other"
