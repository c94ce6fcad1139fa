"""Random sequences of fit, predict, save, load, calibrate, report and more with random tables, against invariants.

    python experiments/hardening/soak.py --minutes 60 --seed 1000 --log soak.jsonl

Every sequence is made of one number, its seed, which is printed; ``--seed S --count 1`` repeats it. The log holds one
line per sequence; if it exists, the run resumes after its last seed until the minutes are full, and the summary is that
of the whole log.
"""

import argparse
import collections
import faulthandler
import gc
import json
import math
import os
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
from invariants import Broken, check_sentence
from models import random_model
from steps import COVERAGE, STEPS, Run

from tables import LIBRARIES, random_columns, random_target, random_weights

HANGS_AFTER = 600  # seconds


def random_run(seed, folder):
    """The unfitted model, rows and random numbers of a sequence, and its facts."""
    rng = np.random.default_rng(seed)
    n = round(5 * 600 ** rng.random())
    n_fresh, n_test = int(rng.integers(1, 300)), int(rng.integers(1, 200))
    columns = random_columns(rng, n + n_fresh + n_test, int(rng.integers(1, 8)))
    y, kind, is_continuous = random_target(rng, columns, n + n_fresh + n_test)
    order = rng.permutation(n + n_fresh + n_test)
    if rng.random() < 0.2:  # a table with duplicate rows
        order = rng.choice(order[: max(2, len(order) // 4)], len(order))
    library = str(rng.choice(LIBRARIES))
    time_column = _time_column(rng, columns, library)
    model, bounds = random_model(rng, y, kind, time_column)
    parts = [(columns.take(rows), y[rows]) for rows in np.split(order, [n, n + n_fresh])]
    run = Run(model, library, (*parts[0], random_weights(rng, n)), parts[1], parts[2], bounds, rng, folder)
    facts = {"seed": seed, "model": type(model).__name__, "library": library, "rows": n, "target": kind,
             "columns": list(columns.kinds.values()), "continuous": is_continuous}  # fmt: skip
    return run, facts


def _time_column(rng, columns, library):
    usable = [
        name
        for name, values in columns.values.items()
        if values.dtype.kind in "Mi" and not np.isnat(_times(values)).any()
    ]
    if not usable or rng.random() < 0.5:
        return None
    name = str(rng.choice(usable))
    return list(columns.values).index(name) if library == "numpy" else name


def _times(values):
    return values if values.dtype.kind == "M" else values.astype("datetime64[us]")


def sequence(seed, folder):
    """Run a sequence; its line of the log."""
    from usnrt.utils.notices import ResultWarning

    run, facts = random_run(seed, folder)
    facts |= {"steps": [], "refused": None, "failure": None}
    start, clock = time.process_time(), time.monotonic()
    step = "fit"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if _fit(run, facts):
                weights = np.array(list(STEPS.values()))
                for drawn in run.rng.choice(len(STEPS), int(run.rng.integers(4, 11)), p=weights / weights.sum()):
                    chosen = list(STEPS)[drawn]
                    step = chosen.__name__
                    if chosen(run) is not False:
                        facts["steps"].append(step)
        except Exception as error:
            where = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-3:]]
            facts["failure"] = f"{step}: {type(error).__name__}: {str(error)[:300]} (at {' > '.join(where)})"
    notices = [
        w for w in caught if issubclass(w.category, ResultWarning) or w.category.__name__ == "ConvergenceWarning"
    ]
    others = [w for w in caught if w not in notices]
    if others and facts["failure"] is None:
        first = others[0]
        facts["failure"] = (
            f"{step}: warning {first.category.__name__}: {str(first.message)[:200]} "
            f"(at {Path(first.filename).name}:{first.lineno})"
        )
    facts |= {"notices": collections.Counter(w.category.__name__ for w in notices), "errors": run.errors}
    facts |= {
        "coverage": run.coverage,
        "cpu": round(time.process_time() - start, 2),
        "clock": round(time.monotonic() - clock, 2),
    }
    return facts


def _fit(run, facts):
    """Fit the model; False if it refuses the table with one sentence, and is as it was."""
    before = dict(vars(run.model))
    try:
        run.model.fit(run.X, run.y, sample_weight=run.weight)
    except (ValueError, TypeError) as error:
        check_sentence(error)
        if vars(run.model) != before:
            raise Broken("a fit that fails leaves the model as it was") from error
        facts["refused"] = str(error).splitlines()[0][:160]
        return False
    return True


def summary(lines):
    """Counts, kinds and coverage of a log, in lines of text."""
    cpu, clock = (sum(line[name] for line in lines) / 3600 for name in ("cpu", "clock"))
    n_steps = sum(len(line["steps"]) for line in lines)
    yield f"{len(lines)} sequences, {n_steps} steps after fits, {cpu:.2f} h of processor, {clock:.2f} h"
    for title, key in (("models", "model"), ("libraries", "library"), ("targets", "target")):
        yield f"{title}: {_counted(line[key] for line in lines)}"
    yield f"columns: {_counted(kind for line in lines for kind in line['columns'])}"
    yield f"steps: {_counted(step for line in lines for step in line['steps'])}"
    notices = (name for line in lines for name, n in line["notices"].items() for _ in range(n))
    yield f"documented warnings: {_counted(notices)}"
    yield f"errors of bad calls: {_counted(name for line in lines for name in line['errors'])}"
    yield f"tables refused: {_counted(line['refused'] for line in lines if line['refused'])}"
    yield coverage_line([line["coverage"] for line in lines if line["coverage"]])
    for line in lines:
        if line["failure"]:
            yield f"FAILED seed {line['seed']} ({line['model']}, {line['library']}): {line['failure']}"


def coverage_line(found):
    """Coverage after `calibrate`, whose expectation is at least nominal; its error follows from the rows.

    Given n calibration rows, the coverage has the variance of a beta distribution, c (1 - c) / (n + 2), or more if the
    regions have fewer; that of the test rows is binomial.
    """
    if not found:
        return "coverage: no rows"
    inside, rows = sum(one["inside"] for one in found), sum(one["rows"] for one in found)
    variance = (
        sum(one["rows"] * (1 + one["rows"] / (one["calibration"] + 2)) for one in found) * COVERAGE * (1 - COVERAGE)
    )
    z = (inside - COVERAGE * rows) / math.sqrt(variance)
    return (f"coverage of {len(found)} calibrated models: {inside / rows:.4f} of {rows} rows, nominal {COVERAGE}, "
            f"standard error {math.sqrt(variance) / rows:.4f}, z = {z:.2f}{' FAILED' if z < -4 else ''}")  # fmt: skip


def _counted(names):
    return ", ".join(f"{name} {n}" for name, n in collections.Counter(names).most_common())


def main():
    """Run sequences until the time is over, and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first sequence")
    parser.add_argument("--count", type=int, default=10**9, help="number of sequences")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--log", type=Path, help="file of one JSON line per sequence; an existing one is continued")
    options = parser.parse_args()
    lines = (
        [json.loads(line) for line in options.log.read_text().splitlines()]
        if options.log and options.log.exists()
        else []
    )
    first = lines[-1]["seed"] + 1 if lines else options.seed
    end = time.monotonic() + 60 * options.minutes - sum(line["clock"] for line in lines)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + options.count):
            if time.monotonic() > end:
                break
            faulthandler.dump_traceback_later(HANGS_AFTER, exit=True)
            line = sequence(seed, folder)
            faulthandler.cancel_dump_traceback_later()
            lines.append(json.loads(json.dumps(line)))
            if options.log:
                with options.log.open("a") as file:
                    file.write(json.dumps(line) + "\n")
            state = line["failure"] or line["refused"] or "ok"
            about = f"{line['model']}, {line['library']}, {line['rows']} rows, {' '.join(line['steps'])}"
            print(f"seed {seed}: {about}: {state}", flush=True)
            _free_memory(seed)
    report = list(summary(lines))
    print("\n".join(report))
    sys.exit(any("FAILED" in line for line in report))


def _free_memory(seed):
    """Compiled programs of past shapes are not used again."""
    if seed % 25 == 0:
        import jax

        jax.clear_caches()
        gc.collect()


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    main()
