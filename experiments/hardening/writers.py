"""Two processes that save to one path at the same time: readers always see one whole model, and nothing is left over.

    python experiments/hardening/writers.py --rounds 200

In every round two children save a model each to the same path, several times, while this process loads it; then the
path must hold one of the two models, byte for byte, and the folder nothing else.
"""

import argparse
import collections
import os
import sys
import tempfile
import time
from pathlib import Path


def make_models():
    """Two models of different sizes, quick to make."""
    import numpy as np

    import usnrt

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    quick = {"hidden": (4,), "max_epochs": 1, "n_jobs": 1}
    small = usnrt.USNRTRegressor(memory=False, random_state=0, **quick).fit(X, X[:, 0])
    large = usnrt.USNRTRegressor(memory=True, random_state=1, **quick).fit(X, X[:, 1])
    return small, large


def child(model, path, saves):
    """Save a model several times in a process of its own."""
    number = os.fork()
    if number:
        return number
    try:
        for _ in range(saves):
            model.save(path)
        os._exit(0)
    except BaseException as error:
        print(f"FAILED: a writer raised {type(error).__name__}: {error}", flush=True)
        os._exit(1)


def race(models, path, saves, known, counts):
    """One round; yields what is wrong."""
    from usnrt.persistence import load, read_manifest

    writers = {child(model, path, saves) for model in models}
    while writers:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended:
            writers.discard(ended)
            if status:
                yield f"a writer ended with {os.waitstatus_to_exitcode(status)}"
        try:
            counts[known.get(path.read_bytes(), "unknown bytes")] += 1
            read_manifest(path)
            load(path)
            counts["loads"] += 1
        except FileNotFoundError:
            counts["not there yet"] += 1
        except Exception as error:
            yield f"a reader got {type(error).__name__}: {error}"
    if path.read_bytes() not in known:
        yield "the file is none of the two models"
    if os.listdir(path.parent) != [path.name]:
        yield f"the folder holds {os.listdir(path.parent)}"


def main():
    """Run all rounds and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--saves", type=int, default=5, help="per process and round")
    options = parser.parse_args()
    models, begin = make_models(), time.monotonic()
    counts, failures = collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        known = {}
        for name, model in zip(("first model", "second model"), models):
            model.save(Path(folder) / "model.usnrt")
            known[(Path(folder) / "model.usnrt").read_bytes()] = name
        for _ in range(options.rounds):
            path = Path(tempfile.mkdtemp(dir=folder)) / "model.usnrt"
            failures += race(models, path, options.saves, known, counts)
    failures += ["unknown bytes"] * counts["unknown bytes"]
    print(f"{options.rounds} rounds of 2 x {options.saves} saves, {dict(counts)}, {time.monotonic() - begin:.0f} s")
    print("\n".join(f"FAILED {failure}" for failure in failures[:20]) or "no failures, nothing left over")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
