"""Read-only, full and slow disks: one clear sentence that names the path, the older file intact, nothing left behind.

    python experiments/hardening/disks.py        # as root: mounts small file systems in memory

Everything that writes a file writes it to a read-only file system, to a full one, and to a slow one in a process that
is killed meanwhile.
"""

import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

OLD = b"the older file"


def writers(folder):
    """Functions that write a file to a path, by name; commands return their exit code and message."""
    import usnrt
    from usnrt_experiments import Cell, Store

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.normal(size=400)
    quick = {"hidden": (64, 64), "max_epochs": 1, "n_jobs": 1, "random_state": 0}
    model = usnrt.USNRTRegressor(**quick).fit(X, y)
    table = pa.table({"x0": X[:, 0], "x1": X[:, 1], "y": y})
    data, file = folder / "data.parquet", folder / "model.usnrt"
    pq.write_table(table, data)
    usnrt.USNRTRegressor(**quick).fit(table.select(["x0", "x1"]).to_pandas(), y).save(file)
    comparison = usnrt.compare(X, y, {"constant": "constant"})

    def record(path):
        store = Store(path.parent / "store")
        claim = store.claim(Cell("generated-jump-50", "constant-normal", 1))
        store.finish(claim, {"metrics": {}}, {"mean": rng.normal(size=20_000)})

    def predicted(path):
        return command("predict", file, data, "-o", path, "--force")

    return {
        "save": ("m.usnrt", model.save),
        "OnlineCalibrator.save": ("o.usnrt", usnrt.OnlineCalibrator(model).save),
        "report": ("r.html", lambda path: usnrt.report(model, X, y, path)),
        "to_onnx": ("m.onnx", model.to_onnx),
        "compare": ("c.html", comparison.to_html),
        "usnrt predict to CSV": ("p.csv", predicted),
        "usnrt predict to Parquet": ("p.parquet", predicted),
        "usnrt predict to CSV.gz": ("p.csv.gz", predicted),
        "usnrt report": ("r.html", lambda path: command("report", file, data, "-t", "y", "-o", path, "--force")),
        "usnrt export": ("m.onnx", lambda path: command("export", file, "--onnx", path, "--force")),
        "usnrt calibrate": ("c.usnrt", lambda path: command("calibrate", file, data, "-t", "y", "-o", path, "--force")),
        "usnrt fit": ("f.usnrt", lambda path: command("fit", data, "-t", "y", "-o", path, "-f", "--preset", "fast")),
        "bench record": (None, record),
        "checkpoint": (None, lambda path: usnrt.USNRTRegressor(**quick).fit(X, y, checkpoint=path.with_name("state"))),
        "scratch": (None, lambda path: scratch(X, y, path.parent)),
    }  # fmt: skip


def scratch(X, y, place):
    """A fit of a table that counts as larger than memory."""
    import usnrt
    from usnrt.tables import streaming

    rows = (pa.table({"a": X[i::4, 0], "b": X[i::4, 1], "y": y[i::4]}).to_batches()[0] for i in range(4))
    before, streaming.BLOCK_ROWS = streaming.BLOCK_ROWS, 100
    try:
        usnrt.USNRTRegressor(hidden=(8,), max_epochs=1, n_jobs=1, random_state=0).fit(rows, "y", scratch=place)
    finally:
        streaming.BLOCK_ROWS = before


def command(*arguments):
    """Exit code and messages of a command in this process."""
    from usnrt.cli._run import run

    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(argument) for argument in arguments])
    return code, err.getvalue()


@contextlib.contextmanager
def disk(kind):
    """A file system in memory that is read-only or full, with an older file of every name in it."""
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], check=True)
        try:
            yield Path(place)
        finally:
            subprocess.run(["umount", place], check=True)


def close(kind, place):
    """Make the disk read-only, or fill it up but for one page."""
    if kind == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        return
    with contextlib.suppress(OSError), open(place / "ballast", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def attempt(kind, name, file, write):
    """Try to write on a bad disk; the message, and what is wrong."""
    with disk(kind) as place:
        path = place / (file or "any")
        path.write_bytes(OLD)
        close(kind, place)
        before = sorted(os.listdir(place))
        code = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = write(path)
                code, sentence = found if isinstance(found, tuple) else (0, "")
                sentence = sentence.strip().splitlines()[-1] if sentence.strip() else ""
            except (OSError, ValueError) as error:
                sentence = f"{type(error).__name__}: {error}"
        sentence = sentence or "; ".join(str(w.message) for w in caught)
        after = [entry for entry in sorted(os.listdir(place)) if entry not in before]
        wrong = []
        if path.read_bytes() != OLD:
            wrong.append("the older file is damaged")
        if str(place) not in sentence:
            wrong.append("the sentence does not name the path")
        if code not in (None, 0, 1) or "bug in usnrt" in sentence or "\n" in sentence:
            wrong.append("it is not one sentence")
        if leftover(place, after):
            wrong.append(f"left behind: {leftover(place, after)}")
        return sentence.replace(str(place), "DISK"), wrong


def leftover(place, entries):
    """New entries that hold files; an empty folder of a store or a checkpoint is no harm."""
    return [
        entry
        for entry in entries
        if (place / entry).is_file() or any(p.suffix == ".part" for p in (place / entry).rglob("*"))
    ]


def killed_on_a_slow_disk(name, file, rng):
    """Kill a process that writes a few bytes at a time; what is wrong."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / file
        path.write_bytes(OLD)
        process = subprocess.Popen([sys.executable, __file__, name, str(path)], stdout=subprocess.PIPE)
        process.stdout.read(1)  # the first bytes are written, or the process has ended
        time.sleep(float(rng.uniform(0.0, 1.0)))
        process.kill()
        process.communicate()
        if process.returncode != -signal.SIGKILL:
            return ["it ended before it was killed"]
        wrong = [] if path.read_bytes() == OLD else ["the older file is damaged"]
        return wrong + ([] if os.listdir(place) == [file] else [f"left behind: {os.listdir(place)}"])


def write_slowly(name, path):
    """Write one file as on a slow disk, and a byte to the standard output whenever some of it is written."""
    from usnrt.utils import atomic_write

    with tempfile.TemporaryDirectory() as folder:
        _, write = writers(Path(folder))[name]
        begun, make = os.dup(1), atomic_write._temporary
        atomic_write._temporary = lambda part: Slow(make(part), begun)
        write(Path(path))


class Slow(io.BufferedRandom):
    """A file on a slow disk."""

    def __init__(self, file, begun):
        super().__init__(file.detach())
        self.begun = begun

    def write(self, data):
        """Write 64 bytes per second."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), 64):
            super().write(view[start : start + 64])
            self.flush()
            os.write(self.begun, b".")
            time.sleep(1.0)
        return len(view)


def main():
    """All writers on all disks."""
    failures, rng, begin, n = [], np.random.default_rng(0), time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        found = writers(Path(folder))
        for kind in ("read-only", "full"):
            for name, (file, write) in found.items():
                sentence, wrong = attempt(kind, name, file, write)
                n += 1
                print(f"{kind}, {name}: {sentence}", flush=True)
                failures += [f"{kind}, {name}: {what}" for what in wrong]
        for name, (file, _) in found.items():
            if file is not None:
                wrong = killed_on_a_slow_disk(name, file, rng)
                n += 1
                print(f"slow and killed, {name}: {'; '.join(wrong) or 'the older file is intact'}", flush=True)
                failures += [f"slow and killed, {name}: {what}" for what in wrong]
    print(f"{n} attempts, {time.monotonic() - begin:.0f} s")
    print("\n".join(f"FAILED {failure}" for failure in failures) or "no failures")
    sys.exit(bool(failures))


if __name__ == "__main__":
    write_slowly(*sys.argv[1:]) if sys.argv[1:] else main()
