"""Memory, file handles and threads stay flat over many predictions and fits.

    python experiments/hardening/leaks.py --predictions 1000 --fits 50

After a first tenth, in which caches fill, resident memory may grow by at most a few megabytes, and open files and
threads not at all.
"""

import argparse
import contextlib
import gc
import io
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

MEGABYTES = {"predictions": 8.0, "fits": 40.0}  # that memory may grow by


def state():
    """Resident memory in megabytes, open files and threads."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return resident, len(os.listdir("/proc/self/fd")), threading.active_count()


def flat(name, action, count, megabytes):
    """Repeat an action; what has grown since the first tenth."""
    begin = time.monotonic()
    for i in range(count // 10):
        action(i)
    before = state()
    for i in range(count // 10, count):
        action(i)
    after = state()
    grown = [b - a for a, b in zip(before, after)]
    print(f"{name}: {count} times, memory {before[0]:.0f} -> {after[0]:.0f} MB, files {before[1]} -> {after[1]}, "
          f"threads {before[2]} -> {after[2]}, {time.monotonic() - begin:.0f} s", flush=True)  # fmt: skip
    is_flat = grown[0] <= megabytes and grown[1] <= 0 and grown[2] <= 0
    return [] if is_flat else [f"{name}: grown by {grown[0]:.1f} MB, {grown[1]} files, {grown[2]} threads"]


def command(arguments):
    """A command in this process; its output is dropped."""
    from usnrt.cli._run import run

    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = run(arguments)
    if code:
        raise SystemExit(f"FAILED: usnrt {arguments[0]} ended with {code}")


def main():
    """Repeat everything, and fail if anything has grown."""
    import pandas as pd

    import usnrt

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predictions", type=int, default=1000)
    parser.add_argument("--fits", type=int, default=50)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"a": rng.normal(size=3000), "b": rng.choice(["x", "y"], 3000), "target": rng.normal(size=3000)}
    )
    X, y = table[["a", "b"]], table["target"].to_numpy()
    quick = {"hidden": (8,), "max_epochs": 2, "n_jobs": 2}
    model = usnrt.USNRTRegressor(random_state=0, **quick).fit(X, y)
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        data, file, output = (os.path.join(folder, name) for name in ("data.csv", "model.usnrt", "out.csv"))
        table[:200].to_csv(data, index=False)
        model.save(file)
        actions = {
            "predict": lambda i: model.predict(X[: 1 + i % 3000], return_std=True),
            "predict_interval": lambda i: model.predict_interval(X[:500]),
            "predict_table": lambda i: model.predict_table(X[:500]),
            "predict_dist": lambda i: model.predict_dist(X[:100]).crps(y[:100]),
            "save and load": lambda i: (model.save(file), usnrt.load(file)),
            "usnrt predict": lambda i: command(["predict", file, data, "-o", output, "--force", "--quiet"]),
        }
        for name, action in actions.items():
            failures += flat(name, action, options.predictions, MEGABYTES["predictions"])

        def fit(i):
            usnrt.USNRTRegressor(random_state=i, **quick).fit(X[:500], y[:500])

        failures += flat("fit", fit, options.fits, MEGABYTES["fits"])
    print("\n".join(f"FAILED {failure}" for failure in failures) or "flat")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
