"""The checkpoint object: entries, damage, locks, other folders, disks that are full or read-only."""

import os
import pickle
import subprocess
import sys
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

from usnrt.nn.stored import CODEC
from usnrt.nn.train import History
from usnrt.utils import checkpoint as module
from usnrt.utils.checkpoint import NO_CHECKPOINT, CheckpointError, CheckpointWarning, FolderCheckpoint, opened
from usnrt.utils.resumable import Resumable

IDENTITY = {"parameters": {"alpha": 0.01, "hidden": [8, 4]}, "data": {"rows": 100}}


@contextmanager
def interrupted(folder, identity=IDENTITY):
    """A fit that ends with Ctrl-C, so that its checkpoint stays."""
    with pytest.raises(KeyboardInterrupt), opened(folder) as own:  # noqa: PT012
        yield own.resume(identity)
        raise KeyboardInterrupt


# -- entries ----------------------------------------------------------------------------------------------------


def test_entries_come_back_exactly(tmp_path):
    arrays = {
        "weights": np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32),
        "count": np.array(7, dtype=np.int32),
        "empty": np.zeros((0, 3), dtype=bool),
        "transposed": np.arange(6.0).reshape(2, 3).T,
    }
    plain = {"loss": 0.1 + 0.2, "nothing": None, "infinite": float("inf"), "position": 2**127 + 1}
    node = FolderCheckpoint(tmp_path).within("node LR")
    assert node.save("probe", [arrays, plain])
    loaded, others = FolderCheckpoint(tmp_path).within("node LR").load("probe")
    assert others == plain
    assert set(loaded) == set(arrays)
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded[name], array)


def test_clear_removes_the_entries_within_a_name_and_no_others(tmp_path):
    checkpoint = FolderCheckpoint(tmp_path)
    node = checkpoint.within("node L")
    for where, key in ((checkpoint, "node L"), (checkpoint, "node LR"), (node, "probe"), (node.within("a"), "b")):
        where.save(key, {})
    (tmp_path / "node-L_mine.txt").touch()
    node.clear()
    assert node.load("probe") is None
    assert node.within("a").load("b") is None
    assert checkpoint.load("node L") is not None
    assert checkpoint.load("node LR") is not None
    assert (tmp_path / "node-L_mine.txt").exists()


def test_long_names_stay_distinct(tmp_path):
    checkpoint = FolderCheckpoint(tmp_path)
    names = ["L" * 300, "L" * 299 + "R"]
    for number, name in enumerate(names):
        checkpoint.within(f"node {name}").save("probe", number)
    assert [checkpoint.within(f"node {name}").load("probe") for name in names] == [0, 1]


def test_a_copy_in_another_process_writes_to_the_same_folder(tmp_path):
    node = FolderCheckpoint(tmp_path).within("member 1")
    pickle.loads(pickle.dumps(node)).save("tree", {"n": 1})
    assert node.load("tree") == {"n": 1}


def test_a_state_is_due_after_the_interval(tmp_path, monkeypatch):
    checkpoint = FolderCheckpoint(tmp_path)
    assert not checkpoint.is_due("training")
    monkeypatch.setattr(module, "INTERVAL", 0.0)
    assert checkpoint.is_due("training")
    assert not NO_CHECKPOINT.is_due("training")


@pytest.mark.parametrize("place", range(0, 100, 7))
def test_any_damaged_byte_is_detected(tmp_path, place):
    checkpoint = FolderCheckpoint(tmp_path)
    checkpoint.save("root", {"weights": np.arange(5.0), "epoch": 3})
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    data[place * len(data) // 100] ^= 4
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"^checkpoint file .*root.* is damaged; delete it, and the fit computes"):
        checkpoint.load("root")


@pytest.mark.parametrize("length", [0, 5, 60, -1])
def test_a_truncated_entry_and_one_of_another_key_are_detected(tmp_path, length):
    checkpoint = FolderCheckpoint(tmp_path)
    checkpoint.save("root", {"weights": np.arange(5.0)})
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    (tmp_path / path.name.replace("root", "other")).write_bytes(data)
    path.write_bytes(data[:length])
    for key in ("root", "other"):
        with pytest.raises(CheckpointError, match="is damaged"):
            checkpoint.load(key)


def test_loading_runs_no_code(tmp_path):
    checkpoint = FolderCheckpoint(tmp_path)
    checkpoint.save("root", {})
    (path,) = tmp_path.iterdir()

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "was here"),)

    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(CheckpointError, match="is damaged"):
        checkpoint.load("root")
    assert not (tmp_path / "was here").exists()


def test_an_entry_with_a_field_that_is_not_valid_is_damaged(tmp_path):
    checkpoint, history = FolderCheckpoint(tmp_path), History()
    history.best_epoch = -7
    checkpoint.save("training", history, CODEC)
    with pytest.raises(CheckpointError, match="^checkpoint file .*training.* is damaged; delete it"):
        checkpoint.load("training", CODEC)
    with pytest.raises(CheckpointError, match="is damaged"):  # of a class that is not asked for
        checkpoint.load("training")


# -- resuming ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stopped_after", [0, 1, 3])
def test_a_computation_goes_on_with_the_same_random_numbers(tmp_path, stopped_after):
    def run(checkpoint, n_rounds, stop=None):
        rng = np.random.default_rng(0)
        with Resumable(checkpoint, "sum", rng) as entry:
            state = entry.state or {"done": 0, "sum": 0.0}
            while state["done"] < n_rounds and entry.result is None:
                if state["done"] == stop:
                    rng.normal()  # an incomplete round
                    raise KeyboardInterrupt
                state = {"done": state["done"] + 1, "sum": state["sum"] + rng.normal()}
                entry.keep(state)
            if entry.result is None:
                entry.finish(state["sum"])
        return entry.result, rng.normal()

    expected = run(NO_CHECKPOINT, 5)
    with pytest.raises(KeyboardInterrupt):
        run(FolderCheckpoint(tmp_path), 5, stopped_after)
    assert len(list(tmp_path.iterdir())) == (stopped_after > 0)
    assert run(FolderCheckpoint(tmp_path), 5) == expected
    assert run(FolderCheckpoint(tmp_path), 5) == expected  # from the result


# -- folders ----------------------------------------------------------------------------------------------------


def test_only_an_interrupted_fit_leaves_a_checkpoint(tmp_path):
    new, empty = tmp_path / "a" / "new", tmp_path / "empty"
    empty.mkdir()
    for folder in (new, empty):
        with interrupted(folder) as checkpoint:
            checkpoint.save("root", {})
        assert sorted(os.listdir(folder)) == ["checkpoint.json", "root.entry.safetensors"]
        with opened(folder) as own:
            assert own.resume(IDENTITY).load("root") is not None
    assert not new.exists()
    assert os.listdir(empty) == []  # it was there before


def test_a_fit_that_fails_before_it_starts_leaves_no_folder(tmp_path):
    with pytest.raises(ValueError, match="y must be finite"), opened(tmp_path / "new"):
        raise ValueError("y must be finite")
    assert os.listdir(tmp_path) == []


def test_nothing_is_written_after_the_end(tmp_path):
    with interrupted(tmp_path) as checkpoint:
        pass
    assert not checkpoint.save("root", {})
    assert os.listdir(tmp_path) == ["checkpoint.json"]


def test_only_files_of_a_killed_process_are_removed(tmp_path):
    with interrupted(tmp_path):
        pass
    (tmp_path / ".root.entry.safetensors.abc.part").write_bytes(b"half")
    (tmp_path / "notes.txt").write_bytes(b"mine")
    with opened(tmp_path) as own:
        own.resume(IDENTITY)
        assert sorted(os.listdir(tmp_path)) == ["checkpoint.json", "checkpoint.lock", "notes.txt"]
    assert os.listdir(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"parameters": {"alpha": 0.02, "hidden": [8, 4]}}, "alpha=0.01, got alpha=0.02"),
        ({"parameters": {"alpha": 0.01, "hidden": (8,)}}, r"hidden=\[8, 4\], got hidden=\[8\]"),
        ({"parameters": {"alpha": 0.01}}, r"hidden=\[8, 4\], got hidden=None"),
        ({"data": {"rows": 99}}, "rows=100, got rows=99"),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused_and_kept(tmp_path, changed, difference):
    with interrupted(tmp_path) as checkpoint:
        checkpoint.save("root", {})
    before = sorted(os.listdir(tmp_path))
    sentence = f"is of another fit: it was written with {difference}; use another folder or delete this one$"
    with pytest.raises(CheckpointError, match=sentence), opened(tmp_path) as own:
        own.resume({**IDENTITY, **changed})
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(("name", "version"), [("usnrt", "0.0.1"), ("jax", "9.9"), ("format", "1")])
def test_a_checkpoint_of_another_version_is_refused(tmp_path, monkeypatch, name, version):
    versions = module._versions()
    with interrupted(tmp_path):
        pass
    monkeypatch.setattr(module, "_versions", lambda: {**versions, name: version})
    with (
        pytest.raises(CheckpointError, match=f"written with {name}='{versions[name]}', got {name}='{version}'; use"),
        opened(tmp_path) as own,
    ):
        own.resume(IDENTITY)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", None])
def test_a_damaged_manifest_is_refused(tmp_path, content):
    with interrupted(tmp_path):
        pass
    path = tmp_path / "checkpoint.json"
    path.write_bytes(path.read_bytes().replace(b"0.01", b"0.02") if content is None else content)
    sentence = r"is damaged: checkpoint.json is not valid; use another folder or delete this one$"
    with pytest.raises(CheckpointError, match=sentence), opened(tmp_path) as own:
        own.resume(IDENTITY)


def test_a_drawn_seed_stays(tmp_path):
    with interrupted(tmp_path) as checkpoint:
        assert checkpoint.fixed("seed", [1, 2]) == [1, 2]
    with interrupted(tmp_path) as checkpoint:
        assert checkpoint.fixed("seed", [3, 4]) == [1, 2]
    assert NO_CHECKPOINT.fixed("seed", [3]) == [3]


def test_other_folders_files_and_values_are_refused_unchanged(tmp_path):
    (tmp_path / "data.csv").write_text("x,y\n")
    for folder, sentence in (
        (tmp_path, "checkpoint must be a new or empty folder or one of a fit, got .* with data.csv$"),
        (tmp_path / "data.csv", "checkpoint must be a folder, got the file .*data.csv$"),
        (tmp_path / "data.csv" / "a", "checkpoint .* cannot be written: not a directory$"),
    ):
        with pytest.raises(CheckpointError, match=sentence), opened(folder):
            raise AssertionError
    for value in (3, "", True):
        with (
            pytest.raises(TypeError, match=f"checkpoint must be the path of a folder or None, got {value!r}$"),
            opened(value),
        ):
            raise AssertionError
    assert os.listdir(tmp_path) == ["data.csv"]


# -- locks ------------------------------------------------------------------------------------------------------

HOLD = """
import sys
from usnrt.utils.checkpoint import opened
with opened(sys.argv[1]) as own:
    own.resume({})
    print("open", flush=True)
    sys.stdin.read()
"""


def test_one_process_at_a_time_and_a_killed_one_does_not_count(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "open\n"
            sentence = f"is in use by process {process.pid} on .*; wait for it or use another folder$"
            with pytest.raises(CheckpointError, match=sentence), opened(tmp_path):
                raise AssertionError
        finally:
            process.kill()
    assert sorted(os.listdir(tmp_path)) == ["checkpoint.json", "checkpoint.lock"]
    with opened(tmp_path) as own:
        own.resume({})
    assert os.listdir(tmp_path) == []


def test_two_fits_of_one_process_do_not_share_a_folder(tmp_path):
    with (
        opened(tmp_path),
        pytest.raises(CheckpointError, match=f"is in use by process {os.getpid()} "),
        opened(tmp_path),
    ):
        raise AssertionError


# -- disks ------------------------------------------------------------------------------------------------------


@pytest.fixture
def mounted(tmp_path):
    """Mounts a small disk; skips the test where that is not allowed."""
    folders = []

    def mount(options):
        folder = tmp_path / f"disk{len(folders)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        try:
            failed = subprocess.run(command, capture_output=True).returncode
        except OSError:
            failed = True
        if failed:
            pytest.skip("mounting is not allowed here")
        folders.append(folder)
        return folder

    yield mount
    for folder in folders:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_read_only_disk_gives_one_sentence(mounted):
    disk = mounted("size=1m,ro")
    for folder in (disk, disk / "new"):
        with pytest.raises(CheckpointError, match="cannot be written: read-only file system$"), opened(folder):
            raise AssertionError


def test_a_full_disk_gives_one_warning_and_loses_nothing(mounted):
    disk = mounted("size=1m")
    with interrupted(disk) as checkpoint:
        assert checkpoint.save("root", {"weights": np.ones(1000), "epoch": 1})
        with pytest.warns(CheckpointWarning, match="could not be written: no space left on device; the fit continues"):
            assert not checkpoint.save("root", {"weights": np.ones(10**6), "epoch": 2})
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # one warning is enough
            assert not checkpoint.save("other", {"weights": np.ones(10**6)})
        assert checkpoint.load("root")["epoch"] == 1
        assert checkpoint.save("small", {})
    assert sorted(os.listdir(disk)) == ["checkpoint.json", "root.entry.safetensors", "small.entry.safetensors"]


def test_a_disk_without_any_room_gives_one_sentence(mounted):
    disk = mounted("size=1m")
    (disk / "fill").write_bytes(b"")
    folder = disk / "fit"
    with pytest.raises(OSError, match="No space"):
        (disk / "fill").write_bytes(bytes(2**21))
    with pytest.raises(CheckpointError, match="cannot be written: no space left on device$"), opened(folder) as own:
        own.resume(IDENTITY)
    assert os.listdir(disk) == ["fill"]
