"""A grid killed at random moments and resumed, shared by two runners, or run on a cluster gives the same records."""

import io
import os
import random
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from distributed import Client

from usnrt_experiments import Cell, Store, make_grid, run_grid, runner
from usnrt_experiments.progress import Reporter

DATASETS = ["generated-piecewise-60", "generated-smooth-50"]
RECIPES = ["constant-normal?delay=0.05", "constant-normal"]


def command(store, *more):
    words = [sys.executable, "-m", "usnrt_experiments", "run", "--store", str(store)]
    for name in DATASETS:
        words += ["--dataset", name]
    for name in RECIPES:
        words += ["--recipe", name]
    return [*words, *more]


def contents(store):
    """Metrics and prediction bytes of every record: all that must not depend on how it was run."""
    store = Store(store)
    return {record.cell: (record.meta["metrics"], record.meta["npz_sha256"]) for record in store.records()}


def record_times(root):
    return {path: path.stat().st_mtime_ns for path in root.glob("cells/*/*/*.json")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    root = tmp_path_factory.mktemp("undisturbed")
    grid = make_grid(DATASETS, RECIPES)
    summary = run_grid(grid, Store(root))
    assert (summary.done, summary.failed, summary.skipped) == (20, 0, 0)
    return contents(root)


def test_a_second_run_does_nothing(tmp_path):
    store = Store(tmp_path)
    grid = make_grid(DATASETS, ["constant-normal"], seeds=[42])
    assert run_grid(grid, store).done == 2
    before = record_times(tmp_path)
    assert run_grid(grid, store).skipped == 2
    assert record_times(tmp_path) == before


def kill_and_resume(root, chance, cells_a_life, jobs):
    """Start a run, kill it after some more cells, and again until all is done; returns the number of kills."""
    before: dict = {}
    kills = 0
    while len(before) < 20:
        process = subprocess.Popen(
            command(root, "--quiet", "--jobs", jobs),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # It lives until it has recorded something new, so that every life gets somewhere, and a random moment longer.
        target = min(len(before) + chance.randint(*cells_a_life), 20)
        while len(record_times(root)) < target and process.poll() is None:
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.1))
        kills += process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        now = record_times(root)
        assert {path: now[path] for path in before} == before, "a finished cell was written again"
        assert len(contents(root)) == len(now), "a record is damaged"
        before = now
    return kills


@pytest.mark.parametrize(
    ("cells_a_life", "jobs"), [((4, 9), "1"), pytest.param((1, 4), "2", marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_killed_at_random_moments_and_resumed(tmp_path, undisturbed, cells_a_life, jobs):
    assert kill_and_resume(tmp_path, random.Random(5), cells_a_life, jobs) >= 2
    summary = run_grid(make_grid(DATASETS, RECIPES), Store(tmp_path))
    assert (summary.failed, summary.skipped) == (0, 20)
    assert contents(tmp_path) == undisturbed


def test_two_runners_share_a_store(tmp_path, undisturbed):
    runners = [
        subprocess.Popen(command(tmp_path, "--quiet"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [runner.communicate(timeout=120) for runner in runners]
    done = [int(output.split(" done")[0]) for output, _ in outputs]
    assert sum(done) == 20, outputs  # no cell twice
    assert contents(tmp_path) == undisturbed
    assert not list(tmp_path.rglob("*.claim"))


def test_a_failed_cell_is_tried_again_only_on_request(tmp_path):
    store = Store(tmp_path)
    grid = make_grid(["generated-jump-20"], ["constant-normal?delay='soon'", "constant-normal"], seeds=[42])
    summary = run_grid(grid, store)
    assert (summary.done, summary.failed) == (1, 1)
    error = store.read(grid[0]).meta["error"]
    assert error.startswith("TypeError: 'str' object cannot be interpreted")
    assert error.endswith(")")
    assert run_grid(grid, store).skipped == 2
    summary = run_grid(grid, store, retry=True)
    assert (summary.failed, summary.skipped) == (1, 1)


def test_a_missing_data_set_stops_the_run_and_is_no_failed_cell(tmp_path, monkeypatch):
    monkeypatch.setenv("USNRT_DATA", str(tmp_path))
    monkeypatch.setenv("USNRT_CACHE", str(tmp_path))
    monkeypatch.setenv("USNRT_DATA_URL", "http://127.0.0.1:9")
    store = Store(tmp_path / "store")
    with pytest.raises(
        FileNotFoundError, match=r"^data set 'wave' was not found in .* put wave.zip or Adelaide_Data.csv"
    ):
        run_grid(make_grid(["generated-jump-20", "wave"], ["constant-normal"], seeds=[42]), store)
    assert list(store.records()) == []


def test_claims_are_given_back_when_the_run_is_interrupted(tmp_path):
    store = Store(tmp_path)

    class Interrupting(Reporter):
        def done(self, cell, meta):
            raise KeyboardInterrupt

    grid = make_grid(DATASETS, ["constant-normal"], seeds=[42])
    with pytest.raises(KeyboardInterrupt):
        run_grid(grid, store, reporter=Interrupting(quiet=True))
    assert not list(tmp_path.rglob("*.claim"))
    assert run_grid(grid, store).done == 1


def test_compiled_programs_are_dropped_when_they_take_too_much(monkeypatch):
    cleared = []
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(clear_caches=lambda: cleared.append(True)))
    runner._drop_compiled_programs()
    assert cleared == []
    monkeypatch.setattr(runner, "MAX_RESIDENT_BYTES", 1)
    runner._drop_compiled_programs()
    assert cleared == [True]


class Suicide:
    """A model whose fit kills its own process, once: the file says whether it has."""

    def __init__(self, flag="", random_state=None):
        self.flag = flag

    def fit(self, X, y):
        if not os.path.exists(self.flag):
            open(self.flag, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        from usnrt_experiments.constant import ConstantNormal

        self.model = ConstantNormal().fit(X, y)
        return self

    def predict_dist(self, X):
        return self.model.predict_dist(X)

    def get_params(self, deep=True):
        return {"flag": self.flag}


def test_cells_in_parallel_give_the_same_if_a_worker_dies(tmp_path, monkeypatch, undisturbed):
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    flag = tmp_path / "killed"
    suicide = Cell(DATASETS[0], f"test_runner:Suicide?flag={flag}", 42)
    store = Store(tmp_path / "store")
    summary = run_grid([*make_grid(DATASETS, RECIPES), suicide], store, n_jobs=2)
    assert flag.exists()
    assert (summary.done, summary.failed) == (21, 0)
    found = contents(store.root)
    assert found.pop(suicide) == found[Cell(DATASETS[0], "constant-normal", 42)]
    assert found == undisturbed
    assert len({record.meta["process"] for record in store.records()} - {os.getpid()}) >= 2


# -- Dask ---------------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def cluster(tmp_path):
    """A scheduler and two worker processes on loopback; yields the address and the workers."""
    address = f"tcp://127.0.0.1:{free_port()}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    scheduler = subprocess.Popen(
        [*dask, "--host", "127.0.0.1", "--port", address.rsplit(":", 1)[1], "--no-dashboard"], **quiet
    )
    workers = [
        subprocess.Popen(
            [
                *[sys.executable, "-m", "distributed.cli.dask_worker", address, "--host", "127.0.0.1"],
                *["--nthreads", "1", "--no-nanny", "--no-dashboard"],
            ],
            **quiet,
        )
        for _ in range(2)
    ]
    with Client(address, timeout="60s") as client:
        client.wait_for_workers(2, timeout=60)
    yield address, workers
    for process in [*workers, scheduler]:
        process.kill()
        process.wait()


@pytest.mark.filterwarnings("ignore")  # distributed warns of the worker that dies, which is the point
def test_a_dask_cluster_that_loses_a_worker_gives_the_same(tmp_path, cluster, undisturbed):
    address, workers = cluster
    store = Store(tmp_path / "store")

    class Killing(Reporter):
        """Kills the worker that did the third cell, as it begins its next."""

        seen = 0

        def done(self, cell, meta):
            self.seen += 1
            if self.seen == 3:
                os.kill(meta["process"], signal.SIGKILL)

    summary = run_grid(make_grid(DATASETS, RECIPES), store, cluster=address, reporter=Killing(quiet=True))
    assert (summary.done, summary.failed) == (20, 0)
    assert contents(store.root) == undisturbed
    assert {record.meta["process"] for record in store.records()} == {worker.pid for worker in workers}
    time.sleep(0.1)
    assert sorted(str(worker.poll()) for worker in workers) == [str(-signal.SIGKILL), "None"]


def test_a_wrong_cluster_address_says_so(tmp_path):
    with pytest.raises(ValueError, match=r"^cluster must be the address of a Dask scheduler, got 'nonsense:x' \("):
        run_grid(make_grid(DATASETS, RECIPES), Store(tmp_path), cluster="nonsense:x")


# -- progress -----------------------------------------------------------------------------------------------------


def test_a_line_a_cell_where_there_is_no_terminal(tmp_path):
    stream = io.StringIO()
    grid = make_grid(["generated-jump-20"], ["constant-normal?delay='soon'", "constant-normal"], seeds=[42])
    run_grid(grid, Store(tmp_path), reporter=Reporter(stream=stream))
    first, second = stream.getvalue().splitlines()
    assert first.startswith(
        "[1 of 2, about 0 s left] generated-jump-20 constant-normal?delay='soon' seed 42 FAILED: Type"
    )
    assert second.startswith("[2 of 2, about 0 s left] generated-jump-20 constant-normal seed 42: ece ")
    assert second.endswith("fitted in 0.0 s")


def test_a_bar_with_time_left_on_a_terminal(tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "100")
    run_grid(make_grid(["generated-jump-20"], ["constant-normal"]), Store(tmp_path), reporter=Reporter())
    shown = sys.stderr.getvalue()
    assert "generated-jump-20 constant-normal seed 442: ece" in shown
    assert "100 %" in shown
    assert "left:" in shown


def test_cells_are_ordered_by_what_they_tell():
    grid = make_grid(["power", "electrical"], ["usnrt-paper", "hnn"])
    assert grid[:5] == [
        Cell("electrical", "usnrt-paper", 42),
        Cell("power", "usnrt-paper", 42),
        Cell("electrical", "hnn", 42),
        Cell("power", "hnn", 42),
        Cell("electrical", "usnrt-paper", 142),
    ]
    assert len(grid) == 20
    assert {cell.seed for cell in make_grid(["gpu", "blog"], ["hnn"])} == {42}


def test_predictions_are_of_the_scaled_target(tmp_path):
    cell = Cell("generated-piecewise-500", "constant-normal", 42)
    store = Store(tmp_path)
    run_grid([cell], store)
    arrays = store.predictions(cell)
    np.testing.assert_allclose(arrays["mean"], 0, atol=1e-6)
    np.testing.assert_allclose(arrays["std"], 1, atol=1e-6)
    assert store.read(cell).meta["metrics"]["sharpness"] == pytest.approx(100)
