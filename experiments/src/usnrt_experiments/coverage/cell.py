"""One cell of the study: the tree, the same model with one region, and the conformal methods on the same split."""

import time
from typing import Any

import numpy as np

from usnrt.metrics.intervals import interval_score_of_rows
from usnrt_experiments.cells import Arrays, provenance
from usnrt_experiments.coverage.groups import counts, neutral_groups, numeric_columns, numeric_matrix
from usnrt_experiments.coverage.methods import COVERAGE, ConformalIntervals, covered
from usnrt_experiments.grid import Cell, load_split
from usnrt_experiments.recipes import get_recipe

OURS, ONE_REGION = "usnrt", "usnrt-no-tree"


def run_coverage_cell(cell: Cell, n_jobs: int = 1) -> tuple[dict[str, Any], Arrays]:
    """Fit the models and the conformal methods of a split and count covered rows per group.

    Parameters
    ----------
    cell : Cell
        Its recipe is not used.
    n_jobs : int, default=1

    Returns
    -------
    meta : dict
        ``methods``: per method its coverage, mean width and interval score on the scaled target, and per way to divide
        the rows the counts of each group; ``metrics``: the coverage of the tree.
    arrays : dict
        Empty: no predictions are stored.
    """
    split = load_split(cell.dataset, cell.seed)
    started = time.process_time()
    models = {
        name: get_recipe(name).build(random_state=cell.seed, n_jobs=n_jobs).fit(split.X_train, split.y_train)
        for name in (OURS, ONE_REGION)
    }
    fitted = time.process_time()
    groups = {"regions": np.asarray(models[OURS].apply(split.X_test)).astype(np.intp)}
    groups |= neutral_groups(split.X_train, split.y_train, split.X_test, cell.seed)
    bounds = {
        name: np.asarray(model.predict_interval(split.X_test, coverage=COVERAGE)).T for name, model in models.items()
    }
    categorical = np.flatnonzero(~numeric_columns(split.X_train)).tolist()
    conformal = ConformalIntervals(numeric_matrix(split.X_train), split.y_train, categorical, cell.seed, n_jobs)
    bounds |= {name: np.asarray(pair) for name, pair in conformal.intervals(numeric_matrix(split.X_test)).items()}
    methods: dict[str, dict[str, Any]] = {}
    for name, (lower, upper) in bounds.items():
        inside, width = covered(split.y_test, lower, upper), upper - lower
        scores = interval_score_of_rows(split.y_test, np.column_stack([lower, upper]), COVERAGE)
        methods[name] = {
            "coverage": float(inside.mean()),
            "width": float(width.mean()),
            "interval_score": float(scores.mean()),
            "groups": {way: counts(codes, inside, width, scores) for way, codes in groups.items()},
        }
    meta = {
        "n_train": len(split.y_train),
        "n_test": len(split.y_test),
        "metrics": {"coverage90": 100 * methods[OURS]["coverage"]},
        "methods": methods,
        "fit_seconds": round(fitted - started, 3),
        "fit_cpu_seconds": round(time.process_time() - started, 3),
        **provenance(),
    }
    return meta, {}
