"""Records are whole or absent; claims keep two runners apart; nothing is lost when the disk is full."""

import errno
import json
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from usnrt_experiments import Cell, Store
from usnrt_experiments.store import DamagedRecord

CELL = Cell("electrical", "hnn", 42)
OTHER = Cell("electrical", "hnn", 142)
ARRAYS = {"y": np.arange(5, dtype=np.float32), "leaf": np.array([0, 0, 1, 1, 1], dtype=np.int16)}
META = {"metrics": {"ece": 1.25, "nll": float("inf")}, "tree": None}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def path_of(store, ending, cell=CELL):
    return store.root / "cells" / f"{cell.path}{ending}"


def fill(store, cell=CELL):
    assert store.finish(store.claim(cell), META, ARRAYS)


def test_what_is_written_is_read(store):
    fill(store)
    record = store.read(CELL)
    assert record.cell == CELL
    assert record.status == "done"
    assert record.meta["metrics"] == {"ece": 1.25, "nll": "inf"}
    assert float(record.meta["metrics"]["nll"]) == float("inf")
    arrays = store.predictions(CELL)
    assert set(arrays) == {"y", "leaf"}
    np.testing.assert_array_equal(arrays["y"], ARRAYS["y"])
    assert arrays["leaf"].dtype == np.int16
    assert [record.cell for record in store.records()] == [CELL]


def test_records_are_strict_json(store):
    fill(store)
    json.loads(path_of(store, ".json").read_text(), parse_constant=pytest.fail)


def test_equal_predictions_are_equal_bytes(store):
    fill(store)
    fill(store, OTHER)
    assert path_of(store, ".npz").read_bytes() == path_of(store, ".npz", OTHER).read_bytes()


def test_a_done_cell_is_not_claimed_again(store):
    fill(store)
    assert store.claim(CELL) is None
    assert store.claim(CELL, retry=True) is None


def test_a_failed_cell_is_claimed_again_only_on_request(store):
    assert store.fail(store.claim(CELL), "ValueError: no")
    assert store.status(CELL) == "failed"
    assert store.read(CELL).meta["error"] == "ValueError: no"
    assert store.claim(CELL) is None
    claim = store.claim(CELL, retry=True)
    assert store.claim(CELL, retry=True) is None
    assert store.finish(claim, META, ARRAYS)
    assert store.status(CELL) == "done"


def test_a_released_cell_is_free(store):
    claim = store.claim(CELL)
    assert store.status(CELL) == "running"
    store.release(claim)
    assert store.status(CELL) == "missing"
    assert store.claim(CELL) is not None


def test_the_claim_of_a_dead_process_is_taken_over(store):
    code = (
        "import sys; from usnrt_experiments import Store, Cell; "
        "assert Store(sys.argv[1]).claim(Cell('electrical', 'hnn', 42)); print('claimed')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(store.root)], capture_output=True, text=True, check=True)
    assert done.stdout == "claimed\n"
    assert path_of(store, ".claim").exists()
    assert store.claim(CELL) is not None


def test_the_claim_of_a_killed_process_with_a_record_is_removed(store):
    fill(store)
    path_of(store, ".claim").write_text(json.dumps({"token": "t", "pid": 2**22 + 1, "host": socket.gethostname()}))
    assert store.claim(CELL) is None
    assert not path_of(store, ".claim").exists()


def test_a_silent_claim_is_taken_over_from_its_first_owner(store):
    first = store.claim(CELL)
    long_ago = time.time() - 1000
    os.utime(path_of(store, ".claim"), (long_ago, long_ago))
    second = store.claim(CELL)
    assert second is not None
    assert store.finish(first, {"metrics": {"ece": 9.0}}, {}) is False
    assert store.status(CELL) == "running"
    assert store.finish(second, META, ARRAYS)
    assert store.read(CELL).meta["metrics"]["ece"] == 1.25


def test_a_touched_claim_stays(store):
    claim = store.claim(CELL)
    long_ago = time.time() - 1000
    os.utime(path_of(store, ".claim"), (long_ago, long_ago))
    store.touch(claim)
    assert store.claim(CELL) is None


@pytest.mark.parametrize("ending", [".json", ".npz"])
@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_damage_is_seen_and_run_again(store, ending, damage):
    fill(store)
    fill(store, OTHER)
    path = path_of(store, ending)
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(
        {
            "truncate": content[:middle],
            "flip": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            "empty": b"",
        }[damage]
    )
    assert store.status(CELL) == "damaged"
    with pytest.raises(DamagedRecord, match=r"run again$"):
        store.read(CELL)
    assert [record.cell for record in store.records()] == [OTHER]
    fill(store)
    assert store.status(CELL) == "done"


def test_records_without_predictions_are_done(store):
    fill(store)
    path_of(store, ".npz").unlink()
    assert store.status(CELL) == "done"
    with pytest.raises(KeyError, match="no per-row predictions of electrical hnn seed 42 in .*: run the cell again"):
        store.predictions(CELL)


def test_a_full_disk_loses_nothing(store, monkeypatch):
    fill(store, OTHER)
    claim = store.claim(CELL)

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        OSError, match=r"^\[Errno 28\] cannot write .*42.npz: No space left on device; earlier"
    ) as caught:
        store.finish(claim, META, ARRAYS)
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    assert store.status(OTHER) == "done"
    assert not list(store.root.rglob("*.part"))
    assert store.finish(claim, META, ARRAYS)


def test_what_a_kill_left_is_swept_away_later(store):
    left = store.root / "cells" / ".42.json.1.abc.part"
    left.parent.mkdir()
    left.write_bytes(b"half")
    Store(store.root)
    assert left.exists()
    long_ago = time.time() - 1000
    os.utime(left, (long_ago, long_ago))
    Store(store.root)
    assert not left.exists()


def test_git_keeps_facts_and_not_predictions(store):
    assert (store.root / ".gitignore").read_text() == "*.npz\n*.claim\n*.part\nstore.lock\n"


def test_unreadable_stores_say_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"^store must be a folder of records, got .*file: .*File exists"):
        Store(tmp_path / "file")
    newer = tmp_path / "newer"
    newer.mkdir()
    (newer / "store.json").write_text('{"format": 2}')
    with pytest.raises(ValueError, match=r"^store must have format 1, got format 2 in .*newer$"):
        Store(newer)
    (newer / "store.json").write_text("{")
    with pytest.raises(ValueError, match=r"^store must be a folder of records, got .*newer: "):
        Store(newer)


def test_a_forgotten_cell_is_run_again(store):
    fill(store)
    assert store.forget(CELL)
    assert store.status(CELL) == "missing"
    assert not path_of(store, ".npz").exists()
    assert not store.forget(CELL)
    store.fail(store.claim(CELL), "no")
    store.claim(CELL, retry=True)
    assert not store.forget(CELL)  # somebody works on it


def test_a_missing_record_says_so(store):
    with pytest.raises(KeyError, match="no record of electrical hnn seed 42"):
        store.read(CELL)


def test_records_with_former_names_of_settings_are_not_outdated():
    from usnrt_experiments.cells import settings_of
    from usnrt_experiments.recipes import get_recipe
    from usnrt_experiments.status import _compared

    now = settings_of(get_recipe("usnrt-ensemble").build(random_state=42))
    then = {name: value for name, value in now.items() if name != "n_estimators"} | {"n_members": 5}
    assert _compared(then) == _compared(now)
    assert _compared({**then, "n_members": 4}) != _compared(now)


def test_a_newer_parameter_outdates_records_only_if_it_is_set(tmp_path):
    from usnrt_experiments.cells import settings_of
    from usnrt_experiments.recipes import get_recipe
    from usnrt_experiments.status import outdated

    store = Store(tmp_path)
    cells = [Cell("electrical", recipe, 42) for recipe in ("evidential", "evidential-paper")]
    for cell in cells:
        settings = settings_of(get_recipe(cell.recipe).build(random_state=42))
        older = {name: value for name, value in settings.items() if name != "min_alpha"}
        store.finish(store.claim(cell), {"settings": older}, {})
    assert outdated(store) == cells[1:]  # the paper's recipe sets it
