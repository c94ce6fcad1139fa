"""SIGKILL of harness runs: after all kills the records are those of an undisturbed run.

    python experiments/hardening/kills.py --kills 100

A run is ``python -m usnrt_experiments run`` on generated data, in a child of this process, so that it starts at
once. It is killed a random moment after a random number of changes in its store; then the same command resumes. At the
end the store must hold no damaged record and nothing left over, and every record must equal that of an undisturbed run
but for times and process numbers.
"""

import argparse
import collections
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

# facts that differ between any two runs; the revision, if there is a commit meanwhile
OWN = ("fit_seconds", "fit_cpu_seconds", "predict_seconds", "finished", "process", "npz_sha256", "revision")
QUICK = ["-d", "generated-jump-50", "-d", "generated-piecewise-80", "-r", "constant-normal"]
FITTED = ["-d", "generated-jump-50", "-r", "extra-trees"]


def start(arguments, store):
    """Start ``python -m usnrt_experiments run`` in a child; its process number."""
    child = os.fork()
    if child:
        return child
    from usnrt_experiments.cli import app

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    code = 70
    try:
        code = app(["run", *arguments, "--store", str(store), "--quiet"], standalone_mode=False) or 0
    finally:
        os._exit(code)


def files(store):
    """All files of a store, with their sizes and times: any difference is a change."""
    found = set()
    for path in store.rglob("*"):
        try:
            about = path.lstat()
        except FileNotFoundError:
            continue
        found.add((str(path), about.st_size, about.st_mtime_ns))
    return found


def kill_runs(commands, store, kills, rng):
    """Kill runs until there were so many kills; what the store had grown by then."""
    done, finished, counts = 0, 0, collections.Counter()
    while done < kills:
        child = start(commands[(done + finished) % len(commands)], store)
        wanted, before, begin = int(rng.integers(0, 12)), files(store), time.monotonic()
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if len(files(store) ^ before) >= wanted or time.monotonic() - begin > 60:
                time.sleep(float(rng.choice([0.0, rng.uniform(0, 0.005), rng.uniform(0, 0.3)])))
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                done += os.WIFSIGNALED(status)
                finished += os.WIFEXITED(status)
                break
        else:
            finished += 1
        for path in store.rglob("*"):
            counts[path.suffix if path.is_file() else "folder"] += 1
        if finished > 5 * kills:
            raise SystemExit(f"FAILED: the grid was finished after {done} kills; give more cells")
    return done, finished


def run_to_end(commands, store):
    """Run all commands until they are complete."""
    for command in commands:
        _, status = os.waitpid(start(command, store), 0)
        if os.waitstatus_to_exitcode(status):
            raise SystemExit(f"FAILED: a run ended with {os.waitstatus_to_exitcode(status)}")


def records(store):
    """Facts and predictions of all cells, without what differs between any two runs."""
    from usnrt_experiments import Store

    opened = Store(store)
    found = {}
    for record in opened.records():
        arrays = opened.predictions(record.cell)
        facts = {name: value for name, value in record.meta.items() if name not in OWN}
        found[str(record.cell)] = facts, {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}
    return found


def differences(disturbed, undisturbed, store):
    """Sentences about whatever is not as it should be."""
    for cell in undisturbed.keys() | disturbed.keys():
        if disturbed.get(cell) != undisturbed.get(cell):
            yield f"the record of {cell} differs from that of an undisturbed run"
    for path in store.rglob("*"):
        known = path.is_dir() or path.suffix in (".json", ".npz") or path.name in (".gitignore", "store.lock")
        if not known:
            yield f"{path.name} was left behind"


def main():
    """Kill, go on, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    import usnrt_experiments.cli  # noqa: F401  # imported here, so that children start at once

    rng, begin = np.random.default_rng(options.seed), time.monotonic()
    seeds = [f"--seed={seed}" for seed in range(2 * options.kills)]
    commands = [[*QUICK, *seeds], [*FITTED, *seeds[: max(options.kills // 5, 2)]]]
    with tempfile.TemporaryDirectory() as folder:
        killed, whole = Path(folder) / "killed", Path(folder) / "whole"
        killed.mkdir()
        done, finished = kill_runs(commands, killed, options.kills, rng)
        before = len(list(killed.rglob("*.json"))) - 1
        run_to_end(commands, killed)
        run_to_end(commands, whole)
        found, expected = records(killed), records(whole)
        failures = list(differences(found, expected, killed))
    print(f"seed {options.seed}: {done} kills, {finished} runs that ended, {before} of {len(expected)} records at "
          f"the last kill, {time.monotonic() - begin:.0f} s")  # fmt: skip
    print(
        "\n".join(f"FAILED {failure}" for failure in failures)
        or "all records equal, no damaged record, nothing left over"
    )
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
