"""One fit on a Dask cluster: the client only plans it, workers read, encode, train, grow and calibrate.

1. `usnrt.tables.cluster_store`: statistics of each partition, merged; then chunks of sorted rows, on the workers.
2. `fit_on_worker`, a task: one worker gathers the sample and fits the model to it, as any fit of a store. It is a
   client of the cluster itself, and reads the rows to train on from the workers, window by window
   (`usnrt.tree.encoded_rows`).
3. The fitted attributes are sent to the client.
"""

import queue
import sys
import time
import uuid
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from usnrt.nn.device import DISK_CACHE
from usnrt.tables import read_table
from usnrt.tables.cluster_store import ChunkTable, ClusterStore, build_chunks, survey_graph
from usnrt.tables.dask_rows import DaskRows, PartitionKind
from usnrt.tables.encoder import TableEncoder
from usnrt.tables.find_source import rows_fit_memory, whole_of
from usnrt.utils.checkpoint import CheckpointError, Folder
from usnrt.utils.progress import FitEvent, FitStopped, Progress, progress_stream
from usnrt.utils.threads import ONE_BLAS_THREAD

if TYPE_CHECKING:
    from usnrt.estimators.base import DistributionalRegressor

_CHECK_SECONDS = 1.0  # between two looks at whether the client wants the fit to end


def active_client() -> Any:
    """The active `distributed.Client` of this process, or None; never imports Dask.

    Examples
    --------
    >>> active_client() is None
    True
    """
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        client = distributed.default_client()
    except ValueError:
        return None
    return None if client.asynchronous else client


@dataclass(frozen=True)
class FittedState:
    """What a worker sends back: the attributes of the fitted estimator, warnings, and whose the checkpoint is."""

    attributes: dict[str, Any]
    warnings: list[tuple[str, type[Warning]]]
    is_new_folder: bool


def fit_on_cluster(
    model: "DistributionalRegressor", rows: DaskRows, client: Any, checkpoint: Folder | None = None
) -> None:
    """Fit an estimator to a Dask collection on the workers of a client; its fitted attributes are set.

    All workers share the file system of the checkpoint.
    """
    progress = Progress(getattr(model, "verbose", 0))
    if not rows.partitions:
        raise ValueError(f"{rows.source.name} has no rows")
    survey = client.compute(survey_graph(rows, model._parameter("categorical_features"))).result()
    survey.check(rows.source.name)
    n_partitions, n_workers = len(rows.partitions), len(client.nthreads())
    progress.note(
        f"read {survey.n_rows:,} rows in {n_partitions} {rows.kind.word}s, on a cluster of {n_workers} workers"
    )
    relay = _Relay(client, getattr(model, "callbacks", None) or [], checkpoint)
    worker_model = clone(model)
    if hasattr(model, "callbacks"):
        worker_model.callbacks = None
    if rows_fit_memory(survey.n_rows, rows.source.n_columns):
        from dask.delayed import delayed

        task = delayed(fit_whole)(worker_model, rows.kind, [list(part) for part in rows.partitions], relay.address)
        state = relay.result(lambda: client.compute(task))
    else:
        model._check_takes_store()
        table, chunks = build_chunks(client, rows, survey)
        progress.note(f"{int(table.contents.starts[-1]):,} distinct rows in {len(chunks)} chunks on the workers")
        arguments = (worker_model, TableEncoder.of(survey.table), survey.example, table, relay.address)
        state = relay.result(lambda: client.submit(fit_on_worker, *arguments, pure=False))
        del chunks
    if checkpoint is not None:
        checkpoint.is_new = state.is_new_folder
    for text, category in state.warnings:
        warnings.warn(text, category, stacklevel=4)
    model.__dict__.update(state.attributes)
    model.target_name_ = rows.target


# -- on a worker ----------------------------------------------------------------------------------------------------


def fit_whole(
    model: "DistributionalRegressor", kind: PartitionKind, partitions: list[list[Any]], address: "_Address"
) -> FittedState:
    """A task: fit to all rows of a small table, as in memory."""
    sources = [kind.source(number, *partition) for number, partition in enumerate(partitions)]
    blocks = [block for source in sources for block in source.blocks(sys.maxsize)]
    whole = whole_of(blocks, partitions[0][2] is not None)

    return _fitted(model, lambda folder: model._fit_whole(whole, folder), address)


def fit_on_worker(
    model: "DistributionalRegressor", encoder: TableEncoder, example: Any, table: ChunkTable, address: "_Address"
) -> FittedState:
    """A task: fit to the rows of chunks on the workers."""
    from distributed import worker_client

    def fit(folder: Folder | None) -> None:
        read_table(model, example, reset=True)
        model.encoder_, model.fingerprint_ = encoder, table.contents.fingerprint
        with worker_client() as client, ClusterStore(table, client) as store:
            model._fit_store(store, model._resumed(folder, store))

    return _fitted(model, fit, address)


def _fitted(model: "DistributionalRegressor", fit: Callable[[Folder | None], None], address: "_Address") -> FittedState:
    """Fit with events and lines sent to the client, and return what it needs."""
    if hasattr(model, "callbacks"):
        model.callbacks = [_Sender(address)]
    folder = None if address.checkpoint is None else Folder(*address.checkpoint)
    if folder is not None and not folder.path.is_dir():
        raise CheckpointError(f"checkpoint {folder.path} must be in a file system that all workers share")
    with warnings.catch_warnings(record=True) as caught, ONE_BLAS_THREAD, DISK_CACHE, progress_stream(_Lines(address)):
        warnings.simplefilter("always")
        fit(folder)
    others = set(model.get_params(deep=False))
    attributes = {name: value for name, value in vars(model).items() if name not in others}
    own = [w for w in caught if w.category.__module__.startswith(("usnrt", "sklearn"))]
    texts = [(str(warning.message), warning.category) for warning in own]
    return FittedState(attributes, texts, folder is not None and folder.is_new)


def _stop_event(topic: str, client: Any) -> Any:
    """An event of the cluster: set if the client does not want the fit any more."""
    from distributed import Event

    event: Any = Event  # it has no types
    return event(topic, client=client)


@dataclass(frozen=True)
class _Address:
    """Where events of a fit are sent, whether the client has callbacks, and the folder of the checkpoint."""

    topic: str
    wants_events: bool
    checkpoint: tuple[Path, bool] | None


class _Sender:
    """A callback that sends events to the client, and ends the fit if the client does not want it any more."""

    def __init__(self, address: _Address) -> None:
        from distributed import get_client, get_worker

        self._address = address
        # found here: events come from threads that Dask does not know
        self._worker: Any = get_worker()
        self._stop: Any = _stop_event(address.topic, get_client())
        self._checked = time.monotonic()

    def __call__(self, event: FitEvent) -> None:
        if self._address.wants_events:
            self._worker.log_event(self._address.topic, {"event": asdict(event)})
        if time.monotonic() - self._checked > _CHECK_SECONDS:
            self._checked = time.monotonic()
            if self._stop.is_set():
                raise FitStopped


class _Lines:
    """A text stream whose text is sent to the client."""

    def __init__(self, address: _Address) -> None:
        from distributed import get_worker

        self._topic, self._worker = address.topic, get_worker()

    def write(self, text: str) -> int:
        """Send text."""
        self._worker.log_event(self._topic, {"text": text})
        return len(text)

    def flush(self) -> None:
        """Nothing is buffered."""


# -- on the client --------------------------------------------------------------------------------------------------


class _Relay:
    """Receives events of a fit on the client; calls the user's callbacks in the thread that waits for the result."""

    def __init__(self, client: Any, callbacks: list[Callable[[FitEvent], Any]], folder: Folder | None) -> None:
        self._client, self._callbacks = client, callbacks
        place = None if folder is None else (folder.path.absolute(), folder.is_new)
        self.address = _Address(f"usnrt-{uuid.uuid4().hex}", bool(callbacks), place)
        self._messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def result(self, submit: Callable[[], Any]) -> FittedState:
        """Result of a task that is submitted here; the task is cancelled on any error, Ctrl-C included."""
        self._client.subscribe_topic(self.address.topic, lambda event: self._messages.put(event[1]))
        future = submit()
        try:
            while not future.done():
                self._deliver(timeout=0.2)
            self._deliver()
            state: FittedState = future.result()
            return state
        except BaseException:
            _stop_event(self.address.topic, self._client).set()
            future.cancel()
            raise
        finally:
            self._client.unsubscribe_topic(self.address.topic)

    def _deliver(self, timeout: float | None = None) -> None:
        """Pass on what has arrived; wait for the first message that long."""
        try:
            while True:
                message = self._messages.get(block=timeout is not None, timeout=timeout)
                timeout = None
                if "text" in message:
                    print(message["text"], end="", file=sys.stderr, flush=True)
                else:
                    for callback in self._callbacks:
                        callback(FitEvent(**message["event"]))
        except queue.Empty:
            return
