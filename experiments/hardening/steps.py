"""The steps of a random sequence: each does something that a user may do with a fitted model, and checks it.

A step that does not apply to the model returns False.
"""

import contextlib
import io
import os
import warnings

import numpy as np
from invariants import check, check_distribution, check_equal_bits, check_sentence, predictions
from sklearn.base import clone

COVERAGE = 0.9
SHIFTED = ("numpy", "pandas", "polars", "arrow")


class Run:
    """A fitted model with its rows, a folder, and what the steps have counted."""

    def __init__(self, model, library, train, fresh, test, bounds, rng, folder):
        self.model, self.library, self.rng, self.folder = model, library, rng, folder
        self.columns, self.y, self.weight = train
        self.fresh, self.test = fresh, test  # pairs of columns and targets
        low, high = bounds
        self.low, self.high = -np.inf if low is None else low, np.inf if high is None else high
        self.coverage = None
        self.errors = []

    @property
    def X(self):
        """The training table."""
        return self.columns.table(self.library)

    @property
    def X_test(self):
        """The test table."""
        return self.test[0].table(self.library)

    def saved(self, name="model.usnrt"):
        """The bytes of the model's file."""
        path = os.path.join(self.folder, name)
        self.model.save(path)
        with open(path, "rb") as file:
            return file.read()


def predict(run):
    """Distributions and intervals of test rows."""
    check_distribution(run.model.predict_dist(run.X_test), run.test[1], run.low, run.high)
    ends = run.model.predict_interval(run.X_test, [0.5, 0.9])
    check(ends[:, 0] <= ends[:, 1], "lower bounds are below upper bounds")
    check((ends[:, 0, 1] <= ends[:, 0, 0]) & (ends[:, 1, 0] <= ends[:, 1, 1]), "intervals are nested")
    check((ends >= run.low) & (ends <= run.high), "intervals are within the bounds of the target")


def one_row(run):
    """A row's prediction does not depend on the other rows of the call."""
    row = int(run.rng.integers(len(run.test[1])))
    alone = run.model.predict_quantiles(run.test[0].take([row]).table(run.library), [0.1, 0.9])[0]
    check(alone == run.model.predict_quantiles(run.X_test, [0.1, 0.9])[row], "a row alone has the same bits")


def save_and_load(run):
    """The same bits after a round trip, of predictions and of the file."""
    import usnrt

    before, content = predictions(run.model, run.X_test), run.saved()
    loaded = usnrt.load(os.path.join(run.folder, "model.usnrt"))
    check_equal_bits(before, predictions(loaded, run.X_test), "after save and load")
    run.model = loaded
    check(run.saved("again.usnrt") == content, "a loaded model is saved as the same bytes")


def _refitted(run, rows, **changes):
    columns, weight = run.columns.take(rows), None if run.weight is None else run.weight[rows]
    model = clone(run.model).set_params(**changes)
    return model.fit(columns.table(run.library), run.y[rows], sample_weight=weight)


def refit_in_threads(run):
    """The same bits for one and for two threads."""
    rows = np.arange(len(run.y))
    ones, twos = (predictions(_refitted(run, rows, n_jobs=n), run.X_test) for n in (1, 2))
    check_equal_bits(ones, twos, "for n_jobs=1 and n_jobs=2")


def refit_permuted(run):
    """The same bits for another order of the rows."""
    rows = np.arange(len(run.y))
    forward, backward = (predictions(_refitted(run, order), run.X_test) for order in (rows, run.rng.permutation(rows)))
    check_equal_bits(forward, backward, "for permuted rows")


def calibrate(run):
    """Coverage of test rows after a calibration on fresh rows, which is guaranteed."""
    if not hasattr(run.model, "tree_"):
        return False
    columns, y = run.fresh
    by = str(run.rng.choice(["region", "global"]))
    run.model.calibrate(columns.table(run.library), y, by=by)
    ends = run.model.predict_interval(run.X_test, COVERAGE)
    inside = (ends[:, 0] <= run.test[1]) & (run.test[1] <= ends[:, 1])
    run.coverage = {"inside": int(inside.sum()), "rows": len(inside), "calibration": len(y),
                    "finite": float(np.isfinite(ends).all(axis=1).mean())}  # fmt: skip


def predict_table(run):
    """The table of predictions has the values of the single methods."""
    table = run.model.predict_table(run.X_test, COVERAGE)
    mean = np.asarray(table["mean"])
    check(mean == run.model.predict(run.X_test), "predict_table has the mean of predict")
    ends = run.model.predict_interval(run.X_test, COVERAGE)
    check(np.asarray(table["lower"]) == ends[:, 0], "predict_table has the bounds of predict_interval")


def other_library(run):
    """The same table from another library gives the same bits, if all columns are numbers."""
    kinds = set(run.columns.kinds.values())
    if not kinds <= {"number", "gaps", "heavy", "grid", "constant", "all missing"} or run.library == "numpy":
        return False
    other = str(run.rng.choice([name for name in SHIFTED if name not in ("numpy", run.library)]))
    X = run.test[0].table(other)
    check(run.model.predict(X) == run.model.predict(run.X_test), f"the same bits from {other}")


def unseen(run):
    """Rows with categories, missing values and numbers that training did not have."""
    columns = run.test[0].take(np.arange(len(run.test[1])))
    for name, values in columns.values.items():
        values, share = values.copy(), run.rng.random(len(values)) < 0.3
        if values.dtype == object and columns.kinds[name] in ("text", "category", "many labels"):
            values[share] = run.rng.choice(["unseen", "\x00", "ß" * 300])
        elif values.dtype.kind == "f":
            values[share] = run.rng.choice([np.nan, 1e30, -1e30, 0.0])
        elif values.dtype.kind == "M":
            values[share] = run.rng.choice(
                [np.datetime64("NaT"), np.datetime64("1815-06-18"), np.datetime64("2262-01-01")]
            )
        columns.values[name] = values
    check_distribution(run.model.predict_dist(columns.table(run.library)), run.test[1], run.low, run.high)


def bad_input(run):
    """Bad calls raise one sentence and leave the model as it was."""
    before = run.saved()
    X, y = run.X, run.y
    calls = {
        "infinite target": lambda: run.model.fit(X, np.where(np.arange(len(y)) == 1, np.inf, y)),
        "too few targets": lambda: run.model.fit(X, y[:-1]),
        "negative weight": lambda: run.model.fit(X, y, sample_weight=-np.ones(len(y))),
        "no weight": lambda: run.model.fit(X, y, sample_weight=np.zeros(len(y))),
        "no rows": lambda: run.model.predict(run.columns.take([]).table(run.library)),
        "lists": lambda: run.model.predict([[[1.0]]]),
        "text": lambda: run.model.predict(np.array([["x"] * len(run.columns.values)], dtype=object)),
        "more columns": lambda: run.model.predict(np.ones((2, len(run.columns.values) + 1))),
        "bad level": lambda: run.model.predict_quantiles(run.X_test, [0.5, 1.5]),
        "bad coverage": lambda: run.model.predict_interval(run.X_test, np.nan),
        "no path": lambda: run.model.fit("/no/such/file.csv", "y"),
    }
    name = str(run.rng.choice(list(calls)))
    try:
        with warnings.catch_warnings():  # of scikit-learn, for tables without the names of the fit
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            calls[name]()
    except (ValueError, TypeError) as error:
        check_sentence(error)
        run.errors.append(f"{name}: {type(error).__name__}")
    except FileNotFoundError:
        run.errors.append(f"{name}: FileNotFoundError")
    else:
        check(name == "text", f"{name!r} is refused")  # text may be what the columns hold
    check(run.saved("after.usnrt") == before, f"{name!r} leaves the model as it was")


def report(run):
    """A report, whole and of test rows."""
    import usnrt

    path = os.path.join(run.folder, "report.html")
    usnrt.report(run.model, run.X_test, run.test[1], path)
    with open(path, encoding="utf-8") as file:
        page = file.read()
    check(page.rstrip().endswith("</html>"), "the page is whole")


def evaluate(run):
    """Metrics are numbers."""
    import usnrt

    table = usnrt.evaluate(run.model, run.X_test, run.test[1])
    values = dict(zip(table["metric"].tolist(), table["value"].tolist()))
    check(values["crps"] >= 0 if "crps" in values else True, "the CRPS is a number of at least 0")


def explain(run):
    """Contributions add up."""
    if not hasattr(run.model, "tree_") or run.model.model_.kept.background is None:
        return False
    X = run.test[0].take(np.arange(min(3, len(run.test[1])))).table(run.library)
    for row, mean in zip(run.model.explain(X), run.model.predict(X)):
        total = row.base_mean + sum(row.mean_contributions.values()) + row.mean_adjustment
        size = abs(mean) + abs(row.base_mean) + sum(map(abs, row.mean_contributions.values()))
        check(abs(total - mean) <= 1e-6 * size, "contributions add up to the mean")
        str(row)


def onnx(run):
    """The graph predicts as the model does."""
    import onnxruntime as ort

    from usnrt.onnx import feeds, to_onnx

    if type(run.model).__name__ not in ("USNRTRegressor", "USNRTEnsemble"):
        return False
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="an ONNX graph does not recognise")
        proto = to_onnx(run.model)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    mean, std, region, quantiles, _ = session.run(None, feeds(run.model, run.X_test))
    check(np.isfinite(mean) & (std >= 0), "the graph predicts finite moments")
    check(np.diff(quantiles, axis=1) >= 0, "quantiles of the graph rise")
    check(region == run.model.apply(run.X_test), "the regions of the graph are those of the model")
    calibration = run.model.calibration_
    if calibration is None or not calibration.has_familiar:
        expected, spread = run.model.predict(run.X_test, return_std=True)
        # a graph integrates targets with bounds or a logarithm over few nodes, see docs/calibration.md
        allowed = 2e-4 * np.abs(expected) + (2e-4 if run.model.target_map_ is None else 0.025) * spread
        check(np.abs(mean - expected) <= allowed, "the graph has the mean of the model")


def pipeline(run):
    """A pipeline predicts what its last step does."""
    from sklearn.pipeline import Pipeline

    import usnrt

    whole = usnrt.in_pipeline(Pipeline([("model", run.model)]))
    check(whole.predict_interval(run.X_test, 0.8) == run.model.predict_interval(run.X_test, 0.8), "equal intervals")


def online(run):
    """Online calibration follows the rows, and survives a round trip."""
    import usnrt

    if not hasattr(run.model, "tree_"):
        return False
    follower = usnrt.OnlineCalibrator(run.model, COVERAGE)
    ends = follower.predict_then_update(run.X_test, run.test[1])
    check(ends[:, 0] <= ends[:, 1], "lower bounds are below upper bounds")
    path = os.path.join(run.folder, "online.usnrt")
    follower.save(path)
    again = usnrt.load(path).predict_interval(run.X_test)
    check(again == follower.predict_interval(run.X_test), "the same bits after save and load")


def command_line(run):
    """Fit, predict, evaluate and info from a file; the exit code is 0, or 1 with one line."""
    data, model = os.path.join(run.folder, "data.csv"), os.path.join(run.folder, "cli.usnrt")
    frame = run.columns.table("pandas").assign(target=run.y)
    frame.to_csv(data, index=False)
    fit = [
        "fit",
        data,
        "-t",
        "target",
        "-o",
        model,
        "--force",
        "--quiet",
        "--set",
        "max_epochs=1",
        "--set",
        "hidden=(8,)",
    ]
    code, _, _ = command(fit)
    if code == 0:
        for arguments in (["predict", model, data], ["evaluate", model, data, "--json"], ["info", model]):
            code, out, err = command(arguments)
            check(code == 0, f"usnrt {arguments[0]} reads what fit has read: {err[:200]}")
            if arguments[0] == "predict":
                check(len(out.splitlines()) == len(run.y) + 1, "one line per row")


def command(arguments):
    """Exit code, output and messages of a command in this process."""
    from usnrt.cli._run import run

    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    sentence = err.getvalue().strip()
    check(code in (0, 1), f"exit code 0 or 1 of usnrt {arguments[0]}, got {code}: {sentence[-300:]}")
    if code:
        check(sentence.splitlines()[-1].startswith("usnrt: "), "the last message is a sentence")
    out.flush()
    return code, out.buffer.getvalue().decode(), err.getvalue()


def compare(run):
    """A comparison with a constant and a forest."""
    import usnrt
    from usnrt.paper.baselines import ExtraTreesVarianceRegressor

    if len(run.y) < 40:
        return False
    forest = ExtraTreesVarianceRegressor(n_estimators=3, random_state=0)
    result = usnrt.compare(run.X, run.y, {"forest": forest, "constant": "constant"}, n_jobs=1)
    check(bool(result.verdict), "a comparison has a verdict")


# step -> how often it is drawn
STEPS = {
    predict: 6, one_row: 2, save_and_load: 4, calibrate: 4, predict_table: 2, unseen: 3, bad_input: 3, other_library: 1,
    report: 1, evaluate: 2, explain: 2, onnx: 2, pipeline: 1, online: 2, refit_in_threads: 0.7, refit_permuted: 0.7,
    command_line: 0.4, compare: 0.4,
}  # fmt: skip
