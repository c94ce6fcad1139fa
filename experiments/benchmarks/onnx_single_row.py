"""One row at a time: the library's ``predict`` against onnxruntime with the graph that ``to_onnx`` makes.

Both answer with mean and standard deviation, in one thread of one process; onnxruntime adds leaf and quantiles. Prints
microseconds a row and, last, how much faster the graph is.
"""

from time import process_time

import numpy as np
import onnxruntime
from sklearn.base import clone

from history import record
from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.onnx import feeds

N_TRAIN, N_ASKED, D, ROUNDS = 4000, 50, 12, 5


def make_rows(n, seed):
    """Four stripes along the first feature, each noisier than the one before."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, D))
    std = 0.05 * 3 ** np.floor(4 * X[:, 0])
    return X, np.sin(5 * X[:, 1]) + X[:, 2] * X[:, 3] + std * rng.standard_normal(n)


def microseconds(ask, questions):
    """Median time of an answer in the best of some rounds: a busy machine slows rounds down, never speeds them up."""
    medians = []
    for _ in range(ROUNDS):
        times = []
        for question in questions:
            start = process_time()
            ask(question)
            times.append(process_time() - start)
        medians.append(np.median(times))
    return 1e6 * min(medians)


def main():
    X, y = make_rows(N_TRAIN, seed=0)
    rows = [row[None] for row in make_rows(N_ASKED, seed=1)[0]]
    # The size of the networks counts, not how well they are trained.
    ours = USNRTRegressor(min_samples_leaf=500, max_epochs=3)
    paper = USNRTRegressor.paper(min_samples_leaf=500, max_epochs=3, alpha=1e-6)
    how = {"random_state": 0, "n_jobs": 1}
    models = {
        "tree": clone(ours).set_params(**how),
        "tree of the paper": clone(paper).set_params(**how),
        "ensemble of 5": USNRTEnsemble(ours, **how),
        "ensemble of the paper": USNRTEnsemble.paper(estimator=paper, **how),
    }
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    ratios = []
    for name, model in models.items():
        model.fit(X, y)
        session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString(), options)
        library = microseconds(lambda row, model=model: model.predict(row, return_std=True), rows)
        fed = [feeds(model, row) for row in rows]
        graph = microseconds(lambda inputs, session=session: session.run(None, inputs), fed)
        ratios.append(library / graph)
        print(f"{name} ({model.n_leaves_} leaves): library {library:,.0f} us a row, onnxruntime {graph:,.0f} us")
    # here the graph is ours: above 1 it is faster than the library's own prediction
    record("onnx_single_row", {f"one row of a {name}, the library itself": r for name, r in zip(models, ratios)})
    print("ratio: " + ", ".join(f"{r:.0f}x for the {name}" for name, r in zip(models, ratios)) + " (goal 1x)")


if __name__ == "__main__":
    main()
