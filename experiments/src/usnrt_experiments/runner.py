"""Running a grid: cells in parallel, each recorded when it is done, by any number of runners at once."""

import gc
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from usnrt_experiments.cells import Arrays, run_cell
from usnrt_experiments.coverage.cell import run_coverage_cell
from usnrt_experiments.grid import Cell, download_missing, size_of
from usnrt_experiments.progress import Reporter
from usnrt_experiments.recipes import COVERAGE
from usnrt_experiments.store import Claim, Store

# A worker process that dies (usually out of memory) breaks the pool; the pool is restarted this often.
MAX_RESTARTS = 3
MAX_RESIDENT_BYTES = 4 * 2**30


@dataclass
class Summary:
    """Result of a run.

    Attributes
    ----------
    done, failed : int
        Cells that this run finished.
    skipped : int
        Cells done before, or running elsewhere.
    """

    done: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class Outcome:
    """Result of one cell: a record, or an error."""

    claim: Claim
    meta: dict[str, Any]
    arrays: Arrays
    error: str | None = None


def run_grid(
    cells: Iterable[Cell],
    store: Store,
    n_jobs: int = 1,
    cluster: str | None = None,
    retry: bool = False,
    reporter: Reporter | None = None,
) -> Summary:
    """Run every cell that has no record.

    A cell is claimed just before it starts and recorded just after it ends, by this process; if the process is killed,
    only the running cells are lost.

    Parameters
    ----------
    cells : iterable of Cell
    store : Store
    n_jobs : int, default=1
        Cells run in parallel on this machine, -1 for one per core; the cores are divided equally between them.
    cluster : str, default=None
        Address of a Dask scheduler, such as ``"tcp://10.0.0.1:8786"``, whose workers run the cells instead.
    retry : bool, default=False
        Whether failed cells are run again.
    reporter : Reporter, default=None
        Shows progress; None for no output.

    Examples
    --------
    >>> import tempfile
    >>> from usnrt_experiments import Store, make_grid, run_grid
    >>> grid = make_grid(["generated-jump-50"], ["constant-normal"], seeds=[42, 142])
    >>> run_grid(grid, Store(tempfile.mkdtemp()))
    Summary(done=2, failed=0, skipped=0)
    """
    wanted = list(cells)
    summary = Summary()
    reporter = reporter or Reporter(quiet=True)
    settled = ("done",) if retry else ("done", "failed")
    ahead = [(cell, size_of(cell.dataset)) for cell in wanted if store.status(cell) not in settled]
    if cluster is None:
        download_missing(cell.dataset for cell, _ in ahead)
    with reporter.watch(ahead), _Claims(store) as claims:
        for attempt in range(MAX_RESTARTS + 1):
            try:
                for outcome in _outcomes(wanted, claims, n_jobs, cluster, retry and attempt == 0):
                    _record(outcome, store, summary, reporter)
                    claims.forget(outcome.claim)
                break
            except _broken_pool_errors() as error:
                claims.release_all()
                if attempt == MAX_RESTARTS:
                    raise RuntimeError(
                        f"worker processes died {attempt + 1} times, probably out of memory: "
                        "run again with fewer parallel cells to resume"
                    ) from error
    summary.skipped = len(wanted) - summary.done - summary.failed
    return summary


def _record(outcome: Outcome, store: Store, summary: Summary, reporter: Reporter) -> None:
    if outcome.error is not None:
        if store.fail(outcome.claim, outcome.error):
            summary.failed += 1
            reporter.failed(outcome.claim.cell, outcome.error)
    elif store.finish(outcome.claim, outcome.meta, outcome.arrays):
        summary.done += 1
        reporter.done(outcome.claim.cell, outcome.meta)


def _outcomes(cells: list[Cell], claims: "_Claims", n_jobs: int, cluster: str | None, retry: bool) -> Iterator[Outcome]:
    from joblib import Parallel, delayed, effective_n_jobs

    with _backend(cluster):
        at_once = effective_n_jobs(n_jobs if cluster is None else -1)
        threads = max(1, (os.cpu_count() or 1) // at_once) if cluster is None else 1
        # Tasks are dispatched one by one as workers become free, so a cell is claimed only when it starts.
        tasks = (delayed(_work)(claim, threads) for claim in claims.draw(cells, retry))
        pool = Parallel(at_once, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)
        with warnings.catch_warnings():
            # joblib replaces worker processes that use much memory, with a warning each time.
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
            yield from pool(tasks)


def _work(claim: Claim, n_jobs: int) -> Outcome:
    """Run a cell in a worker process; an exception becomes a failed cell, so that the others continue."""
    _drop_compiled_programs()
    try:
        run = run_coverage_cell if claim.cell.recipe == COVERAGE else run_cell
        meta, arrays = run(claim.cell, n_jobs=n_jobs)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(last.filename)}:{last.lineno}"
        return Outcome(claim, {}, {}, error=f"{type(error).__name__}: {error} (at {where})")
    return Outcome(claim, meta, arrays)


def _drop_compiled_programs() -> None:
    """Clear jax's compilation cache once the process uses gigabytes: it grows with every new shape."""
    jax = sys.modules.get("jax")
    statm = Path("/proc/self/statm")
    if jax is None or not statm.exists():
        return
    resident = int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if resident > MAX_RESIDENT_BYTES:
        jax.clear_caches()
        gc.collect()


@contextmanager
def _backend(cluster: str | None) -> Iterator[None]:
    if cluster is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError("running on a cluster needs Dask: pip install 'usnrt[dask]'") from error
    from joblib import parallel_config

    client_context: AbstractContextManager[Any]
    try:
        client_context = Client(cluster, timeout="20s")  # type: ignore[no-untyped-call]  # distributed is untyped
    except (OSError, ValueError) as error:
        raise ValueError(f"cluster must be the address of a Dask scheduler, got {cluster!r} ({error})") from error
    with client_context as client:
        client.wait_for_workers(1, timeout=60)
        with parallel_config(backend="dask", wait_for_workers_timeout=60):
            yield


def _broken_pool_errors() -> tuple[type[BaseException], ...]:
    from joblib.externals.loky.process_executor import BrokenProcessPool

    return (BrokenProcessPool,)


class _Claims(AbstractContextManager["_Claims"]):
    """The claims of this run: touched regularly, and released when the run ends for any reason."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[str, Claim] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._heartbeat = threading.Thread(target=self._touch_all, daemon=True)

    def __enter__(self) -> "_Claims":
        self._heartbeat.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._heartbeat.join()
        self.release_all()

    def draw(self, cells: list[Cell], retry: bool) -> Iterator[Claim]:
        """Claim, one by one, the cells that are neither done nor claimed elsewhere."""
        for cell in cells:
            claim = self._store.claim(cell, retry=retry)
            if claim is not None:
                with self._lock:
                    self._held[claim.token] = claim
                yield claim

    def forget(self, claim: Claim) -> None:
        with self._lock:
            self._held.pop(claim.token, None)

    def release_all(self) -> None:
        with self._lock:
            held, self._held = self._held, {}
        for claim in held.values():
            self._store.release(claim)

    def _touch_all(self) -> None:
        while not self._stop.wait(self._store.stale_after / 6):
            with self._lock:
                held = list(self._held.values())
            for claim in held:
                self._store.touch(claim)
