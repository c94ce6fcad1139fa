"""Prediction: a million rows through trees, against a forest of 100 trees, and one row at a time.

All with all cores, then one thread. Prints rows per second, how much faster than scikit-learn's RandomForestRegressor
the trees by the paper's and by the default recipe and the ensemble are, and the milliseconds of a single row, as an
array and as a data frame. The default recipe has larger networks and a memory, calibrates, and checks the support of
rows.
"""

import os
import time

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor

from history import record
from usnrt import USNRTEnsemble, USNRTRegressor

N_TRAIN, N_ASKED, D, REPEATS, SINGLE = 20_000, 1_000_000, 12, 5, 300


def make_rows(n, seed):
    """Ten stripes along the first feature, each noisier than the one before."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, D))
    std = 0.05 * 1.5 ** np.floor(10 * X[:, 0])
    return X, np.sin(5 * X[:, 1]) + X[:, 2] * X[:, 3] + std * rng.standard_normal(n)


def seconds(predict, repeats=REPEATS):
    """The best wall time of several runs, and the best processor time."""
    wall, processor = [], []
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        predict()
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    return min(wall), min(processor)


def many_rows(models, forest, asked):
    """Rows per second; the processor time shows what busy machines hide."""
    ratios, named = [], {}
    for name, n_jobs in (("all cores", -1), ("one thread", 1)):
        forest.set_params(n_jobs=n_jobs)
        # a tenth of the rows: its time is proportional to them, and it is long
        peer, peer_processor = seconds(lambda: forest.predict(asked[: N_ASKED // 10]), repeats=2)
        peer *= 10
        print(f"{name}: forest {N_ASKED / peer:,.0f} rows/s, mean only")
        for recipe, model in models.items():
            model.set_params(n_jobs=n_jobs)
            mine, processor = seconds(lambda model=model: model.predict(asked, return_std=True), repeats=2)
            each = 1e6 * processor / N_ASKED
            print(f"{name}: mean and std by the {recipe} recipe {N_ASKED / mine:,.0f} rows/s, {each:.2f} us per row")
            ratios.append(f"{peer / mine:.1f}x ({recipe}, {name})")
            if n_jobs == 1:
                named[f"mean and std by the {recipe} recipe, forest of 100 trees"] = 10 * peer_processor / processor
        tree = models["default"]
        for kind, predict in (("interval", tree.predict_interval), ("table", tree.predict_table)):
            mine, _ = seconds(lambda predict=predict: predict(asked), repeats=2)
            print(f"{name}: {kind} by the default recipe {N_ASKED / mine:,.0f} rows/s")
    record("predict", named)
    print("ratio: " + ", ".join(ratios))


def one_row(models, asked):
    """Median milliseconds of processor of the predictions of single rows."""
    for name, model in models.items():
        model.set_params(n_jobs=-1)
        for kind, predict in (
            ("mean", model.predict),
            ("mean and std", lambda X, model=model: model.predict(X, return_std=True)),
            ("interval", model.predict_interval),
        ):
            predict(asked[:1])
            times = [seconds(lambda row=row: predict(asked[row : row + 1]), repeats=1)[1] for row in range(SINGLE)]  # noqa: B023
            print(f"one row, {name}, {type(asked).__name__}: {kind} {1e3 * np.median(times):.2f} ms")


def main():
    X, y = make_rows(N_TRAIN, seed=0)
    asked, _ = make_rows(N_ASKED, seed=1)
    frame, asked_frame = (pd.DataFrame(rows, columns=[f"x{j}" for j in range(D)]) for rows in (X, asked[:SINGLE]))
    tree = USNRTRegressor(min_samples_leaf=1000, max_epochs=20, random_state=0)
    ensemble = USNRTEnsemble(USNRTRegressor(min_samples_leaf=1000, max_epochs=5), random_state=0)
    models = {
        "paper": USNRTRegressor.paper(min_samples_leaf=1000, max_epochs=20, alpha=1e-6, random_state=0).fit(X, y),
        "default": clone(tree).fit(X, y),
        "ensemble": clone(ensemble).fit(X, y),
    }
    forest = RandomForestRegressor(100, random_state=0, n_jobs=-1).fit(X, y)
    leaves = ", ".join(f"{recipe} {models[recipe].n_leaves_}" for recipe in ("paper", "default"))
    print(f"{N_ASKED:,} rows x {D} features; leaves: {leaves}; {os.cpu_count()} cores")
    many_rows(models, forest, asked)
    one_row({name: models[name] for name in ("default", "ensemble")}, asked)
    one_row({"default": tree.fit(frame, y), "ensemble": ensemble.fit(frame, y)}, asked_frame)


if __name__ == "__main__":
    main()
