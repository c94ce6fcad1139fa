"""Figures for monitoring, as Prometheus reads them: requests, latencies, support and drift of the inputs."""

import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from usnrt.serve._columns import take_rows
from usnrt.utils.types import Floats

# Upper ends of the latency histogram, in seconds.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Rows of recent requests that drift is measured on, and those taken of one request.
RECENT_ROWS, ROWS_OF_REQUEST = 2000, 100
# Drift is measured on at least this many rows.
FEWEST_ROWS = 50


class RequestMonitor:
    """Counts of requests and their latencies; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, Floats] = {}
        self._total: Counter[str] = Counter()
        self.in_progress = 0

    def began(self) -> None:
        """Count a request that has arrived."""
        with self._lock:
            self.in_progress += 1

    def ended(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        with self._lock:
            self.in_progress -= 1
            self._requests[route, status] += 1
            self._total[route] += seconds  # type: ignore[assignment]
            counts = self._seconds.setdefault(route, np.zeros(len(BUCKETS) + 1))
            counts[np.searchsorted(BUCKETS, seconds)] += 1

    def lines(self) -> list[str]:
        """The figures in Prometheus's text format."""
        with self._lock:
            requests, total = dict(self._requests), dict(self._total)
            seconds = {route: counts.copy() for route, counts in self._seconds.items()}
            in_progress = self.in_progress
        counted = [({"route": route, "status": status}, count) for (route, status), count in requests.items()]
        lines = metric("usnrt_requests_total", "counter", "Requests that were answered", counted)
        lines += metric(
            "usnrt_requests_in_progress", "gauge", "Requests that are not answered yet", [({}, in_progress)]
        )
        lines += [
            "# HELP usnrt_request_seconds Time from the arrival of a request to the end of its answer",
            "# TYPE usnrt_request_seconds histogram",
        ]
        for route, counts in seconds.items():
            for end, count in zip((*BUCKETS, "+Inf"), np.cumsum(counts)):
                lines.append(sample("usnrt_request_seconds_bucket", {"route": route, "le": end}, count))
            lines.append(sample("usnrt_request_seconds_sum", {"route": route}, total[route]))
            lines.append(sample("usnrt_request_seconds_count", {"route": route}, counts.sum()))
        return lines


class ModelMonitor:
    """What the rows of a model's requests looked like.

    Drift compares the last rows with the background rows of the model, which stand for its training table: 32 per
    region, weighted by the region's share. Of numbers it is the largest difference of the distribution functions
    (Kolmogorov and Smirnov), of categories half the sum of the differences of the shares; 0 is none, 1 the most.
    """

    def __init__(self, name: str, model: Any) -> None:
        self.labels = {"model": name}
        self._model = model
        self._lock = threading.Lock()
        self.rows = self.unsupported = 0
        self._recent: deque[Any] = deque()
        self._n_recent = 0

    def observe(self, table: Any, answers: Iterable[Mapping[str, Any]]) -> None:
        """Count the rows of a request, and keep some of them."""
        n_rows = len(table)
        chosen = np.unique(np.linspace(0, n_rows - 1, min(n_rows, ROWS_OF_REQUEST)).astype(int))
        kept = take_rows(table, chosen)
        unsupported = sum(row.get("supported") is False for row in answers)
        with self._lock:
            self.rows += n_rows
            self.unsupported += unsupported
            self._recent.append(kept)
            self._n_recent += len(kept)
            while self._n_recent - len(self._recent[0]) >= RECENT_ROWS:
                self._n_recent -= len(self._recent.popleft())

    def drift(self) -> dict[str, tuple[float, float]]:
        """Drift of each encoded column, and the value that 95 % of samples without drift stay below."""
        background = getattr(self._model, "background_", None)
        with self._lock:
            tables = list(self._recent)
        if background is None or sum(map(len, tables)) < FEWEST_ROWS:
            return {}
        encoder = self._model.encoder_
        recent = np.concatenate([encoder.transform(table) for table in tables])
        shares = self._model.rules()["share"] if hasattr(self._model, "rules") else np.ones(1)
        reference = background[: len(shares)].reshape(-1, background.shape[2])
        weight = np.repeat(shares / shares.sum() / background.shape[1], background.shape[1])
        columns = enumerate(encoder.columns_)
        return {c.name: drift_of(recent[:, j], reference[:, j], weight, c.is_categorical) for j, c in columns}


def drift_of(recent: Floats, reference: Floats, weight: Floats, is_categorical: bool) -> tuple[float, float]:
    """Distance of two samples of a column, and its 95 % point without drift; missing values are a value of their own.

    The weights of the reference rows sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.serve._monitor import drift_of
    >>> drift, limit = drift_of(np.arange(50, 150.0), np.arange(100.0), np.full(100, 0.01), False)
    >>> round(drift, 2), round(limit, 2)
    (0.5, 0.19)
    """
    values, place = np.unique(np.concatenate([recent, reference]), return_inverse=True)
    shares = np.full(len(recent), 1.0 / len(recent))
    own = np.bincount(place[: len(recent)], shares, len(values))
    other = np.bincount(place[len(recent) :], weight, len(values))
    spread = 1.0 / len(recent) + float((weight**2).sum())
    if is_categorical:
        # half of the expected absolute differences of the shares, and a margin of 1.36 standard errors, which the
        # largest of all differences has at 95 %
        expected = float(np.sqrt(2.0 / np.pi * spread * other * (1.0 - other)).sum()) / 2.0
        return float(np.abs(own - other).sum()) / 2.0, min(1.0, expected + 1.36 * np.sqrt(spread) / 2.0)
    return float(np.abs(np.cumsum(own - other)).max()), min(1.0, 1.36 * float(np.sqrt(spread)))


def model_lines(monitors: Iterable[ModelMonitor]) -> list[str]:
    """The figures of all models in Prometheus's text format."""
    monitors = list(monitors)
    drifts = [({**m.labels, "column": c}, *pair) for m in monitors for c, pair in m.drift().items()]
    return [
        *metric("usnrt_rows_total", "counter", "Rows that were predicted", [(m.labels, m.rows) for m in monitors]),
        *metric(
            "usnrt_unsupported_rows_total", "counter", "Rows that do not resemble the training rows",
            [(m.labels, m.unsupported) for m in monitors],
        ),
        *metric(
            "usnrt_unsupported_share", "gauge", "Share of rows that do not resemble the training rows",
            [(m.labels, m.unsupported / m.rows) for m in monitors if m.rows],
        ),
        *metric(
            "usnrt_input_drift", "gauge",
            f"Distance of the last {RECENT_ROWS} rows from the training rows, 0 to 1, by encoded column",
            [(labels, drift) for labels, drift, _ in drifts],
        ),
        *metric(
            "usnrt_input_drift_limit", "gauge", "What 95 % of samples without drift stay below",
            [(labels, limit) for labels, _, limit in drifts],
        ),
    ]  # fmt: skip


def metric(name: str, kind: str, text: str, samples: Iterable[tuple[Mapping[str, Any], float]]) -> list[str]:
    """A metric with its samples."""
    lines = [sample(name, labels, value) for labels, value in samples]
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *lines] if lines else []


def sample(name: str, labels: Mapping[str, Any], value: float) -> str:
    r"""One line.

    Examples
    --------
    >>> from usnrt.serve._monitor import sample
    >>> sample("rows", {"model": 'a "b"'}, 3)
    'rows{model="a \\"b\\""} 3'
    """
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    inside = ",".join(f'{key}="{str(text).translate(escapes)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value:g}" if inside else f"{name} {value:g}"
