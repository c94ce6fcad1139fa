"""Fits that were interrupted or killed go on, and end with the model of an uninterrupted fit, bit for bit."""

import functools
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.estimators.reading import identity_of
from usnrt.paper.baselines import HNNRegressor
from usnrt.tables.store import MemoryStore
from usnrt.tables.training import DistinctRows
from usnrt.utils import checkpoint as module
from usnrt.utils.checkpoint import CheckpointError

pytestmark = pytest.mark.usefixtures("no_threads_left")

QUICK = {"hidden": (16, 8), "max_epochs": 5, "min_samples_leaf": 100}
PAPER = {"max_epochs": 4, "min_samples_leaf": 100}


class Stopped(Exception):
    pass


@pytest.fixture(autouse=True)
def _save_every_epoch(monkeypatch):
    monkeypatch.setattr(module, "INTERVAL", 0.0)


def make_data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (320, 2))
    return X, X[:, 1] + np.where(X[:, 0] > 0, 1.0, 0.1) * rng.normal(size=320)


@pytest.fixture(scope="module")
def data():
    return make_data()


def tree(callbacks=None, n_jobs=2, **changes):
    return USNRTRegressor(**{**QUICK, "random_state": 0, **changes}, callbacks=callbacks, n_jobs=n_jobs)


def paper_tree(callbacks=None, n_jobs=2):
    return USNRTRegressor.paper(**PAPER, random_state=0, callbacks=callbacks, n_jobs=n_jobs)


def ensemble(callbacks=None, n_jobs=2):
    one = USNRTRegressor(**QUICK, callbacks=callbacks)
    return USNRTEnsemble(one, n_estimators=3, random_state=0, n_jobs=n_jobs)


def paper_ensemble(callbacks=None, n_jobs=2):
    one = USNRTRegressor.paper(**PAPER, callbacks=callbacks)
    return USNRTEnsemble.paper(estimator=one, n_estimators=2, random_state=0, n_jobs=n_jobs)


def saved(model, path):
    """The bytes of the model's file, without parameters of the run."""
    callbacks = "estimator__callbacks" if hasattr(model, "estimator") else "callbacks"
    model.set_params(n_jobs=1, **{callbacks: None})
    model.save(path)
    return path.read_bytes()


def stop_after(n_events):
    """A callback that ends the fit after so many epochs."""
    heard = []

    def stop(event):
        heard.append(event)
        if len(heard) > n_events:
            raise Stopped

    return stop


def interrupt(make, data, folder, n_events):
    with pytest.raises(Stopped):
        make([stop_after(n_events)]).fit(*data, checkpoint=folder)
    assert "checkpoint.json" in os.listdir(folder)
    assert not [name for name in os.listdir(folder) if name.endswith((".part", ".lock"))]


# -- the same bits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [tree, pytest.param(paper_tree, marks=pytest.mark.slow), ensemble, paper_ensemble])
def test_an_interrupted_fit_goes_on_to_the_same_bits(data, tmp_path, make):
    events = []
    expected = saved(make([events.append]).fit(*data), tmp_path / "expected")
    folder = tmp_path / "fit"
    for n_events in (0, len(events) // 3, len(events) // 3):
        interrupt(make, data, folder, n_events)
    again = []
    model = make([again.append], n_jobs=1).fit(*data, checkpoint=folder)
    assert len(again) < len(events) / 2  # most of it was not computed again
    assert saved(model, tmp_path / "resumed") == expected
    assert not folder.exists()
    assert "_checkpoint" not in vars(model)


def test_a_checkpoint_changes_nothing(data, tmp_path, monkeypatch):
    plain = saved(tree().fit(*data), tmp_path / "plain")
    monkeypatch.chdir(tmp_path)
    assert saved(tree([lambda _: os.chdir("/")]).fit(*data, checkpoint="fit"), tmp_path / "stored") == plain
    assert sorted(os.listdir(tmp_path)) == ["plain", "stored"]


def test_a_finished_tree_replaces_its_trainings(data, tmp_path, monkeypatch):
    expected = saved(ensemble().fit(*data), tmp_path / "expected")
    folder = tmp_path / "fit"
    monkeypatch.setattr("usnrt.model.fit._widening_support", lambda *_: (_ for _ in ()).throw(Stopped))
    with pytest.raises(Stopped):
        ensemble().fit(*data, checkpoint=folder)
    assert sorted(os.listdir(folder)) == ["checkpoint.json", "tree.entry.safetensors"]
    monkeypatch.undo()
    events = []
    model = ensemble([events.append]).fit(*data, checkpoint=folder)
    assert events == []
    assert saved(model, tmp_path / "resumed") == expected


def test_any_entry_may_be_missing(data, tmp_path):
    expected = saved(tree().fit(*data), tmp_path / "expected")
    events = []
    tree([events.append]).fit(*data)
    folder, kept = tmp_path / "fit", set()
    for number in range(2):
        interrupt(tree, data, folder, len(events) - 2 - number)
        entries = sorted(folder.glob("*.safetensors"))
        kept |= {path.name for path in entries}
        for path in entries[number::2]:
            path.unlink()
        assert saved(tree().fit(*data, checkpoint=folder), tmp_path / "resumed") == expected
    assert "tree_node-root.entry.safetensors" in kept


def test_a_seed_drawn_at_random_is_kept(data, tmp_path):
    def fit(**how):
        return tree(**how, random_state=None, memory=False).fit(*data, checkpoint=tmp_path / "fit")

    with pytest.raises(Stopped):
        fit(callbacks=[stop_after(3)])
    folder = tmp_path / "fit"
    copies = {path.name: path.read_bytes() for path in folder.iterdir()}
    first = fit().predict(data[0])
    folder.mkdir()
    for name, content in copies.items():
        (folder / name).write_bytes(content)
    np.testing.assert_array_equal(fit().predict(data[0]), first)
    assert not np.array_equal(fit().predict(data[0]), first)  # a new fit draws a new seed


def test_the_order_of_the_rows_does_not_matter(data, tmp_path):
    one_network = functools.partial(tree, validation=1)
    expected = one_network().fit(*data).predict(data[0])
    interrupt(one_network, data, tmp_path / "fit", 8)
    order = np.random.default_rng(1).permutation(len(data[1]))
    events = []
    model = one_network([events.append]).fit(data[0][order], data[1][order], checkpoint=tmp_path / "fit")
    assert "memory" not in {event.network for event in events}  # it was there
    np.testing.assert_array_equal(model.predict(data[0]), expected)


# -- other fits and other estimators ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def left_behind(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("left") / "fit"
    before, module.INTERVAL = module.INTERVAL, 0.0
    try:
        interrupt(tree, data, folder, 4)
    finally:
        module.INTERVAL = before
    return folder


def changed_target(X, y):
    return X, np.concatenate([y[:-1], [y[-1] + 1e-9]])


@pytest.mark.parametrize(
    ("model", "change", "difference"),
    [
        (tree(max_epochs=6), None, "max_epochs=5, got max_epochs=6"),
        (tree(random_state=1), None, "random_state=0, got random_state=1"),
        (tree(memory=False), None, "memory=True, got memory=False"),
        (ensemble(), None, "estimator='USNRTRegressor', got estimator='USNRTEnsemble'"),
        (tree(), lambda X, y: (X[1:], y[1:]), "rows=320, got rows=319"),
        (tree(), lambda X, y: (X[:, :1], y), "columns=2, got columns=1"),
        (tree(), changed_target, "hash of the data='[0-9a-f]{16}', got hash of the data='[0-9a-f]{16}'"),
        (tree(), lambda X, y: (X, y, np.arange(len(y)) % 2 + 1), "hash of the data="),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused(data, left_behind, model, change, difference):
    before = {path.name: path.read_bytes() for path in left_behind.iterdir()}
    with pytest.raises(CheckpointError, match=f"is of another fit: it was written with {difference}"):
        model.fit(*(data if change is None else change(*data)), checkpoint=left_behind)
    assert not hasattr(model, "model_")
    assert "_checkpoint" not in vars(model)
    assert {path.name: path.read_bytes() for path in left_behind.iterdir()} == before


def test_a_damaged_entry_ends_the_fit_with_a_sentence(data, tmp_path):
    folder = tmp_path / "fit"
    interrupt(tree, data, folder, 4)
    path = sorted(folder.glob("*.safetensors"))[-1]
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CheckpointError, match=r"^checkpoint file .* is damaged; delete it, and the fit computes this"):
        tree().fit(*data, checkpoint=folder)
    path.unlink()
    tree().fit(*data, checkpoint=folder)


def test_other_estimators_refuse_a_checkpoint(data, tmp_path):
    sentence = "checkpoint must be None for HNNRegressor, which cannot continue a fit, got 'fit'$"
    with pytest.raises(ValueError, match=sentence):
        HNNRegressor().fit(*data, checkpoint="fit")


def test_invalid_data_leave_no_folder(data, tmp_path):
    with pytest.raises(ValueError, match="y must be finite"):
        tree().fit(data[0], np.full(len(data[1]), np.nan), checkpoint=tmp_path / "fit")
    assert os.listdir(tmp_path) == []


# -- real processes ---------------------------------------------------------------------------------------------

CHILD = """
import sys
import time
import test_checkpoint
from usnrt.utils import checkpoint

checkpoint.INTERVAL = 0.0
heard = []


def hear(event):
    print(event.node, event.network, event.epoch, flush=True)
    heard.append(event)
    if len(heard) > int(sys.argv[3]):
        time.sleep(2.0)  # so that the signal comes in time, however busy the machine is


model = getattr(test_checkpoint, sys.argv[1])([hear])
try:
    model.fit(*test_checkpoint.make_data(), checkpoint=sys.argv[2])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def run_child(make, folder, n_events, delay, number, n_quick=10**9):
    """A process that fits in this folder; it gets a signal after so many epochs and a delay in seconds.

    Epochs after the first ``n_quick`` take seconds.
    """
    path = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, make.__name__, str(folder), str(n_quick)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        lines = [process.stdout.readline() for _ in range(n_events)]
        time.sleep(delay)
        os.kill(process.pid, number)
        rest, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    return process.returncode, "".join(lines) + rest


def kill_and_resume(make, data, tmp_path, draws, n_kills):
    """Kill a process at random moments; returns how many were killed before they had finished."""
    events = []
    expected = saved(make([events.append]).fit(*data), tmp_path / "expected")
    folder, n_killed = tmp_path / "fit", 0
    for _ in range(n_kills):
        remaining = len(events) // 2 if folder.exists() else len(events)
        n_events, delay = draws.randrange(1, max(remaining, 2)), draws.choice([0.0, draws.uniform(0.0, 0.05)])
        code, _ = run_child(make, folder, n_events, delay, signal.SIGKILL)
        n_killed += code == -signal.SIGKILL
        if draws.random() < 0.7 and folder.exists():
            assert saved(make().fit(*data, checkpoint=folder), tmp_path / "resumed") == expected
            assert not folder.exists()
    assert saved(make().fit(*data, checkpoint=folder), tmp_path / "resumed") == expected
    assert sorted(os.listdir(tmp_path)) == ["expected", "resumed"]
    return n_killed


def test_a_killed_process_goes_on_to_the_same_bits(data, tmp_path):
    assert kill_and_resume(tree, data, tmp_path, random.Random(0), 2) >= 1


@pytest.mark.slow
@pytest.mark.parametrize(("make", "seed"), [(tree, 1), (ensemble, 2), (paper_tree, 3)])
def test_fits_killed_at_random_moments_have_the_same_bits(data, tmp_path, make, seed):
    assert kill_and_resume(make, data, tmp_path, random.Random(seed), 10) >= 8


@pytest.mark.parametrize("make", [pytest.param(tree, marks=pytest.mark.slow), ensemble])
def test_ctrl_c_leaves_a_checkpoint_and_no_other_files(data, tmp_path, make):
    expected = saved(make().fit(*data), tmp_path / "expected")
    folder = tmp_path / "fit"
    code, printed = run_child(make, folder, 6, 0.0, signal.SIGINT, n_quick=5)
    assert (code, printed.splitlines()[-1]) == (0, "interrupted")
    names = os.listdir(folder)
    assert "checkpoint.json" in names
    assert all(name == "checkpoint.json" or name.endswith(".entry.safetensors") for name in names)
    assert sorted(os.listdir(tmp_path)) == ["expected", "fit"]
    assert saved(make().fit(*data, checkpoint=folder), tmp_path / "resumed") == expected


def test_generators_in_equal_states_are_the_same_fit():
    def identity(random_state):
        rows = DistinctRows(np.ones((1, 1)), np.ones(1), np.ones(1), np.zeros(1, dtype=int))
        return identity_of(USNRTRegressor(random_state=random_state), MemoryStore(rows), [0])

    assert identity(np.random.RandomState(0)) == identity(np.random.RandomState(0))
    assert identity(np.random.RandomState(0)) != identity(np.random.RandomState(1))
    advanced = np.random.RandomState(0)
    advanced.rand()
    assert identity(np.random.RandomState(0)) != identity(advanced)


def test_other_groups_are_another_fit(data):
    def identity(groups):
        model = tree()
        rows = model._read_rows(*data, None, groups)
        return identity_of(model, MemoryStore(rows), model.encoder_.n_categories_)["data"]

    group = np.arange(len(data[1])) // 4
    assert identity(group) == identity(group.astype(str).astype(int))
    assert identity(group) != identity(group // 2)
