"""Damaged model files: each load raises the error of the library, or gives the model.

    python experiments/hardening/model_files.py --count 100000

Most files have damaged bytes; a load must then raise `ModelFileError`, or give a model that is saved as the same
bytes as the original. A tenth have damaged contents with right checksums, as an attacker would make them. These
may be other models; then they are asked for predictions too, with all accesses of compiled code to arrays checked
(``NUMBA_BOUNDSCHECK``). Each process has limited memory; a case that takes longer than 30 s ends it. Every case is made
of one number, which is printed if it fails; ``--first N --count 1`` repeats it.
"""

import argparse
import collections
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
from damage import harmed

ROUND = 20_000  # cases per process
SECONDS = 30  # per case
MEMORY = 2**30  # bytes beyond those after the imports
CHECKED_KERNELS = Path.home() / ".cache" / "usnrt" / "numba-boundscheck"  # compiled once
SAMPLES = Path(__file__).resolve().parents[2] / "tests" / "data"


def make_samples(folder):
    """Small models of all classes, with the rows that they are asked to predict."""
    import usnrt
    from usnrt.paper import baselines

    rng = np.random.default_rng(0)
    n = 120
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 3, n), rng.choice(["a", "b", "c"], n)]).astype(object)
    X[:, 0], X[:, 1] = X[:, 0].astype(float), X[:, 1].astype(float)
    y = np.abs(X[:, 0].astype(float) + rng.normal(size=n))
    quick = {"hidden": (4,), "max_epochs": 2, "random_state": 0, "n_jobs": 1}
    tree = {**quick, "n_bins": 4, "min_samples_leaf": 30, "alpha": 0.9}
    models = {
        "tree": usnrt.USNRTRegressor(memory="examples", target_bounds=(0, None), target_transform="log", **tree),
        "plain": usnrt.USNRTRegressor(memory=False, **tree),
        "ensemble": usnrt.USNRTEnsemble(
            usnrt.USNRTRegressor(hidden=(4,), max_epochs=2, n_bins=4), n_estimators=2, random_state=0, n_jobs=1
        ),
        "paper": usnrt.PaperUSNRTRegressor(max_epochs=2, max_leaves=2, alpha=0.9, random_state=0, n_jobs=1),
        "forest": baselines.ExtraTreesVarianceRegressor(n_estimators=3, random_state=0, n_jobs=1),
        "hnn": baselines.HNNRegressor(**quick),
        "concrete": baselines.ConcreteDropoutRegressor(n_passes=5, **quick),
        "evidential": baselines.EvidentialRegressor(**quick),
        "deep": baselines.DeepEnsembleRegressor(n_members=2, **quick),
    }
    doubled = np.tile(np.arange(n), 2)  # so that some rows are familiar
    for name, model in models.items():
        rows = doubled if name == "plain" else np.arange(n)
        model.fit(X[rows], y[rows])
        model.save(folder / f"{name}.usnrt")
    usnrt.OnlineCalibrator(models["tree"]).save(folder / "online.usnrt")
    np.save(folder / "rows.npy", X[:4], allow_pickle=True)
    for sample in SAMPLES.glob("model-v*.usnrt"):
        (folder / sample.name).write_bytes(sample.read_bytes())


def rows_for(model, rows):
    """Rows that a model may be asked to predict."""
    model = getattr(model, "model", model)
    columns = model.encoder_.source_types_
    if len(columns) == rows.shape[1]:
        return rows
    filled = [["a" if kind == "text" else 0.5 if kind == "number" else None for kind in columns]] * 2
    return np.array(filled, dtype=object)


def worker(folder, first, count):
    """Run cases in this process; prints counts as JSON."""
    from usnrt.persistence import load

    warnings.simplefilter("ignore")
    samples = sorted(folder.glob("*.usnrt"))
    contents = [path.read_bytes() for path in samples]
    rows = np.load(folder / "rows.npy", allow_pickle=True)
    victim, again = folder / "damaged" / "victim.usnrt", folder / "damaged" / "again.usnrt"
    for path in samples:  # everything is imported and compiled before memory is limited
        model = load(path)
        _predict(model, rows)
    saved = []
    for path in samples:
        load(path).save(again)
        saved.append(again.read_bytes())
    resource.setrlimit(resource.RLIMIT_AS, (_virtual() + MEMORY,) * 2)
    counts, failures = collections.Counter(), []
    with open(folder / "case", "wb", buffering=0) as place:
        for case in range(first, first + count):
            os.pwrite(place.fileno(), f"{case:012d}".encode(), 0)
            signal.alarm(SECONDS)
            rng = np.random.default_rng([7, case])
            which = int(rng.integers(len(samples)))
            data, is_signed = harmed(contents[which], rng)
            victim.write_bytes(data)
            kind, failure = outcome(victim, again, saved[which], is_signed, rows)
            counts[f"{'contents' if is_signed else 'bytes'}: {kind}"] += 1
            if failure:
                failures.append(f"case {case} ({samples[which].stem}): {failure}")
                print(f"FAILED {failures[-1]}", file=sys.stderr, flush=True)
            signal.alarm(0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"counts": counts, "failures": failures, "peak": peak}))


def outcome(victim, again, original, is_signed, rows):
    """What became of a load, and a sentence if it should not be so."""
    from usnrt.persistence import ModelFileError, load

    try:
        model = load(victim)
    except ModelFileError as error:
        sentence = str(error).partition("can be loaded: ")[2]
        kind = _without_names(sentence)
        return kind, "memory by a declared size" if "MemoryError" in kind else None if sentence else "no sentence"
    except BaseException as error:
        return "another error", f"{type(error).__name__}: {error}"
    if not is_signed:
        model.save(again)
        is_equal = again.read_bytes() == original
        return "the same model", None if is_equal else "a model that differs from the original"
    try:
        _predict(model, rows)
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        is_outside = isinstance(error, IndexError) and str(error) == "index is out of bounds"
        is_fatal = is_outside or isinstance(error, MemoryError | RecursionError)
        sentence = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {error}"
        return f"another model, which raises {type(error).__name__}", sentence if is_fatal else None
    return "another model, which predicts", None


def _predict(model, rows):
    if not hasattr(model, "predict_interval"):
        return
    with np.errstate(all="ignore"):
        X = rows_for(model, rows)
        model.predict_interval(X)
        if hasattr(model, "predict_table"):
            model.predict_table(X)


def _without_names(sentence):
    """The kind of a sentence: names of fields are left out."""
    return "'...'".join(part for i, part in enumerate(sentence.split("'")) if i % 2 == 0)[:70]


def _virtual():
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def main():
    """Run all cases, process after process, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.first, options.count)
        return
    start, counts, failures, peak = time.monotonic(), collections.Counter(), [], 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as place:
        folder = Path(place)
        (folder / "damaged").mkdir()
        environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(CHECKED_KERNELS)}
        make_samples(folder)
        case, end = options.first, options.first + options.count
        while case < end:
            size = min(ROUND, end - case)
            command = [sys.executable, __file__, "--worker", str(folder), "--first", str(case), "--count", str(size)]
            run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
            if run.returncode == 0:
                found = json.loads(run.stdout.splitlines()[-1])
                counts.update(found["counts"])
                failures += found["failures"]
                peak, case = max(peak, found["peak"]), case + size
            else:
                at = int((folder / "case").read_text()) if (folder / "case").exists() else case
                failures.append(f"case {at}: the process ended with {run.returncode}")
                if at <= case and not (folder / "case").exists():
                    break
                case = at + 1  # the counts of this process are lost
            print(
                f"{case - options.first} cases, {len(failures)} failures, {time.monotonic() - start:.0f} s", flush=True
            )
    for kind, number in counts.most_common():
        print(f"{number:8d}  {kind}")
    print(f"peak memory {peak / 1024:.0f} MB")
    print("\n".join(f"FAILED {failure}" for failure in failures[:50]) or "no failures")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
